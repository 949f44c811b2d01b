# SPDX-License-Identifier: Apache-2.0

"""Orders that change with time: EDF, random, HJF and its rule ``need``."""

import dataclasses
import math
import random
import typing

import pytest

from fpgapool import strategies
from fpgapool.core import events
from fpgapool.core import strategy
from fpgapool.strategies.joint import hjf
from tests.unit.core import pools


def make(
    job_id: int,
    chunks: float,
    deadline_s: float | None,
    *,
    attach_s: float = 0.0,
    **members: typing.Any,
) -> strategy.Contender:
    """A job whose chunk takes 60 s in a slot and 150 s on a core."""
    job = pools.make_job(job_id, deadline_s=deadline_s, **members)
    return strategy.Contender(job, chunks, 60 * chunks, 150 * chunks, attach_s)


def order(
    name: str,
    contenders: list[strategy.Contender],
    now: float,
    **options: object,
) -> list[int]:
    """The ids, the most urgent first."""
    made = getattr(strategies, name)(options, 0)
    left = sorted(contenders, key=lambda each: each.job.id)
    found = []
    while left:
        chosen = made.most_urgent(left, now)
        left.remove(chosen)
        found.append(chosen.job.id)
    return found


#: The worked example: when the jobs have so much left, HJF takes this one.
EXAMPLE = [
    (0.0, 4.0, 4.0, 2),
    (60.0, 3.6, 3.0, 2),
    (120.0, 3.2, 2.0, 2),
    (180.0, 2.8, 1.0, 1),
    (240.0, 1.8, 0.6, 2),
]


@pytest.mark.parametrize(("now", "left_a", "left_b", "first"), EXAMPLE)
def test_the_order_of_hjf_changes_with_time(
    now: float, left_a: float, left_b: float, first: int
) -> None:
    both = [make(1, left_a, 500.0), make(2, left_b, 300.0)]
    assert order("hjf", both, now)[0] == first
    assert order("edf", both, now)[0] == 2


def test_stress() -> None:
    assert hjf.stress(make(1, 3.0, 240.0), 60.0) == pytest.approx(3 / 180)
    assert hjf.stress(make(1, 3.0, None), 60.0) == 0.0
    for now in (240.0, 241.0):
        assert hjf.stress(make(1, 3.0, 240.0), now) == -math.inf


def test_late_jobs_come_last() -> None:
    jobs = [
        make(1, 9.0, 90.0),
        make(2, 9.0, 100.0),
        make(3, 1.0, None, arrival_s=5.0),
        make(4, 9.0, None, arrival_s=4.0),
        make(5, 1.0, 5000.0),
    ]
    for name in ("edf", "hjf"):
        assert order(name, jobs, 50.0)[-2:] == [4, 3]
        assert order(name, jobs, 100.0) == [5, 4, 3, 1, 2]


def test_ties_go_to_the_earlier_deadline_then_to_the_lower_id() -> None:
    jobs = [make(3, 2.0, 200.0), make(2, 1.0, 100.0), make(1, 2.0, 200.0)]
    assert order("hjf", jobs, 0.0) == [2, 1, 3]


def test_need_first_serves_those_that_only_a_slot_saves() -> None:
    jobs = [
        make(1, 4.0, 239.0),  # lost
        make(2, 4.0, 600.0),  # a core will do
        make(3, 4.0, 599.0),  # slack 359
        make(4, 3.0, 400.0),  # slack 220
        make(5, 4.0, None),
        make(6, 4.0, 240.0),  # slack 0
    ]
    assert order("hjf", jobs, 0.0) == [1, 6, 4, 3, 2, 5]
    assert order("hjf", jobs, 0.0, rule="need") == [6, 4, 3, 2, 5, 1]


def test_attaching_makes_a_job_late_but_takes_nothing_from_its_slack() -> None:
    attaching = [make(6, 4.0, 240.0, attach_s=1.0), make(2, 4.0, 600.0)]
    assert order("hjf", attaching, 0.0, rule="need") == [2, 6]
    # 159.5 s of slack with the slot already, and 160 s without it.
    rivals = [make(1, 4.0, 400.0, attach_s=1.0), make(2, 4.0, 399.5)]
    assert order("hjf", rivals, 0.0, rule="need") == [2, 1]


def test_without_a_core_nothing_else_will_do() -> None:
    job = pools.make_job(1, deadline_s=1e9)
    alone = strategy.Contender(job, 4.0, 240.0)
    assert (
        hjf.need_key(alone, 0.0)[0]
        == hjf.need_key(make(3, 4.0, 599.0), 0.0)[0]
    )


def test_a_challenger_needs_more_stress() -> None:
    holder = make(1, 4.0, 500.0)
    for deadline_s, may in ((401.0, False), (400.0, True)):
        challenger = make(2, 4.0, deadline_s)
        assert hjf.may_displace(challenger, holder, 0.0, 0.25) == may
        assert hjf.may_displace(challenger, holder, 0.0, 0.0)
    # A lost holder gives way.
    assert hjf.may_displace(make(2, 1.0, 1e6), make(1, 4.0, 239.0), 0.0, 9.0)


@pytest.mark.parametrize("seed", [0, 7, 2**32 - 1, 2**70 + 3])
def test_random_draws_as_the_standard_library(seed: int) -> None:
    jobs = [make(number, 1.0, 100.0) for number in range(9)]
    made, expected = strategies.random({}, seed), random.Random(seed)
    for count in (1, 2, 3, 7, 8, 9) * 20:
        some = jobs[:count]
        assert made.most_urgent(some, 0.0) is expected.choice(some)


def test_random_places_in_the_queue_stay() -> None:
    jobs = [pools.make_job(number) for number in range(9)]
    made = strategies.random({}, 7)
    places = [made.key(each) for each in jobs]
    made.most_urgent([make(1, 1.0, None)], 0.0)
    assert places == [made.key(each) for each in jobs]
    assert sorted(places) != places
    other = strategies.random({}, 8)
    assert places != [other.key(each) for each in jobs]


def test_with_other_strategies_the_first_in_the_queue_is_the_most_urgent() -> (
    None
):
    for name in ("fifo", "sjf", "wa", "ra", "wra", "era", "auto"):
        made = getattr(strategies, name)({}, 0)
        some = [
            make(1, 1.0, 1.0, arrival_s=3.0, claimed_bytes=9e9),
            make(2, 1.0, 9.0, arrival_s=1.0, claimed_bytes=2e9),
            make(3, 1.0, 5.0, arrival_s=2.0, claimed_bytes=1e6),
        ]
        expected = min(some, key=lambda each: made.key(each.job))
        assert made.most_urgent(some, 5.0) is expected


def test_a_wrong_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="rule must be hjf or need, not 'n'"):
        strategies.hjf({"rule": "n"}, 0)
    with pytest.raises(ValueError, match="rule must be text"):
        strategies.hjf({"rule": 1}, 0)
    with pytest.raises(ValueError, match="unknown options rule"):
        strategies.edf({"rule": "need"}, 0)


# -- in a pool -------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "first"),
    [
        ("edf", {}, 1),
        ("hjf", {}, 2),
        ("hjf", {"rule": "need"}, 3),
    ],
)
def test_a_free_slot_goes_to_the_most_urgent_job(
    name: str, options: dict[str, object], first: int
) -> None:
    pool = pools.make_pool(
        pools.make_host(1, 1), strategy=name, options=options
    )
    pool.submit(pools.make_job(9))
    # In the slot, 1e9 bytes take a second.
    pool.submit(
        pools.make_job(1, deadline_s=10.0, claimed_bytes=1e9),
        # Lost, but under the highest stress.
        pools.make_job(2, deadline_s=11.0, claimed_bytes=12e9),
        pools.make_job(3, deadline_s=12.0, claimed_bytes=9e9),
        pools.make_job(4, claimed_bytes=1e6),
    )
    pool.now = 1.0
    output = pool.hear(events.SlotReleased, 10)
    assert pools.taken(output) == [(first, 10)]


def test_hjf_prefers_the_own_host() -> None:
    pool = pools.make_pool(
        pools.make_host(1, 2), pools.make_host(2, 2), strategy="hjf"
    )
    output = pool.submit(
        pools.make_job(1, 2, deadline_s=1.0),
        pools.make_job(2, 2, deadline_s=1.1),
        pools.make_job(3, 2, deadline_s=1.2),
        pools.make_job(4, 3, deadline_s=9.0),
        pools.make_job(5, None, deadline_s=10.0),
    )
    assert pools.taken(output) == [(1, 20), (2, 21), (3, 10), (4, 11)]


@pytest.mark.parametrize("rule", hjf.RULES)
def test_an_accelerator_may_go_when_none_of_its_jobs_waits(rule: str) -> None:
    other = dataclasses.replace(pools.AES, name="other")
    pool = pools.make_pool(
        pools.make_host(1, 1), strategy="hjf", options={"rule": rule}
    )
    pool.step(events.AcceleratorsChanged((pools.AES, other)))
    pool.submit(*(pools.make_job(number) for number in (1, 2)))
    pool.submit(
        *(
            pools.make_job(number, accelerator="other", deadline_s=deadline_s)
            for number, deadline_s in ((3, None), (4, 99.0))
        )
    )
    pool.step(*(events.JobCancelled(number, "X") for number in (3, 4)))
    pool.step(events.AcceleratorsChanged((pools.AES,)))
    assert pools.taken(pool.hear(events.SlotReleased, 10)) == [(2, 10)]
    index = typing.cast(hjf.Kinds, pool.state.view.kinds)
    assert not index._of_group


def test_hjf_passes_over_jobs_that_fit_no_idle_slot() -> None:
    pool = pools.make_pool(
        pools.make_host(1, 1), pools.make_host(2, 1, "large"), strategy="hjf"
    )
    pool.submit(pools.make_job(9, 2))
    output = pool.submit(
        pools.make_job(1, accelerator="fft", deadline_s=1.0),
        pools.make_job(2, deadline_s=2.0),
    )
    assert pools.taken(output) == [(2, 10)]
    assert pool.state.status(1).reasons
