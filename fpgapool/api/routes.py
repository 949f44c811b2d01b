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
from fpgapool.api.handlers import budgets
from fpgapool.api.handlers import devices
from fpgapool.api.handlers import groups
from fpgapool.api.handlers import hosts
from fpgapool.api.handlers import instances
from fpgapool.api.handlers import pool
from fpgapool.api.handlers import quotas
from fpgapool.api.handlers import reservations
from fpgapool.api.handlers import services
from fpgapool.api.handlers import sessions
from fpgapool.api.handlers import shares
from fpgapool.api.handlers import slots
from fpgapool.api.handlers import usage
from fpgapool.api.handlers import vendordata
from fpgapool.api.handlers import versions
from fpgapool.api.http import microversion
from fpgapool.api.http import rights
from fpgapool.api.schemas import accounting
from fpgapool.api.schemas import budgets as budget_schemas
from fpgapool.api.schemas import common
from fpgapool.api.schemas import groups as group_schemas
from fpgapool.api.schemas import inventory
from fpgapool.api.schemas import library
from fpgapool.api.schemas import pool as pool_schemas
from fpgapool.api.schemas import reservations as reservation_schemas
from fpgapool.api.schemas import sessions as session_schemas
from fpgapool.api.schemas import vendordata as vendordata_schemas
from fpgapool.api.schemas import versions as version_schemas

Handler = Callable[[calls.Call], calls.Answer]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Route:
    """One operation.

    :ivar path: path, with the names of its variable parts in braces.
    :ivar policy: the policy that must allow it in the caller's own project.
    :ivar rule: the policy's default rule, which is the same in all routes
        with this policy.
    :ivar body: schema of the request's body; None if it has none.
    :ivar max_body_bytes: maximum size of the body; None: the default.
    :ivar response: schema of the response's body; None if it has none.
    :ivar other_responses: schemas of successful responses with other statuses,
        by status.
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
    status: int = 200
    other_responses: Mapping[int, common.Schema] = dataclasses.field(
        default_factory=dict
    )
    since: str = str(microversion.OLDEST)


@functools.cache
def description() -> dict[str, Any]:
    """Describe :data:`ROUTES` in OpenAPI 3.1."""
    return openapi.document(ROUTES)


#: Actions in the names of policies, where handlers have different names.
_ACTIONS = {"index": "list", "show": "get"}


def _route(operation: str, handler: Handler, rule: str, **more: Any) -> Route:
    """Return a route.

    By default, the policy is named after the handler's module and function,
    the summary is the start of the handler's docstring, and DELETE returns no
    body.

    :param operation: the route's method and path.
    :param more: other attributes of the route, which replace these defaults.
    """
    method, path = operation.split()
    name, module = handler.__name__, handler.__module__.rpartition(".")[2]
    found: dict[str, Any] = {
        "policy": f"fpgapool:{module}:{_ACTIONS.get(name, name)}",
        "summary": re.split("[.;]", handler.__doc__ or "", maxsplit=1)[0],
        "status": 204 if method == "DELETE" else 200,
    }
    return Route(
        method=method, path=path, handler=handler, rule=rule, **found | more
    )


ROUTES: tuple[Route, ...] = (
    _route(
        "GET /",
        versions.index,
        rights.PUBLIC,
        public=True,
        response=version_schemas.LIST,
    ),
    _route(
        "GET /v1",
        versions.show,
        rights.PUBLIC,
        public=True,
        response=version_schemas.SHOW,
    ),
    _route(
        "GET /v1/openapi.json",
        versions.make_document(description),
        rights.PUBLIC,
        policy="fpgapool:openapi:get",
        public=True,
        response=version_schemas.DOCUMENT,
        summary="Show the API's description in OpenAPI",
    ),
    _route(
        "GET /v1/accelerators",
        accelerators.index,
        rights.ANY_READER_OR_INSTANCE,
        **library.ACCELERATORS,
    ),
    _route(
        "GET /v1/accelerators/{name}",
        accelerators.show,
        rights.ANY_READER_OR_INSTANCE,
        response=library.SHOW_ACCELERATOR,
    ),
    _route(
        "GET /v1/bitstreams",
        bitstreams.index,
        rights.PROJECT_READER_OR_ADMIN,
        **library.BITSTREAMS,
    ),
    _route(
        "POST /v1/bitstreams",
        bitstreams.create,
        rights.PROJECT_MEMBER,
        body=library.CREATE,
        response=library.SHOW_BITSTREAM,
        status=201,
    ),
    _route(
        "GET /v1/bitstreams/{bitstream_id}",
        bitstreams.show,
        rights.PROJECT_READER_OR_ADMIN,
        response=library.SHOW_BITSTREAM,
    ),
    _route(
        "PATCH /v1/bitstreams/{bitstream_id}",
        bitstreams.update,
        rights.PROJECT_MEMBER_OR_ADMIN,
        body=library.UPDATE,
        response=library.SHOW_BITSTREAM,
    ),
    _route(
        "DELETE /v1/bitstreams/{bitstream_id}",
        bitstreams.delete,
        rights.PROJECT_MEMBER_OR_ADMIN,
    ),
    _route(
        "PUT /v1/bitstreams/{bitstream_id}/file",
        bitstreams.upload,
        rights.PROJECT_MEMBER_OR_ADMIN,
        upload=True,
        response=library.SHOW_BITSTREAM,
    ),
    _route(
        "GET /v1/bitstreams/{bitstream_id}/file",
        bitstreams.download,
        rights.READER_OR_AGENT,
        download=True,
    ),
    _route(
        "POST /v1/bitstreams/{bitstream_id}/approve",
        bitstreams.approve,
        rights.ADMIN,
        body=library.APPROVE,
        response=library.SHOW_BITSTREAM,
    ),
    _route(
        "POST /v1/bitstreams/{bitstream_id}/reject",
        bitstreams.reject,
        rights.ADMIN,
        body=library.REJECT,
        response=library.SHOW_BITSTREAM,
    ),
    _route(
        "PUT /v1/bitstreams/{bitstream_id}/projects/{project_id}",
        bitstreams.share,
        rights.PROJECT_MEMBER_OR_ADMIN,
        response=library.SHOW_BITSTREAM,
    ),
    _route(
        "DELETE /v1/bitstreams/{bitstream_id}/projects/{project_id}",
        bitstreams.unshare,
        rights.PROJECT_MEMBER_OR_ADMIN,
        policy="fpgapool:bitstreams:share",
    ),
    _route(
        "GET /v1/hosts",
        hosts.index,
        rights.ADMIN_OR_SERVICE,
        **inventory.HOSTS,
    ),
    _route(
        "GET /v1/hosts/{host_uuid}",
        hosts.show,
        rights.ADMIN_OR_SERVICE,
        response=inventory.SHOW_HOST,
    ),
    _route(
        "PATCH /v1/hosts/{host_uuid}",
        hosts.change,
        rights.ADMIN,
        body=inventory.CHANGE_HOST,
        response=inventory.SHOW_HOST,
    ),
    _route(
        "GET /v1/devices",
        devices.index,
        rights.HARDWARE_READER,
        **inventory.DEVICES,
    ),
    _route(
        "GET /v1/devices/{device_id}",
        devices.show,
        rights.HARDWARE_READER,
        response=inventory.SHOW_DEVICE,
    ),
    _route(
        "PATCH /v1/devices/{device_id}",
        devices.change,
        rights.ADMIN,
        body=inventory.CHANGE_DEVICE,
        response=inventory.SHOW_DEVICE,
    ),
    _route(
        "GET /v1/slots",
        slots.index,
        rights.HARDWARE_READER,
        **inventory.SLOTS,
    ),
    _route(
        "GET /v1/slots/{slot_id}",
        slots.show,
        rights.HARDWARE_READER,
        response=inventory.SHOW_SLOT,
    ),
    _route(
        "POST /v1/slots/{slot_id}/test",
        slots.test,
        rights.ADMIN,
        body=inventory.TEST_SLOT,
        response=inventory.SHOW_SLOT,
        status=202,
    ),
    _route(
        "POST /v1/sessions",
        sessions.create,
        rights.PROJECT_MEMBER_OR_INSTANCE,
        query=session_schemas.CREATE_QUERY,
        body=session_schemas.CREATE,
        response=session_schemas.SHOW,
        status=202,
        other_responses={200: session_schemas.DRY_RUN},
    ),
    _route(
        "GET /v1/sessions",
        sessions.index,
        rights.ANY_PROJECT_READER,
        **session_schemas.SESSIONS,
    ),
    _route(
        "GET /v1/sessions/{session_id}",
        sessions.show,
        rights.ANY_PROJECT_READER,
        query=session_schemas.SHOW_QUERY,
        response=session_schemas.SHOW,
    ),
    _route(
        "DELETE /v1/sessions/{session_id}",
        sessions.delete,
        rights.ANY_MEMBER,
        query=session_schemas.DELETE_QUERY,
    ),
    _route(
        "POST /v1/sessions/{session_id}/reopen",
        sessions.reopen,
        rights.PROJECT_MEMBER_OR_INSTANCE,
        policy=rights.SESSIONS_CONNECT,
        body=session_schemas.REOPEN,
        response=session_schemas.SHOW,
        status=202,
    ),
    _route(
        "POST /v1/sessions/{session_id}/renew-secret",
        sessions.renew_secret,
        rights.PROJECT_MEMBER_OR_INSTANCE,
        policy=rights.SESSIONS_CONNECT,
        response=session_schemas.SHOW,
        status=202,
    ),
    _route(
        "POST /v1/groups",
        groups.create,
        rights.PROJECT_MEMBER,
        body=group_schemas.CREATE,
        response=group_schemas.SHOW,
        status=202,
    ),
    _route(
        "GET /v1/groups",
        groups.index,
        rights.ANY_PROJECT_READER,
        **group_schemas.GROUPS,
    ),
    _route(
        "GET /v1/groups/{group_id}",
        groups.show,
        rights.ANY_PROJECT_READER,
        response=group_schemas.SHOW,
    ),
    _route(
        "PATCH /v1/groups/{group_id}",
        groups.update,
        rights.PROJECT_MEMBER_OR_ADMIN,
        body=group_schemas.UPDATE,
        response=group_schemas.SHOW,
    ),
    _route(
        "DELETE /v1/groups/{group_id}",
        groups.delete,
        rights.PROJECT_MEMBER_OR_ADMIN,
    ),
    _route(
        "PUT /v1/groups/{group_id}/goal",
        groups.set_goal,
        rights.PROJECT_MEMBER_OR_ADMIN,
        policy="fpgapool:groups:goal",
        body=group_schemas.SET_GOAL,
        response=group_schemas.SHOW,
    ),
    _route(
        "DELETE /v1/groups/{group_id}/goal",
        groups.delete_goal,
        rights.PROJECT_MEMBER_OR_ADMIN,
        policy="fpgapool:groups:goal",
    ),
    _route(
        "POST /v1/groups/{group_id}/clients",
        groups.attach,
        rights.PROJECT_MEMBER_OR_INSTANCE,
        policy="fpgapool:groups:clients:attach",
        response=group_schemas.ATTACHED,
        status=202,
    ),
    _route(
        "GET /v1/groups/{group_id}/clients",
        groups.index_clients,
        rights.ANY_PROJECT_READER,
        policy="fpgapool:groups:clients:list",
        **group_schemas.CLIENTS,
    ),
    _route(
        "GET /v1/groups/{group_id}/clients/{client_id}",
        groups.show_client,
        rights.ANY_PROJECT_READER,
        policy="fpgapool:groups:clients:get",
        response=group_schemas.SHOW_CLIENT,
    ),
    _route(
        "DELETE /v1/groups/{group_id}/clients/{client_id}",
        groups.revoke,
        rights.ANY_MEMBER,
        policy="fpgapool:groups:clients:revoke",
        query=group_schemas.REVOKE_QUERY,
    ),
    _route(
        "POST /v1/vendordata",
        vendordata.create,
        rights.VENDORDATA,
        body=vendordata_schemas.CREATE,
        # The user data alone may be 64 KiB long.
        max_body_bytes=1024 * 1024,
        response=vendordata_schemas.SHOW,
    ),
    _route(
        "GET /v1/instances",
        instances.index,
        rights.PROJECT_READER_OR_ADMIN,
        **inventory.INSTANCES,
    ),
    _route(
        "DELETE /v1/instances/{instance_id}/token",
        instances.revoke_token,
        rights.PROJECT_MEMBER_OR_ADMIN,
    ),
    _route(
        "GET /v1/pool",
        pool.show,
        rights.ANY_READER,
        response=pool_schemas.SHOW,
    ),
    _route(
        "GET /v1/pool/hosts",
        pool.hosts,
        rights.HARDWARE_READER,
        policy=rights.POOL_HOSTS,
        since="1.1",
        **pool_schemas.HOSTS,
    ),
    _route(
        "GET /v1/pool/snapshot",
        pool.snapshot,
        rights.ADMIN_OR_SERVICE,
        response=pool_schemas.SNAPSHOT,
    ),
    _route(
        "GET /v1/quotas",
        quotas.show_own,
        rights.PROJECT_READER_OR_ADMIN,
        policy="fpgapool:quotas:get",
        response=accounting.SHOW_QUOTA,
    ),
    _route(
        "GET /v1/quotas/defaults",
        quotas.show_defaults,
        rights.PROJECT_READER_OR_ADMIN,
        policy="fpgapool:quotas:defaults",
        response=accounting.SHOW_DEFAULTS,
    ),
    _route(
        "GET /v1/quotas/{project_id}",
        quotas.show,
        rights.PROJECT_READER_OR_ADMIN,
        response=accounting.SHOW_QUOTA,
    ),
    _route(
        "PUT /v1/quotas/{project_id}",
        quotas.update,
        rights.ADMIN,
        body=accounting.UPDATE_QUOTA,
        response=accounting.SHOW_QUOTA,
    ),
    _route("DELETE /v1/quotas/{project_id}", quotas.delete, rights.ADMIN),
    _route(
        "GET /v1/budgets",
        budgets.index,
        rights.PROJECT_READER_OR_ADMIN,
        since="1.3",
        **budget_schemas.INDEX,
    ),
    _route(
        "GET /v1/budgets/{project_id}",
        budgets.show,
        rights.PROJECT_READER_OR_ADMIN,
        since="1.3",
        response=budget_schemas.SHOW,
    ),
    _route(
        "PUT /v1/budgets/{project_id}",
        budgets.update,
        rights.ADMIN,
        since="1.3",
        body=budget_schemas.UPDATE,
        response=budget_schemas.SHOW,
    ),
    _route(
        "DELETE /v1/budgets/{project_id}",
        budgets.delete,
        rights.ADMIN,
        since="1.3",
    ),
    _route(
        "GET /v1/reservations",
        reservations.index,
        rights.PROJECT_READER_OR_ADMIN,
        since="1.3",
        **reservation_schemas.INDEX,
    ),
    _route(
        "POST /v1/reservations",
        reservations.create,
        rights.PROJECT_MEMBER_OR_ADMIN,
        since="1.3",
        body=reservation_schemas.CREATE,
        response=reservation_schemas.SHOW,
        status=201,
    ),
    _route(
        "GET /v1/reservations/{reservation_id}",
        reservations.show,
        rights.PROJECT_READER_OR_ADMIN,
        since="1.3",
        response=reservation_schemas.SHOW,
    ),
    _route(
        "PATCH /v1/reservations/{reservation_id}",
        reservations.update,
        rights.PROJECT_MEMBER_OR_ADMIN,
        since="1.3",
        body=reservation_schemas.UPDATE,
        response=reservation_schemas.SHOW,
    ),
    _route(
        "DELETE /v1/reservations/{reservation_id}",
        reservations.delete,
        rights.PROJECT_MEMBER_OR_ADMIN,
        since="1.3",
    ),
    _route(
        "GET /v1/share",
        shares.show,
        rights.PROJECT_READER_OR_ADMIN,
        since="1.3",
        **accounting.SHARE,
    ),
    _route(
        "GET /v1/usage",
        usage.index,
        rights.PROJECT_READER_OR_ADMIN,
        **accounting.USAGE,
    ),
    _route(
        "GET /v1/services",
        services.index,
        rights.ADMIN_OR_SERVICE,
        **inventory.SERVICES,
    ),
)
