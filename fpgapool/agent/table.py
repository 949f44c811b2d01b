# SPDX-License-Identifier: Apache-2.0

"""The slot table of an agent: what happens to a slot and what follows.

Pure: events come in as method calls with the time as an argument, effects
come out as values. The agent executes them. Whatever the conductor asks is
checked against the highest leader epoch and the slot's newest generation, so
that lost, doubled and reordered messages change nothing.
"""

from __future__ import annotations

import collections
import dataclasses
import operator
import typing
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping

from fpgapool import objects
from fpgapool.drivers import base as drivers
from fpgapool.rpcapi import agent as agent_api
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import names
from fpgapool.vocabulary import states

#: (device name, slot number)
Key: typing.TypeAlias = tuple[str, int]

#: States in which a client can be handed a connection to the worker.
CONNECTABLE = frozenset(
    {states.SLOT_READY, states.SLOT_ACTIVE, states.SLOT_DETACHED}
)

_RESULT_MEMBERS = tuple(
    field.name for field in dataclasses.fields(objects.SessionResult)
)


@dataclasses.dataclass(frozen=True, slots=True)
class WorkerStatus:
    """What a worker says of itself; ``state`` is a slot's state."""

    state: str
    session_id: str | None
    generation: int | None
    seen_generation: int
    project_id: str | None
    programmed: str | None
    input_bytes: int
    output_bytes: int
    last_result: objects.SessionResult | None
    data_port: int | None
    beyond_claim: bool = False
    bitstream_id: str | None = None

    @classmethod
    def from_members(cls, members: Mapping[str, typing.Any]) -> WorkerStatus:
        """Read a status message.

        :param members: of its ``status``.
        :raises: KeyError, TypeError or ValueError if it is none.
        """
        state = members["state"]
        if state not in states.SLOT_STATES:
            raise ValueError(f"unknown state {state!r:.40}")
        result = members["last_result"]
        return cls(
            state=state,
            session_id=members["session_id"],
            generation=members["generation"],
            seen_generation=int(members["seen_generation"]),
            project_id=members["project_id"],
            programmed=members["programmed"],
            input_bytes=int(members["input_bytes"]),
            output_bytes=int(members["output_bytes"]),
            last_result=(
                None
                if result is None
                else objects.SessionResult(
                    **{name: result[name] for name in _RESULT_MEMBERS}
                )
            ),
            data_port=members["data_port"],
            beyond_claim=bool(members.get("beyond_claim", False)),
            bitstream_id=members.get("bitstream_id"),
        )


_all_but_bytes = operator.attrgetter(
    *(
        field.name
        for field in dataclasses.fields(WorkerStatus)
        if field.name not in ("input_bytes", "output_bytes")
    )
)


@dataclasses.dataclass(frozen=True, slots=True)
class ToWorker:
    """Send a request to the slot's worker."""

    key: Key
    operation: str
    generation: int
    members: Mapping[str, object]


@dataclasses.dataclass(frozen=True, slots=True)
class Fetch:
    """Get the file of an assignment's bitstream to this host.

    :ivar again: what is here is damaged.
    """

    key: Key
    generation: int
    bitstream: objects.BitstreamRef
    again: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class EndWorker:
    """End the slot's worker, which does not do what it is told."""

    key: Key
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class SendPrepared:
    """Tell the conductor where the session's client finds the slot."""

    prepared: objects.Prepared


@dataclasses.dataclass(frozen=True, slots=True)
class Changed:
    """The table looks different or was asked for: report it soon."""


Effect: typing.TypeAlias = (
    ToWorker | Fetch | EndWorker | SendPrepared | Changed
)


@dataclasses.dataclass(frozen=True, slots=True)
class HostFacts:
    """What the table has to know of its host.

    :ivar data_address: address on which workers listen for remote clients;
        None when there are only local ones.
    """

    host_uuid: str
    data_network: str
    data_address: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Holder:
    """Who has a slot."""

    session_id: str
    generation: int
    project_id: str | None
    state: str


@dataclasses.dataclass(slots=True)
class _Slot:
    key: Key
    shape: str
    programming_time_s: float = 0.0
    connected: bool = False
    fault: str | None = None
    status: WorkerStatus | None = None
    #: Accepted, but not yet confirmed by a status of the worker.
    pending: objects.AssignRequest | None = None
    pending_sent: bool = False
    #: What the slot was given for last.
    request: objects.AssignRequest | None = None
    #: Where the file of its bitstream is, once it is here.
    bitstream_path: str | None = None
    #: The file was damaged and had to be fetched a second time.
    refetched: bool = False
    #: The slot was taken back from what it was given for last.
    released: bool = False
    resources: Mapping[str, int] | None = None
    #: The worker is about to end, to make room for a fresh one.
    leaving: bool = False
    seen_generation: int = 0
    last_result: objects.SessionResult | None = None
    previous_result: objects.SessionResult | None = None
    prepared: objects.Prepared | None = None
    release_reason: str | None = None
    release_deadline_s: float | None = None

    def holder(self) -> Holder | None:
        if self.pending is not None:
            return Holder(
                self.pending.session_id,
                self.pending.generation,
                self.pending.project_id,
                states.SLOT_PREPARING,
            )
        status = self.status
        if status is None or status.session_id is None:
            return None
        return Holder(
            status.session_id,
            status.generation or 0,
            status.project_id,
            status.state,
        )

    def state(self) -> str:
        if self.fault is not None:
            return states.SLOT_FAULTY
        if self.pending is not None:
            return states.SLOT_PREPARING
        return (
            states.SLOT_STARTING if self.status is None else self.status.state
        )

    def take_result(self, result: objects.SessionResult | None) -> None:
        known = self.last_result
        if result is None:
            return
        if known is None or result.generation >= known.generation:
            self.last_result = result

    def forget_holder(self) -> None:
        self.pending = None
        self.pending_sent = False
        self.prepared = None
        self.release_reason = None
        self.release_deadline_s = None


class SlotTable:
    """All slots of one host.

    :param host: identity and data address.
    :param devices: the boards.
    :param release_timeout_s: how long a worker may take to let go of a
        released holder before it is ended.
    """

    def __init__(
        self,
        host: HostFacts,
        devices: Iterable[drivers.DeviceInfo],
        *,
        release_timeout_s: float = 10.0,
    ) -> None:
        self._host = host
        self._release_timeout_s = release_timeout_s
        self._devices = {device.name: device for device in devices}
        self._device_faults: dict[str, str] = {}
        self._slots = {
            (device.name, slot.number): _Slot(
                (device.name, slot.number),
                slot.shape,
                device.programming_time_s,
                resources=slot.resources,
            )
            for device in self._devices.values()
            for slot in device.slots
        }
        self.leader_epoch = 0
        #: Refused commands by reason: "epoch", "generation", "slot", "busy".
        self.refusals: collections.Counter[str] = collections.Counter()

    def slot_keys(self) -> list[Key]:
        """Return the slots in order."""
        return list(self._slots)

    def holder(self, key: Key) -> Holder | None:
        """Return who has a slot.

        :param key: the slot.
        :returns: its holder, None for an idle or unknown slot.
        """
        slot = self._slots.get(key)
        return None if slot is None else slot.holder()

    def generations(self) -> dict[Key, int]:
        """Return the generations of all slots that are held."""
        return {
            key: holder.generation
            for key, slot in self._slots.items()
            if (holder := slot.holder()) is not None
        }

    def last_result(self, key: Key) -> objects.SessionResult | None:
        """Return what became of a slot's last holder, None if unknown.

        :param key: the slot.
        """
        return self._slots[key].last_result

    def find_session(self, session_id: str) -> tuple[Key, Holder] | None:
        """Find a session on this host.

        :param session_id: its id.
        :returns: its slot and the holder, None if no slot is held by it.
        """
        for key, slot in self._slots.items():
            holder = slot.holder()
            if holder is not None and holder.session_id == session_id:
                return key, holder
        return None

    # Commands of the conductor.

    def accept_epoch(self, leader_epoch: int) -> bool:
        """Check a message's epoch against the highest seen.

        :param leader_epoch: epoch of the leader that sent it.
        :returns: False for a deposed leader, whose message is refused.
        """
        if leader_epoch < self.leader_epoch:
            self.refusals["epoch"] += 1
            return False
        self.leader_epoch = leader_epoch
        return True

    def assign(
        self, leader_epoch: int, request: objects.AssignRequest, now: float
    ) -> list[Effect]:
        """Give a slot to a session.

        :param leader_epoch: epoch of the leader that asks.
        :param request: slot, session and generation.
        :param now: wall clock, seconds.
        :returns: effects.
        """
        if not self.accept_epoch(leader_epoch):
            return []
        slot = self._slots.get((request.device, request.slot))
        if slot is None or request.host_uuid != self._host.host_uuid:
            self.refusals["slot"] += 1
            return [Changed()]
        if request.generation < slot.seen_generation:
            self.refusals["generation"] += 1
            return [Changed()]
        if request.generation == slot.seen_generation:
            return self._repeat(slot, request.generation)
        if slot.holder() is not None:
            # The conductor repeats this until it sees the slot released.
            self.refusals["busy"] += 1
            return [Changed()]
        return self._accept(slot, request, now)

    def release(
        self,
        leader_epoch: int,
        key: Key,
        session_id: str,
        generation: int,
        reason: str,
        now: float,
    ) -> list[Effect]:
        """Take a slot from a session.

        :param leader_epoch: epoch of the leader that asks.
        :param key: the slot.
        :param session_id: the holder.
        :param generation: of the assignment that ends.
        :param reason: code that the session's result will carry.
        :param now: wall clock, seconds.
        :returns: effects.
        """
        if not self.accept_epoch(leader_epoch):
            return []
        slot = self._slots.get(key)
        if slot is None:
            self.refusals["slot"] += 1
            return [Changed()]
        holder = slot.holder()
        if holder is not None and holder.generation == generation:
            return self._release_holder(slot, reason, now)
        if generation < slot.seen_generation or not agent_api.can_be_of(
            generation, leader_epoch
        ):
            # What a leader that never was has assigned was taken back above;
            # no other such generation may keep those of real ones out.
            self.refusals["generation"] += 1
        elif generation > slot.seen_generation:
            # Its assign is lost or still under way: it must not be executed
            # when it comes after all.
            slot.seen_generation = generation
            if holder is None:
                slot.last_result = _result(
                    session_id, generation, states.CANCELLED, reason, now
                )
        return [Changed()]

    def reissue_secret(
        self, leader_epoch: int, key: Key, generation: int
    ) -> list[Effect]:
        """Make the worker of an unconnected session mint a new secret.

        :param leader_epoch: epoch of the leader that asks.
        :param key: the slot.
        :param generation: of the assignment.
        :returns: effects.
        """
        if not self.accept_epoch(leader_epoch):
            return []
        slot = self._slots.get(key)
        holder = None if slot is None else slot.holder()
        if (
            slot is None
            or holder is None
            or holder.generation != generation
            or holder.state != states.SLOT_READY
        ):
            self.refusals["slot" if slot is None else "generation"] += 1
            return [Changed()]
        slot.prepared = None
        return self._ask_secret(slot, generation)

    def _accept(
        self, slot: _Slot, request: objects.AssignRequest, now: float
    ) -> list[Effect]:
        slot.seen_generation = request.generation
        slot.previous_result = slot.last_result
        slot.last_result = None
        fault, code = self._fault(slot, request)
        if fault is not None:
            slot.last_result = _result(
                request.session_id,
                request.generation,
                states.PREPARE_FAILED,
                code,
                now,
                message=fault,
            )
            return [Changed()]
        slot.pending = slot.request = request
        slot.bitstream_path = None
        slot.refetched = slot.released = False
        if request.bitstream_ref is None:
            return [Changed(), *self._send_pending(slot)]
        return [
            Changed(),
            Fetch(slot.key, request.generation, request.bitstream_ref),
        ]

    def _fault(
        self, slot: _Slot, request: objects.AssignRequest
    ) -> tuple[str | None, str]:
        if slot.fault is not None:
            return slot.fault, codes.SLOT_FAULTY
        if (
            not request.self_test
            and slot.status is not None
            and slot.status.state == states.SLOT_FAULTY
        ):
            return "the slot cannot be cleaned", codes.SLOT_FAULTY
        return self._device_faults.get(slot.key[0]), codes.DEVICE_FAILED

    def _repeat(self, slot: _Slot, generation: int) -> list[Effect]:
        holder = slot.holder()
        if (
            holder is None
            or holder.generation != generation
            or holder.state != states.SLOT_READY
        ):
            return [Changed()]
        if slot.prepared is not None:
            return [SendPrepared(slot.prepared), Changed()]
        # An earlier agent got the secret and took it to the grave.
        return [*self._ask_secret(slot, generation), Changed()]

    @staticmethod
    def _ask_secret(slot: _Slot, generation: int) -> list[Effect]:
        if not slot.connected:
            return []
        return [
            ToWorker(
                slot.key,
                "reissue_secret",
                generation,
                {"generation": generation},
            )
        ]

    @staticmethod
    def _send_pending(slot: _Slot) -> list[Effect]:
        request = slot.pending
        if (
            request is not None
            and request.bitstream_ref is not None
            and slot.bitstream_path is None
        ):
            return []
        ready = (
            slot.connected
            and not slot.leaving
            and slot.status is not None
            and (
                slot.status.state == states.SLOT_IDLE
                or (
                    slot.status.state == states.SLOT_FAULTY
                    and request is not None
                    and request.self_test
                )
            )
        )
        if request is None or slot.pending_sent or not ready:
            return []
        slot.pending_sent = True
        members = dataclasses.asdict(request)
        members["bitstream_path"] = slot.bitstream_path
        if request.bitstream_ref is not None:
            # A driver need not program what a slot has already, by its name:
            # so it is that of what was signed, whatever the conductor says.
            checksum = request.bitstream_ref.checksum_sha256
            members["bitstream"] = f"{names.FILE_PREFIX}{checksum}"
        return [ToWorker(slot.key, "assign", request.generation, members)]

    def _release_holder(
        self, slot: _Slot, reason: str, now: float
    ) -> list[Effect]:
        slot.released = True
        if slot.pending is not None and not slot.pending_sent:
            slot.last_result = _result(
                slot.pending.session_id,
                slot.pending.generation,
                states.CANCELLED,
                reason,
                now,
            )
            slot.forget_holder()
            return [Changed()]
        slot.release_reason = reason
        if slot.release_deadline_s is None:
            slot.release_deadline_s = now + self._release_timeout_s
        return [*self._send_release(slot), Changed()]

    @staticmethod
    def _send_release(slot: _Slot) -> list[Effect]:
        holder = slot.holder()
        if not slot.connected or holder is None or slot.release_reason is None:
            return []
        return [
            ToWorker(
                slot.key,
                "release",
                holder.generation,
                {
                    "generation": holder.generation,
                    "reason": slot.release_reason,
                },
            )
        ]

    # What becomes of files.

    def bitstream_ready(
        self, key: Key, generation: int, path: str
    ) -> list[Effect]:
        """The file of an assignment's bitstream is on this host.

        :param key: the slot.
        :param generation: of the assignment.
        :param path: of the file.
        :returns: effects.
        """
        slot = self._slots[key]
        pending = slot.pending
        if pending is None or pending.generation != generation:
            return []
        slot.bitstream_path = path
        return self._send_pending(slot)

    def bitstream_failed(
        self,
        key: Key,
        generation: int,
        message: str,
        now: float,
        code: str = codes.BITSTREAM_UNAVAILABLE,
    ) -> list[Effect]:
        """An assignment's bitstream cannot be had, or must not be used.

        The worker has not been given the assignment.

        :param key: the slot, which is none the worse for it.
        :param generation: of the assignment.
        :param message: why, for people.
        :param now: wall clock, seconds.
        :param code: why, for programs.
        :returns: effects.
        """
        slot = self._slots[key]
        pending = slot.pending
        if pending is None or pending.generation != generation:
            return []
        slot.last_result = _result(
            pending.session_id,
            generation,
            states.PREPARE_FAILED,
            code,
            now,
            message=message,
        )
        slot.forget_holder()
        return [Changed()]

    def bitstreams_in_use(self) -> frozenset[str]:
        """Return the checksums of the files that slots were given for."""
        return frozenset(
            slot.request.bitstream_ref.checksum_sha256
            for slot in self._slots.values()
            if slot.request is not None
            and slot.request.bitstream_ref is not None
            and slot.holder() is not None
        )

    # What workers do.

    def worker_connected(self, key: Key) -> list[Effect]:
        """A control connection stands; the first status follows.

        :param key: the slot.
        :returns: effects.
        """
        slot = self._slots[key]
        slot.connected = True
        slot.leaving = False
        slot.fault = None
        slot.pending_sent = False
        return []

    def worker_status(
        self, key: Key, status: WorkerStatus, now: float
    ) -> list[Effect]:
        """Take what a worker says of itself.

        :param key: the slot.
        :param status: its newest status.
        :param now: wall clock, seconds.
        :returns: effects.
        """
        slot = self._slots[key]
        before = _visible(slot)
        fresh = slot.status is None
        slot.status = status
        slot.seen_generation = max(
            slot.seen_generation, status.seen_generation
        )
        self._confirm_pending(slot, status, now)
        effects = self._fetch_again(slot, status)
        if slot.pending is None:
            # Else it is the result of the holder before.
            slot.take_result(status.last_result)
        if status.state != states.SLOT_READY:
            slot.prepared = None
        holder = slot.holder()
        if holder is None:
            slot.release_reason = None
            slot.release_deadline_s = None
        effects += self._send_pending(slot)
        if fresh:
            effects += self._send_release(slot)
        if before != _visible(slot):
            effects.append(Changed())
        return effects

    @staticmethod
    def _confirm_pending(
        slot: _Slot, status: WorkerStatus, now: float
    ) -> None:
        pending = slot.pending
        if pending is None:
            return
        if _is_taken(slot, pending, status):
            slot.pending = None
            slot.pending_sent = False
        elif status.session_id is not None:
            # The slot only seemed to be free while its worker, found running
            # by a new agent, had not spoken yet.
            slot.pending = None
            slot.pending_sent = False
            slot.last_result = _result(
                pending.session_id,
                pending.generation,
                states.PREPARE_FAILED,
                codes.PREPARE_FAILED,
                now,
                message="the slot has another holder",
            )

    @staticmethod
    def _fetch_again(slot: _Slot, status: WorkerStatus) -> list[Effect]:
        """Replace a damaged file, once, without bothering the conductor."""
        request, result = slot.request, status.last_result
        told = slot.last_result
        if (
            request is None
            or request.bitstream_ref is None
            or slot.pending is not None
            or slot.refetched
            or slot.released
            # A slot that could not be cleaned cannot try again.
            or status.state != states.SLOT_IDLE
            or status.session_id is not None
            # The conductor knows how it ended, and may have gone on.
            or (told is not None and told.generation == request.generation)
            or result is None
            or result.generation != request.generation
            or result.code != codes.BITSTREAM_DAMAGED
        ):
            return []
        slot.pending = request
        slot.pending_sent = False
        slot.bitstream_path = None
        slot.refetched = True
        return [
            Fetch(
                slot.key, request.generation, request.bitstream_ref, again=True
            )
        ]

    def worker_prepared(
        self,
        key: Key,
        generation: int,
        secret: str,
        certificate_sha256: str | None,
    ) -> list[Effect]:
        """A worker is ready for its holder's client.

        :param key: the slot.
        :param generation: of the assignment.
        :param secret: one-time secret, hexadecimal.
        :param certificate_sha256: what the client pins; None without TLS.
        :returns: effects.
        """
        slot = self._slots[key]
        holder = slot.holder()
        if holder is None or holder.generation != generation:
            return []
        slot.prepared = objects.Prepared(
            host_uuid=self._host.host_uuid,
            device=key[0],
            slot=key[1],
            session_id=holder.session_id,
            generation=generation,
            secret=secret,
            endpoints=self._endpoints(slot),
            certificate_sha256=certificate_sha256,
        )
        return [SendPrepared(slot.prepared)]

    def _endpoints(self, slot: _Slot) -> tuple[objects.Endpoint, ...]:
        endpoints = [objects.Endpoint(network="local", address="", port=0)]
        port = None if slot.status is None else slot.status.data_port
        if self._host.data_address is not None and port:
            endpoints.append(
                objects.Endpoint(
                    network=self._host.data_network,
                    address=self._host.data_address,
                    port=port,
                )
            )
        return tuple(endpoints)

    def worker_refused(
        self, key: Key, generation: int, code: str, message: str, now: float
    ) -> list[Effect]:
        """A worker did not take an assignment.

        :param key: the slot.
        :param generation: of the assignment.
        :param code: why; codes.RECYCLE keeps the assignment for the worker's
            successor.
        :param message: the same for people.
        :param now: wall clock, seconds.
        :returns: effects.
        """
        slot = self._slots[key]
        pending = slot.pending
        if pending is None or pending.generation != generation:
            return []
        if code == codes.RECYCLE:
            slot.pending_sent = False
            slot.leaving = True
            return []
        slot.last_result = _result(
            pending.session_id,
            generation,
            states.PREPARE_FAILED,
            code,
            now,
            message=message,
        )
        slot.forget_holder()
        return [Changed()]

    def worker_disconnected(self, key: Key) -> list[Effect]:
        """The control connection ended; the worker may still be alive.

        :param key: the slot.
        :returns: effects.
        """
        self._slots[key].connected = False
        return []

    def worker_died(self, key: Key, now: float) -> list[Effect]:
        """A worker's process ended; what it held is lost.

        :param key: the slot.
        :param now: wall clock, seconds.
        :returns: effects.
        """
        slot = self._slots[key]
        slot.connected = False
        slot.leaving = False
        unsent = slot.pending if not slot.pending_sent else None
        holder = slot.holder()
        if holder is not None and unsent is None:
            slot.last_result = _death_result(slot, holder, now)
        slot.status = None
        if unsent is None:
            slot.forget_holder()
        return [Changed()]

    def worker_unstartable(
        self, key: Key, message: str, now: float
    ) -> list[Effect]:
        """No worker could be started for a slot, several times in a row.

        :param key: the slot.
        :param message: what went wrong last.
        :param now: wall clock, seconds.
        :returns: effects.
        """
        slot = self._slots[key]
        known, slot.fault = slot.fault, message
        pending = slot.pending
        if pending is not None:
            slot.last_result = _result(
                pending.session_id,
                pending.generation,
                states.PREPARE_FAILED,
                codes.SLOT_FAULTY,
                now,
                message=message,
            )
            slot.forget_holder()
        changed = pending is not None or known != message
        return [Changed()] if changed else []

    # Time and devices.

    def tick(self, now: float) -> list[Effect]:
        """Look for workers that do not let go of a released holder.

        :param now: wall clock, seconds.
        :returns: effects.
        """
        effects: list[Effect] = []
        for slot in self._slots.values():
            deadline_s = slot.release_deadline_s
            if deadline_s is not None and deadline_s <= now:
                slot.release_deadline_s = now + self._release_timeout_s
                effects.append(EndWorker(slot.key, "does not release"))
        return effects

    def device_health(self, device: str, fault: str | None) -> list[Effect]:
        """Take a driver's opinion of a device.

        :param device: its name.
        :param fault: what is wrong, None for a healthy device.
        :returns: effects.
        """
        if self._device_faults.get(device) == fault:
            return []
        if fault is None:
            del self._device_faults[device]
        else:
            self._device_faults[device] = fault
        return [Changed()]

    def device_reports(
        self, energy_j: Callable[[Key], float | None] = lambda _key: None
    ) -> tuple[objects.DeviceReport, ...]:
        """Return the whole table for a report.

        :param energy_j: tells what the holder of a slot has drawn.
        """
        return tuple(
            objects.DeviceReport(
                name=device.name,
                model=device.model,
                dma_bytes_per_s=device.dma_bytes_per_s,
                healthy=device.name not in self._device_faults,
                message=self._device_faults.get(device.name, ""),
                slots=tuple(
                    _slot_report(
                        self._slots[device.name, facts.number], energy_j
                    )
                    for facts in device.slots
                ),
            )
            for device in self._devices.values()
        )


def _is_taken(
    slot: _Slot, pending: objects.AssignRequest, status: WorkerStatus
) -> bool:
    """Whether a worker has taken an assignment that was sent to it."""
    if status.seen_generation < pending.generation:
        return False
    result = status.last_result
    # Before it is given the assignment again it still shows how the first
    # try ended.
    return not (
        slot.refetched
        and result is not None
        and result.generation == pending.generation
        and result.code == codes.BITSTREAM_DAMAGED
    )


def _visible(slot: _Slot) -> tuple[object, ...]:
    """What is worth a report of its own; bytes can wait for the next."""
    shown = None if slot.status is None else _all_but_bytes(slot.status)
    return shown, slot.last_result, slot.pending


def _result(
    session_id: str,
    generation: int,
    state: str,
    code: str,
    now: float,
    *,
    message: str = "",
    input_bytes: int = 0,
    output_bytes: int = 0,
) -> objects.SessionResult:
    return objects.SessionResult(
        session_id=session_id,
        generation=generation,
        state=state,
        code=code,
        message=message,
        input_bytes=input_bytes,
        output_bytes=output_bytes,
        started_at=None,
        finished_at=now,
    )


def _death_result(
    slot: _Slot, holder: Holder, now: float
) -> objects.SessionResult:
    """What became of the holder of a worker that died.

    A release that was asked for is thereby done. A session whose client has
    not come yet has lost nothing and can go to another slot.
    """
    if slot.release_reason is not None:
        state, code = states.CANCELLED, slot.release_reason
    elif holder.state in (states.SLOT_PREPARING, states.SLOT_READY):
        state, code = states.PREPARE_FAILED, codes.WORKER_DIED
    else:
        state, code = states.FAILED, codes.WORKER_DIED
    confirmed = slot.status if slot.pending is None else None
    return _result(
        holder.session_id,
        holder.generation,
        state,
        code,
        now,
        message="the slot's worker process ended",
        input_bytes=confirmed.input_bytes if confirmed else 0,
        output_bytes=confirmed.output_bytes if confirmed else 0,
    )


def _slot_report(
    slot: _Slot, energy_j: Callable[[Key], float | None]
) -> objects.SlotReport:
    holder = slot.holder()
    status = slot.status
    running = holder is not None and slot.pending is None
    return objects.SlotReport(
        device=slot.key[0],
        slot=slot.key[1],
        shape=slot.shape,
        programmed=None if status is None else status.programmed,
        bitstream_id=None if status is None else status.bitstream_id,
        resources=None if slot.resources is None else dict(slot.resources),
        programming_time_s=slot.programming_time_s,
        state=slot.state(),
        session_id=None if holder is None else holder.session_id,
        generation=None if holder is None else holder.generation,
        seen_generation=slot.seen_generation,
        input_bytes=status.input_bytes if running and status else 0,
        output_bytes=status.output_bytes if running and status else 0,
        last_result=slot.last_result,
        energy_j=energy_j(slot.key),
        previous_result=slot.previous_result,
    )
