# SPDX-License-Identifier: Apache-2.0

"""The state machine of a worker's slot: takes events and returns effects.

The machine has no clock and does no I/O. The service carries out the effects
and reports the outcome as further events. Some of these may be late: an event
whose generation is not that of the current assignment is ignored.

The state of the slot follows ``states.SLOT_MOVES``. The agent and the
conductor see the same states::

           assign              programmed           attached
    idle ─────────▶ preparing ───────────▶ ready ────────────▶ active
     ▲                  │                    │              lost │ ▲
     │                  │                    │                   ▼ │ attached
     │                  │                    │                detached
     │                  ▼                    ▼                   │
     └──── scrubbed ────┴────────────────────┴───────────────────┘

In addition, two things happen to an assignment, in this order:

* It *ends* (``_ending``): the session was closed or failed, a deadline passed,
or the agent released the slot. The first reason counts. Programming cannot be
interrupted, so an end during programming takes effect after it.
* The slot is *cleared* (``_clearing``): the data plane stops and the driver
  scrubs the slot. The state does not change until that is done, because a slot
  that is being scrubbed is not free. If scrubbing fails, the slot is
  ``faulty`` until a self-test ends with a successful scrub.

A worker serves only one project. An assignment for a different one is refused
with ``RECYCLE``: the process ends, and its successor gets the assignment.
"""

from __future__ import annotations

import dataclasses
import typing

from fpgapool.agent.worker import watch as watching
from fpgapool.drivers import base as drivers
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states

_NO_LIMITS = watching.Limits()
#: If the process notices a deadline this late, it was suspended.
_LATE_S = 2.0

#: Time for which a worker that ends with its agent waits for its first agent.
FIRST_AGENT_S = 30.0


@dataclasses.dataclass(frozen=True, slots=True)
class Order:
    """An assignment.

    :ivar connect_timeout_s: time for which a READY slot waits for the client.
    :ivar resume_grace_s: time for which a DETACHED slot waits for the client.
    :ivar local: whether the session's data stays on this host.
    :ivar origin_host_uuid: host of the client, or None if it is not in the
        pool.
    :ivar file: file of the bitstream, or None if the driver has its own.
    :ivar self_test: whether the order only tests the slot, without a client.
    :ivar group_id: group that the slot joins, whose desk then is the client;
        empty for a session.
    :ivar secret_sha256: hash of the client's secret as hexadecimal digits; if
        it is empty, the worker creates a secret.
    :ivar request_id: request of the session, for log lines; may be empty.
    """

    session_id: str
    generation: int
    project_id: str
    accelerator: str
    bitstream: str
    connect_timeout_s: float
    resume_grace_s: float
    local: bool = True
    origin_host_uuid: str | None = None
    limits: watching.Limits = _NO_LIMITS
    file: drivers.BitstreamFile | None = None
    bitstream_id: str | None = None
    self_test: bool = False
    group_id: str = ""
    secret_sha256: str = ""
    request_id: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """The result of a session; times are by the wall clock."""

    session_id: str
    generation: int
    state: str
    code: str
    message: str
    input_bytes: int
    output_bytes: int
    started_at: float | None
    finished_at: float


# Events.


@dataclasses.dataclass(frozen=True, slots=True)
class AgentConnected:
    """An agent has connected to the control socket."""


@dataclasses.dataclass(frozen=True, slots=True)
class AgentLost:
    """The agent's connection has ended, and no newer agent has connected."""


@dataclasses.dataclass(frozen=True, slots=True)
class Assign:
    """The agent gives the slot to a session."""

    order: Order


@dataclasses.dataclass(frozen=True, slots=True)
class Release:
    """The agent takes the slot away from a session."""

    generation: int
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class ReissueSecret:
    """The agent needs a new secret for a client that is not connected."""

    generation: int


@dataclasses.dataclass(frozen=True, slots=True)
class Exit:
    """The process must end."""

    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class Programmed:
    """The slot is programmed with the ordered accelerator.

    In a self-test, it has also computed the expected output.
    """

    generation: int
    accelerator: str


@dataclasses.dataclass(frozen=True, slots=True)
class ProgramFailed:
    """The slot could not be programmed, or has failed its self-test."""

    generation: int
    message: str
    code: str = codes.PROGRAM_FAILED


@dataclasses.dataclass(frozen=True, slots=True)
class Attached:
    """The client has connected."""

    generation: int
    wall_s: float


@dataclasses.dataclass(frozen=True, slots=True)
class Detached:
    """The client's connection has been lost."""

    generation: int


@dataclasses.dataclass(frozen=True, slots=True)
class QuantumDone:
    """The session has completed a quantum."""

    generation: int


@dataclasses.dataclass(frozen=True, slots=True)
class Ended:
    """The session has ended on the data plane."""

    generation: int
    outcome: str
    code: str
    message: str


@dataclasses.dataclass(frozen=True, slots=True)
class Scrubbed:
    """The slot is scrubbed, or scrubbing has failed.

    :ivar fault: why it cannot be scrubbed, or None.
    :ivar spent: why it will be clean only after this process ends, or None.
    """

    generation: int
    input_bytes: int
    output_bytes: int
    wall_s: float
    fault: str | None = None
    spent: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed.

    :ivar is_waiting: whether the slot is a member of a group and has no task,
        so that no client is responsible for its idleness.
    """

    progress: watching.Progress = watching.BEGUN
    is_waiting: bool = False


Event: typing.TypeAlias = (
    AgentConnected
    | AgentLost
    | Assign
    | Release
    | ReissueSecret
    | Exit
    | Programmed
    | ProgramFailed
    | Attached
    | Detached
    | QuantumDone
    | Ended
    | Scrubbed
    | Tick
)


# Effects.


@dataclasses.dataclass(frozen=True, slots=True)
class Refuse:
    """Answer the agent's request with an error."""

    code: str
    message: str


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """Program the slot, then report the outcome."""

    order: Order


@dataclasses.dataclass(frozen=True, slots=True)
class Announce:
    """Notify the agent that the client may connect.

    :ivar anew: whether to create a secret even if the client has one.
    """

    order: Order
    anew: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Join:
    """Join a group: run the tasks of its desk."""

    order: Order


@dataclasses.dataclass(frozen=True, slots=True)
class Clear:
    """End the session's data plane, scrub the slot, then report the outcome.

    :ivar code: code to send to a client that is still connected.
    """

    order: Order
    code: str
    message: str


@dataclasses.dataclass(frozen=True, slots=True)
class Changed:
    """Report the new status to the agent.

    :ivar soon: whether to wait briefly, because another change may follow.
    """

    soon: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Quit:
    """End the process once all earlier effects are carried out."""

    reason: str


Effect: typing.TypeAlias = (
    Refuse | Program | Announce | Join | Clear | Changed | Quit
)

_CHANGED = Changed()
_CHANGED_SOON = Changed(soon=True)


@dataclasses.dataclass(frozen=True, slots=True)
class _Ending:
    outcome: str
    code: str
    message: str


class Machine:
    """The state of one slot.

    :param orphan_s: time after which a worker without agent and session ends.
    :param exit_with_agent: whether to end as soon as the agent disconnects;
        the wait for the first agent is then shorter, too.
    :ivar state: state of the slot, a key of ``states.SLOT_MOVES``.
    :ivar programmed: accelerator in the slot, or None if it is unknown.
    :ivar was_member: whether the worker has served a group, whose clients may
        belong to other projects. The next assignment then requires a new
        process.
    :ivar last_result: the last holder's result, until the next assignment.
    :ivar previous_result: the result before that: an agent may give the slot
        to the next session before the conductor has heard of it.
    :ivar fault: why the slot is faulty, or None.
    """

    def __init__(
        self, now: float, *, orphan_s: float, exit_with_agent: bool = False
    ) -> None:
        self._orphan_s = orphan_s
        self._exit_with_agent = exit_with_agent
        self.state = states.SLOT_IDLE
        first_s = min(orphan_s, FIRST_AGENT_S) if exit_with_agent else orphan_s
        self.deadline_s: float | None = now + first_s
        self._agent = False
        self._announced = False
        self._ending: _Ending | None = None
        self._clearing = False
        self._started_at: float | None = None
        self._watch: watching.Watch | None = None
        self._exiting = False
        self.order: Order | None = None
        self.seen_generation = 0
        self.programmed: str | None = None
        self.bitstream_id: str | None = None
        self.last_project_id: str | None = None
        self.was_member = False
        self.last_result: Result | None = None
        self.previous_result: Result | None = None
        self.fault: str | None = None
        self.beyond_claim = False
        self.quanta = 0

    def handle(self, event: Event, now: float) -> list[Effect]:
        if self._exiting and isinstance(event, (Assign, ReissueSecret)):
            return [Refuse(codes.RECYCLE, "the worker is about to exit")]
        match event:
            case Assign(order):
                return self._assign(order)
            case Release(generation, reason):
                return self._release(generation, reason)
            case ReissueSecret(generation):
                return self._reissue(generation)
            case AgentConnected():
                return self._agent_connected()
            case AgentLost():
                return self._agent_lost(now)
            case Exit(reason):
                return self._exit(reason)
            case Tick():
                return self._tick(event, now)
        return self._progress(event, now)

    def _move(self, what: str) -> bool:
        """Move the slot to its next state; only this method does so.

        :returns: False if the current state does not allow the move.
        """
        after = states.SLOT_MOVES[self.state].get(what)
        if after is None:
            return False
        self.state = after
        return True

    def _impossible(self, what: str) -> list[Effect]:
        """End a session because of an event that is invalid in this state."""
        return self._end(
            states.FAILED,
            codes.INTERNAL_ERROR,
            f"unexpected event in state {self.state}: {what}",
        )

    # Commands.

    def _assign(self, order: Order) -> list[Effect]:
        if order.generation < self.seen_generation:
            return [
                Refuse(
                    codes.STALE_GENERATION,
                    f"generation {order.generation} is outdated; the newest is"
                    f" {self.seen_generation}",
                )
            ]
        if order.generation == self.seen_generation and not self._repairs(
            order
        ):
            return [_CHANGED]
        if self.state == states.SLOT_FAULTY and not order.self_test:
            return [
                Refuse(
                    codes.SLOT_FAULTY,
                    "the slot is faulty until it passes a self-test",
                )
            ]
        if self.order is not None:
            return [
                Refuse(
                    codes.SLOT_BUSY,
                    f"generation {self.order.generation} holds the slot",
                )
            ]
        if self.was_member or (
            self.last_project_id not in (None, order.project_id)
        ):
            return [
                Refuse(
                    codes.RECYCLE, "the next project requires a new worker"
                ),
                *self._exit("recycled for another project"),
            ]
        self.order = order
        # After a damaged file, the agent must see the state PREPARING to
        # distinguish the results of the two attempts.
        repairs = order.generation == self.seen_generation
        changed = _CHANGED if repairs else _CHANGED_SOON
        self.seen_generation = order.generation
        self.last_project_id = order.project_id
        self.previous_result = self.last_result
        self.last_result = None
        self._announced = False
        self._started_at = None
        self._move(states.SELF_TEST if order.self_test else states.ASSIGN)
        self.deadline_s = None
        return [changed, Program(order)]

    def _repairs(self, order: Order) -> bool:
        """Whether this assignment is a retry after a damaged file."""
        result = self.last_result
        return (
            self.order is None
            and order.file is not None
            and result is not None
            and result.generation == order.generation
            and result.code == codes.BITSTREAM_DAMAGED
        )

    def _release(self, generation: int, reason: str) -> list[Effect]:
        if generation > self.seen_generation:
            return [
                Refuse(
                    codes.STALE_GENERATION,
                    f"generation {generation} was never assigned to this slot",
                )
            ]
        if self.order is None or generation != self.order.generation:
            return [_CHANGED]
        return self._end(states.CANCELLED, reason, "the slot was released")

    def _reissue(self, generation: int) -> list[Effect]:
        if (
            self.state != states.SLOT_READY
            or self._clearing
            or self.order is None
            or self.order.generation != generation
            or self.order.group_id
        ):
            return [
                Refuse(
                    codes.SESSION_NOT_READY,
                    f"generation {generation} is not waiting for its client",
                )
            ]
        return self._announce(anew=True)

    def _agent_connected(self) -> list[Effect]:
        self._agent = True
        if self.order is None:
            self.deadline_s = None
        if (
            self.state == states.SLOT_READY
            and not (self._announced or self._clearing)
            and self.order is not None
            and not self.order.group_id
        ):
            return [_CHANGED, *self._announce()]
        return [_CHANGED]

    def _agent_lost(self, now: float) -> list[Effect]:
        self._agent = False
        if self._exit_with_agent:
            return self._exit("its agent has disconnected")
        if self.order is None:
            self.deadline_s = now + self._orphan_s
        return []

    def _exit(self, reason: str) -> list[Effect]:
        if self._exiting:
            return []
        self._exiting = True
        return [_CHANGED, Quit(reason)]

    # Results.

    def _progress(self, event: Event, now: float) -> list[Effect]:
        order = self.order
        if order is None or getattr(event, "generation", 0) != (
            order.generation
        ):
            return []
        if isinstance(event, Scrubbed) and self._clearing:
            return self._scrubbed(event, order, now)
        if self._clearing:
            if isinstance(event, Ended) and event.outcome == states.CLOSED:
                # The client closed the session before the slot was released.
                self._ending = _Ending(
                    event.outcome, event.code, event.message
                )
            return []
        match event:
            case Programmed() | ProgramFailed():
                return self._programmed(event, order, now)
            case Attached(wall_s=wall_s):
                return self._attached(order, wall_s, now)
            case Detached():
                return self._detached(order, now)
            case QuantumDone():
                self.quanta += 1
                return [_CHANGED]
            case Ended(outcome=outcome, code=code, message=message):
                return self._end(outcome, code, message)
        return []

    def _programmed(
        self,
        event: Programmed | ProgramFailed,
        order: Order,
        now: float,
    ) -> list[Effect]:
        if self.state != states.SLOT_PREPARING:
            return self._impossible("the slot was programmed")
        outcome = None
        if isinstance(event, ProgramFailed):
            outcome = states.PREPARE_FAILED, event.code, event.message
            if event.code not in codes.BITSTREAM_FAULTS:
                self.programmed = self.bitstream_id = None
        else:
            self.programmed = event.accelerator
            self.bitstream_id = order.bitstream_id
            if order.self_test:
                outcome = states.CLOSED, codes.OK, "the self-test has passed"
        if self._ending is not None:
            return self._clear(self._ending)
        if outcome is not None:
            return self._clear(_Ending(*outcome))
        self._move(states.PROGRAMMED)
        self.deadline_s = now + order.connect_timeout_s
        if order.group_id:
            return [_CHANGED, Join(order)]
        # Without an agent, the secret would not reach the client.
        announce = self._announce() if self._agent else []
        return [_CHANGED, *announce]

    def _attached(
        self, order: Order, wall_s: float, now: float
    ) -> list[Effect]:
        if not self._move(states.ATTACHED):
            return self._impossible("a client has connected")
        if self._started_at is None:
            self._started_at = wall_s
        if self._watch is None:
            self._watch = watching.Watch(order.limits, now)
        self._watch.resumed(now)
        self.deadline_s = now + watching.INTERVAL_S
        if not order.group_id:
            return [_CHANGED_SOON]
        self.was_member = True
        # A member of a group stays attached, so no change follows soon.
        return [_CHANGED]

    def _detached(self, order: Order, now: float) -> list[Effect]:
        # A connection may be lost before it is attached.
        if not self._move(states.LOST_CLIENT):
            return []
        self.deadline_s = now + order.resume_grace_s
        return [_CHANGED]

    def _scrubbed(
        self, event: Scrubbed, order: Order, now: float
    ) -> list[Effect]:
        assert self._ending is not None
        ending = self._ending
        self.last_result = Result(
            order.session_id,
            order.generation,
            ending.outcome,
            ending.code,
            ending.message,
            event.input_bytes,
            event.output_bytes,
            self._started_at,
            event.wall_s,
        )
        self.fault = event.fault
        self.order = None
        self._watch = None
        self.beyond_claim = False
        self.quanta = 0
        self._ending = None
        self._clearing = False
        self._move(states.SCRUBBED if event.fault is None else states.SOILED)
        self.deadline_s = None if self._agent else now + self._orphan_s
        if event.spent is not None:
            return self._exit(event.spent)
        return [_CHANGED]

    def _tick(self, event: Tick, now: float) -> list[Effect]:
        if self.deadline_s is None or now < self.deadline_s:
            return []
        if now - self.deadline_s >= _LATE_S:
            # The process was suspended: first handle events that have arrived.
            self.deadline_s = now + watching.INTERVAL_S
            if self._watch is not None:
                self._watch.resumed(now)
            return []
        self.deadline_s = None
        if self.state == states.SLOT_ACTIVE:
            return self._look(event, now)
        if self.state == states.SLOT_READY:
            return self._end(
                states.EXPIRED,
                codes.CONNECT_TIMEOUT,
                "the client did not connect in time",
            )
        if self.state == states.SLOT_DETACHED:
            return self._end(
                states.EXPIRED,
                codes.RESUME_TIMEOUT,
                "the client did not reconnect in time",
            )
        return self._exit("it has had neither agent nor session for too long")

    def _look(self, event: Tick, now: float) -> list[Effect]:
        """Check a connected session against its limits."""
        watch = self._watch
        assert watch is not None
        if event.is_waiting:
            watch.resumed(now)
        over = watch.look(event.progress, now)
        if over is not None:
            hangs = over[0] == codes.CORE_FAILED
            return self._end(states.FAILED if hangs else states.EXPIRED, *over)
        self.deadline_s = now + watching.INTERVAL_S
        if watch.beyond_claim() and not self.beyond_claim:
            self.beyond_claim = True
            return [_CHANGED]
        return []

    # Steps.

    def _announce(self, anew: bool = False) -> list[Effect]:
        assert self.order is not None
        self._announced = True
        return [Announce(self.order, anew)]

    def _end(self, outcome: str, code: str, message: str) -> list[Effect]:
        if self._ending is not None:
            return [_CHANGED]
        ending = _Ending(outcome, code, message)
        if self.state == states.SLOT_PREPARING:
            # Programming cannot be interrupted, so the session ends after it.
            self._ending = ending
            return []
        return self._clear(ending)

    def _clear(self, ending: _Ending) -> list[Effect]:
        assert self.order is not None
        self._ending = ending
        self._clearing = True
        self.deadline_s = None
        return [Clear(self.order, ending.code, ending.message)]
