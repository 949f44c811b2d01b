# SPDX-License-Identifier: Apache-2.0

"""All parts of worlds, and the schedules that they make."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import random
import typing
from collections.abc import Mapping

from tests.world import budgets
from tests.world import calendar
from tests.world import chains
from tests.world import faults
from tests.world import groups
from tests.world import part
from tests.world import preemption
from tests.world import schedule as schedules
from tests.world import sets
from tests.world import share_trees
from tests.world import users

#: In the order in which they are drawn, and in which they begin. What one
#: configures, the next ones may replace.
ALL: Mapping[str, type[part.Part]] = {
    one.NAME: one
    for one in (
        groups.Groups,
        users.Users,
        preemption.Preemption,
        budgets.Budgets,
        sets.Sets,
        calendar.Reservations,
        share_trees.ShareTrees,
        chains.Chains,
    )
}
#: What a schedule has many of. It is cut shorter from the end on: what takes
#: most of the time comes last here.
LISTS: Mapping[str, type[typing.Any]] = {
    "faults": schedules.Fault,
    **{name: kind for one in ALL.values() for name, kind in one.PLANS.items()},
    "visits": schedules.Visit,
}
#: All faults, by their kinds.
FAULTS: Mapping[str, part.Fault] = {
    **faults.FAULTS,
    **{name: how for one in ALL.values() for name, how in one.FAULTS.items()},
}


def of(schedule: schedules.Schedule) -> list[type[part.Part]]:
    """Return the parts that a schedule has, in their order."""
    return [one for name, one in ALL.items() if name in schedule.parts]


def draw(
    seed: int,
    *,
    clients: int = 20,
    sessions: int = 200,
    having: Mapping[str, bool | None] | None = None,
) -> schedules.Schedule:
    """Return the schedule of a seed.

    :param sessions: how many they open, all together; half as many where
        there are groups.
    :param having: whether it has a part, by the part's name; None: the seed
        decides.
    """
    rng = random.Random(f"schedule {seed}")
    schedule = schedules.draw(
        rng, seed, list(faults.FAULTS), clients, sessions
    )
    for name, one in ALL.items():
        has = (having or {}).get(name)
        if has is None:
            every, which = one.SEEDS
            has = seed % every in which
        if has:
            schedule = dataclasses.replace(
                one.draw(schedule), parts=(*schedule.parts, name)
            )
    return schedule


def read(path: pathlib.Path) -> schedules.Schedule:
    """Read what :meth:`schedules.Schedule.text` has returned."""
    document = json.loads(path.read_text())
    lists = {
        name: tuple(kind(**one) for one in document.pop(name, ()))
        for name, kind in LISTS.items()
    }
    unknown = set(document.get("parts", ())) - set(ALL)
    if unknown:
        raise ValueError(f"{path}: there are no parts {sorted(unknown)}")
    return schedules.Schedule(
        seed=document.pop("seed"),
        visits=lists.pop("visits"),
        faults=lists.pop("faults"),
        plans={name: found for name, found in lists.items() if found},
        **{name: tuple(one) for name, one in document.items()},
    )


def options(
    schedule: schedules.Schedule,
) -> dict[str, dict[str, object]]:
    """Return what conductors are configured with, as its parts want it."""
    found: dict[str, dict[str, object]] = {}
    for one in of(schedule):
        for group, values in one.options(schedule.seed).items():
            found[group] = {**found.get(group, {}), **values}
    return found
