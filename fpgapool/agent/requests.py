# SPDX-License-Identifier: Apache-2.0

"""Pure checks of what clients ask a front door for."""

from __future__ import annotations

import re
import typing
from collections.abc import Mapping

from fpgapool import objects
from fpgapool.core import codes
from fpgapool.core import exceptions

MAX_SIZE_BYTES = 2**63 - 1

#: Far beyond any use, but far from overflowing the pool's arithmetic.
MAX_TIMEOUT_S = 1e9
MAX_PRIORITY = 1000

_REQUEST_ID = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
# A project's own is name@project where it is not asked for by that project.
_ACCELERATOR = re.compile(r"[A-Za-z0-9_.-]{1,64}(@[A-Za-z0-9_.:-]{1,128})?")
_SESSION_ID = re.compile(r"[A-Za-z0-9-]{1,64}")

Members = Mapping[str, object]


class RequestError(exceptions.PicklableError):
    """A request that cannot be served.

    :param code: stable code for the client.
    :param message: explanation for people.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def request_id(members: Members) -> str:
    """Return the request's id.

    :param members: of the message.
    :raises: RequestError (INVALID_REQUEST_ID).
    """
    value = members.get("request_id")
    if not isinstance(value, str) or not _REQUEST_ID.fullmatch(value):
        raise RequestError(
            codes.INVALID_REQUEST_ID,
            "request_id must be 1 to 64 of the characters A-Z a-z 0-9 _ . : -",
        )
    return value


def session_id(members: Members) -> str:
    """Return the id of the session that is meant.

    :param members: of the message.
    :raises: RequestError (SESSION_NOT_FOUND).
    """
    value = members.get("session_id")
    if not isinstance(value, str) or not _SESSION_ID.fullmatch(value):
        raise RequestError(codes.SESSION_NOT_FOUND, "there is no such session")
    return value


def generation(members: Members) -> int:
    """Return the generation that is meant.

    :param members: of the message.
    :raises: RequestError (INVALID_REQUEST).
    """
    value = members.get("generation")
    if not _is_int(value) or not 0 <= value < 2**63:
        raise RequestError(
            codes.INVALID_REQUEST, "generation must be a whole number"
        )
    return value


def accelerator(members: Members, member: str = "accelerator") -> str:
    """Return the name of the accelerator that is meant.

    :param members: of the message.
    :param member: which of them has the name.
    :raises: RequestError (UNKNOWN_ACCELERATOR).
    """
    value = members.get(member)
    if not isinstance(value, str) or not _ACCELERATOR.fullmatch(value):
        raise RequestError(
            codes.UNKNOWN_ACCELERATOR, "there is no such accelerator"
        )
    return value


def cancel_target(members: Members) -> tuple[str | None, str | None]:
    """Return session id or request id, whichever the client named.

    :param members: of the message.
    :raises: RequestError.
    """
    if members.get("session_id") is not None:
        return session_id(members), None
    return None, request_id(members)


def open_request(
    members: Members,
    *,
    project_id: str,
    user_id: str,
    host_uuid: str,
    expires_at: float,
) -> objects.OpenRequest:
    """Check an ``open``.

    :param members: of the message.
    :param project_id: project of the socket that it came by.
    :param user_id: who asks.
    :param host_uuid: host of the front door.
    :param expires_at: wall clock, seconds.
    :returns: the request for the conductor.
    :raises: RequestError.
    """
    return objects.OpenRequest(
        request_id=request_id(members),
        project_id=project_id,
        user_id=user_id,
        host_uuid=host_uuid,
        accelerator=accelerator(members),
        claimed_bytes=_size_bytes(members),
        priority=_priority(members),
        wait_timeout_s=_timeout_s(members, "wait_timeout_s"),
        expires_at=expires_at,
        connect_timeout_s=_timeout_s(members, "connect_timeout_s"),
        resume_grace_s=_timeout_s(members, "resume_grace_s"),
    )


def _is_int(value: object) -> typing.TypeGuard[int]:
    # JSON's true is an int to Python.
    return isinstance(value, int) and not isinstance(value, bool)


def _size_bytes(members: Members) -> int:
    value = members.get("size_bytes")
    if not _is_int(value) or not 1 <= value <= MAX_SIZE_BYTES:
        raise RequestError(
            codes.INVALID_SIZE,
            f"size_bytes must be a whole number from 1 to {MAX_SIZE_BYTES}",
        )
    return value


def _priority(members: Members) -> int:
    value = members.get("priority", 0)
    if not _is_int(value) or abs(value) > MAX_PRIORITY:
        raise RequestError(
            codes.INVALID_REQUEST,
            f"priority must be a whole number from {-MAX_PRIORITY} to "
            f"{MAX_PRIORITY}",
        )
    return value


def _timeout_s(members: Members, member: str) -> float | None:
    value = members.get(member)
    if value is None:
        return None
    if (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and 0 < value <= MAX_TIMEOUT_S
    ):
        return float(value)
    raise RequestError(
        codes.INVALID_TIMEOUT,
        f"{member} must be a number above 0 and at most "
        f"{MAX_TIMEOUT_S:.0f} seconds",
    )
