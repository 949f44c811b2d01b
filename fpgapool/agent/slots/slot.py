# SPDX-License-Identifier: Apache-2.0

"""A slot as the agent sees it: its assignment and its worker's status.

Pure. Only the worker sets the slot's state, which follows
``states.SLOT_MOVES``.
"""

from __future__ import annotations

import dataclasses
import operator
import typing
from collections.abc import Callable
from collections.abc import Mapping

from fpgapool import objects
from fpgapool.agent.slots import orders
from fpgapool.protocol import messages
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import names
from fpgapool.vocabulary import shapes
from fpgapool.vocabulary import states

#: Interval at which a holder's energy is read for reports.
ENERGY_S = 1.0

#: Returns the energy in J that a slot's holder has drawn, or None if the board
#: does not measure its power.
Energy: typing.TypeAlias = Callable[[orders.Key], float | None]

#: Returns the endpoints of a worker, given its data port.
Address: typing.TypeAlias = Callable[
    [int | None], tuple[objects.Endpoint, ...]
]


@dataclasses.dataclass(frozen=True, slots=True)
class WorkerStatus:
    """The status that a worker reports; ``state`` is a slot's state.

    :ivar is_member: whether the holder is a group; ``session_id`` is then the
        group's id.
    :ivar previous_result: the result before ``last_result``, which a new agent
        may have to report.
    :ivar blocks: statistics of the blocks that the worker keeps.
    :ivar made_for: digest of the configuration that the worker was started
        with.
    :ivar programming: when it last programmed the slot, and for which
        generation; None if it has not, or an older worker does not report it.
    :ivar is_stale: whether the worker must be replaced before its next
        assignment; the agent sets this.
    """

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
    quanta: int = 0
    bitstream_id: str | None = None
    is_member: bool = False
    was_member: bool = False
    blocks: Mapping[str, int] = dataclasses.field(default_factory=dict)
    last_project_id: str | None = None
    certificate_sha256: str | None = None
    made_for: str = ""
    programming: Mapping[str, typing.Any] | None = None
    is_stale: bool = False
    previous_result: objects.SessionResult | None = None

    @classmethod
    def from_members(
        cls, members: Mapping[str, typing.Any], made_for: str = ""
    ) -> WorkerStatus:
        """Read a status message.

        :param made_for: the digest of a worker that is started now.
        :raises shapes.Invalid: if it is none.
        """
        known = _SHAPE(members, "status")
        holder = known["session_id"], known["generation"]
        if (None in holder) != (known["state"] in _FREE) or (
            holder.count(None) == 1
        ):
            raise shapes.Invalid("status.state", "does not fit the holder")
        for name in ("last_result", "previous_result"):
            if (result := known.get(name)) is not None:
                known[name] = objects.SessionResult(**result)
        known["is_stale"] = bool(known.get("was_member")) or (
            known.get("made_for", "") != made_for
        )
        return cls(**known)

    def ended(self, generation: int) -> str | None:
        """Return the code with which an assignment ended, if it is known."""
        result = self.last_result
        if result is None or result.generation != generation:
            return None
        return result.code


def _members(cls: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(cls))


_STATUS = _members(WorkerStatus)
_FREE = frozenset({states.SLOT_IDLE, states.SLOT_FAULTY})
_OFFERED = frozenset({states.SLOT_IDLE, states.SLOT_READY, states.SLOT_ACTIVE})
# Ends of sessions whose clients may never have connected.
_UNUSED = frozenset({states.CANCELLED, states.EXPIRED, states.PREPARE_FAILED})
_BYTES = ("input_bytes", "output_bytes", "blocks")
_all_but_bytes = operator.attrgetter(
    *(name for name in _STATUS if name not in _BYTES)
)


#: What they have counted.
COUNT = shapes.integer(0, 2**60)
#: The hash of a certificate.
CERTIFICATE = shapes.nullable(shapes.text(64, printable=True))
#: A code, as databases store it.
CODE = shapes.text(64, printable=True)
_NAME = shapes.nullable(shapes.text(255, printable=True))
# By the wall clock; databases take any such time.
_TIME = shapes.number(0, 10**10)
_RESULT = shapes.nullable(
    shapes.Members(
        {
            "session_id": messages.HOLDER,
            "generation": messages.GENERATION,
            "state": shapes.one_of(states.RESULTS),
            "code": CODE,
            "message": shapes.legible(1000),
            "input_bytes": COUNT,
            "output_bytes": COUNT,
            "started_at": shapes.nullable(_TIME),
            "finished_at": _TIME,
        },
        others=True,
    )
)
_SHAPE = shapes.Members(
    {
        "state": shapes.one_of(states.SLOT_MOVES),
        "session_id": shapes.nullable(messages.HOLDER),
        "generation": shapes.nullable(messages.GENERATION),
        "seen_generation": messages.GENERATION,
        "project_id": _NAME,
        "programmed": _NAME,
        "input_bytes": COUNT,
        "output_bytes": COUNT,
        "last_result": _RESULT,
        "data_port": shapes.nullable(COUNT),
    },
    {
        "beyond_claim": shapes.flag,
        "quanta": COUNT,
        "bitstream_id": _NAME,
        "is_member": shapes.flag,
        "was_member": shapes.flag,
        "blocks": shapes.mapping_of(COUNT, most=16),
        "last_project_id": _NAME,
        "certificate_sha256": CERTIFICATE,
        "made_for": shapes.text(64, printable=True),
        "programming": shapes.nullable(
            shapes.Members(
                {
                    "generation": messages.GENERATION,
                    "began_at": _TIME,
                    "ended_at": _TIME,
                },
                others=True,
            )
        ),
        "previous_result": _RESULT,
    },
    others=True,
)


#: The holder of a slot, from its assignment or from its worker's status.
Holder: typing.TypeAlias = objects.AssignRequest | WorkerStatus


@dataclasses.dataclass(slots=True)
class Slot:
    """One slot.

    :ivar fault: why the slot's worker cannot be started.
    :ivar status: the worker's last status, or None.
    :ivar pending: an accepted assignment, until the worker's status confirms
        it.
    :ivar pending_sent: whether ``pending`` was sent to the worker.
    :ivar request: the last assignment.
    :ivar bitstream_path: path of the assignment's bitstream, once fetched.
    :ivar refetched: whether the first file was damaged and is fetched again.
    :ivar released: whether a release of the last assignment was requested.
    :ivar leaving: whether the worker is about to be replaced.
    :ivar used_result: the last result before ``previous_result`` of a session
        whose client had connected.
    :ivar next: an order that begins when the holder has left.
    :ivar next_until_s: when it is given back instead.
    :ivar secret: secret that admits the holder's client once; empty if the
        client has its own; None if it is unknown here.
    :ivar leave_asked_s: when the desk was first ordered to release the slot.
    :ivar leave_deadline_s: when the worker is ordered to release the slot,
        even if the desk has not released it.
    """

    key: orders.Key
    shape: str
    programming_time_s: float = 0.0
    connected: bool = False
    fault: str | None = None
    status: WorkerStatus | None = None
    pending: objects.AssignRequest | None = None
    pending_sent: bool = False
    request: objects.AssignRequest | None = None
    bitstream_path: str | None = None
    refetched: bool = False
    released: bool = False
    next: objects.AssignRequest | None = None
    next_until_s: float = 0.0
    resources: Mapping[str, int] | None = None
    leaving: bool = False
    seen_generation: int = 0
    last_result: objects.SessionResult | None = None
    previous_result: objects.SessionResult | None = None
    used_result: objects.SessionResult | None = None
    secret: str | None = None
    release_reason: str | None = None
    release_deadline_s: float | None = None
    leave_asked_s: float = 0.0
    leave_deadline_s: float | None = None
    # The last report, the values that it shows, and when its energy was read.
    _reported: objects.SlotReport | None = None
    _shown: tuple[object, ...] = ()
    _read_s: float = 0.0

    def holder(self) -> Holder | None:
        """Return the holder of the slot, or None if it is idle."""
        of = self.pending or self.status
        return None if of is None or of.session_id is None else of

    @property
    def state(self) -> str:
        """The slot's state, one of ``states.SLOT_MOVES``."""
        if self.pending is not None:
            return states.SLOT_PREPARING
        return (
            states.SLOT_STARTING if self.status is None else self.status.state
        )

    @property
    def has_member(self) -> bool:
        """Whether the holder is a group."""
        if self.pending is not None:
            return bool(self.pending.group_id)
        return self.status is not None and self.status.is_member

    def standing(self) -> tuple[object, ...]:
        """Return all values that :meth:`SlotTable.standing` uses."""
        holder = self.holder()
        return (
            None if holder is None else (holder.session_id, holder.generation),
            self.has_member,
            self.release_reason is None,
            self.status is None,
        )

    def waits_for_client(self, generation: int) -> bool:
        """Whether the slot waits for an assignment's client to connect."""
        holder = self.holder()
        return (
            holder is not None
            and holder.generation == generation
            and self.state == states.SLOT_READY
            and not self.has_member
        )

    def is_at_desk(self) -> bool:
        """Whether a group's desk decides when the slot leaves."""
        return (
            self.holder() is not None
            and self.has_member
            and self.state == states.SLOT_ACTIVE
        )

    def visible(self) -> tuple[object, ...]:
        """Return the values whose changes are reported immediately; byte
        counts are not among them.
        """
        shown = None if self.status is None else _all_but_bytes(self.status)
        return shown, self.last_result, self.pending

    # Assignments.

    def accept(self, request: objects.AssignRequest) -> list[orders.Effect]:
        self.pending = self.request = request
        self.bitstream_path = None
        self.refetched = self.released = False
        if request.bitstream_ref is None:
            return self.send_pending()
        return [
            orders.Fetch(self.key, request.generation, request.bitstream_ref)
        ]

    def objection(self, request: objects.AssignRequest) -> str | None:
        """Return why the slot cannot be assigned, or None if it can."""
        if self.fault is not None or request.self_test or self.status is None:
            return self.fault
        if self.status.state == states.SLOT_FAULTY:
            return "the slot is faulty: it could not be scrubbed"
        return None

    def wait_for_holder(
        self, request: objects.AssignRequest, until_s: float
    ) -> bool:
        """Keep an order until the holder has left.

        :returns: False if it is not for after this holder.
        """
        holder, known = self.holder(), self.next
        if holder is None or holder.generation != request.after_generation:
            return False
        if known is None or known.generation < request.generation:
            self.next, self.next_until_s = request, until_s
        return True

    def give_next_back(self) -> list[orders.Effect]:
        """Refuse the waiting order, as the slot keeps its holder."""
        assert self.next is not None
        self.seen_generation = max(self.seen_generation, self.next.generation)
        self.next = None
        return [orders.Changed(at_once=True)]

    def set_result_aside(self) -> None:
        """Keep the last result while another assignment follows."""
        previous = self.previous_result
        if previous is not None and previous.started_at is not None:
            self.used_result = previous
        self.previous_result, self.last_result = self.last_result, None

    def forget_holder(self) -> None:
        self.pending = None
        self.pending_sent = False
        self.secret = None
        self._forget_release()

    def _forget_release(self) -> None:
        self.release_reason = None
        self.release_deadline_s = None
        self.leave_deadline_s = None

    def end_pending(
        self, state: str, code: str, message: str, now: float
    ) -> list[orders.Effect]:
        """End an assignment that the worker has not confirmed."""
        assert self.pending is not None
        self.last_result = result(self.pending, state, code, message, now)
        self.forget_holder()
        return [orders.Changed()]

    def fail_pending(
        self, code: str, message: str, now: float
    ) -> list[orders.Effect]:
        """End an assignment for which the slot could not be prepared."""
        return self.end_pending(states.PREPARE_FAILED, code, message, now)

    def send_pending(self) -> list[orders.Effect]:
        """Send the assignment if the worker and the file are ready."""
        request, status = self.pending, self.status
        if (
            request is None
            or self.pending_sent
            or not self.connected
            or self.leaving
            or status is None
            or (
                request.bitstream_ref is not None
                and self.bitstream_path is None
            )
        ):
            return []
        if status.state != states.SLOT_IDLE and not (
            status.state == states.SLOT_FAULTY and request.self_test
        ):
            return []
        self.pending_sent = True
        reference = request.bitstream_ref
        members = dict(vars(request))
        # The worker does not need the client's offer.
        del members["offer"]
        if reference is not None:
            # Use only types that JSON supports.
            members["bitstream_ref"] = {
                **vars(reference),
                "path": self.bitstream_path,
            }
            # A driver recognizes a slot's bitstream by its name, and does not
            # program it again. So derive the name from the signed checksum,
            # and ignore what the conductor sent.
            members["bitstream"] = (
                f"{names.FILE_PREFIX}{reference.checksum_sha256}"
            )
        return [self._order("assign", request.generation, members)]

    def release(self, deadline_s: float) -> list[orders.Effect]:
        """Start releasing the slot; the worker must respond in time."""
        self.leave_deadline_s = None
        self.release_deadline_s = deadline_s
        return [*self.send_release(), orders.Changed()]

    def send_release(self) -> list[orders.Effect]:
        """Make the worker release its holder, if a release is due."""
        holder = self.holder()
        if (
            holder is None
            or not self.connected
            or self.release_reason is None
            or self.leave_deadline_s is not None
        ):
            return []
        reason = {"reason": self.release_reason}
        return [self._order("release", holder.generation, reason)]

    def ask_secret(self, generation: int) -> list[orders.Effect]:
        if not self.connected:
            return []
        return [self._order("reissue_secret", generation, {})]

    def _order(
        self, operation: str, generation: int, members: Mapping[str, object]
    ) -> orders.ToWorker:
        return orders.ToWorker(
            self.key,
            operation,
            generation,
            {**members, "generation": generation},
        )

    # Events of its worker.

    def take(self, status: WorkerStatus, now: float) -> list[orders.Effect]:
        before = self.visible()
        is_first = self.status is None
        self.status = status
        self.seen_generation = max(
            self.seen_generation, status.seen_generation
        )
        if is_first and self.previous_result is None:
            self.previous_result = status.previous_result
        self._confirm_pending(status, now)
        effects = self._fetch_again(status)
        if self.pending is None:
            # With a pending assignment, this is the previous holder's result.
            self._take_result(status.last_result)
        if status.state != states.SLOT_READY:
            self.secret = None
        if self.holder() is None:
            self._forget_release()
        effects += self.send_pending()
        if is_first:
            effects += self.send_release()
        if before != self.visible():
            effects.append(orders.Changed())
        return effects

    def _take_result(self, reported: objects.SessionResult | None) -> None:
        known = self.last_result
        if reported is not None and (
            known is None or reported.generation >= known.generation
        ):
            self.last_result = reported

    def _confirm_pending(self, status: WorkerStatus, now: float) -> None:
        pending = self.pending
        if pending is None:
            return
        # Until the worker receives the assignment again, it still reports the
        # result of the first attempt.
        is_taken = status.seen_generation >= pending.generation and not (
            self.refetched
            and status.ended(pending.generation) == codes.BITSTREAM_DAMAGED
        )
        if is_taken or status.session_id is not None:
            self.pending = None
            self.pending_sent = False
        if not is_taken and status.session_id is not None:
            # A new agent has found the worker running. The slot only seemed
            # to be free, because the worker had not reported yet.
            self.last_result = result(
                pending,
                states.PREPARE_FAILED,
                codes.PREPARE_FAILED,
                "another session or group already holds the slot",
                now,
            )

    def _fetch_again(self, status: WorkerStatus) -> list[orders.Effect]:
        """Fetch a damaged file again, once; the conductor is not notified."""
        request, last = self.request, self.last_result
        if (
            request is None
            or request.bitstream_ref is None
            or self.pending is not None
            or self.refetched
            or self.released
            # A slot that could not be scrubbed cannot retry.
            or status.state != states.SLOT_IDLE
            or status.session_id is not None
            # The conductor knows that the assignment failed, and may already
            # have replaced it.
            or (last is not None and last.generation == request.generation)
            or status.ended(request.generation) != codes.BITSTREAM_DAMAGED
        ):
            return []
        self.pending = request
        self.pending_sent = False
        self.bitstream_path = None
        self.refetched = True
        return [
            orders.Fetch(
                self.key, request.generation, request.bitstream_ref, again=True
            )
        ]

    def die(self, now: float, code: str = codes.WORKER_DIED) -> None:
        """Record the death of the worker and the loss of its session."""
        self.connected = False
        self.leaving = False
        unsent = self.pending is not None and not self.pending_sent
        holder = self.holder()
        if not unsent:
            if holder is not None:
                self.last_result = self._death_of(holder, now, code)
            self.forget_holder()
        self.status = None

    def _death_of(
        self, holder: Holder, now: float, code: str
    ) -> objects.SessionResult:
        """Return the result for the holder of a worker that died.

        If a release was requested, the death completes it. A session whose
        client has not connected has lost nothing, and can get another slot,
        unless it would use up that slot's memory, too.
        """
        state, message = states.FAILED, "the slot's worker process ended"
        if self.release_reason is not None:
            state, code = states.CANCELLED, self.release_reason
        elif code == codes.OUT_OF_MEMORY:
            message = "the slot's worker used more memory than it may"
        elif self.state in (states.SLOT_PREPARING, states.SLOT_READY):
            state = states.PREPARE_FAILED
        died = result(holder, state, code, message, now)
        if self.status is None or self.pending is not None:
            return died
        return dataclasses.replace(
            died,
            input_bytes=self.status.input_bytes,
            output_bytes=self.status.output_bytes,
        )

    # Reports.

    def report(
        self, energy_j: Energy, now: float, address: Address
    ) -> objects.SlotReport:
        """Return the slot's part of a report.

        If nothing has changed, this is the same object as before; its energy
        is up to ``ENERGY_S`` old.
        """
        shown = (
            self.status,
            self.pending,
            self.fault,
            self.last_result,
            self.previous_result,
            self.seen_generation,
            self.connected,
            self.leaving,
        )
        reported = self._reported
        if (
            reported is None
            or shown != self._shown
            or now >= self._read_s + ENERGY_S
        ):
            self._shown, self._read_s = shown, now
            reported = self._reported = self.line(address, energy_j(self.key))
        return reported

    def line(
        self, address: Address, energy_j: float | None = None
    ) -> objects.SlotReport:
        """Return the slot's part of a report, newly created."""
        holder, status = self.holder(), self.status
        running = holder is not None and self.pending is None and status
        faulty = self.fault is not None
        return objects.SlotReport(
            device=self.key[0],
            slot=self.key[1],
            shape=self.shape,
            programmed=None if status is None else status.programmed,
            bitstream_id=None if status is None else status.bitstream_id,
            resources=None if self.resources is None else {**self.resources},
            programming_time_s=self.programming_time_s,
            state=states.SLOT_FAULTY if faulty else self.state,
            session_id=None if holder is None else holder.session_id,
            generation=None if holder is None else holder.generation,
            seen_generation=self.seen_generation,
            input_bytes=running.input_bytes if running else 0,
            output_bytes=running.output_bytes if running else 0,
            last_result=self.last_result,
            energy_j=energy_j,
            previous_result=self._unrecorded_result(),
            offer=None if self.pending else self._offer(address),
            beyond_claim=bool(running and running.beyond_claim),
        )

    def _unrecorded_result(self) -> objects.SessionResult | None:
        """Return the former result that a new leader may not know.

        While a leader cannot write, its clients hear of no slot. It may take
        a slot back that no client has used, and assign it again, several
        times: the result of its last client must not be lost.
        """
        previous = self.previous_result
        if previous is None or (
            previous.started_at is None and previous.state in _UNUSED
        ):
            return self.used_result or previous
        return previous

    def _offer(self, address: Address) -> objects.Offer | None:
        """Return where the next client can connect immediately, or None."""
        status = self.status
        if (
            status is None
            or status.state not in _OFFERED
            or status.is_member
            or status.is_stale
            or self.fault is not None
            or self.leaving
            or not self.connected
        ):
            return None
        return objects.Offer(
            endpoints=address(status.data_port),
            certificate_sha256=status.certificate_sha256,
            project_id=status.last_project_id,
            keeps_order=True,
        )

    def is_expected(
        self, generation: int, endpoints: tuple[objects.Endpoint, ...]
    ) -> bool:
        """Whether the client already knows where and how to connect."""
        offer = self.request and self.request.offer
        return (
            self.request is not None
            and self.status is not None
            and offer is not None
            and self.request.generation == generation
            and not self.secret
            and offer.endpoints == endpoints
            and offer.certificate_sha256 == self.status.certificate_sha256
        )


def result(
    of: Holder,
    state: str,
    code: str,
    message: str,
    now: float,
) -> objects.SessionResult:
    """Return a result for an assignment whose worker has reported none."""
    return objects.SessionResult(
        session_id=of.session_id,
        generation=of.generation,
        state=state,
        code=code,
        message=message,
        finished_at=now,
    )
