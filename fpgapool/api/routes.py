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
from fpgapool.api.http import rights
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

Handler = Callable[[calls.Call], calls.Answer]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Route:
    """One operation.

    :ivar path: with the names of its variable parts in braces.
    :ivar policy: the policy that must allow it in the caller's own project.
    :ivar rule: the policy's default; routes with one policy have the same.
    :ivar body: schema of the request's body; None if it has none.
    :ivar max_body_bytes: the largest body; None: the default.
    :ivar response: schema of the answer's body; None if it has none.
    :ivar other_responses: schemas of successful answers with other statuses.
    """

    method: str
    path: str
    handler: Handler
    policy: str
    rule: str
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


def _route(operation: str, handler: Handler, **more: Any) -> Route:
    """Return a route."""
    method, path = operation.split()
    return Route(method=method, path=path, handler=handler, **more)


ROUTES: tuple[Route, ...] = (
    _route(
        "GET /",
        versions.index,
        policy="fpgapool:versions:list",
        rule=rights.PUBLIC,
        public=True,
        response=version_schemas.LIST,
        summary="List the API's versions",
    ),
    _route(
        "GET /v1",
        versions.show,
        policy="fpgapool:versions:get",
        rule=rights.PUBLIC,
        public=True,
        response=version_schemas.SHOW,
        summary="Show version 1",
    ),
    _route(
        "GET /v1/openapi.json",
        versions.make_document(description),
        policy="fpgapool:openapi:get",
        rule=rights.PUBLIC,
        public=True,
        response=version_schemas.DOCUMENT,
        summary="Show the API's description in OpenAPI",
    ),
    _route(
        "GET /v1/accelerators",
        accelerators.index,
        policy="fpgapool:accelerators:list",
        rule=rights.ANY_READER_OR_INSTANCE,
        query=accelerator_schemas.LIST_QUERY,
        response=accelerator_schemas.LIST,
        summary="List the accelerators",
    ),
    _route(
        "GET /v1/accelerators/{name}",
        accelerators.show,
        policy="fpgapool:accelerators:get",
        rule=rights.ANY_READER_OR_INSTANCE,
        response=accelerator_schemas.SHOW,
        summary="Show an accelerator",
    ),
    _route(
        "GET /v1/bitstreams",
        bitstreams.index,
        policy="fpgapool:bitstreams:list",
        rule=rights.PROJECT_READER_OR_ADMIN,
        query=bitstream_schemas.LIST_QUERY,
        response=bitstream_schemas.LIST,
        summary="List the bitstreams that your project may see",
    ),
    _route(
        "POST /v1/bitstreams",
        bitstreams.create,
        policy="fpgapool:bitstreams:create",
        rule=rights.PROJECT_MEMBER,
        body=bitstream_schemas.CREATE,
        response=bitstream_schemas.SHOW,
        status=201,
        summary="Create a bitstream; its file follows",
    ),
    _route(
        "GET /v1/bitstreams/{bitstream_id}",
        bitstreams.show,
        policy="fpgapool:bitstreams:get",
        rule=rights.PROJECT_READER_OR_ADMIN,
        response=bitstream_schemas.SHOW,
        summary="Show a bitstream",
    ),
    _route(
        "PATCH /v1/bitstreams/{bitstream_id}",
        bitstreams.update,
        policy="fpgapool:bitstreams:update",
        rule=rights.PROJECT_MEMBER_OR_ADMIN,
        body=bitstream_schemas.UPDATE,
        response=bitstream_schemas.SHOW,
        summary="Change the metadata of a bitstream",
    ),
    _route(
        "DELETE /v1/bitstreams/{bitstream_id}",
        bitstreams.delete,
        policy="fpgapool:bitstreams:delete",
        rule=rights.PROJECT_MEMBER_OR_ADMIN,
        status=204,
        summary="Delete a bitstream",
    ),
    _route(
        "PUT /v1/bitstreams/{bitstream_id}/file",
        bitstreams.upload,
        policy="fpgapool:bitstreams:upload",
        rule=rights.PROJECT_MEMBER_OR_ADMIN,
        upload=True,
        response=bitstream_schemas.SHOW,
        summary="Upload a bitstream's file",
    ),
    _route(
        "GET /v1/bitstreams/{bitstream_id}/file",
        bitstreams.download,
        policy="fpgapool:bitstreams:download",
        rule="rule:project_reader_or_admin or rule:agent_api",
        download=True,
        summary="Download a bitstream's file",
    ),
    _route(
        "POST /v1/bitstreams/{bitstream_id}/approve",
        bitstreams.approve,
        policy="fpgapool:bitstreams:approve",
        rule=rights.ADMIN,
        body=bitstream_schemas.APPROVE,
        response=bitstream_schemas.SHOW,
        summary="Approve a bitstream, so that slots may run it",
    ),
    _route(
        "POST /v1/bitstreams/{bitstream_id}/reject",
        bitstreams.reject,
        policy="fpgapool:bitstreams:reject",
        rule=rights.ADMIN,
        body=bitstream_schemas.REJECT,
        response=bitstream_schemas.SHOW,
        summary="Reject a bitstream, so that no slot runs it",
    ),
    _route(
        "PUT /v1/bitstreams/{bitstream_id}/projects/{project_id}",
        bitstreams.share,
        policy="fpgapool:bitstreams:share",
        rule=rights.PROJECT_MEMBER_OR_ADMIN,
        bodyless=True,
        response=bitstream_schemas.SHOW,
        summary="Share a bitstream with another project",
    ),
    _route(
        "DELETE /v1/bitstreams/{bitstream_id}/projects/{project_id}",
        bitstreams.unshare,
        policy="fpgapool:bitstreams:share",
        rule=rights.PROJECT_MEMBER_OR_ADMIN,
        status=204,
        summary="Stop sharing a bitstream with a project",
    ),
    _route(
        "GET /v1/hosts",
        hosts.index,
        policy="fpgapool:hosts:list",
        rule=rights.ADMIN_OR_SERVICE,
        query=host_schemas.LIST_QUERY,
        response=host_schemas.LIST,
        summary="List the hosts",
    ),
    _route(
        "GET /v1/hosts/{host_uuid}",
        hosts.show,
        policy="fpgapool:hosts:get",
        rule=rights.ADMIN_OR_SERVICE,
        response=host_schemas.SHOW,
        summary="Show a host",
    ),
    _route(
        "PATCH /v1/hosts/{host_uuid}",
        hosts.change,
        policy="fpgapool:hosts:change",
        rule=rights.ADMIN,
        body=host_schemas.CHANGE,
        response=host_schemas.SHOW,
        summary="Enable, drain or disable a host",
    ),
    _route(
        "GET /v1/devices",
        devices.index,
        policy="fpgapool:devices:list",
        rule=rights.ANY_READER,
        query=device_schemas.LIST_QUERY,
        response=device_schemas.LIST,
        summary="List the devices",
    ),
    _route(
        "GET /v1/devices/{device_id}",
        devices.show,
        policy="fpgapool:devices:get",
        rule=rights.ANY_READER,
        response=device_schemas.SHOW,
        summary="Show a device",
    ),
    _route(
        "PATCH /v1/devices/{device_id}",
        devices.change,
        policy="fpgapool:devices:change",
        rule=rights.ADMIN,
        body=device_schemas.CHANGE,
        response=device_schemas.SHOW,
        summary="Enable, drain or disable a device",
    ),
    _route(
        "GET /v1/slots",
        slots.index,
        policy="fpgapool:slots:list",
        rule=rights.ANY_READER,
        query=slot_schemas.LIST_QUERY,
        response=slot_schemas.LIST,
        summary="List the slots",
    ),
    _route(
        "GET /v1/slots/{slot_id}",
        slots.show,
        policy="fpgapool:slots:get",
        rule=rights.ANY_READER,
        response=slot_schemas.SHOW,
        summary="Show a slot",
    ),
    _route(
        "POST /v1/slots/{slot_id}/test",
        slots.test,
        policy="fpgapool:slots:test",
        rule=rights.ADMIN,
        body=slot_schemas.TEST,
        response=slot_schemas.SHOW,
        status=202,
        summary="Start a self-test of a slot",
    ),
    _route(
        "POST /v1/sessions",
        sessions.create,
        policy="fpgapool:sessions:create",
        rule=rights.PROJECT_MEMBER_OR_INSTANCE,
        query=session_schemas.CREATE_QUERY,
        body=session_schemas.CREATE,
        response=session_schemas.SHOW,
        status=202,
        other_responses={200: session_schemas.DRY_RUN},
        summary="Open a session",
    ),
    _route(
        "GET /v1/sessions",
        sessions.index,
        policy="fpgapool:sessions:list",
        rule=rights.ANY_PROJECT_READER,
        query=session_schemas.LIST_QUERY,
        response=session_schemas.LIST,
        summary="List the sessions of your project, newest first",
    ),
    _route(
        "GET /v1/sessions/{session_id}",
        sessions.show,
        policy="fpgapool:sessions:get",
        rule=rights.ANY_PROJECT_READER,
        query=session_schemas.SHOW_QUERY,
        response=session_schemas.SHOW,
        summary="Show a session, now or when it has changed",
    ),
    _route(
        "DELETE /v1/sessions/{session_id}",
        sessions.delete,
        policy="fpgapool:sessions:delete",
        rule=rights.ANY_MEMBER,
        query=session_schemas.DELETE_QUERY,
        status=204,
        summary="Cancel or close a session",
    ),
    _route(
        "POST /v1/sessions/{session_id}/reopen",
        sessions.reopen,
        policy="fpgapool:sessions:connect",
        rule=rights.PROJECT_MEMBER_OR_INSTANCE,
        body=session_schemas.REOPEN,
        response=session_schemas.SHOW,
        status=202,
        summary="Request another slot for a session that has lost its slot",
    ),
    _route(
        "POST /v1/sessions/{session_id}/renew-secret",
        sessions.renew_secret,
        policy="fpgapool:sessions:connect",
        rule=rights.PROJECT_MEMBER_OR_INSTANCE,
        response=session_schemas.SHOW,
        status=202,
        summary="Request a new secret for a session",
    ),
    _route(
        "POST /v1/groups",
        groups.create,
        policy="fpgapool:groups:create",
        rule=rights.PROJECT_MEMBER,
        body=group_schemas.CREATE,
        response=group_schemas.SHOW,
        status=202,
        summary="Create a group",
    ),
    _route(
        "GET /v1/groups",
        groups.index,
        policy="fpgapool:groups:list",
        rule=rights.ANY_PROJECT_READER,
        query=group_schemas.LIST_QUERY,
        response=group_schemas.LIST,
        summary="List the groups that your project may use",
    ),
    _route(
        "GET /v1/groups/{group_id}",
        groups.show,
        policy="fpgapool:groups:get",
        rule=rights.ANY_PROJECT_READER,
        response=group_schemas.SHOW,
        summary="Show a group",
    ),
    _route(
        "PATCH /v1/groups/{group_id}",
        groups.update,
        policy="fpgapool:groups:update",
        rule=rights.PROJECT_MEMBER_OR_ADMIN,
        body=group_schemas.UPDATE,
        response=group_schemas.SHOW,
        summary="Rename, resize or share a group",
    ),
    _route(
        "DELETE /v1/groups/{group_id}",
        groups.delete,
        policy="fpgapool:groups:delete",
        rule=rights.PROJECT_MEMBER_OR_ADMIN,
        status=204,
        summary="Delete a group, and revoke its clients",
    ),
    _route(
        "PUT /v1/groups/{group_id}/goal",
        groups.set_goal,
        policy="fpgapool:groups:goal",
        rule=rights.PROJECT_MEMBER_OR_ADMIN,
        body=group_schemas.SET_GOAL,
        response=group_schemas.SHOW,
        summary="Set the goal of a group",
    ),
    _route(
        "DELETE /v1/groups/{group_id}/goal",
        groups.delete_goal,
        policy="fpgapool:groups:goal",
        rule=rights.PROJECT_MEMBER_OR_ADMIN,
        status=204,
        summary="Remove the goal of a group",
    ),
    _route(
        "POST /v1/groups/{group_id}/clients",
        groups.attach,
        policy="fpgapool:groups:clients:attach",
        rule=rights.PROJECT_MEMBER_OR_INSTANCE,
        bodyless=True,
        response=group_schemas.ATTACHED,
        status=202,
        summary="Attach a client to a group",
    ),
    _route(
        "GET /v1/groups/{group_id}/clients",
        groups.index_clients,
        policy="fpgapool:groups:clients:list",
        rule=rights.ANY_PROJECT_READER,
        query=group_schemas.LIST_CLIENTS_QUERY,
        response=group_schemas.LIST_CLIENTS,
        summary="List the clients of a group",
    ),
    _route(
        "GET /v1/groups/{group_id}/clients/{client_id}",
        groups.show_client,
        policy="fpgapool:groups:clients:get",
        rule=rights.ANY_PROJECT_READER,
        response=group_schemas.SHOW_CLIENT,
        summary="Show a client of a group",
    ),
    _route(
        "DELETE /v1/groups/{group_id}/clients/{client_id}",
        groups.revoke,
        policy="fpgapool:groups:clients:revoke",
        rule=rights.ANY_MEMBER,
        query=group_schemas.REVOKE_QUERY,
        status=204,
        summary="Revoke a client of a group",
    ),
    _route(
        "POST /v1/vendordata",
        vendordata.create,
        policy="fpgapool:vendordata:create",
        rule=rights.VENDORDATA,
        body=vendordata_schemas.CREATE,
        # User data alone may have 64 KiB.
        max_body_bytes=1024 * 1024,
        response=vendordata_schemas.SHOW,
        summary="Get the vendordata of an instance, with its token; for Nova",
    ),
    _route(
        "GET /v1/instances",
        instances.index,
        policy="fpgapool:instances:list",
        rule=rights.PROJECT_READER_OR_ADMIN,
        query=instance_schemas.LIST_QUERY,
        response=instance_schemas.LIST,
        summary="List the instances that have a token, newest first",
    ),
    _route(
        "DELETE /v1/instances/{instance_id}/token",
        instances.revoke_token,
        policy="fpgapool:instances:revoke_token",
        rule=rights.PROJECT_MEMBER_OR_ADMIN,
        status=204,
        summary="Revoke the token of an instance",
    ),
    _route(
        "GET /v1/pool",
        pool.show,
        policy="fpgapool:pool:get",
        rule=rights.ANY_READER,
        response=pool_schemas.SHOW,
        summary="Show a summary of the pool",
    ),
    _route(
        "GET /v1/pool/snapshot",
        pool.snapshot,
        policy="fpgapool:pool:snapshot",
        rule=rights.ADMIN_OR_SERVICE,
        response=pool_schemas.SNAPSHOT,
        summary="Show the data by which Nova places instances",
    ),
    _route(
        "GET /v1/quotas",
        quotas.show_own,
        policy="fpgapool:quotas:get",
        rule=rights.PROJECT_READER_OR_ADMIN,
        response=quota_schemas.SHOW,
        summary="Show the limits and the use of your project",
    ),
    _route(
        "GET /v1/quotas/defaults",
        quotas.show_defaults,
        policy="fpgapool:quotas:defaults",
        rule=rights.PROJECT_READER_OR_ADMIN,
        response=quota_schemas.DEFAULTS,
        summary="Show the default limits of projects",
    ),
    _route(
        "GET /v1/quotas/{project_id}",
        quotas.show,
        policy="fpgapool:quotas:get",
        rule=rights.PROJECT_READER_OR_ADMIN,
        response=quota_schemas.SHOW,
        summary="Show the limits and the use of a project",
    ),
    _route(
        "PUT /v1/quotas/{project_id}",
        quotas.update,
        policy="fpgapool:quotas:update",
        rule=rights.ADMIN,
        body=quota_schemas.UPDATE,
        response=quota_schemas.SHOW,
        summary="Limit the use of a project",
    ),
    _route(
        "DELETE /v1/quotas/{project_id}",
        quotas.delete,
        policy="fpgapool:quotas:delete",
        rule=rights.ADMIN,
        status=204,
        summary="Reset the limits of a project to the defaults",
    ),
    _route(
        "GET /v1/usage",
        usage.index,
        policy="fpgapool:usage:list",
        rule=rights.PROJECT_READER_OR_ADMIN,
        query=usage_schemas.LIST_QUERY,
        response=usage_schemas.LIST,
        summary="List the usage of projects",
    ),
    _route(
        "GET /v1/services",
        services.index,
        policy="fpgapool:services:list",
        rule=rights.ADMIN_OR_SERVICE,
        query=service_schemas.LIST_QUERY,
        response=service_schemas.LIST,
        summary="List the leading conductor and the agents",
    ),
)
