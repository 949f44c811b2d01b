# SPDX-License-Identifier: Apache-2.0

"""What owners of groups and the programs that use these do in one run."""

from __future__ import annotations

import dataclasses
import random
import typing
from collections.abc import Sequence

from tests.world import schedule as schedules
from tests.world import sets

#: What owners ask for, and how often.
CHANGES = {"resize": 6, "goal": 2, "no-goal": 1, "revoke": 2}
#: What a guest does with its group, and how often.
GUESTS = {"batches": 5, "one": 2, "all": 2, "lock": 4, "leave": 1}
#: Inputs of tasks are at least as long.
LEAST_TASK_BYTES = 32


@dataclasses.dataclass(frozen=True)
class Group:
    """A group, made and deleted by its owner.

    :ivar begins_s: when it is asked for.
    :ivar lasts_s: after which it is deleted; None: when its guests have left.
    :ivar all_or_none: whether its first slots come all at once.
    """

    name: str
    project: int
    accelerator: str
    size: int
    min_size: int
    max_size: int
    elastic: bool
    shared: bool
    begins_s: float
    lasts_s: float | None = None
    all_or_none: bool = False
    placement: str | None = None


@dataclasses.dataclass(frozen=True)
class Change:
    """What the owner of a group asks for later.

    :ivar after_s: since the change before it.
    :ivar size: that the group shall have.
    :ivar extent: what else there is to say: at least 0, less than 1.
    """

    group: str
    after_s: float
    kind: str
    size: int
    extent: float


@dataclasses.dataclass(frozen=True)
class Guest:
    """A program that uses a group.

    :ivar host: where it runs, by number.
    :ivar batch: how many it sends at once.
    :ivar window_tasks: how many may be at the group's desks.
    :ivar begins_s: when it comes, after the group was asked for.
    :ivar pause_s: between two batches, on average.
    """

    group: str
    host: int
    project: int
    conduct: str
    tasks: int
    batch: int
    window_tasks: int
    most_bytes: int
    data_seed: int
    begins_s: float
    pause_s: float


def draw(
    schedule: schedules.Schedule, kinds: Sequence[str]
) -> schedules.Schedule:
    """Return a schedule that has groups, and half the visits.

    :param kinds: of faults that groups have besides.
    """
    rng = random.Random(f"groups {schedule.seed}")
    groups = tuple(_all_or_none(schedule.seed, _groups(rng)))
    faults = schedule.faults
    if kinds:
        faults += tuple(schedules.draw_faults(rng, kinds, (1, 2, 4)))
    return dataclasses.replace(
        schedule,
        visits=schedule.visits[: -(-len(schedule.visits) // 2)],
        faults=faults,
        plans={
            **schedule.plans,
            "groups": groups,
            "changes": tuple(
                one for each in groups for one in _changes(rng, each)
            ),
            "guests": tuple(
                one for each in groups for one in _guests(rng, each)
            ),
        },
    )


def _groups(rng: random.Random) -> typing.Iterator[Group]:
    for number in range(rng.choice((1, 2, 2, 3))):
        size = rng.choice((1, 2, 2, 3))
        elastic = rng.random() < 0.7
        shared = rng.random() < 0.3
        yield Group(
            name=f"g{number}",
            project=rng.randrange(len(schedules.PROJECTS)),
            accelerator="copy" if shared or rng.random() < 0.8 else "sha",
            size=size,
            min_size=rng.randint(0 if elastic else 1, size),
            max_size=size + (rng.randrange(4) if elastic else 0),
            elastic=elastic,
            shared=shared,
            begins_s=round(rng.uniform(0.0, 6.0), 3),
            lasts_s=(
                round(rng.uniform(4.0, 25.0), 3)
                if rng.random() < 0.2
                else None
            ),
        )


def _all_or_none(
    seed: int, groups: typing.Iterable[Group]
) -> typing.Iterator[Group]:
    """Let some groups get their first slots all at once."""
    rng = random.Random(f"first slots {seed}")
    for group in groups:
        if rng.random() < 0.6:
            yield group
            continue
        size = max(group.min_size, 1)
        yield dataclasses.replace(
            group,
            min_size=size,
            all_or_none=True,
            placement=rng.choice(sets.PLACEMENTS_OF.get(size, (None,))),
        )


def _changes(rng: random.Random, group: Group) -> typing.Iterator[Change]:
    kinds = dict(CHANGES)
    if not group.min_size:
        # It would fall to nothing when it has reached its goal.
        del kinds["goal"]
    for _ in range(rng.randrange(6)):
        yield Change(
            group=group.name,
            after_s=round(rng.expovariate(1 / 4), 3),
            kind=rng.choices(list(kinds), list(kinds.values()))[0],
            size=rng.randint(1, 4),
            extent=schedules.draw_extent(rng),
        )


def _guests(rng: random.Random, group: Group) -> typing.Iterator[Guest]:
    for _ in range(rng.randint(1, 3)):
        yield Guest(
            group=group.name,
            host=rng.randrange(len(schedules.SLOTS)),
            project=(
                rng.randrange(len(schedules.PROJECTS))
                if group.shared
                else group.project
            ),
            conduct=rng.choices(list(GUESTS), list(GUESTS.values()))[0],
            tasks=int(2 ** rng.uniform(2, 6)),
            batch=rng.choice((1, 4, 8, 16)),
            window_tasks=rng.choice((1, 4, 16, 64)),
            most_bytes=int(2 ** rng.uniform(7, 11)),
            data_seed=rng.getrandbits(32),
            begins_s=round(rng.uniform(0.0, 15.0), 3),
            pause_s=round(rng.expovariate(1 / 0.5), 3),
        )
