# SPDX-License-Identifier: Apache-2.0

"""Errors of the client library.

Every error carries a code for programs and a message for people. Codes are
one stable vocabulary; messages may change.
"""

from __future__ import annotations

from fpgapool.core import exceptions

# Codes that the client itself sets. Do not change the string values. Once
# set, they are set.
CANCELLED = "CANCELLED"
CANCELLED_BY_CLIENT = "CANCELLED_BY_CLIENT"
CERTIFICATE_MISMATCH = "CERTIFICATE_MISMATCH"
CHECKSUM_MISMATCH = "CHECKSUM_MISMATCH"
FRONT_DOOR_UNAVAILABLE = "FRONT_DOOR_UNAVAILABLE"
INCOMPATIBLE_SLOT = "INCOMPATIBLE_SLOT"
INVALID_PARAMS = "INVALID_PARAMS"
INVALID_REQUEST = "INVALID_REQUEST"
INVALID_REQUEST_ID = "INVALID_REQUEST_ID"
INVALID_SIZE = "INVALID_SIZE"
INVALID_TIMEOUT = "INVALID_TIMEOUT"
PROTOCOL_ERROR = "PROTOCOL_ERROR"
SESSION_BUSY = "SESSION_BUSY"
SESSION_CLOSED = "SESSION_CLOSED"
SESSION_FORKED = "SESSION_FORKED"
SESSION_LOST = "SESSION_LOST"
SIZE_MISMATCH = "SIZE_MISMATCH"
TIMEOUT = "TIMEOUT"
TLS_REQUIRED = "TLS_REQUIRED"
WAIT_TIMEOUT = "WAIT_TIMEOUT"

# Directions of data, as the client sees them.
INPUT = "input"
OUTPUT = "output"


class FpgapoolError(exceptions.CodedError):
    """Base of all errors of the client library.

    :ivar code: stable machine-readable code.
    :ivar message: explanation for people; it may change.
    """


class InvalidRequest(FpgapoolError):
    """An argument is wrong; nothing was sent."""


class InvalidParams(InvalidRequest):
    """The accelerator does not take these parameters."""

    def __init__(self, message: str) -> None:
        super().__init__(INVALID_PARAMS, message)


class RequestRejected(FpgapoolError):
    """The pool refused the request, or ended it before it was served."""


class WaitTimeout(RequestRejected):
    """No slot came free within the time that the request may wait."""

    def __init__(self, message: str) -> None:
        super().__init__(WAIT_TIMEOUT, message)


class OperationTimeout(FpgapoolError):
    """The caller's own time limit passed."""

    def __init__(self, message: str) -> None:
        super().__init__(TIMEOUT, message)


class Cancelled(FpgapoolError):
    """The caller, or somebody for it, cancelled the request."""

    def __init__(self, message: str = "cancelled") -> None:
        super().__init__(CANCELLED, message)


class FrontDoorUnavailable(FpgapoolError):
    """There is no front door, or it does not answer."""

    def __init__(self, message: str) -> None:
        super().__init__(FRONT_DOOR_UNAVAILABLE, message)


class SessionClosed(FpgapoolError):
    """The session was closed before."""

    def __init__(self, message: str = "the session is closed") -> None:
        super().__init__(SESSION_CLOSED, message)


class SessionFailed(FpgapoolError):
    """The session ended before its work was done.

    :ivar offset_bytes: input bytes whose output has arrived completely.
    """

    def __init__(self, code: str, message: str, offset_bytes: int = 0) -> None:
        super().__init__(code, message)
        self.offset_bytes = offset_bytes


class ChecksumMismatch(SessionFailed):
    """The accelerator saw other data than the client.

    :ivar direction: ``input`` or ``output``.
    :ivar start_bytes: position in it up to which all is well.
    :ivar end_bytes: position up to which it was compared: the difference is
        between both.
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
            CHECKSUM_MISMATCH,
            f"{direction} bytes {start_bytes} to {end_bytes} were changed "
            f"between here and the accelerator: {difference}",
            offset_bytes,
        )
        self.direction = direction
        self.start_bytes = start_bytes
        self.end_bytes = end_bytes


def rejection(code: str, message: str) -> FpgapoolError:
    """Choose the error class for a code that the pool sent.

    :param code: stable code.
    :param message: explanation for people.
    :returns: the error, for the caller to raise.
    """
    if code == WAIT_TIMEOUT:
        return WaitTimeout(message)
    if code in (CANCELLED, CANCELLED_BY_CLIENT):
        return Cancelled(message)
    if code == INVALID_PARAMS:
        return InvalidParams(message)
    return RequestRejected(code, message)
