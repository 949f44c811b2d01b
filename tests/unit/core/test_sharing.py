# SPDX-License-Identifier: Apache-2.0

"""Rounds, limits and urgency in the core."""

import math

import pytest

from fpgapool import strategies
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core.queues import sharing
from fpgapool.strategies import shared
from fpgapool.vocabulary import codes
from tests.harness import pool_invariants
from tests.unit.core import pools

MB = 1e6
#: Of the only slot of a board.
SLOT_BYTES_PER_S = 2.1e9


def make_pool(
    slots: int = 1,
    *,
    strategy: str = "fifo",
    fair: bool = True,
    weights: dict[str, float] | None = None,
    max_wait_s: float | None = None,
    **settings: bool,
) -> pools.Pool:
    """One host; the quantum is 100 MB, as a job's size."""
    options = sharing.ShareOptions(fair, 100 * MB, weights or {})
    inner = getattr(strategies, strategy)({}, 0)
    return pools.make_pool_of(
        shared.SharedStrategy(inner, options, max_wait_s),
        pools.make_host(1, slot_count=slots),
        **settings,
    )


def serve(pool: pools.Pool, count: int, **held_s: float) -> list[str]:
    """Release the only slot again and again; say who had it.

    :param held_s: how long a project's jobs hold it; at once released if not
        given.
    """
    projects = []
    for _ in range(count):
        (held,) = pool.state.assignments().values()
        projects.append(pool.state.view.record(held.holder.id).job.project)
        pool.step(
            events.SlotReleased(held.slot_id, held.generation),
            now=pool.now + held_s.get(projects[-1], 0.0),
        )
    return projects


def submit(pool: pools.Pool, projects: str, **members: float) -> None:
    first = 1000 * len(pool.state.view.jobs.records)
    pool.submit(
        *(
            pools.make_job(first + n, project=project, **members)
            for n, project in enumerate(projects)
        )
    )


def test_a_host_that_comes_up_looks_at_its_own_jobs_only(monkeypatch) -> None:
    """There may be many projects and hosts, and all may come up at once."""
    pool = make_pool(strategy="ra")
    submit(pool, "a")
    pool.submit(
        *(pools.make_job(n, host_id=n, project=f"p{n}") for n in range(2, 9)),
        pools.make_job(9, host_id=2, project="p9"),
    )
    jobs, seen = pool.state.view.jobs, []

    def rehome(group, host_id, now) -> None:
        seen.append((group.lane.project, host_id))
        type(jobs).rehome(jobs, group, host_id, now)

    monkeypatch.setattr(jobs, "rehome", rehome)
    output = pool.step(events.HostUp(pools.make_host(2, slot_count=1)))
    assert seen == [("p2", 2), ("p9", 2)]
    assert pools.taken(output) == [(2, 20)]
    assert jobs.hosts() == {*range(2, 9)}
    pool.step(*(events.JobCancelled(n, "X") for n in range(2, 10)))
    assert not jobs.hosts()


def test_projects_alternate_whoever_came_first() -> None:
    pool = make_pool()
    submit(pool, "aaaaaabbb")
    assert "".join(serve(pool, 8)) == "abababaa"


def test_weights_count() -> None:
    pool = make_pool(weights={"b": 3.0})
    submit(pool, "a" * 20 + "b" * 20)
    assert 8 <= serve(pool, 12).count("b") <= 10


def test_projects_of_a_round_compete_for_each_slot() -> None:
    """A slot goes to who is near it, whoever of them came first."""
    options = sharing.ShareOptions(True, 1000 * MB)
    pool = pools.make_pool_of(
        shared.SharedStrategy(strategies.wra({}, 0), options),
        pools.make_host(1, slot_count=1),
        pools.make_host(2, slot_count=1),
    )
    for host_id in (1, 2):
        pool.submit(pools.make_job(host_id, host_id=host_id, project="c"))
    pool.submit(
        *(pools.make_job(n, host_id=1, project="a") for n in range(10, 15)),
        *(pools.make_job(n, host_id=2, project="b") for n in range(20, 25)),
    )
    for _ in range(4):
        for held in list(pool.state.assignments().values()):
            pool.step(events.SlotReleased(held.slot_id, held.generation))
        assert all(held.local for held in pool.state.assignments().values())


def test_who_has_nothing_left_waits_for_the_others_of_its_round() -> None:
    """Though the strategy prefers its jobs."""
    options = sharing.ShareOptions(True, 300 * MB)
    pool = pools.make_pool_of(
        shared.SharedStrategy(strategies.sjf({}, 0), options),
        pools.make_host(1, slot_count=1),
    )
    submit(pool, "a" * 8, claimed_bytes=100 * MB)
    submit(pool, "b" * 8, claimed_bytes=150 * MB)
    assert "".join(serve(pool, 10)) == "aaabbaaabb"


def test_more_than_the_breadth_have_their_turns_in_order() -> None:
    options = sharing.ShareOptions(True, 100 * MB)
    made = shared.SharedStrategy(strategies.sjf({}, 0), options)
    made.breadth = 2
    pool = pools.make_pool_of(made, pools.make_host(1, slot_count=1))
    submit(pool, "x", claimed_bytes=10 * MB)
    sizes = {"a": 400, "b": 300, "c": 200, "d": 100}
    for project, size in sizes.items():
        submit(pool, project, claimed_bytes=size * MB)
    assert serve(pool, 5) == ["x", "b", "c", "d", "a"]


def test_large_jobs_are_paid_for_in_later_rounds() -> None:
    pool = make_pool()
    submit(pool, "aa", claimed_bytes=1000 * MB)
    submit(pool, "b" * 30)
    served = serve(pool, 14)
    first, second = (n for n, project in enumerate(served) if project == "a")
    assert 10 <= second - first <= 12


def test_who_claims_little_pays_for_the_time_that_slots_are_held() -> None:
    pool = make_pool()
    submit(pool, "a" * 20, claimed_bytes=1.0)
    submit(pool, "b" * 20)
    assert 4 <= serve(pool, 10, a=100 * MB / SLOT_BYTES_PER_S).count("a") <= 6


def test_who_claims_much_pays_for_it_though_slots_are_given_back() -> None:
    pool = make_pool()
    submit(pool, "a" * 20, claimed_bytes=1000 * MB)
    submit(pool, "b" * 20)
    assert serve(pool, 12).count("a") == 2


def charged_bytes(pool: pools.Pool, project: str) -> float:
    """What a project was charged since its first round."""
    accounts = pool.state.view.accounts
    assert accounts is not None
    (account,) = (a for a in accounts.all() if a.project == project)
    share_bytes = account.share_bytes
    return account.round * share_bytes + share_bytes - account.left_bytes


@pytest.mark.parametrize(("held_s", "paid_s"), [(0.5, 1.5), (2.0, 4.0)])
def test_a_session_pays_its_claim_once_over_all_its_slots(
    held_s: float, paid_s: float
) -> None:
    """Its claim pays for 1.5 s; it has two slots, one after the other."""
    pool = make_pool()
    submit(pool, "a", claimed_bytes=1.5 * SLOT_BYTES_PER_S)
    pool.step(now=held_s)
    pool.hear(events.PrepareFailed, 10, "FAILED")
    submit(pool, "a")
    pool.step(now=2 * held_s)
    pool.hear(events.SlotReleased, 10)
    # What is left of a round is lost when the next job comes.
    assert charged_bytes(pool, "a") == pytest.approx(
        paid_s * SLOT_BYTES_PER_S + 100 * MB, abs=100 * MB
    )


def test_a_session_that_goes_on_elsewhere_has_paid_already() -> None:
    pool = make_pool()
    job = pools.make_job(1, project="a", claimed_bytes=SLOT_BYTES_PER_S)
    pool.step(events.JobSubmitted(job, paid_bytes=0.5 * SLOT_BYTES_PER_S))
    submit(pool, "a")
    assert charged_bytes(pool, "a") == 0
    pool.step(now=2.0)
    pool.hear(events.SlotReleased, 10)
    assert charged_bytes(pool, "a") == pytest.approx(
        1.5 * SLOT_BYTES_PER_S + 100 * MB
    )


def test_slots_cost_while_they_are_held() -> None:
    """A project that keeps what it has gets less of the rest."""
    pool = make_pool(3)
    submit(pool, "aab", claimed_bytes=1.0)
    submit(pool, "a" * 40 + "b" * 40)
    rest: list[str] = []
    while len(rest) < 12:
        slot_id, held = max(pool.state.assignments().items())
        rest.append(pool.state.view.record(held.holder.id).job.project)
        pool.step(
            events.SlotReleased(slot_id, held.generation), now=pool.now + 1.0
        )
    assert rest.count("b") >= 11


def test_a_flood_that_never_connects_holds_no_other_project_up() -> None:
    """Each of its sessions claims a byte and keeps its slot for a minute."""
    pool = make_pool(8)
    submit(pool, "a" * 300, claimed_bytes=1.0)
    pool.step(now=1.0)
    submit(pool, "b", claimed_bytes=1.0)
    served: list[str] = []
    while "b" not in served:
        slot_id, held = min(
            pool.state.assignments().items(), key=lambda one: one[1].generation
        )
        began_s = held.started_s
        output = pool.step(
            events.SlotReleased(slot_id, held.generation),
            now=began_s + 60.0 + slot_id / 1000,
        )
        served += [
            pool.state.view.record(job_id).job.project
            for job_id, _ in pools.taken(output)
        ]
    assert len(served) == 1


def test_nothing_is_saved_up_while_away() -> None:
    pool = make_pool()
    submit(pool, "a" * 40)
    serve(pool, 15)
    submit(pool, "b" * 20)
    assert 9 <= serve(pool, 20).count("b") <= 11


def test_who_cannot_use_a_slot_saves_nothing_up_either() -> None:
    pool = make_pool()
    submit(pool, "b" * 20, accelerator="fft")
    submit(pool, "a" * 60)
    assert set(serve(pool, 15)) == {"a"}
    pool.step(
        events.AcceleratorsChanged((pools.AES, model.Accelerator("fft", 1e9)))
    )
    assert 8 <= serve(pool, 20).count("b") <= 12


def test_a_project_at_its_limit_says_so_and_is_passed() -> None:
    pool = make_pool(3, fair=False)
    pool.step(events.SessionLimitsChanged(1))
    submit(pool, "aab")
    assert len(pool.state.assignments()) == 2
    (job,) = pool.state.waiting()
    status = pool.state.status(job.id)
    assert status.reasons == (codes.PROJECT_SESSION_LIMIT,)
    output = pool.step(events.SessionLimitsChanged(1, (("a", None),)))
    assert [job_id for job_id, _ in pools.taken(output)] == [job.id]


def test_others_at_their_limit_are_not_waited_for() -> None:
    """A holder beyond its claim keeps its slot: nobody could have it."""
    pool = make_pool(2, fair=False)
    pool.step(events.SessionLimitsChanged(None, (("b", 1),)))
    submit(pool, "abb")
    holder = next(
        slot_id
        for slot_id, held in pool.state.assignments().items()
        if pool.state.view.record(held.holder.id).job.project == "a"
    )
    assert not pool.hear(events.ClaimExceeded, holder)
    submit(pool, "c")
    assert pool.state.assignments()[holder].revoked


def test_a_job_that_has_waited_for_long_goes_first() -> None:
    pool = make_pool(strategy="sjf", fair=False, max_wait_s=60.0)
    submit(pool, "a")
    pool.submit(pools.make_job(1, claimed_bytes=1e10, project="a"))
    for number in range(2, 30):
        pool.submit(
            pools.make_job(number, arrival_s=50.0, project="b"), now=50.0
        )
    assert serve(pool, 3) == ["a", "b", "b"]
    assert pool.state.queue_position(1) > 0
    output = pool.step(now=60.0)
    assert pool.state.queue_position(1) == 0
    assert not pools.taken(output)
    serve(pool, 1)
    (held,) = pool.state.assignments().values()
    assert held.holder.id == 1


def test_a_job_that_becomes_urgent_wakes_the_pool() -> None:
    pool = make_pool(max_wait_s=60.0)
    submit(pool, "a")
    output = pool.submit(pools.make_job(1, arrival_s=10.0), now=10.0)
    pool_invariants.check(pool.state)
    wakes = [o for o in output if isinstance(o, instructions.WakeAt)]
    assert not wakes or wakes[-1].time_s <= 70.0
    output = pool.step(events.Wake(), now=69.0)
    (wake,) = output
    assert isinstance(wake, instructions.WakeAt)
    assert wake.time_s == pytest.approx(70.0)
    assert wake.time_s <= 70.0
    assert pool.step(events.Wake(), now=70.0) == []
    assert pool.state.view.record(1).urgent


@pytest.mark.parametrize(
    ("quantum_bytes", "weights"),
    [(0.0, {}), (math.inf, {}), (1.0, {"a": 0.0}), (1.0, {"a": -1.0})],
)
def test_bad_shares_are_refused(
    quantum_bytes: float, weights: dict[str, float]
) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        sharing.ShareOptions(True, quantum_bytes, weights)


def test_a_bad_wait_is_refused() -> None:
    with pytest.raises(ValueError, match="max_wait_s"):
        shared.SharedStrategy(
            strategies.fifo({}, 0), sharing.ShareOptions(), max_wait_s=0.0
        )


def test_projects_that_are_done_are_forgotten() -> None:
    pool = make_pool()
    for number in range(50):
        pool.submit(pools.make_job(number, project=f"p{number}"))
        serve(pool, 1)
    accounts = pool.state.view.accounts
    assert all(account.round > accounts.round for account in accounts.all())
    submit(pool, "qqq")
    serve(pool, 3)
    assert [account.project for account in accounts.all()] == ["q"]


def test_a_very_large_debt_costs_no_more_than_a_small_one() -> None:
    pool = make_pool()
    submit(pool, "a")
    accounts = sharing.Accounts(sharing.ShareOptions(True, 1.0))
    (held,) = pool.state.view.slots.assignments.values()
    accounts.give("a", held, 2.0**60 + 0.5, in_round=False)
    (account,) = accounts.all()
    assert account.round >= 2**60
    assert 0 < account.left_bytes <= 1.0
