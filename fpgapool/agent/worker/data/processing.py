# SPDX-License-Identifier: Apache-2.0

"""A session's core, which processes pieces of input."""

from __future__ import annotations

import collections
import collections.abc
import contextlib
import functools
import traceback
import typing

from fpgapool.agent.child import memory
from fpgapool.common.monitoring import ratelimit
from fpgapool.drivers import base as drivers
from fpgapool.protocol import frames
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import exceptions

LOG = ratelimit.RateLimitedLog(__name__)


class Task(typing.NamedTuple):
    """A piece of input; ``view`` is empty for an END without data."""

    task_id: int
    offset_bytes: int
    view: memoryview
    end: bool


Collect = collections.abc.Callable[[], int]


class Started(typing.NamedTuple):
    """A piece of input that was passed to the core."""

    task: Task
    room: memoryview
    collect: Collect


class Failure(exceptions.CodedError):
    """The session cannot continue.

    :param message: perhaps of a core, which may quote what it was given.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, drivers.one_line(message))


def open_core(
    driver: drivers.Driver,
    device: str,
    slot: int,
    traffic: drivers.Traffic,
    params: collections.abc.Mapping[str, typing.Any],
) -> drivers.Core:
    """Open a programmed slot.

    :raises Failure: ``INVALID_PARAMS``, ``CORE_FAILED``, or one of
        :data:`codes.DEVICE_FAULTS`.
    """
    try:
        driver.expect(device, slot, traffic)
        return driver.open(device, slot, params)
    except drivers.InvalidParams as exc:
        raise Failure(exc.code, exc.message) from None
    except Exception as exc:
        # Omit the exception's text: it may quote the parameters.
        LOG.error("opening the slot failed: %s", type(exc).__name__)
        raise Failure(
            code_of(exc), "the driver failed to open the slot"
        ) from None


class Processor:
    """Runs a session's core.

    :ivar multiple_bytes: every piece of input except the last must be a
        multiple of this; the core's value overrides the profile's.
    :ivar features: the enabled features.
    :ivar started: pieces that were passed to the core, oldest first.
    :ivar is_computing: whether a thread is waiting for a piece's output.
    :ivar checksums: encoded checksums of all processed data, or None if
        disabled.
    """

    def __init__(self, core: drivers.Core, profile: drivers.Profile) -> None:
        self.core = core
        self.profile = profile
        self.multiple_bytes = (
            core.chunk_multiple_bytes or profile.chunk_multiple_bytes
        )
        self.features: frozenset[str] = frozenset()
        self.checksums: bytes | None = None
        self.started: collections.deque[Started] = collections.deque()
        self.is_computing = False
        self._checksummed: drivers.ChecksummedCore | None = None
        self._cancelled = False

    def agree(self, wanted: frozenset[str]) -> None:
        """Enable the features that both the client and the slot support."""
        agreed = {*wanted} & {frames.BLOCKS_FEATURE, frames.LINK_FEATURE}
        if frames.CHECKSUM_FEATURE in wanted and isinstance(
            self.core, drivers.ChecksummedCore
        ):
            self.core.start_checksums()
            self._checksummed = self.core
            agreed.add(frames.CHECKSUM_FEATURE)
        profile = self.profile
        if frames.CHECKPOINT_FEATURE in wanted and (
            profile.checkpoint
            and not profile.stateless
            and self.core.has_snapshots
        ):
            agreed.add(frames.CHECKPOINT_FEATURE)
        self.features = frozenset(agreed)

    @property
    def has_checkpoints(self) -> bool:
        """Whether the core's state moves to the next slot with the session."""
        return frames.CHECKPOINT_FEATURE in self.features

    def checkpoint(self, offset_bytes: int) -> bytes:
        """Return a frame with the core's state, between two pieces.

        :returns: the encoded frame, or no bytes if the core fails.
        """
        try:
            return frames.checkpoint_frame(offset_bytes, self.core.snapshot())
        except Exception as exc:
            LOG.error(
                "the core failed to save its state: %s", type(exc).__name__
            )
            return b""

    def restore(self, payload: bytes, offset_bytes: int) -> None:
        """Restore the core's state from a frame's payload."""
        try:
            self.core.restore(frames.checkpoint_state(payload), offset_bytes)
        except exceptions.CodedError as exc:
            raise Failure(codes.INVALID_CHECKPOINT, exc.message) from None
        except MemoryError:
            raise out_of_memory() from None
        except Exception as exc:
            LOG.error(
                "the core failed to restore a state: %s", type(exc).__name__
            )
            raise Failure(
                codes.INVALID_CHECKPOINT, "the core rejected the checkpoint"
            ) from None

    def set_argument(self, number: int, data: memoryview) -> None:
        """Pass an argument to the core, before the first piece of input.

        :param data: the argument, which is valid only during the call.
        """
        try:
            self.core.set_argument(number, data)
        except drivers.InvalidInput as exc:
            raise Failure(exc.code, exc.message) from None
        except Exception as exc:
            # Omit the exception's text: it may quote the data.
            LOG.error(
                "the core failed to accept an argument: %s", type(exc).__name__
            )
            raise Failure(
                code_of(exc),
                f"the core failed to accept argument {number}:"
                f" {type(exc).__name__}",
            ) from None

    def needed_bytes(self, length_bytes: int, end: bool) -> int:
        """Return the maximum size of the output that a piece can produce."""
        most = self.core.max_output_bytes
        needed_bytes = most(length_bytes) if length_bytes else 0
        return needed_bytes + (most(0) if end else 0)

    def process(self, task: Task, room: memoryview) -> int:
        """Process a piece; return the number of output bytes."""
        self.start(task, room)
        return self.collect()[1]

    def may_start(self, most: int) -> bool:
        """Whether another piece may be started."""
        started = self.started
        return not started or (
            len(started) < most and not started[-1].task.end
        )

    def start(self, task: Task, room: memoryview) -> None:
        collect: Collect = _nothing
        if task.view:
            try:
                collect = self.core.start(task.view, room, task.offset_bytes)
            except Exception as exc:
                # collect() raises this error, after the earlier results.
                collect = functools.partial(_raise, exc)
        self.started.append(Started(task, room, collect))

    def collect(self) -> tuple[Task, int]:
        """Wait for the output of the oldest started piece."""
        task, room, collect = self.started.popleft()
        self.is_computing = True
        try:
            written_bytes = collect()
            if task.end:
                written_bytes += self.core.finish(room[written_bytes:])
            if self._checksummed is not None:
                self.checksums = _encoded(self._checksummed.checksums())
        except Exception as exc:
            raise self._failure(exc, task) from None
        finally:
            self.is_computing = False
        if not 0 <= written_bytes <= len(room):
            raise Failure(
                codes.CORE_FAILED,
                f"the core wrote {written_bytes} bytes of output, more than"
                f" the {len(room)} that it announced",
            )
        if room is task.view and written_bytes != len(room):
            raise Failure(
                codes.CORE_FAILED,
                f"the core works in place but wrote {written_bytes} bytes for"
                f" {len(room)} bytes of input",
            )
        return task, written_bytes

    def drop(self) -> None:
        """Wait for pieces that use the session's memory; drop their output."""
        while self.started:
            with contextlib.suppress(Failure):
                self.collect()

    def _failure(self, exc: Exception, task: Task) -> Failure:
        if isinstance(exc, drivers.InvalidInput):
            return Failure(exc.code, exc.message)
        kind = type(exc).__name__
        if not self._cancelled:
            # Omit the exception's text: it may quote keys or data.
            LOG.error(
                "the core failed at input offset %d with %s\n%s",
                task.offset_bytes,
                kind,
                "".join(traceback.format_tb(exc.__traceback__)),
            )
        return Failure(
            code_of(exc),
            f"the core failed at input offset {task.offset_bytes}: {kind}",
        )

    def cancel(self) -> None:
        """Cancel the core's computation; any thread may call this."""
        self._cancelled = True
        self.core.cancel()


def _nothing() -> int:
    return 0


def _raise(exc: Exception) -> int:
    raise exc


def out_of_memory() -> Failure:
    """Return the failure for a MemoryError of a session's own."""
    memory.use_reserve()
    return Failure(
        codes.OUT_OF_MEMORY, "the session needs more memory than it may use"
    )


def code_of(exc: Exception) -> str:
    """Return the code for an exception of a driver or core."""
    if isinstance(exc, MemoryError):
        return out_of_memory().code
    code = getattr(exc, "code", None)
    return code if code in codes.DEVICE_FAULTS else codes.CORE_FAILED


def _encoded(sums: drivers.Checksums) -> bytes:
    return frames.Checksums(
        sums.input_bytes,
        sums.output_bytes,
        sums.input_crc32,
        sums.output_crc32,
    ).encode()
