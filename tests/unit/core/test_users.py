# SPDX-License-Identifier: Apache-2.0

"""Users of one project take turns, and wait at their limits."""

import collections
import dataclasses
import heapq
import itertools
from collections import abc

import pytest

from fpgapool import strategies
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import standing
from fpgapool.core.queues import sharing
from fpgapool.core.queues import users as project_users
from fpgapool.strategies import shared
from fpgapool.vocabulary import codes
from tests.harness import pool_invariants
from tests.unit.core import pools

MB = 1e6
GB = 1e9
STRATEGIES = (
    *("fifo", "sjf", "edf", "random", "wa", "ra", "wra", "affinity"),
    *("era", "auto", "hjf"),
)
IN_TURNS = model.UserRule(in_turns=True)


def make_pool(
    rule: model.UserRule = IN_TURNS,
    *,
    strategy: str = "fifo",
    slots: int = 1,
    hosts: int = 1,
    fair: bool = False,
    max_wait_s: float | None = None,
    limit: int | None = None,
) -> pools.Pool:
    """A pool whose projects have this rule for their users."""
    made = shared.SharedStrategy(
        getattr(strategies, strategy)({}, 0),
        sharing.ShareOptions(fair),
        max_wait_s,
    )
    pool = pools.make_pool_of(
        made, *(pools.make_host(n + 1, slot_count=slots) for n in range(hosts))
    )
    set_rule(pool, rule, limit)
    return pool


def set_rule(
    pool: pools.Pool, rule: model.UserRule, limit: int | None = None
) -> list[instructions.Instruction]:
    return pool.step(
        events.SessionLimitsChanged(default=limit, default_users=rule)
    )


def make_job(number: int, user: str, **members: object) -> model.Job:
    return pools.make_job(number, user=user, project="p", **members)


def submit(
    pool: pools.Pool, users: abc.Iterable[str], **members: object
) -> list[str]:
    """Submit a job of each user; return who got slots."""
    first = 1000 * (1 + len(pool.state.view.jobs.records))
    return served(
        pool,
        pool.submit(
            *(
                make_job(first + n, user, **members)
                for n, user in enumerate(users)
            )
        ),
    )


def served(
    pool: pools.Pool, output: list[instructions.Instruction]
) -> list[str]:
    return [
        pool.state.view.record(job_id).job.user
        for job_id, _ in pools.taken(output)
    ]


def release(pool: pools.Pool, slot_id: int, **when: float) -> list[str]:
    generation = pool.generation(slot_id)
    return served(
        pool, pool.step(events.SlotReleased(slot_id, generation), **when)
    )


def serve(pool: pools.Pool, count: int) -> str:
    """Release the only slot again and again; return who then gets it."""
    return "".join(user for _ in range(count) for user in release(pool, 10))


@dataclasses.dataclass
class Course:
    """What happened to the jobs of one pool.

    :ivar waits_s: by user, in the order of their starts.
    :ivar busy_bytes: what each user got while all of them waited.
    """

    waits_s: dict[str, list[float]]
    busy_bytes: collections.Counter[str]


def run(pool: pools.Pool, jobs: list[model.Job]) -> Course:
    """Let slots process their jobs until none is left."""
    course = Course(collections.defaultdict(list), collections.Counter())
    arrivals = sorted(jobs, key=lambda job: (job.arrival_s, job.id))
    waiting = collections.Counter[str]()
    users = {job.user for job in jobs}
    ends: list[tuple[float, int, int]] = []
    while arrivals or ends:
        now = min(
            [job.arrival_s for job in arrivals[:1]]
            + [end_s for end_s, _, _ in ends[:1]]
        )
        batch: list[events.Event] = []
        while arrivals and arrivals[0].arrival_s <= now:
            job = arrivals.pop(0)
            waiting[job.user] += 1
            batch.append(events.JobSubmitted(job))
        while ends and ends[0][0] <= now:
            batch.append(events.SlotReleased(*heapq.heappop(ends)[1:]))
        all_wait = all(waiting[user] for user in users)
        # Checking the whole pool in each step would take a minute.
        for order in pool.state.step(batch, now):
            if isinstance(order, instructions.Program):
                job = pool.state.view.record(order.job_id).job
                slot = pool.state.view.slots.slots[order.slot_id]
                end_s = now + job.claimed_bytes / slot.bytes_per_s
                heapq.heappush(ends, (end_s, order.slot_id, order.generation))
                waiting[job.user] -= 1
                course.waits_s[job.user].append(now - job.arrival_s)
                if all_wait:
                    course.busy_bytes[job.user] += job.claimed_bytes
    pool_invariants.check(pool.state)
    return course


@pytest.mark.parametrize("fair", [False, True])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_flood_of_one_user_does_not_delay_another(strategy, fair) -> None:
    """As if their jobs alternated, whatever the strategy."""
    pool = make_pool(strategy=strategy, slots=2, hosts=2, fair=fair)
    hosts = itertools.cycle((1, 2, None))
    jobs = [make_job(n, "a", host_id=next(hosts)) for n in range(200)]
    later_s = 0.3
    jobs += [
        make_job(500 + n, "b", host_id=next(hosts), arrival_s=later_s)
        for n in range(10)
    ]
    waits_s = run(pool, jobs).waits_s["b"]
    # Four slots of 1.05 GB/s start a job of 100 MB each 24 ms; b gets half.
    between_s = 2 * 100 * MB / (4 * 1.05 * GB)
    alternating_s = sum(n * between_s for n in range(1, 11)) / 10
    assert sum(waits_s) / 10 <= 1.25 * alternating_s
    without = make_pool(
        model.UserRule(), strategy=strategy, slots=2, hosts=2, fair=fair
    )
    if strategy not in ("random", "hjf"):
        waits_s = run(without, jobs).waits_s["b"]
        assert sum(waits_s) / 10 > 2 * alternating_s


@pytest.mark.parametrize("fair", [False, True])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_users_with_jobs_of_all_sizes_get_equal_bytes(strategy, fair) -> None:
    pool = make_pool(strategy=strategy, slots=2, hosts=2, fair=fair)
    sizes = {"small": 20 * MB, "medium": 60 * MB, "large": 200 * MB}
    hosts = itertools.cycle((1, 2, None))
    jobs = [
        make_job(
            1000 * number + n,
            user,
            claimed_bytes=size_bytes,
            host_id=next(hosts),
        )
        for number, (user, size_bytes) in enumerate(sizes.items())
        for n in range(round(6 * GB / size_bytes))
    ]
    got = run(pool, jobs).busy_bytes
    assert min(got.values()) > 4 * GB
    assert max(got.values()) <= 1.2 * min(got.values())


def test_turns_begin_when_both_wait() -> None:
    """Nobody saves turns, or pays for slots that nobody else wanted."""
    pool = make_pool()
    submit(pool, "aaaaaa")
    assert serve(pool, 3) == "aaa"
    submit(pool, "bbb")
    assert serve(pool, 5) == "babab"


def test_a_larger_job_costs_more_turns() -> None:
    pool = make_pool()
    submit(pool, "aaaa", claimed_bytes=300 * MB)
    submit(pool, "bbbbbbbbb", claimed_bytes=100 * MB)
    assert serve(pool, 8) == "bbbabbba"


def test_claims_without_end_leave_turns_as_exact_as_before() -> None:
    """A sum of 10**24 as a float is a multiple of 134 MB."""
    pool = make_pool()
    submit(pool, "ccc", claimed_bytes=1e24)
    assert serve(pool, 1) == "c"
    submit(pool, "a" * 9, claimed_bytes=60 * MB)
    submit(pool, "b" * 9, claimed_bytes=120 * MB)
    assert serve(pool, 7).count("b") >= 2


def test_no_more_than_some_users_are_remembered() -> None:
    """Each of them owes, as the virtual time stands still."""
    most = project_users.MOST_ABSENT
    known = project_users.Users(IN_TURNS)
    known.give((0, "keeper"), 1.0, in_turn=True)
    for number in range(5 * most):
        rank = (0, f"user-{number}")
        known.join(rank)
        known.give(rank, GB if number else 2 * GB, in_turn=True)
        known.leave(rank)
        known.take_back(rank[1])
    assert len(known._meters) < 3 * most
    # Who owes most is not forgotten.
    known.join((0, "user-0"))
    known.join((0, "new"))
    assert list(known.in_turn()) == [(0, "new"), (0, "user-0")]


def test_jobs_that_leave_the_queue_cost_nothing() -> None:
    pool = make_pool()
    submit(pool, "abab")
    cancelled = [job.id for job in pool.state.waiting() if job.user == "b"]
    pool.step(*(events.JobCancelled(job_id, "X") for job_id in cancelled))
    submit(pool, "bb")
    assert serve(pool, 3) == "bab"


def test_a_job_that_yields_does_not_pay_again() -> None:
    pool = make_pool()
    submit(pool, "a")
    job = pool.state.view.record(1000).job
    submit(pool, "ab", claimed_bytes=50 * MB)
    hold = pool.state.hold(10)
    assert hold is not None
    pool.step(
        events.SlotReleased(10, hold.generation),
        events.JobSubmitted(job, paid_bytes=100 * MB, yields=True),
    )
    assert served_now(pool) == "b"
    assert serve(pool, 2) == "aa"
    users = pool.state.view.accounts.users["p"]
    # 100 MB for the first job, once, and 50 MB for the second.
    assert users._meters[0, "a"].tag_bytes == 150 * MB


def served_now(pool: pools.Pool) -> str:
    hold = pool.state.hold(10)
    assert hold is not None
    assert hold.record is not None
    return hold.record.job.user


def test_a_higher_priority_is_before_all_turns() -> None:
    pool = make_pool()
    submit(pool, "aa")
    submit(pool, "bb")
    submit(pool, "aa", priority=1)
    assert serve(pool, 5) == "aabab"


def test_urgent_jobs_do_not_wait_for_turns() -> None:
    pool = make_pool(max_wait_s=10.0)
    submit(pool, "aaaa")
    pool.step(events.Wake(), now=11.0)
    submit(pool, "bb", arrival_s=11.0)
    assert serve(pool, 5) == "aaabb"


def test_holding_a_slot_costs_turns() -> None:
    """A claim that is too small does not help."""
    for fair in (False, True):
        pool = make_pool(fair=fair)
        submit(pool, "aaaabbbb", claimed_bytes=1.0)
        release(pool, 10, now=10.0)
        assert serve(pool, 4) == "bbba"


def test_slots_that_are_held_cost_turns_meanwhile() -> None:
    """Of a project that competed in vain for the slot before."""
    pool = make_pool(slots=2, fair=True)
    submit(pool, "a", claimed_bytes=1.0)
    submit(pool, "b", claimed_bytes=200 * MB)
    for number in (1, 2):
        pool.submit(pools.make_job(number, project=f"q{number}"))
    assert release(pool, 11) == [""]
    submit(pool, "aaabbb")
    assert release(pool, 11, now=0.1) == [""]
    # By then, its slot of 1.05 GB/s has cost a more than b had.
    assert release(pool, 11, now=2.1) == ["b"]


def test_after_a_restart_slots_that_are_held_count() -> None:
    pool = make_pool(slots=2)
    for number, slot_id in enumerate((10, 11)):
        pool.step(
            events.AssignmentRestored(
                slot_id=slot_id,
                host_id=1,
                device_id=1,
                job=make_job(number, "a"),
                generation=number + 1,
                phase=model.Phase.ACTIVE,
            )
        )
    submit(pool, "aabbb")
    got = [*release(pool, 10), *release(pool, 11), *release(pool, 10)]
    assert got == ["b", "b", "a"]


def test_groups_take_turns_as_one_more_user() -> None:
    pool = make_pool()
    submit(pool, "aaa")
    pool.submit(
        *(pools.make_job(n, project="p", arrival_s=1.0) for n in (1, 2)),
    )
    assert [release(pool, 10) for _ in range(4)] == [[""], ["a"], [""], ["a"]]


def test_users_of_other_projects_do_not_matter() -> None:
    pool = make_pool()
    submit(pool, "aaa")
    pool.submit(
        *(pools.make_job(n, project="q", user="a") for n in (1, 2)),
    )
    submit(pool, "b")
    assert serve(pool, 5) == "aabaa"


def test_a_rule_that_changes_takes_effect_at_once() -> None:
    pool = make_pool(model.UserRule())
    submit(pool, "aaaa")
    submit(pool, "bb")
    set_rule(pool, IN_TURNS)
    assert serve(pool, 2) in ("ab", "ba")
    set_rule(pool, model.UserRule())
    assert serve(pool, 3) == "aab"
    assert not pool.state.view.accounts.users


# -- limits -----------------------------------------------------------------


@pytest.mark.parametrize("fair", [False, True])
@pytest.mark.parametrize("in_turns", [False, True])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_user_at_its_limit_waits(strategy, in_turns, fair) -> None:
    pool = make_pool(
        model.UserRule(2, in_turns), strategy=strategy, slots=4, fair=fair
    )
    assert submit(pool, "aaaa", host_id=1) == ["a", "a"]
    waits = pool.state.waiting()[0].id
    assert pool.state.status(waits).reasons == (codes.USER_SESSION_LIMIT,)
    assert submit(pool, "bab", host_id=1) == ["b", "b"]
    assert release(pool, first_of(pool, "b")) == []
    assert release(pool, first_of(pool, "a")) == ["a"]
    assert submit(pool, "c", host_id=1) == ["c"]


def test_the_limits_of_users_and_projects_hold_together() -> None:
    pool = make_pool(model.UserRule(2), slots=4, limit=3)
    assert submit(pool, "aaabb") == ["a", "a", "b"]
    waits = pool.state.waiting()[-1].id
    reasons = pool.state.status(waits).reasons
    assert reasons == (codes.PROJECT_SESSION_LIMIT,)
    assert release(pool, first_of(pool, "a")) == ["a"]


def test_without_turns_the_order_of_the_strategy_holds() -> None:
    pool = make_pool(model.UserRule(5))
    submit(pool, "aaabba")
    assert serve(pool, 5) == "aabba"


def test_many_users_with_limits_all_get_slots() -> None:
    """More than compete at once."""
    pool = make_pool(model.UserRule(1))
    users = [chr(ord("A") + n) for n in range(100)]
    submit(pool, "".join(users))
    assert sorted(serve(pool, 99)) == sorted(users[1:])


def test_urgent_jobs_keep_the_limits_of_users() -> None:
    pool = make_pool(model.UserRule(1), slots=3, max_wait_s=10.0)
    submit(pool, "aaa")
    assert served(pool, pool.step(events.Wake(), now=11.0)) == []
    assert submit(pool, "bb", arrival_s=0.0) == ["b"]
    assert release(pool, first_of(pool, "a")) == ["a"]


def test_urgent_jobs_alone_keep_the_limits_of_users() -> None:
    """Nobody of the project has a slot, or waits without being urgent."""
    pool = make_pool(model.UserRule(1), slots=2, max_wait_s=10.0)
    pool.submit(*(pools.make_job(n, project="q", user=f"{n}") for n in (1, 2)))
    submit(pool, "aab")
    pool.step(events.Wake(), now=11.0)
    assert release(pool, 10) == ["a"]
    assert release(pool, 11) == ["b"]


def test_a_limit_that_changes_takes_effect_at_once() -> None:
    pool = make_pool(model.UserRule(1), slots=4)
    submit(pool, "aaaaa")
    assert served(pool, set_rule(pool, model.UserRule(3))) == ["a", "a"]
    set_rule(pool, model.UserRule(1))
    assert [release(pool, n) for n in (10, 11)] == [[], []]
    assert served(pool, set_rule(pool, model.UserRule())) == ["a", "a"]


def test_where_a_user_stands() -> None:
    pool = make_pool(model.UserRule(2, in_turns=True), slots=2)
    submit(pool, "aa")
    submit(pool, "abcb")
    found = {
        job.user: standing.of_job(pool.state.view, job.id)
        for job in pool.state.waiting()
    }
    assert (found["a"].user_slots, found["a"].user_limit) == (2, 2)
    assert [found[user].users_before for user in "bc"] == [0, 1]
    assert (found["b"].own, found["b"].higher_priority) == (1, 0)
    set_rule(pool, model.UserRule(2))
    job = pool.state.waiting()[-1]
    found = standing.of_job(pool.state.view, job.id)
    assert (found.users_before, found.user_slots) == (None, 0)
    # Those of users below their limits compete, and a's do not.
    assert (found.own, found.competing) == (2, 3)


def test_groups_have_no_limit_of_a_user() -> None:
    pool = make_pool(model.UserRule(1), slots=4)
    assert submit(pool, ["", "", ""]) == ["", "", ""]


def test_sets_wait_at_the_limits_of_their_users() -> None:
    pool = make_pool(model.UserRule(2), slots=4)
    assert submit(pool, "a") == ["a"]
    submit(pool, "aa", together=model.Together("s", 2))
    # The user's own jobs do not overtake its set; others do.
    assert submit(pool, "ab") == ["b"]
    assert release(pool, first_of(pool, "a")) == ["a", "a"]


def test_sets_above_the_limits_of_their_users_are_refused() -> None:
    pool = make_pool(model.UserRule(2), slots=4)
    output = pool.submit(
        *(make_job(n, "a", together=model.Together("s", 3)) for n in range(3))
    )
    refused = [o for o in output if isinstance(o, instructions.Reject)]
    assert {order.code for order in refused} == {codes.SET_IMPOSSIBLE}
    assert "for user a" in refused[0].message


def test_a_holder_keeps_its_slot_if_only_users_at_limits_wait() -> None:
    """Who has more than it claimed gives way only to who may come."""
    pool = make_pool(model.UserRule(1), slots=2)
    submit(pool, "ab")
    for slot_id in (10, 11):
        pool.hear(events.SlotReady, slot_id)
        pool.hear(events.HolderAttached, slot_id)
    submit(pool, "a")
    b, a = first_of(pool, "b"), first_of(pool, "a")
    assert pool.hear(events.ClaimExceeded, b) == []
    revoked = pool.hear(events.ClaimExceeded, a)
    assert [type(order) for order in revoked] == [instructions.Revoke]


def first_of(pool: pools.Pool, user: str) -> int:
    return next(
        slot_id
        for slot_id, hold in pool.state.view.slots.assignments.items()
        if hold.record is not None and hold.record.job.user == user
    )


def test_reserved_slots_keep_the_limits_of_users() -> None:
    """The pool's invariants count no such job as one that could have it."""
    pool = make_pool(model.UserRule(1), slots=2)
    pool.submit(make_job(1, "a", instance_id="i"))
    pool.step(events.ReservationsChanged(((1, (("i", 2),)),)))
    assert submit(pool, "ab", instance_id="i") == ["b"]
    assert submit(pool, "a", instance_id="i") == []
    assert release(pool, first_of(pool, "b")) == []
    assert release(pool, first_of(pool, "a")) == ["a"]


def test_who_is_held_back_no_longer_gets_its_reserved_slot_at_once() -> None:
    pool = make_pool(model.UserRule(2), slots=3)
    pool.step(events.ReservationsChanged(((1, (("i", 1),)),)))
    assert submit(pool, "ab") == ["a", "b"]
    submit(pool, "aa", together=model.Together("s", 2))
    # The set is due, and has no room, so that its user gets no other slots.
    assert release(pool, first_of(pool, "b")) == []
    assert submit(pool, "b") == ["b"]
    assert submit(pool, "a", instance_id="i") == []
    # It has room, but too few slots.
    assert release(pool, first_of(pool, "a")) == ["a"]
