# SPDX-License-Identifier: Apache-2.0

"""The thread that updates Placement, and reads reservations from it."""

from __future__ import annotations

import collections
import dataclasses
import time
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping

from oslo_log import log as logging

from fpgapool.clients import nova
from fpgapool.clients import placement as placement_client
from fpgapool.common import exception
from fpgapool.conductor import counts as conductor_counts
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.outside import placement_plan
from fpgapool.conductor.runtime import threads

LOG = logging.getLogger(__name__)

# Time between checks of the pool's state, which cause no requests.
_LOOK_INTERVAL_S = 1.0

# Delay before a retry, which also writes the changes made meanwhile.
_RETRY_S = 5.0

# Maximum number of consumers to look up individually in Nova; if there are
# more, all servers are listed.
_MAX_SINGLE_QUESTIONS = 20


class Placing(threads.Background):
    """Writes the pool's devices to Placement, and reads reservations.

    While Placement is unavailable, nothing is updated; while Nova is
    unavailable, reservations are not updated.

    :param compute: Nova's client, which maps migrations to instances; None:
        all consumers are instances.
    :param wanted: returns the desired state; see
        :func:`.placement_plan.wanted` for its argument ``is_early``.
    :param sync_interval_s: time between comparisons while nothing changes.
    :param hearing_s: time after which hosts that have not reported are
        considered lost.
    """

    def __init__(
        self,
        client: placement_client.Placement,
        compute: nova.Nova | None,
        *,
        pool_name: str,
        wanted: Callable[[bool], placement_plan.Wanted],
        put: Callable[[inputs.Input], None],
        on_failure: Callable[[str], None],
        sync_interval_s: float,
        allocation_interval_s: float,
        hearing_s: float,
        counts: conductor_counts.Counts | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._wanted = wanted
        self._put = put
        self._pool_name = pool_name
        self._sync_interval_s = sync_interval_s
        self._allocation_interval_s = allocation_interval_s
        self._counts = counts or conductor_counts.Counts()
        self._clock = clock
        self._heard_at = clock() + hearing_s
        self._reader = Reader(client)
        self._consumers = Consumers(compute)
        self._written: placement_plan.Wanted | None = None
        self._reserved: Mapping[str, Mapping[str, int]] | None = None
        self._sync_at = self._allocations_at = self._not_before = clock()
        self._failing = False
        self._consumers_failing = False
        self._problems: frozenset[str] = frozenset()
        super().__init__("placing", on_failure)

    def _run(self) -> None:
        while not self._stopping.wait(_LOOK_INTERVAL_S):
            self.look()

    def look(self) -> None:
        """Synchronize once, if that is due."""
        now = self._clock()
        if now < self._not_before:
            return
        conflicts, requests = self._client.conflicts, self._client.requests
        try:
            self._look(now)
        except exception.PlacementUnavailable as error:
            self._not_before = now + _RETRY_S
            self._counts.placement_failures += 1
            if not self._failing:
                LOG.warning("Cannot update devices in Placement: %s", error)
            self._failing = True
        except TimeoutError:
            LOG.info("The conductor is busy; Placement will be updated later")
        finally:
            self._counts.placement_conflicts += (
                self._client.conflicts - conflicts
            )
            self._counts.placement_requests += self._client.requests - requests

    def _look(self, now: float) -> None:
        want = self._wanted(now < self._heard_at)
        if want != self._written or now >= self._sync_at:
            self._sync(want, now)
        elif now >= self._allocations_at and self._reader.has_inventories:
            self._reader.read_allocations(self._pool_name)
        else:
            return
        if self._failing:
            LOG.info("Placement is available again")
        self._failing = False
        interval_s = self._allocation_interval_s
        if not self._try_to_reserve(want):
            interval_s = max(interval_s, _RETRY_S)
        self._allocations_at = now + interval_s

    def _sync(self, want: placement_plan.Wanted, now: float) -> None:
        present = self._reader.read(want, self._pool_name)
        self._consumers.forget_unknown()
        found = placement_plan.plan(want, present, self._pool_name)
        refusals = self._carry_out(found.operations)
        self._log_problems(refusals | _problems(found))
        self._written = want
        interval_s = self._sync_interval_s
        if refusals:
            interval_s = min(interval_s, _RETRY_S)
        self._sync_at = now + interval_s
        self._counts.placement_syncs += 1

    def _carry_out(
        self, operations: Iterable[placement_plan.Operation]
    ) -> frozenset[str]:
        refused: dict[str, str] = {}
        for operation in operations:
            # Do not write as a former leader.
            if self._stopping.is_set():
                break
            if operation.uuid in refused:
                continue
            LOG.debug("Placement: %s", operation)
            try:
                carry_out(self._client, operation)
            except exception.PlacementRefused as error:
                refused[operation.uuid] = f"{operation}: {error}"
            else:
                self._reader.note(operation)
                if isinstance(operation, placement_plan.Delete):
                    # Its device is gone, or another pool has the same name.
                    LOG.warning(
                        "Placement: deleted provider %s, which is not a device"
                        " of this pool",
                        operation.uuid,
                    )
        return frozenset(refused.values())

    def _log_problems(self, problems: frozenset[str]) -> None:
        for text in sorted(problems - self._problems):
            LOG.warning("Placement: %s", text)
        self._problems = problems

    def _try_to_reserve(self, want: placement_plan.Wanted) -> bool:
        """Pass reservations on; return whether Nova was available for that."""
        try:
            self._reserve(want)
        except exception.NovaUnavailable as error:
            self._counts.placement_failures += 1
            if not self._consumers_failing:
                LOG.warning(
                    "Cannot query Nova about reservations: %s",
                    error,
                )
            self._consumers_failing = True
            return False
        if self._consumers_failing:
            LOG.info("Nova can be queried about reservations again")
        self._consumers_failing = False
        return True

    def _reserve(self, want: placement_plan.Wanted) -> None:
        known = {device.id for device in want.devices()}
        allocations = {
            uuid: own
            for uuid, own in self._reader.allocations.items()
            if own and uuid in known
        }
        instances = self._consumers.instances(
            {consumer for own in allocations.values() for consumer in own}
        )
        reserved: dict[str, Mapping[str, int]] = {}
        for uuid, own in allocations.items():
            # An instance being resized on its own host has two consumers.
            slots = collections.Counter[str]()
            for consumer, count in own.items():
                slots[instances[consumer]] += count
            reserved[uuid] = dict(slots)
        if reserved != self._reserved and not self._stopping.is_set():
            self._put(inputs.Reservations(reserved))
            self._reserved = reserved


def carry_out(
    client: placement_client.Placement, operation: placement_plan.Operation
) -> None:
    """Carry out an operation of a plan."""
    match operation:
        case placement_plan.Create(uuid, name, parent_uuid):
            client.create(uuid, name, parent_uuid)
        case placement_plan.ChangeTraits(uuid, add, remove):
            client.change_traits(uuid, add, remove)
        case placement_plan.SetInventory(uuid, inventory):
            client.set_inventory(uuid, placement_plan.SLOT, inventory)
        case placement_plan.Delete(uuid):
            client.delete(uuid)


def clean(
    client: placement_client.Placement, pool_name: str
) -> tuple[int, int]:
    """Delete a pool's providers in Placement; no conductor may be running.

    :returns: the number of deleted providers, and of those kept because of
        allocations or because Placement refused to delete them.
    """
    nothing = placement_plan.Wanted()
    present = Reader(client).read(nothing, pool_name)
    found = placement_plan.plan(nothing, present, pool_name)
    gone, kept = 0, set(found.kept)
    for operation in found.operations:
        try:
            carry_out(client, operation)
        except exception.PlacementRefused as error:
            LOG.warning("Placement: %s: %s", operation, error)
            kept.add(operation.uuid)
        else:
            gone += isinstance(operation, placement_plan.Delete)
    return gone, len(kept)


def _problems(found: placement_plan.Plan) -> frozenset[str]:
    return frozenset(
        [
            f"compute node {uuid} has no resource provider yet"
            for uuid in found.missing
        ]
        + [
            f"resource provider {uuid} belongs to another pool"
            for uuid in found.foreign
        ]
        + [
            f"resource provider {uuid} cannot be reduced or deleted, because"
            " instances have reserved its slots"
            for uuid in found.kept
        ]
    )


class Reader:
    """Reads the current state from Placement, and caches it.

    :ivar allocations: the number of slots of each consumer, by provider.
    """

    def __init__(self, client: placement_client.Placement) -> None:
        self.allocations: dict[str, dict[str, int]] = {}
        self._client = client
        self._inventories: dict[str, placement_client.Inventory] = {}
        # The provider generations of the cached parts.
        self._inventory_of: dict[str, int] = {}
        self._allocations_of: dict[str, int] = {}

    @property
    def has_inventories(self) -> bool:
        """Whether there is an inventory, which could have allocations."""
        return bool(self._inventories)

    def read(
        self, want: placement_plan.Wanted, pool_name: str
    ) -> placement_plan.Present:
        """Return the current state."""
        client = self._client
        providers = {}
        traits: dict[str, frozenset[str]] = {}
        for trait in client.traits(placement_plan.PREFIX):
            for one in client.providers(trait):
                providers[one.uuid] = one
                traits[one.uuid] = traits.get(one.uuid, frozenset()) | {trait}
        roots = {one.root_uuid for one in providers.values()}
        for host_uuid, devices in want.hosts.items():
            if devices and host_uuid not in roots:
                found = client.provider(host_uuid)
                if found is not None:
                    providers[host_uuid] = found
        present = placement_plan.Present(
            providers=providers,
            traits=traits,
            inventories={},
            used={},
        )
        own = present.owned(pool_name)
        self._read_inventories(own)
        in_use = {uuid for uuid, found in self.allocations.items() if found}
        self._read_allocations(own, in_use)
        return dataclasses.replace(
            present,
            inventories=dict(self._inventories),
            used={
                uuid: sum(found.values())
                for uuid, found in self.allocations.items()
            },
        )

    def read_allocations(self, pool_name: str) -> None:
        """Read only the allocations."""
        trait = placement_plan.pool_trait(pool_name)
        found = self._client.providers(trait)
        self._read_allocations(
            {one.uuid: one for one in found if one.parent_uuid},
            self._find_freed(trait),
        )

    def _find_freed(self, trait: str) -> set[str]:
        """Find providers whose allocations may have shrunk.

        The end of an allocation changes the number of free slots, but not the
        generation. Querying by the number of free slots takes one request per
        number instead of one per provider.
        """
        found = set()
        by_count: dict[int, set[str]] = collections.defaultdict(set)
        for uuid, own in self.allocations.items():
            inventory = self._inventories.get(uuid)
            used = sum(own.values())
            if inventory is None or not used:
                continue
            free = inventory.total - inventory.reserved - used
            if free < 0:
                found.add(uuid)
            else:
                by_count[free + 1].add(uuid)
        for count, uuids in sorted(by_count.items()):
            listed = self._client.providers(
                trait, {placement_plan.SLOT: count}
            )
            found |= uuids & {one.uuid for one in listed}
        return found

    def note(self, operation: placement_plan.Operation) -> None:
        """Update the cache after an operation."""
        if isinstance(operation, placement_plan.SetInventory):
            self._keep(operation.uuid, operation.inventory)
            self._inventory_of.pop(operation.uuid, None)

    def _keep(
        self, uuid: str, inventory: placement_client.Inventory | None
    ) -> None:
        if inventory is None:
            self._inventories.pop(uuid, None)
        else:
            self._inventories[uuid] = inventory

    def _read_inventories(
        self, own: Mapping[str, placement_client.Provider]
    ) -> None:
        for uuid, provider in own.items():
            if self._inventory_of.get(uuid) != provider.generation:
                found = self._client.inventory(uuid, placement_plan.SLOT)
                self._keep(uuid, found)
                self._inventory_of[uuid] = provider.generation
        for uuid in self._inventories.keys() - own.keys():
            del self._inventories[uuid]

    def _read_allocations(
        self,
        own: Mapping[str, placement_client.Provider],
        suspects: Collection[str],
    ) -> None:
        """Read the allocations of changed providers and of ``suspects``."""
        fresh = {}
        for uuid in sorted(self._inventories.keys() & own.keys()):
            generation = own[uuid].generation
            is_new = self._allocations_of.get(uuid) != generation
            if is_new or uuid in suspects or uuid not in self.allocations:
                found = self._client.allocations(uuid, placement_plan.SLOT)
                self._allocations_of[uuid] = generation
            else:
                found = self.allocations[uuid]
            fresh[uuid] = found
        for uuid in sorted(self.allocations.keys() - fresh.keys()):
            # A provider whose traits were removed is not listed any more, but
            # may still have allocations.
            if self.allocations[uuid] and self._client.provider(uuid):
                fresh[uuid] = self._client.allocations(
                    uuid, placement_plan.SLOT
                )
        self.allocations = fresh


class Consumers:
    """Maps the consumers of allocations to instances.

    On the source host, a migrating instance's consumer is its migration.

    :param compute: Nova's client; None: every consumer is an instance.
    """

    def __init__(self, compute: nova.Nova | None) -> None:
        self._nova = compute
        self._instances: dict[str, str] = {}
        self._strangers: set[str] = set()

    def forget_unknown(self) -> None:
        """Query Nova again for consumers that it did not know."""
        for consumer in self._strangers:
            self._instances.pop(consumer, None)
        self._strangers.clear()

    def instances(self, consumers: Collection[str]) -> Mapping[str, str]:
        """Return each consumer's instance; unknown ones map to themselves."""
        self._instances = {
            consumer: instance
            for consumer, instance in self._instances.items()
            if consumer in consumers
        }
        unknown = set(consumers) - self._instances.keys()
        if self._nova is None:
            return {consumer: consumer for consumer in consumers}
        if unknown:
            self._ask(self._nova, unknown)
        return self._instances

    def _ask(self, compute: nova.Nova, unknown: set[str]) -> None:
        if len(unknown) > _MAX_SINGLE_QUESTIONS:
            servers = {one.id for one in compute.servers()} & unknown
        else:
            servers = {one for one in unknown if compute.server(one)}
        self._instances |= {one: one for one in servers}
        rest = unknown - servers
        if rest:
            moved = compute.migrating(rest)
            self._instances |= {one: one for one in rest} | moved
            self._strangers |= rest - moved.keys()
