# SPDX-License-Identifier: Apache-2.0

"""Slots that change hands at borders: by the rules, and never to and fro."""

import dataclasses
import math

import hypothesis
import hypothesis.stateful as stateful
import hypothesis.strategies as st

from fpgapool import strategies
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core.queues import sharing
from fpgapool.core.topology import slots
from fpgapool.strategies import shared
from fpgapool.vocabulary import codes
from tests.unit.core import pools

GAIN = 0.25
QUANTUM_BYTES = 2e8
LIMITS = {"a": None, "b": 1, "c": 0}


class Preemption(stateful.RuleBasedStateMachine):
    """A pool whose holders come to borders, leave and come back."""

    @stateful.initialize(
        strategy=st.sampled_from(["fifo", "sjf", "edf", "hjf"]),
        fair=st.booleans(),
        slot_count=st.integers(1, 3),
    )
    def start(self, strategy: str, fair: bool, slot_count: int) -> None:
        inner = getattr(strategies, strategy)({"slot_choice": "index"}, 0)
        self.by_deadline = strategy in ("edf", "hjf")
        options = sharing.Options(fair, 150e6)
        self.pool = pools.make_pool_of(
            shared.SharedStrategy(inner, options, None, GAIN),
            pools.make_host(1, slot_count=slot_count),
        )
        aes = dataclasses.replace(pools.AES, stateless=True)
        self.run(
            events.AcceleratorsChanged((aes,)),
            events.SessionLimitsChanged(9, (), 0, tuple(LIMITS.items())),
        )

    def __init__(self) -> None:
        super().__init__()
        self.jobs: dict[int, model.Job] = {}
        self.now = 0.0
        # Bytes since the holder got the slot.
        self.run_bytes: dict[int, float] = {}
        self.promised: dict[int, int] = {}

    def run(self, *batch: events.Event) -> None:
        """Do a step, and check what it takes and gives."""
        at_border = {
            each.slot_id for each in batch if type(each) is events.QuantumDone
        }
        output = self.pool.step(*batch, now=self.now)
        for order in output:
            match order:
                case instructions.Program(slot_id, job_id):
                    self.run_bytes[slot_id] = 0.0
                    self.check_promise(slot_id, job_id)
                case instructions.Yield(slot_id, job_id, _, reason):
                    assert reason == codes.PREEMPTED
                    assert slot_id in at_border
                    at_border.remove(slot_id)
                    self.check_yield(slot_id, job_id)
        for slot_id in at_border:
            self.check_stay(slot_id)

    def holds(self, *, leaving: bool = False) -> list[slots.Hold]:
        found = map(self.pool.state.hold, self.pool.state.assignments())
        return [one for one in found if bool(one.revoked) is leaving]

    # -- the rules ---------------------------------------------------------

    def stress(self, job: model.Job, done_bytes: float) -> float:
        if job.deadline_s is None:
            return 0.0
        if self.now >= job.deadline_s:
            return -math.inf
        left_s = (job.claimed_bytes - done_bytes) / 1e9
        return left_s / (job.deadline_s - self.now)

    def is_lost(self, job: model.Job, done_bytes: float) -> bool:
        left_s = (job.claimed_bytes - done_bytes) / 1e9
        limit_s = math.inf if job.deadline_s is None else job.deadline_s
        return self.now + left_s > limit_s + 1e-6

    def deadline_wins(self, one: model.Job, holder: model.Job) -> bool:
        records = self.pool.state.view.jobs.records
        done = {job.id: records[job.id].done_bytes for job in (one, holder)}
        mine = self.stress(one, done[one.id])
        theirs = self.stress(holder, done[holder.id])
        return (
            self.by_deadline
            and mine > 0
            and not self.is_lost(one, done[one.id])
            and (
                self.is_lost(holder, done[holder.id])
                or mine >= (1 + GAIN) * theirs
            )
        )

    def may_take(self, one: model.Job, holder: model.Job) -> bool:
        ours, theirs = one.priority, holder.priority
        if one.project != holder.project:
            accounts = self.pool.state.view.accounts
            if not accounts.options.fair or (
                accounts.has_to_wait(one.project)
                or not accounts.has_to_wait(holder.project)
            ):
                return False
            ours, theirs = (
                each.priority
                if LIMITS[each.project] is None
                else min(each.priority, LIMITS[each.project])
                for each in (one, holder)
            )
        if ours != theirs:
            return ours > theirs
        return self.deadline_wins(one, holder)

    def check_yield(self, slot_id: int, job_id: int) -> None:
        view = self.pool.state.view
        assert self.run_bytes[slot_id] >= QUANTUM_BYTES
        [hold] = [
            one for one in self.holds(leaving=True) if one.slot_id == slot_id
        ]
        assert hold.record.job.id == job_id
        challenger = self.pool.state._preemption.promised[slot_id]
        assert challenger not in self.promised.values()
        assert view.jobs.records[challenger].group is not None
        assert self.may_take(self.jobs[challenger], self.jobs[job_id])
        self.promised[slot_id] = challenger

    def check_stay(self, slot_id: int) -> None:
        """None of its project has a higher priority, and waits for a slot."""
        holder = self.pool.state.hold(slot_id).record.job
        assert not any(
            job.project == holder.project and job.priority > holder.priority
            for job in self.pool.state.waiting()
            if job.id not in self.promised.values()
        )

    def check_promise(self, slot_id: int, job_id: int) -> None:
        """Who was to have the slot has it, if it still waited."""
        wanted = self.promised.pop(slot_id, job_id)
        record = self.pool.state.view.jobs.records.get(wanted)
        assert wanted == job_id or record is None or record.group is None

    # -- what happens ------------------------------------------------------

    @stateful.rule(
        project=st.sampled_from("abc"),
        priority=st.integers(-1, 3),
        size=st.integers(1, 30),
        slack=st.none() | st.floats(0.9, 20.0),
    )
    def submit(
        self, project: str, priority: int, size: int, slack: float | None
    ) -> None:
        number = len(self.jobs) + 1
        self.jobs[number] = job = pools.make_job(
            number,
            project=project,
            priority=priority,
            claimed_bytes=size * 1e8,
            arrival_s=self.now,
            deadline_s=None if slack is None else self.now + slack * size / 10,
        )
        self.run(events.JobSubmitted(job))

    @stateful.precondition(lambda self: self.holds())
    @stateful.rule(data=st.data())
    def compute(self, data: st.DataObject) -> None:
        """A holder computes a quantum, or all that is left."""
        hold = data.draw(st.sampled_from(self.holds()))
        slot_id, generation = hold.slot_id, hold.generation
        if hold.phase is model.Phase.PREPARING:
            self.run(
                events.SlotReady(slot_id, generation),
                events.HolderAttached(slot_id, generation),
            )
        self.now += QUANTUM_BYTES / 1e9
        self.run_bytes[slot_id] += QUANTUM_BYTES
        done_bytes = hold.record.done_bytes + QUANTUM_BYTES
        if done_bytes >= hold.record.job.claimed_bytes:
            self.run(events.SlotReleased(slot_id, generation))
        else:
            self.run(events.QuantumDone(slot_id, generation, int(done_bytes)))

    @stateful.precondition(lambda self: self.holds(leaving=True))
    @stateful.rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        """Who was preempted waits again, with all its claim and work."""
        hold = data.draw(st.sampled_from(self.holds(leaving=True)))
        job, done_bytes = hold.record.job, hold.record.done_bytes
        again = dataclasses.replace(self.jobs[job.id], done_bytes=done_bytes)
        self.run(
            events.SlotReleased(hold.slot_id, hold.generation),
            events.JobSubmitted(again, job.claimed_bytes - done_bytes, True),
        )
        assert self.pool.state.view.record(job.id).done_bytes == done_bytes

    @stateful.precondition(lambda self: self.pool.state.waiting_count)
    @stateful.rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from(self.pool.state.waiting()))
        self.run(events.JobCancelled(job.id, codes.CANCELLED_BY_CLIENT))


Preemption.TestCase.settings = hypothesis.settings(
    max_examples=25, stateful_step_count=40, deadline=None
)
TestPreemption = Preemption.TestCase
