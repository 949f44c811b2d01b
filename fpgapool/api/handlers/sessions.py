# SPDX-License-Identifier: Apache-2.0

"""Sessions: open, show, wait, connect, close."""

from __future__ import annotations

import contextlib
import dataclasses
import operator
import re
import time
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple
from typing import TypeAlias

import oslo_messaging as messaging

from fpgapool import objects
from fpgapool.api import call as calls
from fpgapool.api.answers import paging
from fpgapool.api.answers import reasons
from fpgapool.api.answers import views
from fpgapool.api.backends import leader as leaders
from fpgapool.api.backends import waiters
from fpgapool.api.http import errors
from fpgapool.api.http import instances
from fpgapool.api.http import rights
from fpgapool.api.http import times
from fpgapool.api.schemas import sessions as schemas
from fpgapool.db import api as db_api
from fpgapool.objects import bounds
from fpgapool.objects import instance
from fpgapool.rpcapi import conductor as conductor_rpcapi
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import session as description
from fpgapool.vocabulary import states

# Maximum number of attempts, and the interval between them, for a message to
# the conductor, which may be lost or arrive too early.
_TRIES = 10
_TRY_S = 0.5

# Clients may send any ETag.
_REVISION = re.compile("[0-9]{1,18}")

_LONGEST_RETRY_S = 60

#: What is known of a session.
_Known: TypeAlias = db_api.SessionHead | objects.SessionView

#: The first versions whose expected waits have ranges, and whose lists say why
#: sessions wait.
_WAITS_HAVE_RANGES = (1, 1)
#: The first version in which dry runs tell of budgets.
_BUDGETS = (1, 3)
#: The first version in which sessions name their sets.
_SETS = (1, 3)
_LISTS_SAY_WHY = (1, 2)
#: The first version whose clients may connect before the slot's holder has
#: left.
_SUCCESSORS_CONNECT = (1, 3)

#: States in which the leader knows the queue position or the current bytes,
#: which are not in the rows.
_LEADER_KNOWS_MORE = frozenset({states.QUEUED, states.ACTIVE, states.DETACHED})


def create(call: calls.Call) -> calls.Answer:
    """Open a session; the response is sent once the session is recorded."""
    if call.query.get("dry_run"):
        return _dry_run(call)
    request = _request(call)
    view = call.backends.opens.ask(request.project_id, request)
    if not view.session_id:
        raise errors.ApiError(view.reason, view.message)
    _check_own(call, view)
    now = _Now(
        view,
        _says_how_to_connect(call, view)
        and call.may(rights.SESSIONS_CONNECT, view.project_id),
    )
    if view.state == states.READY and not view.secret:
        # It is being renewed, or the conductor is of release 1.0.0.
        row = call.backends.database.session_head(view.session_id)
        now = _now(call, row) if row else now
    answer = _answer(call, now, status=202)
    location = {"Location": call.url("sessions", view.session_id)}
    return dataclasses.replace(answer, headers={**answer.headers, **location})


def index(call: calls.Call) -> calls.Answer:
    """List the sessions of your project, newest first."""
    project_id = paging.project_id(call, rights.SESSIONS_LIST_ALL)
    return calls.Answer(
        document=paging.document(call, "sessions", _listed(call, project_id))
    )


def show(call: calls.Call) -> calls.Answer:
    """Show a session, optionally after waiting for a change."""
    row = _find(call)
    is_known = call.has(str(row.revision))
    if calls.has_ended(row):
        return _unchanged(call, row) if is_known else _ended(call, row)
    wait_s = min(
        call.query.get("wait_s", 0.0), call.backends.limits.max_wait_s
    )
    known = call.query.get("revision", _known(call, row))
    may_wait = wait_s > 0 and _may_change(row)
    if row.revision != known or not may_wait:
        if is_known:
            return _unchanged(call, row)
        now = _now(call, row)
        # If the leader did not return the secret of a READY session, the
        # client may still have to wait for it.
        if now.view.revision != known or not may_wait:
            return _answer(call, now)
    change = _wait_for_more(call, row, known, wait_s)
    call.recorded = False
    if change is not None:
        return _answer(call, _changed(call, row, change.view))
    row = _find(call)
    if call.has(str(row.revision)):
        return _unchanged(call, row)
    return _answer(call, _now(call, row))


def _known(call: calls.Call, row: db_api.SessionHead) -> int:
    """Return the revision that the client has by its ETags, or the current."""
    if not call.etags or call.has(str(row.revision)):
        return row.revision
    return max(
        (int(tag) for tag in call.etags if _REVISION.fullmatch(tag)),
        default=-1,
    )


def _unchanged(call: calls.Call, row: db_api.SessionHead) -> calls.Answer:
    """Return the answer to a client that has the session's revision."""
    headers = {"ETag": _etag(row.revision)}
    if row.state in states.LIVE:
        headers["Retry-After"] = str(call.backends.limits.retry_after_s)
    return calls.Answer(document=None, status=304, headers=headers)


def _etag(revision: int) -> str:
    # It is weak: places in the queue change without a new revision.
    return f'W/"{revision}"'


def _changed(
    call: calls.Call,
    row: db_api.SessionHead,
    view: objects.SessionView | None,
) -> _Now:
    """Return the current state of a session that has changed.

    It probably is READY, and then the leader knows all of it.

    :param row: the session before the change.
    :param view: the leader's news of the change; None: there was none.
    """
    mine = row.project_id == call.caller.project_id
    if mine and _connects(call, row):
        if view is None:
            view = call.ask(
                lambda leader: leader.session_now(
                    row.session_id, row.project_id
                )
            )
        if view is not None and view.state in states.LIVE:
            return _Now(view, _says_how_to_connect(call, view))
    return _now(call, _find(call))


def _ended(call: calls.Call, row: db_api.SessionHead) -> calls.Answer:
    """Show a session that has ended, from a cache of responses."""

    def document() -> Mapping[str, Any] | None:
        return _answer(call, _Now(_recorded(call, row))).document

    asked = "session", row.session_id, row.revision, row.updated_at
    text = call.backends.lists.get(
        call.backends.inventory.get(),
        (*asked, call.places, call.base_url, call.version),
        document,
    )
    headers = {"ETag": _etag(row.revision)}
    return calls.Answer(document=None, data=text.data, headers=headers)


def delete(call: calls.Call) -> calls.Answer:
    """Cancel or close a session; a session that has ended does not change."""
    row = _find(call)
    call.require(call.policy, row.project_id)
    call.audit.before = {"state": row.state}
    counts = call.query
    if counts and len(counts) < len(schemas.CLOSE_COUNTS):
        raise errors.ApiError(
            codes.INVALID_REQUEST,
            f"{', '.join(schemas.CLOSE_COUNTS)}: send all of these, or none",
        )

    def end() -> objects.SessionView | None:
        wanted = objects.SessionEnd(
            project_id=row.project_id, session_id=row.session_id, **counts
        )
        try:
            return call.backends.ends.ask(wanted.project_id, wanted)
        except messaging.RPCVersionCapError:
            # For conductors of release 1.0.0.
            pass
        conductor = _leading(call, row)
        if counts:
            conductor.close_session(
                row.project_id, row.session_id, **counts, confirmed=False
            )
        else:
            conductor.cancel_session(
                row.project_id,
                session_id=row.session_id,
                reason=codes.CANCELLED_BY_CLIENT,
            )
        return None

    def has_ended(now: _Known) -> bool:
        # A session that was served may have ended in another way because its
        # worker's report was lost. Repeat the client's report until the
        # session is CLOSED.
        unseen = now.state != states.CLOSED and now.reason in codes.UNSEEN
        return now.state not in states.LIVE and not (counts and unseen)

    left = _insist(call, row, end, until=has_ended)
    if left.state in states.LIVE:
        raise errors.ApiError(
            codes.CONDUCTOR_UNAVAILABLE, "the session was not closed in time"
        )
    return calls.NO_CONTENT


def reopen(call: calls.Call) -> calls.Answer:
    """Request another slot for a session that has lost its slot.

    The client requests this: only it knows when its data flow has stopped.
    """
    lost = call.body["reopen"]["generation"]
    row = _find(call)
    call.require(rights.SESSIONS_CONNECT, row.project_id)
    if row.generation < lost:
        raise errors.ApiError(
            codes.STALE_GENERATION,
            f"the session has not reached generation {lost} yet; its current"
            f" generation is {row.generation}",
        )
    left = _insist(
        call,
        row,
        lambda: call.backends.conductor.reopen_session(
            row.project_id, session_id=row.session_id, generation=lost
        ),
        until=lambda row: _is_under_way(row, lost) or not _may_change(row),
    )
    if not _is_under_way(left, lost):
        raise errors.ApiError(
            codes.SESSION_CLOSED,
            f"the session is {left.state} and cannot get another slot:"
            f" {left.message or left.reason or 'it cannot be reopened'}",
        )
    return _answer(call, _now(call, left), status=202)


def renew_secret(call: calls.Call) -> calls.Answer:
    """Request a new secret for a session."""
    row = _find(call)
    call.require(rights.SESSIONS_CONNECT, row.project_id)
    if row.state != states.READY:
        raise errors.ApiError(
            codes.SESSION_NOT_READY,
            f"the session is {row.state}; only a READY session has a secret",
        )
    left = _insist(
        call,
        row,
        lambda: _leading(call, row).renew_secret(row.session_id),
        until=lambda now: now.revision != row.revision,
    )
    now = _now(call, left)
    if call.recorded:
        raise errors.ApiError(
            codes.CONDUCTOR_UNAVAILABLE, "no conductor returned the secret"
        )
    if left.revision == row.revision:
        # The secret was not renewed in time: leave out the old one, which may
        # become invalid at any moment.
        now = _Now(now.view)
    return _answer(call, now, status=202)


def _dry_run(call: calls.Call) -> calls.Answer:
    """Predict the outcome of a session."""
    request = _request(call)
    found = call.backends.reader.dry_run(request)
    if found.state == states.REJECTED:
        explained = [(code, found.message) for code in found.reasons]
    else:
        explained = [
            (
                code,
                _message(call, request.accelerator, request.project_id, code),
            )
            for code in found.reasons
        ]
    told = {
        "state": found.state,
        "reasons": [
            {"code": code, "message": message} for code, message in explained
        ],
        "expected_wait_s": found.expected_wait_s,
    }
    if call.version >= _WAITS_HAVE_RANGES:
        told["expected_wait_low_s"] = found.expected_wait_low_s
        told["expected_wait_high_s"] = found.expected_wait_high_s
    if call.version >= _BUDGETS:
        told["budget_pct"] = found.budget_pct
    return calls.Answer(document={"dry_run": told})


def _request(call: calls.Call) -> objects.OpenRequest:
    wanted = {
        "request_id": call.caller.request_id,
        **call.body["session"],
    }
    for name in wanted.keys() & {"claimed_bytes", "priority", "set_size"}:
        # JSON Schema also accepts 1e9 as an integer.
        wanted[name] = int(wanted[name])
    views.check_members(
        description.FIELDS, wanted, call.version, "body.session"
    )
    if not wanted["accelerator"].isprintable():
        # The conductor would refuse all requests of the same call.
        raise errors.ApiError(
            codes.INVALID_REQUEST, "session.accelerator is not printable"
        )
    return objects.OpenRequest(
        **wanted,
        project_id=call.project_id,
        user_id=call.caller.user_id or "",
        # The client's own claim about its host would not be reliable.
        host_uuid=None,
        carrier=call.caller.carrier,
    )


def _check_own(call: calls.Call, view: objects.SessionView) -> None:
    """Make sure that an instance sees only its own sessions."""
    own = instances.owner(call.caller)
    if own is not None and view.user_id != own:
        raise errors.ApiError(
            codes.REQUEST_ID_REUSED, "that request_id belongs to another user"
        )


class _Now(NamedTuple):
    """The current state of a session.

    :ivar connectable: whether the view has the data for connecting.
    """

    view: objects.SessionView
    connectable: bool = False


def _find(call: calls.Call) -> db_api.SessionHead:
    """Return the session that the path identifies.

    :raises ApiError: if it does not exist or the caller may not see it.
    """
    session_id = call.path["session_id"]
    row = call.backends.sessions.get(session_id[:64])
    own = instances.owner(call.caller)
    if (
        row is None
        or own not in (None, row.user_id)
        or not (
            row.project_id == call.caller.project_id
            or call.may(rights.SESSIONS_ALL_PROJECTS)
        )
    ):
        raise errors.missing(codes.SESSION_NOT_FOUND, "session", session_id)
    return row


def _now(call: calls.Call, row: _Known) -> _Now:
    """Return the current state of a session, with data from the leader."""
    is_ready = row.state == states.READY
    connects = _connects(call, row)
    if is_ready and not connects:
        return _Now(_recorded(call, row))
    if row.state == states.PREPARING:
        connects = connects and call.version >= _SUCCESSORS_CONNECT
    elif not is_ready:
        connects = False
    view = None
    if connects or row.state in _LEADER_KNOWS_MORE:
        project_id = row.project_id if connects else ""
        view = call.ask(
            lambda leader: leader.session_now(row.session_id, project_id)
        )
    if view is not None and (connects or view.state != states.READY):
        return _Now(view, connects and _says_how_to_connect(call, view))
    recorded = _recorded(call, row)
    if recorded.state == states.READY and not is_ready:
        # It became READY after the row was read: ask for the secret, too.
        return _now(call, recorded)
    return _Now(_without_secret(recorded))


def _connects(call: calls.Call, row: _Known) -> bool:
    """Whether the caller wants what is needed to connect, and may have it."""
    return call.query.get("connection", True) and call.may(
        rights.SESSIONS_CONNECT, row.project_id
    )


def _says_how_to_connect(call: calls.Call, view: objects.SessionView) -> bool:
    """Whether the answer has the data for connecting, for its project."""
    return view.state == states.READY or (
        _is_next(view) and call.version >= _SUCCESSORS_CONNECT
    )


def _is_next(view: objects.SessionView) -> bool:
    """Whether it has its slot as soon as the slot's holder has left."""
    return view.state == states.PREPARING and bool(view.endpoints)


def _without_secret(view: objects.SessionView) -> objects.SessionView:
    """Return a view for a client that may still have to wait for a secret."""
    revision = leaders.without_secret(view.state, view.revision)
    return dataclasses.replace(view, revision=revision)


def _recorded(call: calls.Call, head: _Known) -> objects.SessionView:
    """Return a session without the members that only the leader knows.

    It may have changed since its head was read.
    """
    row = call.backends.database.get_session(head.session_id)
    if row is None:
        raise errors.missing(
            codes.SESSION_NOT_FOUND, "session", head.session_id
        )
    pool = call.backends.inventory.get()
    place: dict[str, Any] = {}
    slot = pool.slots_by_id.get(row.slot_id or 0)
    if slot is not None:
        place = {
            "slot_host_uuid": slot.device.host.uuid,
            "slot_host_name": slot.device.host.name,
            "device": slot.device.record.name,
            "slot": slot.record.number,
        }
    host_uuid = pool.host_uuids.get(row.host_id or 0)
    return objects.SessionView.of(row, host_uuid=host_uuid, **place)


def _insist(
    call: calls.Call,
    row: db_api.SessionHead,
    act: Callable[[], objects.SessionView | None],
    *,
    until: Callable[[_Known], bool],
) -> _Known:
    """Repeat an action until it takes effect, or no attempts are left.

    :param act: may return the session after it.
    :param until: returns whether the action has taken effect.
    :returns: the session after the last attempt.
    """
    for _ in range(_TRIES):
        if until(row):
            break
        now = act()
        if now is not None and until(now):
            return now
        try:
            call.backends.waiting.wait(
                row.session_id,
                row.revision,
                _TRY_S,
                # It takes a thread for so long anyway.
                place=None,
                project_id=call.caller.project_id or "",
            )
        except waiters.TooManyWaiters:
            time.sleep(_TRY_S)
        row = _find(call)
    return row


def _leading(
    call: calls.Call, row: db_api.SessionHead
) -> conductor_rpcapi.ConductorAPI:
    """Return the conductor's client, after checking that a conductor answers.

    Otherwise a message about the session could wait in the broker for the next
    leader, and take effect after the client was notified that it had failed.

    :raises MessagingException: if no conductor answers.
    """
    conductor = call.backends.conductor
    conductor.session_now(row.session_id)
    return conductor


def _is_under_way(row: _Known, lost_generation: int) -> bool:
    """Whether a session has lost a slot, and has or waits for another."""
    return row.state in states.LIVE and (
        row.generation > lost_generation or row.state == states.QUEUED
    )


def _may_change(row: _Known) -> bool:
    return row.state in states.LIVE or row.reason in codes.REOPENABLE


def _wait(
    call: calls.Call, row: db_api.SessionHead, known: int, wait_s: float
) -> waiters.Change | None:
    """Wait until a session changes, unless too many requests wait."""
    with contextlib.suppress(waiters.TooManyWaiters):
        return call.backends.waiting.wait(
            row.session_id,
            known,
            wait_s,
            # Sessions that arrived later usually get their slots later.
            place=row.id if row.state == states.QUEUED else 0,
            project_id=call.caller.project_id or "",
        )
    return None


def _wait_for_more(
    call: calls.Call, row: db_api.SessionHead, known: int, wait_s: float
) -> waiters.Change | None:
    """Wait until a session changes.

    That it is to have a slot soon is news only for clients that may connect.
    """
    until_s = time.monotonic() + wait_s
    change = _wait(call, row, known, wait_s)
    view = change and change.view
    if (
        view is None
        or not _is_next(view)
        or call.version >= _SUCCESSORS_CONNECT
    ):
        return change
    left_s = until_s - time.monotonic()
    return _wait(call, row, view.revision, left_s) or change


def _answer(call: calls.Call, now: _Now, *, status: int = 200) -> calls.Answer:
    """Return a session as its caller may see it."""
    view = now.view
    headers = {} if status == 202 else {"ETag": _etag(view.revision)}
    if view.state in (states.QUEUED, states.PREPARING) or status == 202:
        headers["Retry-After"] = str(_retry_after_s(call, view))
    return calls.Answer(
        document={
            "session": {
                **_members(call, view, view.host_uuid),
                "pending_reasons": _reasons(call, view),
                "placement": _placement(call, view),
                "connection": _connection(view) if now.connectable else None,
            }
        },
        status=status,
        headers=headers,
    )


def _retry_after_s(call: calls.Call, view: objects.SessionView) -> int:
    """Return the seconds until the next poll; more for a long wait."""
    shortest_s = call.backends.limits.retry_after_s
    half_s = (view.expected_wait_s or 0.0) / 2
    return max(shortest_s, min(int(half_s), _LONGEST_RETRY_S))


def _reasons(
    call: calls.Call, view: objects.SessionView
) -> list[dict[str, str]]:
    about = view.accelerator, view.project_id
    return [
        {"code": code, "message": _message(call, *about, code)}
        for code in view.pending_reasons
    ]


def _message(
    call: calls.Call, accelerator: str, project_id: str, code: str
) -> str:
    """Return a reason's meaning, and which slots are out of service."""
    message = reasons.sentence(code)
    if code not in reasons.FOR_LACK_OF_SLOTS:
        return message
    library = call.backends.library.get()
    key = library.resolve(accelerator, project_id)
    if key is None:
        return message
    shapes = library.profiles[key].shapes
    fitting = [
        slot
        for slot in call.backends.inventory.get().slots
        if not shapes or slot.record.shape in shapes
    ]
    absent = reasons.out_of_service(fitting, call.places.are_named)
    return f"{message} {absent}".rstrip()


def _members(
    call: calls.Call,
    one: objects.SessionView | db_api.SessionRecord,
    host_uuid: str | None,
) -> dict[str, Any]:
    """Return the members of a view or row in the request's API version.

    :param host_uuid: the client's host.
    """
    recorded = isinstance(one, db_api.SessionRecord)
    found = views.members(
        description.FIELDS, one, call.version, recorded=recorded
    )
    if "user_id" in found:
        own = instance.id_of(one.user_id)
        user_id = one.user_id if own is None else ""
        found |= {"user_id": user_id, "instance_id": own}
    return {
        **found,
        "host": call.places.uuid(host_uuid),
        "links": calls.self_link(call.url("sessions", one.session_id)),
    }


def _placement(
    call: calls.Call, view: objects.SessionView
) -> dict[str, Any] | None:
    host_uuid = view.slot_host_uuid
    if host_uuid is None:
        return None
    return {
        "host_uuid": call.places.uuid(host_uuid),
        "host_name": call.places.name(host_uuid, view.slot_host_name),
        "device": view.device,
        "slot": view.slot,
        "local": view.local,
    }


def _placement_of(
    call: calls.Call, record: db_api.SessionRecord
) -> dict[str, Any] | None:
    """Return what :func:`_placement` does, from a row and the inventory."""
    if record.slot_id is None or record.state not in states.LIVE:
        return None
    slot = call.backends.inventory.get().slots_by_id.get(record.slot_id)
    if slot is None:
        return None
    host = slot.device.host
    return {
        "host_uuid": call.places.uuid(host.uuid),
        "host_name": call.places.name(host.uuid, host.name),
        "device": slot.device.record.name,
        "slot": slot.record.number,
        "local": record.local,
    }


def _connection(view: objects.SessionView) -> dict[str, Any]:
    return {
        "endpoints": views.endpoints(view.endpoints),
        "secret": view.secret or None,
        "certificate_sha256": view.certificate_sha256,
    }


def _listed(call: calls.Call, project_id: str | None) -> list[dict[str, Any]]:
    database = call.backends.database
    hosts = call.backends.inventory.get().host_uuids
    own = instances.owner(call.caller)
    filters = _filters(call, project_id, hosts, own)
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
        # Rows are numbered in queueing order.
        order=[("id" if k == "queued_at" else k, up) for k, up in order],
    )
    found = [
        _members(call, record, hosts.get(record.host_id or 0))
        for record in records
    ]
    if call.version >= _LISTS_SAY_WHY:
        for one, record in zip(found, records, strict=True):
            one["placement"] = _placement_of(call, record)
        _add_reasons(call, found)
    return found


def _add_reasons(call: calls.Call, listed: list[dict[str, Any]]) -> None:
    """Add why each session waits, and its set, which only the leader knows."""
    tells_sets = call.version >= _SETS
    for one in listed:
        one["pending_reasons"] = []
        if tells_sets:
            one["set_id"] = None
    # Those that do not fit are left to the next page.
    shown = bounds.fitting(listed)
    waiting = [one["id"] for one in shown if one["state"] == states.QUEUED]
    now: dict[str, objects.SessionView] = {}
    if waiting:
        asked = call.ask(operator.methodcaller("get_sessions", waiting))
        now = {view.session_id: view for view in asked or ()}
    # Many sessions wait for the same, and finding out takes time.
    known: dict[tuple[object, ...], list[dict[str, str]]] = {}
    for one in shown:
        view = now.get(one["id"])
        if view is not None:
            about = view.accelerator, view.project_id, view.pending_reasons
            if about not in known:
                known[about] = _reasons(call, view)
            one["pending_reasons"] = known[about]
            if tells_sets:
                one["set_id"] = view.set_id


def _filters(
    call: calls.Call,
    project_id: str | None,
    hosts: Mapping[int, str],
    own: str | None,
) -> db_api.SessionFilter | None:
    """Return the filter of a list; None if no session can match.

    :param own: the only user whose sessions match; None: all users.
    """
    query, host_id = call.query, None
    views.check_members(description.FIELDS, query, call.version, "query")
    users = {own, query.get("user_id")} - {None}
    if "instance_id" in query:
        users.add(instance.user_of(query["instance_id"].lower()))
    if len(users) > 1 or instance.is_user(query.get("user_id", "")):
        return None
    if "host" in query:
        # As the caller sees them, who learns of no other UUID.
        ids = {call.places.uuid(one): id_ for id_, one in hosts.items()}
        host_id = ids.get(query["host"].lower())
        if host_id is None:
            return None
    return db_api.SessionFilter(
        project_id=project_id,
        user_id=next(iter(users), None),
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
            f"query.changes-since: {text!r:.80} is not an ISO 8601 time",
        ) from error


def _check_marker(
    database: db_api.Database,
    marker: str,
    project_id: str | None,
    own: str | None,
) -> None:
    """Make sure that a marker does not reveal other projects' sessions."""
    record = database.get_session(marker)
    if (
        record is None
        or project_id not in (None, record.project_id)
        or own not in (None, record.user_id)
    ):
        raise paging.bad_marker(marker)
