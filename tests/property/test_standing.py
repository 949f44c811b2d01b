# SPDX-License-Identifier: Apache-2.0

"""The order that is explained is the order in which the pool serves."""

import collections
import itertools
from collections import abc

import hypothesis
import hypothesis.strategies as st
import numpy
import pytest

from fpgapool.core import events
from fpgapool.core import model
from fpgapool.core import standing
from fpgapool.core import strategy
from fpgapool.core import view as pool_view
from fpgapool.core.queues import share_tree
from fpgapool.core.queues import sharing
from fpgapool.strategies import shared
from tests.property import fuzzing
from tests.property import small_pools
from tests.unit.core import pools

PROJECTS = tuple("abcdef")
WEIGHTS = {"b": 2.0, "c": 0.5, "d": 7.0}
NAMES = sorted(small_pools.INNER)
ORDERED = {"fifo", "sjf", "edf", "random", "wa"}
JOINT = {"era", "auto", "hjf"}


class Explained(shared.SharedStrategy):
    """Compares the first choice of each pass with what was explained.

    :ivar seen: how often the first came from what.
    """

    seen: collections.Counter[str]

    def assign(
        self, view: pool_view.PoolView, now: float
    ) -> abc.Iterator[strategy.Choice]:
        # As a user may ask for it, just before the decision.
        told = {one: self.told(view, one) for one in self.able(view)}
        projects = {one: view.record(one).job.project for one in told}
        stands = {
            one: standing.of_project(view, one, self.breadth)
            for one in projects.values()
        }
        chosen = iter(super().assign(view, now))
        for first in chosen:
            self.compare(view, first.job_id, told)
            self.seen["choices"] += 1
            of_project = stands[projects[first.job_id]]
            if of_project is not None and not told[first.job_id].urgent:
                self.seen["in rounds"] += 1
            yield first
            yield from chosen

    def able(self, view: pool_view.PoolView) -> list[model.JobId]:
        """The jobs that could get an idle slot."""
        return [
            job_id
            for job_id, record in view.jobs.records.items()
            if record.group is not None
            and view.has_idle(record.group)
            and not view.is_held(record.group.lane.project)
        ]

    def told(
        self, view: pool_view.PoolView, job_id: model.JobId
    ) -> standing.Before:
        found = standing.of_job(
            view,
            job_id,
            shapes=frozenset(view.slots.idle_shapes()),
            breadth=self.breadth,
        )
        assert found is not None
        return found

    def compare(
        self,
        view: pool_view.PoolView,
        first: model.JobId,
        told: dict[model.JobId, standing.Before],
    ) -> None:
        found = told[first]
        kind = standing.ChosenBy.of(view)
        if kind is standing.ChosenBy.JOINT:
            assert found.own is None
            assert found.others is None
        elif kind is standing.ChosenBy.ORDER:
            assert [one for one in told if is_first(told[one])] == [first]
        else:
            # Where places count, too, the first may leave a slot to a later
            # one, but an order there is.
            assert found.own is not None
            assert found.others is not None


def is_first(found: standing.Before) -> bool:
    return (
        found.urgent
        + found.higher_priority
        + found.better_share
        + (found.own or 0)
        + (found.others or 0)
        == 0
    )


def play(
    name: str,
    random: numpy.random.Generator,
    *,
    fair: bool,
    breadth: int,
    steps: int = 40,
) -> collections.Counter[str]:
    """Let a pool serve the projects for a while."""
    made = Explained(
        small_pools.INNER[name]({}, 0),
        sharing.ShareOptions(fair, 3e8, WEIGHTS),
        max_wait_s=random.choice([None, 20.0]),
    )
    made.breadth, made.seen = breadth, collections.Counter()
    pool = pools.make_pool_of(
        made,
        *(
            pools.make_host(host_id, slot_count=2, shape=shape)
            for host_id, shape in enumerate(("small", "large", "small"))
        ),
    )
    ids, now = itertools.count(1), 0.0
    for _ in range(steps):
        now += float(random.choice([0.0, 0.1, 1.0, 4.0]))
        pool.step(
            *happen(pool, random),
            *(
                arrive(ids, now, random)
                for _ in range(int(random.choice([0, 1, 2, 8])))
            ),
            now=now,
        )
    return made.seen


def arrive(
    ids: abc.Iterator[int], now: float, random: numpy.random.Generator
) -> events.JobSubmitted:
    choose = random.choice
    return events.JobSubmitted(
        pools.make_job(
            next(ids),
            choose([None, *range(3)]),
            accelerator=str(choose(["aes", "aes", "fft"])),
            claimed_bytes=float(choose([1e6, 1e8, 3e8, 5e9])),
            arrival_s=now,
            project=str(choose(PROJECTS)),
            priority=int(choose([0, 0, 0, 2, -1])),
            deadline_s=choose([None, now + 3.0, now + 90.0]),
        )
    )


def happen(
    pool: pools.Pool, random: numpy.random.Generator
) -> abc.Iterator[events.Event]:
    """What comes besides new jobs."""
    for slot_id, one in pool.state.assignments().items():
        draw = random.random()
        if draw < 0.25:
            yield events.SlotReleased(slot_id, one.generation)
        elif one.phase is model.Phase.PREPARING and draw < 0.7:
            yield events.SlotReady(slot_id, one.generation)
    draw = random.random()
    if draw < 0.1:
        limit = random.choice([None, 1, 3])
        yield events.SessionLimitsChanged(limit, (("a", 2), ("e", None)))
    elif draw < 0.2:
        above = random.choice(["one", "two", "b", "three"], len(PROJECTS))
        parents = dict(zip(PROJECTS, map(str, above), strict=True))
        del parents["b"]
        places = share_tree.Places({**parents, "three": "one"})
        yield events.ShareTreeChanged(places)
    waiting = pool.state.waiting()
    if waiting and draw > 0.8:
        chosen = int(random.integers(len(waiting)))
        yield events.JobCancelled(waiting[chosen].id, "CANCELLED_BY_CLIENT")


@hypothesis.given(
    # Where no order decides alone, nothing is said of who is first.
    name=st.sampled_from(sorted(ORDERED)),
    fair=st.booleans(),
    breadth=st.sampled_from([1, 2, sharing.BREADTH]),
    seed=st.integers(0, 2**32 - 1),
)
@fuzzing.examples(40)
def test_who_is_said_to_be_first_is_served_first(
    name: str, fair: bool, breadth: int, seed: int
) -> None:
    play(name, numpy.random.default_rng(seed), fair=fair, breadth=breadth)


@pytest.mark.parametrize("name", ["fifo", "wra", "era"])
def test_choices_are_compared(name: str) -> None:
    seen = play(
        name, numpy.random.default_rng(7), fair=True, breadth=64, steps=60
    )
    assert seen["choices"] > 20
    assert seen["in rounds"] > 10


@pytest.mark.parametrize("name", NAMES)
def test_what_decides(name: str) -> None:
    inner = small_pools.INNER[name]({}, 0)
    made = shared.SharedStrategy(inner, sharing.ShareOptions())
    kind = standing.ChosenBy.of(pools.make_pool_of(made).state.view)
    expected = standing.ChosenBy.ORDER_AND_PLACE
    if name in ORDERED:
        expected = standing.ChosenBy.ORDER
    elif name in JOINT:
        expected = standing.ChosenBy.JOINT
    assert kind is expected
