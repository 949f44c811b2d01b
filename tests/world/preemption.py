# SPDX-License-Identifier: Apache-2.0

"""What holds of sessions that take slots from others.

As in :mod:`tests.world.invariants`, the product's own classes are watched from
outside.
"""

from __future__ import annotations

import collections
import dataclasses
import random
import typing

from oslo_config import cfg

from fpgapool import objects
from fpgapool.agent.worker import service as worker_service
from fpgapool.agent.worker.data import session as worker_session
from fpgapool.conductor.decisions.assignments import holds
from fpgapool.conductor.decisions.assignments import reports
from fpgapool.conductor.decisions.assignments import serving
from fpgapool.conductor.decisions.requests import lives
from fpgapool.conductor.decisions.requests import sessions
from fpgapool.conductor.runtime import settings as conductor_settings
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core.queues import sharing
from fpgapool.core.rules import admission
from fpgapool.core.rules import preemption
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.chaos import clients
from tests.world import driver
from tests.world import invariants
from tests.world import part
from tests.world import planting
from tests.world import pool as pools
from tests.world import schedule as schedules

#: No session leaves its slot before it has computed as much as the slot does
#: in ten times the time that programming it takes.
_LEAST_BYTES = 10 * driver.Board.programming_s * driver.BYTES_PER_S
#: A client that does so, and hears of no error, has sent all its data.
_SEND_ALL = ("stream", "pieces", "slow")
#: No slot takes longer for what a client claims.
_LEAST_DEADLINE_S = 4.0
#: Priorities of their sessions, and how often.
_PRIORITIES = {-1: 2, 0: 10, 1: 3, 2: 3, 5: 2}
#: The highest priority that counts against other projects.
MAX_PRIORITY = 2
#: Of conductors there, in addition.
_OPTIONS: dict[str, dict[str, object]] = {
    "scheduler": {"preempt": "fine"},
    "quota": {"max_priority": MAX_PRIORITY},
}
#: As short as the time to program a slot allows.
_QUANTUM_BYTES = 1

if typing.TYPE_CHECKING:
    from tests.world import run

check = invariants.check


class Watcher:
    """Watches sessions and the slots that they take from each other.

    :ivar taken: how often each session has lost its slot so, by its id.
    """

    def __init__(self, watcher: invariants.Watcher, seed: int) -> None:
        self._watcher = watcher
        self._by_deadline = pools.strategy_for(seed) != "wra"
        self.taken: collections.Counter[str] = collections.Counter()
        #: The generations of holders that had to leave.
        self._left: set[int] = set()
        #: Each session's job as its core knows it, and as it was before.
        self._jobs: dict[
            tuple[object, str], tuple[model.Job, model.Job | None]
        ] = {}
        #: Those that have lost a slot without a word of its worker, which may
        #: have computed more than their clients have got, and again elsewhere.
        self._moved: set[str] = set()
        #: The most input that was told of an assignment, by its generation.
        self._computed_bytes: dict[int, int] = {}
        #: The input of sessions that were closed, by their ids.
        self._input_bytes: dict[str, int] = {}
        self._visits: list[tuple[schedules.Visit, clients.Outcome]] = []

    def install(self) -> None:
        """Watch from now on, for good."""
        for owner, name, watch in (
            (preemption.Preemption, "decide", self._decided),
            (lives.Lives, "job", self._described),
            (lives.Lives, "end", self._ended),
            (serving.Serving, "resubmit", self._waits_again),
            (serving.Serving, "_requeue", self._requeued),
            (serving.Serving, "_quantum_bytes", self._measured),
            (reports.Reports, "_finished", self._finished),
            (reports.Reports, "_report_border", self._at_border),
            (worker_session.DataSession, "_finish_begun", self._leaves),
        ):
            self._watcher.wrap(owner, name, watch)

    # The choice.

    def _decided(self, _none: None, room: preemption.Preemption) -> None:
        for slot_id, job_id in room.promised.items():
            hold = room._view.slots.assignments[slot_id]
            if hold.generation not in self._left:
                self._left.add(hold.generation)
                self._check_choice(room, hold, job_id)

    def _check_choice(
        self, room: preemption.Preemption, hold: typing.Any, job_id: int
    ) -> None:
        view, holder = room._view, hold.record.job
        record = view.jobs.records[job_id]
        others = [
            slot_id
            for slot_id, other in room.promised.items()
            if other == job_id
            and slot_id != hold.slot_id
            and view.slots.slots[slot_id].host.up
        ]
        check(
            record.group is not None and not others,
            "a slot is taken for a session that needs none",
            hold,
            record.job,
            others,
        )
        check(
            record.group.fits(hold.slot_id, hold.slot.shape)
            and hold.revoked == codes.PREEMPTED
            and view.is_stateless(hold.accelerator),
            "a slot is taken that must not be",
            hold,
            record.job,
        )
        accounts, job = view.accounts, record.job
        if (
            accounts.turns.get(holder.project) is model.Turn.LAST
            and job.project not in accounts.turns
        ):
            # It has used up its budget, and others wait.
            return
        before, after = holder.priority, job.priority
        if job.project != holder.project:
            before = accounts.priority_of(holder)
            after = accounts.priority_of(job)
            check(
                max(before, after) <= MAX_PRIORITY
                and accounts.has_to_wait(holder.project)
                and not accounts.has_to_wait(job.project),
                "a project takes what another one has a right to",
                holder,
                job,
            )
        check(
            after > before
            or (
                after == before
                and self._by_deadline
                and job.deadline_s is not None
            ),
            "a slot is taken without need",
            holder,
            job,
        )

    # Who had to leave.

    def _finished(
        self,
        _none: None,
        _room: reports.Reports,
        hold: holds.Hold,
        result: objects.SessionResult | None,
    ) -> None:
        if result is None or result.code != codes.PREEMPTED:
            return
        # A host that was lost since then does not know what it has computed.
        is_unknown = result.started_at is None
        if is_unknown:
            self._moved.add(result.session_id)
        check(
            result.input_bytes >= _LEAST_BYTES
            or (
                is_unknown
                and isinstance(hold, sessions.SessionHold)
                and hold.quanta
            ),
            "a session leaves its slot before a border",
            result,
        )

    def _leaves(
        self, _frame: bytes, session: worker_session.DataSession
    ) -> None:
        if session.channel is None:
            self._moved.add(session.keyring.order.session_id)

    def _measured(
        self,
        quantum_bytes: int,
        _room: serving.Serving,
        hold: sessions.SessionHold,
    ) -> None:
        # The slot may take longer the next time, and that holds then.
        worth_s = 10 * hold.slot.programming_time_s
        check(
            not quantum_bytes or quantum_bytes >= worth_s * driver.BYTES_PER_S,
            "the borders of a session are too near to each other",
            hold,
        )

    def _at_border(
        self,
        _none: None,
        _room: reports.Reports,
        hold: sessions.SessionHold,
        line: objects.SlotReport,
    ) -> None:
        # A line can tell less than one before it.
        computed_bytes = max(
            line.input_bytes, self._computed_bytes.get(hold.generation, 0)
        )
        self._computed_bytes[hold.generation] = computed_bytes
        check(
            hold.quanta * hold.quantum_bytes <= computed_bytes,
            "a session has more borders than it has computed",
            hold,
            line,
        )

    def _described(
        self,
        job: model.Job,
        room: lives.Lives,
        session: sessions.Session,
    ) -> None:
        key = room._core, session.session_id
        before, _ = self._jobs.get(key, (None, None))
        self._jobs[key] = job, before

    def _waits_again(
        self,
        _none: None,
        room: serving.Serving,
        session: sessions.Session,
        reason: str,
        _message: str = "",
        *,
        yields: bool = False,
    ) -> None:
        if reason != codes.PREEMPTED:
            if not yields:
                self._moved.add(session.session_id)
            return
        self.taken[session.session_id] += 1
        core = room._core
        job, before = self._jobs[core, session.session_id]
        # It waits as soon as the others had their turn.
        event = core._admission.yielding[job.id]
        check(
            before is None
            or (
                event.job.arrival_s == before.arrival_s
                and event.job.claimed_bytes == before.claimed_bytes
            ),
            "a session that had to leave has lost its place",
            before,
            event,
        )
        check(
            event.paid_bytes
            == max(session.counted_bytes - session.input_bytes, 0),
            "a claim is paid for again",
            session,
            event,
        )

    def _requeued(
        self,
        _none: None,
        room: serving.Serving,
        order: instructions.Requeue,
    ) -> None:
        # The jobs of groups have no session.
        session = room._sessions.by_job.get(order.job_id)
        if session is not None:
            # Its client may have been there before a report of it came.
            self._moved.add(session.session_id)

    # Bytes.

    def _ended(
        self,
        _none: None,
        _lives: lives.Lives,
        session: sessions.Session,
        state: str,
        *_args: object,
    ) -> None:
        if state == states.CLOSED:
            self._input_bytes[session.session_id] = session.input_bytes

    def visited(
        self, visit: schedules.Visit, outcome: clients.Outcome
    ) -> None:
        """Note what became of a client's session."""
        self._visits.append((visit, outcome))

    def wrong(self) -> list[str]:
        """Find sessions whose input is not what their clients have sent."""
        return [
            f"{self._input_bytes[outcome.session_id]} bytes in {outcome} of"
            f" {visit}"
            for visit, outcome in self._visits
            if visit.conduct in _SEND_ALL
            and not outcome.code
            and not outcome.restarts
            and outcome.session_id not in self._moved
            and self._input_bytes.get(outcome.session_id, visit.size_bytes)
            != visit.size_bytes
        ]


def _with_short_quanta() -> None:
    """Have quanta that are too short for a real pool."""
    limits = conductor_settings.limits

    def short(conf: cfg.ConfigOpts) -> typing.Any:
        return dataclasses.replace(limits(conf), quantum_bytes=_QUANTUM_BYTES)

    conductor_settings.limits = short


class Preemption(part.Part):
    """Sessions take slots from others."""

    NAME = "preemption"
    HELP = "in which schedules sessions take slots from others"
    # The seeds at which planted bugs are known to show are not among them.
    SEEDS = (7, (0, 5))

    @classmethod
    def draw(cls, schedule: schedules.Schedule) -> schedules.Schedule:
        rng = random.Random(f"preemption {schedule.seed}")
        return dataclasses.replace(
            schedule,
            visits=tuple(
                dataclasses.replace(
                    visit,
                    priority=rng.choices(
                        list(_PRIORITIES), list(_PRIORITIES.values())
                    )[0],
                    deadline_s=(
                        round(rng.uniform(_LEAST_DEADLINE_S, 20.0), 3)
                        if rng.random() < 0.3
                        else None
                    ),
                )
                for visit in schedule.visits
            ),
        )

    @classmethod
    def options(cls, seed: int) -> dict[str, dict[str, object]]:
        strategy = pools.strategy_for(seed)
        return {**_OPTIONS, "conductor": {"strategy": strategy}}

    @classmethod
    def prepare(cls, _kernel: object) -> None:
        _with_short_quanta()

    def __init__(self, world: run.World) -> None:
        self._watcher = Watcher(world.watcher, world.schedule.seed)
        self._watcher.install()

    def session_options(self, visit: schedules.Visit) -> dict[str, typing.Any]:
        return {"priority": visit.priority, "deadline_s": visit.deadline_s}

    def visited(
        self, visit: schedules.Visit, outcome: clients.Outcome
    ) -> None:
        self._watcher.visited(visit, outcome)

    def wrong(self) -> list[str]:
        return self._watcher.wrong()

    def facts(self) -> dict[str, object]:
        return {"taken": self._watcher.taken.total()}


_bug = planting.of_part(Preemption.NAME)


@_bug("has lost its place")
def place_lost_with_the_slot() -> None:
    resubmit = serving.Serving.resubmit

    def forgetful(
        room: serving.Serving,
        session: sessions.Session,
        reason: str,
        *args: str,
        **kwargs: bool,
    ) -> None:
        if reason == codes.PREEMPTED:
            session.arrival_s = room._clock.pool_time
        resubmit(room, session, reason, *args, **kwargs)

    serving.Serving.resubmit = forgetful  # type: ignore[method-assign]


@_bug("a claim is charged twice")
def claim_charged_again_with_the_next_slot() -> None:
    wait = admission.Admission.let_yielding_wait

    def forgetful(queue: admission.Admission) -> None:
        for job_id, event in queue.yielding.items():
            queue.yielding[job_id] = events.JobSubmitted(event.job)
        wait(queue)

    admission.Admission.let_yielding_wait = forgetful  # type: ignore


@_bug("leaves its slot before a border")
def slot_taken_before_its_quantum() -> None:
    note = reports.Reports._report_border

    def hasty(
        room: reports.Reports, hold: sessions.SessionHold, line: typing.Any
    ) -> None:
        hold.quantum_bytes = 1
        note(room, hold, line)

    reports.Reports._report_border = hasty  # type: ignore[method-assign]


@_bug(" bytes in Outcome")
def bytes_of_the_former_slot_forgotten() -> None:
    sessions.Session.give_way = (  # type: ignore[method-assign]
        lambda _session: None
    )


@_bug("takes what another one has a right to")
def slot_taken_from_a_project_within_its_share() -> None:
    is_above = sharing.Accounts.is_above_share
    # Those that want the slot wait.
    sharing.Accounts.is_above_share = (  # type: ignore[method-assign]
        lambda accounts, project: (
            not accounts._accounts[project].waits
            or is_above(accounts, project)
        )
    )


@_bug("lost though stateless")
def unread_output_cleared_for_the_next_project() -> None:
    worker_service.Worker._hand_over = (  # type: ignore[method-assign]
        lambda worker: worker._discard_unread()
    )


@_bug("a slot is taken for a session that needs none")
def slots_taken_twice_for_one_session() -> None:
    preemption.Preemption._spoken_for = (  # type: ignore[method-assign]
        lambda _room: set()
    )


@_bug("borders of a session are too near to each other")
def programming_time_not_worth_it() -> None:
    preemption.quantum_bytes = lambda least_bytes, *_args: least_bytes
