# SPDX-License-Identifier: Apache-2.0

"""The allowed values of requests for sessions and groups.

Client, front door, REST API and conductor each check their input by these
rules.
"""

from __future__ import annotations

import re
import typing

from fpgapool.vocabulary import codes
from fpgapool.vocabulary import exceptions
from fpgapool.vocabulary import shapes
from fpgapool.vocabulary import states

MAX_SIZE_BYTES = 2**63 - 1
#: Far beyond any use, but far from overflowing the pool's arithmetic.
MAX_TIMEOUT_S = 1e9
MAX_PRIORITY = 1000
MAX_GROUP_SIZE = 10_000
#: The most projects with which one thing can be shared.
MAX_PROJECTS = 1000

#: A project's id, and what it must be, for refusals.
PROJECT_ID: typing.Final = re.compile(r"[A-Za-z0-9_.:@-]{1,255}")
PROJECT_ID_WORDS: typing.Final = (
    "1 to 255 of the characters A-Z a-z 0-9 _ . : @ -"
)
#: What a host reports as its name and UUID, which become parts of commands,
#: paths and labels of other programs.
HOST_NAME: typing.Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}")
HOST_NAME_WORDS: typing.Final = (
    "a host's name is 1 to 255 of the characters A-Z a-z 0-9 _ . -, the first"
    " one a letter or a digit"
)
HOST_UUID: typing.Final = re.compile(r"[A-Za-z0-9_-]{1,36}")
MAX_RATE_PER_S = 1e9
#: Regular expressions for the whole text.
GROUP_NAME = "[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
REQUEST_ID = "[A-Za-z0-9_.:-]{1,64}"
APPLICATION = REQUEST_ID
#: Such texts, for refusals.
GROUP_NAME_WORDS = (
    "1 to 64 of the characters A-Z a-z 0-9 _ . -, the first one a letter or a"
    " digit"
)
REQUEST_ID_WORDS = "1 to 64 of the characters A-Z a-z 0-9 _ . : -"

_T = typing.TypeVar("_T")
_GROUP_NAME = shapes.matching(GROUP_NAME, GROUP_NAME_WORDS)
_REQUEST_ID = shapes.matching(REQUEST_ID, REQUEST_ID_WORDS)
_APPLICATION = shapes.nullable(_REQUEST_ID)
_SIZE = shapes.integer(1, MAX_SIZE_BYTES)
_SIZE_OR_ZERO = shapes.integer(0, MAX_SIZE_BYTES)
_PRIORITY = shapes.integer(-MAX_PRIORITY, MAX_PRIORITY)
_DEADLINE_ACTION = shapes.nullable(shapes.one_of(states.DEADLINE_ACTIONS))


class RequestError(exceptions.PicklableError):
    """A value that a request must not have.

    :param message: explanation for people: the value, and the allowed ones.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def checked(
    shape: shapes.Shape[_T], value: object, name: str, code: str
) -> _T:
    """Return a value that has a shape.

    :param name: the caller's name of it, for the message.
    :raises RequestError: with the code.
    """
    try:
        return shape(value, "")
    except shapes.Invalid as error:
        raise RequestError(code, f"{name} {error.reason}") from None


def check_request_id(value: object) -> str:
    """Return the client's name of a request.

    :raises RequestError: INVALID_REQUEST_ID.
    """
    code = codes.INVALID_REQUEST_ID
    return checked(_REQUEST_ID, value, "request_id", code)


def check_size_bytes(
    value: object, name: str = "size_bytes", *, may_be_zero: bool = False
) -> int:
    """Return the size of a session's input.

    :param name: the caller's name of it, for the message.
    :param may_be_zero: whether the input may be empty.
    :raises RequestError: INVALID_SIZE.
    """
    shape = _SIZE_OR_ZERO if may_be_zero else _SIZE
    return checked(shape, value, name, codes.INVALID_SIZE)


def check_priority(value: object) -> int:
    """Return the priority of a request.

    :raises RequestError: INVALID_REQUEST.
    """
    return checked(_PRIORITY, value, "priority", codes.INVALID_REQUEST)


def check_timeout_s(
    value: object, name: str, *, may_be_zero: bool = False
) -> float | None:
    """Return a time limit in seconds; None if it was not given.

    :param name: the caller's name of it, for the message.
    :param may_be_zero: whether 0 s is allowed.
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


def check_deadline_action(value: object) -> str | None:
    """Return the action at a deadline; None if it was not given.

    :raises RequestError: INVALID_REQUEST.
    """
    code = codes.INVALID_REQUEST
    return checked(_DEADLINE_ACTION, value, "deadline_action", code)


def check_application(value: object) -> str | None:
    """Return the name of an application; None if it was not given.

    :raises RequestError: INVALID_REQUEST.
    """
    return checked(_APPLICATION, value, "application", codes.INVALID_REQUEST)


def check_group_name(value: object) -> str:
    """Return the name of a group.

    :raises RequestError: INVALID_REQUEST.
    """
    code = codes.INVALID_REQUEST
    return checked(_GROUP_NAME, value, "the group's name", code)


def check_projects(value: object) -> tuple[str, ...]:
    """Return the projects with which something is shared.

    :raises RequestError: INVALID_REQUEST.
    """
    if isinstance(value, list | tuple) and len(value) <= MAX_PROJECTS:
        return tuple(dict.fromkeys(value))
    raise RequestError(
        codes.INVALID_REQUEST,
        f"projects must be a list of at most {MAX_PROJECTS}",
    )


def check_group_sizes(size: int, min_size: int, max_size: int) -> None:
    """Check the sizes of a group.

    :param size: the number of members that it shall have.
    :param min_size: the least number that the pool leaves it.
    :param max_size: the largest number that it may grow to.
    :raises RequestError: INVALID_GROUP_SIZE.
    """
    reason = ""
    if not 1 <= size <= MAX_GROUP_SIZE:
        reason = f"size must be from 1 to {MAX_GROUP_SIZE}, not {size}"
    elif not 0 <= min_size <= MAX_GROUP_SIZE:
        reason = f"min_size must be from 0 to {MAX_GROUP_SIZE}, not {min_size}"
    elif not 1 <= max_size <= MAX_GROUP_SIZE:
        reason = f"max_size must be from 1 to {MAX_GROUP_SIZE}, not {max_size}"
    elif min_size > max_size:
        reason = f"min_size {min_size} is above max_size {max_size}"
    elif not min_size <= size <= max_size:
        reason = (
            f"size {size} is not between min_size {min_size} and max_size"
            f" {max_size}"
        )
    if reason:
        raise RequestError(codes.INVALID_GROUP_SIZE, reason)


def check_goal(
    deadline_at: float | None,
    rate_per_s: float | None,
    actions: int | None,
    now: float,
) -> None:
    """Check the goal of a group: a deadline or a rate.

    :param deadline_at: when all actions must have ended, on the clock of now.
    :param rate_per_s: the tasks that must end in each second.
    :param actions: the number of tasks; a deadline needs it.
    :raises RequestError: INVALID_GOAL.
    """
    reason = ""
    if (deadline_at is None) == (rate_per_s is None):
        reason = "a goal needs either deadline_at or rate_per_s"
    elif deadline_at is not None and actions is None:
        reason = "a deadline needs actions, the number of tasks until then"
    # NaN compares false with everything.
    elif deadline_at is not None and not deadline_at > now:
        reason = "deadline_at is in the past"
    elif deadline_at is not None and not deadline_at <= now + MAX_TIMEOUT_S:
        reason = f"deadline_at is more than {MAX_TIMEOUT_S:.0f} s away"
    elif rate_per_s is not None and not 0 < rate_per_s <= MAX_RATE_PER_S:
        reason = (
            f"rate_per_s must be above 0 and at most {MAX_RATE_PER_S:.0f}, not"
            f" {rate_per_s}"
        )
    elif actions is not None and not 1 <= actions <= MAX_SIZE_BYTES:
        reason = f"actions must be from 1 to {MAX_SIZE_BYTES}, not {actions}"
    if reason:
        raise RequestError(codes.INVALID_GOAL, reason)
