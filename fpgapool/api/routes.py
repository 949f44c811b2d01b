#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""The whole API in one table."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from fpgapool.api import call as calls
from fpgapool.api import microversion
from fpgapool.api.handlers import accelerators
from fpgapool.api.handlers import devices
from fpgapool.api.handlers import hosts
from fpgapool.api.handlers import pool
from fpgapool.api.handlers import services
from fpgapool.api.handlers import sessions
from fpgapool.api.handlers import slots
from fpgapool.api.handlers import versions
from fpgapool.api.schemas import accelerators as accelerator_schemas
from fpgapool.api.schemas import common
from fpgapool.api.schemas import devices as device_schemas
from fpgapool.api.schemas import hosts as host_schemas
from fpgapool.api.schemas import pool as pool_schemas
from fpgapool.api.schemas import services as service_schemas
from fpgapool.api.schemas import sessions as session_schemas
from fpgapool.api.schemas import slots as slot_schemas
from fpgapool.api.schemas import versions as version_schemas
from fpgapool.policies import accelerators as accelerator_policies
from fpgapool.policies import devices as device_policies
from fpgapool.policies import hosts as host_policies
from fpgapool.policies import pool as pool_policies
from fpgapool.policies import services as service_policies
from fpgapool.policies import sessions as session_policies
from fpgapool.policies import slots as slot_policies
from fpgapool.policies import versions as version_policies

Handler = Callable[[calls.Call], calls.Answer]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Route:
    """One operation.

    :ivar path: with the names of its variable parts in braces.
    :ivar policy: the rule that the caller must meet in its own project.
    :ivar public: needs no token.
    :ivar query: schema of the query.
    :ivar body: schema of the request's body; None if it has none.
    :ivar response: schema of the answer's body; None if it has none.
    :ivar status: of the answer if all is well.
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
    response: common.Schema | None = None
    status: int = 200
    since: str = str(microversion.OLDEST)

    def __post_init__(self) -> None:
        if (self.response is None) != (self.status == 204):
            raise ValueError(f"{self.method} {self.path} lacks a schema")
        if (self.body is None) and self.method in ("PUT", "PATCH"):
            raise ValueError(f"{self.method} {self.path} lacks a schema")
        if self.since not in microversion.VERSIONS:
            raise ValueError(f"{self.since} is no microversion")


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
        handler=versions.document,
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
        path="/v1/sessions",
        handler=sessions.create,
        policy=session_policies.CREATE,
        body=session_schemas.CREATE,
        response=session_schemas.SHOW,
        status=202,
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
        summary="Give a session that has lost its slot another one",
    ),
    Route(
        method="POST",
        path="/v1/sessions/{session_id}/renew-secret",
        handler=sessions.renew_secret,
        policy=session_policies.CONNECT,
        response=session_schemas.SHOW,
        status=202,
        summary="Have a session's secret minted anew",
    ),
    Route(
        method="GET",
        path="/v1/pool",
        handler=pool.show,
        policy=pool_policies.GET,
        response=pool_schemas.SHOW,
        summary="Show the pool at a glance",
    ),
    Route(
        method="GET",
        path="/v1/services",
        handler=services.index,
        policy=service_policies.LIST,
        query=service_schemas.LIST_QUERY,
        response=service_schemas.LIST,
        summary="List the conductor and the agents",
    ),
)
