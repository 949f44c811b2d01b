# SPDX-License-Identifier: Apache-2.0

"""Schedules that show planted bugs: they are kept, and found anew.

Any change of the product may shift what chance decides in a world, and a
schedule then misses what it has shown. So a kept schedule has many chances: it
is played with other seeds, in the same kind of pool. The verdict depends on
nothing else, in particular not on time.
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
import typing
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

from tests.world import parts
from tests.world import planting
from tests.world import pool as pools
from tests.world import run
from tests.world import schedule as schedules

KEPT = pathlib.Path(__file__).parent / "kept" / "bugs"
#: How often a kept schedule is played until it has shown its bug.
CHANCES = 40
#: How many schedules are drawn to find one that shows a bug.
DRAWN = 400
#: A new schedule, cut short or not, shows its bug by at least two of so many
#: chances: one that needs the one that it had would soon be stale.
_TRIED_CHANCES = 4
_LEAST_SHOWN = 2
_SHRINK_TRIES = 25

_Schedules = Iterable[schedules.Schedule]
#: Plays schedules side by side, and yields what became of each as it ends.
Play = Callable[
    [Iterator[run.Wanted[typing.Any]]],
    typing.Generator[tuple[typing.Any, run.Result], None, None],
]
_Say = Callable[[str], None]


def path_of(name: str) -> pathlib.Path:
    """Return where the schedule of a bug is kept."""
    return KEPT / f"{name}.json"


def show(
    planted: Mapping[str, planting.Bug],
    kept: Mapping[str, schedules.Schedule],
    play: Play,
    say: _Say,
) -> list[str]:
    """Play the schedules of bugs, each until it shows its bug.

    :param kept: the schedules that there are.
    :param say: is told what each shows.
    :returns: the bugs that are not shown.
    """
    hidden = list(planted)
    instead: dict[str, str] = {}
    for number in range(CHANCES):
        wanted = (
            run.Wanted(name, _other_chance(kept[name], number), bug.plant)
            for name, bug in planted.items()
            if name in kept and name in hidden
        )
        for name, result in play(wanted):
            instead[name] = next(iter(result.problems), "all went well")
            if line := planted[name].seen_in(result):
                hidden.remove(name)
                late = f" (by chance {number + 1} of {CHANCES})"
                say(f"{name}{late if number else ''}: {line:.120}")
    for name in hidden:
        line = instead.get(name, "there is none").splitlines()[0]
        say(
            f"{name}: NOT SHOWN by {path_of(name)} ({line:.120}); renew that:"
            f" python -m tests.world --find-bugs {name}"
        )
    return hidden


def find(
    name: str,
    bug: planting.Bug,
    kept: schedules.Schedule | None,
    drawn: _Schedules,
    play: Play,
    say: _Say,
) -> schedules.Schedule | None:
    """Find a schedule that shows a bug.

    :param kept: the schedule that should show it.
    :param drawn: others, to be looked at if it does not.
    :param say: is told what was found.
    :returns: None: there is none among these.
    """
    hunter = _Hunter(bug, play)
    if kept is not None:
        if hunter.count([kept]):
            say(f"{name}: is shown")
            return kept
        for found in hunter.shown(_chances(kept, CHANCES)):
            say(f"{name}: is shown with seed {found.seed}")
            return found
    for found in hunter.shown(itertools.islice(drawn, DRAWN)):
        if not hunter.is_steady(found):
            continue
        short = schedules.shrink(
            found, list(parts.LISTS), hunter.is_steady, _SHRINK_TRIES
        )
        say(
            f"{name}: found with seed {found.seed}; {len(short.visits)} visits"
            f" and {len(short.faults)} faults are left"
        )
        return short
    say(f"{name}: NOT FOUND in {DRAWN} schedules")
    return None


def _other_chance(
    schedule: schedules.Schedule, number: int
) -> schedules.Schedule:
    seed = schedule.seed + number * pools.KINDS
    return dataclasses.replace(schedule, seed=seed)


def _chances(
    schedule: schedules.Schedule, count: int
) -> Iterator[schedules.Schedule]:
    return (_other_chance(schedule, number) for number in range(count))


class _Hunter:
    """Looks for schedules that show a bug."""

    def __init__(self, bug: planting.Bug, play: Play) -> None:
        self._bug = bug
        self._play = play

    def shown(
        self, candidates: _Schedules
    ) -> typing.Generator[schedules.Schedule, None, None]:
        """Yield those that show it."""
        plant = self._bug.plant
        results = self._play(run.Wanted(one, one, plant) for one in candidates)
        try:
            for schedule, result in results:
                if self._bug.seen_in(result):
                    yield schedule
        finally:
            results.close()

    def count(self, candidates: _Schedules) -> int:
        """Return how many of them show it."""
        return sum(1 for _ in self.shown(candidates))

    def is_steady(self, schedule: schedules.Schedule) -> bool:
        """Whether a schedule shows it, and not just by one chance."""
        first, *others = _chances(schedule, _TRIED_CHANCES)
        if not self.count([first]):
            return False
        shown, more = self.shown(others), _LEAST_SHOWN - 1
        found = len(list(itertools.islice(shown, more)))
        shown.close()
        return found == more
