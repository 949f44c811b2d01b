# SPDX-License-Identifier: Apache-2.0

"""Look up hosts, devices, slots and other resources by name."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from collections.abc import Iterable
from typing import Any
from typing import NamedTuple

from openstack import exceptions as sdk_exceptions
from osc_lib import exceptions
from osc_lib import utils

from fpgapool.osc.sdk import proxy

# In a large cloud, many hosts use the same device names.
_MAX_CANDIDATES = 20


class _Kind(NamedTuple):
    """How to find resources of one kind.

    :ivar members: lists the resources that may have a given name.
    :ivar describe: distinguishes resources that have the same name.
    :ivar path_of: returns the name that begins with the host's; None: the
        resources are not parts of hosts.
    """

    members: Callable[[proxy.Proxy, str], Iterable[Any]]
    name_of: Callable[[Any], str] = operator.attrgetter("name")
    describe: Callable[[Any], str] = lambda _one: ""
    path_of: Callable[[Any], str] | None = None


def device_name(host_name: str, device: str) -> str:
    """Return the name of a device in the pool, such as ``node1/board0``."""
    return f"{host_name}/{device}"


def slot_name(host_name: str, device: str, number: int) -> str:
    """Return the name of a slot in the pool, such as ``node1/board0.1``."""
    return f"{device_name(host_name, device)}.{number}"


def _device_of(one: Any) -> str:
    return device_name(one.host_name, one.name)


def _slot_of(one: Any) -> str:
    return slot_name(one.host_name, one.device_name, one.number)


def _own_first(members: Callable[..., Iterable[Any]], name: str) -> list[Any]:
    """Look in the user's project first; administrators see all projects."""
    own = list(members(name=name))
    if own:
        return own
    try:
        return list(members(name=name, all_projects=True))
    except sdk_exceptions.ForbiddenException:
        return []


def _instances(client: proxy.Proxy, name: str, **query: bool) -> Iterable[Any]:
    return [one for one in client.instances(**query) if one.name == name]


_KINDS = {
    "host": _Kind(lambda client, name: client.hosts(name=name)),
    "device": _Kind(
        lambda client, _name: client.devices(),
        describe=_device_of,
        path_of=_device_of,
    ),
    "slot": _Kind(
        lambda client, _name: client.slots(),
        lambda one: f"{one.device_name}.{one.number}",
        _slot_of,
        _slot_of,
    ),
    "instance": _Kind(
        lambda client, name: _own_first(
            functools.partial(_instances, client), name
        ),
        describe=operator.attrgetter("project_id"),
    ),
    "bitstream": _Kind(
        lambda client, name: _own_first(client.bitstreams, name),
        describe=lambda one: (
            f"version {one.version}, {one.state}, {one.project_id}"
        ),
    ),
    "reservation": _Kind(
        lambda client, name: _own_first(client.reservations, name),
        describe=lambda one: (
            f"{one.slots} {one.accelerator} from {one.start_at}, {one.state},"
            f" {one.project_id}"
        ),
    ),
    "group": _Kind(
        lambda client, name: _own_first(client.groups, name),
        describe=lambda one: (
            f"{one.accelerator}, {one.state}, {one.project_id}"
        ),
    ),
}


def _missing(kind: str, text: str) -> exceptions.CommandError:
    return exceptions.CommandError(
        f"no {kind} is named {text!r}; see 'openstack fpga {kind} list'"
    )


def check_accelerator(client: proxy.Proxy, name: str | None) -> None:
    """Check the accelerator of a filter; None: there is no such filter.

    :raises CommandError: if it does not exist.
    """
    if name and all(one.name != name for one in client.accelerators()):
        raise _missing("accelerator", name)


def find(client: proxy.Proxy, kind: str, text: str) -> str:
    """Return the identifier of a resource.

    :param text: its identifier, which is not looked up, or its name.
    :raises CommandError: if no resource, or more than one, has the name.
    """
    if kind not in _KINDS or utils.is_uuid_like(text):
        return text
    members, name_of, describe, path_of = _KINDS[kind]
    if path_of is not None and "/" in text:
        name_of = path_of
    found = [one for one in members(client, text) if name_of(one) == text]
    if len(found) == 1:
        identifier: str = found[0].id
        return identifier
    if not found:
        raise _missing(kind, text)
    lines = sorted(f"{one.id} {describe(one)}".rstrip() for one in found)
    shown = "\n".join(lines[:_MAX_CANDIDATES])
    use = "an ID"
    if path_of is not None and name_of is not path_of:
        use = f"{min(map(path_of, found))} or an ID"
    raise exceptions.CommandError(
        f"{text!r} is ambiguous ({len(found)} {kind}s); use {use}:\n{shown}"
    )
