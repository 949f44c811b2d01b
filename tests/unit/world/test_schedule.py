# SPDX-License-Identifier: Apache-2.0

"""Schedules as data."""

import pathlib

from tests.world import schedule as schedules

KINDS = ("kill", "stop", "drain")


def test_a_seed_is_always_the_same_schedule() -> None:
    assert schedules.draw(7, KINDS) == schedules.draw(7, KINDS)
    assert schedules.draw(7, KINDS) != schedules.draw(8, KINDS)


def test_some_streams_have_many_pieces_on_their_way() -> None:
    visits = schedules.draw(7, KINDS).visits
    window_bytes = 4 * 4096
    long = [
        one
        for one in visits
        if one.conduct == "stream"
        and one.accelerator == "copy"
        and one.size_bytes >= 4 * window_bytes
    ]
    assert len(long) >= len(visits) // 20
    # Of several clients.
    assert len({one.client for one in long}) >= 5


def test_groups_come_beside_what_there_is_without_them() -> None:
    without = schedules.draw(7, KINDS, groups=False)
    schedule = schedules.draw(7, KINDS, group_kinds=("desk-kill",))
    assert schedule.groups
    assert schedule.guests
    assert schedule.weather == without.weather
    assert schedule.visits == without.visits[: len(without.visits) // 2]
    added = schedule.faults[len(without.faults) :]
    assert without.faults == schedule.faults[: len(without.faults)]
    assert {one.kind for one in added} == {"desk-kill"}
    assert not schedules.draw(8, KINDS).groups


def test_groups_that_are_written_are_read(tmp_path: pathlib.Path) -> None:
    schedule = schedules.draw(10, KINDS, sessions=4, groups=True)
    assert schedule.changes
    path = tmp_path / "schedule.json"
    path.write_text(schedule.text())
    assert schedules.Schedule.read(path) == schedule


def test_some_schedules_preempt(tmp_path: pathlib.Path) -> None:
    schedule = schedules.draw(5, KINDS, sessions=40)
    assert schedule.preempts
    assert {one.priority for one in schedule.visits} > {0, 5}
    assert any(one.deadline_s for one in schedule.visits)
    path = tmp_path / "schedule.json"
    path.write_text(schedule.text())
    assert schedules.Schedule.read(path) == schedule
    other = schedules.draw(5, KINDS, sessions=40, preempts=False)
    assert {one.priority for one in other.visits} == {0}
    assert other.faults == schedule.faults
    assert not schedules.draw(6, KINDS).preempts


def test_extents_choose_one_of_several() -> None:
    # They would be 1.0 of a fault, and of a change.
    extents = [
        one.extent
        for seed in (5033, 5746)
        for schedule in [schedules.draw(seed, KINDS, groups=True)]
        for one in (*schedule.faults, *schedule.changes)
    ]
    assert all(int(extent * 7) < 7 for extent in extents)


def test_what_is_written_is_read(tmp_path: pathlib.Path) -> None:
    schedule = schedules.draw(11, KINDS, sessions=9)
    path = tmp_path / "schedule.json"
    path.write_text(schedule.text())
    assert schedules.Schedule.read(path) == schedule


def test_nothing_at_all_can_be_written(tmp_path: pathlib.Path) -> None:
    schedule = schedules.Schedule(1, (), ())
    path = tmp_path / "schedule.json"
    path.write_text(schedule.text())
    assert schedules.Schedule.read(path) == schedule


def test_only_what_is_needed_for_a_failure_is_left() -> None:
    schedule = schedules.draw(3, KINDS, sessions=40, groups=False)
    assert schedule.faults
    needed = schedule.visits[13], schedule.visits[31]
    guilty = schedule.faults[-1]

    def fails(other: schedules.Schedule) -> bool:
        return guilty in other.faults and set(needed) <= set(other.visits)

    short = schedules.shrink(schedule, fails)
    assert short.faults == (guilty,)
    assert short.visits == needed


def test_a_failure_that_needs_nothing_is_cut_to_nothing() -> None:
    schedule = schedules.draw(3, KINDS, sessions=40, groups=False)
    short = schedules.shrink(schedule, lambda _other: True)
    assert not short.faults
    assert not short.visits


def _trouble_s(*faults: tuple[float, float]) -> float:
    return schedules.Schedule(
        1,
        (),
        tuple(
            schedules.Fault("kill", 0, begins_s, lasts_s, 0.0)
            for begins_s, lasts_s in faults
        ),
    ).longest_trouble_s


def test_faults_that_overlap_are_one_trouble() -> None:
    assert _trouble_s() == 0.0
    assert _trouble_s((5.0, 2.0)) == 2.0
    assert _trouble_s((5.0, 2.0), (6.0, 4.0), (20.0, 3.0)) == 5.0
