# SPDX-License-Identifier: Apache-2.0

"""Kept schedules that show planted bugs."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable
from collections.abc import Iterator

from tests.world import bugs
from tests.world import hunt
from tests.world import pool as pools
from tests.world import run
from tests.world import schedule as schedules

KINDS = ("kill", "stop")
BUG = bugs.Bug(lambda: None, "twice", groups=False, preempts=False)
KEPT = schedules.draw(7, KINDS, sessions=8, groups=False)


class World:
    """Plays schedules that have the bug where a test says so."""

    def __init__(self, shows: Callable[[schedules.Schedule], bool]) -> None:
        self._shows = shows
        self.played = 0
        self.said: list[str] = []

    def play(
        self, wanted: Iterator[run.Wanted[typing.Any]]
    ) -> typing.Generator[tuple[typing.Any, run.Result], None, None]:
        for one in wanted:
            assert one.change is BUG.plant
            self.played += 1
            shown = self._shows(one.schedule)
            problem = "charged twice\nTraceback" if shown else "something else"
            yield one.key, run.Result(one.schedule.seed, [problem])

    def show(self, **kept: schedules.Schedule) -> list[str]:
        planted = {"one": BUG, "other": BUG}
        return hunt.show(planted, kept, self.play, self.said.append)

    def find(
        self, kept: schedules.Schedule | None, *drawn: schedules.Schedule
    ) -> schedules.Schedule | None:
        return hunt.find("one", BUG, kept, drawn, self.play, self.said.append)


def seed(number: int) -> int:
    return KEPT.seed + number * pools.KINDS


def test_each_bug_has_a_schedule() -> None:
    names = {path.stem for path in hunt.KEPT.glob("*.json")}
    assert names == bugs.BUGS.keys()
    assert len(names) >= 45


def test_a_schedule_is_played_until_it_shows_its_bug() -> None:
    world = World(lambda one: one.seed in (seed(2), seed(3)))
    assert world.show(one=KEPT, other=KEPT) == []
    assert world.played == 6
    assert world.said == [
        f"{name} (by chance 3 of {hunt.CHANCES}): charged twice"
        for name in ("one", "other")
    ]
    world = World(lambda _one: True)
    world.show(one=KEPT, other=KEPT)
    assert world.said == ["one: charged twice", "other: charged twice"]


def test_other_chances_have_the_same_kind_of_pool() -> None:
    for kind in (pools.keys_for, pools.policy_for, pools.strategy_for):
        assert len({str(kind(seed(number))) for number in range(9)}) == 1


def test_a_stale_schedule_is_named_with_what_renews_it() -> None:
    world = World(lambda _one: False)
    assert world.show(one=KEPT) == ["one", "other"]
    assert world.played == hunt.CHANCES
    instead = {"one": "something else", "other": "there is none"}
    for (name, seen), line in zip(instead.items(), world.said, strict=True):
        path = hunt.path_of(name)
        assert line.startswith(f"{name}: NOT SHOWN by {path} ({seen})")
        assert line.endswith(f"python -m tests.world --find-bugs {name}")


def test_a_schedule_that_shows_its_bug_stays() -> None:
    world = World(lambda one: one.seed == KEPT.seed)
    assert world.find(KEPT) == KEPT
    world = World(lambda one: one.seed == seed(4))
    assert world.find(KEPT) == dataclasses.replace(KEPT, seed=seed(4))


def test_a_new_schedule_is_short_and_shows_its_bug_by_several_chances() -> (
    None
):
    once = schedules.draw(8, KINDS, sessions=8, groups=False)
    often = schedules.draw(9, KINDS, sessions=8, groups=False)
    needed = often.visits[3]

    def shows(schedule: schedules.Schedule) -> bool:
        return schedule.seed == once.seed or needed in schedule.visits

    for kept in (KEPT, None):
        found = World(shows).find(kept, once, often)
        assert found is not None
        assert (found.seed, found.visits) == (often.seed, (needed,))


def test_a_hunt_ends() -> None:
    drawn = [KEPT] * (hunt.DRAWN + 1)
    world = World(lambda _one: False)
    assert world.find(None, *drawn) is None
    assert world.played == hunt.DRAWN
    assert "NOT FOUND" in world.said[-1]
