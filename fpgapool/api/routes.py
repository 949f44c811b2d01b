# SPDX-License-Identifier: Apache-2.0

"""The whole API in one table."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from fpgapool.api import call as calls
from fpgapool.api import openapi
from fpgapool.api.handlers import accelerators
from fpgapool.api.handlers import bitstreams
from fpgapool.api.handlers import devices
from fpgapool.api.handlers import groups
from fpgapool.api.handlers import hosts
from fpgapool.api.handlers import instances
from fpgapool.api.handlers import pool
from fpgapool.api.handlers import quotas
from fpgapool.api.handlers import services
from fpgapool.api.handlers import sessions
from fpgapool.api.handlers import slots
from fpgapool.api.handlers import usage
from fpgapool.api.handlers import vendordata
from fpgapool.api.handlers import versions
from fpgapool.api.http import microversion
from fpgapool.api.schemas import accelerators as accelerator_schemas
from fpgapool.api.schemas import bitstreams as bitstream_schemas
from fpgapool.api.schemas import common
from fpgapool.api.schemas import devices as device_schemas
from fpgapool.api.schemas import groups as group_schemas
from fpgapool.api.schemas import hosts as host_schemas
from fpgapool.api.schemas import instances as instance_schemas
from fpgapool.api.schemas import pool as pool_schemas
from fpgapool.api.schemas import quotas as quota_schemas
from fpgapool.api.schemas import services as service_schemas
from fpgapool.api.schemas import sessions as session_schemas
from fpgapool.api.schemas import slots as slot_schemas
from fpgapool.api.schemas import usage as usage_schemas
from fpgapool.api.schemas import vendordata as vendordata_schemas
from fpgapool.api.schemas import versions as version_schemas
from fpgapool.policies import accelerators as accelerator_policies
from fpgapool.policies import bitstreams as bitstream_policies
from fpgapool.policies import devices as device_policies
from fpgapool.policies import groups as group_policies
from fpgapool.policies import hosts as host_policies
from fpgapool.policies import instances as instance_policies
from fpgapool.policies import pool as pool_policies
from fpgapool.policies import quotas as quota_policies
from fpgapool.policies import services as service_policies
from fpgapool.policies import sessions as session_policies
from fpgapool.policies import slots as slot_policies
from fpgapool.policies import usage as usage_policies
from fpgapool.policies import vendordata as vendordata_policies
from fpgapool.policies import versions as version_policies

Handler = Callable[[calls.Call], calls.Answer]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Route:
    """One operation.

    :ivar path: with the names of its variable parts in braces.
    :ivar policy: the policy that must allow it in the caller's own project.
    :ivar public: needs no token.
    :ivar query: schema of the query.
    :ivar body: schema of the request's body; None if it has none.
    :ivar max_body_bytes: the largest body; None: the default.
    :ivar response: schema of the answer's body; None if it has none.
    :ivar upload: the body is a file.
    :ivar download: the answer is a file.
    :ivar bodyless: the request has no body.
    :ivar status: of a successful answer.
    :ivar other_responses: schemas of successful answers with other statuses.
    :ivar since: the first microversion that has it.
    """

    method: str
    path: str
    handler: Handler
    policy: str
    summary: str
    public: bool = False
    query: common.Schema = dataclasses.field(
        default_factory=lambda: common.NO_QUERY
    )
    body: common.Schema | None = None
    max_body_bytes: int | None = None
    response: common.Schema | None = None
    upload: bool = False
    download: bool = False
    bodyless: bool = False
    status: int = 200
    other_responses: Mapping[int, common.Schema] = dataclasses.field(
        default_factory=dict
    )
    since: str = str(microversion.OLDEST)

    def __post_init__(self) -> None:
        if self.response is None and not self.download and self.status != 204:
            raise ValueError(f"{self.method} {self.path} lacks a schema")
        if self.response is not None and self.status == 204:
            raise ValueError(f"{self.method} {self.path} lacks a schema")
        is_empty = self.body is None and not (self.upload or self.bodyless)
        if is_empty and self.method in ("PUT", "PATCH"):
            raise ValueError(f"{self.method} {self.path} lacks a schema")
        if self.since not in microversion.VERSIONS:
            raise ValueError(f"{self.since} is not a microversion")


@functools.cache
def description() -> dict[str, Any]:
    """Describe :data:`ROUTES` in OpenAPI 3.1."""
    return openapi.document(ROUTES)


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/",
        handler=versions.index,
        policy=version_policies.LIST,
        public=True,
        response=version_schemas.LIST,
        summary="List the API's versions",
    ),
    Route(
        method="GET",
        path="/v1",
        handler=versions.show,
        policy=version_policies.GET,
        public=True,
        response=version_schemas.SHOW,
        summary="Show version 1",
    ),
    Route(
        method="GET",
        path="/v1/openapi.json",
        handler=versions.make_document(description),
        policy=version_policies.DOCUMENT,
        public=True,
        response=version_schemas.DOCUMENT,
        summary="Show the API's description in OpenAPI",
    ),
    Route(
        method="GET",
        path="/v1/accelerators",
        handler=accelerators.index,
        policy=accelerator_policies.LIST,
        query=accelerator_schemas.LIST_QUERY,
        response=accelerator_schemas.LIST,
        summary="List the accelerators",
    ),
    Route(
        method="GET",
        path="/v1/accelerators/{name}",
        handler=accelerators.show,
        policy=accelerator_policies.GET,
        response=accelerator_schemas.SHOW,
        summary="Show an accelerator",
    ),
    Route(
        method="GET",
        path="/v1/bitstreams",
        handler=bitstreams.index,
        policy=bitstream_policies.LIST,
        query=bitstream_schemas.LIST_QUERY,
        response=bitstream_schemas.LIST,
        summary="List bitstreams",
    ),
    Route(
        method="POST",
        path="/v1/bitstreams",
        handler=bitstreams.create,
        policy=bitstream_policies.CREATE,
        body=bitstream_schemas.CREATE,
        response=bitstream_schemas.SHOW,
        status=201,
        summary="Create a bitstream; its file follows",
    ),
    Route(
        method="GET",
        path="/v1/bitstreams/{bitstream_id}",
        handler=bitstreams.show,
        policy=bitstream_policies.GET,
        response=bitstream_schemas.SHOW,
        summary="Show a bitstream",
    ),
    Route(
        method="PATCH",
        path="/v1/bitstreams/{bitstream_id}",
        handler=bitstreams.update,
        policy=bitstream_policies.UPDATE,
        body=bitstream_schemas.UPDATE,
        response=bitstream_schemas.SHOW,
        summary="Change the metadata of a bitstream",
    ),
    Route(
        method="DELETE",
        path="/v1/bitstreams/{bitstream_id}",
        handler=bitstreams.delete,
        policy=bitstream_policies.DELETE,
        status=204,
        summary="Delete a bitstream",
    ),
    Route(
        method="PUT",
        path="/v1/bitstreams/{bitstream_id}/file",
        handler=bitstreams.upload,
        policy=bitstream_policies.UPLOAD,
        upload=True,
        response=bitstream_schemas.SHOW,
        summary="Upload a bitstream's file",
    ),
    Route(
        method="GET",
        path="/v1/bitstreams/{bitstream_id}/file",
        handler=bitstreams.download,
        policy=bitstream_policies.DOWNLOAD,
        download=True,
        summary="Download a bitstream's file",
    ),
    Route(
        method="POST",
        path="/v1/bitstreams/{bitstream_id}/approve",
        handler=bitstreams.approve,
        policy=bitstream_policies.APPROVE,
        body=bitstream_schemas.APPROVE,
        response=bitstream_schemas.SHOW,
        summary="Approve a bitstream",
    ),
    Route(
        method="POST",
        path="/v1/bitstreams/{bitstream_id}/reject",
        handler=bitstreams.reject,
        policy=bitstream_policies.REJECT,
        body=bitstream_schemas.REJECT,
        response=bitstream_schemas.SHOW,
        summary="Reject a bitstream",
    ),
    Route(
        method="PUT",
        path="/v1/bitstreams/{bitstream_id}/projects/{project_id}",
        handler=bitstreams.share,
        policy=bitstream_policies.SHARE,
        bodyless=True,
        response=bitstream_schemas.SHOW,
        summary="Share a bitstream with another project",
    ),
    Route(
        method="DELETE",
        path="/v1/bitstreams/{bitstream_id}/projects/{project_id}",
        handler=bitstreams.unshare,
        policy=bitstream_policies.SHARE,
        status=204,
        summary="Stop sharing a bitstream with a project",
    ),
    Route(
        method="GET",
        path="/v1/hosts",
        handler=hosts.index,
        policy=host_policies.LIST,
        query=host_schemas.LIST_QUERY,
        response=host_schemas.LIST,
        summary="List the hosts",
    ),
    Route(
        method="GET",
        path="/v1/hosts/{host_uuid}",
        handler=hosts.show,
        policy=host_policies.GET,
        response=host_schemas.SHOW,
        summary="Show a host",
    ),
    Route(
        method="PATCH",
        path="/v1/hosts/{host_uuid}",
        handler=hosts.change,
        policy=host_policies.CHANGE,
        body=host_schemas.CHANGE,
        response=host_schemas.SHOW,
        summary="Enable, drain or disable a host",
    ),
    Route(
        method="GET",
        path="/v1/devices",
        handler=devices.index,
        policy=device_policies.LIST,
        query=device_schemas.LIST_QUERY,
        response=device_schemas.LIST,
        summary="List the devices",
    ),
    Route(
        method="GET",
        path="/v1/devices/{device_id}",
        handler=devices.show,
        policy=device_policies.GET,
        response=device_schemas.SHOW,
        summary="Show a device",
    ),
    Route(
        method="PATCH",
        path="/v1/devices/{device_id}",
        handler=devices.change,
        policy=device_policies.CHANGE,
        body=device_schemas.CHANGE,
        response=device_schemas.SHOW,
        summary="Enable, drain or disable a device",
    ),
    Route(
        method="GET",
        path="/v1/slots",
        handler=slots.index,
        policy=slot_policies.LIST,
        query=slot_schemas.LIST_QUERY,
        response=slot_schemas.LIST,
        summary="List the slots",
    ),
    Route(
        method="GET",
        path="/v1/slots/{slot_id}",
        handler=slots.show,
        policy=slot_policies.GET,
        response=slot_schemas.SHOW,
        summary="Show a slot",
    ),
    Route(
        method="POST",
        path="/v1/slots/{slot_id}/test",
        handler=slots.test,
        policy=slot_policies.TEST,
        body=slot_schemas.TEST,
        response=slot_schemas.SHOW,
        status=202,
        summary="Start a self-test of a slot",
    ),
    Route(
        method="POST",
        path="/v1/sessions",
        handler=sessions.create,
        policy=session_policies.CREATE,
        query=session_schemas.CREATE_QUERY,
        body=session_schemas.CREATE,
        response=session_schemas.SHOW,
        status=202,
        other_responses={200: session_schemas.DRY_RUN},
        summary="Open a session",
    ),
    Route(
        method="GET",
        path="/v1/sessions",
        handler=sessions.index,
        policy=session_policies.LIST,
        query=session_schemas.LIST_QUERY,
        response=session_schemas.LIST,
        summary="List sessions, newest first",
    ),
    Route(
        method="GET",
        path="/v1/sessions/{session_id}",
        handler=sessions.show,
        policy=session_policies.GET,
        query=session_schemas.SHOW_QUERY,
        response=session_schemas.SHOW,
        summary="Show a session, now or when it has changed",
    ),
    Route(
        method="DELETE",
        path="/v1/sessions/{session_id}",
        handler=sessions.delete,
        policy=session_policies.DELETE,
        query=session_schemas.DELETE_QUERY,
        status=204,
        summary="Cancel or close a session",
    ),
    Route(
        method="POST",
        path="/v1/sessions/{session_id}/reopen",
        handler=sessions.reopen,
        policy=session_policies.CONNECT,
        body=session_schemas.REOPEN,
        response=session_schemas.SHOW,
        status=202,
        summary="Request another slot for a session that has lost its slot",
    ),
    Route(
        method="POST",
        path="/v1/sessions/{session_id}/renew-secret",
        handler=sessions.renew_secret,
        policy=session_policies.CONNECT,
        response=session_schemas.SHOW,
        status=202,
        summary="Request a new secret for a session",
    ),
    Route(
        method="POST",
        path="/v1/groups",
        handler=groups.create,
        policy=group_policies.CREATE,
        body=group_schemas.CREATE,
        response=group_schemas.SHOW,
        status=202,
        summary="Create a group",
    ),
    Route(
        method="GET",
        path="/v1/groups",
        handler=groups.index,
        policy=group_policies.LIST,
        query=group_schemas.LIST_QUERY,
        response=group_schemas.LIST,
        summary="List groups",
    ),
    Route(
        method="GET",
        path="/v1/groups/{group_id}",
        handler=groups.show,
        policy=group_policies.GET,
        response=group_schemas.SHOW,
        summary="Show a group",
    ),
    Route(
        method="PATCH",
        path="/v1/groups/{group_id}",
        handler=groups.update,
        policy=group_policies.UPDATE,
        body=group_schemas.UPDATE,
        response=group_schemas.SHOW,
        summary="Rename, resize or share a group",
    ),
    Route(
        method="DELETE",
        path="/v1/groups/{group_id}",
        handler=groups.delete,
        policy=group_policies.DELETE,
        status=204,
        summary="Delete a group, and revoke its clients",
    ),
    Route(
        method="PUT",
        path="/v1/groups/{group_id}/goal",
        handler=groups.set_goal,
        policy=group_policies.GOAL,
        body=group_schemas.SET_GOAL,
        response=group_schemas.SHOW,
        summary="Set the goal of a group",
    ),
    Route(
        method="DELETE",
        path="/v1/groups/{group_id}/goal",
        handler=groups.delete_goal,
        policy=group_policies.GOAL,
        status=204,
        summary="Remove the goal of a group",
    ),
    Route(
        method="POST",
        path="/v1/groups/{group_id}/clients",
        handler=groups.attach,
        policy=group_policies.ATTACH,
        bodyless=True,
        response=group_schemas.ATTACHED,
        status=202,
        summary="Attach a client to a group",
    ),
    Route(
        method="GET",
        path="/v1/groups/{group_id}/clients",
        handler=groups.index_clients,
        policy=group_policies.LIST_CLIENTS,
        query=group_schemas.LIST_CLIENTS_QUERY,
        response=group_schemas.LIST_CLIENTS,
        summary="List the clients of a group",
    ),
    Route(
        method="GET",
        path="/v1/groups/{group_id}/clients/{client_id}",
        handler=groups.show_client,
        policy=group_policies.GET_CLIENT,
        response=group_schemas.SHOW_CLIENT,
        summary="Show a client of a group",
    ),
    Route(
        method="DELETE",
        path="/v1/groups/{group_id}/clients/{client_id}",
        handler=groups.revoke,
        policy=group_policies.REVOKE,
        query=group_schemas.REVOKE_QUERY,
        status=204,
        summary="Revoke a client of a group",
    ),
    Route(
        method="POST",
        path="/v1/vendordata",
        handler=vendordata.create,
        policy=vendordata_policies.CREATE,
        body=vendordata_schemas.CREATE,
        # User data alone may have 64 KiB.
        max_body_bytes=1024 * 1024,
        response=vendordata_schemas.SHOW,
        summary="Get the vendordata of an instance; for Nova",
    ),
    Route(
        method="GET",
        path="/v1/instances",
        handler=instances.index,
        policy=instance_policies.LIST,
        query=instance_schemas.LIST_QUERY,
        response=instance_schemas.LIST,
        summary="List instances that have a token, newest first",
    ),
    Route(
        method="DELETE",
        path="/v1/instances/{instance_id}/token",
        handler=instances.revoke_token,
        policy=instance_policies.REVOKE_TOKEN,
        status=204,
        summary="Revoke the token of an instance",
    ),
    Route(
        method="GET",
        path="/v1/pool",
        handler=pool.show,
        policy=pool_policies.GET,
        response=pool_schemas.SHOW,
        summary="Show a summary of the pool",
    ),
    Route(
        method="GET",
        path="/v1/pool/snapshot",
        handler=pool.snapshot,
        policy=pool_policies.SNAPSHOT,
        response=pool_schemas.SNAPSHOT,
        summary="Show the data by which Nova places instances",
    ),
    Route(
        method="GET",
        path="/v1/quotas",
        handler=quotas.show_own,
        policy=quota_policies.GET,
        response=quota_schemas.SHOW,
        summary="Show the limits and the use of the own project",
    ),
    Route(
        method="GET",
        path="/v1/quotas/defaults",
        handler=quotas.show_defaults,
        policy=quota_policies.DEFAULTS,
        response=quota_schemas.DEFAULTS,
        summary="Show the default limits of projects",
    ),
    Route(
        method="GET",
        path="/v1/quotas/{project_id}",
        handler=quotas.show,
        policy=quota_policies.GET,
        response=quota_schemas.SHOW,
        summary="Show the limits and the use of a project",
    ),
    Route(
        method="PUT",
        path="/v1/quotas/{project_id}",
        handler=quotas.update,
        policy=quota_policies.UPDATE,
        body=quota_schemas.UPDATE,
        response=quota_schemas.SHOW,
        summary="Limit the use of a project",
    ),
    Route(
        method="DELETE",
        path="/v1/quotas/{project_id}",
        handler=quotas.delete,
        policy=quota_policies.DELETE,
        status=204,
        summary="Reset the limits of a project to the defaults",
    ),
    Route(
        method="GET",
        path="/v1/usage",
        handler=usage.index,
        policy=usage_policies.LIST,
        query=usage_schemas.LIST_QUERY,
        response=usage_schemas.LIST,
        summary="List the usage of projects",
    ),
    Route(
        method="GET",
        path="/v1/services",
        handler=services.index,
        policy=service_policies.LIST,
        query=service_schemas.LIST_QUERY,
        response=service_schemas.LIST,
        summary="List the leading conductor and the agents",
    ),
)
