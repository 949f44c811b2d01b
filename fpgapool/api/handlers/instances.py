# SPDX-License-Identifier: Apache-2.0

"""Nova instances that have tokens."""

from __future__ import annotations

from typing import Any

from fpgapool.api import call as calls
from fpgapool.api.answers import paging
from fpgapool.api.answers import views
from fpgapool.api.http import errors
from fpgapool.api.http import rights
from fpgapool.db import api as db_api
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import inventory


def index(call: calls.Call) -> calls.Answer:
    """List the instances that have a token, newest first."""
    everywhere = bool(call.query.get("all_projects"))
    project_id = paging.project_id(call, rights.INSTANCES_LIST_ALL)
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
            [_document(call, one, with_host=everywhere) for one in records],
        )
    )


def revoke_token(call: calls.Call) -> calls.Answer:
    """Permanently revoke the token of an instance."""
    record = _find(call)
    call.require(call.policy, record.project_id)
    call.audit.before = {"token": _token(record)}
    if not record.token_revoked:
        call.backends.conductor.revoke_instance_token(record.instance_id)
    return calls.NO_CONTENT


def _find(call: calls.Call) -> db_api.InstanceRecord:
    """Return the instance that the path identifies.

    :raises ApiError: if it does not exist or the caller may not see it.
    """
    instance_id = call.path["instance_id"]
    record = call.backends.database.get_instance(instance_id[:36].lower())
    if (
        record is None
        or len(instance_id) > len(record.instance_id)
        or record.deleted_at is not None
        or (
            record.project_id != call.caller.project_id
            and not call.may(rights.INSTANCES_ALL_PROJECTS)
        )
    ):
        raise errors.ApiError(
            codes.INSTANCE_NOT_FOUND,
            f"instance {instance_id!r:.80} does not exist or has no token",
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
    call: calls.Call, record: db_api.InstanceRecord, with_host: bool
) -> dict[str, Any]:
    return {
        **views.members(inventory.INSTANCE, record, call.version),
        # Nova does not show the host to the owner of an instance either.
        "host_uuid": call.places.uuid(record.host_uuid) if with_host else None,
        "token": _token(record),
    }
