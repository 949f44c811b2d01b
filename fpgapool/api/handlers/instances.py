# SPDX-License-Identifier: Apache-2.0

"""Instances with tokens of their own; revoke a token."""

from __future__ import annotations

from typing import Any

from fpgapool.api import call as calls
from fpgapool.api.answers import paging
from fpgapool.api.http import errors
from fpgapool.api.http import times
from fpgapool.db import api as db_api
from fpgapool.policies import instances as policies
from fpgapool.vocabulary import codes


def index(call: calls.Call) -> calls.Answer:
    """List instances that have, or had, a token, newest first."""
    everywhere = bool(call.query.get("all_projects"))
    project_id = paging.project_id(call, policies.LIST_ALL)
    marker = call.query.get("marker")
    if marker is not None:
        _check_marker(call, marker, project_id)
    records = call.backends.database.list_instances(
        project_id,
        marker=marker,
        limit=paging.limit(call),
        ascending=paging.order(call, "created_at", ascending=False)[0][1],
    )
    return calls.Answer(
        document=paging.document(
            call,
            "instances",
            [_document(record, with_host=everywhere) for record in records],
        )
    )


def revoke_token(call: calls.Call) -> calls.Answer:
    """Revoke the token of an instance, for good."""
    record = _find(call)
    call.require(policies.REVOKE_TOKEN, record.project_id)
    call.trail.before = {"token": _token(record)}
    if not record.token_revoked:
        call.backends.conductor.revoke_instance_token(record.instance_id)
    return calls.NO_CONTENT


def _find(call: calls.Call) -> db_api.InstanceRecord:
    """Return the instance of the path.

    :raises ApiError: if there is none that the caller may see.
    """
    instance_id = call.path["instance_id"]
    record = call.backends.database.get_instance(instance_id[:36].lower())
    if (
        record is None
        or len(instance_id) > len(record.instance_id)
        or record.deleted_at is not None
        or (
            record.project_id != call.caller.project_id
            and not call.may(policies.ALL_PROJECTS)
        )
    ):
        raise errors.ApiError(
            codes.INSTANCE_NOT_FOUND,
            f"there is no instance {instance_id!r:.80} that has a token",
        )
    return record


def _check_marker(
    call: calls.Call, marker: str, project_id: str | None
) -> None:
    """Make sure that a marker does not reveal other projects' instances."""
    record = call.backends.database.get_instance(marker[:64])
    if record is None or project_id not in (None, record.project_id):
        raise paging.bad_marker(marker)


def _token(record: db_api.InstanceRecord) -> str:
    return "revoked" if record.token_revoked else "valid"


def _document(
    record: db_api.InstanceRecord, with_host: bool
) -> dict[str, Any]:
    return {
        "id": record.instance_id,
        "project_id": record.project_id,
        "name": record.name,
        # Nova does not tell the owner the host of an instance either.
        "host_uuid": record.host_uuid if with_host else None,
        "max_sessions": record.max_sessions,
        "token": _token(record),
        "created_at": times.text(record.created_at),
    }
