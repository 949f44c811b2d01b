# SPDX-License-Identifier: Apache-2.0

"""Pure checks of clients' requests to a front door."""

from __future__ import annotations

from collections.abc import Mapping

from fpgapool import objects
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import rules
from fpgapool.vocabulary import session
from fpgapool.vocabulary import shapes

_ID = shapes.matching("[A-Za-z0-9-]{1,64}", "an id")
_HASH = shapes.matching("[0-9a-f]{64}", "64 hexadecimal digits")
# Other projects ask for a project's own accelerator as name@project.
_ACCELERATOR = shapes.matching(
    "[A-Za-z0-9_.-]{1,64}(@[A-Za-z0-9_.:-]{1,128})?", "an accelerator"
)
_NAME = shapes.text(255, least=1)
_GENERATION = shapes.integer(0, 2**63 - 1)
_SIZE = shapes.integer(0, rules.MAX_SIZE_BYTES)
_TEXT = shapes.text()

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
    return _named(
        members,
        "session_id",
        _ID,
        codes.SESSION_NOT_FOUND,
        "no such session",
    )


def group_id(members: Members) -> str:
    """Return the id of the group that the message names.

    :raises rules.RequestError: GROUP_NOT_FOUND.
    """
    return _named(
        members,
        "group_id",
        _ID,
        codes.GROUP_NOT_FOUND,
        "no such group",
    )


def group_name(members: Members) -> str:
    """Return the name, or the id, of the group that the message names.

    :raises rules.RequestError: GROUP_NOT_FOUND.
    """
    return _named(
        members, "name", _NAME, codes.GROUP_NOT_FOUND, "there is no such group"
    )


def client_id(members: Members) -> str:
    """Return the id of the group's client that the message names.

    :raises rules.RequestError: GROUP_CLIENT_NOT_FOUND.
    """
    return _named(
        members,
        "client_id",
        _ID,
        codes.GROUP_CLIENT_NOT_FOUND,
        "the group has no such client",
    )


def accelerator(members: Members, member: str = "accelerator") -> str:
    """Return the name of the accelerator that the message names.

    :raises rules.RequestError: UNKNOWN_ACCELERATOR.
    """
    code = codes.UNKNOWN_ACCELERATOR
    message = "there is no such accelerator"
    return _named(members, member, _ACCELERATOR, code, message)


def _named(
    members: Members,
    name: str,
    shape: shapes.Shape[str],
    code: str,
    message: str,
) -> str:
    """Return the name of something; one that is malformed does not exist."""
    try:
        return shape(members.get(name), name)
    except shapes.Invalid:
        raise rules.RequestError(code, message) from None


def secret_hash(members: Members) -> str:
    """Return the hash of a client's secret.

    :raises rules.RequestError: INVALID_REQUEST.
    """
    name, code = "secret_sha256", codes.INVALID_REQUEST
    return rules.checked(_HASH, members.get(name), name, code)


def generation(members: Members) -> int:
    """Return the generation that the message names.

    :raises rules.RequestError: INVALID_REQUEST.
    """
    name, code = "generation", codes.INVALID_REQUEST
    return rules.checked(_GENERATION, members.get(name), name, code)


def size_bytes(members: Members, name: str) -> int:
    """Return a number of bytes.

    :raises rules.RequestError: INVALID_SIZE.
    """
    return rules.checked(_SIZE, members.get(name), name, codes.INVALID_SIZE)


def after(members: Members) -> str:
    """Return the marker after which a list continues; empty: from the start.

    :raises rules.RequestError: INVALID_REQUEST.
    """
    name, code = "after", codes.INVALID_REQUEST
    return rules.checked(_TEXT, members.get(name, ""), name, code)


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
