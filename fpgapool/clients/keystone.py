# SPDX-License-Identifier: Apache-2.0

"""Keystone: read the unified limits of projects through oslo.limit."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from oslo_config import cfg

from fpgapool.common import exception

GROUP = "oslo_limit"
SERVICE_TYPE = "fpgapool"

# Without this time limit, calls would block forever if Keystone hangs.
_TIMEOUT_S = 10

_MODEL = "flat"


@dataclasses.dataclass(frozen=True, slots=True)
class UnifiedLimits:
    """All limits of this service in Keystone.

    :ivar registered: default limits, by resource.
    :ivar of_projects: limits of projects, by project and resource.
    """

    registered: Mapping[str, int] = dataclasses.field(default_factory=dict)
    of_projects: Mapping[str, Mapping[str, int]] = dataclasses.field(
        default_factory=dict
    )


def prepare() -> None:
    """Check that oslo.limit is configured, without sending a request.

    The global configuration must have been read, because oslo.limit uses it.

    :raises ConfigurationError: if oslo.limit is missing or not configured.
    """
    _oslo_limit()
    options = cfg.CONF[GROUP]
    if not (options.auth_type or options.auth_section):
        raise exception.ConfigurationError(
            reason=f"[quota] driver = unified requires auth_type in [{GROUP}]"
        )


def _oslo_limit() -> Any:
    # Imported late: few installations have it, and it requires that the
    # configuration files have been read.
    try:
        module = importlib.import_module("oslo_limit.limit")
    except ImportError as error:
        raise exception.ConfigurationError(
            reason=f"[quota] driver = unified requires oslo.limit: {error}"
        ) from error
    for name, value in {
        "endpoint_service_type": SERVICE_TYPE,
        "timeout": _TIMEOUT_S,
    }.items():
        cfg.CONF.set_default(name, value, group=GROUP)
    return module


class LimitsReader:
    """Requests all limits of this service from Keystone at once.

    oslo.limit itself requests them project by project, on demand; this class
    uses its configuration and connection.
    """

    def __init__(self) -> None:
        self._connection: Any = None
        self._service: tuple[str, str | None] | None = None

    def read(self) -> UnifiedLimits:
        """Return all limits.

        Blocks until Keystone has responded to several requests.

        :raises KeystoneUnavailable: if they cannot be read.
        """
        try:
            return self._read()
        except exception.FpgapoolException:
            raise
        except Exception as error:
            # Three libraries are involved, each with its own errors.
            self._connection = self._service = None
            raise exception.KeystoneUnavailable(
                reason=f"{type(error).__name__}: {error}"
            ) from error

    def _read(self) -> UnifiedLimits:
        if self._connection is None:
            self._connection = _connect()
        if self._service is None:
            self._service = _find_service(self._connection)
        service_id, region_id = self._service
        registered = _by_region(
            self._connection.registered_limits(service_id=service_id),
            region_id,
        )
        limits = _by_region(
            self._connection.limits(service_id=service_id), region_id
        )
        of_projects: dict[str, dict[str, int]] = {}
        for one in limits:
            if one.project_id is not None:
                own = of_projects.setdefault(one.project_id, {})
                own[one.resource_name] = one.resource_limit
        return UnifiedLimits(
            {one.resource_name: one.default_limit for one in registered},
            of_projects,
        )


def _connect() -> Any:
    enforcer = _oslo_limit().Enforcer(lambda project_id, resources: {})
    if enforcer.model.name != _MODEL:
        raise exception.KeystoneUnavailable(
            reason=f"the enforcement model is {enforcer.model.name}; only"
            f" {_MODEL} is supported"
        )
    return enforcer.connection


def _find_service(connection: Any) -> tuple[str, str | None]:
    """Find this service in Keystone.

    Keystone rejects this for users who may not read all projects' limits.
    """
    options = cfg.CONF[GROUP]
    if options.endpoint_id:
        endpoint = connection.get_endpoint(options.endpoint_id)
        return endpoint.service_id, endpoint.region_id
    # oslo.limit has checked that there is exactly one.
    (service,) = connection.services(
        type=options.endpoint_service_type,
        name=options.endpoint_service_name,
    )
    return service.id, options.endpoint_region_name


def _by_region(limits: Iterable[Any], region_id: str | None) -> list[Any]:
    """Return a region's limits, with region-specific ones last."""
    return sorted(
        (one for one in limits if one.region_id in (None, region_id)),
        key=lambda one: one.region_id is not None,
    )
