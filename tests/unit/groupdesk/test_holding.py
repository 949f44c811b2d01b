# SPDX-License-Identifier: Apache-2.0

"""Tasks prefer members that have their blocks."""

from __future__ import annotations

import random

import pytest

from fpgapool.agent.groupdesk.decisions import holding
from fpgapool.agent.groupdesk.decisions import model
from tests.unit.groupdesk import driver


def key(name: str, length_bytes: int = 100) -> tuple[holding.Key, ...]:
    return (holding.Key("p", "a", name.encode(), length_bytes),)


def attached(desk, name="a", project_id="p"):
    client = desk.queues.attach(name, project_id)
    client.scope = project_id, "a"
    return client


def places(desk) -> list[tuple[int, int]]:
    """Return the task and the member of each run."""
    return [(run.task_id, run.member) for run in desk.runs]


def test_the_member_that_has_a_block_gets_its_next_task():
    desk = driver.Driver(slots=3, members=3)
    client = attached(desk)
    for name in ("x", "y", "z"):
        desk.submit(client, 1.0, blocks=key(name))
    desk.run()
    for name in ("z", "x", "y", "new"):
        desk.submit(client, 1.0, blocks=key(name))
        desk.run()
    assert places(desk)[3:] == [(4, 2), (5, 0), (6, 1), (7, 0)]


def test_the_longer_block_decides():
    desk = driver.Driver(slots=2, members=2)
    client = attached(desk)
    desk.submit(client, 1.0, blocks=key("short", 1) + key("small", 1))
    desk.submit(client, 1.0, blocks=key("long", 1000))
    desk.run()
    both = key("short", 1) + key("small", 1) + key("long", 1000)
    desk.submit(client, 1.0, blocks=both)
    desk.run()
    assert places(desk)[2] == (3, 1)


def test_a_task_waits_for_a_busy_member_as_long_as_a_task_takes():
    desk = driver.Driver(slots=4, members=2)
    client = attached(desk)
    for _ in range(40):
        # The mean time of a task becomes 1 s.
        desk.submit(client, 1.0, blocks=key("x"))
        desk.run()
    began_s = desk.now
    desk.submit(client, 0.9, blocks=key("x"))
    desk.decide()
    desk.submit(client, 1.0, blocks=key("x"))
    desk.submit(client, 1.0)
    desk.run()
    waited, other = desk.runs[-1], desk.runs[-2]
    assert (waited.member, waited.start_s) == (0, began_s + 0.9)
    # One without blocks took the free member at once.
    assert (other.member, other.start_s) == (1, began_s)

    began_s = desk.now
    desk.submit(client, 5.0, blocks=key("x"))
    desk.decide()
    desk.submit(client, 1.0, blocks=key("x"))
    desk.decide()
    due_s = desk.queues.deadline_s
    assert began_s + 0.9 < due_s < began_s + 1.1
    desk.run(until_s=due_s)
    assert desk.runs[-1].member == 1
    assert desk.runs[-1].start_s == due_s
    desk.run()
    assert desk.queues.deadline_s is None


def test_no_task_waits_for_a_member_that_leaves_or_is_lost():
    desk = driver.Driver(slots=2, members=2)
    client = attached(desk)
    for _ in range(3):
        desk.submit(client, 1.0, blocks=key("x"))
        desk.run()
    began_s = desk.now
    desk.submit(client, 9.0, blocks=key("x"))
    desk.decide()
    desk.queues.members.leave(0)
    desk.submit(client, 1.0, blocks=key("x"))
    desk.decide()
    assert (desk.runs[-1].member, desk.runs[-1].start_s) == (1, began_s)
    desk.run()
    desk.queues.members.join(0)
    desk.submit(client, 1.0, blocks=key("x"))
    desk.run()
    # It has forgotten everything.
    assert desk.runs[-1].member == 1


def test_a_member_that_was_cleared_for_another_project_has_no_block():
    desk = driver.Driver(slots=2, members=1)
    mine, theirs = attached(desk), attached(desk, "b", "q")
    desk.submit(mine, 1.0, blocks=key("x"))
    desk.run()
    desk.submit(theirs, 1.0)
    desk.run()
    desk.queues.members.join(1)
    desk.submit(mine, 1.0, blocks=key("y"))
    desk.run()
    assert desk.runs[-1].clear
    assert not desk.queues._holders._held_bytes(
        0, desk.queues.submit(mine, 9, 1.0, 8, 8, desk.now, 0, key("x"))
    )


@pytest.mark.parametrize("slots", [4, 8])
@pytest.mark.parametrize("shuffled", [False, True])
def test_iterations_over_blocks_need_none_again_and_keep_members_busy(
    slots, shuffled
):
    chance = random.Random(slots + shuffled)
    desk = driver.Driver(slots=slots, members=4)
    client = attached(desk)
    names = [f"block {number}" for number in range(64)]
    held = set()
    for iteration in range(6):
        began_s, before = desk.now, len(desk.runs)
        if shuffled:
            chance.shuffle(names)
        for name in names:
            desk.submit(client, chance.uniform(0.97, 1.03), blocks=key(name))
        desk.run()
        runs = {
            (names[(run.task_id - 1) % 64], run.member)
            for run in desk.runs[before:]
        }
        if iteration:
            # Moving one of 64 is more than 1 % of the bytes.
            assert runs <= held
            assert desk.now - began_s < 1.1 * 64 / 4
        held |= runs


def test_a_task_gives_its_place_to_one_that_a_free_member_serves():
    desk = driver.Driver(slots=2, members=2)
    client = attached(desk)
    for name in ("x", "y"):
        desk.submit(client, 1.0, blocks=key(name))
    desk.run()
    began_s = desk.now
    # Both queues would begin with tasks of the same member.
    for name in ("x", "x", "y", "y"):
        desk.submit(client, 1.0, blocks=key(name))
    desk.run()
    assert [
        (run.start_s - began_s, run.task_id, run.member)
        for run in desk.runs[2:]
    ] == [(0.0, 3, 0), (0.0, 5, 1), (1.0, 4, 0), (1.0, 6, 1)]


def whose_head_waits(busy_s: float) -> tuple[driver.Driver, model.Client]:
    """Return a client with a task whose member is busy, and one is free.

    The free member has the block ``y``.
    """
    desk = driver.Driver(slots=1, members=2)
    client, other = attached(desk), attached(desk, "b")
    desk.submit(other, 1.0, blocks=key("x"))
    desk.submit(client, 1.0, blocks=key("y"))
    desk.run()
    desk.submit(other, busy_s, blocks=key("x"))
    desk.decide()
    desk.submit(client, 1.0, blocks=key("x"))
    return desk, client


def test_a_task_is_not_overtaken_for_ever():
    desk, client = whose_head_waits(1000.0)
    waits = desk.serial["a"]
    for _ in range(100):
        desk.submit(client, 1.0, blocks=key("y"))
    desk.run()
    places = [run.task_id for run in desk.runs if run.client_id == "a"]
    # Its member did not become free: the other one has to have the block.
    assert 2 < places.index(waits) < 50


def test_locks_keep_their_places():
    desk, client = whose_head_waits(2.0)
    desk.queues.locks.lock(client, 7, desk.now)
    desk.submit(client, 1.0, blocks=key("y"))
    began_s = desk.now
    desk.run()
    # The first task took the other one's place, behind the lock.
    assert desk.runs[3][:5] == (began_s, 0, "a", 3, False)
    assert desk.locked == [("a", 7, 0)]
