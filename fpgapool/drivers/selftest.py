# SPDX-License-Identifier: Apache-2.0

"""Self-tests of slots: a known answer for each core.

A self-test uses only what a session would use: the slot is already programmed,
and is opened, fed and asked for its output through the driver.
"""

from __future__ import annotations

from fpgapool.accelerators import base as accelerators
from fpgapool.drivers import base
from fpgapool.vocabulary import codes

# A few bytes of the wrong answer suffice; more may flood a log.
_SHOWN_BYTES = 8


def run(
    driver: base.Driver, device: str, slot: int, profile: base.Profile
) -> None:
    """Compare the output of a programmed slot with the known answers.

    The accelerator's software core has the answers. Blocks for as long as the
    slot computes. The slot has to be scrubbed afterwards.

    :param profile: the result of programming it. Without known answers the
        slot passes because it could be programmed.
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
        # A bitstream that fixes these parameters.
        return
    except Exception as exc:
        raise _failure(f"cannot be opened: {type(exc).__name__}") from exc
    try:
        accelerators.set_arguments(core, answer.arguments)
        output = _compute(core, answer.data)
    except Exception as exc:
        # A driver may raise any exception.
        raise _failure(f"does not compute: {type(exc).__name__}") from exc
    finally:
        core.cancel()
    if output != answer.output:
        raise _failure(
            f"computes a wrong result: {_shown(output)} instead of"
            f" {_shown(answer.output)}"
        )


def _compute(core: base.Core, data: bytes) -> bytes:
    # A core that works in place needs no separate room, but may have it.
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
