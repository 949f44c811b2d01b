# SPDX-License-Identifier: Apache-2.0

"""Groups: create, show, change, delete; attach and revoke clients."""

from __future__ import annotations

import dataclasses
import hashlib
import operator
import secrets
import uuid
from collections.abc import Mapping
from typing import Any

import oslo_messaging as messaging

from fpgapool import objects
from fpgapool.api import call as calls
from fpgapool.api.answers import paging
from fpgapool.api.answers import views
from fpgapool.api.http import errors
from fpgapool.api.http import instances
from fpgapool.api.http import rights
from fpgapool.api.http import times
from fpgapool.db import api as db_api
from fpgapool.objects import bounds
from fpgapool.objects import group as group_objects
from fpgapool.rpcapi import conductor as conductor_rpcapi
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import fields
from fpgapool.vocabulary import group as description
from fpgapool.vocabulary import rules

_SHARING = frozenset({"shared", "projects"})
#: The version since which answers count the lists that may be cut.
_TOTALS_SINCE = (1, 1)
# Members of rows that have another name in documents.
_ID_OF = {"id": "group_id"}


def index(call: calls.Call) -> calls.Answer:
    """List the groups that your project may use."""
    wants_all = bool(call.query.get("all_projects"))
    if wants_all:
        call.require(rights.GROUPS_LIST_ALL)
    page = paging.chosen(
        call,
        description.GROUP,
        [
            record
            for record in call.backends.database.groups()
            if wants_all or description.is_open_to(record, call.project_id)
        ],
        lambda member: operator.attrgetter(_ID_OF.get(member, member)),
    )
    members = [_document(call, record) for record in page]
    return calls.Answer(document=paging.document(call, "groups", members))


def show(call: calls.Call) -> calls.Answer:
    """Show a group."""
    return _answer(call, _now(call, _find(call)))


def create(call: calls.Call) -> calls.Answer:
    """Create a group; it waits for slots in the queue."""
    wanted = _wanted(call)
    if wanted.get("shared") or wanted.get("projects"):
        call.require(rights.GROUPS_SHARE)
    goal = wanted.pop("goal", None)
    group_id = str(uuid.uuid4())
    _change(
        call,
        objects.CreateGroup(
            group_id=group_id,
            project_id=call.project_id,
            goal=None if goal is None else _goal(goal),
            **wanted,
        ),
    )
    return _answer(
        call,
        _reread(call, group_id),
        status=202,
        headers={"Location": call.url("groups", group_id), **_later(call)},
    )


def update(call: calls.Call) -> calls.Answer:
    """Rename, resize or share a group."""
    view = _find(call)
    wanted = _wanted(call)
    call.require(call.policy, view.project_id)
    if wanted.keys() & _SHARING:
        call.require(rights.GROUPS_SHARE, view.project_id)
    call.audit.before = {name: getattr(view, name) for name in wanted}
    _change(call, objects.UpdateGroup(group_id=view.group_id, **wanted))
    return _answer(call, _reread(call, view.group_id))


def delete(call: calls.Call) -> calls.Answer:
    """Delete a group, and revoke its clients."""
    view = _find(call)
    call.require(call.policy, view.project_id)
    call.audit.before = {"name": view.name, "state": view.state}
    _change(call, objects.DeleteGroup(group_id=view.group_id))
    return calls.NO_CONTENT


def set_goal(call: calls.Call) -> calls.Answer:
    """Set the goal of a group."""
    return _answer(call, _with_goal(call, _goal(call.body["goal"])))


def delete_goal(call: calls.Call) -> calls.Answer:
    """Remove the goal of a group."""
    _with_goal(call, None)
    return calls.NO_CONTENT


def index_clients(call: calls.Call) -> calls.Answer:
    """List the clients of a group."""
    view = _now(call, _find(call))
    owns = _owns(call, view)
    page = paging.chosen(
        call,
        description.CLIENT,
        [
            record
            for record in call.backends.database.group_clients(
                group_id=view.group_id
            )
            if _sees_client(call, owns, record)
        ],
        lambda member: operator.attrgetter(
            "client_id" if member == "id" else member
        ),
    )
    hosts = _client_hosts(view)
    return calls.Answer(
        document=paging.document(
            call,
            "clients",
            [_client(call, record, view, hosts) for record in page],
            path=("groups", view.group_id, "clients"),
        )
    )


def show_client(call: calls.Call) -> calls.Answer:
    """Show a client of a group."""
    view = _find(call)
    record = _find_client(call, view, call.path["client_id"])
    return calls.Answer(
        document={"client": _client(call, record, _now(call, view))}
    )


def attach(call: calls.Call) -> calls.Answer:
    """Attach a client to a group; only this response contains its secret."""
    view = _find(call)
    secret = secrets.token_hex(rules.SECRET_BYTES)
    client_id = str(uuid.uuid4())
    _change(
        call,
        objects.AttachClient(
            client_id=client_id,
            group_id=view.group_id,
            project_id=call.project_id,
            user_id=call.caller.user_id or "",
            secret_hash=hashlib.sha256(secret.encode()).hexdigest(),
        ),
    )
    record = _find_client(call, view, client_id)
    document = _client(call, record, _now(call, view))
    return calls.Answer(
        document={"client": {**document, "secret": secret}},
        status=202,
        headers=_later(call),
    )


def revoke(call: calls.Call) -> calls.Answer:
    """Revoke a client of a group; its waiting tasks end."""
    view = _find(call)
    record = _find_client(call, view, call.path["client_id"])
    is_own = record.project_id == call.caller.project_id
    if not is_own:
        call.require(call.policy, view.project_id)
    call.audit.before = {"project_id": record.project_id}
    _change(
        call,
        objects.RevokeClient(
            group_id=view.group_id,
            client_id=record.client_id,
            ended=is_own and bool(call.query.get("ended")),
        ),
    )
    if not is_own:
        call.audit.record_own(
            call.caller,
            "group client revoke",
            {"group_id": view.group_id, "client_id": record.client_id},
            [record.project_id],
        )
    return calls.NO_CONTENT


# Finding.


def _find(call: calls.Call) -> objects.GroupView:
    """Return the group that the path identifies, from its row.

    :raises ApiError: if it does not exist or the caller may not see it.
    """
    wanted = call.path["group_id"]
    for record in call.backends.database.groups(wanted[:64].lower()):
        if description.is_open_to(record, call.caller.project_id) or call.may(
            rights.GROUPS_ALL_PROJECTS
        ):
            return objects.GroupView.of(record)
    raise errors.missing(codes.GROUP_NOT_FOUND, "group", wanted)


def _now(call: calls.Call, view: objects.GroupView) -> objects.GroupView:
    """Return a group with the data that only the leader has."""

    def ask(leader: conductor_rpcapi.ConductorAPI) -> objects.GroupView | None:
        try:
            return leader.group_now(view.group_id)
        except messaging.RPCVersionCapError:
            return next(iter(leader.get_groups([view.group_id])), None)

    return call.ask(ask) or view


def _reread(call: calls.Call, group_id: str) -> objects.GroupView:
    for record in call.backends.database.groups(group_id):
        return _now(call, objects.GroupView.of(record))
    raise errors.ApiError(
        codes.GROUP_NOT_FOUND, "the group has just been deleted"
    )


def _find_client(
    call: calls.Call, view: objects.GroupView, client_id: str
) -> db_api.GroupClientRecord:
    """Return a client of a group.

    :raises ApiError: if it does not exist or the caller may not see it.
    """
    for record in call.backends.database.group_clients(group_id=view.group_id):
        if record.client_id == client_id and _sees_client(
            call, _owns(call, view), record
        ):
            return record
    raise errors.ApiError(
        codes.GROUP_CLIENT_NOT_FOUND,
        f"the group has no client {client_id!r:.80}, or it was revoked",
    )


def _owns(
    call: calls.Call, view: objects.GroupView | db_api.GroupRecord
) -> bool:
    """Whether the caller may see data that is only for a group's owner."""
    return view.project_id == call.caller.project_id or (
        call.backends.enforcer.allows(
            call.caller, rights.GROUPS_UPDATE, {"project_id": view.project_id}
        )
    )


def _sees_client(
    call: calls.Call, owns: bool, record: db_api.GroupClientRecord
) -> bool:
    """Whether the caller may see a client.

    :param owns: whether the caller may see what only the owner may.

    The client's project and the group's owner may. An instance sees only the
    clients that it has attached.
    """
    own = instances.owner(call.caller)
    if own is not None:
        return record.user_id == own
    return owns or record.project_id == call.caller.project_id


# Changing.


def _change(call: calls.Call, change: group_objects.GroupChange) -> None:
    call.backends.conductor.change_group(change)


def _wanted(call: calls.Call) -> dict[str, Any]:
    """Return the members of the body, with integral numbers as int."""
    wanted = dict(call.body["group"])
    views.check_members(description.GROUP, wanted, call.version, "body.group")
    for option in description.GROUP.options:
        if option.name in wanted:
            if option.kind is fields.INTEGER:
                # JSON Schema also accepts 1e9 as an integer.
                wanted[option.name] = int(wanted[option.name])
            elif option.kind is fields.SECONDS:
                wanted[option.name] = float(wanted[option.name])
            elif option.kind is fields.NAMES:
                wanted[option.name] = tuple(wanted[option.name])
    return wanted


def _goal(wanted: Mapping[str, Any]) -> objects.Goal:
    deadline_at = wanted.get("deadline_at")
    if deadline_at is not None:
        try:
            deadline_at = times.seconds(deadline_at)
        except ValueError as error:
            raise errors.ApiError(
                codes.INVALID_GOAL,
                f"deadline_at: {deadline_at!r:.80} is not an ISO 8601 time",
            ) from error
    actions = wanted.get("actions")
    return objects.Goal(
        deadline_at=deadline_at,
        rate_per_s=wanted.get("rate_per_s"),
        actions=None if actions is None else int(actions),
    )


def _with_goal(
    call: calls.Call, goal: objects.Goal | None
) -> objects.GroupView:
    view = _find(call)
    call.require(call.policy, view.project_id)
    call.audit.before = {"goal": _goal_document(call, view)}
    _change(call, objects.SetGoal(group_id=view.group_id, goal=goal))
    return _reread(call, view.group_id)


# Showing.


def _later(call: calls.Call) -> dict[str, str]:
    """Return the headers that say when to look for the result."""
    return {"Retry-After": str(call.backends.limits.retry_after_s)}


def _answer(
    call: calls.Call, view: objects.GroupView, **others: Any
) -> calls.Answer:
    return calls.Answer(document={"group": _document(call, view)}, **others)


def _document(
    call: calls.Call, one: objects.GroupView | db_api.GroupRecord
) -> dict[str, Any]:
    recorded = isinstance(one, db_api.GroupRecord)
    found = views.members(
        description.GROUP, one, call.version, recorded=recorded
    )
    owns = _owns(call, one)
    found["projects"] = list(one.projects) if owns else []
    found["goal"] = _goal_document(call, one, recorded=recorded)
    if not recorded:
        found["members"] = bounds.fitting(
            {
                "host_uuid": call.places.uuid(member.host_uuid),
                "host_name": call.places.name(
                    member.host_uuid, member.host_name
                ),
                "device": member.device,
                "slot": member.slot,
                "state": member.phase,
            }
            for member in (one.members if owns else ())
        )
        if call.version >= _TOTALS_SINCE:
            total = one.members_total or len(one.members)
            found["members_total"] = total if owns else 0
    found["links"] = calls.self_link(call.url("groups", one.group_id))
    return found


def _goal_document(
    call: calls.Call,
    one: objects.GroupView | db_api.GroupRecord,
    *,
    recorded: bool = True,
) -> dict[str, Any] | None:
    if not one.goal_kind:
        return None
    return views.members(
        description.GROUP,
        one,
        call.version,
        recorded=recorded,
        part=description.GOAL,
    )


def _client(
    call: calls.Call,
    record: db_api.GroupClientRecord,
    view: objects.GroupView,
    hosts: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    found = {
        **views.members(description.CLIENT, record, call.version),
        "hosts": _client_hosts(view) if hosts is None else hosts,
        "hosts_revision": view.hosts_revision,
    }
    if call.version >= _TOTALS_SINCE:
        found["hosts_total"] = view.hosts_total or len(view.hosts)
    return found


def _client_hosts(view: objects.GroupView) -> list[dict[str, Any]]:
    """Return the hosts that a client connects to, as many as fit."""
    return bounds.fitting(
        {
            **dataclasses.asdict(host.seen_in(view.group_id)),
            "endpoints": views.endpoints(host.endpoints),
        }
        for host in view.hosts
    )
