# SPDX-License-Identifier: Apache-2.0

"""Quotas of projects."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from fpgapool.api import call as calls
from fpgapool.api.http import errors
from fpgapool.db import api as db_api
from fpgapool.vocabulary import accounting
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import group
from fpgapool.vocabulary import rules
from fpgapool.vocabulary import states

_FROM_KEYSTONE = "keystone"
_FROM_PROJECT = "project"
_FROM_DEFAULT = "default"


def show_own(call: calls.Call) -> calls.Answer:
    """Show the limits and the usage of your project."""
    return _shown(call, call.project_id)


def show_defaults(call: calls.Call) -> calls.Answer:
    """Show the default limits of projects."""
    return calls.Answer(document={"quota": _limits(call, None, ())})


def show(call: calls.Call) -> calls.Answer:
    """Show the limits and the usage of a project."""
    project_id = call.path["project_id"]
    if not call.may(call.policy, project_id):
        raise errors.missing(codes.PROJECT_NOT_FOUND, "project", project_id)
    if not rules.PROJECT_ID.fullmatch(project_id):
        raise errors.ApiError(
            codes.INVALID_REQUEST,
            f"project_id must be {rules.PROJECT_ID_WORDS}",
        )
    return _shown(call, project_id)


def update(call: calls.Call) -> calls.Answer:
    """Set limits of a project; omitted limits do not change."""
    project_id = call.path["project_id"]
    call.require(call.policy, project_id)
    for resource in call.body["quota"]:
        if not _is_known(call, resource):
            raise errors.ApiError(
                codes.INVALID_REQUEST,
                f"quota.{resource} requires a newer version of the API",
            )
    limits = {
        # JSON Schema also accepts 1e9 as an integer.
        resource: None if limit is None else int(limit)
        for resource, limit in call.body["quota"].items()
    }
    _set(call, project_id, limits)
    return _shown(call, project_id)


def delete(call: calls.Call) -> calls.Answer:
    """Reset the limits of a project to the defaults."""
    project_id = call.path["project_id"]
    call.require(call.policy, project_id)
    # Conductors of an earlier release do not know the others.
    reset = dict.fromkeys(accounting.QUOTAS.keys() - accounting.QUOTAS_SINCE)
    for one in call.backends.database.quotas(project_id):
        # Budgets are rows of the same table.
        if one.resource in accounting.QUOTAS:
            reset[one.resource] = None
    _set(call, project_id, reset)
    return calls.NO_CONTENT


def _is_known(call: calls.Call, resource: str) -> bool:
    """Return whether the version of a request has a resource."""
    return call.version >= accounting.QUOTAS_SINCE.get(resource, (1, 0))


def _set(
    call: calls.Call, project_id: str, limits: Mapping[str, int | None]
) -> None:
    known = {
        one.resource: one.hard_limit
        for one in call.backends.database.quotas(project_id)
    }
    # None means that the default limit applied.
    call.audit.before = {name: known.get(name) for name in limits}
    call.backends.conductor.set_quota(project_id, limits)


def _shown(call: calls.Call, project_id: str) -> calls.Answer:
    use = call.backends.database.project_use(project_id)
    used = _in_use(use)
    return calls.Answer(
        document={
            "quota": {
                "project_id": project_id,
                **{
                    resource: {**limit, "in_use": used[resource]}
                    for resource, limit in _limits(
                        call, project_id, use.quotas
                    ).items()
                },
                "links": calls.self_link(call.url("quotas", project_id)),
            }
        }
    )


def _limits(
    call: calls.Call,
    project_id: str | None,
    quotas: Iterable[db_api.QuotaRecord],
) -> dict[str, dict[str, Any]]:
    """Return the limits in force, by resource.

    :param project_id: the project; None: return the default limits.
    :param quotas: the limits that were set for the project.
    """
    defaults = call.backends.default_limits
    if defaults is None:
        # Only the leader reads them from Keystone.
        limits = call.ask(lambda leader: leader.get_quota(project_id)) or {}
        unknown = {"limit": None, "source": _FROM_KEYSTONE}
        return {name: limits.get(name, unknown) for name in _names(call)}
    own = {
        one.resource: one.hard_limit
        for one in quotas
        if one.hard_limit is not None
    }
    return {
        resource: {
            "limit": own.get(resource, defaults[resource]),
            "source": _FROM_PROJECT if resource in own else _FROM_DEFAULT,
        }
        for resource in _names(call)
    }


def _names(call: calls.Call) -> list[str]:
    """Return the resources that the caller's version of the API has."""
    return [name for name in accounting.QUOTAS if _is_known(call, name)]


def _in_use(use: db_api.ProjectUse) -> dict[str, int]:
    """Return the usage of each limited resource."""
    queued = [one for one in use.sessions if one.state == states.QUEUED]
    return {
        "sessions": use.slots,
        "queued": sum(one.sessions for one in queued),
        "queued_bytes": sum(one.claimed_bytes for one in queued),
        "bitstream_bytes": sum(one.size_bytes for one in use.bitstreams),
        "groups": len(use.groups),
        "group_slots": sum(map(group.charged_slots, use.groups)),
        "group_clients": len(use.group_clients),
        # Each user has a part of its own.
        "live_per_user": 0,
        # Sessions do not use up a priority.
        "max_priority": 0,
        "reservation_slots": sum(
            one.slots for one in use.reservations if not one.is_over
        ),
    }
