# SPDX-License-Identifier: Apache-2.0

"""Quotas of projects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fpgapool.api import call as calls
from fpgapool.api import errors
from fpgapool.api import microversion
from fpgapool.api.schemas import quotas as schemas
from fpgapool.policies import quotas as policies
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import group
from fpgapool.vocabulary import states

_FROM_KEYSTONE = "keystone"
_FROM_PROJECT = "project"
_FROM_DEFAULT = "default"


def show_own(call: calls.Call) -> calls.Answer:
    """Show the limits and the use of the caller's project."""
    return _shown(call, call.project_id)


def show_defaults(call: calls.Call) -> calls.Answer:
    """Show the limits of projects without limits of their own."""
    return calls.Answer(document={"quota": _limits(call, None)})


def show(call: calls.Call) -> calls.Answer:
    """Show the limits and the use of a project."""
    project_id = call.path["project_id"]
    if not call.may(policies.GET, project_id):
        raise errors.ApiError(
            codes.PROJECT_NOT_FOUND, f"there is no project {project_id!r:.80}"
        )
    return _shown(call, project_id)


def update(call: calls.Call) -> calls.Answer:
    """Limit the use of a project; missing limits stay as they are."""
    project_id = call.path["project_id"]
    call.require(policies.UPDATE, project_id)
    for resource in call.body["quota"]:
        if not _is_known(call, resource):
            raise errors.ApiError(
                codes.INVALID_REQUEST,
                f"body.quota.{resource} needs version"
                f" {microversion.Version(*schemas.SINCE[resource])}",
            )
    limits = {
        # JSON allows 1e9, too.
        resource: None if limit is None else int(limit)
        for resource, limit in call.body["quota"].items()
    }
    _set(call, project_id, limits)
    return _shown(call, project_id)


def delete(call: calls.Call) -> calls.Answer:
    """Reset the limits of a project to the defaults."""
    project_id = call.path["project_id"]
    call.require(policies.DELETE, project_id)
    _set(call, project_id, dict.fromkeys(schemas.RESOURCES))
    return calls.Answer(document=None, status=204)


def _set(
    call: calls.Call, project_id: str, limits: Mapping[str, int | None]
) -> None:
    known = _own(call, project_id)
    # None: the default applies.
    call.trail.before = {name: known.get(name) for name in limits}
    call.backends.conductor.set_quota(project_id, limits)


def _own(call: calls.Call, project_id: str | None) -> dict[str, int]:
    """Return the limits that were set for a project."""
    if project_id is None:
        return {}
    return {
        row.resource: row.hard_limit
        for row in call.backends.database.quotas(project_id)
        if row.hard_limit is not None
    }


def _shown(call: calls.Call, project_id: str) -> calls.Answer:
    used = _in_use(call, project_id)
    return calls.Answer(
        document={
            "quota": {
                "project_id": project_id,
                **{
                    resource: {**limit, "in_use": used[resource]}
                    for resource, limit in _limits(call, project_id).items()
                },
                "links": calls.self_link(call.url("quotas", project_id)),
            }
        }
    )


def _is_known(call: calls.Call, resource: str) -> bool:
    """Whether the version of a request has a resource."""
    return schemas.SINCE.get(resource, microversion.OLDEST) <= call.version


def _limits(
    call: calls.Call, project_id: str | None
) -> dict[str, dict[str, Any]]:
    """Return the limits in force, by resource."""
    resources = [name for name in schemas.RESOURCES if _is_known(call, name)]
    defaults = call.backends.default_limits
    if defaults is None:
        # The leader has them from Keystone.
        told = call.ask(lambda leader: leader.get_quota(project_id)) or {}
        unknown = {"limit": None, "source": _FROM_KEYSTONE}
        return {name: told.get(name, unknown) for name in resources}
    own = _own(call, project_id)
    return {
        resource: {
            "limit": own.get(resource, defaults[resource]),
            "source": _FROM_PROJECT if resource in own else _FROM_DEFAULT,
        }
        for resource in resources
    }


def _in_use(call: calls.Call, project_id: str) -> dict[str, int]:
    """Return the usage of each limited resource by a project."""
    database = call.backends.database
    groups = [one for one in database.groups() if one.project_id == project_id]
    queued = [
        one
        for one in database.count_sessions(project_id)
        if one.state == states.QUEUED
    ]
    return {
        "sessions": database.count_slots(project_id),
        "queued": sum(one.sessions for one in queued),
        "queued_bytes": sum(one.claimed_bytes for one in queued),
        "bitstream_bytes": sum(
            one.size_bytes for one in database.bitstreams(project_id)
        ),
        "groups": len(groups),
        "group_slots": sum(
            group.charged_slots(one.size, one.max_size, elastic=one.elastic)
            for one in groups
        ),
        "group_clients": len(database.group_clients(project_id=project_id)),
    }
