# SPDX-License-Identifier: Apache-2.0

"""The allowed values of a request for a session.

Client, front door, REST API and conductor each check their input by these
rules.
"""

from __future__ import annotations

import re
import typing

from fpgapool.vocabulary import codes
from fpgapool.vocabulary import exceptions

MAX_SIZE_BYTES = 2**63 - 1
#: Far beyond any use, but far from overflowing the pool's arithmetic.
MAX_TIMEOUT_S = 1e9
MAX_PRIORITY = 1000
#: A regular expression for the whole text.
REQUEST_ID = "[A-Za-z0-9_.:-]{1,64}"

_REQUEST_ID = re.compile(REQUEST_ID)


class RequestError(exceptions.PicklableError):
    """A value that a request must not have.

    :param code: stable code for programs.
    :param message: explanation for people: the value, and the allowed ones.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def is_int(value: object) -> typing.TypeGuard[int]:
    """Whether a value is a whole number; JSON's true is an int to Python."""
    return isinstance(value, int) and not isinstance(value, bool)


def check_request_id(value: object) -> str:
    """Return the client's name of a request.

    :param value: the given value.
    :raises RequestError: INVALID_REQUEST_ID.
    """
    if isinstance(value, str) and _REQUEST_ID.fullmatch(value):
        return value
    raise RequestError(
        codes.INVALID_REQUEST_ID,
        "request_id must be 1 to 64 of the characters A-Z a-z 0-9 _ . : -",
    )


def check_size_bytes(value: object, name: str = "size_bytes") -> int:
    """Return the size of a session's input.

    :param value: the given value.
    :param name: the caller's name of it, for the message.
    :raises RequestError: INVALID_SIZE.
    """
    if is_int(value) and 1 <= value <= MAX_SIZE_BYTES:
        return value
    shown = value if is_int(value) else type(value).__name__
    raise RequestError(
        codes.INVALID_SIZE,
        f"{name} must be a whole number from 1 to {MAX_SIZE_BYTES}, not"
        f" {shown}",
    )


def check_priority(value: object) -> int:
    """Return the priority of a request.

    :param value: the given value.
    :raises RequestError: INVALID_REQUEST.
    """
    if is_int(value) and abs(value) <= MAX_PRIORITY:
        return value
    raise RequestError(
        codes.INVALID_REQUEST,
        f"priority must be a whole number from {-MAX_PRIORITY} to"
        f" {MAX_PRIORITY}",
    )


def check_timeout_s(
    value: object, name: str, *, may_be_zero: bool = False
) -> float | None:
    """Return a time limit in seconds; None if it was not given.

    :param value: the given value.
    :param name: the caller's name of it, for the message.
    :param may_be_zero: whether 0 s is allowed.
    :raises RequestError: INVALID_TIMEOUT.
    """
    if value is None:
        return None
    if (
        (is_int(value) or isinstance(value, float))
        # NaN compares false with everything.
        and 0 <= value <= MAX_TIMEOUT_S
        and (value > 0 or may_be_zero)
    ):
        return float(value)
    least = "at least 0" if may_be_zero else "above 0"
    raise RequestError(
        codes.INVALID_TIMEOUT,
        f"{name} must be {least} and at most {MAX_TIMEOUT_S:.0f} seconds",
    )
