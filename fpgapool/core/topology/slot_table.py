# SPDX-License-Identifier: Apache-2.0

"""Hosts, slots, assignments, and indexes over idle slots.

Faults and assignments are stored by id, separately from the topology, because
they exist even while their host is unknown.
"""

import collections
from collections import abc

from fpgapool.core import model
from fpgapool.core import native
from fpgapool.core import preferences
from fpgapool.core.queues import claims
from fpgapool.core.topology import boards as idle_boards
from fpgapool.core.topology import idle_slots
from fpgapool.core.topology import slots

# Slots are not shared out again after a change of their number by this part:
# this would take too long while many hosts come, one by one.
_SLIGHT = 1 / 16
# So many claims from each host say as much as those from all hosts do.
_TELLING = 1.0


@native.mypyc_attr(allow_interpreted_subclasses=True)
class SlotTable(idle_slots.IdleSlots):
    """The topology, the assignments and the indexes over idle slots.

    :ivar barred_devices: the devices that an operator has disabled or is
        draining, known or not.
    :ivar reserved: the instance for which each reserved slot is reserved, by
        slot. A reserved slot counts neither as up nor as idle.
    :ivar kept: the slots that are kept for further reservations.
    :ivar shares: where the recent work comes from; None: hosts keep as many
        slots for their own jobs as the strategy allows.
    :ivar up_total: number of slots that are up.
    """

    def __init__(
        self,
        strategy: preferences.Preferences,
        boards: idle_boards.Boards | None = None,
    ) -> None:
        super().__init__(strategy, boards)
        self._remote_limit = strategy.remote_limit
        self.shares: claims.Shares | None = None
        self.up_total = 0
        # The number of slots that was shared out last.
        self._shared_total = 0
        # How many slots a host's own jobs need: at least, and more in
        # proportion to its share.
        self._usual_need = self._need_by_share = 0.0
        self.hosts: dict[model.HostId, slots.Host] = {}
        self.faulty_slots: set[model.SlotId] = set()
        self.failed_devices: set[model.DeviceId] = set()
        self.barred_devices: set[model.DeviceId] = set()
        self.up_by_shape: collections.Counter[str] = collections.Counter()
        self.barred_by_shape: collections.Counter[str] = collections.Counter()
        self._known_by_shape: collections.Counter[str] = collections.Counter()
        self.reserved: dict[model.SlotId, str] = {}
        self.kept: set[model.SlotId] = set()
        # Hosts and devices of assigned slots outside the known topology.
        self._host_hints: dict[model.SlotId, model.HostId] = {}
        self._device_hints: dict[model.SlotId, model.DeviceId] = {}
        self._device_hosts: dict[model.DeviceId, model.HostId] = {}

    # -- topology --------------------------------------------------------

    def put_host(self, spec: model.HostSpec) -> bool:
        """Add or update a host, and bring it up.

        :returns: whether the set of usable slots changed.
        :raises ValueError: if one of its slots or devices belongs to another
            host.
        """
        host = self.hosts.get(spec.id)
        if host is not None and host.up and host.spec == spec:
            return False
        self._check_ids(spec)
        if host is None:
            host = self.hosts[spec.id] = slots.Host(spec, self._by_busy)
        before = _usable(host)
        self._clear(host)
        self._set_slots(host, spec)
        host.up = True
        self._fill(host)
        return _usable(host) != before

    def _check_ids(self, spec: model.HostSpec) -> None:
        for device in spec.devices:
            owner = self._device_hosts.get(device.id, spec.id)
            if owner != spec.id:
                raise ValueError(f"device {device.id} belongs to host {owner}")
            for slot in device.slots:
                known = self.slots.get(slot.id)
                if known is not None and known.host.id != spec.id:
                    raise ValueError(
                        f"slot {slot.id} belongs to host {known.host.id}"
                    )

    def _set_slots(self, host: slots.Host, spec: model.HostSpec) -> None:
        old = {slot.id: slot for slot in host.slots}
        for slot in host.slots:
            del self.slots[slot.id]
            self._known_by_shape[slot.spec.shape] -= 1
        for device in host.spec.devices:
            self._device_hosts.pop(device.id, None)
        host.spec = spec
        host.slots = sorted(
            (
                slots.Slot(host, device, slot)
                for device in spec.devices
                for slot in device.slots
            ),
            key=lambda slot: slot.number,
        )
        for device in spec.devices:
            self._device_hosts[device.id] = host.id
        for slot in host.slots:
            self._adopt(slot, old.pop(slot.id, None))
        for gone in old.values():
            hold = self.assignments.get(gone.id)
            if hold is not None:
                hold.slot = None
                self._host_hints[gone.id] = host.id
                self._device_hints[gone.id] = gone.spec.device_id
        host.least_limit = self._remote_limit(len(host.slots))

    def _adopt(self, slot: slots.Slot, old: slots.Slot | None) -> None:
        self.slots[slot.id] = slot
        if self.reserved or self.kept:
            slot.mark(self.reserved.get(slot.id), slot.id in self.kept)
        self._known_by_shape[slot.spec.shape] += 1
        self._forget_hints(slot.id)
        hold = self.assignments.get(slot.id)
        if hold is None:
            return
        hold.slot = slot
        if old is not None:
            # The report may be older than this record of an assigned slot.
            slot.programmed = old.programmed

    def drop_host(self, host_id: model.HostId) -> bool:
        """Take a host down; it stays known."""
        host = self.hosts.get(host_id)
        if host is None or not host.up:
            return False
        self._clear(host)
        host.up = False
        self._fill(host)
        return True

    def refresh_host(self, host_id: model.HostId) -> None:
        """Update which slots are up, after a fault or a repair."""
        host = self.hosts[host_id]
        self._clear(host)
        self._fill(host)

    def set_reserved(
        self,
        device_id: model.DeviceId,
        old: abc.Iterable[model.SlotId],
        reserved: abc.Mapping[model.SlotId, str],
        kept: abc.Set[model.SlotId],
    ) -> model.HostId | None:
        """Set which slots of a known device are reserved or kept.

        :param old: the slots that were reserved before, in the topology or
            not.
        :returns: the device's host, if anything changed.
        """
        for slot_id in old:
            self.reserved.pop(slot_id, None)
        self.reserved.update(reserved)
        slots = self.slots_of(device_id)
        for slot in slots:
            self.kept.discard(slot.id)
        self.kept |= kept
        changed = [
            slot
            for slot in slots
            if slot.reserved_for != reserved.get(slot.id)
            or slot.kept != (slot.id in kept)
        ]
        if not changed:
            return None
        host = changed[0].host
        self._clear(host)
        for slot in changed:
            slot.mark(reserved.get(slot.id), slot.id in kept)
        self._fill(host)
        return host.id

    def slots_of(self, device_id: model.DeviceId) -> list[slots.Slot]:
        """Return the slots of a device; none if it is unknown."""
        host_id = self._device_hosts.get(device_id)
        if host_id is None:
            return []
        return [
            slot
            for slot in self.hosts[host_id].slots
            if slot.spec.device_id == device_id
        ]

    def known_shapes(self) -> model.Shapes:
        """Return the shapes of all known slots, up or not, kept or not."""
        return frozenset(
            shape for shape, count in self._known_by_shape.items() if count
        )

    def host_of_device(self, device_id: model.DeviceId) -> model.HostId | None:
        """Return the host of a device; None if it is unknown."""
        return self._device_hosts.get(device_id)

    def held_slots(self, host_id: model.HostId) -> list[model.SlotId]:
        """Return the host's assigned slots, even if it was never up."""
        host = self.hosts.get(host_id)
        slots = host.slots if host is not None else []
        held = [slot.id for slot in slots if slot.id in self.assignments]
        held.extend(
            slot_id
            for slot_id, hint in self._host_hints.items()
            if hint == host_id
        )
        return sorted(held)

    def held_on(self, device_id: model.DeviceId) -> list[model.SlotId]:
        """Return the device's assigned slots, even if it is unknown."""
        held = [
            slot.id
            for slot in self.slots_of(device_id)
            if slot.id in self.assignments
        ]
        held.extend(
            slot_id
            for slot_id, hint in self._device_hints.items()
            if hint == device_id
        )
        return sorted(held)

    def _forget_hints(self, slot_id: model.SlotId) -> None:
        self._host_hints.pop(slot_id, None)
        self._device_hints.pop(slot_id, None)

    def up_count(self, shapes: model.Shapes) -> int:
        """Return the number of slots of these shapes that are up."""
        return _count(self.up_by_shape, shapes)

    def barred_count(self, shapes: model.Shapes) -> int:
        """Return how many slots of these shapes would be up if not barred."""
        return _count(self.barred_by_shape, shapes)

    def share_out(self, shares: claims.Shares | None) -> None:
        """Set how many slots hosts keep for their own jobs.

        A host keeps as many as its own jobs would take if all slots of the
        pool were busy, up to the strategy's limit of remote jobs.
        """
        self.shares = shares
        self._share_out()

    def _share_out(self) -> None:
        self._shared_total = self.up_total
        if self.shares is not None:
            # Where few claims are known of each host, chance decides how many.
            by_host = self.shares.by_host
            homes = [h.id for h in self.hosts.values() if h.up and h.slots]
            local = sum([by_host.get(host_id, 0.0) for host_id in homes])
            mean = local / max(len(homes), 1)
            weight = _TELLING / (_TELLING + mean * self.shares.claim_count)
            self._usual_need = self.up_total * weight * mean + 0.5
            self._need_by_share = self.up_total * (1.0 - weight)
        self._keep(self.hosts.values())

    def _keep(self, hosts: abc.Iterable[slots.Host]) -> None:
        """Set how many slots hosts keep for their own jobs."""
        shares = {} if self.shares is None else self.shares.by_host
        for host in hosts:
            limit = host.least_limit
            if limit is not None and self.shares is not None:
                own_need = self._need_by_share * shares.get(host.id, 0.0)
                others = len(host.slots) - int(self._usual_need + own_need)
                if others > limit:
                    limit = others
            if limit != host.remote_limit:
                host.remote_limit = limit
                self._changed(host)

    def kept_for_local(self) -> tuple[int, int]:
        """Return how many slots are kept for local jobs, and the most."""
        kept = most = 0
        for host in self.hosts.values():
            if host.up and host.least_limit is not None:
                kept += host.kept_count
                most += max(len(host.slots) - host.least_limit, 0)
        return kept, most

    def _clear(self, host: slots.Host) -> None:
        """Remove a host from all counts and indexes."""
        for slot in host.idle:
            self._count_idle(slot, -1)
        if self.reserved_idle:
            for slot in host.slots:
                self._forget_reserved_idle(slot)
        self.up_by_shape.subtract(host.up_shapes)
        self.barred_by_shape.subtract(host.barred_shapes)
        host.idle = []
        self.idle_hosts.pop(host.id, None)
        host.up_shapes = collections.Counter()
        host.barred_shapes = collections.Counter()
        host.busy_count = host.remote_count = 0
        self._changed(host)

    def _fill(self, host: slots.Host) -> None:
        """Add a host's slots to all counts and indexes."""
        usable = {
            device.id
            for device in host.spec.devices
            if device.healthy and device.id not in self.failed_devices
        }
        for slot in host.slots:
            works = (
                host.up
                and slot.spec.device_id in usable
                and slot.id not in self.faulty_slots
            )
            barred = slot.spec.device_id in self.barred_devices
            is_free = slot.reserved_for is None
            slot.works = works
            slot.is_usable = works and not barred
            slot.up = slot.is_usable and is_free
            host.up_shapes[slot.shape] += slot.up
            host.barred_shapes[slot.shape] += works and barred and is_free
            assignment = self.assignments.get(slot.id)
            if assignment is not None:
                host.busy_count += 1
                host.remote_count += not assignment.local
            elif slot.up:
                self._set_idle(slot)
            elif slot.is_usable:
                self._note_reserved_idle(slot)
        self.up_by_shape.update(host.up_shapes)
        self.up_total = sum(self.up_by_shape.values())
        self.barred_by_shape.update(host.barred_shapes)
        self._changed(host)
        change = abs(self.up_total - self._shared_total)
        if self.shares is not None and change > self.up_total * _SLIGHT:
            self._share_out()
        else:
            self._keep((host,))

    # -- assignments -----------------------------------------------------

    def hold(
        self,
        hold: slots.Hold,
        host_hint: model.HostId | None = None,
        device_hint: model.DeviceId | None = None,
    ) -> None:
        self.assignments[hold.slot_id] = hold
        slot = hold.slot
        if slot is None:
            if host_hint is not None:
                self._host_hints[hold.slot_id] = host_hint
            if device_hint is not None:
                self._device_hints[hold.slot_id] = device_hint
            return
        host = slot.host
        host.busy_count += 1
        if not hold.local:
            host.remote_count += 1
        if slot.up:
            self._unset_idle(slot)
        elif slot.is_usable:
            self._forget_reserved_idle(slot)
        if host.is_listed:
            self._changed(host)

    def release(self, hold: slots.Hold) -> None:
        del self.assignments[hold.slot_id]
        slot = hold.slot
        if slot is None:
            self._forget_hints(hold.slot_id)
            return
        host = slot.host
        host.busy_count -= 1
        if not hold.local:
            host.remote_count -= 1
        if slot.up:
            self._set_idle(slot)
        elif slot.is_usable:
            self._note_reserved_idle(slot)
        if host.is_listed:
            self._changed(host)

    def set_local(self, slot_id: model.SlotId, local: bool) -> None:
        """Correct whether a holder is local to its slot's host."""
        host = self.slots[slot_id].host
        hold = self.assignments[slot_id]
        host.remote_count += hold.local - local
        hold.local = local
        if host.is_listed:
            self._changed(host)


def _usable(host: slots.Host) -> set[tuple[model.SlotId, str]]:
    return {(slot.id, slot.shape) for slot in host.slots if slot.up}


def _count(counter: collections.Counter[str], shapes: model.Shapes) -> int:
    if not shapes:
        return sum(counter.values())
    return sum(counter[shape] for shape in shapes)
