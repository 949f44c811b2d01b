# SPDX-License-Identifier: Apache-2.0

"""Records that go through a ring together; both sides are in this process."""

import os
import select
import struct

import pytest

from fpgapool.common.channels import rings

# Places of the writer's position and of the data, as bytes.
WRITTEN, DATA = 64, 4096


@pytest.fixture
def ring():
    made = rings.Ring.create(4096)
    yield made
    made.close()


def poke(ring, at, word):
    os.pwrite(ring.fd, struct.pack("=Q", word), at)


def test_records_are_taken_in_their_order(ring):
    assert ring.put_all([b"one", b"", b"three"]) == 3
    assert ring.take(2, 100) == [b"one", b""]
    assert ring.take(2, 100) == [b"three"]
    assert ring.take(2, 100) == []
    assert ring.is_drained()


def test_only_records_that_have_room_are_written(ring):
    largest = bytes(ring.max_record_bytes)
    assert ring.put_all([largest, largest, b"x"]) == 2
    assert ring.put_all([b"x"]) == 0
    ring.get()
    ring.free()
    assert ring.put_all([b"x", b"y"]) == 2
    assert ring.take(9, 4096) == [largest, b"x", b"y"]


def test_a_long_record_is_left_and_may_be_held(ring):
    ring.put_all([b"short", b"x" * 1000, b"short"])
    assert ring.take(9, 100) == [b"short"]
    assert ring.take(9, 100) == []
    held = ring.get()
    assert ring.take(9, 100) == []
    assert ring.get() is held
    ring.free()
    assert ring.take(9, 100) == [b"short"]


def test_taking_ends_the_hold_of_the_first_record(ring):
    ring.put_all([b"one", b"two"])
    assert bytes(ring.get()) == b"one"
    assert ring.take(1, 100) == [b"one"]
    assert not ring.held
    assert bytes(ring.get()) == b"two"


def test_a_record_that_never_fits_leaves_those_before(ring):
    with pytest.raises(ValueError, match="larger than"):
        ring.put_all([b"one", bytes(4096)])
    assert ring.take(9, 100) == [b"one"]


@pytest.mark.parametrize("written", [4096 + 8, 2**63, 2**64 - 8])
def test_a_writers_position_that_cannot_be(ring, written):
    poke(ring, WRITTEN, written)
    with pytest.raises(rings.RingDamaged):
        ring.take(9, 100)


def test_a_length_that_cannot_be(ring):
    ring.put_all([b"12345678", b"next"])
    poke(ring, DATA + 16, 4000)
    with pytest.raises(rings.RingDamaged, match="extends"):
        ring.take(9, 4096)


@pytest.mark.parametrize("stranger", [False, True])
def test_the_bell_rings_once_for_all(stranger):
    near = rings.Channel.create(4096, stranger=stranger)
    far = rings.Channel.attach([os.dup(fd) for fd in near.fds])
    near.forget_fds()
    poller = select.poll()
    poller.register(far.fileno(), select.POLLIN)
    assert near.put_all([b"one"]) == 1
    assert not poller.poll(0)
    assert far.take(9, 100) == [b"one"]
    assert far.arm()
    assert near.put_all([]) == 0
    assert not poller.poll(0)
    assert near.put_all([b"two", b"three"]) == 2
    assert poller.poll(0)
    far.disarm()
    assert not poller.poll(0)
    assert far.take(9, 100) == [b"two", b"three"]
    near.close()
    far.close()


def test_a_writer_hears_of_the_room_of_taken_records():
    near = rings.Channel.create(4096)
    far = rings.Channel.attach([os.dup(fd) for fd in near.fds])
    near.forget_fds()
    assert near.put_all([bytes(2040)] * 3) == 2
    assert near.arm(room_bytes=100)
    assert len(far.take(9, 4096)) == 2
    assert near.wait(0, room_bytes=100)
    near.close()
    far.close()
