# SPDX-License-Identifier: Apache-2.0

"""Self-tests of slots, with the known answers of their cores.

A self-test does only what a session would do: through the driver, it opens the
programmed slot, sends input and receives output.
"""

from __future__ import annotations

from fpgapool.accelerators import base as accelerators
from fpgapool.drivers import base
from fpgapool.vocabulary import codes

# A few bytes of a wrong answer are enough; more could flood a log.
_SHOWN_BYTES = 8


def run(
    driver: base.Driver, device: str, slot: int, profile: base.Profile
) -> None:
    """Compare the output of a programmed slot with the known answers.

    The known answers are those of the accelerator's software core. The call
    blocks while the slot computes. The slot must be scrubbed afterwards.

    :param profile: the profile that programming returned. If there are no
        known answers, the slot passes, because it could be programmed.
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
        # The bitstream sets these parameters itself, so the answer does not
        # apply.
        return
    except Exception as exc:
        raise _failure(f"cannot be opened: {type(exc).__name__}") from exc
    try:
        accelerators.set_arguments(core, answer.arguments)
        output = _compute(core, answer.data)
    except Exception as exc:
        # A driver may raise any exception.
        raise _failure(f"failed to compute: {type(exc).__name__}") from exc
    finally:
        core.cancel()
    if output != answer.output:
        raise _failure(
            f"computed a wrong result: {_shown(output)} instead of"
            f" {_shown(answer.output)}"
        )


def _compute(core: base.Core, data: bytes) -> bytes:
    # Even a core that works in place accepts a separate buffer for output.
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
