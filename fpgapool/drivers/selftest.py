# SPDX-License-Identifier: Apache-2.0

"""Whether a slot computes what it should: a known answer for each core.

Only what a session would use is used: the slot is programmed already, and
is opened, fed and asked for its output through the driver.
"""

from __future__ import annotations

from fpgapool.accelerators import base as accelerators
from fpgapool.drivers import base
from fpgapool.vocabulary import codes

# One word of the right answer says enough; more may fill a log.
_SHOWN_BYTES = 8


def run(
    driver: base.Driver, device: str, slot: int, profile: base.Profile
) -> None:
    """Let a programmed slot compute what it should, where that is known.

    The accelerator's software core has the answers. Blocks for as long as the
    slot computes. The slot has to be scrubbed afterwards.

    :param driver: of the slot.
    :param device: name of the device.
    :param slot: number of the slot in it.
    :param profile: what programming it has returned. One for which no
        answer is known has passed by having been programmed.
    :raises base.DriverError: ``SELF_TEST_FAILED``.
    """
    try:
        answers = accelerators.load_core(profile.core).known_answers
    except accelerators.AcceleratorError:
        return
    for answer in answers:
        _check(driver, device, slot, answer)


def _check(
    driver: base.Driver,
    device: str,
    slot: int,
    answer: accelerators.KnownAnswer,
) -> None:
    try:
        driver.expect(device, slot, base.Traffic())
        core = driver.open(device, slot, answer.params)
    except accelerators.InvalidParams:
        # A bitstream that leaves these to nobody.
        return
    except Exception as exc:
        raise _failure(f"cannot be opened: {type(exc).__name__}") from exc
    try:
        output = _compute(core, answer.data)
    except Exception as exc:
        # Whatever a driver raises when it cannot go on.
        raise _failure(f"does not compute: {type(exc).__name__}") from exc
    finally:
        core.cancel()
    if output != answer.output:
        raise _failure(
            f"computes a wrong result: {_shown(output)} instead of"
            f" {_shown(answer.output)}"
        )


def _compute(core: base.Core, data: bytes) -> bytes:
    # A core that works in place needs no room of its own, but may have it.
    room = bytearray(core.max_output_bytes(len(data)))
    count = core.process(memoryview(bytearray(data)), memoryview(room), 0)
    output = bytes(room[:count])
    room = bytearray(core.max_output_bytes(0))
    return output + bytes(room[: core.finish(memoryview(room))])


def _shown(output: bytes) -> str:
    dots = "..." if len(output) > _SHOWN_BYTES else ""
    return f"{output[:_SHOWN_BYTES].hex()}{dots} ({len(output)} bytes)"


def _failure(message: str) -> base.DriverError:
    return base.DriverError(codes.SELF_TEST_FAILED, f"the slot {message}")
