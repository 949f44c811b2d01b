# SPDX-License-Identifier: Apache-2.0

"""The whole API in one table."""

from __future__ import annotations

import dataclasses
import functools
import re
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


#: Names of handlers that policies call otherwise.
_ACTIONS = {"index": "list", "show": "get"}


def _route(operation: str, handler: Handler, **more: Any) -> Route:
    """Return a route.

    :param operation: its method and its path.
    :param more: its policy and summary, too, if they do not follow from the
        handler: a policy has the names of its module and function; a summary
        is the start of its docstring.
    """
    method, path = operation.split()
    name, module = handler.__name__, handler.__module__.rpartition(".")[2]
    found = {
        "policy": f"fpgapool:{module}:{_ACTIONS.get(name, name)}",
        "summary": re.split("[.;]", handler.__doc__ or "", maxsplit=1)[0],
    }
    return Route(
        method=method, path=path, handler=handler, **{**found, **more}
    )


ROUTES: tuple[Route, ...] = (
    _route(
        "GET /",
        versions.index,
        rule=rights.PUBLIC,
        public=True,
        response=version_schemas.LIST,
    ),
    _route(
        "GET /v1",
        versions.show,
        rule=rights.PUBLIC,
        public=True,
        response=version_schemas.SHOW,
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
        rule=rights.ANY_READER_OR_INSTANCE,
        query=accelerator_schemas.LIST_QUERY,
        response=accelerator_schemas.LIST,
    ),
    _route(
        "GET /v1/accelerators/{name}",
        accelerators.show,
        rule=rights.ANY_READER_OR_INSTANCE,
        response=accelerator_schemas.SHOW,
    ),
    _route(
        "GET /v1/bitstreams",
        bitstreams.index,
        rule=rights.PROJECT_READER_OR_ADMIN,
        query=bitstream_schemas.LIST_QUERY,
        response=bitstream_schemas.LIST,
    ),
    _route(
        "POST /v1/bitstreams",
        bitstreams.create,
        rule=rights.PROJECT_MEMBER,
        body=bitstream_schemas.CREATE,
        response=bitstream_schemas.SHOW,
        status=201,
        summary="Create a bitstream; its file follows",
    ),
    _route(
        "GET /v1/bitstreams/{bitstream_id}",
        bitstreams.show,
        rule=rights.PROJECT_READER_OR_ADMIN,
        response=bitstream_schemas.SHOW,
    ),
    _route(
        "PATCH /v1/bitstreams/{bitstream_id}",
        bitstreams.update,
        rule=rights.PROJECT_MEMBER_OR_ADMIN,
        body=bitstream_schemas.UPDATE,
        response=bitstream_schemas.SHOW,
    ),
    _route(
        "DELETE /v1/bitstreams/{bitstream_id}",
        bitstreams.delete,
        rule=rights.PROJECT_MEMBER_OR_ADMIN,
        status=204,
    ),
    _route(
        "PUT /v1/bitstreams/{bitstream_id}/file",
        bitstreams.upload,
        rule=rights.PROJECT_MEMBER_OR_ADMIN,
        upload=True,
        response=bitstream_schemas.SHOW,
    ),
    _route(
        "GET /v1/bitstreams/{bitstream_id}/file",
        bitstreams.download,
        rule="rule:project_reader_or_admin or rule:agent_api",
        download=True,
    ),
    _route(
        "POST /v1/bitstreams/{bitstream_id}/approve",
        bitstreams.approve,
        rule=rights.ADMIN,
        body=bitstream_schemas.APPROVE,
        response=bitstream_schemas.SHOW,
    ),
    _route(
        "POST /v1/bitstreams/{bitstream_id}/reject",
        bitstreams.reject,
        rule=rights.ADMIN,
        body=bitstream_schemas.REJECT,
        response=bitstream_schemas.SHOW,
    ),
    _route(
        "PUT /v1/bitstreams/{bitstream_id}/projects/{project_id}",
        bitstreams.share,
        rule=rights.PROJECT_MEMBER_OR_ADMIN,
        bodyless=True,
        response=bitstream_schemas.SHOW,
    ),
    _route(
        "DELETE /v1/bitstreams/{bitstream_id}/projects/{project_id}",
        bitstreams.unshare,
        policy="fpgapool:bitstreams:share",
        rule=rights.PROJECT_MEMBER_OR_ADMIN,
        status=204,
    ),
    _route(
        "GET /v1/hosts",
        hosts.index,
        rule=rights.ADMIN_OR_SERVICE,
        query=host_schemas.LIST_QUERY,
        response=host_schemas.LIST,
    ),
    _route(
        "GET /v1/hosts/{host_uuid}",
        hosts.show,
        rule=rights.ADMIN_OR_SERVICE,
        response=host_schemas.SHOW,
    ),
    _route(
        "PATCH /v1/hosts/{host_uuid}",
        hosts.change,
        rule=rights.ADMIN,
        body=host_schemas.CHANGE,
        response=host_schemas.SHOW,
    ),
    _route(
        "GET /v1/devices",
        devices.index,
        rule=rights.ANY_READER,
        query=device_schemas.LIST_QUERY,
        response=device_schemas.LIST,
    ),
    _route(
        "GET /v1/devices/{device_id}",
        devices.show,
        rule=rights.ANY_READER,
        response=device_schemas.SHOW,
    ),
    _route(
        "PATCH /v1/devices/{device_id}",
        devices.change,
        rule=rights.ADMIN,
        body=device_schemas.CHANGE,
        response=device_schemas.SHOW,
    ),
    _route(
        "GET /v1/slots",
        slots.index,
        rule=rights.ANY_READER,
        query=slot_schemas.LIST_QUERY,
        response=slot_schemas.LIST,
    ),
    _route(
        "GET /v1/slots/{slot_id}",
        slots.show,
        rule=rights.ANY_READER,
        response=slot_schemas.SHOW,
    ),
    _route(
        "POST /v1/slots/{slot_id}/test",
        slots.test,
        rule=rights.ADMIN,
        body=slot_schemas.TEST,
        response=slot_schemas.SHOW,
        status=202,
    ),
    _route(
        "POST /v1/sessions",
        sessions.create,
        rule=rights.PROJECT_MEMBER_OR_INSTANCE,
        query=session_schemas.CREATE_QUERY,
        body=session_schemas.CREATE,
        response=session_schemas.SHOW,
        status=202,
        other_responses={200: session_schemas.DRY_RUN},
    ),
    _route(
        "GET /v1/sessions",
        sessions.index,
        rule=rights.ANY_PROJECT_READER,
        query=session_schemas.LIST_QUERY,
        response=session_schemas.LIST,
    ),
    _route(
        "GET /v1/sessions/{session_id}",
        sessions.show,
        rule=rights.ANY_PROJECT_READER,
        query=session_schemas.SHOW_QUERY,
        response=session_schemas.SHOW,
    ),
    _route(
        "DELETE /v1/sessions/{session_id}",
        sessions.delete,
        rule=rights.ANY_MEMBER,
        query=session_schemas.DELETE_QUERY,
        status=204,
    ),
    _route(
        "POST /v1/sessions/{session_id}/reopen",
        sessions.reopen,
        policy="fpgapool:sessions:connect",
        rule=rights.PROJECT_MEMBER_OR_INSTANCE,
        body=session_schemas.REOPEN,
        response=session_schemas.SHOW,
        status=202,
    ),
    _route(
        "POST /v1/sessions/{session_id}/renew-secret",
        sessions.renew_secret,
        policy="fpgapool:sessions:connect",
        rule=rights.PROJECT_MEMBER_OR_INSTANCE,
        response=session_schemas.SHOW,
        status=202,
    ),
    _route(
        "POST /v1/groups",
        groups.create,
        rule=rights.PROJECT_MEMBER,
        body=group_schemas.CREATE,
        response=group_schemas.SHOW,
        status=202,
    ),
    _route(
        "GET /v1/groups",
        groups.index,
        rule=rights.ANY_PROJECT_READER,
        query=group_schemas.LIST_QUERY,
        response=group_schemas.LIST,
    ),
    _route(
        "GET /v1/groups/{group_id}",
        groups.show,
        rule=rights.ANY_PROJECT_READER,
        response=group_schemas.SHOW,
    ),
    _route(
        "PATCH /v1/groups/{group_id}",
        groups.update,
        rule=rights.PROJECT_MEMBER_OR_ADMIN,
        body=group_schemas.UPDATE,
        response=group_schemas.SHOW,
    ),
    _route(
        "DELETE /v1/groups/{group_id}",
        groups.delete,
        rule=rights.PROJECT_MEMBER_OR_ADMIN,
        status=204,
    ),
    _route(
        "PUT /v1/groups/{group_id}/goal",
        groups.set_goal,
        policy="fpgapool:groups:goal",
        rule=rights.PROJECT_MEMBER_OR_ADMIN,
        body=group_schemas.SET_GOAL,
        response=group_schemas.SHOW,
    ),
    _route(
        "DELETE /v1/groups/{group_id}/goal",
        groups.delete_goal,
        policy="fpgapool:groups:goal",
        rule=rights.PROJECT_MEMBER_OR_ADMIN,
        status=204,
    ),
    _route(
        "POST /v1/groups/{group_id}/clients",
        groups.attach,
        policy="fpgapool:groups:clients:attach",
        rule=rights.PROJECT_MEMBER_OR_INSTANCE,
        bodyless=True,
        response=group_schemas.ATTACHED,
        status=202,
    ),
    _route(
        "GET /v1/groups/{group_id}/clients",
        groups.index_clients,
        policy="fpgapool:groups:clients:list",
        rule=rights.ANY_PROJECT_READER,
        query=group_schemas.LIST_CLIENTS_QUERY,
        response=group_schemas.LIST_CLIENTS,
    ),
    _route(
        "GET /v1/groups/{group_id}/clients/{client_id}",
        groups.show_client,
        policy="fpgapool:groups:clients:get",
        rule=rights.ANY_PROJECT_READER,
        response=group_schemas.SHOW_CLIENT,
    ),
    _route(
        "DELETE /v1/groups/{group_id}/clients/{client_id}",
        groups.revoke,
        policy="fpgapool:groups:clients:revoke",
        rule=rights.ANY_MEMBER,
        query=group_schemas.REVOKE_QUERY,
        status=204,
    ),
    _route(
        "POST /v1/vendordata",
        vendordata.create,
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
        rule=rights.PROJECT_READER_OR_ADMIN,
        query=instance_schemas.LIST_QUERY,
        response=instance_schemas.LIST,
    ),
    _route(
        "DELETE /v1/instances/{instance_id}/token",
        instances.revoke_token,
        rule=rights.PROJECT_MEMBER_OR_ADMIN,
        status=204,
    ),
    _route(
        "GET /v1/pool",
        pool.show,
        rule=rights.ANY_READER,
        response=pool_schemas.SHOW,
    ),
    _route(
        "GET /v1/pool/snapshot",
        pool.snapshot,
        rule=rights.ADMIN_OR_SERVICE,
        response=pool_schemas.SNAPSHOT,
    ),
    _route(
        "GET /v1/quotas",
        quotas.show_own,
        policy="fpgapool:quotas:get",
        rule=rights.PROJECT_READER_OR_ADMIN,
        response=quota_schemas.SHOW,
    ),
    _route(
        "GET /v1/quotas/defaults",
        quotas.show_defaults,
        policy="fpgapool:quotas:defaults",
        rule=rights.PROJECT_READER_OR_ADMIN,
        response=quota_schemas.DEFAULTS,
    ),
    _route(
        "GET /v1/quotas/{project_id}",
        quotas.show,
        rule=rights.PROJECT_READER_OR_ADMIN,
        response=quota_schemas.SHOW,
    ),
    _route(
        "PUT /v1/quotas/{project_id}",
        quotas.update,
        rule=rights.ADMIN,
        body=quota_schemas.UPDATE,
        response=quota_schemas.SHOW,
    ),
    _route(
        "DELETE /v1/quotas/{project_id}",
        quotas.delete,
        rule=rights.ADMIN,
        status=204,
    ),
    _route(
        "GET /v1/usage",
        usage.index,
        rule=rights.PROJECT_READER_OR_ADMIN,
        query=usage_schemas.LIST_QUERY,
        response=usage_schemas.LIST,
    ),
    _route(
        "GET /v1/services",
        services.index,
        rule=rights.ADMIN_OR_SERVICE,
        query=service_schemas.LIST_QUERY,
        response=service_schemas.LIST,
    ),
)
