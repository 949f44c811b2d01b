# SPDX-License-Identifier: Apache-2.0

"""What the demo says about its runs is what was measured."""

import dataclasses
import types

import pytest

from demo import programs
from demo.acts import comparison
from demo.acts import sharing
from fpgapool.sim.outcomes import group_results
from fpgapool.sim.outcomes import metrics

FIFO = metrics.Metrics(
    jobs=10,
    act_s=6.0,
    tct95_s=10.0,
    p50_s=5.0,
    p99_s=11.0,
    sar=0.2,
    dlr=0.2,
    makespan_s=12.0,
    wait_mean_s=4.0,
    wait_p95_s=8.0,
    wait_p99_s=9.0,
)
WRA = dataclasses.replace(FIFO, act_s=2.0, tct95_s=8.0, dlr=0.5)


def test_direction_shows() -> None:
    text = comparison.verdict(FIFO, WRA, 0.25)
    assert "direction shows" in text
    assert "3.00 times" in text
    assert "1.25 times" in text
    assert "2.00 times as many bytes stay local as in random slots" in text
    assert "0.50 of all instead of 0.25" in text


def test_the_luck_of_fifo_does_not_count() -> None:
    lucky = dataclasses.replace(FIFO, dlr=0.45)
    assert "direction shows" in comparison.verdict(lucky, WRA, 0.25)


@pytest.mark.parametrize(
    "change",
    [{"act_s": 6.1}, {"tct95_s": 10.1}, {"dlr": 0.49}],
    ids=lambda change: next(iter(change)),
)
def test_direction_does_not_show(change: dict[str, float]) -> None:
    text = comparison.verdict(FIFO, dataclasses.replace(WRA, **change), 0.25)
    assert "does NOT show" in text


def test_the_share_of_random_slots() -> None:
    boards = {"a": 2, "b": 1, "c": 0}
    jobs = [
        types.SimpleNamespace(host=host, size_bytes=size_bytes)
        for host, size_bytes in (("a", 30), ("b", 60), ("c", 10))
    ]
    share = comparison.random_share(jobs, boards)  # type: ignore[arg-type]
    assert share == pytest.approx(0.3 * 2 / 3 + 0.6 / 3)


FIXED = sharing.Values(tasks=400, mean_s=2.0, p95_s=5.0, moves=0)
ELASTIC = sharing.Values(tasks=400, mean_s=0.5, p95_s=1.5, moves=6)


def test_elastic_groups_help() -> None:
    text = sharing.verdict(FIXED, ELASTIC)
    assert text.startswith("Elastic groups help: ")
    assert "4.0 times" in text
    assert "6 times a slot" in text


@pytest.mark.parametrize("change", [{"mean_s": 2.1}, {"moves": 0}])
def test_elastic_groups_do_not_help(change: dict[str, float]) -> None:
    text = sharing.verdict(FIXED, dataclasses.replace(ELASTIC, **change))
    assert "do NOT help" in text


def test_times_of_devices_are_not_compared() -> None:
    text = sharing.summary(ELASTIC, FIXED)
    assert "400 tasks took 0.50 s" in text
    assert "not compared" in text
    assert "help" not in text


def test_a_slot_that_moves_while_it_is_counted_counts_once() -> None:
    assert programs.count_once([{1, 2, 3}, {3, 4}]) == [2, 2]
    assert programs.count_once([{1}, {2}]) == [1, 1]


def test_moves_are_members_that_joined() -> None:
    course = group_results.Course(
        [0.0, 0.5, 1.0, 1.5],
        [[4, 4, 6, 5], [4, 3, 2, 3]],
        [[0.0] * 4, [0.0] * 4],
        [[0] * 4, [0] * 4],
    )
    values = sharing.measure(programs.Outcome(course, [1.0, 2.0, 3.0], []))
    assert (values.tasks, values.mean_s, values.moves) == (3, 2.0, 3)


def test_all_programs_get_arrivals_that_fit_the_slots() -> None:
    found = sharing.draw_arrivals(1)
    assert [len(of_group) for of_group in found] == [sharing.CLIENTS] * 2
    assert found == sharing.draw_arrivals(1) != sharing.draw_arrivals(2)
    length_s = sum(length_s for length_s, _ in sharing.LOAD)
    for at, of_group in enumerate(found):
        assert all(0 < each_s < length_s for own in of_group for each_s in own)
        slots = sum(span_s * slots[at] for span_s, slots in sharing.LOAD)
        tasks = sum(map(len, of_group))
        assert tasks * sharing.TASK_S == pytest.approx(slots, rel=0.3)
