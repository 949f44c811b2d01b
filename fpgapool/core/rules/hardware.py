# SPDX-License-Identifier: Apache-2.0

"""Handles events of hosts, devices and slots, and drains devices."""

import math

from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import view as pool_view
from fpgapool.core.rules import admission
from fpgapool.core.rules import holders
from fpgapool.core.rules import members
from fpgapool.core.rules import shunning
from fpgapool.vocabulary import codes


class Hardware:
    """Keeps the usable slots up to date, and drains devices."""

    def __init__(
        self,
        view: pool_view.PoolView,
        queue: admission.Admission,
        holding: holders.Holders,
        group_members: members.Members,
        shunned: shunning.Shunning,
        outcome: instructions.Outcome,
    ) -> None:
        self._view = view
        self._slots = view.slots
        self._queue = queue
        self._holders = holding
        self._members = group_members
        self._shunning = shunned
        self._outcome = outcome
        self.drains: dict[model.DeviceId, float] = {}
        self.next_drain_s = math.inf

    # -- hosts -----------------------------------------------------------

    def on_host_up(self, event: events.HostUp) -> None:
        """Add or update a host, and bring it up."""
        host, view = event.host, self._view
        usable_changed = self._slots.put_host(host)
        if view.loads is not None:
            view.loads.set_host(host)
        for slot_id in self._slots.held_slots(host.id):
            slot = self._slots.slots.get(slot_id)
            if slot is None:
                view.drop_flow(slot_id)
                continue
            record = self._slots.assignments[slot_id].record
            if record is not None:
                job = record.job
                self._slots.set_local(slot_id, job.is_local_to(host.id))
                view.put_flow(job, slot)
        if usable_changed:
            self._changed(host.id)
        self._shunning.see_host(host.id)
        self._members.touch()
        view.reservations.touch_host(host.id)
        self._queue.see_shapes()

    def on_host_lost(self, event: events.HostLost) -> None:
        """Take a host down, and take its unused assignments back."""
        host_id = event.host_id
        if self._slots.drop_host(host_id):
            self._changed(host_id)
        for slot_id in self._slots.held_slots(host_id):
            hold = self._slots.assignments.get(slot_id)
            # A set that loses one slot gives back the others, too.
            if hold is not None:
                self._holders.lose(hold)

    def _changed(self, host_id: model.HostId) -> None:
        self._view.topology_changed(host_id)
        self._view.reservations.touch_host(host_id)
        self._outcome.pass_due = True

    # -- faults and administrative states --------------------------------

    def on_slot_marked(
        self, event: events.SlotFaulty | events.SlotRestored
    ) -> None:
        """Take a slot out of use, or bring it back."""
        slot = self._slots.slots.get(event.slot_id)
        self._mark(
            self._slots.faulty_slots,
            event.slot_id,
            isinstance(event, events.SlotFaulty),
            None if slot is None else slot.host.id,
        )

    def on_device_marked(
        self, event: events.DeviceFailed | events.DeviceRestored
    ) -> None:
        """Take a device out of use, or bring it back."""
        is_failed = isinstance(event, events.DeviceFailed)
        self._mark_device(
            self._slots.failed_devices, event.device_id, is_failed
        )

    def on_device_set(
        self, event: events.DeviceEnabled | events.DeviceDisabled
    ) -> None:
        """Allow or stop assigning a device's slots to jobs.

        Holders keep their slots. A drain of the device ends.
        """
        self.drains.pop(event.device_id, None)
        self._set_next_drain()
        is_barred = isinstance(event, events.DeviceDisabled)
        self._mark_device(
            self._slots.barred_devices, event.device_id, is_barred
        )

    def on_drain_requested(self, event: events.DrainRequested) -> None:
        """Stop assigning a device's slots; report when it is empty."""
        self.drains[event.device_id] = (
            math.inf if event.deadline_s is None else event.deadline_s
        )
        self._mark_device(self._slots.barred_devices, event.device_id, True)

    def _mark_device(
        self,
        marked: set[model.DeviceId],
        device_id: model.DeviceId,
        is_marked: bool,
    ) -> None:
        host_id = self._slots.host_of_device(device_id)
        self._mark(marked, device_id, is_marked, host_id)

    def _mark(
        self,
        marked: set[int],
        target_id: int,
        is_marked: bool,
        host_id: model.HostId | None,
    ) -> None:
        """Mark a slot or device, or remove its mark."""
        if (target_id in marked) == is_marked:
            return
        marked ^= {target_id}
        if host_id is not None:
            self._slots.refresh_host(host_id)
            self._changed(host_id)

    def drain(self, now: float) -> None:
        """Take slots back at drain deadlines; report drained devices."""
        for device_id, deadline_s in sorted(self.drains.items()):
            held = self._slots.held_on(device_id)
            if deadline_s <= now:
                for slot_id in held:
                    hold = self._slots.assignments.get(slot_id)
                    if hold is not None:
                        self._holders.call_back(hold, codes.DRAINED)
                held = self._slots.held_on(device_id)
            if not held:
                del self.drains[device_id]
                self._outcome.output.append(instructions.Drained(device_id))
        self._set_next_drain()

    def _set_next_drain(self) -> None:
        now = self._view.now
        self.next_drain_s = min(
            (due_s for due_s in self.drains.values() if due_s > now),
            default=math.inf,
        )
