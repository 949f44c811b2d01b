# SPDX-License-Identifier: Apache-2.0

"""The users of projects: turns by the literal rules, and limits at all times.

Time stands still, so that only claims cost anything.
"""

import collections
import random

import hypothesis
import hypothesis.strategies as st
import pytest

from fpgapool import strategies
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core.queues import sharing
from fpgapool.core.queues import users as project_users
from fpgapool.strategies import shared
from tests.property import fuzzing
from tests.unit.core import pools

seeds = st.integers(0, 2**32 - 1)

PROJECTS = ("p", "q")
USERS = ("", "a", "b", "c", "d")
SIZES_BYTES = (1e6, 3e6, 1e7, 5e7)
RULES = (
    model.UserRule(in_turns=True),
    model.UserRule(2, in_turns=True),
    model.UserRule(1),
)


class Turns:
    """The literal rules for the users of one project."""

    def __init__(self) -> None:
        self.tags: dict[project_users.Rank, float] = {}
        self.starts: collections.Counter[int] = collections.Counter()
        self.waiting: dict[int, model.Job] = {}
        self.held: dict[int, model.Job] = {}

    def add(self, job: model.Job) -> None:
        if not any(one.rank == job.rank for one in self.waiting.values()):
            self.tags[job.rank] = max(
                self.tags.get(job.rank, 0.0), self.starts[job.priority]
            )
        self.waiting[job.id] = job

    def slots_of(self, user: str) -> int:
        return sum(job.user == user for job in self.held.values())

    def give(self, job: model.Job, rule: model.UserRule) -> None:
        """Check that it is the turn of a job, and give it a slot."""
        able = {
            one.rank
            for one in self.waiting.values()
            if rule.slots is None
            or not one.user
            or self.slots_of(one.user) < rule.slots
        }
        assert job.rank in able
        highest = max(priority for priority, _ in able)
        assert job.priority == highest
        if rule.in_turns:
            assert self.tags[job.rank] == min(
                self.tags[rank] for rank in able if rank[0] == highest
            )
            start_bytes = max(self.tags[job.rank], self.starts[job.priority])
            self.starts[job.priority] = start_bytes
            self.tags[job.rank] = start_bytes + job.claimed_bytes
        del self.waiting[job.id]
        self.held[job.id] = job

    def forget(self) -> None:
        """Forget what users had, once nobody waits or has a slot."""
        if not self.waiting and not self.held:
            self.tags.clear()
            self.starts.clear()

    def begin_anew(self) -> None:
        """Forget what users had, because there is another rule."""
        self.tags.clear()
        self.starts.clear()
        for job in self.waiting.values():
            self.tags[job.rank] = 0.0


class Play:
    """A pool and the literal rules, side by side."""

    def __init__(self, seed: int, strategy: str, *, fair: bool) -> None:
        self.random = random.Random(seed)
        made = getattr(strategies, strategy)({}, 0)
        self.pool = pools.make_pool_of(
            shared.SharedStrategy(made, sharing.ShareOptions(fair, 2e7)),
            pools.make_host(1, slot_count=3),
            pools.make_host(2, slot_count=2),
        )
        self.rule = model.UserRule()
        self.books = {project: Turns() for project in PROJECTS}
        self.count = 0
        self.change_rule()

    def step(self, *batch: events.Event) -> None:
        for order in self.pool.step(*batch):
            if isinstance(order, instructions.Program):
                job = self.pool.state.view.record(order.job_id).job
                self.books[job.project].give(job, self.rule)
        for book in self.books.values():
            book.forget()

    def change_rule(self) -> None:
        rule = self.random.choice([one for one in RULES if one != self.rule])
        self.rule = rule
        for book in self.books.values():
            book.begin_anew()
        self.step(events.SessionLimitsChanged(default_users=rule))

    def submit(self) -> None:
        batch: list[events.Event] = []
        for _ in range(self.random.randint(1, 3)):
            self.count += 1
            job = pools.make_job(
                self.count,
                host_id=self.random.choice((1, 2)),
                project=self.random.choice(PROJECTS),
                user=self.random.choice(USERS),
                priority=self.random.choice((0, 0, 0, 1, -1)),
                claimed_bytes=self.random.choice(SIZES_BYTES),
            )
            self.books[job.project].add(job)
            batch.append(events.JobSubmitted(job))
        self.step(*batch)

    def release(self) -> None:
        held = sorted(self.pool.state.assignments().items())
        if held:
            slot_id, assignment = self.random.choice(held)
            job_id = assignment.holder.id
            for book in self.books.values():
                book.held.pop(job_id, None)
            self.step(events.SlotReleased(slot_id, assignment.generation))

    def cancel(self) -> None:
        waiting = self.pool.state.waiting()
        if waiting:
            job = self.random.choice(waiting)
            del self.books[job.project].waiting[job.id]
            self.step(events.JobCancelled(job.id, "X"))


@pytest.mark.parametrize("fair", [False, True])
@pytest.mark.parametrize("strategy", ["fifo", "sjf", "hjf"])
@hypothesis.given(seed=seeds)
@fuzzing.examples(30)
def test_slots_go_by_the_literal_rules(
    strategy: str, fair: bool, seed: int
) -> None:
    play = Play(seed, strategy, fair=fair)
    acts = (play.submit, play.release, play.cancel, play.change_rule)
    for _ in range(120):
        play.random.choices(acts, (10, 10, 2, 1))[0]()


def test_absent_users_are_forgotten() -> None:
    """However many come and go while the project is busy."""
    users = project_users.Users(model.UserRule(in_turns=True))
    users.join((0, "always"))
    for number in range(10_000):
        rank = (0, f"user{number}")
        users.join(rank)
        users.give(rank, 1.0, in_turn=True)
        users.leave(rank)
        users.take_back(rank[1])
        users.give((0, "always"), 1.0, in_turn=True)
        users.take_back("always")
    assert len(users._meters) < 300
