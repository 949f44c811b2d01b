# SPDX-License-Identifier: Apache-2.0

"""Sessions: open, see, wait for, connect to, close."""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from fpgapool import objects
from fpgapool.api import call as calls
from fpgapool.api import errors
from fpgapool.api import instances
from fpgapool.api import paging
from fpgapool.api import reasons
from fpgapool.api import shown
from fpgapool.api import times
from fpgapool.api import waiters
from fpgapool.db import api as db_api
from fpgapool.policies import hosts as host_policies
from fpgapool.policies import sessions as policies
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import session as description
from fpgapool.vocabulary import states

# How often a cast is repeated until it takes effect: it may get lost, or
# come too early.
_TRIES = 10
_TRY_S = 0.5

_LONGEST_RETRY_S = 60


def create(call: calls.Call) -> calls.Answer:
    """Open a session; the answer comes when it is recorded."""
    (view,) = call.backends.conductor.submit_sessions([_request(call)])
    if not view.session_id:
        raise errors.ApiError(view.reason, view.message)
    _check_own(call, view)
    answer = _answer(call, view, status=202)
    location = {"Location": call.url("sessions", view.session_id)}
    return calls.Answer(
        document=answer.document,
        status=answer.status,
        headers={**answer.headers, **location},
    )


def index(call: calls.Call) -> calls.Answer:
    """List sessions, newest first."""
    project_id = paging.project_id(call, policies.LIST_ALL)
    return calls.Answer(
        document=paging.document(call, "sessions", _listed(call, project_id))
    )


def show(call: calls.Call) -> calls.Answer:
    """Show a session, now or when it has changed."""
    view = _shown(call)
    wait_s = min(
        call.query.get("wait_s", 0.0), call.backends.limits.max_wait_s
    )
    revision = call.query.get("revision", view.revision)
    if wait_s > 0 and view.revision == revision and _may_change(view):
        view = _changed(call, view, wait_s)
    return _answer(call, view)


def delete(call: calls.Call) -> calls.Answer:
    """Cancel or close a session; one that has ended stays as it is."""
    view = _find(call)
    call.require(policies.DELETE, view.project_id)
    call.trail.before = {"state": view.state}
    left = _insist(
        call,
        view,
        lambda: call.backends.conductor.cancel_session(
            view.project_id,
            session_id=view.session_id,
            reason=codes.CANCELLED_BY_CLIENT,
        ),
        until=lambda now: now.state not in states.LIVE,
    )
    if left.state in states.LIVE:
        raise errors.ApiError(
            codes.CONDUCTOR_UNAVAILABLE, "the session was not closed in time"
        )
    return calls.Answer(document=None, status=204)


def reopen(call: calls.Call) -> calls.Answer:
    """Give a session that has lost its slot another one.

    Only the client knows that its data has stopped.
    """
    lost = call.body["reopen"]["generation"]
    view = _find(call)
    call.require(policies.CONNECT, view.project_id)
    if view.generation < lost:
        raise errors.ApiError(
            codes.STALE_GENERATION,
            f"the session's generation is {view.generation}",
        )
    now = _insist(
        call,
        view,
        lambda: call.backends.conductor.reopen_session(
            view.project_id, session_id=view.session_id, generation=lost
        ),
        until=lambda now: _is_under_way(now, lost) or not _may_change(now),
    )
    if not _is_under_way(now, lost):
        raise errors.ApiError(
            codes.SESSION_CLOSED,
            f"the session is {now.state} and cannot move"
            f" {now.message or now.reason}".rstrip(),
        )
    return _answer(call, now, status=202)


def renew_secret(call: calls.Call) -> calls.Answer:
    """Mint a fresh secret for a READY session."""
    view = _find(call)
    call.require(policies.CONNECT, view.project_id)
    if view.state != states.READY:
        raise errors.ApiError(
            codes.SESSION_NOT_READY,
            f"the session is {view.state}; only one that is READY has a"
            " secret",
        )
    renewed = _insist(
        call,
        view,
        lambda: call.backends.conductor.renew_secret(view.session_id),
        until=lambda now: now.revision != view.revision,
    )
    # The old one may become useless at any moment.
    is_new = renewed.revision != view.revision
    return _answer(call, renewed, status=202, connectable=is_new)


def _request(call: calls.Call) -> objects.OpenRequest:
    wanted = {"request_id": str(uuid.uuid4()), **call.body["session"]}
    for name in wanted.keys() & {"claimed_bytes", "priority"}:
        # JSON knows 1e9, too.
        wanted[name] = int(wanted[name])
    shown.check_options(description.FIELDS, wanted, call.version, "session")
    return objects.OpenRequest(
        **wanted,
        project_id=call.project_id,
        user_id=call.caller.user_id or "",
        # An instance cannot decide whether it is near a board.
        host_uuid=None,
    )


def _check_own(call: calls.Call, view: objects.SessionView) -> None:
    """Make sure that an instance sees only its own sessions."""
    own = instances.owner(call.caller)
    if own is not None and view.user_id != own:
        raise errors.ApiError(
            codes.REQUEST_ID_REUSED, "somebody else has a request of that name"
        )


def _find(call: calls.Call) -> objects.SessionView:
    """Return the session of the path, for a change.

    :raises ApiError: if there is none that the caller may see.
    """
    session_id = call.path["session_id"]
    return _one(call, call.backends.conductor.get_sessions([session_id[:64]]))


def _shown(call: calls.Call) -> objects.SessionView:
    """Return the session of the path, for reading.

    :raises ApiError: as :func:`_find`.
    """
    session_id = call.path["session_id"]
    return _one(
        call, call.ask(lambda source: source.get_sessions([session_id[:64]]))
    )


def _one(
    call: calls.Call, views: list[objects.SessionView]
) -> objects.SessionView:
    for view in views:
        own = instances.owner(call.caller)
        if own is not None and view.user_id != own:
            break
        if view.project_id == call.caller.project_id or call.may(
            policies.ALL_PROJECTS
        ):
            return view
    session_id = call.path["session_id"]
    raise errors.ApiError(
        codes.SESSION_NOT_FOUND, f"there is no session {session_id!r:.80}"
    )


def _insist(
    call: calls.Call,
    view: objects.SessionView,
    act: Callable[[], object],
    *,
    until: Callable[[objects.SessionView], bool],
) -> objects.SessionView:
    """Act until the effect shows, or for as long as a client may wait.

    :param view: the present session.
    :param act: asks the conductor for it.
    :param until: whether the effect has shown.
    :returns: the session after that.
    """
    for _ in range(_TRIES):
        if until(view):
            break
        act()
        try:
            call.backends.waiting.wait(
                view.session_id,
                view.revision,
                _TRY_S,
                project_id=call.caller.project_id or "",
            )
        except waiters.TooManyWaiters:
            time.sleep(_TRY_S)
        view = _find(call)
    return view


def _is_under_way(view: objects.SessionView, lost_generation: int) -> bool:
    """Whether a session has, or waits for, a slot after a certain one."""
    return view.state in states.LIVE and (
        view.generation > lost_generation or view.state == states.QUEUED
    )


def _may_change(view: objects.SessionView) -> bool:
    return view.state in states.LIVE or view.reason in codes.REOPENABLE


def _changed(
    call: calls.Call, view: objects.SessionView, wait_s: float
) -> objects.SessionView:
    """Wait until a session changes, and return it after that."""
    try:
        changed = call.backends.waiting.wait(
            view.session_id,
            view.revision,
            wait_s,
            place=view.queue_position or 0,
            project_id=call.caller.project_id or "",
        )
    except waiters.TooManyWaiters:
        return view
    if changed is None:
        # A place in the queue changes without a new revision.
        return _shown(call)
    # Waiting clients hear of a change from conductors only, wherever the
    # earlier state of the session came from.
    call.origin.recorded = False
    return changed


def _answer(
    call: calls.Call,
    view: objects.SessionView,
    *,
    status: int = 200,
    connectable: bool = True,
) -> calls.Answer:
    """Return a session as its caller may see it.

    :param connectable: whether it may hold the data to connect with.
    """
    headers = {}
    if view.state in (states.QUEUED, states.PREPARING) or status == 202:
        headers["Retry-After"] = str(_retry_after_s(call, view))
    return calls.Answer(
        document={"session": _document(call, view, connectable)},
        status=status,
        headers=headers,
    )


def _retry_after_s(call: calls.Call, view: objects.SessionView) -> int:
    """Return the time to the next poll; longer far back in the queue."""
    shortest_s = call.backends.limits.retry_after_s
    half_s = (view.expected_wait_s or 0.0) / 2
    return max(shortest_s, min(int(half_s), _LONGEST_RETRY_S))


def _document(
    call: calls.Call, view: objects.SessionView, connectable: bool
) -> dict[str, Any]:
    asked_leader = not call.origin.recorded
    connection = _connection(call, view) if connectable else None
    if asked_leader and call.origin.recorded:
        # The leader no longer returned the secret. The view without it gets an
        # older revision than one with it, so that the client asks again.
        view = dataclasses.replace(view, revision=max(view.revision - 1, 0))
    return {
        **_members(call, view),
        "pending_reasons": [
            {"code": code, "message": _message(call, view, code)}
            for code in view.pending_reasons
        ],
        "placement": _placement(view),
        "connection": connection,
    }


def _message(call: calls.Call, view: objects.SessionView, code: str) -> str:
    """Return the meaning of a reason, and what would end the wait."""
    message = reasons.sentence(code)
    if not reasons.lacks_slots(code):
        return message
    library = call.backends.library.get()
    key = library.resolve(view.accelerator, view.project_id)
    if key is None:
        return message
    shapes = library.profiles[key].shapes
    fitting = [
        slot
        for slot in call.backends.inventory.get().slots
        if not shapes or slot.record.shape in shapes
    ]
    absent = reasons.out_of_service(
        fitting, lambda: call.may(host_policies.LIST)
    )
    return f"{message} {absent}".rstrip()


def _members(
    call: calls.Call, one: objects.SessionView | db_api.SessionRecord
) -> dict[str, Any]:
    """Return the fields that a view, or a row, and the version have."""
    recorded = isinstance(one, db_api.SessionRecord)
    return {
        **shown.members(
            description.FIELDS, one, call.version, recorded=recorded
        ),
        "links": calls.self_link(call.url("sessions", one.session_id)),
    }


def _placement(view: objects.SessionView) -> dict[str, Any] | None:
    if view.slot_host_uuid is None:
        return None
    return {
        "host_uuid": view.slot_host_uuid,
        "host_name": view.slot_host_name,
        "device": view.device,
        "slot": view.slot,
        "local": view.local,
    }


def _connection(
    call: calls.Call, view: objects.SessionView
) -> dict[str, Any] | None:
    """Return the data to connect with, if the caller may have it."""
    if view.state != states.READY or not call.may(
        policies.CONNECT, view.project_id
    ):
        return None
    if call.origin.recorded:
        # Secrets are not.
        return None
    secret = call.ask(
        lambda source: source.session_secret(
            view.session_id, view.project_id, view.generation
        )
    )
    if call.origin.recorded:
        return None
    return {
        "endpoints": shown.endpoints(view.endpoints),
        "secret": secret or None,
        "certificate_sha256": view.certificate_sha256,
    }


def _listed(call: calls.Call, project_id: str | None) -> list[dict[str, Any]]:
    database = call.backends.database
    known = call.backends.inventory.get().hosts
    hosts = {host.id: host.uuid for host in known}
    own = instances.owner(call.caller)
    filters = _filters(call.query, project_id, hosts, own)
    if filters is None:
        return []
    marker = call.query.get("marker")
    if marker is not None:
        _check_marker(database, marker, project_id, own)
    order = paging.order(call, "queued_at", ascending=False)
    records = database.list_sessions(
        filters,
        marker=marker,
        limit=paging.limit(call),
        # Rows are numbered in the order in which they were queued.
        order=[("id" if k == "queued_at" else k, up) for k, up in order],
    )
    return [
        {
            **_members(call, record),
            "host": hosts.get(record.host_id or 0),
        }
        for record in records
    ]


def _filters(
    query: Mapping[str, Any],
    project_id: str | None,
    hosts: Mapping[int, str],
    own: str | None,
) -> db_api.SessionFilter | None:
    """Return the filter of a list, None if no session can match.

    :param own: of this user only; None: of any.
    """
    host_id = None
    if "host" in query:
        ids = {host_uuid: id_ for id_, host_uuid in hosts.items()}
        host_id = ids.get(query["host"].lower())
        if host_id is None:
            return None
    return db_api.SessionFilter(
        project_id=project_id,
        user_id=own,
        request_id=query.get("request_id"),
        accelerator=query.get("accelerator"),
        host_id=host_id,
        states=query.get("state", ()),
        changed_since=_changed_since(query),
    )


def _changed_since(query: Mapping[str, Any]) -> float | None:
    text = query.get("changes-since")
    if text is None:
        return None
    try:
        return times.seconds(text)
    except ValueError as error:
        raise errors.ApiError(
            codes.INVALID_REQUEST,
            f"query.changes-since: {text!r:.80} is no time in ISO 8601",
        ) from error


def _check_marker(
    database: db_api.Database,
    marker: str,
    project_id: str | None,
    own: str | None,
) -> None:
    """Make sure that a marker reveals no other projects' sessions."""
    record = database.get_session(marker)
    if (
        record is None
        or project_id not in (None, record.project_id)
        or own not in (None, record.user_id)
    ):
        raise paging.bad_marker(marker)
