# SPDX-License-Identifier: Apache-2.0

"""What clients and fate do in one run, drawn from a seed.

A schedule is plain data: it can be written down, cut shorter and played
again.
"""

from __future__ import annotations

import dataclasses
import json
import random
import typing
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence

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

#: One of so many seeds has far more or less output than input.
_SCALING_EVERY = 6
_SCALING = tuple(driver.RATIOS)
_SCALED_BYTES = 30_000
#: Each of so many visits is a stream with several pieces on their way, for as
#: long as a fault may need to hit it.
_LONG_EVERY = 19
_LONG_BYTES = 1 << 16

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
class Visit:
    """A job of a client.

    :ivar host: where the client runs, by number.
    :ivar project: whose front door it takes, by number.
    :ivar by_api: it takes the REST API instead.
    :ivar think_s: until it comes to the slot that it has got.
    :ivar deadline_s: of its session; None: it has none.
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
    parts: tuple[str, ...] = ()
    plans: Mapping[str, tuple[typing.Any, ...]] = dataclasses.field(
        default_factory=dict
    )

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

    def of(self, name: str) -> tuple[typing.Any, ...]:
        """Return what a list of it has: visits, faults, or of a part."""
        if name in ("visits", "faults"):
            return typing.cast(tuple[typing.Any, ...], getattr(self, name))
        return self.plans.get(name, ())

    def having(self, name: str, found: tuple[typing.Any, ...]) -> Schedule:
        """Return it with another list."""
        if name in ("visits", "faults"):
            return dataclasses.replace(self, **{name: found})
        return dataclasses.replace(self, plans={**self.plans, name: found})

    def text(self) -> str:
        """Return it as JSON, a line for each list."""
        document = {
            "seed": self.seed,
            "weather": self.weather,
            "fails": self.fails,
            "parts": self.parts,
        }
        lines = []
        for name in ("faults", *self.plans, "visits"):
            found = [dataclasses.asdict(one) for one in self.of(name)]
            if found or name not in self.plans:
                lines.append(f'"{name}": {json.dumps(found)}')
        return ",\n".join([json.dumps(document)[:-1], *lines]) + "}\n"


def draw(
    rng: random.Random,
    seed: int,
    kinds: Sequence[str],
    clients: int,
    sessions: int,
) -> Schedule:
    """Return what the schedule of a seed is without any part.

    :param kinds: of faults that there are.
    :param sessions: how many they open, all together.
    """
    is_rough = rng.random() < 0.5
    schedule = Schedule(
        seed=seed,
        visits=tuple(_visits(rng, clients, sessions)),
        faults=tuple(draw_faults(rng, kinds, (2, 4, 6, 8, 12))),
        weather=(
            (rng.choice((0.0, 0.005, 0.03)), 0.02, 0.05)
            if is_rough
            else (0.0, 0.0, 0.01)
        ),
        fails=(0.01, 0.01) if rng.random() < 0.3 else (0.0, 0.0),
    )
    return schedule if seed % _SCALING_EVERY else _with_ratios(schedule)


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


def draw_faults(
    rng: random.Random, kinds: Sequence[str], counts: Sequence[int]
) -> typing.Iterator[Fault]:
    """Draw faults.

    :param counts: how many there may be.
    """
    for _ in range(rng.choice(counts)):
        yield Fault(
            kind=rng.choice(kinds),
            target=rng.randrange(60),
            begins_s=round(rng.uniform(3.0, FAULTS_END_S), 3),
            lasts_s=round(rng.choice((0.5, 2.0, 5.0, 12.0)) * rng.random(), 3),
            extent=draw_extent(rng),
        )


def draw_extent(rng: random.Random) -> float:
    """Draw what else there is to say of something."""
    return min(round(rng.random(), 3), 0.999)


def shrink(
    schedule: Schedule,
    lists: Sequence[str],
    fails: Callable[[Schedule], bool],
    tries: int = 200,
) -> Schedule:
    """Cut a schedule that fails as short as it goes on failing.

    Halves, quarters and so on of its parts are left out, as long as that
    helps (delta debugging).

    :param lists: what can be shorter, the last one first.
    :param fails: whether a schedule fails, too.
    :param tries: how often that is asked at most.
    """
    left = tries
    for name in reversed(lists):
        parts = schedule.of(name)
        size = max(len(parts), 1)
        while size >= 1 and left > 0:
            start, found = 0, False
            while start < len(parts) and left > 0:
                fewer = parts[:start] + parts[start + size :]
                shorter = schedule.having(name, fewer)
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
