# SPDX-License-Identifier: Apache-2.0

"""Pure checks of clients' requests to a front door."""

from __future__ import annotations

import re
from collections.abc import Mapping

from fpgapool import objects
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import rules
from fpgapool.vocabulary import session

# Other projects refer to a project's own accelerator as name@project.
_ACCELERATOR = re.compile(r"[A-Za-z0-9_.-]{1,64}(@[A-Za-z0-9_.:-]{1,128})?")
_ID = re.compile(r"[A-Za-z0-9-]{1,64}")
_HASH = re.compile(r"[0-9a-f]{64}")

#: Longest name of a group.
MAX_NAME_LENGTH = 255

#: Longest id of a request, if it is a string.
MAX_ID_LENGTH = 64

Members = Mapping[str, object]


def repeatable_id(members: Members) -> int | str | None:
    """Return a request's id, None if it is too long to repeat."""
    number = members.get("id")
    if isinstance(number, str) and len(number) > MAX_ID_LENGTH:
        return None
    return number if isinstance(number, int | str) else None


def session_id(members: Members) -> str:
    """Return the id of the session that the message names.

    :raises rules.RequestError: SESSION_NOT_FOUND.
    """
    return _matching(
        members,
        "session_id",
        _ID,
        codes.SESSION_NOT_FOUND,
        "there is no such session",
    )


def group_id(members: Members) -> str:
    """Return the id of the group that the message names.

    :raises rules.RequestError: GROUP_NOT_FOUND.
    """
    return _matching(
        members,
        "group_id",
        _ID,
        codes.GROUP_NOT_FOUND,
        "there is no such group",
    )


def group_name(members: Members) -> str:
    """Return the name, or the id, of the group that the message names.

    :raises rules.RequestError: GROUP_NOT_FOUND.
    """
    value = members.get("name")
    if not isinstance(value, str) or not 0 < len(value) <= MAX_NAME_LENGTH:
        raise rules.RequestError(
            codes.GROUP_NOT_FOUND, "there is no such group"
        )
    return value


def client_id(members: Members) -> str:
    """Return the id of the group's client that the message names.

    :raises rules.RequestError: GROUP_CLIENT_NOT_FOUND.
    """
    return _matching(
        members,
        "client_id",
        _ID,
        codes.GROUP_CLIENT_NOT_FOUND,
        "the group has no such client",
    )


def secret_hash(members: Members) -> str:
    """Return the hash of a client's secret.

    :raises rules.RequestError: INVALID_REQUEST.
    """
    return _matching(
        members,
        "secret_sha256",
        _HASH,
        codes.INVALID_REQUEST,
        "secret_sha256 must be 64 hexadecimal digits",
    )


def _matching(
    members: Members,
    name: str,
    pattern: re.Pattern[str],
    code: str,
    message: str,
) -> str:
    value = members.get(name)
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise rules.RequestError(code, message)
    return value


def generation(members: Members) -> int:
    """Return the generation that the message names.

    :raises rules.RequestError: INVALID_REQUEST.
    """
    value = members.get("generation")
    if not rules.is_int(value) or not 0 <= value < 2**63:
        raise rules.RequestError(
            codes.INVALID_REQUEST, "generation must be a non-negative integer"
        )
    return value


def size_bytes(members: Members, name: str) -> int:
    """Return a number of bytes.

    :raises rules.RequestError: INVALID_SIZE.
    """
    value = members.get(name)
    if not rules.is_int(value) or not 0 <= value <= rules.MAX_SIZE_BYTES:
        raise rules.RequestError(
            codes.INVALID_SIZE, f"{name} must be a non-negative integer"
        )
    return value


def after(members: Members) -> str:
    """Return the marker after which a list continues; empty: from the start.

    :raises rules.RequestError: INVALID_REQUEST.
    """
    value = members.get("after", "")
    if not isinstance(value, str):
        raise rules.RequestError(
            codes.INVALID_REQUEST, "after must be a string"
        )
    return value


def accelerator(members: Members, member: str = "accelerator") -> str:
    """Return the name of the accelerator that the message names.

    :raises rules.RequestError: UNKNOWN_ACCELERATOR.
    """
    value = members.get(member)
    if not isinstance(value, str) or not _ACCELERATOR.fullmatch(value):
        raise rules.RequestError(
            codes.UNKNOWN_ACCELERATOR, "there is no such accelerator"
        )
    return value


def cancel_target(members: Members) -> tuple[str | None, str | None]:
    """Return session id or request id, whichever the client gave.

    :raises rules.RequestError: SESSION_NOT_FOUND, INVALID_REQUEST_ID.
    """
    if members.get("session_id") is not None:
        return session_id(members), None
    return None, rules.check_request_id(members.get("request_id"))


def open_request(
    members: Members,
    *,
    project_id: str,
    user_id: str,
    host_uuid: str,
) -> objects.OpenRequest:
    """Check an ``open``.

    :raises rules.RequestError: with the code of the first wrong member.
    """
    return objects.OpenRequest(
        request_id=rules.check_request_id(members.get("request_id")),
        project_id=project_id,
        user_id=user_id,
        host_uuid=host_uuid,
        accelerator=accelerator(members),
        claimed_bytes=rules.check_size_bytes(members.get("size_bytes")),
        **session.FIELDS.checked(members),
    )
