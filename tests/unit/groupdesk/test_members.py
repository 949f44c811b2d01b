# SPDX-License-Identifier: Apache-2.0

"""Members that join, leave and die, on virtual time."""

import pytest

from fpgapool.agent.groupdesk.decisions import queues
from fpgapool.vocabulary import codes
from tests.unit.groupdesk import driver


def test_an_idle_member_leaves_at_once():
    desk = driver.Driver(slots=2, members=2)
    desk.queues.leave(0)
    desk.run()
    assert desk.left == [0]
    desk.submit(desk.client("a"), 1.0, 1.0)
    desk.run()
    assert {run.member for run in desk.runs} == {1}


def test_a_busy_member_leaves_after_its_task():
    desk = driver.Driver(slots=2, members=1)
    desk.submit(desk.client("a"), 1.0, 1.0)
    desk.run(until_s=0.5)
    desk.queues.leave(0)
    desk.run(until_s=0.9)
    assert desk.left == []
    desk.run(until_s=5.0)
    assert desk.left == [0]
    assert desk.ends("a") == [1.0]
    desk.queues.join(1)
    desk.run()
    assert desk.ends("a") == [1.0, 6.0]


def test_leaving_twice_is_leaving_once():
    desk = driver.Driver()
    desk.queues.leave(0)
    desk.queues.leave(0)
    desk.queues.leave(7)
    desk.run()
    assert desk.left == [0]


def test_a_member_joins_once():
    desk = driver.Driver(members=1)
    with pytest.raises(ValueError, match="member 0 is here already"):
        desk.queues.join(0)
    assert desk.queues.members == {0: False}


def test_shrinking_takes_idle_members_first_and_then_the_next():
    desk = driver.Driver(slots=4, members=4)
    client = desk.client("a")
    desk.submit(client, 3.0, 1.0)
    desk.run(until_s=0.5)
    desk.queues.shrink(3)
    desk.run(until_s=0.5)
    assert desk.left == [2, 3]
    desk.run(until_s=2.0)
    assert desk.left == [2, 3, 1]
    desk.run()
    assert desk.queues.members == {0: False}


def test_a_new_wish_to_shrink_replaces_the_former():
    desk = driver.Driver(slots=1, members=1)
    desk.submit(desk.client("a"), 1.0)
    desk.run(until_s=0.5)
    desk.queues.shrink(1)
    desk.queues.shrink(0)
    desk.run()
    assert desk.left == []


def test_the_task_of_a_lost_member_runs_again():
    desk = driver.Driver(slots=2, members=2)
    desk.submit(desk.client("a"), 2.0, 2.0)
    desk.run(until_s=1.0)
    desk.lose(0)
    desk.run()
    assert [(one.end_s, one.task_id) for one in desk.results] == [
        (2.0, 2),
        (4.0, 1),
    ]
    assert [run.member for run in desk.runs] == [0, 1, 1]


def test_it_runs_before_those_that_asked_later():
    desk = driver.Driver(slots=1, members=1)
    desk.submit(desk.client("b"), 2.0)
    desk.run(until_s=1.0)
    desk.submit(desk.client("a"), 1.0)
    desk.lose(0)
    desk.run(until_s=1.0)
    desk.queues.join(1)
    desk.run()
    assert [run.client_id for run in desk.runs] == ["b", "b", "a"]


def test_a_task_that_kills_every_member_fails():
    desk = driver.Driver(slots=1, members=1)
    desk.submit(desk.client("a"), 1.0, 1.0)
    for _ in range(queues.MAX_LOSSES + 1):
        desk.run(until_s=desk.now + 0.5)
        desk.lose(0)
        desk.queues.join(0)
    desk.run()
    assert [(one.task_id, one.code) for one in desk.results] == [
        (1, codes.WORKER_DIED),
        (2, codes.OK),
    ]


def test_a_task_without_payload_must_be_sent_again():
    desk = driver.Driver(slots=1, members=1)
    desk.submit(desk.client("a"), 1.0, 1.0)
    desk.run(until_s=0.5)
    (task,) = (task for _, task in desk._current.values())
    task.payload = None
    desk.lose(0)
    desk.queues.join(0)
    desk.run()
    assert [(one.task_id, one.code) for one in desk.results] == [
        (1, codes.TASK_LOST),
        (2, codes.OK),
    ]


def test_a_lost_member_is_no_member():
    desk = driver.Driver(members=2)
    desk.lose(0)
    desk.lose(0)
    assert desk.queues.members == {1: False}
    assert desk.queues.ended(0, 1.0, 1.0) is None


def test_a_result_after_the_loss_is_dropped():
    desk = driver.Driver(slots=1, members=1)
    desk.submit(desk.client("a"), 1.0)
    desk.run(until_s=0.5)
    desk.queues.lost(0, desk.now)
    assert desk.queues.ended(0, 1.0, desk.now) is None
    assert desk.queues.ended(7, 1.0, desk.now) is None
