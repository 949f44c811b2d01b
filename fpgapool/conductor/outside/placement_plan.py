# SPDX-License-Identifier: Apache-2.0

"""Plans changes to the pool's resource providers in Placement.

A device's provider is a child of its compute node's. It has an inventory of
the slots that flavors can reserve, and traits for the accelerators that the
device can run. The compute node has the same traits, by which Placement
selects it.
"""

from __future__ import annotations

import collections
import dataclasses
import re
import types
import uuid
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

from fpgapool import objects
from fpgapool.clients import placement
from fpgapool.conductor.decisions.hardware import administration
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.core import model
from fpgapool.vocabulary import names

#: The resource class of slots that flavors can reserve.
SLOT = "CUSTOM_FPGAPOOL_SLOT"

#: The prefix of all traits created by pools.
PREFIX = "CUSTOM_FPGAPOOL_"
#: The trait of all child providers created by pools.
OWNED = f"{PREFIX}OWNED"
_POOL = f"{PREFIX}POOL_"

_MAX_TRAIT_LENGTH = 255
_MAX_NAME_LENGTH = 200
_PLAIN = re.compile(r"[!-~]+")

_NONE: frozenset[str] = frozenset()
_NO_PAIRS: frozenset[tuple[str, str]] = frozenset()
_NO_HOSTS: Mapping[str, frozenset[tuple[str, str]]] = types.MappingProxyType(
    {}
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """The desired state of a device in Placement.

    :ivar id: the device's id in the REST API, and its provider's UUID.
    :ivar usable_slots: number of slots that can be used now; 0 if the device
        is faulty or not enabled, or its host does not report.
    """

    id: str
    name: str
    traits: frozenset[str] = _NONE
    usable_slots: int = 0
    reservable_slots: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The desired state of the pool in Placement.

    :ivar hosts: each host's devices, by UUID of the compute node's provider.
    :ivar unheard: hosts that have not reported yet, whose providers are kept.
    """

    hosts: Mapping[str, tuple[Device, ...]] = dataclasses.field(
        default_factory=dict
    )
    unheard: frozenset[str] = _NONE

    def devices(self) -> Iterator[Device]:
        for devices in self.hosts.values():
            yield from devices


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """The current state in Placement.

    :ivar providers: all providers created by pools, and the compute nodes of
        these and of planned ones, by UUID. A compute node that has children
        but no traits of pools may be missing.
    """

    providers: Mapping[str, placement.Provider]
    traits: Mapping[str, frozenset[str]]
    inventories: Mapping[str, placement.Inventory]
    used: Mapping[str, int]

    def owned(self, pool_name: str) -> dict[str, placement.Provider]:
        """Return the child providers that a pool has created."""
        own = {OWNED, pool_trait(pool_name)}
        return {
            uuid_: provider
            for uuid_, provider in self.providers.items()
            if provider.parent_uuid and own <= self.traits.get(uuid_, _NONE)
        }


@dataclasses.dataclass(frozen=True, slots=True)
class Create:
    """Create a child provider."""

    uuid: str
    name: str
    parent_uuid: str


@dataclasses.dataclass(frozen=True, slots=True)
class ChangeTraits:
    """Add and remove traits of a provider."""

    uuid: str
    add: frozenset[str]
    remove: frozenset[str]


@dataclasses.dataclass(frozen=True, slots=True)
class SetInventory:
    """Set the inventory of slots; None: delete it."""

    uuid: str
    inventory: placement.Inventory | None


@dataclasses.dataclass(frozen=True, slots=True)
class Delete:
    """Delete a provider."""

    uuid: str


Operation = Create | ChangeTraits | SetInventory | Delete


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """The operations to carry out, and the problems that were found.

    :ivar operations: ordered so that a compute node never has this pool's
        traits without a child provider of the pool, unless Placement rejects
        an operation.
    :ivar missing: hosts whose compute node has no provider.
    :ivar foreign: devices whose provider was created by another pool or user.
    :ivar kept: providers whose allocations prevent shrinking or deletion.
    """

    operations: tuple[Operation, ...]
    missing: frozenset[str] = _NONE
    foreign: frozenset[str] = _NONE
    kept: frozenset[str] = _NONE


# -- the desired state -------------------------------------------------------


def wanted(
    pool: registry.Registry,
    profiles: Mapping[str, objects.AcceleratorProfile],
    reservable_slots: Callable[[str], int],
    *,
    is_early: bool = False,
    faulty_accelerators: Mapping[str, frozenset[tuple[str, str]]] = _NO_HOSTS,
) -> Wanted:
    """Return the pool's desired state in Placement.

    :param is_early: whether hosts that have not reported yet may still do so;
        otherwise they are considered lost.
    :param faulty_accelerators: faulty accelerators by host UUID, each with the
        shape of the slots in which it is faulty; empty: all.
    """
    usable = {slot.shape for slot in pool.slots.values()}
    # Computed once for hosts with the same faulty accelerators.
    runs = {
        off: {
            shape: _runnable(
                (
                    one
                    for one in profiles.values()
                    if off.isdisjoint({(one.name, shape), (one.name, "")})
                ),
                shape,
            )
            for shape in usable
        }
        for off in {_NO_PAIRS, *faulty_accelerators.values()}
    }
    hosts = {
        host_uuid: host
        for host in pool.hosts.values()
        # A host whose UUID is not valid cannot be in Nova or Placement.
        if (host_uuid := _canonical(host.uuid))
    }
    return Wanted(
        hosts={
            host_uuid: tuple(
                _device(
                    one,
                    runs[faulty_accelerators.get(host.uuid, _NO_PAIRS)],
                    reservable_slots,
                )
                for one in sorted(host.devices.values(), key=lambda d: d.id)
            )
            for host_uuid, host in hosts.items()
        },
        unheard=frozenset(
            host_uuid
            for host_uuid, host in hosts.items()
            if is_early and not host.up and not host.boot_id
        ),
    )


def _device(
    entry: registry.DeviceEntry,
    runs: Mapping[str, frozenset[str]],
    reservable_slots: Callable[[str], int],
) -> Device:
    slots = entry.slots.values() if _is_usable(entry) else ()
    shapes = [one.shape for one in slots if one.usable and not one.faulty]
    id_ = entry.uuid
    return Device(
        id=id_,
        name=entry.name,
        traits=_NONE.union(*(runs[shape] for shape in set(shapes))),
        usable_slots=len(shapes),
        reservable_slots=reservable_slots(id_),
    )


def _is_usable(entry: registry.DeviceEntry) -> bool:
    enabled = administration.state(entry) is model.AdminState.ENABLED
    return entry.host.up and entry.healthy and enabled


def _runnable(
    profiles: Iterable[objects.AcceleratorProfile], shape: str
) -> frozenset[str]:
    return frozenset(
        trait
        for profile in profiles
        # Projects' own accelerators are not published.
        if not profile.projects
        and names.owner_of(profile.name) is None
        and (not profile.shapes or shape in profile.shapes)
        and (trait := accelerator_trait(profile.name))
    )


def _canonical(text: str) -> str | None:
    """Return a UUID in Placement's notation; None if it is not valid."""
    try:
        return str(uuid.UUID(text))
    except ValueError:
        return None


# -- names -------------------------------------------------------------------


def accelerator_trait(name: str) -> str | None:
    """Return the trait for an accelerator.

    :returns: None if the name collides with one of the pools' own traits.
    """
    trait = PREFIX + re.sub(r"[^A-Z0-9_]", "_", name.upper())
    if trait == OWNED or trait.startswith(_POOL):
        return None
    return trait[:_MAX_TRAIT_LENGTH]


def pool_trait(pool_name: str) -> str:
    """Return the trait of the providers that a pool has created."""
    return _POOL + pool_name.upper()


def provider_name(host_uuid: str, device: Device) -> str:
    """Return the name of a device's provider, unique in the cloud."""
    name = f"fpgapool_{host_uuid}_{device.name}"
    if len(name) <= _MAX_NAME_LENGTH and _PLAIN.fullmatch(name):
        return name
    return f"fpgapool_{host_uuid}_{device.id}"


# -- the plan ----------------------------------------------------------------


def plan(want: Wanted, present: Present, pool_name: str) -> Plan:
    """Plan the operations that turn the current state into the desired one.

    They affect only the pool's objects. If all succeed, the next plan is
    empty.
    """
    return _Planner(want, present, pool_name).plan()


class _Planner:
    """Collects the operations and problems of a plan."""

    def __init__(self, want: Wanted, present: Present, pool_name: str) -> None:
        self._want = want
        self._present = present
        self._own = frozenset({OWNED, pool_trait(pool_name)})
        self._owned = present.owned(pool_name)
        self._roots = {one.root_uuid for one in present.providers.values()}
        # Traits of other pools' providers, by compute node.
        self._others: dict[str, set[str]] = collections.defaultdict(set)
        for uuid_, provider in present.providers.items():
            if provider.parent_uuid and uuid_ not in self._owned:
                traits = present.traits.get(uuid_, _NONE)
                self._others[provider.root_uuid] |= traits
        self._operations: list[Operation] = []
        self._missing: set[str] = set()
        self._foreign: set[str] = set()
        self._kept: set[str] = set()

    def plan(self) -> Plan:
        want = self._want
        for host_uuid, devices in sorted(want.hosts.items()):
            if host_uuid in want.unheard:
                continue
            if host_uuid in self._roots:
                self._plan_host(host_uuid, devices)
            elif devices:
                self._missing.add(host_uuid)
        self._plan_gone()
        return Plan(
            tuple(self._operations),
            frozenset(self._missing),
            frozenset(self._foreign),
            frozenset(self._kept),
        )

    def _plan_host(self, host_uuid: str, devices: Iterable[Device]) -> None:
        traits = _NONE
        for device in devices:
            there = device.id in self._present.providers
            if there and device.id not in self._owned:
                self._foreign.add(device.id)
                continue
            if not there:
                name = provider_name(host_uuid, device)
                self._operations.append(Create(device.id, name, host_uuid))
            self._set_traits(device.id, self._own | device.traits)
            self._set_inventory(device)
            traits |= device.traits
        self._set_root_traits(host_uuid, traits)

    def _plan_gone(self) -> None:
        known = {device.id for device in self._want.devices()}
        gone = {
            uuid_: provider
            for uuid_, provider in sorted(self._owned.items())
            if uuid_ not in known
        }
        roots = {provider.root_uuid for provider in gone.values()}
        for root_uuid in sorted(roots - self._want.hosts.keys()):
            self._set_root_traits(root_uuid, _NONE)
        for uuid_ in gone:
            if self._present.used.get(uuid_):
                self._set_traits(uuid_, self._own)
                self._set_inventory(Device(id=uuid_, name=""))
            else:
                self._operations.append(Delete(uuid_))

    def _set_root_traits(self, root_uuid: str, traits: frozenset[str]) -> None:
        """Give a compute node the traits of all pools' devices there."""
        have = self._present.traits.get(root_uuid, _NONE)
        others = self._others.get(root_uuid, _NONE)
        self._change(root_uuid, traits - have, have - traits - others)

    def _set_traits(self, uuid_: str, traits: frozenset[str]) -> None:
        have = self._present.traits.get(uuid_, _NONE)
        self._change(uuid_, traits - have, have - traits)

    def _change(
        self, uuid_: str, add: frozenset[str], remove: frozenset[str]
    ) -> None:
        if add or remove:
            self._operations.append(ChangeTraits(uuid_, add, remove))

    def _set_inventory(self, device: Device) -> None:
        used = self._present.used.get(device.id, 0)
        total = max(device.reservable_slots, used)
        if total > device.reservable_slots:
            self._kept.add(device.id)
        inventory = None
        if total:
            offered = min(device.reservable_slots, device.usable_slots)
            inventory = placement.Inventory(total, total - offered)
        if inventory != self._present.inventories.get(device.id):
            self._operations.append(SetInventory(device.id, inventory))
