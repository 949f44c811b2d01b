# SPDX-License-Identifier: Apache-2.0

"""The allowed values in requests for sessions and groups.

The client, the front door, the REST API and the conductor each check their
input with these rules.
"""

from __future__ import annotations

import re
import typing

from fpgapool.vocabulary import codes
from fpgapool.vocabulary import exceptions
from fpgapool.vocabulary import shapes
from fpgapool.vocabulary import states

MAX_SIZE_BYTES = 2**63 - 1
#: Longer than any use, but too short to overflow the pool's arithmetic.
MAX_TIMEOUT_S = 1e9
MAX_PRIORITY = 1000
MAX_GROUP_SIZE = 10_000
#: Maximum number of projects with which a group or bitstream can be shared.
MAX_PROJECTS = 1000

#: Length of a client's secret before it is written in hexadecimal.
SECRET_BYTES: typing.Final = 32

#: A project's ID, and its description for error messages.
PROJECT_ID: typing.Final = re.compile(r"[A-Za-z0-9_.:@-]{1,255}")
PROJECT_ID_WORDS: typing.Final = (
    "1 to 255 of the characters A-Z a-z 0-9 _ . : @ -"
)
#: What is read as an ISO 8601 time: a day, then perhaps T or a space and the
#: time of day. Python takes any character between them, and so
#: "2026-12-01+08:00" for eight o'clock in UTC.
ISO_TIME: typing.Final = re.compile(r"[-0-9W]{7,10}(?:[T ].+)?", re.ASCII)
#: The name and UUID that a host may report. They become parts of commands,
#: paths and labels in other programs.
HOST_NAME: typing.Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}")
HOST_NAME_WORDS: typing.Final = (
    "a host name is 1 to 255 of the characters A-Z a-z 0-9 _ . -, and starts"
    " with a letter or digit"
)
HOST_UUID: typing.Final = re.compile(r"[A-Za-z0-9_-]{1,36}")
MAX_RATE_PER_S = 1e9
#: Regular expressions that must match the whole string.
GROUP_NAME = "[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
REQUEST_ID = "[A-Za-z0-9_.:-]{1,64}"
APPLICATION = REQUEST_ID
SET_ID = REQUEST_ID
#: The number of sessions of a set, or of slots that a group gets at once.
MIN_SET_SIZE, MAX_SET_SIZE = 2, 64
#: The number of stages of a chain.
MIN_STAGES, MAX_STAGES = 2, 8
#: Descriptions of these strings, for error messages.
GROUP_NAME_WORDS = (
    "1 to 64 of the characters A-Z a-z 0-9 _ . -, starting with a letter or"
    " digit"
)
REQUEST_ID_WORDS = "1 to 64 of the characters A-Z a-z 0-9 _ . : -"

_T = typing.TypeVar("_T")


class RequestError(exceptions.PicklableError):
    """An invalid value in a request.

    :param message: names the value and says which values are allowed.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def checked(
    shape: shapes.Shape[_T], value: object, name: str, code: str
) -> _T:
    """Return a value, checked against a shape.

    :param name: the caller's name for the value, used in the message.
    :raises RequestError: with the code, if the check fails.
    """
    try:
        return shape(value, "")
    except shapes.Invalid as error:
        raise RequestError(code, f"{name} {error.reason}") from None


def _checker(
    shape: shapes.Shape[_T], name: str, code: str = codes.INVALID_REQUEST
) -> typing.Callable[[object], _T]:
    """Return a function that checks a value or raises RequestError."""
    return lambda value: checked(shape, value, name, code)


_REQUEST_ID = shapes.matching(REQUEST_ID, REQUEST_ID_WORDS)
check_request_id = _checker(
    _REQUEST_ID, "request_id", codes.INVALID_REQUEST_ID
)
check_application = _checker(shapes.nullable(_REQUEST_ID), "application")
check_set_id = _checker(
    shapes.nullable(_REQUEST_ID), "set_id", codes.INVALID_SET
)
check_set_size = _checker(
    shapes.nullable(shapes.integer(MIN_SET_SIZE, MAX_SET_SIZE)),
    "set_size",
    codes.INVALID_SET,
)
check_set_placement = _checker(
    shapes.nullable(shapes.one_of(states.PLACEMENTS)),
    "set_placement",
    codes.INVALID_SET,
)
check_placement = _checker(
    shapes.nullable(shapes.one_of(states.PLACEMENTS)), "placement"
)
check_deadline_action = _checker(
    shapes.nullable(shapes.one_of(states.DEADLINE_ACTIONS)), "deadline_action"
)
check_group_name = _checker(
    shapes.matching(GROUP_NAME, GROUP_NAME_WORDS), "the group's name"
)
check_priority = _checker(
    shapes.integer(-MAX_PRIORITY, MAX_PRIORITY), "priority"
)

_SIZE = shapes.integer(1, MAX_SIZE_BYTES)
_SIZE_OR_ZERO = shapes.integer(0, MAX_SIZE_BYTES)


def check_size_bytes(
    value: object, name: str = "size_bytes", *, may_be_zero: bool = False
) -> int:
    """Return the checked size of a session's input.

    :raises RequestError: INVALID_SIZE.
    """
    shape = _SIZE_OR_ZERO if may_be_zero else _SIZE
    return checked(shape, value, name, codes.INVALID_SIZE)


def check_timeout_s(
    value: object, name: str, *, may_be_zero: bool = False
) -> float | None:
    """Return a checked time limit in seconds; None if it was not given.

    :raises RequestError: INVALID_TIMEOUT.
    """
    if value is None:
        return None
    if (
        shapes.is_number(value)
        and 0 <= value <= MAX_TIMEOUT_S
        and (value > 0 or may_be_zero)
    ):
        return float(value)
    least = "at least 0" if may_be_zero else "above 0"
    raise RequestError(
        codes.INVALID_TIMEOUT,
        f"{name} must be {least} and at most {MAX_TIMEOUT_S:.0f} seconds",
    )


def check_projects(value: object) -> tuple[str, ...]:
    """Return the projects with which a group is shared, without duplicates.

    :raises RequestError: INVALID_REQUEST.
    """
    if isinstance(value, list | tuple) and len(value) <= MAX_PROJECTS:
        return tuple(dict.fromkeys(value))
    raise RequestError(
        codes.INVALID_REQUEST,
        f"projects must be a list of at most {MAX_PROJECTS} projects",
    )


def check_first_slots(
    min_size: int, *, all_or_none: bool, others: typing.Collection[str]
) -> None:
    """Check what a group says of its first slots.

    :param others: the members that mean them and are given.
    :raises RequestError: INVALID_GROUP_SIZE; INVALID_REQUEST.
    """
    if not all_or_none:
        for name in others:
            raise RequestError(
                codes.INVALID_REQUEST, f"{name} needs all_or_none"
            )
    elif not 1 <= min_size <= MAX_SET_SIZE:
        raise RequestError(
            codes.INVALID_GROUP_SIZE,
            f"min_size must be from 1 to {MAX_SET_SIZE} with all_or_none, not"
            f" {min_size}",
        )


def check_group_sizes(size: int, min_size: int, max_size: int) -> None:
    """Check the sizes of a group.

    :raises RequestError: INVALID_GROUP_SIZE.
    """
    code = codes.INVALID_GROUP_SIZE
    any_size = shapes.integer(0, MAX_GROUP_SIZE)
    least_one = shapes.integer(1, MAX_GROUP_SIZE)
    checked(least_one, size, "size", code)
    checked(any_size, min_size, "min_size", code)
    checked(least_one, max_size, "max_size", code)
    if not min_size <= size <= max_size:
        raise RequestError(
            code,
            f"size {size} is not between min_size {min_size} and max_size"
            f" {max_size}",
        )


def check_goal(
    deadline_at: float | None,
    rate_per_s: float | None,
    actions: int | None,
    now: float,
) -> None:
    """Check the goal of a group: a deadline or a rate.

    :param deadline_at: when all tasks must have completed, on the same clock
        as ``now``.
    :param actions: the number of tasks; required with a deadline.
    :raises RequestError: INVALID_GOAL.
    """
    reason = ""
    if (deadline_at is None) == (rate_per_s is None):
        reason = "a goal requires either deadline_at or rate_per_s"
    elif deadline_at is not None and actions is None:
        reason = (
            "a goal with deadline_at also requires actions, the number of"
            " tasks"
        )
    # NaN compares false with everything.
    elif deadline_at is not None and not deadline_at > now:
        reason = "deadline_at is in the past"
    elif deadline_at is not None and not deadline_at <= now + MAX_TIMEOUT_S:
        reason = (
            f"deadline_at is more than {MAX_TIMEOUT_S:.0f} s in the future"
        )
    elif rate_per_s is not None and not 0 < rate_per_s <= MAX_RATE_PER_S:
        reason = (
            f"rate_per_s must be above 0 and at most {MAX_RATE_PER_S:.0f}, not"
            f" {rate_per_s}"
        )
    elif actions is not None and not 1 <= actions <= MAX_SIZE_BYTES:
        reason = f"actions must be from 1 to {MAX_SIZE_BYTES}, not {actions}"
    if reason:
        raise RequestError(codes.INVALID_GOAL, reason)
