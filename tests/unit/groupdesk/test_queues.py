# SPDX-License-Identifier: Apache-2.0

"""The rules of a group's queues, on virtual time."""

import pytest

from fpgapool.agent.groupdesk.decisions import queues
from fpgapool.vocabulary import codes
from tests.unit.groupdesk import driver


def test_three_tasks_on_two_members_end_at_1_1_and_2():
    desk = driver.Driver()
    desk.submit(desk.client("a"), 1.0, 1.0, 1.0)
    desk.run()
    assert desk.ends("a") == [1.0, 1.0, 2.0]


def test_a_task_joins_the_shortest_queue_and_the_lowest_of_equals():
    desk = driver.Driver(slots=3, members=0)
    client = desk.client("a")
    desk.submit(client, *[1.0] * 7)
    assert client.lengths == [3, 2, 2]
    waiting = [
        [task.task_id for task in queue.waiting] for queue in client.queues
    ]
    assert waiting == [[1, 4, 7], [2, 5], [3, 6]]


def test_a_running_task_counts_in_the_length_of_its_queue():
    desk = driver.Driver(slots=2, members=2)
    client = desk.client("a")
    desk.submit(client, 9.0, 1.0)
    desk.run(until_s=2.0)
    assert client.lengths == [1, 0]
    desk.submit(client, 1.0)
    desk.run(until_s=2.0)
    assert client.lengths == [1, 1]


def test_short_tasks_avoid_the_queue_of_a_long_one():
    # Round-robin would put every other short task behind a long one.
    desk = driver.Driver(slots=2, members=2)
    client = desk.client("a")
    desk.submit(client, 0.1)
    for _ in range(20):
        desk.submit(client, 0.001)
        desk.run(until_s=desk.now + 0.001)
    desk.run()
    assert desk.ends("a")[:20] == pytest.approx(
        [0.001 * (number + 1) for number in range(20)]
    )


def test_a_queue_runs_one_task_at_a_time():
    desk = driver.Driver(slots=1, members=2)
    desk.submit(desk.client("a"), 1.0, 1.0)
    desk.run()
    assert desk.ends("a") == [1.0, 2.0]


def test_heads_are_served_in_the_order_in_which_they_asked():
    desk = driver.Driver(slots=1, members=1)
    late, early = desk.client("a"), desk.client("b")
    desk.submit(early, 1.0)
    desk.run(until_s=0.5)
    desk.submit(early, 1.0)
    desk.submit(late, 1.0)
    desk.run(until_s=0.75)
    third = desk.client("c")
    desk.submit(third, 1.0)
    desk.run()
    # The second task of b asked when the first had ended, behind the others.
    assert [run.client_id for run in desk.runs] == ["b", "a", "c", "b"]


def test_ties_go_to_the_client_then_to_the_queue():
    desk = driver.Driver(slots=2, members=0)
    second, first = desk.client("b"), desk.client("a")
    desk.submit(second, 1.0, 1.0)
    desk.submit(first, 1.0, 1.0)
    desk.queues.members.join(0)
    desk.run()
    order = [(run.client_id, run.task_id) for run in desk.runs]
    assert order == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]


def test_the_lowest_free_member_is_first():
    desk = driver.Driver(slots=3, members=3)
    client = desk.client("a")
    desk.submit(client, 3.0, 1.0, 2.0)
    desk.run(until_s=2.5)
    desk.submit(client, 1.0)
    desk.run()
    assert [run.member for run in desk.runs] == [0, 1, 2, 1]


def test_backlogged_clients_get_equal_counts():
    desk = driver.Driver(slots=2, members=2)
    desk.submit(desk.client("a"), *[0.1] * 60)
    desk.submit(desk.client("b"), *[0.3] * 60)
    desk.run(until_s=6.0)
    ended = [len(desk.ends(name)) for name in "ab"]
    assert abs(ended[0] - ended[1]) <= 2


def test_with_time_backlogged_clients_get_equal_busy_time():
    desk = driver.Driver(slots=2, members=2, arbitration="time")
    desk.submit(desk.client("a"), *[0.1] * 200)
    desk.submit(desk.client("b"), *[0.3] * 200)
    desk.run(until_s=12.0)
    busy_s = [0.1 * len(desk.ends("a")), 0.3 * len(desk.ends("b"))]
    assert busy_s[0] == pytest.approx(busy_s[1], abs=0.7)


def test_with_time_a_newcomer_starts_at_the_minimum():
    desk = driver.Driver(slots=1, members=1, arbitration="time")
    desk.submit(desk.client("a"), *[1.0] * 20)
    desk.run(until_s=8.0)
    newcomer = desk.client("b")
    desk.submit(newcomer, *[1.0] * 20)
    before = len(desk.runs)
    desk.run(until_s=16.0)
    ended = [run.client_id for run in desk.runs[before:]]
    # It does not make up for the time before it came.
    assert abs(ended.count("a") - ended.count("b")) <= 1


def test_with_time_a_client_saves_nothing_while_it_is_idle():
    desk = driver.Driver(slots=1, members=1, arbitration="time")
    idle = desk.client("idle")
    desk.submit(desk.client("busy"), *[1.0] * 40)
    desk.run(until_s=15.5)
    desk.submit(idle, *[1.0] * 20)
    before = len(desk.runs)
    desk.run(until_s=25.5)
    served = [run.client_id for run in desk.runs[before:]]
    assert abs(served.count("busy") - served.count("idle")) <= 1


@pytest.mark.parametrize("arbitration", ["fifo", "time"])
def test_many_clients_of_a_project_get_no_more_than_one(arbitration):
    desk = driver.Driver(slots=2, members=2, arbitration=arbitration)
    for number in range(20):
        crowd = desk.client(f"crowd-{number}", project_id="p")
        desk.submit(crowd, *[0.1] * 20)
    desk.submit(desk.client("owner", project_id="o"), *[0.1] * 100)
    desk.run(until_s=4.05)
    assert len(desk.results) == 80
    assert len(desk.ends("owner")) == pytest.approx(40, abs=2)
    shares = {len(desk.ends(f"crowd-{number}")) for number in range(20)}
    assert shares <= {1, 2, 3}


@pytest.mark.parametrize("arbitration", ["fifo", "time"])
def test_a_project_pays_for_what_its_earlier_clients_had(arbitration):
    desk = driver.Driver(slots=1, members=1, arbitration=arbitration)
    desk.submit(desk.client("owner", project_id="o"), *[1.0] * 20)
    for number in range(10):
        comer = desk.client(f"c{number}", project_id="p")
        desk.submit(comer, 3.0)
        desk.run(until_s=desk.now + 4.0)
        desk.queues.close(comer, desk.now)
    desk.run(until_s=60.0)
    order = [run.client_id == "owner" for run in desk.runs]
    # A second of its tasks counts as much as one of the owner's.
    in_turn = [True, False, True, False, True, False, True, False]
    by_time = [True, False, True, True, False, True, True, True]
    assert order[:8] == (by_time if arbitration == "time" else in_turn)


@pytest.mark.parametrize("arbitration", ["fifo", "time"])
def test_a_project_that_was_alone_is_not_behind_later(arbitration):
    desk = driver.Driver(slots=1, members=1, arbitration=arbitration)
    first = desk.client("a", project_id="p")
    desk.submit(first, *[1.0] * 50)
    desk.client("b", project_id="q")
    desk.run()
    desk.submit(desk.client("c", project_id="q"), *[1.0] * 20)
    desk.run(until_s=desk.now + 1.5)
    desk.submit(first, *[1.0] * 20)
    before = len(desk.runs)
    desk.run(until_s=desk.now + 10.0)
    ended = [run.client_id for run in desk.runs[before:]]
    assert abs(ended.count("a") - ended.count("c")) <= 1


@pytest.mark.parametrize("arbitration", ["fifo", "time"])
def test_the_order_of_service_changes_while_tasks_wait(arbitration):
    other = {"fifo": "time", "time": "fifo"}[arbitration]
    desk = driver.Driver(slots=2, members=2, arbitration=arbitration)
    # What it had before does not count against it.
    desk.submit(desk.client("a"), *[0.5] * 20)
    desk.run(until_s=5.0)
    desk.submit(desk.client("a"), *[0.1] * 200)
    desk.submit(desk.client("b"), *[0.3] * 200)
    desk.run(until_s=8.0)
    before_s = {one: sum(_times_s(desk, one)) for one in "ab"}
    before = {one: len(_times_s(desk, one)) for one in "ab"}
    desk.queues.arbitrate(other)
    desk.run(until_s=20.0)
    if other == "time":
        gained_s = {
            one: sum(_times_s(desk, one)) - before_s[one] for one in "ab"
        }
        assert gained_s["a"] == pytest.approx(gained_s["b"], abs=0.9)
    else:
        gained = {one: len(_times_s(desk, one)) - before[one] for one in "ab"}
        assert abs(gained["a"] - gained["b"]) <= 2
    assert sum(desk.codes("a").values()) == len(desk.ends("a"))


def _times_s(desk: driver.Driver, client_id: str) -> list[float]:
    """Return how long the tasks were that a client had begun."""
    time_s = {"a": 0.1, "b": 0.3}[client_id]
    return [time_s] * len(desk.ends(client_id))


def test_an_unknown_arbitration_is_refused():
    with pytest.raises(ValueError, match="fifo or time"):
        queues.Queues(1, arbitration="chance")


# Clearing.


def test_a_member_is_cleared_between_clients_only():
    desk = driver.Driver(slots=1, members=1)
    first, second = desk.client("a"), desk.client("b")
    for client in (first, first, second, second, first):
        desk.submit(client, 1.0)
        desk.run()
    assert [run.clear for run in desk.runs] == [
        *(False, False, True, False, True)
    ]


def test_a_member_that_was_just_programmed_is_clean():
    desk = driver.Driver(slots=1, members=1)
    desk.submit(desk.client("a"), 1.0)
    desk.run()
    desk.queues.members.leave(0)
    desk.run()
    desk.queues.members.join(0)
    desk.submit(desk.client("b"), 1.0)
    desk.run()
    assert [run.clear for run in desk.runs] == [False, False]


# Revocation, and clients that are lost.


def test_revoking_a_backlogged_client_leaves_the_other_its_results():
    desk = driver.Driver(slots=2, members=2)
    revoked, other = desk.client("a"), desk.client("b")
    desk.submit(revoked, *[1.0] * 10)
    desk.submit(other, *[1.0] * 10)
    desk.run(until_s=2.5)
    got = desk.codes("a")[codes.OK]
    running = sum(task.client is revoked for task in _running(desk))
    desk.queues.revoke("a", desk.now)
    desk.run()
    # The results of running tasks are dropped, so those have no answer.
    assert desk.codes("a") == {
        codes.OK: got,
        codes.ACCESS_REVOKED: 10 - got - running,
    }
    assert desk.codes("b") == {codes.OK: 10}
    assert "a" not in desk.queues.clients
    # Nothing of the other client went to a member that was not cleared.
    last = {}
    for run in desk.runs:
        if last.get(run.member, run.client_id) != run.client_id:
            assert run.clear
        last[run.member] = run.client_id


def _running(desk):
    return [task for _, task in desk._current.values()]


def test_a_lost_client_sends_its_tasks_again():
    desk = driver.Driver(slots=1, members=1)
    client = desk.client("a")
    desk.submit(client, 1.0, 1.0)
    desk.run(until_s=0.5)
    desk.queues.detach(client, desk.now)
    desk.run()
    assert not desk.results
    again = desk.client("a")
    desk.submit(again, 1.0, 1.0)
    desk.run()
    assert desk.codes("a") == {codes.OK: 2}


# Bounds.


def test_a_flood_is_refused_and_the_others_are_served():
    desk = driver.Driver(slots=2, members=2, max_waiting_tasks=256)
    flood, other = desk.client("a"), desk.client("b")
    desk.submit(other, *[0.01] * 50)
    desk.submit(flood, *[0.01] * 100_000)
    assert flood.counts.waiting == 256
    desk.run()
    assert desk.codes("a") == {codes.OK: 256, codes.QUEUE_FULL: 99_744}
    assert desk.codes("b") == {codes.OK: 50}
    assert desk.queues.take_counts(desk.now)["a"].arrived == 256


def test_a_task_that_is_too_large_changes_nothing():
    desk = driver.Driver(max_task_bytes=100)
    client = desk.client("a")
    desk.queues.submit(client, 1, 1.0, 101, 0, 0.0)
    desk.queues.submit(client, 2, 1.0, 100, 0, 0.0)
    desk.run()
    assert desk.codes("a") == {codes.TASK_TOO_LARGE: 1, codes.OK: 1}
    assert desk.queues.take_counts(desk.now)["a"].arrived == 1


def test_a_paused_client_waits_and_the_others_go_on():
    desk = driver.Driver(slots=2, members=1)
    slow, other = desk.client("a"), desk.client("b")
    desk.submit(slow, 1.0, 1.0, 1.0)
    desk.submit(other, 1.0, 1.0)
    desk.queues.pause(slow)
    desk.run()
    assert (desk.codes("a"), desk.codes("b")) == ({}, {codes.OK: 2})
    desk.queues.resume(slow)
    desk.run()
    assert desk.codes("a") == {codes.OK: 3}


# Statistics.


def test_counts_of_a_period():
    desk = driver.Driver(slots=2, members=1)
    client = desk.client("a")
    desk.submit(client, 1.0, 2.0, 3.0, 4.0)
    desk.run(until_s=3.5)
    counts = desk.queues.take_counts(desk.now)["a"]
    assert (counts.arrived, counts.ended) == (4, 2)
    assert (counts.waiting, counts.running) == (1, 1)
    assert counts.busy_s == pytest.approx(3.0)
    assert (counts.input_bytes, counts.output_bytes) == (
        2 * driver.INPUT_BYTES,
        2 * driver.OUTPUT_BYTES,
    )
    desk.run()
    counts = desk.queues.take_counts(desk.now)["a"]
    assert (counts.arrived, counts.ended) == (0, 2)
    assert (counts.waiting, counts.running) == (0, 0)
    assert counts.busy_s == pytest.approx(7.0)
    assert counts.input_bytes == 2 * driver.INPUT_BYTES


def test_bytes_count_with_the_result_and_once():
    desk = driver.Driver(slots=1, members=1)
    client = desk.client("a")
    desk.submit(client, *[1.0] * 3)
    desk.run(until_s=0.5)
    desk.lose(0)
    desk.queues.members.join(0)
    desk.decide()
    # A block is missing, and then there is an error.
    desk.end(0, ran=False)
    desk.end(0)
    counts = desk.queues.take_counts(desk.now)["a"]
    assert (counts.ended, counts.input_bytes, counts.output_bytes) == (1, 0, 0)
    # An empty result, which the client does not wait for any more.
    desk.queues.detach(client, desk.now)
    desk.end(0, output_bytes=0)
    counts = desk.queues.take_counts(desk.now)["a"]
    assert (counts.ended, counts.output_bytes) == (1, 0)
    assert counts.input_bytes == driver.INPUT_BYTES


def test_counts_of_a_client_that_left_stay_for_the_period():
    desk = driver.Driver(slots=1, members=1)
    client = desk.client("a")
    desk.submit(client, 1.0, 1.0)
    desk.run(until_s=0.5)
    desk.queues.close(client, desk.now)
    desk.run()
    counts = desk.queues.take_counts(desk.now)["a"]
    assert (counts.arrived, counts.ended, counts.busy_s) == (2, 1, 1.0)
    assert (counts.waiting, counts.running) == (0, 0)
    assert desk.queues.take_counts(desk.now) == {}


def test_counts_after_a_client_came_back():
    desk = driver.Driver(slots=1, members=1)
    client = desk.client("a")
    desk.submit(client, 1.0)
    desk.run(until_s=0.5)
    desk.queues.detach(client, desk.now)
    desk.queues.take_counts(desk.now)
    desk.submit(desk.client("a"), 1.0)
    desk.run()
    counts = desk.queues.take_counts(desk.now)["a"]
    assert (counts.ended, counts.waiting, counts.running) == (2, 0, 0)


def test_the_owner_of_a_lost_client_is_the_one_that_it_has_now():
    desk = driver.Driver(slots=2, members=2)
    client = desk.queues.attach("a", "p")
    desk.queues.locks.lock(client, 1, desk.now)
    desk.run()
    desk.queues.detach(client, desk.now)
    assert desk.queues.attach("a", "a") is client
    assert client.owner == "a"


def test_clients_of_one_owner_share_a_member_without_clearing():
    desk = driver.Driver(slots=1, members=1)
    for name, owner in (("a", "p"), ("b", "p"), ("c", "q")):
        client = desk.queues.attach(name, owner)
        desk.submit(client, 1.0)
        desk.run()
    assert [run.clear for run in desk.runs] == [False, False, True]
