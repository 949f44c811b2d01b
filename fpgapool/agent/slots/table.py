# SPDX-License-Identifier: Apache-2.0

"""An agent's slot table: commands and events of slots, and their effects.

Pure: events are method calls with the time as an argument, and effects are
returned as values, which the agent carries out. Every command of the conductor
is checked against the highest leader epoch and the slot's newest generation,
so that lost, duplicated and reordered messages do no harm.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import typing
from collections.abc import Callable
from collections.abc import Iterable

from fpgapool import objects
from fpgapool.agent.slots import orders
from fpgapool.agent.slots import slot as slots
from fpgapool.drivers import base as drivers
from fpgapool.rpcapi import agent as agent_api
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states

#: Time after which a member is released even if its desk reports that it still
#: has a task.
MAX_LEAVE_S = 600.0

#: Time for which an order waits for the slot's holder to leave.
NEXT_S = 0.5


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    """A slot that belongs to a group.
    :ivar leaves: whether it was ordered to leave the group.
    """

    generation: int
    leaves: bool


@dataclasses.dataclass(frozen=True, slots=True)
class HostFacts:
    """The facts about the host that the table needs.

    :ivar data_network: name of the network to which ``data_address`` belongs.
    :ivar data_address: address on which workers listen for remote clients, or
        None if all clients are local.
    """

    host_uuid: str
    data_network: str
    data_address: str | None


class Standing(typing.NamedTuple):
    """The holders of a host's slots.

    :ivar generations: generations of the assignments that hold slots.
    :ivar members: the slots that groups have here, by the group's id.
    :ivar unreported: slots whose workers have not reported a status yet.
    """

    generations: dict[orders.Key, int]
    members: dict[str, dict[orders.Key, Member]]
    unreported: set[orders.Key]


class SlotTable:
    """All slots of one host.

    The first argument of a command is ``leader_epoch``, the epoch of the
    leader that sent it; the first argument of an event is the slot's ``key``.
    The last argument of both is ``now``, the wall clock in seconds. Both
    return effects, to be carried out in order. ``generation`` is that of an
    assignment.

    :param release_timeout_s: time limit for releases, after which a worker is
        killed.
    :ivar refusals: number of refused commands, by reason: "epoch",
        "generation", "slot", "busy".
    """

    def __init__(
        self,
        host: HostFacts,
        devices: Iterable[drivers.DeviceInfo],
        *,
        release_timeout_s: float = 10.0,
    ) -> None:
        self._host = host
        self._address = functools.partial(endpoints, host)
        self._release_timeout_s = release_timeout_s
        self._devices = {device.name: device for device in devices}
        # With lists, because JSON has no tuples.
        self._builtins = {
            device.name: device.builtins
            and {
                name: {param: [*values] for param, values in params.items()}
                for name, params in device.builtins.items()
            }
            for device in self._devices.values()
        }
        self._device_faults: dict[str, str] = {}
        self._slots = {
            (device.name, slot.number): slots.Slot(
                (device.name, slot.number),
                slot.shape,
                device.programming_time_s,
                resources=slot.resources,
            )
            for device in self._devices.values()
            for slot in device.slots
        }
        self.leader_epoch = 0
        self.refusals: collections.Counter[str] = collections.Counter()

    def slot_keys(self) -> list[orders.Key]:
        return list(self._slots)

    def holders(self) -> dict[orders.Key, slots.Holder]:
        return {
            key: holder
            for key, slot in self._slots.items()
            if (holder := slot.holder()) is not None
        }

    def slot(self, key: orders.Key) -> slots.Slot:
        return self._slots[key]

    def standing(self) -> Standing:
        found = Standing({}, {}, set())
        for key, slot in self._slots.items():
            holder = slot.holder()
            if holder is None:
                if slot.status is None:
                    found.unreported.add(key)
                continue
            found.generations[key] = holder.generation
            if slot.has_member:
                members = found.members.setdefault(holder.session_id, {})
                members[key] = Member(
                    holder.generation, slot.release_reason is not None
                )
        return found

    # Commands of the conductor.

    def accept_epoch(self, leader_epoch: int) -> bool:
        """Check a message's epoch against the highest one so far.

        :returns: False if the message must be refused: its sender is deposed.
        """
        if leader_epoch < self.leader_epoch:
            self.refusals["epoch"] += 1
            return False
        self.leader_epoch = leader_epoch
        return True

    def _refuse(self, why: str) -> list[orders.Effect]:
        self.refusals[why] += 1
        return [orders.Changed()]

    def assign(
        self, leader_epoch: int, request: objects.AssignRequest, now: float
    ) -> list[orders.Effect]:
        """Give a slot to a session."""
        if not self.accept_epoch(leader_epoch):
            return []
        slot = self._slots.get((request.device, request.slot))
        if slot is None or request.host_uuid != self._host.host_uuid:
            return self._refuse("slot")
        if request.generation < slot.seen_generation:
            return self._refuse("generation")
        if request.generation == slot.seen_generation:
            return [*self._repeat(slot, request.generation), orders.Changed()]
        if slot.holder() is not None:
            if slot.wait_for_holder(request, now + NEXT_S):
                return []
            # The conductor repeats the command until a report shows a free
            # slot.
            return self._refuse("busy")
        return self._begin(slot, request, now)

    def _begin(
        self, slot: slots.Slot, request: objects.AssignRequest, now: float
    ) -> list[orders.Effect]:
        slot.next = None
        slot.seen_generation = request.generation
        slot.set_result_aside()
        objection, code = slot.objection(request), codes.SLOT_FAULTY
        if objection is None:
            objection = self._device_faults.get(request.device)
            code = codes.DEVICE_FAILED
        if objection is None:
            return [orders.Changed(), *slot.accept(request)]
        slot.last_result = slots.result(
            request, states.PREPARE_FAILED, code, objection, now
        )
        return [orders.Changed()]

    def _follow(self, slot: slots.Slot, now: float) -> list[orders.Effect]:
        """Begin the order that waits for the holder, if it has left."""
        if slot.next is None or slot.holder() is not None:
            return []
        if slot.next.generation <= slot.seen_generation:
            # A release of a later order came first.
            slot.next = None
            return []
        began = self._begin(slot, slot.next, now)
        return [orders.Changed(at_once=True), *began]

    def _fail(
        self, slot: slots.Slot, code: str, message: str, now: float
    ) -> list[orders.Effect]:
        failed = slot.fail_pending(code, message, now)
        return [*failed, *self._follow(slot, now)]

    def release(
        self,
        leader_epoch: int,
        key: orders.Key,
        session_id: str,
        generation: int,
        reason: str,
        now: float,
    ) -> list[orders.Effect]:
        """Take a slot away from a session.

        :param reason: code for the session's result.
        """
        if not self.accept_epoch(leader_epoch):
            return []
        slot = self._slots.get(key)
        if slot is None:
            return self._refuse("slot")
        holder = slot.holder()
        if slot.next is not None and slot.next.generation == generation:
            return slot.give_next_back()
        if holder is not None and holder.generation == generation:
            return self._release_holder(slot, reason, now)
        if generation < slot.seen_generation or not agent_api.can_be_of(
            generation, leader_epoch
        ):
            # A generation that no leader can have issued must not make later
            # valid ones look outdated. If it holds the slot, it was released
            # above.
            return self._refuse("generation")
        if generation > slot.seen_generation:
            # The assign command was lost or delayed. Refuse it if it still
            # arrives.
            slot.seen_generation = generation
            if holder is None:
                slot.set_result_aside()
                slot.last_result = objects.SessionResult(
                    session_id=session_id,
                    generation=generation,
                    state=states.CANCELLED,
                    code=reason,
                    finished_at=now,
                )
        return [orders.Changed()]

    def _release_holder(
        self, slot: slots.Slot, reason: str, now: float
    ) -> list[orders.Effect]:
        slot.released = True
        if slot.pending is not None and not slot.pending_sent:
            ended = slot.end_pending(states.CANCELLED, reason, "", now)
            return [*ended, *self._follow(slot, now)]
        slot.release_reason = reason
        if slot.release_deadline_s is not None:
            return [*slot.send_release(), orders.Changed()]
        if not slot.is_at_desk():
            return slot.release(now + self._release_timeout_s)
        if slot.leave_deadline_s is None:
            # The desk lets the member's task end before the member leaves.
            slot.leave_asked_s = now
            slot.leave_deadline_s = now + self._release_timeout_s
        return [orders.Changed()]

    def keep_group(
        self, leader_epoch: int, order: objects.GroupOrder, _now: float = 0.0
    ) -> list[orders.Effect]:
        if not self.accept_epoch(leader_epoch):
            return []
        return [orders.KeepGroup(leader_epoch, order)]

    def reissue_secret(
        self,
        leader_epoch: int,
        key: orders.Key,
        generation: int,
        _now: float = 0.0,
    ) -> list[orders.Effect]:
        """Make a session's worker create a new secret, if no client has
        connected to the slot yet.
        """
        if not self.accept_epoch(leader_epoch):
            return []
        slot = self._slots.get(key)
        if slot is None:
            return self._refuse("slot")
        if not slot.waits_for_client(generation):
            return self._refuse("generation")
        slot.secret = None
        return slot.ask_secret(generation)

    def _repeat(
        self, slot: slots.Slot, generation: int
    ) -> list[orders.Effect]:
        """Report again that a slot is ready, if it waits for its client."""
        if not slot.waits_for_client(generation):
            return []
        if slot.secret is not None:
            return [self._prepared(slot, generation)]
        # An earlier agent process received the secret, which is now lost.
        return slot.ask_secret(generation)

    def report_now(
        self, leader_epoch: int, _now: float = 0.0
    ) -> list[orders.Effect]:
        return [orders.Changed()] if self.accept_epoch(leader_epoch) else []

    # Events of bitstream files.

    def bitstream_ready(
        self, key: orders.Key, generation: int, path: str, _now: float = 0.0
    ) -> list[orders.Effect]:
        """The file of an assignment's bitstream is on this host."""
        slot = self._pending(key, generation)
        if slot is None:
            return []
        slot.bitstream_path = path
        return slot.send_pending()

    def bitstream_failed(
        self,
        key: orders.Key,
        generation: int,
        code: str,
        message: str,
        now: float,
    ) -> list[orders.Effect]:
        """An assignment's bitstream is unavailable or must not be used.

        The worker has not received the assignment, so the slot is unaffected.
        """
        slot = self._pending(key, generation)
        return [] if slot is None else self._fail(slot, code, message, now)

    def bitstreams_in_use(self) -> frozenset[str]:
        """Return the checksums of the files that current assignments need."""
        return frozenset(
            slot.request.bitstream_ref.checksum_sha256
            for slot in self._slots.values()
            if slot.request is not None
            and slot.request.bitstream_ref is not None
            and slot.holder() is not None
        )

    def _pending(self, key: orders.Key, generation: int) -> slots.Slot | None:
        """Return a slot if its worker has not confirmed this assignment."""
        slot = self._slots[key]
        if slot.pending is None or slot.pending.generation != generation:
            return None
        return slot

    # Events of workers.

    def worker_connected(
        self, key: orders.Key, _now: float = 0.0
    ) -> list[orders.Effect]:
        """The agent has connected to a worker; the first status follows."""
        slot = self._slots[key]
        slot.connected = True
        slot.leaving = False
        slot.fault = None
        slot.pending_sent = False
        return []

    def worker_status(
        self, key: orders.Key, status: slots.WorkerStatus, now: float
    ) -> list[orders.Effect]:
        slot = self._slots[key]
        effects = slot.take(status, now)
        if slot.leave_deadline_s is not None and not slot.is_at_desk():
            # The slot has left its desk, or the desk has died.
            effects += slot.release(now + self._release_timeout_s)
        return effects + self._follow(slot, now)

    def member_leaves(
        self, key: orders.Key, generation: int, now: float
    ) -> list[orders.Effect]:
        """A desk reports that a member will leave after its current task."""
        slot = self._slots.get(key)
        if slot is None or slot.leave_deadline_s is None:
            return []
        holder = slot.holder()
        if holder is not None and holder.generation == generation:
            slot.leave_deadline_s = min(
                now + self._release_timeout_s,
                slot.leave_asked_s + MAX_LEAVE_S,
            )
        return []

    def worker_prepared(
        self, key: orders.Key, generation: int, secret: str, _now: float = 0.0
    ) -> list[orders.Effect]:
        """A worker is ready for its holder's client.

        :param secret: one-time secret in hexadecimal; empty if the client has
            one.
        """
        slot = self._slots[key]
        holder, status = slot.holder(), slot.status
        if holder is None or holder.generation != generation:
            return []
        slot.secret = secret
        if status is not None and slot.is_expected(
            generation, self._address(status.data_port)
        ):
            return []
        return [self._prepared(slot, generation)]

    def _prepared(self, slot: slots.Slot, generation: int) -> objects.Prepared:
        """Return the message to the conductor that a slot is ready."""
        holder, status = slot.holder(), slot.status
        assert holder is not None
        return objects.Prepared(
            host_uuid=self._host.host_uuid,
            device=slot.key[0],
            slot=slot.key[1],
            session_id=str(holder.session_id),
            generation=generation,
            secret=slot.secret or "",
            endpoints=self._address(status and status.data_port),
            certificate_sha256=status and status.certificate_sha256,
        )

    def worker_refused(
        self,
        key: orders.Key,
        generation: int,
        code: str,
        message: str,
        now: float,
    ) -> list[orders.Effect]:
        """A worker has refused an assignment.

        :param code: the reason; RECYCLE keeps the assignment for the next
            worker.
        """
        slot = self._pending(key, generation)
        if slot is None:
            return []
        if code != codes.RECYCLE:
            return self._fail(slot, code, message, now)
        slot.pending_sent = False
        slot.leaving = True
        return []

    def worker_disconnected(
        self, key: orders.Key, _now: float = 0.0
    ) -> list[orders.Effect]:
        """The control connection has ended; the worker may still be alive."""
        self._slots[key].connected = False
        return []

    def worker_died(
        self, key: orders.Key, now: float, code: str = codes.WORKER_DIED
    ) -> list[orders.Effect]:
        """A worker's process has ended; its session is lost."""
        slot = self._slots[key]
        slot.die(now, code)
        return [orders.Changed(), *self._follow(slot, now)]

    def worker_unstartable(
        self, key: orders.Key, message: str, now: float
    ) -> list[orders.Effect]:
        """A slot's worker has failed to start several times in a row."""
        slot = self._slots[key]
        known, slot.fault = slot.fault, message
        if slot.pending is not None:
            return self._fail(slot, codes.SLOT_FAULTY, message, now)
        return [] if known == message else [orders.Changed()]

    # Time and devices.

    def tick(self, now: float) -> list[orders.Effect]:
        """Release members that have not left in time, and kill workers that
        have not released their holders in time.
        """
        effects: list[orders.Effect] = []
        for slot in self._slots.values():
            if slot.next is not None and slot.next_until_s <= now:
                effects += slot.give_next_back()
            leave_s = slot.leave_deadline_s
            if leave_s is not None and leave_s <= now:
                effects += slot.release(now + self._release_timeout_s)
            deadline_s = slot.release_deadline_s
            if deadline_s is not None and deadline_s <= now:
                slot.release_deadline_s = now + self._release_timeout_s
                effects.append(
                    orders.EndWorker(
                        slot.key, "did not release its holder in time"
                    )
                )
        return effects

    def device_health(
        self, device: str, fault: str | None
    ) -> list[orders.Effect]:
        """Record a driver's assessment of a device.

        :param fault: the fault, or None for a healthy device.
        """
        if self._device_faults.get(device) == fault:
            return []
        if fault is None:
            del self._device_faults[device]
        else:
            self._device_faults[device] = fault
        return [orders.Changed()]

    def device_reports(
        self, energy_j: slots.Energy | None = None, now: float = 0.0
    ) -> tuple[objects.DeviceReport, ...]:
        """Return the whole table for a report.

        :param energy_j: returns the energy that a slot's holder has drawn;
            None for a report without energy.
        """
        return tuple(
            objects.DeviceReport(
                name=device.name,
                model=device.model,
                dma_bytes_per_s=device.dma_bytes_per_s,
                healthy=device.name not in self._device_faults,
                message=self._device_faults.get(device.name, ""),
                slots=tuple(
                    slot.report(energy_j, now, self._address)
                    if energy_j
                    else slot.line(self._address)
                    for facts in device.slots
                    for slot in (self._slots[device.name, facts.number],)
                ),
                builtins=self._builtins[device.name],
            )
            for device in self._devices.values()
        )


def endpoints(
    host: HostFacts, port: int | None
) -> tuple[objects.Endpoint, ...]:
    """Return where a process on a host listens for clients.

    :param port: number of its TCP data port, as it says, or None.
    """
    local = objects.Endpoint(network="local", address="", port=0)
    if host.data_address is None or not port or port >= 2**16:
        return (local,)
    return local, objects.Endpoint(
        network=host.data_network, address=host.data_address, port=port
    )


#: A command or an event, which is a method of the table.
Change: typing.TypeAlias = Callable[..., list[orders.Effect]]


#: The kernel has ended a worker's process for lack of memory.
worker_ran_out = functools.partial(
    SlotTable.worker_died, code=codes.OUT_OF_MEMORY
)
