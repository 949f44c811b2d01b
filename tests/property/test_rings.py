# SPDX-License-Identifier: Apache-2.0

"""Rings against a queue, and against a peer that writes nonsense."""

import collections
import contextlib
import os
import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpgapool.common.channels import rings
from tests.property import fuzzing

SIZES = (4096, 8192, 3 * 4096)
#: Bytes of the first page that have a meaning, and the ring's own.
PLACES = (0, 64, 72, 128, 136)
DATA = 4096


@contextlib.contextmanager
def two_ends(size_bytes):
    writer = rings.Ring.create(size_bytes)
    reader = rings.Ring.attach(os.dup(writer.fd))
    try:
        yield writer, reader
    finally:
        reader.close()
        writer.close()


def padded(length):
    return 8 + -(-length // 8) * 8


@st.composite
def lengths(draw, most):
    return draw(
        st.one_of(
            st.integers(0, 40),
            st.integers(0, most),
            st.integers(most - 20, most),
        )
    )


@given(data=st.data(), size_bytes=st.sampled_from(SIZES))
def test_a_ring_is_a_queue(data, size_bytes):
    # The records, and what each of them takes.
    model = collections.deque()
    taken = False
    written = serial = 0
    with two_ends(size_bytes) as (writer, reader):
        most = writer.max_record_bytes
        for action in data.draw(
            st.lists(st.sampled_from("pppgggffw"), max_size=60)
        ):
            match action:
                case "p":
                    length = data.draw(lengths(most))
                    cut = data.draw(st.integers(0, length))
                    serial += 1
                    record = random.Random(serial).randbytes(length)
                    needed = padded(length)
                    left = size_bytes - written % size_bytes
                    needed += left if needed > left else 0
                    used = sum(each for _, each in model)
                    room = used + needed <= size_bytes
                    assert writer.has_room(length) == room
                    assert writer.put(record[:cut], record[cut:]) == room
                    if room:
                        written += needed
                        model.append((record, needed))
                case "g":
                    record = reader.get()
                    assert (None if record is None else bytes(record)) == (
                        model[0][0] if model else None
                    )
                    taken = bool(model)
                case "f" if taken:
                    reader.free(wipe=data.draw(st.booleans()))
                    model.popleft()
                    taken = False
                case "f":
                    with pytest.raises(ValueError, match="no record"):
                        reader.free()
                case "w":
                    writer.wipe()
        for record, _ in model:
            assert bytes(reader.get()) == record
            reader.free()
        assert reader.get() is None


@given(data=st.data(), size_bytes=st.sampled_from(SIZES))
@fuzzing.examples(100)
def test_wiping_leaves_nothing_of_freed_records(data, size_bytes):
    with two_ends(size_bytes) as (writer, reader):
        unread = 0
        for length in data.draw(
            st.lists(lengths(writer.max_record_bytes), max_size=20)
        ):
            while not writer.put(b"\xaa" * length):
                reader.get()
                reader.free()
                unread -= 1
            unread += 1
            if data.draw(st.booleans()):
                reader.get()
                reader.free()
                unread -= 1
            if data.draw(st.booleans()):
                writer.wipe()
        while reader.get() is not None:
            reader.free()
            unread -= 1
        assert unread == 0
        # Once more, for what the unread ones had covered.
        writer.wipe()
        assert b"\xaa" * 8 not in os.pread(writer.fd, 1 << 20, DATA)


def words(size_bytes):
    near = st.integers(0, 2 * size_bytes)
    return st.one_of(
        near,
        near.map(lambda word: word & -8),
        near.map(lambda word: (-word) % 2**64),
        st.sampled_from([2**64 - 1, 2**63, 2**32, 0]),
        st.integers(0, 2**64 - 1),
    )


@given(data=st.data(), size_bytes=st.sampled_from(SIZES))
@fuzzing.examples(200)
def test_a_liar_gets_an_error_and_nothing_else(data, size_bytes):
    """All uses end, stay within the ring, and fail with its own error."""
    with two_ends(size_bytes) as (writer, reader):
        guard = os.pread(writer.fd, 64, 0)
        for action in data.draw(
            st.lists(st.sampled_from("llpgfwcs"), max_size=40)
        ):
            try:
                match action:
                    case "l":
                        place = data.draw(
                            st.sampled_from(PLACES[1:])
                            | st.integers(0, size_bytes // 8 - 1).map(
                                lambda word: DATA + 8 * word
                            )
                        )
                        word = data.draw(words(size_bytes))
                        os.pwrite(writer.fd, struct.pack("=Q", word), place)
                    case "p":
                        length = data.draw(lengths(writer.max_record_bytes))
                        writer.put(b"\xaa" * length)
                    case "g":
                        record = reader.get()
                        assert record is None or len(record) <= size_bytes
                    case "f":
                        with contextlib.suppress(ValueError):
                            reader.free(wipe=True)
                    case "w":
                        writer.wipe()
                    case "c":
                        reader.clear(17)
                    case "s":
                        reader.set(17)
            except rings.RingDamaged:
                pass
        # Nothing was written into what neither side writes.
        assert os.pread(writer.fd, 64, 0) == guard


@given(data=st.data())
@fuzzing.examples(100)
def test_a_liar_cannot_keep_a_reader_busy(data):
    """Each record moves the position, so that the bytes come to an end."""
    size_bytes = 4096
    with two_ends(size_bytes) as (writer, reader):
        lies = data.draw(st.lists(words(size_bytes), min_size=1, max_size=8))
        for at in range(0, size_bytes, 8):
            word = lies[at // 8 % len(lies)]
            os.pwrite(writer.fd, struct.pack("=Q", word), DATA + at)
        os.pwrite(writer.fd, struct.pack("=Q", size_bytes), 64)
        records = 0
        with contextlib.suppress(rings.RingDamaged):
            while reader.get() is not None:
                reader.free()
                records += 1
        assert records <= size_bytes // 8
