# SPDX-License-Identifier: Apache-2.0

"""Sessions and their slots, as the conductor sees them."""

from __future__ import annotations

import bisect
import collections
import contextlib
import dataclasses
import functools
import hashlib
import math
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

from fpgapool import objects
from fpgapool.common.messaging import context
from fpgapool.common.monitoring import tracing
from fpgapool.conductor.decisions import limits
from fpgapool.conductor.decisions import parts
from fpgapool.conductor.decisions.assignments import holds
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.conductor.decisions.requests import admission
from fpgapool.conductor.decisions.requests import member_sets
from fpgapool.core import model
from fpgapool.db import api as db_api
from fpgapool.objects import base
from fpgapool.objects import instance
from fpgapool.vocabulary import carriers
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import fields
from fpgapool.vocabulary import names
from fpgapool.vocabulary import session as description
from fpgapool.vocabulary import states

#: A session ends when this many of its slots have failed for the same reason.
MAX_FAILED_SLOTS = 3

# How often a session comes before due sets because its client asked for
# another slot: nobody else knows whether it had to.
_MOST_RETURNS = 16

# Number of ended sessions to keep in memory, to answer queries.
_REMEMBERED = 10_000


@functools.lru_cache(maxsize=10_000)
def front_doors(host_uuid: str | None) -> frozenset[str]:
    """Return a cached set with one front door, or an empty set."""
    return frozenset((host_uuid,)) if host_uuid else frozenset()


class Place(NamedTuple):
    """A session's slot, with names as in views."""

    slot_host_uuid: str
    slot_host_name: str
    device: str
    slot: int


_KEPT = [field.name for field in description.FIELDS.in_record]
_kept = fields.copier(_KEPT)
_from_request = fields.copier(
    name for name in base.members(objects.OpenRequest) if name in _KEPT
)
_ordered = fields.copier(
    name for name in base.members(objects.AssignRequest) if name in _KEPT
)

# Options that must be equal in a repeated request.
_REPEATED = [
    option.name
    for option in description.FIELDS.options
    if not option.limits_only
]

_IN_USE = frozenset({model.Phase.ACTIVE, model.Phase.DETACHED})


@dataclasses.dataclass(slots=True, kw_only=True)
class SessionHold(holds.Hold):
    """A session's slot.

    :ivar announced_at: when this leader first announced the slot as ready.
    :ivar quantum_bytes: input bytes between two borders, where the session may
        lose its slot; 0: no borders.
    :ivar is_left: whether its client is already waiting for another slot.
    :ivar failure: why the slot could not be prepared, for the session's owner.
    :ivar carrier: what the order to the agent carries.
    """

    session: Session
    announced_at: float = math.inf
    quantum_bytes: int = 0
    quanta: int = 0
    is_left: bool = False
    failure: str = ""
    carrier: carriers.Carrier = dataclasses.field(default_factory=dict)
    booked_bytes: tuple[int, int] = (0, 0)

    @property
    def public_id(self) -> str:
        """The session's id."""
        return self.session.session_id

    @property
    def abandoned(self) -> bool:
        """Whether the session is waiting for another slot or has one."""
        return self.session.hold is not self

    @property
    def wanted(self) -> bool:
        """Whether the session still depends on the slot."""
        return self.session.live and not self.abandoned

    @property
    def is_recorded(self) -> bool:
        """Whether the session may be recorded, and with it the assignment."""
        return not self.session.withdrawn

    @property
    def reported_bytes(self) -> tuple[int, int]:
        """Input and output bytes that the slot's host has reported for it.

        Both are 0 before the client connects and after the slot is lost.
        """
        session = self.session
        if self.phase not in _IN_USE or self.abandoned:
            return 0, 0
        return (
            session.input_bytes - session.former_input_bytes,
            session.output_bytes - session.former_output_bytes,
        )

    def book(self, input_bytes: int, output_bytes: int) -> dict[str, int]:
        """Record that bytes of the slot have been charged.

        :param input_bytes: total for this slot; likewise for the output.
        :returns: the bytes that were not charged yet, by the ledger's names.
        """
        booked = self.booked_bytes
        self.booked_bytes = (
            max(input_bytes, booked[0]),
            max(output_bytes, booked[1]),
        )
        return {
            "input_bytes": self.booked_bytes[0] - booked[0],
            "output_bytes": self.booked_bytes[1] - booked[1],
        }

    def complete(self, result: objects.SessionResult) -> objects.SessionResult:
        """Return a result, completed from earlier reports.

        A host that was lost may no longer know how much its slot processed.
        """
        if result.started_at is not None:
            return result
        input_bytes, output_bytes = self.reported_bytes
        return dataclasses.replace(
            result,
            input_bytes=max(result.input_bytes, input_bytes),
            output_bytes=max(result.output_bytes, output_bytes),
        )

    def about(self) -> contextlib.AbstractContextManager[None]:
        return self.session.about()

    def ordered(self) -> dict[str, Any]:
        return {
            **_ordered(self.session),
            "origin_host_uuid": self.session.host_uuid,
            "carrier": self.carrier or self.session.carrier or None,
        }


@dataclasses.dataclass(slots=True, kw_only=True)
@fields.with_members(
    field.member
    for field in description.FIELDS.in_record
    if field.name != "state"
)
class Session:
    """A session's complete state; only the engine changes it.

    Times are wall-clock times in seconds. Secrets are kept only in memory: a
    new leader requests new ones from agents.

    :ivar hold: its slot; None while it is waiting and after the release.
    :ivar end: its terminal state; empty until it ends.
    :ivar job_id: its id in the core; a new one if it moves while its former
        slot is still being revoked.
    :ivar secret: the secret for its client's first connection; empty if its
        front door created it, or if it is unknown.
    :ivar secret_sha256: hash of the secret that its slot's worker is to
        expect; empty: the worker creates one.
    :ivar carrier: its request's; a new leader does not know it.
    """

    row_id: int
    job_id: int
    arrival_s: float
    host_uuid: str | None = None
    hold: SessionHold | None = dataclasses.field(
        default=None, repr=False, compare=False
    )
    end: str = ""
    place: Place | None = None
    secret: str = dataclasses.field(default="", repr=False)
    secret_sha256: str = ""
    endpoints: tuple[objects.Endpoint, ...] = ()
    certificate_sha256: str | None = None
    front_doors: frozenset[str] = frozenset()
    carrier: carriers.Carrier = dataclasses.field(default_factory=dict)
    #: Whether it has been counted in its project's usage.
    counted: bool = False
    #: Whether its deadline has been counted in the usage as met or missed.
    judged: bool = False
    #: Input that its client has processed itself; it only affects scheduling.
    own_bytes: int = 0
    #: Input bytes processed by lost slots. Later slots may process them again,
    #: so they do not count against the claim.
    lost_bytes: int = 0
    #: By how much its claim counts more than it says, because of similar
    #: sessions that exceeded theirs. A new leader forgets it, but not the
    #: worker, which has the limit of its order.
    correction: float = 1.0
    #: Its first claim, if it has another one now.
    first_claim_bytes: int = 0
    #: How often its client has asked for another slot.
    reopens: int = 0
    #: Number of slots that could not be used since its client was last
    #: connected, by cause.
    failed_slots: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter
    )
    #: Whether the session and its slot must not be recorded.
    withdrawn: bool = False
    #: Its set; None after the set has started.
    set_id: str | None = None
    set_size: int | None = None
    set_placement: str | None = None

    @property
    def state(self) -> str:
        """Its state; while it has a slot, that of the slot."""
        if self.end:
            return self.end
        return self.hold.phase.value if self.hold else states.QUEUED

    @property
    def together(self) -> model.Together | None:
        """The set that has not started yet."""
        if self.set_id is None or self.set_size is None:
            return None
        return model.Together(self.set_id, self.set_size, self.set_placement)

    def join(self, together: model.Together) -> None:
        """Wait for the slots of a set."""
        self.set_id, self.set_size, self.set_placement = together
        self.reason = codes.SET_WAITS
        self.message = member_sets.told(together)

    def leave_set(self) -> None:
        """Be a session of its own."""
        self.set_id = self.set_size = self.set_placement = None

    @property
    def done_bytes(self) -> int:
        """Input bytes processed so far, in slots and by the client."""
        return self.input_bytes + self.own_bytes

    @property
    def has_secret(self) -> bool:
        """Whether its client can know the secret that the slot expects."""
        return bool(self.secret or self.secret_sha256)

    @property
    def live(self) -> bool:
        """Whether the session is waiting for a slot or has one."""
        return not self.end

    def check_move(self, event: str, *to: str) -> None:
        """Check that the session's life cycle allows an event.

        :param to: the next state, if there are several.
        :raises WrongMove: if it does not.
        """
        moves = states.SESSION_MOVES.get(self.state, {})
        if event not in moves or not moves[event] >= set(to):
            raise parts.WrongMove(
                f"session {self.session_id}, {self.state}, slot"
                f" {self.slot_id}, generation {self.generation}, cannot"
                f" {event} {' '.join(to)}"
            )

    def about(self) -> contextlib.AbstractContextManager[None]:
        """Make the log lines of a block show the session's request."""
        return context.serving(self.request_id, self.carrier)

    def span_of_wait(self, now: float) -> tracing.Span:
        """Begin the span of its wait for a slot, which ends now.

        Only the begin of its first wait is known.
        """
        return tracing.begin(
            "conductor queue",
            self.carrier.get(carriers.TRACEPARENT),
            now if self.generation else self.queued_at,
            session_id=self.session_id,
            accelerator=self.accelerator,
        )

    @property
    def request_key(self) -> tuple[str, str]:
        """The client's own identification of the session."""
        return self.project_id, self.request_id

    def job(self, ahead_s: float) -> model.Job:
        """Return the scheduler's view of the session.

        :param ahead_s: how far the scheduler's clock is ahead of pool time.
        """
        return model.Job(
            id=self.job_id,
            host_id=self.host_id,
            accelerator=self.accelerator,
            claimed_bytes=self.counted_bytes,
            arrival_s=self.arrival_s + ahead_s,
            priority=self.priority,
            project=self.project_id,
            skips=self.skips,
            wait_timeout_s=self.wait_timeout_s,
            instance_id=instance.id_of(self.user_id),
            done_bytes=self.done_bytes,
            deadline_s=(
                None
                if self.deadline_s is None
                else self.arrival_s + ahead_s + self.deadline_s
            ),
            deadline_action=self.deadline_action or states.CONTINUE,
            affinity_key=self.application,
            correction=self.correction,
            together=self.together,
            user=self.user_id,
        )

    def same_request(
        self, request: objects.OpenRequest, settings: admission.PoolLimits
    ) -> bool:
        """Return whether a request repeats the one that opened the session."""
        wanted = requested(request, settings)
        # A session that has yielded its slot has a different claim.
        has_own_claim = bool(self.former_input_bytes)
        return (
            self.accelerator in _keys(request)
            and (request.claimed_bytes == self.claimed_bytes or has_own_claim)
            and all(getattr(self, name) == wanted[name] for name in _REPEATED)
            and instance.may_share(request.user_id, self.user_id)
        )

    def take_slot(self, hold: SessionHold) -> None:
        slot = hold.slot
        self.hold = hold
        self.slot_id = slot.id
        self.generation = hold.generation
        self.local = self.host_id == slot.host.id
        self.place = Place(
            slot_host_uuid=slot.host.uuid,
            slot_host_name=slot.host.name,
            device=slot.device.name,
            slot=slot.number,
        )

    def come_from(self, host: registry.HostEntry | None) -> None:
        """Record the host that its data comes from; None: outside the pool."""
        self.host_id = host.id if host else None
        self.host_uuid = host.uuid if host else None
        if self.hold is not None:
            self.local = self.host_id == self.hold.slot.host.id

    def mark_ready(self, now: float) -> None:
        """Record that its slot is ready; clear the reason of the last wait."""
        self.ready_at = self.ready_at or now
        self.leave_set()
        if self.live:
            self.reason = self.message = ""

    def update_bytes(self, input_bytes: int, output_bytes: int) -> int:
        """Record how much its slot has processed, which never decreases.

        :returns: how many bytes of input and output are new.
        """
        before = self.input_bytes + self.output_bytes
        self.input_bytes = max(
            self.input_bytes, self.former_input_bytes + input_bytes
        )
        self.output_bytes = max(
            self.output_bytes, self.former_output_bytes + output_bytes
        )
        return self.input_bytes + self.output_bytes - before

    def give_way(self) -> None:
        """Keep the progress made in the slot that it leaves."""
        if self.hold is not None or self.end:
            # The worker may not have reported the session's last position.
            self.lost_bytes += self.input_bytes - self.former_input_bytes
        self.former_input_bytes = self.input_bytes
        self.former_output_bytes = self.output_bytes

    @property
    def claim_used_bytes(self) -> int:
        """The input that counts against its claim."""
        return self.input_bytes - self.lost_bytes

    @property
    def counted_bytes(self) -> int:
        """Its claim as it counts in the pool."""
        return math.ceil(self.claimed_bytes * self.correction)

    def claim_again(self, claimed_bytes: int) -> None:
        """Replace its claim, which was too small."""
        self.first_claim_bytes = self.first_claim_bytes or self.claimed_bytes
        self.claimed_bytes = claimed_bytes
        self.correction = 1.0

    def count_failed_slot(self, cause: str) -> bool:
        """Count a slot that could not be used.

        :returns: whether to try another slot.
        """
        self.failed_slots[cause] += 1
        return self.failed_slots[cause] < MAX_FAILED_SLOTS

    @property
    def returns(self) -> bool:
        """Whether it waits because it lost a slot, not because of its claim;
        see :mod:`fpgapool.core.rules.returns`.
        """
        return (
            self.generation > 0
            and self.reason not in ("", codes.YIELDED)
            and self.reopens <= _MOST_RETURNS
        )

    def wait_again(self, reason: str = "", message: str = "") -> None:
        """Return to the queue, and clear everything about the slot.

        :param reason: the code for the reason why it lost its slot.
        :raises WrongMove: if the session cannot wait.
        """
        if self.state != states.QUEUED:
            self.check_move("reopen" if self.end else "requeue")
        self.give_way()
        self.hold = None
        self.end = ""
        self.reason, self.message = reason, limits.writable(message)
        if self.together is not None:
            self.join(self.together)
        self.finished_at = None
        self.deadline_met = None
        self.slot_id = None
        self.local = None
        self.place = None
        self.ready_at = None
        self.forget_secret()

    @property
    def is_next(self) -> bool:
        """Whether it has its slot as soon as the slot's holder has left."""
        return self.hold is not None and self.hold.former is not None

    def take_secret(self, secret: str) -> None:
        """Expect a client with this secret at its next slot."""
        self.secret = secret
        self.secret_sha256 = hashlib.sha256(secret.encode()).hexdigest()

    def forget_secret(self) -> None:
        """Clear the secret, which is useless once the slot is used or lost."""
        self.secret = self.secret_sha256 = ""
        self.endpoints = ()
        self.certificate_sha256 = None

    def finish(
        self, state: str, code: str, message: str, now: float, pool_time: float
    ) -> None:
        """Enter a terminal state.

        :param now: wall-clock time, for display only.
        :param pool_time: pool time, which decides whether the deadline is met.
        :raises WrongMove: if the session cannot end in this state.
        """
        self.check_move("end", state)
        self.end = state
        self.reason = code
        self.message = limits.writable(message)
        self.finished_at = now
        self.deadline_met = self._met_deadline(pool_time)
        self.leave_set()
        self.forget_secret()

    def _met_deadline(self, pool_time: float) -> bool | None:
        """Whether it met its deadline; None: neither met nor missed."""
        if self.deadline_s is None:
            return None
        if pool_time > self.arrival_s + self.deadline_s:
            return False
        if self.end == states.CLOSED:
            return True
        # Its client cancelled it, or may continue in another slot.
        if self.end == states.CANCELLED or self.reason in codes.REOPENABLE:
            return None
        return False

    def view(
        self, *, with_secret: bool = False, **others: Any
    ) -> objects.SessionView:
        """Return the view for the session's owner.

        :param with_secret: whether the view is for the session's front door,
            or for its project.
        """
        ready = self.state == states.READY
        # A successor's client connects before the slot's holder has left.
        told = (ready or self.is_next) and with_secret
        return objects.SessionView.of(
            self,
            host_uuid=self.host_uuid,
            **(self.place._asdict() if self.place else {}),
            set_id=self.set_id,
            set_size=self.set_size,
            set_placement=self.set_placement,
            endpoints=self.endpoints if ready or told else (),
            secret=self.secret if told else "",
            secret_sha256=(
                self.secret_sha256 if told and not self.secret else ""
            ),
            certificate_sha256=(
                self.certificate_sha256 if ready or told else None
            ),
            **others,
        )

    def record(self) -> db_api.SessionRecord:
        """Return the session's row."""
        return db_api.SessionRecord(id=self.row_id, **_kept(self))

    @classmethod
    def from_record(
        cls, record: db_api.SessionRecord, host_uuid: str | None
    ) -> Session:
        """Rebuild a session from its row."""
        # An instance uses the API, not the front door of its host.
        door = None if instance.is_user(record.user_id) else host_uuid
        members = _kept(record)
        state = members.pop("state")
        members["end"] = "" if state in states.LIVE else state
        # The lost part of these is not recorded, so all of them count as lost.
        members["lost_bytes"] = record.former_input_bytes
        session = cls(
            row_id=record.id,
            job_id=record.id,
            host_uuid=host_uuid,
            front_doors=front_doors(door),
            **members,
        )
        together = member_sets.read(record.reason, record.message)
        if together is not None and session.live:
            session.join(together)
        return session


def requested(
    request: objects.OpenRequest, settings: admission.PoolLimits
) -> dict[str, Any]:
    """Return a session's members; a request can only lower limits."""
    values = _from_request(request)
    values["secret_sha256"] = request.secret_sha256
    values["carrier"] = carriers.valid(request.carrier)
    for name in ("wait_timeout_s", "connect_timeout_s", "resume_grace_s"):
        limit, value = getattr(settings, name), values[name]
        values[name] = limit if value is None else min(value, limit)
    if values["deadline_action"] is None:
        values["deadline_action"] = settings.deadline_action
    return values


def _keys(request: objects.OpenRequest) -> tuple[str, str]:
    own = names.key_of(request.accelerator, request.project_id)
    return request.accelerator, own


class SessionBook:
    """All sessions in memory, indexed by each of their identifiers.

    Ended sessions are kept for a while, because a client that missed the last
    message repeats its query within seconds.

    :param thresholds_bytes: returns the present thresholds of the priority
        queues.
    :ivar queued_by_host: number of waiting sessions by the id of their own
        host; None: outside the pool.
    :ivar last_row_id: the highest id used by a job or a row.
    """

    def __init__(
        self,
        thresholds_bytes: Callable[[], Sequence[float]] = tuple,
        last_row_id: int = 0,
    ) -> None:
        self._thresholds_bytes = thresholds_bytes
        self.last_row_id = last_row_id
        self._queued_by_size = collections.Counter[int]()
        # By row, because thresholds may change while sessions wait.
        self._queues: dict[int, int] = {}
        self.by_job: dict[int, Session] = {}
        self.by_id: dict[str, Session] = {}
        self.by_request: dict[tuple[str, str], Session] = {}
        self.queued = collections.Counter[str]()
        self.queued_bytes = collections.Counter[str]()
        self.queued_by_host = collections.Counter[int | None]()
        self.queued_by_accelerator = collections.Counter[str]()
        self._ended: dict[int, Session] = {}
        # Live sessions, by user, project and row.
        self._of_user: dict[str, dict[str, dict[int, Session]]] = {}

    def next_id(self) -> int:
        """Return a new id for a job or a session's row."""
        self.last_row_id += 1
        return self.last_row_id

    def add(self, session: Session) -> None:
        self.by_job[session.job_id] = session
        self.by_id[session.session_id] = session
        self.by_request[session.request_key] = session
        self._note_alive(session)

    def of_instance(self, user_id: str) -> list[Session]:
        """Return an instance's live sessions."""
        of_projects = self._of_user.get(user_id, {}).values()
        return [one for own in of_projects for one in own.values()]

    def count_of_user(self, project_id: str, user_id: str) -> int:
        """Return the number of a user's live sessions in a project."""
        return len(self._of_user.get(user_id, {}).get(project_id, ()))

    def _note_alive(self, session: Session) -> None:
        of_projects = self._of_user.setdefault(session.user_id, {})
        own = of_projects.setdefault(session.project_id, {})
        own[session.row_id] = session

    def _note_dead(self, session: Session) -> None:
        of_projects = self._of_user.get(session.user_id, {})
        own = of_projects.get(session.project_id, {})
        if own.pop(session.row_id, None) is not None and not own:
            del of_projects[session.project_id]
            if not of_projects:
                del self._of_user[session.user_id]

    def count_queued(self, session: Session, change: int = 1) -> None:
        """Count a session that begins to wait or, with -1, stops waiting."""
        project_id, size_bytes = session.project_id, session.claimed_bytes
        if change < 0:
            queue = self._queues.pop(session.row_id)
        else:
            queue = bisect.bisect_left(
                self._thresholds_bytes(), session.counted_bytes
            )
            self._queues[session.row_id] = queue
        self.queued[project_id] += change
        self.queued_bytes[project_id] += change * size_bytes
        self._queued_by_size[queue] += change
        self.queued_by_host[session.host_id] += change
        self.queued_by_accelerator[session.accelerator] += change

    @property
    def queued_by_size(self) -> tuple[int, ...]:
        """The number of waiting sessions in each priority queue, smallest
        claims first.
        """
        count = len(self._thresholds_bytes()) + 1
        return tuple(self._queued_by_size[queue] for queue in range(count))

    def rename_job(self, session: Session, job_id: int) -> None:
        """Give a session a new id in the core."""
        del self.by_job[session.job_id]
        session.job_id = job_id
        self.by_job[job_id] = session

    def note_end(self, session: Session) -> None:
        """Keep an ended session for a while; the oldest ones are dropped."""
        self._ended[session.row_id] = session
        self._note_dead(session)
        while len(self._ended) > _REMEMBERED:
            self.forget(self._ended[next(iter(self._ended))])

    def forget(self, session: Session) -> None:
        self._ended.pop(session.row_id, None)
        self._note_dead(session)
        del self.by_job[session.job_id]
        del self.by_id[session.session_id]
        del self.by_request[session.request_key]

    def revive(self, session: Session) -> None:
        """Treat an ended session as live again."""
        del self._ended[session.row_id]
        self._note_alive(session)

    def count_by_state(self, served: Iterable[Session]) -> dict[str, int]:
        """Return how many sessions are in each state.

        Waiting sessions are counted already, as there may be very many.
        """
        counts = collections.Counter(s.state for s in self._ended.values())
        counts.update(session.state for session in served)
        counts[states.QUEUED] += self.queued.total()
        return {state: count for state, count in counts.items() if count}
