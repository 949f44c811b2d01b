# SPDX-License-Identifier: Apache-2.0

"""Shares that are divided down a tree of domains and projects."""

import collections
import itertools
import typing

import hypothesis
import hypothesis.strategies as st
import numpy
import pytest

from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core.queues import share_tree
from fpgapool.core.queues import sharing
from fpgapool.strategies import shared
from tests.property import fuzzing
from tests.property import small_pools
from tests.property import test_rivals
from tests.unit.core import pools

MB = 1e6
QUANTUM_BYTES = 400 * MB
#: Where its projects are below these domains.
PARENTS = {
    **dict.fromkeys(("a", "b", "c", "d"), "one"),
    **dict.fromkeys(("e", "f"), "inner"),
    "inner": "two",
    "g": "two",
}


def make_pool(
    name: str,
    weights: dict[str, float],
    parents: dict[str, str] | None,
    slots: int = 3,
) -> pools.Pool:
    made = shared.SharedStrategy(
        small_pools.INNER[name]({}, 0),
        sharing.ShareOptions(True, QUANTUM_BYTES, weights),
        preempt_gain=0.25,
    )
    pool = pools.make_pool_of(
        made,
        *(pools.make_host(host_id, slot_count=slots) for host_id in range(2)),
    )
    if parents is not None:
        places = share_tree.Places(parents)
        pool.step(events.ShareTreeChanged(places))
    return pool


@hypothesis.given(
    name=st.sampled_from(sorted(small_pools.INNER)),
    seed=st.integers(0, 2**32 - 1),
)
@fuzzing.examples(25)
def test_projects_alone_in_their_domains_are_served_as_without(
    name: str, seed: int
) -> None:
    """Nothing is decided otherwise, whatever happens."""
    weights = {"b": 2.0, "c": 0.5, "d": 7.0}
    own = {f"of {project}": weight for project, weight in weights.items()}
    parents = {project: f"of {project}" for project in test_rivals.PROJECTS}
    outputs = []
    for pool in (
        make_pool(name, weights, None),
        make_pool(name, {**own, "a": 9.0}, parents),
    ):
        random = numpy.random.default_rng(seed)
        ids, now = itertools.count(1), 0.0
        output: list[instructions.Instruction] = []
        for _ in range(40):
            now += float(random.choice([0.0, 0.1, 1.0, 4.0]))
            count = int(random.choice([0, 1, 1, 2, 12]))
            output += pool.step(
                *test_rivals.happen(pool, random),
                *(test_rivals.arrive(ids, now, random) for _ in range(count)),
                now=now,
            )
        outputs.append(output)
    assert outputs[0] == outputs[1]


class Course:
    """A pool whose sessions end in the order in which they begin.

    :ivar served_bytes: what each project was given slots for.
    """

    def __init__(self, pool: pools.Pool, seed: int) -> None:
        self.pool = pool
        self.random = numpy.random.default_rng(seed)
        self.served_bytes: collections.Counter[str] = collections.Counter()
        self._ids = itertools.count(1)
        self._held: list[tuple[int, int]] = []

    def step(self, wanted: typing.Mapping[str, int]) -> None:
        """End a session, and let projects have so many that wait."""
        batch: list[events.Event] = []
        if self._held:
            batch.append(events.SlotReleased(*self._held.pop(0)))
        waiting = collections.Counter(
            job.project for job in self.pool.state.waiting()
        )
        for project, count in wanted.items():
            for _ in range(count - waiting[project]):
                size = float(self.random.choice([1, 30, 100]))
                job = pools.make_job(
                    next(self._ids), claimed_bytes=size * MB, project=project
                )
                batch.append(events.JobSubmitted(job))
        for order in self.pool.state.step(batch, 0.0):
            if isinstance(order, instructions.Program):
                job = self.pool.state.view.record(order.job_id).job
                self.served_bytes[job.project] += int(job.claimed_bytes)
                self._held.append((order.slot_id, order.generation))

    @property
    def round(self) -> int:
        accounts = self.pool.state.view.accounts
        assert accounts is not None
        return accounts.round

    def served(self, projects: typing.Iterable[str]) -> int:
        return sum(self.served_bytes[project] for project in projects)


def test_an_idle_part_goes_to_siblings_first() -> None:
    """Of two domains with equal weights, one has an idle project."""
    course = Course(make_pool("fifo", {"g": 3.0}, PARENTS), 1)
    for wanted, expected in (
        ("abceg", {"a": 1 / 6, "b": 1 / 6, "c": 1 / 6, "e": 1 / 8}),
        ("aceg", {"a": 1 / 4, "c": 1 / 4, "e": 1 / 8, "g": 3 / 8}),
        ("abe", {"a": 1 / 4, "b": 1 / 4, "e": 1 / 2}),
        ("efg", {"e": 1 / 8, "f": 1 / 8, "g": 3 / 4}),
        ("ax", {"a": 1 / 2, "x": 1 / 2}),
        ("axy", {"a": 1 / 2, "x": 1 / 4, "y": 1 / 4}),
    ):
        for step in range(800):
            if step == 200:
                # What the projects of before owed is paid.
                course.served_bytes.clear()
            course.step(dict.fromkeys(wanted, 4))
        total = course.served(wanted)
        for project, part in expected.items():
            found = course.served_bytes[project] / total
            assert abs(found - part) < 0.03, (wanted, project, found)
        for _ in range(60):
            course.step({})


@hypothesis.given(
    seed=st.integers(0, 2**32 - 1),
    name=st.sampled_from(["fifo", "sjf", "wra"]),
    weight=st.sampled_from([0.5, 1.0, 3.0]),
)
@fuzzing.examples(10)
def test_what_domains_are_served_differs_by_little(
    seed: int, name: str, weight: float
) -> None:
    """The bounds of the documentation, while all have jobs that wait."""
    parents = dict.fromkeys("abc", "one")
    course = Course(make_pool(name, {"one": weight}, parents), seed)
    differences = [0.0]
    for _ in range(400):
        course.step(dict.fromkeys("abcx", 8))
        served = course.served("abc") / weight
        differences.append(served - course.served("x"))
    assert course.round > 5
    most = QUANTUM_BYTES + 3 * 100 * MB / min(weight, 1.0)
    assert max(map(abs, differences)) <= most
    assert max(differences) - min(differences) <= 2 * most


def test_places_without_an_end_are_refused() -> None:
    most = {str(n): str(n + 1) for n in range(share_tree.MAX_DEPTH)}
    assert share_tree.Places(most).parents == most
    for bad in (
        {"a": "a"},
        {"a": "b", "b": "c", "c": "b"},
        {**most, "0 more": "0"},
    ):
        with pytest.raises(ValueError, match="nodes above it"):
            share_tree.Places(bad)


@hypothesis.given(
    seed=st.integers(0, 2**32 - 1),
    name=st.sampled_from(["fifo", "sjf", "wra"]),
)
@fuzzing.examples(15)
def test_a_domain_gets_no_more_because_its_projects_take_turns(
    seed: int, name: str
) -> None:
    """The upper bound of the documentation, whoever waits when."""
    pool = make_pool(name, {}, dict.fromkeys("abcd", "one"))
    course = Course(pool, seed)
    random = numpy.random.default_rng(seed)
    worst = 0.0
    for _ in range(500):
        wanted = {"x": 4}
        for project in random.choice(list("abcd"), size=2):
            wanted[str(project)] = int(random.choice([1, 1, 2]))
        course.step(wanted)
        most = (course.round + 1) * QUANTUM_BYTES
        worst = max(worst, course.served("abcd") - most)
    assert worst <= QUANTUM_BYTES + 4 * 100 * MB
