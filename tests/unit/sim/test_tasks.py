# SPDX-License-Identifier: Apache-2.0

"""The engine of tasks: queues, members and accounts, computed by hand."""

from __future__ import annotations

import math
import random

import pytest

from fpgapool.sim.engines import base
from fpgapool.sim.engines import queues
from fpgapool.sim.engines import tasks


def make_engine(
    clients: list[queues.Client],
    members: list[int],
    *,
    hosts: list[int] | None = None,
    link_tasks_per_s: float = math.inf,
    spare: int = 0,
) -> tasks.TaskEngine:
    """Make an engine; members are the slots of each group at time 0."""
    count = sum(members) + spare
    slots = [
        base.Slot(number, 0, host, number)
        for number, host in enumerate(hosts or [0] * count)
    ]
    engine = tasks.TaskEngine(slots, len(members), clients, link_tasks_per_s)
    free = iter(range(count))
    for group, size in enumerate(members):
        for _ in range(size):
            engine.program(next(free), group, 0.0)
    return engine


def client(
    arrivals_s: list[float],
    task_s: float = 1.0,
    batch_tasks: int = 1,
    group: int = 0,
    window_s: float = math.inf,
) -> queues.Client:
    return queues.Client(group, task_s, batch_tasks, window_s, arrivals_s)


def run(engine: tasks.TaskEngine) -> None:
    while not engine.has_ended:
        assert engine.is_going_on
        engine.advance(math.inf)


def advance_to(engine: tasks.TaskEngine, time_s: float) -> None:
    while engine.now < time_s:
        engine.advance(time_s)


def ends_s(engine: tasks.TaskEngine) -> list[float]:
    return list(engine._net.finish)


def test_three_tasks_on_two_slots_end_at_1_1_and_2() -> None:
    engine = make_engine([client([0.0, 0.0, 0.0])], [2])
    run(engine)
    assert ends_s(engine) == [1.0, 1.0, 2.0]
    assert engine.latencies_s(range(1)).tolist() == [1.0, 1.0, 2.0]


def test_a_batch_ends_with_its_last_task() -> None:
    engine = make_engine([client([0.0], batch_tasks=5)], [2])
    run(engine)
    assert ends_s(engine) == [3.0]


def test_a_queue_with_deterministic_service_waits_as_theory_says() -> None:
    """M/D/1 at a load of 0.75: the mean wait is 1.5 services."""
    chance = random.Random(5)
    now = 0.0
    arrivals_s = []
    for _ in range(200_000):
        now += chance.expovariate(0.75)
        arrivals_s.append(now)
    engine = make_engine([client(arrivals_s)], [1])
    run(engine)
    waits_s = engine.latencies_s(range(1)) - 1.0
    assert waits_s.mean() == pytest.approx(1.5, rel=0.03)


def test_a_task_joins_the_shortest_queue() -> None:
    engine = make_engine([client([0.0, 0.1, 0.2, 0.3])], [3])
    advance_to(engine, 0.2)
    assert list(engine._net.length) == [1, 1, 1]
    # All have one: the lowest number is first.
    advance_to(engine, 0.3)
    assert list(engine._net.length) == [2, 1, 1]


def test_short_tasks_avoid_the_queue_of_a_long_one() -> None:
    """100 ms and 1 ms: in turn, each third short task would wait for it."""
    arrivals_s = [0.0, *(0.001 + 0.0012 * at for at in range(60))]
    engine = make_engine([client(arrivals_s, 0.1)], [3])
    advance_to(engine, 0.0005)
    engine._net.task_s[0] = 0.001
    run(engine)
    long_s, *short_s = engine.latencies_s(range(1)).tolist()
    assert long_s == pytest.approx(0.1)
    assert short_s == pytest.approx([0.001] * 60)


def test_queues_of_equal_tasks_are_served_alike() -> None:
    """Six members and eight queues: no member is idle before the end."""
    engine = make_engine([client([0.0], batch_tasks=600)], [6], spare=2)
    run(engine)
    assert ends_s(engine) == [100.0]


def test_backlogged_clients_get_equal_counts_of_tasks() -> None:
    engine = make_engine(
        [client([0.0], 1.0, 500), client([0.0], 0.1, 500)], [2]
    )
    advance_to(engine, 100.0)
    counts = [engine.counts(number).ended for number in range(2)]
    assert abs(counts[0] - counts[1]) <= 2


def test_a_batch_beyond_the_window_is_refused() -> None:
    engine = make_engine(
        [client([0.0, 0.0, 0.0, 4.0], 1.0, 2, window_s=4.0)], [1]
    )
    run(engine)
    assert engine.refused(range(1)) == 1
    # At 4 s a task ends before the next batch arrives.
    assert engine.latencies_s(range(1)).tolist() == [2.0, 4.0, 2.0]
    assert engine.counts(0) == tasks.Counts(6, 6, 0, 6.0)


@pytest.mark.parametrize("link_tasks_per_s", [math.inf, 100.0])
def test_an_end_and_an_arrival_that_fall_together_are_one_instant(
    link_tasks_per_s: float,
) -> None:
    # 0.1 + 0.2 is one step of the number above 0.3.
    engine = make_engine(
        [client([0.1, 0.3], 0.2, window_s=0.2)],
        [1],
        link_tasks_per_s=link_tasks_per_s,
    )
    run(engine)
    assert engine.refused(range(1)) == 0


def test_a_shared_link_slows_all_slots_alike() -> None:
    """8 slots of 16.6 tasks/s share 96: 6, 1 and 1 slots."""
    clients = [
        client([0.0], 1 / 16.6, 3000, group=number) for number in range(3)
    ]
    engine = make_engine(clients, [6, 1, 1], link_tasks_per_s=96.0)
    run(engine)
    assert ends_s(engine) == pytest.approx([41.67, 192.27, 192.27], abs=0.01)


def test_a_member_leaves_when_its_task_ends() -> None:
    engine = make_engine([client([0.0], 1.0, 4)], [2])
    advance_to(engine, 0.5)
    engine.let_leave(0, 1)
    engine.advance(math.inf)
    assert engine.now == 1.0
    assert engine.serves(0) is None
    assert engine.free_slot() == 0
    assert engine.members(0) == 1
    run(engine)
    assert ends_s(engine) == [3.0]


def test_a_slot_that_is_programmed_runs_no_task() -> None:
    engine = make_engine([client([0.0], 1.0, 4)], [1], spare=1)
    engine.advance(0.0)
    engine.program(1, 0, 2.5)
    engine.advance(math.inf)
    assert engine.now == 2.5
    assert engine.serves(1) == 0
    run(engine)
    # Two tasks before, then one at 3 and one at 3.5.
    assert ends_s(engine) == [3.5]
    assert engine.spent() == pytest.approx((0.5, 4.0, 2.5, 0.0))


def test_tasks_go_to_the_host_with_fewest_for_each_member() -> None:
    engine = make_engine([client([0.0], 1.0, 9)], [3], hosts=[0, 0, 1])
    advance_to(engine, 0.5)
    net = engine._net
    assert list(net.unfinished) == [6, 3]
    run(engine)
    assert ends_s(engine) == [3.0]


def test_tasks_leave_a_host_without_members() -> None:
    engine = make_engine([client([0.0], 1.0, 8)], [2], hosts=[0, 1])
    advance_to(engine, 0.5)
    engine.let_leave(0, 1)
    run(engine)
    # Slot 0 leaves at 1; the other one runs all that is left.
    assert ends_s(engine) == [7.0]
    assert engine.counts(0) == tasks.Counts(8, 8, 0, 8.0)


def test_dropped_tasks_never_run() -> None:
    engine = make_engine(
        [client([0.0, 5.0], 1.0, 10), client([0.0], 1.0, 4, group=1)], [2, 1]
    )
    advance_to(engine, 1.5)
    engine.close(0)
    run(engine)
    assert engine.counts(0).ended == 4
    assert engine.refused(range(1)) == 1
    assert engine.counts(1).ended == 4


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_lost_under_random_moves(seed: int) -> None:
    """Tasks are conserved, and so is the time of the slots."""
    chance = random.Random(seed)
    clients = [
        client(
            sorted(chance.uniform(0, 50) for _ in range(40)),
            chance.uniform(0.01, 0.5),
            chance.randint(1, 20),
            group=number // 2,
            window_s=20.0,
        )
        for number in range(6)
    ]
    hosts = [chance.randint(0, 1) for _ in range(7)]
    hosts[0] = 0
    engine = make_engine(clients, [2, 2, 2], hosts=hosts, spare=1)
    engine.advance(0.0)
    for step in range(100):
        limit_s = 0.6 * (step + 1)
        while engine.now < limit_s:
            engine.advance(limit_s)
            while (slot := engine.free_slot()) is not None:
                engine.program(slot, chance.randrange(3), engine.now + 0.4)
        group = chance.randrange(3)
        if engine.members(group) > 1:
            engine.let_leave(group, 1)
        for other in range(3):
            running = engine.busy_members(other)
            counts = [engine.counts(2 * other + at) for at in range(2)]
            left = sum(each.arrived - each.ended for each in counts)
            assert left == running + sum(each.waiting for each in counts)
    for group in range(3):
        engine.let_leave(group, 0)
    while (slot := engine.free_slot()) is not None:
        engine.program(slot, 0, engine.now)
    run(engine)
    for number, each in enumerate(clients):
        counts = engine.counts(number)
        refused = engine.refused(range(number, number + 1))
        assert counts.arrived == each.batch_tasks * (40 - refused)
        assert counts.ended == counts.arrived
        assert counts.waiting == 0
        assert counts.taken_s == pytest.approx(counts.ended * each.task_s)
        assert engine.latencies_s(range(number, number + 1)).size == (
            40 - refused
        )
    spent = engine.spent()
    assert sum(spent) == pytest.approx(7 * engine.now, rel=1e-12)
    assert spent.busy_s == pytest.approx(
        sum(engine.counts(number).taken_s for number in range(6))
    )
