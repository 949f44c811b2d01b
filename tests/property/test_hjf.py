# SPDX-License-Identifier: Apache-2.0

"""Random events: ``hjf`` takes the most urgent of all waiting jobs."""

import random

import numpy
import pytest

from fpgapool.core import events
from fpgapool.core import model
from fpgapool.core import ordered
from fpgapool.core import strategy
from fpgapool.core import view as pool_view
from fpgapool.core.queues import queued
from fpgapool.core.queues import sharing
from fpgapool.core.topology import slots
from fpgapool.strategies import shared
from fpgapool.strategies.joint import hjf
from fpgapool.strategies.placements import any as any_placement
from fpgapool.vocabulary import scheduling
from tests.unit.core import pools

LIBRARY = (
    model.Accelerator("aes", 1e8, stateless=True),
    model.Accelerator("fft", 2e8, peaks_bytes_per_s={"large": 9e8}),
    model.Accelerator("sha", 3e8, shapes=frozenset({"large"})),
    model.Accelerator("dtw", 1e8, peaks_bytes_per_s={"small": 5e7}),
)


class CheckedHjf(hjf.HjfStrategy):
    """Compares each choice with all waiting jobs.

    :ivar found: the first elements of the keys of chosen jobs.
    :ivar compared: how often it computed a job's urgency for itself.
    """

    def __init__(self, rule: str) -> None:
        options = scheduling.SharedOptions(slot_choice="index")
        super().__init__(
            hjf.HjfOptions(rule),
            any_placement.AnyPlacement(options, numpy.random.default_rng(0)),
        )
        self._rule = self._urgency
        self._urgency = self._count
        self.found: set[int] = set()
        self.compared = 0

    def _count(self, contender: strategy.Contender, now: float) -> ordered.Key:
        self.compared += 1
        return self._rule(contender, now)

    def _choose(
        self,
        view: pool_view.PoolView,
        record: queued.JobRecord,
        group: queued.JobGroup,
    ) -> slots.Slot:
        best = min(
            self._rule(view.contender(view.record(key[-1])), view.now)
            for group in view.jobs.groups()
            if group.count and view.has_idle(group)
            for key in group.jobs
        )
        assert best[-1] == record.job.id
        self.found.add(best[0])
        return super()._choose(view, record, group)


def make_job(job_id: int, now: float, source: random.Random) -> model.Job:
    deadline_s = None
    if source.random() < 0.8:
        deadline_s = now + source.expovariate(1 / 30.0)
    return pools.make_job(
        job_id,
        source.choice([1, 2, None]),
        accelerator=source.choice(LIBRARY).name,
        claimed_bytes=source.expovariate(1 / 2e9),
        arrival_s=now - source.random(),
        deadline_s=deadline_s,
        project=source.choice("ab"),
    )


def run(pool: pools.Pool, seed: int) -> None:
    source = random.Random(seed)
    pool.step(events.AcceleratorsChanged(LIBRARY))
    now, jobs = 0.0, 0
    for _ in range(150):
        now += source.expovariate(1.0)
        batch: list[events.Event] = []
        for slot_id, held in pool.state.assignments().items():
            if source.random() < 0.15:
                batch.append(events.SlotReleased(slot_id, held.generation))
        for _ in range(source.choice([0, 0, 1, 3])):
            batch.append(events.JobSubmitted(make_job(jobs, now, source)))
            jobs += 1
        waiting = pool.state.waiting()
        if waiting:
            one = source.choice(waiting)
            done_bytes = int(one.claimed_bytes * source.random())
            batch.append(events.JobProgress(one.id, done_bytes))
            if source.random() < 0.2:
                gone = source.choice(waiting).id
                batch.append(events.JobCancelled(gone, "CANCELLED_BY_CLIENT"))
        if source.random() < 0.05:
            batch.append(events.HostLost(2))
        elif source.random() < 0.1:
            # The rates of some accelerators depend on its slots.
            shape = source.choice(["large", "small"])
            batch.append(events.HostUp(pools.make_host(2, 2, shape)))
        pool.step(*batch, now=now)
    pool.step(events.HostUp(pools.make_host(2, 2, "large")))
    while pool.state.waiting_count:
        for slot_id in pool.state.assignments():
            pool.hear(events.SlotReleased, slot_id)


@pytest.mark.parametrize("is_fair", [False, True])
@pytest.mark.parametrize("rule", hjf.RULES)
@pytest.mark.parametrize("seed", range(4))
def test_the_most_urgent_of_all_jobs_gets_the_slot(
    seed: int, rule: str, is_fair: bool
) -> None:
    checked = CheckedHjf(rule)
    made: strategy.Strategy = checked
    if is_fair:
        options = sharing.ShareOptions(fair=True)
        made = shared.SharedStrategy(checked, options, max_wait_s=20.0)
    pool = pools.make_pool_of(
        made, pools.make_host(1, 2), pools.make_host(2, 2, "large")
    )
    run(pool, seed)
    # In time, without a deadline and late; with ``need``, lost ones are late.
    assert checked.found == {0, 1, 2}


@pytest.mark.parametrize("rule", hjf.RULES)
def test_a_decision_compares_the_first_jobs_of_kinds(rule: str) -> None:
    """However many wait."""
    for count in (50, 2000):
        source, checked = random.Random(1), CheckedHjf(rule)
        pool = pools.make_pool_of(checked, pools.make_host(1, 2, "large"))
        pool.step(events.AcceleratorsChanged(LIBRARY))
        pool.submit(*(make_job(n, 0.0, source) for n in range(count)))
        checked.compared = 0
        assert pools.taken(pool.hear(events.SlotReleased, 10))
        assert checked.compared <= len(LIBRARY) + 1
