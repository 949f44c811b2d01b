# SPDX-License-Identifier: Apache-2.0

"""Sessions on PoCL: pieces that overlap, the caller's memory, and clearing."""

import mmap
import random
import threading

import pytest

from fpgapool.accelerators import base as accelerators
from fpgapool.drivers import base
from fpgapool.drivers.opencl import core as cores
from tests.harness import waiting as tests_waiting
from tests.unit.accelerators import runs
from tests.unit.drivers.opencl import gating


def memory(data):
    """Return memory that begins at a page, as a worker's does."""
    there = memoryview(mmap.mmap(-1, max(1, len(data))))[: len(data)]
    there[:] = data
    return there


@pytest.mark.parametrize("is_own", [False, True])
@pytest.mark.parametrize("name", ["aes", "sha", "ec", "dtw", "aes-cbc"])
def test_many_pieces_are_one_output(start, request, name, is_own):
    if is_own:
        request.getfixturevalue("own_memory")
    _check_many(start, name)


def test_output_that_has_to_be_mapped(start, runner, monkeypatch):
    monkeypatch.setattr(runner.programs, "is_coherent", lambda _device: False)
    _check_many(start, "aes")
    _check_many(start, "aes-cbc")


def _check_many(start, name):
    session = gating.session_of(name)
    data = session.input(
        7, 20 * max(gating.PIECE_BYTES, session.unit_bytes) + 1000
    )
    core = start(name, session.params)
    calls = random.Random(name)
    found, offset = bytearray(), 0
    while offset < len(data):
        count = calls.randrange(1, 9) * gating.PIECE_BYTES
        count += -count % core.chunk_multiple_bytes
        piece = memory(data[offset : offset + count])
        room = memory(bytes(core.max_output_bytes(len(piece))))
        written = core.process(piece, room, offset)
        found += room[:written]
        offset += count
    room = memory(bytes(core.max_output_bytes(0)))
    found += room[: core.finish(room)]
    expected = runs.run(runs.load(name, **session.params), data)
    session.assert_same(bytes(found), expected)
    core.runner.clear()


def test_memory_in_no_place_that_suits_the_device(start):
    session = gating.session_of("aes")
    core = start("aes", session.params)
    data = session.input(1, 5 * gating.PIECE_BYTES)
    there, room = memory(b"?" + data), memory(bytes(len(data) + 3))
    core.process(there[1:], room[3:], 0)
    assert room[3:] == runs.run(runs.load("aes", **session.params), data)


def test_pieces_are_not_copied_if_the_device_has_the_hosts_memory(
    start, runner, monkeypatch
):
    monkeypatch.setattr(
        runner.cl, "enqueue_copy", lambda *_, **__: pytest.fail("a copy")
    )
    core = start("copy", {})
    data = random.Random(1).randbytes(3 * gating.PIECE_BYTES)
    room = memory(bytes(len(data)))
    core.process(memory(data), room, 0)
    assert room == data


def test_transfers_overlap_with_kernels(
    start, runner, own_memory, monkeypatch
):
    session = gating.session_of("aes")
    core = start("aes", session.params)
    data = session.input(1, 5 * gating.PIECE_BYTES)
    room = memory(bytes(len(data)))
    gates = gating.Gates(runner, monkeypatch)
    thread = threading.Thread(target=core.process, args=(data, room, 0))

    def wait_for(uploaded, launched, downloaded):
        tests_waiting.wait_until(
            lambda: gates.are(uploaded, launched, downloaded),
            f"{uploaded} uploads, {launched} launches, {downloaded} downloads",
        )

    thread.start()
    # Two more pieces are on the device while the first one is computed.
    wait_for(3, 0, 0)
    gates.open(0)
    # Its output is back while the next one is computed.
    wait_for(4, 1, 1)
    gates.open(1)
    wait_for(5, 2, 2)
    for number in (2, 3, 4):
        gates.open(number)
    thread.join()
    assert gates.are(5, 5, 5)
    assert room == runs.run(runs.load("aes", **session.params), data)


def test_chunks_overlap(start, runner, own_memory, monkeypatch):
    session = gating.session_of("aes")
    core = start("aes", session.params)
    data = session.input(1, 2 * gating.PIECE_BYTES)
    room = memory(bytes(len(data)))
    gates = gating.Gates(runner, monkeypatch)
    halves = slice(None, gating.PIECE_BYTES), slice(gating.PIECE_BYTES, None)
    first, second = (
        core.start(memory(data)[half], room[half], half.start or 0)
        for half in halves
    )
    assert core.max_started == 2
    # The second one is on the device before the first one is computed.
    tests_waiting.wait_until(
        lambda: gates.are(2, 0, 0) and len(gates.launched) == 2, "two uploads"
    )
    gates.open(0)
    assert first() == gating.PIECE_BYTES
    assert gates.are(2, 1, 1)
    expected = runs.run(runs.load("aes", **session.params), data)
    assert room[: gating.PIECE_BYTES] == expected[: gating.PIECE_BYTES]
    gates.open(1)
    assert second() == gating.PIECE_BYTES
    assert room == expected


def test_a_chunk_that_fails_leaves_the_one_before(start):
    session = gating.session_of("dtw")
    core = start("dtw", session.params)
    data = memory(session.input(1, session.unit_bytes))
    room = memory(bytes(core.max_output_bytes(len(data))))
    expected = memory(bytes(len(room)))
    count_bytes = core.process(data, expected, 0)
    first = core.start(data, room, 0)
    with pytest.raises(base.InvalidInput):
        core.start(data, memory(bytes(len(room))), 8)
    assert first() == count_bytes
    assert room == expected


def test_lengths_of_output_that_a_kernel_reports_are_awaited(start):
    session = gating.session_of("aes-cbc")
    assert start("aes-cbc", session.params).max_started == 1


def test_only_numbers_that_change_are_set(runner):
    set_numbers = []

    class Kernel:
        def set_arg(self, index, value):
            set_numbers.append((index, int(value)))

    setter = runner.arguments.Setter(Kernel())
    for value in (1, 1, 2, 2, 1):
        setter.set_number(3, "uint", value)
    setter.set_number(4, "ulong", 1)
    assert set_numbers == [(3, 1), (3, 2), (3, 1), (4, 1)]


def test_a_piece_within_a_block(start):
    session = gating.session_of("dtw")
    core = start("dtw", session.params)
    room = memory(bytes(1000))
    with pytest.raises(base.InvalidInput, match="within a block"):
        core.process(memory(bytes(session.unit_bytes)), room, 8)


def test_cancelled_while_pieces_are_on_their_way(
    start, runner, own_memory, monkeypatch
):
    core = start("copy", {})
    gates = gating.Gates(runner, monkeypatch)
    data, ended = bytes(9 * gating.PIECE_BYTES), []

    def run():
        with pytest.raises(cores.Cancelled):
            core.process(data, memory(data), 0)
        ended.append(True)

    thread = threading.Thread(target=run)
    thread.start()
    tests_waiting.wait_until(
        lambda: gates.are(3, 0, 0) and len(gates.downloaded) == 3,
        "3 pieces on their way",
    )
    core.cancel()
    assert not ended
    for gate in range(3):
        gates.open(gate)
    thread.join()
    # What was begun has ended, and nothing more was begun.
    assert ended
    assert gates.are(3, 3, 3)


def test_a_command_that_never_ends(start, runner, own_memory, monkeypatch):
    core = start("copy", {})
    gates = gating.Gates(runner, monkeypatch)
    core.runner._wait.__self__.set_limit(0.2)
    for _ in range(2):
        with pytest.raises(base.DriverError) as caught:
            core.process(
                bytes(gating.PIECE_BYTES),
                memory(bytes(gating.PIECE_BYTES)),
                0,
            )
        assert caught.value.code == "KERNEL_HUNG"
    with pytest.raises(base.DriverError) as caught:
        core.runner.clear()
    assert caught.value.code == "KERNEL_HUNG"
    # It does in this test, so that the process can end.
    for number in range(len(gates.gates)):
        gates.open(number)
    runner._KEPT.clear()


def test_how_long_pieces_are():
    profile = accelerators.load_profile("aes")
    assert cores.piece_bytes(profile, True) == cores.MAX_PIECE_BYTES
    own_bytes = cores.piece_bytes(profile, False)
    assert cores.MIN_PIECE_BYTES <= own_bytes <= cores.MAX_PIECE_BYTES
    assert own_bytes == profile.peak_bytes_per_s * cores.PIECE_S


def test_a_core_that_takes_another_input(start):
    copy, sha = start("copy", {}), start("sha", {})
    assert copy.reusable
    assert not sha.reusable
    for data in (b"first", b"second one"):
        room = memory(bytes(100))
        count = copy.process(memory(data), room, 0)
        assert room[:count] == data
        assert copy.finish(room) == 0


def test_a_share_of_the_memory(runner, program):
    built = program("copy")
    small = runner.programs.Program.__new__(runner.programs.Program)
    small.__dict__.update(built.__dict__, memory_bytes=3 << 18)
    kernel = runner.Runner(small, {}, 1 << 18)
    kernel.lane()
    with pytest.raises(base.DriverError) as caught:
        kernel.lane()
    assert caught.value.code == "DEVICE_OUT_OF_MEMORY"
    kernel.clear()
    assert kernel._owned == []
