# SPDX-License-Identifier: Apache-2.0

"""Checks messages before the conductor acts on them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from collections.abc import Container
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import TypeAlias
from typing import TypeVar

from fpgapool import objects
from fpgapool.common import exception
from fpgapool.common.messaging import rpc
from fpgapool.common.monitoring import ratelimit
from fpgapool.conductor.decisions import limits
from fpgapool.objects import base
from fpgapool.objects import instance
from fpgapool.vocabulary import rules
from fpgapool.vocabulary import shapes

LOG = ratelimit.RateLimitedLog(__name__)

#: Maximum number of ids in a message.
MAX_IDS = 1000

#: Each host's last report: raw payload and parsed object.
Reports: TypeAlias = Mapping[str, tuple[Any, objects.AgentReport]]

_PROJECT_ID = shapes.matching(rules.PROJECT_ID, rules.PROJECT_ID_WORDS)
#: Revisions of sessions, by their ids.
REVISIONS = shapes.mapping_of(shapes.integer(), MAX_IDS)
# Commands, paths and queue names contain the name and the UUID.
_REPORT = shapes.Members(
    {
        "host_uuid": shapes.matching(
            rules.HOST_UUID, "1 to 36 letters, digits, _ and -"
        ),
        "host_name": shapes.matching(
            rules.HOST_NAME,
            "1 to 255 letters, digits, _ . and -, starting with a letter or"
            " a digit",
        ),
        "sessions": shapes.nullable(REVISIONS),
    },
    others=True,
)
_LIST = shapes.list_of(shapes.anything, most=MAX_IDS)

_T = TypeVar("_T", bound=base.Payload)


def check_project(project_id: Any) -> None:
    """Check a project's id."""
    limits.argument(_PROJECT_ID, project_id, "project_id")


def is_of_sender(ctxt: Any, host_uuid: str, method: str) -> bool:
    """Whether a host's message concerns that host; true for other senders."""
    own = rpc.host_of(ctxt)
    if own is None or own == host_uuid:
        return True
    rpc.tell_refused(own, method, f"it concerns host {host_uuid!r:.60}")
    return False


def require_own(ctxt: Any, host_uuid: str, method: str) -> None:
    """Refuse a front door's message about another host."""
    if not is_of_sender(ctxt, host_uuid, method):
        raise exception.MessageRefused(reason="it concerns another host")


def requests(
    ctxt: Any, requests: Any, method: str = "submit_sessions"
) -> list[objects.OpenRequest]:
    """Parse requests, and check that the sender may make them.

    :raises InvalidRequest: if one is malformed.
    :raises MessageRefused: if the sender may not make one of them.
    """
    parsed = [
        checked(objects.OpenRequest.from_primitive, one)
        for one in limits.argument(_LIST, requests, "requests")
    ]
    for request in parsed if rpc.host_of(ctxt) else ():
        _refuse_for_instance(ctxt, request.user_id, method)
        require_own(ctxt, request.host_uuid or "", method)
    return parsed


def ends(found: Any) -> list[objects.SessionEnd]:
    """Parse ends of sessions.

    :raises InvalidRequest: if one is malformed.
    """
    return [
        checked(objects.SessionEnd.from_primitive, one)
        for one in limits.argument(_LIST, found, "ends")
    ]


def client_of_host(ctxt: Any, client: Any) -> objects.AttachClient:
    """Parse a client, and check that the sender may attach it to a group.

    :raises InvalidRequest: if it is malformed.
    :raises MessageRefused: if a host attaches it on behalf of an instance.
    """
    parsed = checked(objects.AttachClient.from_primitive, client)
    _refuse_for_instance(ctxt, parsed.user_id, "attach_client")
    return parsed


def _refuse_for_instance(ctxt: Any, user_id: str, method: str) -> None:
    host = rpc.host_of(ctxt)
    if host and instance.is_user(user_id):
        why = "a host must not act on behalf of an instance"
        rpc.tell_refused(host, method, why)
        raise exception.MessageRefused(reason=why)


def report(form: Any, reports: Reports) -> objects.AgentReport | None:
    """Return an agent's report; None if it is malformed.

    Only slots that changed since the last report are checked: usually few.
    """
    known: set[int] = set()
    # Fails if the report is the host's first, has other slots or is malformed.
    with contextlib.suppress(KeyError, TypeError, ValueError):
        last_form, last = reports[form["data"]["host_uuid"]]
        form = _with_lines(form, last_form, last)
        known = {id(line) for one in last.devices for line in one.slots}
    return parsed(_report, form, known)


def _report(form: Any) -> objects.AgentReport:
    found = objects.AgentReport.from_primitive(form)
    _REPORT(vars(found), "")
    return found


def _with_lines(form: Any, last_form: Any, last: objects.AgentReport) -> Any:
    """Replace the unchanged slots in a report's raw payload with the last
    report's parsed ones.
    """
    data, devices = form["data"], []
    for new, old, device in zip(
        data["devices"],
        last_form["data"]["devices"],
        last.devices,
        strict=True,
    ):
        slots = zip(
            new["data"]["slots"],
            old["data"]["slots"],
            device.slots,
            strict=True,
        )
        lines = [line if now == then else now for now, then, line in slots]
        devices.append({**new, "data": {**new["data"], "slots": lines}})
    return {**form, "data": {**data, "devices": devices}}


@contextlib.contextmanager
def invalid() -> Iterator[None]:
    """Raise InvalidRequest instead of a ValueError in the block."""
    try:
        yield
    except ValueError as error:
        raise exception.InvalidRequest(reason=str(error)) from error


def checked(
    parse: Callable[[Any], _T], primitive: Any, known: Container[int] = ()
) -> _T:
    """Parse and check the payload of a call.

    :param known: ids of contained payloads that have already been checked.
    """
    with invalid():
        payload = parse(primitive)
        limits.check(payload, known)
    return payload


def parsed(
    parse: Callable[[Any], _T], primitive: Any, known: Container[int] = ()
) -> _T | None:
    """Parse and check the payload of a cast; None if it is malformed."""
    try:
        return checked(parse, primitive, known)
    except exception.InvalidRequest as error:
        LOG.warning("Malformed message dropped: %s", error)
        return None
