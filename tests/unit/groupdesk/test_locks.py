# SPDX-License-Identifier: Apache-2.0

"""Locks of members, on virtual time."""

import pytest

from fpgapool.vocabulary import codes
from tests.unit.groupdesk import driver


def _locked(slots=2, members=2, **options):
    """Return a desk with a client that holds lock 7."""
    desk = driver.Driver(slots, members, **options)
    client = desk.client("a")
    desk.queues.locks.lock(client, 7, desk.now)
    desk.run()
    assert desk.locked == [("a", 7, 0)]
    return desk, client


def test_a_lock_waits_in_its_queue_like_a_task():
    desk = driver.Driver(slots=1, members=1)
    client = desk.client("a")
    desk.submit(client, 1.0)
    desk.queues.locks.lock(client, 7, desk.now)
    desk.run(until_s=0.5)
    assert desk.locked == []
    desk.run(until_s=1.5)
    assert desk.locked == [("a", 7, 0)]


def test_tasks_of_a_lock_run_on_its_member_only():
    desk, client = _locked()
    desk.submit(client, 1.0, 1.0, lock_id=7)
    desk.submit(client, 1.0, 1.0)
    desk.run()
    assert [(run.task_id, run.member) for run in desk.runs] == [
        *((1, 0), (3, 1), (2, 0), (4, 1))
    ]


def test_other_clients_never_use_a_locked_member():
    desk, client = _locked()
    desk.submit(desk.client("b"), *[1.0] * 5)
    desk.run()
    assert {run.member for run in desk.runs} == {1}
    desk.queues.locks.unlock(client, 7, desk.now)
    desk.submit(client, 1.0)
    desk.run()
    # The core may have kept state: it is cleared even for the same client.
    assert desk.runs[-1][1:5] == (0, "a", 1, True)


def test_a_lock_ends_after_the_tasks_before_unlock():
    desk, client = _locked()
    desk.submit(client, 1.0, 1.0, lock_id=7)
    desk.queues.locks.unlock(client, 7, desk.now)
    desk.submit(client, 1.0, lock_id=7)
    desk.run()
    assert desk.codes("a") == {codes.OK: 2, codes.LOCK_LOST: 1}
    assert desk.unlocked == [("a", 7, codes.OK)]


def test_a_lock_that_waits_can_be_withdrawn():
    desk = driver.Driver(slots=1, members=1)
    client = desk.client("a")
    desk.submit(client, 1.0)
    desk.queues.locks.lock(client, 7, desk.now)
    desk.queues.locks.unlock(client, 7, desk.now)
    desk.queues.locks.unlock(client, 8, desk.now)
    desk.submit(client, 1.0)
    desk.run()
    assert (desk.locked, desk.unlocked) == ([], [])
    assert desk.codes("a") == {codes.OK: 2}
    assert client.lengths == [0]


def test_there_are_at_most_as_many_locks_as_members():
    desk = driver.Driver(slots=4, members=3)
    client = desk.client("a")
    for lock_id in (1, 2, 3, 4):
        desk.queues.locks.lock(client, lock_id, desk.now)
    desk.run()
    assert [lock_id for _, lock_id, _ in desk.locked] == [1, 2, 3]
    assert desk.refused == [("a", 4, codes.LOCK_LIMIT)]


def test_a_lock_waits_for_a_member_that_is_about_to_join():
    desk = driver.Driver(slots=3, members=1)
    client, other = desk.client("a"), desk.client("b")
    desk.queues.members.expected = 3
    for lock_id in (1, 2, 3):
        desk.queues.locks.lock(client, lock_id, desk.now)
    desk.submit(other, 1.0)
    desk.run()
    # The only member is for the other client.
    assert (desk.locked, desk.codes("b")) == ([], {codes.OK: 1})
    assert desk.refused == [("a", 3, codes.LOCK_LIMIT)]
    desk.queues.members.join(1)
    desk.run()
    assert [lock_id for _, lock_id, _ in desk.locked] == [1]
    # The third does not come.
    desk.queues.members.expected = 2
    desk.queues.members.shrink(0)
    desk.run()
    assert len(desk.refused) == 1
    desk.queues.locks.unlock(client, 1, desk.now)
    desk.run()
    assert [lock_id for _, lock_id, _ in desk.locked] == [1, 2]


def test_a_lock_is_refused_when_its_member_does_not_come():
    desk = driver.Driver(slots=2, members=1)
    client = desk.client("a")
    desk.client("b")
    desk.queues.members.expected = 2
    desk.queues.locks.lock(client, 1, desk.now)
    desk.run()
    assert (desk.locked, desk.refused) == ([], [])
    desk.queues.members.expected = 1
    desk.queues.members.shrink(0)
    desk.run()
    assert desk.refused == [("a", 1, codes.LOCK_LIMIT)]


def test_a_lock_number_in_use_is_refused():
    desk, client = _locked()
    desk.queues.locks.lock(client, 7, desk.now)
    desk.run()
    assert desk.refused == [("a", 7, codes.LOCK_LIMIT)]
    assert len(desk.locked) == 1


def test_one_member_stays_for_the_others_and_they_progress():
    desk = driver.Driver(slots=4, members=4)
    client, others = desk.client("a"), [desk.client(n) for n in "bc"]
    for lock_id in (1, 2, 3, 4):
        desk.queues.locks.lock(client, lock_id, desk.now)
    for other in others:
        desk.submit(other, *[1.0] * 4)
    desk.run()
    assert len(desk.locked) == 3
    assert desk.refused == [("a", 4, codes.LOCK_LIMIT)]
    assert [desk.codes(name)[codes.OK] for name in "bc"] == [4, 4]
    assert desk.now == 8.0


def test_a_host_that_spares_no_member_may_be_locked_as_a_whole():
    """Another host of the group has a member for the other clients."""
    desk = driver.Driver(slots=2, members=2)
    client, other = desk.client("a"), desk.client("b")
    desk.queues.locks.spare_member(False)
    for lock_id in (1, 2, 3):
        desk.queues.locks.lock(client, lock_id, desk.now)
    desk.submit(other, 1.0)
    desk.run()
    assert desk.locked == [("a", 1, 0), ("a", 2, 1)]
    assert desk.refused == [("a", 3, codes.LOCK_LIMIT)]
    assert desk.queues.locks.have_all
    desk.queues.locks.unlock(client, 1, desk.now)
    desk.run()
    assert not desk.queues.locks.have_all
    assert desk.codes("b") == {codes.OK: 1}
    # Here it is the only one again.
    desk.queues.locks.spare_member(True)
    desk.queues.locks.lock(client, 4, desk.now)
    desk.run()
    assert desk.refused[1:] == [("a", 4, codes.LOCK_LIMIT)]


def test_a_lock_above_a_limit_that_came_later_waits_and_blocks_no_one():
    desk = driver.Driver(slots=2, members=2)
    client = desk.client("a")
    desk.submit(client, 1.0, 1.0)
    desk.run(until_s=0.5)
    desk.queues.locks.lock(client, 1, desk.now)
    desk.queues.locks.lock(client, 2, desk.now)
    other = desk.client("b")
    desk.submit(other, 1.0, 1.0, 1.0)
    desk.run()
    assert desk.locked == [("a", 1, 0)]
    assert desk.codes("b") == {codes.OK: 3}
    desk.queues.close(other, desk.now)
    desk.run()
    assert desk.locked == [("a", 1, 0), ("a", 2, 1)]


def _leave(desk):
    desk.queues.members.leave(1)


def _shrink(desk):
    desk.queues.members.shrink(1)


def _lose(desk):
    desk.lose(1)


@pytest.mark.parametrize("go", [_leave, _shrink, _lose])
def test_a_lock_that_no_unlock_can_grant_is_refused(go):
    """Two programs that wait for the last member would do so for ever."""
    desk = driver.Driver(slots=2, members=2)
    clients = [desk.client(name) for name in "ab"]
    desk.queues.locks.lock(clients[0], 1, desk.now)
    desk.run()
    desk.submit(clients[1], 1.0, 1.0)
    desk.queues.locks.lock(clients[1], 1, desk.now)
    assert desk.refused == []
    desk.run()
    assert desk.refused == [("b", 1, codes.LOCK_LIMIT)]
    # This one is within the limit, until a member goes.
    desk.queues.locks.unlock(clients[0], 1, desk.now)
    desk.submit(clients[1], 1.0, 1.0)
    desk.run(until_s=desk.now + 0.5)
    desk.queues.locks.lock(clients[1], 2, desk.now)
    desk.queues.submit(clients[1], 99, 1.0, 8, 8, desk.now, 2)
    go(desk)
    desk.run()
    assert desk.refused[1:] == [("b", 2, codes.LOCK_LIMIT)]
    assert desk.codes("b")[codes.LOCK_LOST] == 1
    assert clients[1].lengths == [0, 0]
    assert clients[1].counts.waiting == 0
    # A lock may be had again when the other program has gone.
    desk.queues.close(clients[0], desk.now)
    desk.queues.locks.lock(clients[1], 3, desk.now)
    desk.run()
    assert [one[:2] for one in desk.locked[1:]] == [("b", 3)]


def test_a_lock_that_waits_is_refused_when_another_client_comes():
    desk = driver.Driver(slots=1, members=1)
    client = desk.client("a")
    desk.submit(client, 1.0)
    desk.run(until_s=0.5)
    desk.queues.locks.lock(client, 1, desk.now)
    desk.submit(desk.client("b"), 1.0)
    desk.run()
    assert desk.refused == [("a", 1, codes.LOCK_LIMIT)]
    assert desk.codes("b") == {codes.OK: 1}


def test_a_lock_without_tasks_ends():
    desk, client = _locked(lock_idle_s=60.0)
    desk.submit(client, 10.0, lock_id=7)
    desk.run(until_s=10.0)
    assert desk.queues.deadline_s == 70.0
    desk.run(until_s=69.9)
    assert desk.unlocked == []
    desk.run(until_s=70.0)
    assert desk.unlocked == [("a", 7, codes.LOCK_LOST)]
    assert desk.queues.deadline_s is None
    desk.submit(client, 1.0, lock_id=7)
    desk.run()
    assert desk.codes("a") == {codes.OK: 1, codes.LOCK_LOST: 1}


def test_a_long_task_keeps_its_lock():
    desk, client = _locked(lock_idle_s=60.0)
    desk.submit(client, 100.0, lock_id=7)
    desk.run(until_s=90.0)
    assert (desk.queues.deadline_s, desk.unlocked) == (None, [])


def test_a_lost_client_finds_its_lock_again():
    desk, client = _locked(resume_grace_s=5.0)
    desk.queues.detach(client, desk.now)
    desk.run(until_s=4.9)
    again = desk.client("a")
    desk.submit(again, 1.0, lock_id=7)
    desk.run()
    assert desk.codes("a") == {codes.OK: 1}
    assert desk.unlocked == []


def test_its_lock_ends_after_the_grace():
    desk, client = _locked(resume_grace_s=5.0)
    desk.submit(client, 1.0, 1.0, lock_id=7)
    desk.run(until_s=0.5)
    desk.queues.detach(client, desk.now)
    assert desk.queues.deadline_s == 5.5
    desk.run(until_s=5.5)
    assert desk.unlocked == [("a", 7, codes.LOCK_LOST)]
    assert "a" not in desk.queues.clients
    desk.submit(desk.client("b"), 1.0, 1.0)
    desk.run()
    assert {run.member for run in desk.runs[1:]} == {0, 1}


def test_a_grace_that_ends_during_a_locked_task_frees_its_member():
    desk, client = _locked(slots=1, members=1, resume_grace_s=5.0)
    desk.submit(client, 9.0, lock_id=7)
    desk.run(until_s=1.0)
    desk.queues.detach(client, desk.now)
    desk.run(until_s=6.0)
    desk.submit(desk.client("b"), 1.0)
    desk.run()
    assert desk.ends("b") == [10.0]
    assert desk.codes("a") == {}


def test_revocation_ends_a_lock():
    desk, client = _locked(slots=1, members=1)
    desk.submit(client, 1.0, 1.0, lock_id=7)
    desk.submit(desk.client("b"), 1.0)
    desk.run(until_s=0.5)
    desk.queues.revoke("a", desk.now)
    desk.run()
    assert desk.unlocked == [("a", 7, codes.ACCESS_REVOKED)]
    assert desk.codes("a") == {codes.ACCESS_REVOKED: 1}
    assert desk.ends("b") == [2.0]
    assert desk.runs[-1].clear


def test_a_locked_member_leaves_when_the_lock_ends():
    desk, client = _locked()
    desk.queues.members.leave(0)
    desk.submit(client, 1.0, lock_id=7)
    desk.run(until_s=5.0)
    assert desk.left == []
    desk.queues.locks.unlock(client, 7, desk.now)
    desk.run()
    assert desk.left == [0]


def test_shrinking_never_takes_a_locked_member():
    desk, client = _locked()
    desk.queues.members.shrink(2)
    desk.submit(client, 1.0, lock_id=7)
    desk.run(until_s=5.0)
    assert desk.left == [1]
    desk.queues.locks.unlock(client, 7, desk.now)
    desk.run()
    assert desk.left == [1, 0]


@pytest.mark.parametrize("waiting", [0, 2])
def test_a_lost_member_ends_its_lock(waiting):
    desk, client = _locked()
    desk.submit(client, *[1.0] * (1 + waiting), lock_id=7)
    desk.run(until_s=0.5)
    desk.lose(0)
    desk.run()
    # What the core kept is gone, so that no task may run elsewhere.
    assert desk.codes("a") == {codes.LOCK_LOST: 1 + waiting}
    assert desk.unlocked == [("a", 7, codes.LOCK_LOST)]
    desk.submit(client, 1.0)
    desk.run()
    assert desk.codes("a")[codes.OK] == 1
    assert client.lengths == [0, 0]


def test_if_all_queues_are_locked_other_tasks_wait_for_an_unlock():
    desk, client = _locked(slots=1, members=1)
    desk.submit(client, 1.0)
    desk.run()
    assert desk.results == []
    desk.queues.locks.unlock(client, 7, desk.now)
    desk.run()
    assert desk.codes("a") == {codes.OK: 1}


def test_a_lock_waits_for_the_first_member():
    desk = driver.Driver(slots=2, members=0)
    client = desk.client("a")
    desk.queues.locks.lock(client, 1, desk.now)
    desk.queues.locks.lock(client, 2, desk.now)
    desk.run()
    assert desk.refused == [("a", 2, codes.LOCK_LIMIT)]
    desk.queues.members.join(0)
    desk.run()
    assert desk.locked == [("a", 1, 0)]


def test_a_paused_client_gets_no_results_of_a_lock():
    desk, client = _locked()
    desk.submit(client, *[1.0] * 3, lock_id=7)
    desk.run(until_s=0.5)
    desk.queues.pause(client)
    desk.run()
    assert len(desk.runs) == 1
    desk.queues.resume(client)
    desk.run()
    assert [run.member for run in desk.runs] == [0, 0, 0]


def test_the_lock_of_a_client_that_stays_paused_ends():
    desk, client = _locked(lock_idle_s=60.0)
    desk.submit(client, *[1.0] * 2, lock_id=7)
    desk.run(until_s=0.5)
    desk.queues.pause(client)
    desk.run(until_s=100.0)
    assert client.locks == {}


# What a lock costs.


def _charged_s(desk: driver.Driver, client_id: str = "a") -> float:
    return desk.queues.take_counts(desk.now)[client_id].busy_s


def test_a_lock_is_charged_while_it_lasts():
    desk, client = _locked()
    desk.run(until_s=3.0)
    counts = desk.queues.take_counts(desk.now)["a"]
    # Its member is not free: it counts as one that works.
    assert (counts.busy_s, counts.running, counts.ended) == (3.0, 1, 0)
    assert client.counts.running == 0
    desk.submit(client, 5.0, lock_id=7)
    desk.run(until_s=5.0)
    assert _charged_s(desk) == 2.0
    # A task within it is charged once.
    desk.run(until_s=9.0)
    counts = desk.queues.take_counts(desk.now)["a"]
    assert (counts.busy_s, counts.running, counts.ended) == (4.0, 1, 1)
    desk.queues.locks.unlock(client, 7, desk.now)
    desk.run(until_s=12.0)
    assert _charged_s(desk) == 0.0


def test_a_lock_that_waits_costs_nothing():
    desk = driver.Driver(slots=1, members=0)
    desk.queues.locks.lock(desk.client("a"), 7, desk.now)
    desk.run(until_s=9.0)
    assert _charged_s(desk) == 0.0


def _closed(desk, client):
    desk.queues.close(client, desk.now)


def _revoked(desk, client):
    desk.queues.revoke(client.client_id, desk.now)


def _member_died(desk, _client):
    desk.lose(0)


@pytest.mark.parametrize("end", [_closed, _revoked, _member_died])
@pytest.mark.parametrize("task_s", [0.0, 9.0])
def test_the_time_of_a_lock_is_charged_once_however_it_ends(end, task_s):
    desk, client = _locked()
    if task_s:
        desk.submit(client, task_s, lock_id=7)
    desk.run(until_s=4.0)
    end(desk, client)
    assert _charged_s(desk) == 4.0
    desk.run(until_s=20.0)
    # A task that runs on has its member until it ends, unless that died.
    runs_on = task_s and end is not _member_died
    later = desk.queues.take_counts(desk.now)
    assert sum(one.busy_s for one in later.values()) == (
        5.0 if runs_on else 0.0
    )


def test_a_lost_client_is_charged_until_its_grace_ends():
    desk, client = _locked(resume_grace_s=5.0)
    desk.submit(client, 2.0, lock_id=7)
    desk.run(until_s=1.0)
    desk.queues.detach(client, desk.now)
    counts = desk.queues.take_counts(desk.now)["a"]
    # Nobody waits for the task, but the lock has its member.
    assert (counts.busy_s, counts.running) == (1.0, 1)
    desk.run(until_s=30.0)
    # Its client is looked at when the time of the driver has come.
    assert _charged_s(desk) == 29.0


def test_with_time_a_lock_counts_as_service():
    desk, client = _locked(arbitration="time", lock_idle_s=1e6)
    desk.run(until_s=20.0)
    desk.queues.locks.unlock(client, 7, desk.now)
    desk.decide()
    desk.submit(client, *[1.0] * 30)
    desk.submit(desk.client("b"), *[1.0] * 30)
    desk.run(until_s=28.5)
    # The first tasks ask at the same time; then the other one catches up.
    assert len(desk.ends("b")) - len(desk.ends("a")) >= 12
