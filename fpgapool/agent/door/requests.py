# SPDX-License-Identifier: Apache-2.0

"""Checks clients' requests to a front door; does no I/O."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping

from fpgapool import objects
from fpgapool.vocabulary import carriers
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import rules
from fpgapool.vocabulary import session
from fpgapool.vocabulary import shapes

_ID = shapes.matching("[A-Za-z0-9-]{1,64}", "an id")
_SIZE = shapes.integer(0, rules.MAX_SIZE_BYTES)

#: Maximum length of a request's id, if it is a string.
MAX_ID_LENGTH = 64

Members = Mapping[str, object]
_T = typing.TypeVar("_T")


@dataclasses.dataclass(frozen=True, slots=True)
class Member(typing.Generic[_T]):
    """A member of requests; a call returns the value or raises RequestError.

    :ivar code: code of the error, the same for a malformed and an unknown
        name.
    :ivar message: message of the error; by default, what the value must be.
    """

    name: str
    shape: shapes.Shape[_T]
    code: str = codes.INVALID_REQUEST
    message: str | None = None
    default: object = None

    def __call__(self, members: Members) -> _T:
        try:
            return self.shape(members.get(self.name, self.default), "")
        except shapes.Invalid as error:
            message = self.message or f"{self.name} {error.reason}"
            raise rules.RequestError(self.code, message) from None


session_id = Member(
    "session_id", _ID, codes.SESSION_NOT_FOUND, "no such session"
)
group_id = Member("group_id", _ID, codes.GROUP_NOT_FOUND, "no such group")
#: The name or the id of a group.
group_name = Member(
    "name", shapes.text(255, least=1), codes.GROUP_NOT_FOUND, "no such group"
)
client_id = Member(
    "client_id",
    _ID,
    codes.GROUP_CLIENT_NOT_FOUND,
    "the group has no such client",
)
accelerator = Member(
    "accelerator",
    # Other projects refer to a project's accelerator as name@project.
    shapes.matching(
        "[A-Za-z0-9_.-]{1,64}(@[A-Za-z0-9_.:-]{1,128})?", "an accelerator"
    ),
    codes.UNKNOWN_ACCELERATOR,
    "no such accelerator",
)
accelerator_name = dataclasses.replace(accelerator, name="name")
secret_hash = Member(
    "secret_sha256", shapes.matching("[0-9a-f]{64}", "64 hexadecimal digits")
)
generation = Member("generation", shapes.integer(0, 2**63 - 1))
input_bytes = Member("input_bytes", _SIZE, codes.INVALID_SIZE)
output_bytes = Member("output_bytes", _SIZE, codes.INVALID_SIZE)
#: The name after which a list continues; empty to start at the first.
after = Member("after", shapes.text(), default="")


def repeatable_id(members: Members) -> int | str | None:
    """Return a request's id, or None if a reply cannot repeat it."""
    number = members.get("id")
    if isinstance(number, str) and len(number) > MAX_ID_LENGTH:
        return None
    return number if isinstance(number, int | str) else None


def cancel_target(members: Members) -> tuple[str | None, str | None]:
    """Return the session id or request id, whichever the client gave.

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
    secret_sha256: str = "",
    carrier: carriers.Carrier | None = None,
) -> objects.OpenRequest:
    """Check an ``open`` request and return it as an object.

    :raises rules.RequestError: with the code for the first invalid member.
    """
    return objects.OpenRequest(
        request_id=rules.check_request_id(members.get("request_id")),
        project_id=project_id,
        user_id=user_id,
        host_uuid=host_uuid,
        accelerator=accelerator(members),
        claimed_bytes=rules.check_size_bytes(members.get("size_bytes")),
        secret_sha256=secret_sha256,
        carrier=carrier,
        **session.FIELDS.checked(members),
    )
