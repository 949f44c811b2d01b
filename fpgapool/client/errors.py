# SPDX-License-Identifier: Apache-2.0

"""Errors of the client library.

Every error has a machine-readable code and a human-readable message. Codes are
stable; messages may change.
"""

from __future__ import annotations

import contextlib
import copy
import errno
import functools
import sys
import types
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple
from typing import Self

from fpgapool.vocabulary import codes
from fpgapool.vocabulary import exceptions

_PACKAGE = __name__.partition(".")[0]

# Directions of data, as the client sees them.
INPUT = "input"
OUTPUT = "output"

NO_POOL = (
    "No pool found. Start one: fpgapool-allinone, or set FPGAPOOL_SOCKET,"
    " FPGAPOOL_API_URL or OS_CLOUD"
)

# The process, or the machine, has no free file descriptor.
_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)


class FpgapoolError(exceptions.CodedError):
    """Base of all errors of the client library.

    :ivar code: stable machine-readable code.
    :ivar message: human-readable explanation; it may change.
    :ivar index: number of the input that failed, from 0, if
        :func:`fpgapool.client.map` raises the error; otherwise None.
    :ivar stage: number of the stage that failed, from 1, if a chain raises the
        error; otherwise None.
    :ivar request_id: ID of the request, which the log lines of all services
        that served it contain; None if nothing was requested.
    """

    index: int | None = None
    stage: int | None = None
    request_id: str | None = None
    #: Whether the pool cannot know the request, as it was not found.
    unsent = False
    # The class that was called, if the code has chosen this one.
    _called: type[FpgapoolError] | None = None

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.__class__ = _class_for(type(self), code)

    def __reduce__(self) -> tuple[Any, ...]:
        called = self._called or type(self)
        return _made_again, (called, self.code, self.args), self.__dict__

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text} ({self.request_id})" if self.request_id else text

    def again(self) -> Self:
        """Return a copy to raise.

        A raised error refers to its callers' local variables. Keeping such an
        error would create a reference cycle, and so keep their memory and
        descriptors until Python collects the cycle.
        """
        copied = copy.copy(self).with_traceback(None)
        # Libraries that pickle errors, such as tblib, would also copy these.
        copied.__cause__ = copied.__context__ = None
        copied.__suppress_context__ = False
        return copied

    def of_stage(self, number: int, accelerator: str) -> Self:
        """Return a copy that names the stage of a chain.

        :param number: number of the stage, from 1.
        """
        copied = self.again()
        if copied.stage is None:
            copied.stage = number
            copied.message = f"stage {number} ({accelerator}): {self.message}"
            copied.args = (f"{self.code}: {copied.message}",)
        return copied


class InvalidRequest(FpgapoolError):
    """An argument is invalid; nothing was sent."""


class InvalidParams(InvalidRequest):
    """The parameters are invalid for the accelerator."""

    def __init__(self, message: str) -> None:
        super().__init__(codes.INVALID_PARAMS, message)


class RequestRejected(FpgapoolError):
    """The pool rejected the request, or ended it before it was served."""


class WaitTimeout(RequestRejected):
    """No slot became free within the request's waiting time."""

    def __init__(self, message: str) -> None:
        super().__init__(codes.WAIT_TIMEOUT, message)


class OperationTimeout(FpgapoolError):
    """The caller's own time limit was exceeded."""

    def __init__(self, message: str) -> None:
        super().__init__(codes.TIMEOUT, message)


class Cancelled(FpgapoolError):
    """The request was cancelled."""

    def __init__(self, message: str = "cancelled") -> None:
        super().__init__(codes.CANCELLED, message)


class Place(NamedTuple):
    """A place that does not lead to a pool.

    :ivar why: why it does not.
    :ivar notable: whether something is there that should have led to one.
    """

    name: str
    why: str
    notable: bool

    def __str__(self) -> str:
        return f"{self.name} ({self.why})"


class FrontDoorUnavailable(FpgapoolError):
    """There is no front door, or it does not respond.

    :ivar places: where the library looked, if it found no pool at all.
    """

    def __init__(self, message: str, places: Iterable[Place] = ()) -> None:
        super().__init__(codes.FRONT_DOOR_UNAVAILABLE, message)
        self.places = tuple(places)


def no_pool(places: Sequence[Place]) -> FrontDoorUnavailable:
    """Return the error for a machine on which nothing leads to a pool.

    Its message names only notable places.
    """
    notable = [str(place) for place in places if place.notable]
    text = ". ".join([NO_POOL, *notable])
    return unreached(FrontDoorUnavailable(text, places))


def unreached(error: FrontDoorUnavailable) -> FrontDoorUnavailable:
    """Mark an error of a request that was not sent; it gets no ID."""
    error.unsent = True
    return error


class TooManyOpenFiles(FpgapoolError):
    """This program, or its machine, has no free file descriptor."""

    def __init__(self, message: str) -> None:
        super().__init__(codes.TOO_MANY_OPEN_FILES, message)


class SessionClosed(FpgapoolError):
    """The session was already closed."""

    def __init__(self, message: str = "the session is closed") -> None:
        super().__init__(codes.SESSION_CLOSED, message)


class SessionFailed(FpgapoolError):
    """The session ended before its work was done.

    :ivar offset_bytes: input bytes whose output has arrived completely.
    """

    def __init__(self, code: str, message: str, offset_bytes: int = 0) -> None:
        super().__init__(code, message)
        self.offset_bytes = offset_bytes


class TaskFailed(FpgapoolError):
    """A task of a group failed; other tasks are not affected."""


class ChecksumMismatch(SessionFailed):
    """The accelerator processed data that differs from the client's data.

    :ivar direction: ``input`` or ``output``.
    :ivar start_bytes: position up to which the data is correct.
    :ivar end_bytes: position up to which the data was compared; the difference
        is between the two positions.
    """

    def __init__(
        self,
        direction: str,
        start_bytes: int,
        end_bytes: int,
        difference: str,
        offset_bytes: int,
    ) -> None:
        super().__init__(
            codes.CHECKSUM_MISMATCH,
            f"{direction} bytes {start_bytes} to {end_bytes} were changed "
            f"between this machine and the accelerator: {difference}",
            offset_bytes,
        )
        self.direction = direction
        self.start_bytes = start_bytes
        self.end_bytes = end_bytes


class AccessDenied(FpgapoolError):
    """The pool does not accept the credentials, or does not allow this."""


class AcceleratorFailed(FpgapoolError):
    """The accelerator failed, or no slot could be prepared for it."""


class CoreUnavailable(FpgapoolError):
    """This machine has no software core, so its CPU cannot compute."""


class DeadlineMissed(FpgapoolError):
    """The session cannot meet its deadline, or has not met it."""


class GroupNotFound(FpgapoolError):
    """There is no such group, or this program is not its client."""


class InsecureConnection(FpgapoolError):
    """A peer does not use TLS, or is not who it should be."""


class InvalidInput(FpgapoolError):
    """The data, its size or an argument does not fit the accelerator."""


class LimitReached(FpgapoolError):
    """The project, the instance or the program has as much as it may."""


class NoSuitableSlot(FpgapoolError):
    """No slot of the pool can run the accelerator, or there are too few."""


class PoolBusy(FpgapoolError):
    """The pool has too much to do; a later attempt may succeed."""


class PoolUnavailable(FpgapoolError):
    """A service of the pool does not work; a later attempt may succeed."""


class SessionBusy(FpgapoolError):
    """Another thread or task is using the session."""


class SessionForked(FpgapoolError):
    """Only the process that opened the session can use it."""


class SessionTimeout(FpgapoolError):
    """The program left its slot unused, or used it, for too long."""


class SlotLost(FpgapoolError):
    """The slot, or the connection to it, was lost; the program may repeat."""


class UnknownAccelerator(FpgapoolError):
    """The pool has no such accelerator, or the group has another one."""


#: Classes by code. An error with one of these codes is of this class, and also
#: of the class that says when it happened, such as :class:`SessionFailed`.
CAUSES: dict[str, type[FpgapoolError]] = {
    **dict.fromkeys(
        (
            codes.ACCESS_REVOKED,
            codes.FORBIDDEN,
            codes.HOST_NOT_LOOPBACK,
            codes.UNAUTHORIZED,
        ),
        AccessDenied,
    ),
    **dict.fromkeys(
        (
            codes.BITSTREAM_DAMAGED,
            codes.BITSTREAM_UNAVAILABLE,
            codes.BITSTREAM_UNFIT,
            codes.BITSTREAM_UNKNOWN,
            codes.BITSTREAM_UNTRUSTED,
            codes.CORE_FAILED,
            codes.DEVICE_OUT_OF_MEMORY,
            codes.KERNEL_BUILD_FAILED,
            codes.KERNEL_HUNG,
            codes.OUT_OF_MEMORY,
            codes.PREPARE_FAILED,
            codes.PROGRAM_FAILED,
            codes.SELF_TEST_FAILED,
        ),
        AcceleratorFailed,
    ),
    codes.CORE_UNAVAILABLE: CoreUnavailable,
    codes.DEADLINE_IMPOSSIBLE: DeadlineMissed,
    codes.DEADLINE_PASSED: DeadlineMissed,
    codes.GROUP_CLIENT_NOT_FOUND: GroupNotFound,
    codes.GROUP_NOT_FOUND: GroupNotFound,
    codes.CERTIFICATE_MISMATCH: InsecureConnection,
    codes.TLS_REQUIRED: InsecureConnection,
    **dict.fromkeys(
        (
            codes.CHAIN_STALLED,
            codes.CLAIM_EXCEEDED,
            codes.INVALID_ARGUMENT,
            codes.INVALID_INPUT,
            codes.INVALID_SIZE,
            codes.SIZE_MISMATCH,
            codes.SIZE_TOO_LARGE,
            codes.TASK_TOO_LARGE,
        ),
        InvalidInput,
    ),
    codes.INSTANCE_SESSION_LIMIT: LimitReached,
    codes.LOCK_LIMIT: LimitReached,
    codes.BUDGET_EXHAUSTED: LimitReached,
    codes.QUOTA_EXCEEDED: LimitReached,
    codes.ACCELERATOR_OUT_OF_USE: NoSuitableSlot,
    codes.NO_COMPATIBLE_SLOT: NoSuitableSlot,
    codes.SET_IMPOSSIBLE: NoSuitableSlot,
    codes.QUEUE_FULL: PoolBusy,
    codes.RATE_LIMITED: PoolBusy,
    codes.TOO_MANY_CONNECTIONS: PoolBusy,
    **dict.fromkeys(
        (
            codes.CONDUCTOR_UNAVAILABLE,
            codes.DATABASE_ERROR,
            codes.DATABASE_UNAVAILABLE,
            codes.INTERNAL_ERROR,
            codes.KEYSTONE_UNAVAILABLE,
            codes.MESSAGE_REFUSED,
            codes.MESSAGE_STALE,
            codes.NOT_LEADER,
        ),
        PoolUnavailable,
    ),
    codes.SESSION_BUSY: SessionBusy,
    codes.SESSION_FORKED: SessionForked,
    codes.CONNECT_TIMEOUT: SessionTimeout,
    codes.HOLD_TIMEOUT: SessionTimeout,
    codes.IDLE_TIMEOUT: SessionTimeout,
    codes.TOO_SLOW: SessionTimeout,
    **dict.fromkeys(
        codes.SLOT_LOST
        | {
            codes.CHAIN_LINK_LOST,
            codes.INCOMPATIBLE_SLOT,
            codes.LOCK_LOST,
            codes.SESSION_LOST,
            codes.TASK_LOST,
        },
        SlotLost,
    ),
    codes.ACCELERATOR_NOT_FOUND: UnknownAccelerator,
    codes.UNKNOWN_ACCELERATOR: UnknownAccelerator,
    codes.WRONG_ACCELERATOR: UnknownAccelerator,
}


def _class_for(called: type[Any], code: str) -> type[Any]:
    """Return the class of an error: the one called, and that of its code."""
    cause = CAUSES.get(code)
    if cause is None or issubclass(called, cause):
        return called
    return _combined(called, cause)


@functools.cache
def _combined(
    called: type[FpgapoolError], cause: type[FpgapoolError]
) -> type[FpgapoolError]:
    if issubclass(cause, called):
        return cause
    return type(
        cause.__name__,
        (cause, called),
        {
            "__doc__": cause.__doc__,
            "__module__": cause.__module__,
            "_called": called,
        },
    )


def _made_again(
    called: type[FpgapoolError], code: str, args: tuple[Any, ...]
) -> FpgapoolError:
    """Make an error from its copy, without calling its constructor."""
    made = _class_for(called, code)
    error: FpgapoolError = made.__new__(made, *args)
    return error


@contextlib.contextmanager
def needing_descriptors() -> Iterator[None]:
    """Report a lack of descriptors as such, because retries do not help.

    :raises TooManyOpenFiles: for errors that a lack of descriptors caused.
    """
    # Ignore an error that the caller is already handling.
    handled = sys.exception()
    try:
        yield
    except Exception as exc:
        if _lacks_descriptors(exc, handled):
            raise TooManyOpenFiles(
                "no free file descriptor; close files or raise the limit "
                "(ulimit -n)"
            ) from exc
        raise


# A separate function for the reason given in FpgapoolError.again().
def _lacks_descriptors(
    exc: BaseException, handled: BaseException | None
) -> bool:
    for one in _with_causes(exc):
        if one is handled:
            return False
        if isinstance(one, OSError) and one.errno in _NO_DESCRIPTOR:
            return True
    return False


def release_frames(exc: BaseException | None) -> None:
    """Clear the local variables of this library's frames in a traceback.

    They may refer to the error itself, see :meth:`FpgapoolError.again`.

    :param exc: the error; the errors that caused it are also cleared.
    """
    for one in _with_causes(exc):
        traceback = one.__traceback__
        while traceback is not None:
            frame = traceback.tb_frame
            name = frame.f_globals.get("__name__", "")
            if name.partition(".")[0] == _PACKAGE:
                # Running frames cannot be cleared.
                with contextlib.suppress(RuntimeError):
                    frame.clear()
            traceback = traceback.tb_next


def _with_causes(exc: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and the errors that caused it, each once."""
    seen: list[BaseException] = []
    while exc is not None and exc not in seen:
        seen.append(exc)
        yield exc
        exc = exc.__cause__ or exc.__context__


class About:
    """A context manager that adds a request's ID to the errors of its block.

    It is not a generator, whose frame would keep the error alive.
    """

    def __init__(self, request_id: str | None) -> None:
        self._request_id = request_id

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> None:
        if (
            isinstance(exc, FpgapoolError)
            and exc.request_id is None
            and not exc.unsent
        ):
            exc.request_id = self._request_id


def invalid(message: str) -> InvalidRequest:
    """Return the error for an argument that no other code describes."""
    return InvalidRequest(codes.INVALID_REQUEST, message)


def rejection(code: str, message: str) -> FpgapoolError:
    """Choose the error class for a code that the pool sent."""
    if code == codes.WAIT_TIMEOUT:
        return WaitTimeout(message)
    if code in (codes.CANCELLED, codes.CANCELLED_BY_CLIENT):
        return Cancelled(message)
    if code == codes.INVALID_PARAMS:
        return InvalidParams(message)
    return RequestRejected(code, message)
