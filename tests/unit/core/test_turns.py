# SPDX-License-Identifier: Apache-2.0

"""Projects that get slots after all others, or none."""

import dataclasses

import pytest

from fpgapool import strategies
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core.queues import sharing
from fpgapool.strategies import shared
from fpgapool.vocabulary import codes
from tests.unit.core import pools

STATELESS = dataclasses.replace(pools.AES, stateless=True)


def make_pool(slots: int = 1, *, fair: bool = False) -> pools.Pool:
    inner = strategies.fifo({}, 0)
    made = shared.SharedStrategy(inner, sharing.ShareOptions(fair), None)
    pool = pools.make_pool_of(made, pools.make_host(1, slot_count=slots))
    pool.step(events.AcceleratorsChanged((STATELESS, pools.FFT)))
    return pool


def turn(
    pool: pools.Pool, project: str, new: model.Turn
) -> list[instructions.Instruction]:
    return pool.step(events.TurnChanged(project, new))


def submit(
    pool: pools.Pool, projects: str, **members: object
) -> list[instructions.Instruction]:
    first = 1000 * len(pool.state.view.jobs.records)
    return pool.submit(
        *(
            pools.make_job(first + n, project=project, **members)
            for n, project in enumerate(projects)
        )
    )


def served(
    pool: pools.Pool, output: list[instructions.Instruction]
) -> list[str]:
    return [
        pool.state.view.record(job_id).job.project
        for job_id, _ in pools.taken(output)
    ]


def begin(pool: pools.Pool, slot_id: int) -> None:
    pool.hear(events.SlotReady, slot_id)
    pool.hear(events.HolderAttached, slot_id)


@pytest.mark.parametrize("fair", [False, True])
def test_no_slot_before_the_turn_comes_back(fair: bool) -> None:
    pool = make_pool(3, fair=fair)
    submit(pool, "a")
    turn(pool, "a", model.Turn.NEVER)
    assert served(pool, submit(pool, "aab")) == ["b"]
    (first, _) = pool.state.waiting()
    assert pool.state.status(first.id).reasons == (codes.BUDGET_EXHAUSTED,)
    assert served(pool, turn(pool, "a", model.Turn.NORMAL)) == ["a"]


@pytest.mark.parametrize("fair", [False, True])
def test_the_last_gets_what_nobody_else_takes(fair: bool) -> None:
    pool = make_pool(2, fair=fair)
    turn(pool, "a", model.Turn.LAST)
    assert served(pool, submit(pool, "aab")) == ["b", "a"]


@pytest.mark.parametrize("fair", [False, True])
def test_waiting_jobs_change_their_turn(fair: bool) -> None:
    pool = make_pool(1, fair=fair)
    submit(pool, "cab")
    turn(pool, "a", model.Turn.LAST)
    output = pool.hear(events.SlotReleased, 10)
    assert served(pool, output) == ["b"]
    assert served(pool, pool.hear(events.SlotReleased, 10)) == ["a"]


def test_the_last_gives_way_at_a_border_only() -> None:
    pool = make_pool(1)
    turn(pool, "a", model.Turn.LAST)
    submit(pool, "aa")
    begin(pool, 10)
    # Its own project's jobs do not count.
    assert not pool.hear(events.QuantumDone, 10, 1)
    assert not submit(pool, "b")
    (left,) = pool.hear(events.QuantumDone, 10, 2)
    assert isinstance(left, instructions.Yield)
    assert left.reason == codes.PREEMPTED
    assert served(pool, pool.hear(events.SlotReleased, 10)) == ["b"]


def test_one_waiting_job_takes_one_slot() -> None:
    pool = make_pool(2)
    turn(pool, "a", model.Turn.LAST)
    submit(pool, "aa")
    for slot_id in 10, 11:
        begin(pool, slot_id)
    submit(pool, "b")
    assert pool.hear(events.QuantumDone, 10, 1)
    assert not pool.hear(events.QuantumDone, 11, 1)


def test_others_in_turn_give_no_way() -> None:
    pool = make_pool(1)
    submit(pool, "b")
    begin(pool, 10)
    turn(pool, "a", model.Turn.LAST)
    submit(pool, "ac")
    assert not pool.hear(events.QuantumDone, 10, 1)


def make_group(pool: pools.Pool, size: int) -> None:
    group = model.Group(
        id=1,
        project="a",
        accelerator="aes",
        size=size,
        min_size=size,
        max_size=size,
    )
    pool.step(events.GroupCreated(group))
    for slot_id in sorted(pool.state.assignments()):
        pool.hear(events.SlotReady, slot_id)


def test_groups_give_their_slots_back() -> None:
    pool = make_pool(2)
    make_group(pool, 2)
    output = turn(pool, "a", model.Turn.NEVER)
    assert [one.reason for one in output if hasattr(one, "reason")] == (
        [codes.RESIZED] * 2
    )
    for slot_id in 10, 11:
        pool.hear(events.SlotReleased, slot_id)
    assert not pool.state.assignments()
    assert len(pools.taken(turn(pool, "a", model.Turn.NORMAL))) == 2


def test_groups_served_last_leave_for_others() -> None:
    pool = make_pool(2)
    turn(pool, "a", model.Turn.LAST)
    make_group(pool, 2)
    output = submit(pool, "b")
    (left,) = [one for one in output if isinstance(one, instructions.Revoke)]
    assert served(pool, pool.hear(events.SlotReleased, left.slot_id)) == ["b"]


def test_a_slot_that_is_granted_and_taken_back_at_once_is_not_told() -> None:
    """A group gets a slot in a pass, and a job that yields wants it, too."""
    pool = make_pool(1)
    submit(pool, "b")
    begin(pool, 10)
    turn(pool, "a", model.Turn.LAST)
    make_group(pool, 1)
    # In one step: the slot is free, and its holder waits behind all others.
    yields = pools.make_job(7, project="b")
    output = pool.step(
        events.SlotReleased(10, pool.generation(10)),
        events.JobSubmitted(yields, None, True),
    )
    assert [job_id for job_id, _ in pools.taken(output)] == [7]
    assert not any(isinstance(one, instructions.Requeue) for one in output)
    # The group waits still.
    assert pools.taken(pool.hear(events.SlotReleased, 10))
