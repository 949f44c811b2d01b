# SPDX-License-Identifier: Apache-2.0

"""Affinity over time: who is overtaken, and for how long."""

import collections
import heapq
import math
import typing

import numpy
import pytest

from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core.queues import applications
from tests.unit.core import pools

BYTES_PER_S = 1e8
PROGRAMMING_S = 1.5
SLOTS = 7
LIBRARY = tuple(
    model.Accelerator(f"m{n}", peak_bytes_per_s=BYTES_PER_S) for n in range(12)
)


class Course:
    """Jobs that hold their slots for the time that they need.

    :ivar taken: (job, slot) in the order of the decisions.
    :ivar overtaken: how often a job that came later got a slot first.
    :ivar programmings: how many jobs had their slots programmed.
    """

    def __init__(self, scale: float, **options: typing.Any) -> None:
        self.scale = scale
        self.pool = pools.make_pool(
            *(
                pools.make_host(
                    host, count, programming_time_s=PROGRAMMING_S * scale
                )
                for host, count in ((1, 2), (2, 2), (3, 3))
            ),
            strategy="affinity",
            options=options,
        )
        self.pool.step(events.AcceleratorsChanged(LIBRARY))
        self.taken: list[tuple[int, int]] = []
        self.overtaken = 0
        self.programmings = 0
        self._waiting: dict[int, model.Job] = {}
        self._patience_s: dict[int, float] = {}
        self._holds: dict[int, str] = {}
        self._ends: list[tuple[float, int]] = []

    def run(self, jobs: list[model.Job]) -> None:
        to_come = collections.deque(jobs)
        while to_come or self._ends:
            now = min(
                to_come[0].arrival_s if to_come else math.inf,
                self._ends[0][0] if self._ends else math.inf,
            )
            batch: list[events.Event] = []
            while self._ends and self._ends[0][0] <= now:
                _, slot_id = heapq.heappop(self._ends)
                batch.append(
                    events.SlotReleased(slot_id, self.pool.generation(slot_id))
                )
            while to_come and to_come[0].arrival_s <= now:
                job = to_come.popleft()
                found = len(self._waiting) / SLOTS
                self._patience_s[job.id] = (
                    20 * PROGRAMMING_S * self.scale * (1 + found)
                )
                self._waiting[job.id] = job
                batch.append(events.JobSubmitted(job))
            for order in self.pool.step(*batch, now=now):
                if isinstance(order, instructions.Program):
                    self._begin(order.job_id, order.slot_id, now)
            assert not (self._waiting and self.pool.state.idle_count)

    def _begin(self, job_id: int, slot_id: int, now: float) -> None:
        job = self._waiting.pop(job_id)
        self.taken.append((job_id, slot_id))
        first: dict[str, model.Job] = {}
        for other in self._waiting.values():
            if other.id < job_id:
                self.overtaken += 1
                first.setdefault(other.accelerator, other)
        for other in first.values():
            waited_s = now - other.arrival_s
            # Grants to its application may make it wait twice.
            patience_s = self._patience_s[other.id]
            patience_s *= 1 if other.affinity_key is None else 2
            assert waited_s < patience_s * (1 + 1e-9)
        programming_s = 0.0
        if self._holds.get(slot_id) != job.accelerator:
            self.programmings += 1
            programming_s = PROGRAMMING_S * self.scale
        self._holds[slot_id] = job.accelerator
        heapq.heappush(
            self._ends,
            (now + programming_s + job.claimed_bytes / BYTES_PER_S, slot_id),
        )
        self.pool.hear(events.SlotReady, slot_id)


def make_load(seed: int, scale: float, load: float) -> list[model.Job]:
    """Jobs of power-law sizes; few accelerators have most of them."""
    random = numpy.random.default_rng(seed)
    sizes_bytes = 50e6 + 100e6 * random.pareto(2.0, 250)
    mean_s = float(sizes_bytes.mean()) / BYTES_PER_S / SLOTS / load
    arrivals_s = numpy.cumsum(random.exponential(mean_s, 250))
    shares = 1.0 / numpy.arange(1, len(LIBRARY) + 1)
    names = random.choice(len(LIBRARY), 250, p=shares / shares.sum())
    return [
        pools.make_job(
            number,
            accelerator=f"m{names[number]}",
            claimed_bytes=scale * float(sizes_bytes[number]),
            arrival_s=scale * float(arrivals_s[number]),
            affinity_key=random.choice(["x", "y", None]),
        )
        for number in range(250)
    ]


orders = pytest.mark.parametrize("order", ["index", "random", "least_busy"])


@orders
@pytest.mark.parametrize("load", [0.5, 1.0, 20.0])
@pytest.mark.parametrize("seed", [1, 2])
def test_nobody_is_overtaken_for_longer_than_its_patience(
    seed: int, load: float, order: str
) -> None:
    """And no slot is idle while a job waits. The course checks both."""
    course = Course(1.0, offer_order=order)
    course.run(make_load(seed, 1.0, load))
    assert len(course.taken) == 250
    assert course.overtaken


@orders
@pytest.mark.parametrize("seed", [1, 2])
def test_sizes_and_times_by_the_same_factor_change_no_choice(
    seed: int, order: str
) -> None:
    found = []
    for scale in (1.0, 475.0):
        course = Course(scale, offer_order=order)
        course.run(make_load(seed, scale, 1.0))
        found.append(course.taken)
    assert found[0] == found[1]


@pytest.mark.parametrize("load", [1.0, 20.0])
def test_long_queues_spare_programmings(load: float) -> None:
    """However long they are; a fixed wait is over before its turn comes."""
    learning, fixed = Course(1.0), Course(1.0, affinity_wait_s=0.0)
    for course in (learning, fixed):
        course.run(make_load(1, 1.0, load))
    assert learning.programmings < 0.5 * fixed.programmings


def test_an_offer_asks_one_job_of_each_accelerator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many wait."""
    asked = []
    since_s = applications.AffineJobs.since_s

    def counting(jobs: applications.AffineJobs, record: typing.Any) -> float:
        asked.append(record.job.id)
        return since_s(jobs, record)

    for count in (30, 1000):
        course = Course(1.0)
        course.pool.submit(
            *(
                pools.make_job(
                    number,
                    accelerator=f"m{number % len(LIBRARY)}",
                    arrival_s=number / count,
                )
                for number in range(count)
            ),
            now=1.0,
        )
        with monkeypatch.context() as patch:
            patch.setattr(applications.AffineJobs, "since_s", counting)
            course.pool.hear(events.SlotReleased, 10)
        assert 0 < len(set(asked)) <= len(LIBRARY)
        asked.clear()
