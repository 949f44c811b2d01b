# SPDX-License-Identifier: Apache-2.0

"""Slots that change hands at chunk borders, and priorities."""

import dataclasses
import typing

import pytest

from fpgapool import strategies
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core.queues import sharing
from fpgapool.strategies import shared
from fpgapool.vocabulary import codes
from tests.unit.core import pools

MB = 10**6
SMALL_SHARE = sharing.Options(True, 10 * MB)
LIMITED = sharing.Options(False)


def make_pool(
    strategy: str = "fifo",
    options: sharing.Options = SMALL_SHARE,
    *,
    gain: float | None = 0.25,
    stateless: bool = True,
    slots: int = 1,
    priorities: tuple[tuple[str, int | None], ...] = (),
    **slot: typing.Any,
) -> pools.Pool:
    """A pool of one board whose projects share it."""
    inner = getattr(strategies, strategy)({"slot_choice": "index"}, 0)
    pool = pools.make_pool_of(
        shared.SharedStrategy(inner, options, None, gain),
        pools.make_host(1, slot_count=slots, **slot),
    )
    aes = dataclasses.replace(pools.AES, stateless=stateless)
    pool.step(
        events.AcceleratorsChanged((aes, pools.FFT)),
        events.SessionLimitsChanged(64, (), 0, priorities),
    )
    return pool


def activate(pool: pools.Pool, slot_id: int = 10) -> None:
    """Let the holder of a slot connect."""
    pool.hear(events.SlotReady, slot_id)
    pool.hear(events.HolderAttached, slot_id)


def border(
    pool: pools.Pool, done_bytes: int = 1 * MB, slot_id: int = 10
) -> list[tuple[int, int, str]]:
    """Let a holder come to a border: slots and jobs that yield, and why."""
    output = pool.hear(events.QuantumDone, slot_id, done_bytes)
    return [
        (each.slot_id, each.job_id, each.reason)
        for each in output
        if isinstance(each, instructions.Yield)
    ]


def give_back(
    pool: pools.Pool, job: model.Job, done_bytes: float = 1 * MB
) -> list[tuple[int, int]]:
    """Release a slot whose job waits again; which job gets which slot."""
    slot_id = next(
        one.slot_id
        for one in pool.state.assignments().values()
        if one.holder.id == job.id
    )
    again = dataclasses.replace(job, done_bytes=done_bytes)
    return pools.taken(
        pool.step(
            events.SlotReleased(slot_id, pool.generation(slot_id)),
            events.JobSubmitted(again, job.claimed_bytes - done_bytes, True),
        )
    )


def test_a_higher_priority_gets_the_slot_at_the_next_border() -> None:
    pool = make_pool()
    low = pools.make_job(1, project="p")
    pool.submit(low)
    activate(pool)
    pool.submit(pools.make_job(2, project="p", priority=5))
    assert not pool.state.assignments()[10].revoked, "not within a chunk"
    assert border(pool) == [(10, 1, codes.PREEMPTED)]
    assert border(pool) == [], "it is leaving already"
    assert give_back(pool, low) == [(2, 10)]
    assert [job.id for job in pool.state.waiting()] == [1]
    assert pool.state.view.jobs.records[1].done_bytes == 1 * MB
    activate(pool)
    assert border(pool) == [], "the lower one never takes it back"


def test_a_border_is_that_of_its_holder_only() -> None:
    pool = make_pool(priorities=(("q", None),))
    pool.submit(pools.make_job(1, project="p"))
    activate(pool)
    # It uses up the share of its project.
    pool.submit(pools.make_job(2, project="r", claimed_bytes=90 * MB))
    pool.submit(pools.make_job(3, project="q", priority=5))
    generation = pool.generation(10)
    output = pool.step(
        events.QuantumDone(10, generation, 1 * MB),
        events.SlotReleased(10, generation),
    )
    assert pools.taken(output) == [(2, 10)]
    assert not pool.state.assignments()[10].revoked
    activate(pool)
    assert border(pool) == [(10, 2, codes.PREEMPTED)]


@pytest.mark.parametrize("options", [SMALL_SHARE, LIMITED])
def test_priorities_order_the_jobs_of_a_project(
    options: sharing.Options,
) -> None:
    pool = make_pool(options=options)
    pool.submit(
        *(
            pools.make_job(number, project="p", priority=priority)
            for number, priority in enumerate([0, 1, -3, 7, 0, 7])
        )
    )
    served = []
    while pool.state.assignments():
        holder = pool.state.assignments()[10].holder.id
        served.append(holder)
        pool.hear(events.SlotReleased, 10)
    assert served == [3, 5, 1, 0, 4, 2]


@pytest.mark.parametrize("options", [SMALL_SHARE, LIMITED])
def test_priorities_do_not_order_projects(options: sharing.Options) -> None:
    pool = make_pool(options=options)
    pool.submit(pools.make_job(1, project="x"))
    pool.submit(
        pools.make_job(2, project="a"),
        pools.make_job(3, project="b", priority=1000),
        pools.make_job(4, project="b", priority=3),
    )
    assert pools.taken(pool.hear(events.SlotReleased, 10)) == [(2, 10)]


def test_a_lower_priority_uses_the_slots_that_a_higher_one_cannot() -> None:
    pool = make_pool(slots=2)
    pool.submit(
        pools.make_job(1, project="p", priority=5, accelerator="fft"),
        pools.make_job(2, project="p", priority=2),
        pools.make_job(3, project="p", priority=-2),
    )
    assert sorted(pool.state.assignments()) == [10, 11]
    assert [job.id for job in pool.state.waiting()] == [1]


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({"gain": None}, {}),
        ({"stateless": False}, {}),
        ({}, {"priority": 0}),
        ({}, {"priority": -1}),
        ({}, {"accelerator": "fft"}),
    ],
    ids=["off", "stateful", "equal", "lower", "unfit"],
)
def test_the_holder_stays(
    options: dict[str, typing.Any], settings: dict[str, typing.Any]
) -> None:
    pool = make_pool(**options)
    pool.submit(pools.make_job(1, project="p"))
    activate(pool)
    wanted = {"priority": 9, "project": "p"} | settings
    pool.submit(pools.make_job(2, **wanted))
    assert border(pool) == []


def test_a_challenger_takes_one_slot_only() -> None:
    pool = make_pool(slots=2)
    for number in (1, 2):
        pool.submit(pools.make_job(number, project="p"))
        activate(pool, 9 + number)
    pool.submit(pools.make_job(3, project="p", priority=1))
    assert len(border(pool)) == 1
    assert border(pool, slot_id=11) == []
    pool.submit(pools.make_job(4, project="p", priority=1))
    assert len(border(pool, slot_id=11)) == 1


def test_whose_challenger_is_gone_may_go_on() -> None:
    pool = make_pool()
    low = pools.make_job(1, project="p")
    pool.submit(low)
    activate(pool)
    pool.submit(pools.make_job(2, project="p", priority=1))
    assert len(border(pool)) == 1
    pool.step(events.JobCancelled(2, codes.CANCELLED_BY_CLIENT))
    assert give_back(pool, low) == [(1, 10)]


def test_the_slot_goes_to_the_challenger_and_to_no_other_project() -> None:
    pool = make_pool()
    low = pools.make_job(1, project="p")
    pool.submit(low)
    activate(pool)
    pool.submit(
        pools.make_job(2, project="q"),
        pools.make_job(3, project="p", priority=1),
    )
    assert border(pool) == [(10, 1, codes.PREEMPTED)]
    assert give_back(pool, low) == [(3, 10)]


def test_a_claim_is_charged_once() -> None:
    pool = make_pool()
    # It has no slot and waits, so that the account is not forgotten.
    pool.submit(pools.make_job(9, project="p", accelerator="fft"))
    low = pools.make_job(1, project="p", claimed_bytes=100 * MB)
    pool.submit(low)
    for done in range(1, 11):
        activate(pool)
        high = 10 + done
        pool.submit(
            pools.make_job(high, project="p", priority=1, claimed_bytes=MB)
        )
        assert border(pool, done * MB) == [(10, 1, codes.PREEMPTED)]
        assert give_back(pool, low, done * MB) == [(high, 10)]
        output = pool.hear(events.SlotReleased, 10)
        assert pools.taken(output) == [(1, 10)]
        assert pool.state.hold(10).record.job.claimed_bytes == 100 * MB
    [account] = pool.state.view.accounts.all()
    charged_bytes = (account.round + 1) * account.share_bytes
    charged_bytes -= account.left_bytes
    assert charged_bytes == (100 + 10) * MB


@pytest.mark.parametrize(
    ("holder", "challenger", "limits", "yields"),
    [
        (0, 9, (), False),
        (0, 9, (("q", 3),), True),
        (0, 9, (("q", None),), True),
        (5, 9, (("q", 3), ("p", 3)), False),
        (9, 9, (("q", 3),), True),
        (-1, 0, (), True),
        (0, -1, (("q", 3),), False),
    ],
)
def test_across_projects_priorities_count_up_to_the_limit(
    holder: int,
    challenger: int,
    limits: tuple[tuple[str, int | None], ...],
    yields: bool,
) -> None:
    pool = make_pool(priorities=limits)
    pool.submit(pools.make_job(1, project="p", priority=holder))
    activate(pool)
    pool.submit(pools.make_job(2, project="q", priority=challenger))
    assert bool(border(pool)) == yields


@pytest.mark.parametrize(
    "options", [LIMITED, sharing.Options(True, 1000 * MB)]
)
def test_a_project_within_its_share_keeps_its_slots(
    options: sharing.Options,
) -> None:
    pool = make_pool(options=options, priorities=(("q", None),))
    pool.submit(pools.make_job(1, project="p"))
    activate(pool)
    pool.submit(pools.make_job(2, project="q", priority=9))
    assert border(pool) == []


def test_a_project_above_its_share_takes_no_slots_of_others() -> None:
    pool = make_pool(slots=2, priorities=(("q", None),))
    pool.submit(pools.make_job(1, project="p"))
    activate(pool)
    pool.submit(pools.make_job(2, project="q"))
    activate(pool, 11)
    pool.submit(pools.make_job(3, project="q", priority=9))
    assert border(pool) == []
    assert len(border(pool, slot_id=11)) == 1, "its own it may take"


def test_a_project_at_its_limit_takes_only_its_own_slots() -> None:
    pool = make_pool(slots=2, priorities=(("q", None),))
    pool.step(events.SessionLimitsChanged(64, (("q", 1),), 0, (("q", None),)))
    pool.submit(pools.make_job(1, project="p", claimed_bytes=500 * MB))
    activate(pool)
    pool.submit(pools.make_job(2, project="q", claimed_bytes=MB))
    activate(pool, 11)
    pool.submit(pools.make_job(3, project="q", claimed_bytes=MB, priority=1))
    assert border(pool) == []
    assert border(pool, slot_id=11) == [(11, 2, codes.PREEMPTED)]
    mine = pools.make_job(2, project="q", claimed_bytes=MB)
    assert give_back(pool, mine, 0.0) == [(3, 11)]


def seconds(work_s: float) -> float:
    """The bytes of so much work."""
    return work_s * pools.AES.peak_bytes_per_s


@pytest.mark.parametrize("strategy", ["edf", "hjf"])
@pytest.mark.parametrize(
    ("work_s", "deadline_s", "yields"),
    [
        (10.0, 20.0, True),
        (10.0, 90.0, False),
        (30.0, 20.0, False),
        (10.0, None, False),
    ],
    ids=["urgent", "not urgent", "hopeless", "no deadline"],
)
def test_a_deadline_takes_the_slot_of_its_project(
    strategy: str, work_s: float, deadline_s: float | None, yields: bool
) -> None:
    pool = make_pool(strategy)
    pool.submit(
        pools.make_job(
            1, project="p", claimed_bytes=seconds(10), deadline_s=80.0
        )
    )
    activate(pool)
    pool.submit(
        pools.make_job(
            2,
            project="p",
            claimed_bytes=seconds(work_s),
            deadline_s=deadline_s,
        )
    )
    assert bool(border(pool, 0)) == yields


def test_without_enough_gain_the_holder_stays() -> None:
    pool = make_pool("hjf")
    pool.submit(
        pools.make_job(
            1, project="p", claimed_bytes=seconds(10), deadline_s=100.0
        )
    )
    activate(pool)
    # Stress of 0.12 and 0.126, against 0.1.
    for number, work_s, yields in ((2, 12.0, False), (3, 12.6, True)):
        pool.submit(
            pools.make_job(
                number,
                project="p",
                claimed_bytes=seconds(work_s),
                deadline_s=100.0,
            )
        )
        assert bool(border(pool, 0)) == yields


def test_what_a_client_has_computed_itself_counts() -> None:
    """It never counts twice, nor after the job has its slot."""
    pool = make_pool("hjf")
    pool.submit(
        pools.make_job(
            1, project="p", claimed_bytes=seconds(10), deadline_s=100.0
        )
    )
    activate(pool)
    pool.submit(
        pools.make_job(
            2, project="p", claimed_bytes=seconds(20), deadline_s=100.0
        )
    )
    for done_s in (10, 5):
        done_bytes = int(seconds(done_s))
        assert pool.step(events.JobProgress(2, done_bytes)) == []
    assert border(pool, 0) == []
    pool.step(events.JobProgress(1, int(seconds(9))))
    pool.step(events.JobProgress(99, 1))
    assert pool.state.view.jobs.records[1].done_bytes == 0


def test_programming_counts_for_who_has_a_deadline() -> None:
    pool = make_pool("hjf", programming_time_s=15.0)
    pool.submit(
        pools.make_job(1, project="p", claimed_bytes=seconds(10)),
    )
    activate(pool)
    other = dataclasses.replace(pools.AES, name="other", stateless=True)
    aes = dataclasses.replace(pools.AES, stateless=True)
    pool.step(events.AcceleratorsChanged((aes, other)))
    hopeless = {"claimed_bytes": seconds(10), "deadline_s": 20.0}
    pool.submit(
        pools.make_job(2, project="p", accelerator="other", **hopeless)
    )
    assert border(pool, 0) == []
    pool.submit(pools.make_job(3, project="p", **hopeless))
    assert len(border(pool, 0)) == 1


def test_strategies_without_deadlines_preempt_by_priority_only() -> None:
    pool = make_pool("sjf")
    pool.submit(pools.make_job(1, project="p"))
    activate(pool)
    pool.submit(
        pools.make_job(2, project="p", claimed_bytes=MB, deadline_s=1.0)
    )
    assert border(pool) == []


def test_no_more_remote_jobs_come_than_their_limit() -> None:
    pool = make_pool("wra", slots=2)
    pool.step(events.HostUp(pools.make_host(2, slot_count=0)))
    for number, host_id in ((1, 1), (2, 2)):
        pool.submit(pools.make_job(number, host_id, project="p"))
        activate(pool, 9 + number)
    wanted = {"host_id": 2, "project": "p", "priority": 1}
    pool.submit(pools.make_job(3, **wanted))
    assert border(pool) == [], "it would be the second remote one"
    assert border(pool, slot_id=11) == [(11, 2, codes.PREEMPTED)]
    pool.submit(pools.make_job(4, **(wanted | {"host_id": 1})))
    assert border(pool) == [(10, 1, codes.PREEMPTED)]


def test_late_word_of_a_border_changes_nothing() -> None:
    pool = make_pool()
    pool.submit(pools.make_job(1, project="p"))
    activate(pool)
    pool.submit(pools.make_job(2, project="p", priority=1))
    old = pool.generation(10)
    assert pool.step(events.QuantumDone(99, old, 1)) == []
    assert pool.step(events.QuantumDone(10, old + 1, 1)) == []
    pool.step(events.SlotFaulty(10, codes.SLOT_FAULTY))
    assert border(pool) == [], "nobody could use the slot"


def test_a_holder_whose_accelerator_is_deleted_stays() -> None:
    pool = make_pool()
    pool.submit(pools.make_job(1, project="p"))
    activate(pool)
    pool.submit(pools.make_job(2, project="p", accelerator="fft", priority=1))
    fft = dataclasses.replace(pools.FFT, shapes=frozenset())
    output = pool.step(
        events.QuantumDone(10, pool.generation(10), 1),
        events.AcceleratorsChanged((fft,)),
    )
    assert not pool.state.assignments()[10].revoked
    assert not output
