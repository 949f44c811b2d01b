# SPDX-License-Identifier: Apache-2.0

"""What clients and fate do in one run, drawn from a seed.

A schedule is plain data: it can be written down, cut shorter and played
again.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import random
import typing
from collections.abc import Callable
from collections.abc import Sequence

from fpgapool.vocabulary import states
from tests.chaos import jobs
from tests.world import driver

#: How large the pool is: conductors, of which one leads, and the slots of
#: each host with an agent; 0 is a host without boards.
CONDUCTORS = 3
SLOTS = (4, 2, 2, 0)
PROJECTS = ("p1", "p2")
#: Faults begin before that.
FAULTS_END_S = 30.0
_BOARDS = [number for number, slots in enumerate(SLOTS) if slots]

#: Of so many seeds, these have sessions that take slots from others. The
#: seeds at which planted bugs are known to show are not among them.
_PREEMPTING = (7, (0, 5))
#: Of so many seeds, this one has budgets.
_BUDGETED = (5, 3)
#: Of so many seeds, this one has sets of sessions: so many.
_WITH_SETS = (4, 1)
_SETS = (2, 8)
#: The placements that the pool can hold, by size.
_PLACEMENTS_OF: dict[int, tuple[str | None, ...]] = {
    2: (None, *states.PLACEMENTS),
    3: (None, *states.PLACEMENTS),
    4: (None, states.SAME_BOARD, states.SAME_HOST),
}
#: Of so many seeds, this one has reservations.
_RESERVED = (5, 1)
#: One of so many, also none of those, has far more or less output than input.
_SCALING_EVERY = 6
_SCALING = tuple(driver.RATIOS)
_SCALED_BYTES = 30_000
#: No slot takes longer for what a client claims.
_LEAST_DEADLINE_S = 4.0
#: Priorities of their sessions, and how often.
_PRIORITIES = {-1: 2, 0: 10, 1: 3, 2: 3, 5: 2}

#: Each of so many visits is a stream with several pieces on their way, for as
#: long as a fault may need to hit it.
_LONG_EVERY = 19
_LONG_BYTES = 1 << 16

#: What owners ask for, and how often.
CHANGES = {"resize": 6, "goal": 2, "no-goal": 1, "revoke": 2}
#: What a guest does with its group, and how often.
GUESTS = {"batches": 5, "one": 2, "all": 2, "lock": 4, "leave": 1}
#: Inputs of tasks are at least as long.
LEAST_TASK_BYTES = 32

#: What a client does with its session, and how often.
_CONDUCTS = {
    "stream": 50,
    "pieces": 25,
    "slow": 6,
    "cancel": 8,
    "early": 8,
    "liar": 5,
    "silent": 1,
    "stranger": 2,
}


class _Job(jobs.Job):
    """A job of an accelerator that may be the world's alone."""

    def expected(self, data: bytes) -> bytes:
        if self.accelerator in driver.RATIOS:
            return driver.scaled(self.accelerator, data)
        return super().expected(data)


@dataclasses.dataclass(frozen=True)
class Set:
    """Clients whose sessions get their slots at the same time.

    :ivar host: where the first of them runs, by number.
    :ivar missing: how many of them never come.
    :ivar conduct: what the first one does with its session.
    :ivar apart_s: after which each comes after the one before.
    """

    name: str
    project: int
    host: int
    by_api: bool
    size: int
    missing: int
    placement: str | None
    conduct: str
    size_bytes: int
    data_seed: int
    begins_s: float
    apart_s: float
    patience_s: float


@dataclasses.dataclass(frozen=True)
class Visit:
    """A job of a client.

    :ivar host: where the client runs, by number.
    :ivar project: whose front door it takes, by number.
    :ivar by_api: it takes the REST API instead.
    :ivar think_s: until it comes to the slot that it has got.
    :ivar deadline_s: of its session; None: it has none.
    :ivar of_set: the set that it belongs to; None: none.
    """

    client: int
    host: int
    project: int
    by_api: bool
    accelerator: str
    conduct: str
    size_bytes: int
    data_seed: int
    pause_s: float
    patience_s: float
    think_s: float = 0.0
    priority: int = 0
    deadline_s: float | None = None
    of_set: Set | None = None

    def job(self) -> jobs.Job:
        """Return it as the clients of ``tests/chaos`` want it."""
        return _Job(
            accelerator=self.accelerator,
            params={},
            conduct=self.conduct,
            size_bytes=self.size_bytes,
            data_seed=self.data_seed,
            door=0,
            pause_s=self.pause_s,
            patience_s=self.patience_s,
        )


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


@dataclasses.dataclass(frozen=True)
class Fault:
    """Something that goes wrong, or that an operator does.

    :ivar target: number of what it happens to.
    :ivar extent: what else there is to say: at least 0, less than 1.
    """

    kind: str
    target: int
    begins_s: float
    lasts_s: float
    extent: float


@dataclasses.dataclass(frozen=True)
class Schedule:
    """All that happens, but for what chance decides on the way.

    :ivar weather: shares of messages that are lost, doubled and late.
    :ivar fails: shares of transactions that fail before and after.
    :ivar preempts: sessions take slots from others.
    :ivar budgets: projects have budgets, and use them up.
    :ivar reserves: operators reserve slots by calendar.
    """

    seed: int
    visits: tuple[Visit, ...]
    faults: tuple[Fault, ...]
    weather: tuple[float, float, float] = (0.0, 0.0, 0.0)
    fails: tuple[float, float] = (0.0, 0.0)
    preempts: bool = False
    budgets: bool = False
    reserves: bool = False
    groups: tuple[Group, ...] = ()
    changes: tuple[Change, ...] = ()
    guests: tuple[Guest, ...] = ()
    sets: tuple[Set, ...] = ()

    @property
    def longest_trouble_s(self) -> float:
        """For how long there is a fault all the time, at most."""
        longest_s = begun_s = ended_s = 0.0
        for fault in sorted(self.faults, key=lambda one: one.begins_s):
            if fault.begins_s > ended_s:
                begun_s = fault.begins_s
            ended_s = max(ended_s, fault.begins_s + fault.lasts_s)
            longest_s = max(longest_s, ended_s - begun_s)
        return longest_s

    def text(self) -> str:
        """Return it as JSON, a line for each list."""
        document = dataclasses.asdict(self)
        for name in "budgets", "reserves":
            if not document[name]:
                del document[name]
        for visit in document["visits"]:
            # They follow from the sets.
            del visit["of_set"]
        parts = [
            f'"{name}": {json.dumps(part)}'
            for name in _PARTS
            if (part := document.pop(name)) or name in _ALWAYS
        ]
        return ",\n".join([json.dumps(document)[:-1], *parts]) + "}\n"

    @classmethod
    def read(cls, path: pathlib.Path) -> Schedule:
        """Read what :meth:`text` has returned."""
        document = json.loads(path.read_text())
        parts = {
            name: tuple(kind(**one) for one in document.get(name, ()))
            for name, kind in _PARTS.items()
        }
        return cls(
            seed=document["seed"],
            weather=tuple(document["weather"]),
            fails=tuple(document["fails"]),
            preempts=document.get("preempts", False),
            budgets=document.get("budgets", False),
            reserves=document.get("reserves", False),
            **parts,
        )


#: What a schedule has many of. It is cut shorter from the end on: what takes
#: most of the time comes last here.
_PARTS: dict[str, type[typing.Any]] = {
    "faults": Fault,
    "groups": Group,
    "changes": Change,
    "guests": Guest,
    "sets": Set,
    "visits": Visit,
}
_ALWAYS = ("faults", "visits")


def draw(
    seed: int,
    kinds: Sequence[str],
    *,
    clients: int = 20,
    sessions: int = 200,
    group_kinds: Sequence[str] = (),
    groups: bool | None = None,
    preempts: bool | None = None,
    budgets: bool | None = None,
    sets: bool | None = None,
    reserves: bool | None = None,
) -> Schedule:
    """Return the schedule of a seed.

    :param kinds: of faults that there are.
    :param sessions: how many they open, all together; half as many where
        there are groups.
    :param group_kinds: of faults that groups have besides.
    :param groups: whether there are groups; None: in every second pair of
        seeds.
    :param preempts: whether sessions take slots from others; None: in two of
        seven seeds.
    :param budgets: whether projects have budgets; None: in one of five seeds.
    :param sets: whether there are sets of sessions; None: in one of four
        seeds.
    :param reserves: whether slots are reserved by calendar; None: in one of
        five seeds.
    """
    rng = random.Random(f"schedule {seed}")
    is_rough = rng.random() < 0.5
    schedule = Schedule(
        seed=seed,
        visits=tuple(_visits(rng, clients, sessions)),
        faults=tuple(_faults(rng, kinds, (2, 4, 6, 8, 12))),
        weather=(
            (rng.choice((0.0, 0.005, 0.03)), 0.02, 0.05)
            if is_rough
            else (0.0, 0.0, 0.01)
        ),
        fails=(0.01, 0.01) if rng.random() < 0.3 else (0.0, 0.0),
    )
    if groups is None:
        # Messages are signed in every second world.
        groups = seed // 2 % 2 == 1
    if groups:
        schedule = _with_groups(schedule, group_kinds)
    if seed % _SCALING_EVERY == 0:
        schedule = _with_ratios(schedule)
    if preempts is None:
        every, some = _PREEMPTING
        preempts = seed % every in some
    if budgets is None:
        every, which = _BUDGETED
        budgets = seed % every == which
    if reserves is None:
        every, which = _RESERVED
        reserves = seed % every == which
    schedule = dataclasses.replace(
        schedule, budgets=budgets, reserves=reserves
    )
    if sets is None:
        every, which = _WITH_SETS
        sets = seed % every == which
    if sets:
        schedule = _with_sets(schedule)
    return _with_preemption(schedule) if preempts else schedule


def _with_ratios(schedule: Schedule) -> Schedule:
    """Let sessions have far more or less output than input."""
    rng = random.Random(f"ratios {schedule.seed}")
    return dataclasses.replace(
        schedule,
        visits=tuple(
            dataclasses.replace(
                visit,
                accelerator=rng.choice(_SCALING),
                # More pieces than the worker has room for at once.
                size_bytes=max(visit.size_bytes, _SCALED_BYTES),
            )
            if visit.accelerator == "copy" and rng.random() < 0.5
            else visit
            for visit in schedule.visits
        ),
    )


def _with_sets(schedule: Schedule) -> Schedule:
    rng = random.Random(f"sets {schedule.seed}")
    return dataclasses.replace(
        schedule, sets=tuple(_sets(rng, rng.randint(*_SETS)))
    )


def _sets(rng: random.Random, count: int) -> typing.Iterator[Set]:
    for number in range(count):
        size = rng.choice((2, 2, 3, 4))
        placements = _PLACEMENTS_OF[size]
        yield Set(
            name=f"s{number}",
            project=rng.randrange(len(PROJECTS)),
            host=rng.randrange(len(SLOTS)),
            by_api=rng.random() < 0.2,
            size=size,
            missing=int(rng.random() < 0.15),
            placement=rng.choice(placements),
            conduct=rng.choices(("stream", "cancel", "early"), (6, 1, 1))[0],
            size_bytes=int(2 ** rng.uniform(10, 15)),
            data_seed=rng.getrandbits(32),
            begins_s=round(rng.uniform(0.0, 25.0), 3),
            apart_s=round(rng.choice((0.0, 0.01, 0.5)), 3),
            patience_s=round(rng.uniform(0.0, 3.0), 3),
        )


def _with_preemption(schedule: Schedule) -> Schedule:
    rng = random.Random(f"preemption {schedule.seed}")
    return dataclasses.replace(
        schedule,
        visits=tuple(
            dataclasses.replace(
                visit,
                priority=rng.choices(
                    list(_PRIORITIES), list(_PRIORITIES.values())
                )[0],
                deadline_s=(
                    round(rng.uniform(_LEAST_DEADLINE_S, 20.0), 3)
                    if rng.random() < 0.3
                    else None
                ),
            )
            for visit in schedule.visits
        ),
        preempts=True,
    )


def _with_groups(schedule: Schedule, kinds: Sequence[str]) -> Schedule:
    rng = random.Random(f"groups {schedule.seed}")
    groups = tuple(_all_or_none(schedule.seed, _groups(rng)))
    faults = schedule.faults
    if kinds:
        faults += tuple(_faults(rng, kinds, (1, 2, 4)))
    return dataclasses.replace(
        schedule,
        visits=schedule.visits[: -(-len(schedule.visits) // 2)],
        faults=faults,
        groups=groups,
        changes=tuple(one for each in groups for one in _changes(rng, each)),
        guests=tuple(one for each in groups for one in _guests(rng, each)),
    )


def _groups(rng: random.Random) -> typing.Iterator[Group]:
    for number in range(rng.choice((1, 2, 2, 3))):
        size = rng.choice((1, 2, 2, 3))
        elastic = rng.random() < 0.7
        shared = rng.random() < 0.3
        yield Group(
            name=f"g{number}",
            project=rng.randrange(len(PROJECTS)),
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
            placement=rng.choice(_PLACEMENTS_OF.get(size, (None,))),
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
            extent=_extent(rng),
        )


def _guests(rng: random.Random, group: Group) -> typing.Iterator[Guest]:
    for _ in range(rng.randint(1, 3)):
        yield Guest(
            group=group.name,
            host=rng.randrange(len(SLOTS)),
            project=(
                rng.randrange(len(PROJECTS)) if group.shared else group.project
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


def _visits(
    rng: random.Random, clients: int, sessions: int
) -> typing.Iterator[Visit]:
    homes = [
        (
            rng.randrange(len(SLOTS)),
            rng.randrange(len(PROJECTS)),
            rng.random() < 0.2,
        )
        for _ in range(clients)
    ]
    for number in range(sessions):
        client = number % clients
        host, project, by_api = homes[client]
        visit = Visit(
            client=client,
            host=host,
            project=project,
            by_api=by_api,
            accelerator="copy" if rng.random() < 0.75 else "sha",
            conduct=rng.choices(list(_CONDUCTS), list(_CONDUCTS.values()))[0],
            size_bytes=int(2 ** rng.uniform(6, 15.5)),
            data_seed=rng.getrandbits(32),
            pause_s=rng.expovariate(1 / 1.5),
            patience_s=rng.uniform(0.0, 3.0),
            think_s=rng.uniform(0.0, 4.0) if rng.random() < 0.1 else 0.0,
        )
        if number % _LONG_EVERY == _LONG_EVERY - 1:
            visit = dataclasses.replace(
                visit,
                accelerator="copy",
                conduct="stream",
                size_bytes=_LONG_BYTES,
            )
        yield visit


def _faults(
    rng: random.Random, kinds: Sequence[str], counts: Sequence[int]
) -> typing.Iterator[Fault]:
    for _ in range(rng.choice(counts)):
        yield Fault(
            kind=rng.choice(kinds),
            target=rng.randrange(60),
            begins_s=round(rng.uniform(3.0, FAULTS_END_S), 3),
            lasts_s=round(rng.choice((0.5, 2.0, 5.0, 12.0)) * rng.random(), 3),
            extent=_extent(rng),
        )


def _extent(rng: random.Random) -> float:
    return min(round(rng.random(), 3), 0.999)


def shrink(
    schedule: Schedule, fails: Callable[[Schedule], bool], tries: int = 200
) -> Schedule:
    """Cut a schedule that fails as short as it goes on failing.

    Halves, quarters and so on of its parts are left out, as long as that
    helps (delta debugging).

    :param fails: whether a schedule fails, too.
    :param tries: how often that is asked at most.
    """
    left = tries
    for name in reversed(_PARTS):
        parts: tuple[object, ...] = getattr(schedule, name)
        size = max(len(parts), 1)
        while size >= 1 and left > 0:
            start, found = 0, False
            while start < len(parts) and left > 0:
                fewer = parts[:start] + parts[start + size :]
                shorter = dataclasses.replace(schedule, **{name: fewer})
                left -= 1
                if fails(shorter):
                    parts, schedule, found = fewer, shorter, True
                else:
                    start += size
            if size == 1 and not found:
                break
            size = size if found and size > 1 else size // 2
            size = min(size, max(len(parts), 1))
            if not parts:
                break
    return schedule
