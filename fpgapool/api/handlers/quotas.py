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


def show_own(call: calls.Call) -> calls.Answer:
    """Show the limits and the use of the caller's project."""
    return _shown(call, call.project_id)


def show_defaults(call: calls.Call) -> calls.Answer:
    """Show the limits of projects without limits of their own."""
    told = call.ask(lambda source: source.get_quota())
    return calls.Answer(
        document={"quota": _resources(call, told, ("limit", "source"))}
    )


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
    return _answer(call, project_id, _set(call, project_id, limits))


def delete(call: calls.Call) -> calls.Answer:
    """Reset the limits of a project to the defaults."""
    project_id = call.path["project_id"]
    call.require(policies.DELETE, project_id)
    _set(call, project_id, dict.fromkeys(schemas.RESOURCES))
    return calls.Answer(document=None, status=204)


def _set(
    call: calls.Call, project_id: str, limits: Mapping[str, int | None]
) -> Mapping[str, Mapping[str, Any]]:
    known = {
        one.resource: one.hard_limit
        for one in call.backends.database.quotas(project_id)
    }
    # None: the default applies.
    call.trail.before = {name: known.get(name) for name in limits}
    told: Mapping[str, Mapping[str, Any]] = call.backends.conductor.set_quota(
        project_id, limits
    )
    return told


def _shown(call: calls.Call, project_id: str) -> calls.Answer:
    told = call.ask(lambda source: source.get_quota(project_id))
    return _answer(call, project_id, told)


def _answer(
    call: calls.Call, project_id: str, told: Mapping[str, Mapping[str, Any]]
) -> calls.Answer:
    return calls.Answer(
        document={
            "quota": {
                "project_id": project_id,
                **_resources(call, told, ("limit", "in_use", "source")),
                "links": calls.self_link(call.url("quotas", project_id)),
            }
        }
    )


def _is_known(call: calls.Call, resource: str) -> bool:
    """Whether the version of a request has a resource."""
    return schemas.SINCE.get(resource, microversion.OLDEST) <= call.version


def _resources(
    call: calls.Call,
    told: Mapping[str, Mapping[str, Any]],
    members: tuple[str, ...],
) -> dict[str, dict[str, Any]]:
    # An older or newer conductor may know other resources.
    return {
        resource: {name: told[resource][name] for name in members}
        for resource in schemas.RESOURCES
        if resource in told and _is_known(call, resource)
    }
