# SPDX-License-Identifier: Apache-2.0

"""Checks of fpgapool-status against Keystone, Placement and Nova.

Each function returns a sentence that says what is wrong and what to do; None
if all is well, or if the service is not configured.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from keystoneauth1 import exceptions
from keystoneauth1.identity import base as identity
from oslo_config import cfg

from fpgapool.clients import adapters
from fpgapool.clients import keystone
from fpgapool.clients import nova
from fpgapool.clients import placement
from fpgapool.common import exception
from fpgapool.conf import bitstreams as bitstreams_conf
from fpgapool.conf import conductor as conductor_conf
from fpgapool.conf import groups
from fpgapool.conf import keystone as keystone_conf
from fpgapool.conf import nova as nova_conf
from fpgapool.conf import placement as placement_conf
from fpgapool.conf import quota as quota_conf

#: The group whose user validates tokens for the API.
API = "keystone_authtoken"

# Keystone may hang.
_TIMEOUT_S = 30.0
_MOST_NAMES = 5


def options(conf: cfg.ConfigOpts, group: str) -> cfg.ConfigOpts.GroupAttr:
    """Return a group with keystoneauth's options."""
    groups.Options(group, []).register_auth(conf)
    return conf[group]


def credentials(conf: cfg.ConfigOpts) -> str | None:
    """Check that Keystone gives tokens for all credentials."""
    wrong = []
    for group in _groups(conf):
        try:
            _access(conf, group)
        except exception.ConfigurationError as error:
            wrong.append(str(error))
        except (exceptions.ClientException, OSError) as error:
            wrong.append(f"[{group}]: {error}")
    if not wrong:
        return None
    return (
        f"Keystone gives no token: {'; '.join(wrong)}. Check auth_url, the"
        " user, the password, the project and their domains there."
    )


def endpoint(conf: cfg.ConfigOpts) -> str | None:
    """Check that programs find the API in Keystone's catalog."""
    try:
        access = _access(conf, API)
    except (
        exception.ConfigurationError,
        exceptions.ClientException,
        OSError,
    ):
        # The check of credentials reports it.
        return None
    if access is None:
        return None
    region = conf[API].region_name
    found = access.service_catalog.get_endpoints_data(
        service_type=keystone.SERVICE_TYPE, interface="public"
    )
    regions = {one.region_name for many in found.values() for one in many}
    if regions and region in (None, *regions):
        return None
    where = f" in the region {region}" if regions else ""
    return (
        f"Keystone's catalog has no public endpoint of the type"
        f" {keystone.SERVICE_TYPE}{where}: create it with 'openstack endpoint"
        " create'. Without it neither commands nor Nova find the API."
    )


def hosts(conf: cfg.ConfigOpts, names: Mapping[str, str]) -> str | None:
    """Check that Placement has the hosts.

    :param names: the hosts' names by their UUIDs.
    """
    client = placement.Placement.from_conf(conf)
    if client is None:
        return None
    try:
        missing = [
            f"{name} ({uuid})"
            for uuid, name in names.items()
            if client.provider(uuid) is None
        ]
    except exception.PlacementUnavailable as error:
        return f"{error}. Check [{placement_conf.GROUP}]."
    if not missing:
        return None
    return (
        f"Placement has no resource providers of {len(missing)} hosts:"
        f" {listed(missing)}. Set [DEFAULT] host_uuid of their agents to the"
        " UUID in nova-compute's file compute_id."
    )


def computes(conf: cfg.ConfigOpts) -> str | None:
    """Check that Nova shows what only administrators see."""
    client = nova.Nova.from_conf(conf, timeout_s=_TIMEOUT_S)
    if client is None:
        return None
    try:
        client.computes()
    except exception.NovaUnavailable as error:
        return (
            f"{error}. Check [{nova_conf.GROUP}]: its user needs the role"
            " admin."
        )
    return None


def listed(names: list[str]) -> str:
    """Return the first names, for a sentence."""
    shown = ", ".join(names[:_MOST_NAMES])
    more = len(names) - _MOST_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


def _groups(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Yield the groups whose credentials services use."""
    yield API
    yield nova_conf.GROUP
    yield placement_conf.GROUP
    if conf.bitstreams.store == bitstreams_conf.GLANCE:
        yield bitstreams_conf.GLANCE
    if conf.quota.driver == quota_conf.UNIFIED:
        yield keystone.GROUP
    if conf.conductor.share_tree == conductor_conf.KEYSTONE_TREE:
        yield keystone_conf.GROUP


def _access(conf: cfg.ConfigOpts, group: str) -> Any:
    """Return what Keystone gives for a group's credentials.

    :returns: None if the group configures none, or not with Keystone.
    """
    options(conf, group)
    adapter = adapters.load(conf, group, _TIMEOUT_S)
    if adapter is None or not isinstance(
        adapter.auth, identity.BaseIdentityPlugin
    ):
        return None
    return adapter.auth.get_access(adapter.session)
