# SPDX-License-Identifier: Apache-2.0

"""Asks the pool's REST API, as whoever looks at the page.

Each function takes Horizon's request first, and raises
:class:`~fpgapool_dashboard.errors.PoolError` with a text for users, or
Horizon's ``ServiceCatalogException`` if the catalog lacks the service.
"""

from __future__ import annotations

import functools
import itertools
import logging
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _
from horizon.utils import memoized
from keystoneauth1 import exceptions as auth_exceptions
from keystoneauth1 import session as auth_sessions
from keystoneauth1 import token_endpoint
from openstack import connection as connections
from openstack import exceptions
from openstack_auth import utils as auth_utils
from openstack_dashboard.api import base

from fpgapool.osc.sdk import fpgapool_service
from fpgapool.osc.sdk import proxy as proxies
from fpgapool.vocabulary import capacity
from fpgapool_dashboard import errors
from fpgapool_dashboard import paging
from fpgapool_dashboard import pool as numbers

LOG = logging.getLogger(__name__)

SERVICE_TYPE = fpgapool_service.SERVICE_TYPE

_VERSION = "/v1"
# A page has to be shown even if the service neither answers nor refuses.
_TIMEOUT_S = 30


def _explained(ask: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that raises errors for users."""

    @functools.wraps(ask)
    def asking(*arguments: Any, **options: Any) -> Any:
        try:
            return ask(*arguments, **options)
        except exceptions.HttpException as error:
            raise _of_answer(error) from error
        except (
            exceptions.SDKException,
            auth_exceptions.ClientException,
        ) as error:
            # It names addresses, which are not for all users.
            LOG.warning("The FPGA service cannot be asked: %s", error)
            text = _("The FPGA service does not answer; try again later.")
            raise errors.PoolError(text) from error

    return asking


def _of_answer(error: exceptions.HttpException) -> errors.PoolError:
    found = proxies.api_error(error.response)
    status = error.status_code
    if found is None:
        LOG.warning("The FPGA service failed: %s", error)
        text = _("The FPGA service answered with status %s.") % status
    else:
        text = f"{found['detail']} ({found['code']})"
    if status == 401:
        return errors.UnauthorizedError(text)
    if status == 404:
        return errors.NotFoundError(text)
    return errors.PoolError(text)


def _endpoint(url: str) -> str:
    """Return the address of version 1; the catalog may omit the version."""
    root = url.rstrip("/").removesuffix(_VERSION)
    return f"{root}{_VERSION}"


@memoized.memoized
def _proxy(request: Any) -> proxies.Proxy:
    verify = settings.OPENSTACK_SSL_CACERT or True
    session = auth_sessions.Session(
        auth=token_endpoint.Token(
            endpoint=_endpoint(base.url_for(request, SERVICE_TYPE)),
            token=request.user.token.id,
        ),
        original_ip=auth_utils.get_client_ip(request),
        verify=verify if not settings.OPENSTACK_SSL_NO_VERIFY else False,
        timeout=_TIMEOUT_S,
    )
    connection = connections.Connection(
        session=session,
        region_name=request.user.services_region,
        app_name="fpgapool-dashboard",
    )
    return fpgapool_service.proxy_of(connection)


@_explained
def sessions(request: Any, place: paging.Place, **query: Any) -> paging.Page:
    """Return a page of the project's sessions, the newest first."""
    listed = _proxy(request).sessions
    return paging.page(listed, place, direction="desc", **query)


@_explained
def session(request: Any, session_id: str) -> Any:
    """Return a session with its slot."""
    return _proxy(request).get_session(session_id)


@_explained
def close_session(request: Any, session_id: str) -> None:
    """Cancel or close a session; one that has ended does not change."""
    _proxy(request).close_session(session_id)


@_explained
def accelerators(request: Any) -> list[numbers.Slots]:
    """Return the accelerators, with the numbers of slots that they fit."""
    found = itertools.islice(_proxy(request).accelerators(), _most())
    return numbers.by_accelerator(found, _slots(request))


@_explained
def slots(request: Any) -> list[numbers.Slots]:
    """Return the numbers of slots of each shape."""
    return numbers.by_shape(_slots(request))


def _slots(request: Any) -> capacity.Slots:
    counts = _proxy(request).get_pool().counts
    if counts is None:
        raise errors.PoolError(
            _("The FPGA service is too old to count its slots.")
        )
    found: capacity.Slots = counts["slots"]
    return found


@_explained
def limits(request: Any) -> list[numbers.Limit]:
    """Return the project's limits, and what it uses of them."""
    return numbers.limits(_proxy(request).get_quota())


@_explained
def usage(request: Any, first_day: str) -> list[Any]:
    """Return what the project has used of each accelerator.

    :param first_day: such as ``2026-01-31``; the days are those of UTC.
    """
    found = _proxy(request).usage(group_by="accelerator", start=first_day)
    return list(itertools.islice(found, _most()))


@_explained
def hosts(request: Any, place: paging.Place, **query: Any) -> paging.Page:
    """Return a page of the hosts."""
    return paging.page(_proxy(request).hosts, place, **query)


@_explained
def devices(request: Any, place: paging.Place, **query: Any) -> paging.Page:
    """Return a page of the FPGA boards, host by host."""
    query["sort_key"] = "host_name"
    return paging.page(_proxy(request).devices, place, **query)


@_explained
def administer_host(request: Any, uuid: str, **change: Any) -> Any:
    """Enable, drain or disable a host with all its boards."""
    return _proxy(request).administer_host(uuid, **change)


@_explained
def administer_device(request: Any, device_id: str, **change: Any) -> Any:
    """Enable, drain or disable an FPGA board."""
    return _proxy(request).administer_device(device_id, **change)


def _most() -> int:
    """Return how many rows a table without pages has at most."""
    most: int = settings.API_RESULT_LIMIT
    return most
