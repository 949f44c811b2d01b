# SPDX-License-Identifier: Apache-2.0

"""Tests of the driver; run them with pytest."""

from skeleton import driver

from fpgapool.drivers import base

BOARD = driver.BOARD
BUILTIN = "builtin:copy"


def make():
    return driver.SkeletonDriver({"slots": 2})


def run(made, data):
    core = made.open(BOARD, 0, {})
    room = memoryview(bytearray(core.max_output_bytes(len(data))))
    return bytes(room[: core.process(memoryview(data), room, 0)])


def refused(call, *arguments):
    """Return the code with which a call is refused."""
    try:
        call(*arguments)
    except base.DriverError as error:
        return error.code
    raise AssertionError("it is not refused")


def test_the_board_is_found_and_healthy():
    made = make()
    (device,) = made.discover()
    assert device.name == BOARD
    assert [slot.number for slot in device.slots] == [0, 1]
    assert made.check(BOARD).healthy
    assert not made.health("another").healthy


def test_a_slot_is_programmed_and_used_and_scrubbed():
    made = make()
    # Each may be repeated: an agent that has died begins again.
    for data in (b"one", b"another"):
        for _ in range(2):
            assert made.program(BOARD, 0, BUILTIN).name == "copy"
        assert run(made, data) == data
        for _ in range(2):
            made.scrub(BOARD, 0)


def test_what_is_refused():
    made = make()
    assert refused(made.open, BOARD, 0, {}) == "NOT_PROGRAMMED"
    assert refused(made.open, BOARD, 2, {}) == "NO_SUCH_SLOT"
    for bitstream in ("builtin:nonsense", "bitstream:00"):
        code = refused(made.program, BOARD, 0, bitstream)
        assert code == "BITSTREAM_UNKNOWN"
