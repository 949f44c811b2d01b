# SPDX-License-Identifier: Apache-2.0

"""Identifiers of hosts, devices, slots and other things, by their names.

Each function takes an identifier or a name and returns the identifier. It does
not look an identifier up. Each raises a CommandError if no object, or more
than one, has the name.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterable
from typing import Any

from openstack import exceptions as sdk_exceptions
from osc_lib import exceptions
from osc_lib import utils

from fpgapool.osc.sdk import proxy

# In a large cloud many hosts use the same names.
_MAX_CANDIDATES = 20


def host(client: proxy.Proxy, text: str) -> str:
    """Return the UUID of a host."""
    return _find(text, lambda: client.hosts(name=text), lambda one: one.name)


def device(client: proxy.Proxy, text: str) -> str:
    """Return the identifier of a device."""
    return _find(
        text,
        client.devices,
        lambda one: one.name,
        lambda one: f"on {one.host_name} ({one.host_uuid})",
    )


def slot(client: proxy.Proxy, text: str) -> str:
    """Return the identifier of a slot, which is called ``DEVICE.NUMBER``."""
    return _find(
        text,
        client.slots,
        lambda one: f"{one.device_name}.{one.number}",
        lambda one: f"on {one.host_name} ({one.host_uuid})",
    )


def bitstream(client: proxy.Proxy, text: str) -> str:
    """Return the identifier of a bitstream.

    Bitstreams that your own project may see come first; then, for
    administrators, all others.
    """

    return _find(
        text,
        lambda: _own_first(client.bitstreams, text),
        lambda one: one.name,
        lambda one: f"version {one.version}, {one.state}, {one.project_id}",
    )


def group(client: proxy.Proxy, text: str) -> str:
    """Return the identifier of a group; see :func:`bitstream`."""
    return _find(
        text,
        lambda: _own_first(client.groups, text),
        lambda one: one.name,
        lambda one: f"{one.accelerator}, {one.state}, {one.project_id}",
    )


def _own_first(members: Callable[..., Iterable[Any]], text: str) -> list[Any]:
    """Return what the own project may see, or else what others have."""
    own = list(members(name=text))
    if own:
        return own
    try:
        return list(members(name=text, all_projects=True))
    except sdk_exceptions.ForbiddenException:
        return []


def _find(
    text: str,
    members: Callable[[], Iterable[Any]],
    name_of: Callable[[Any], str],
    describe: Callable[[Any], str] = lambda _one: "",
) -> str:
    """Return the identifier of a named object.

    :param text: its identifier, or its name if that is unique.
    """
    if utils.is_uuid_like(text):
        return text
    found = [one for one in members() if name_of(one) == text]
    if len(found) == 1:
        identifier: str = found[0].id
        return identifier
    if not found:
        raise exceptions.CommandError(f"no resource is named {text!r}")
    lines = sorted(f"{one.id} {describe(one)}".rstrip() for one in found)
    shown = "\n".join(lines[:_MAX_CANDIDATES])
    raise exceptions.CommandError(
        f"{text!r} is ambiguous ({len(found)} matches); use an ID:\n{shown}"
    )
