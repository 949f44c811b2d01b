# SPDX-License-Identifier: Apache-2.0

"""A crowd of clients on few slots, for minutes: what grows meanwhile.

Each client opens a session, sends a small task, closes, and begins again at
once, so that nearly all of them wait at any time. They are threads in a few
processes (``crowd_program.py``) and share the machine with the pool: times
are those of a machine that has no processor to spare.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import multiprocessing
import pathlib
import statistics
import threading
import time
from collections.abc import Iterator
from collections.abc import Sequence

from tests.benchmarks import crowd_program
from tests.benchmarks import measure
from tests.benchmarks import servers
from tests.benchmarks import usage
from tests.harness import cloud as clouds
from tests.harness import processes

TITLE = "A crowd of clients on 12 slots, RabbitMQ, MariaDB"
SERVICES = True

_HOSTS = 3
_SLOTS_PER_HOST = 4
# Clients have a front door each to come through, and no thread there.
_PROCESSES = 5
_END_LIMIT_S = 120.0

#: Shares of the time: pools of threads and of memory fill before the first.
_EARLY = (0.25, 0.4)
_LATE = (0.85, 1.0)

_ACTIONS = {
    "open": "open until the session is in the database",
    "get": "get, through another host's front door",
    "close": "close",
}
_QUANTITIES = {
    "threads": "threads",
    "files": "open descriptors",
    "memory_mib": "RSS",
}


@dataclasses.dataclass(frozen=True, slots=True)
class _Size:
    clients: int
    duration_s: float
    interval_s: float
    # Each is a sample of the rows about time.
    parts: int

    @property
    def part_s(self) -> float:
        return self.duration_s / self.parts


_FULL = _Size(clients=500, duration_s=180.0, interval_s=1.0, parts=3)
_TINY = _Size(clients=10, duration_s=2.5, interval_s=0.1, parts=1)


@dataclasses.dataclass(frozen=True, slots=True)
class _Look:
    """What some processes had at one time, together."""

    at_s: float
    threads: int
    files: int
    memory_mib: float


def rows(plan: measure.Plan) -> Iterator[measure.Row]:
    """One run; ``plan.repetitions`` does not make it more."""
    size = _TINY if plan.tiny else _FULL
    hosts = [
        clouds.HostPlan(f"board{number}", slots=_SLOTS_PER_HOST)
        for number in range(_HOSTS)
    ]
    with servers.running_cloud(*hosts) as cloud:
        run = _Run(cloud, size)
        run.run()
        cloud.check_consistent()
    yield from run.growth()
    yield from run.times()


class _Run:
    """One run and what was seen."""

    def __init__(self, cloud: clouds.Cloud, size: _Size) -> None:
        self._cloud = cloud
        self._size = size
        self._looks: dict[str, list[_Look]] = {
            "conductor": [],
            "agents": [],
            "workers": [],
        }
        self._timings: dict[str, list[crowd_program.Timing]] = {}
        self._began_s = 0.0
        self._cpu_s = 0.0

    def run(self) -> None:
        """Let the crowd in, watch, and wait until it has gone."""
        paths = [host.socket_path() for host in self._cloud.hosts.values()]
        count = min(_PROCESSES, self._size.clients)
        meter = usage.Meter(*self._pids("conductor"), *self._pids("agents"))
        spawn = multiprocessing.get_context("spawn")
        with concurrent.futures.ProcessPoolExecutor(count, spawn) as pool:
            # They come up first, which takes a second or two.
            list(pool.map(_warm_up, range(count)))
            self._began_s = time.monotonic()
            until_s = self._began_s + self._size.duration_s
            futures = [
                pool.submit(
                    crowd_program.run,
                    crowd_program.Plan(
                        paths, self._size.clients // count, until_s, number
                    ),
                )
                for number in range(count)
            ]
            self._watch(until_s)
            outcomes = [one.result(_END_LIMIT_S) for one in futures]
        self._cpu_s = sum(cpu.total_s for cpu in meter.cpus())
        errors = [one.errors for one in outcomes if one.errors]
        if errors:
            raise RuntimeError(f"clients failed: {errors}")
        for outcome in outcomes:
            for action, timings in outcome.timings.items():
                self._timings.setdefault(action, []).extend(timings)

    def _pids(self, kind: str) -> list[int]:
        hosts = self._cloud.hosts.values()
        if kind == "conductor":
            return [self._cloud.conductor.pid]
        if kind == "agents":
            return [host.agent.pid for host in hosts]
        return [one.pid for host in hosts for one in host.workers()]

    def _watch(self, until_s: float) -> None:
        pids = {kind: self._pids(kind) for kind in self._looks}
        clock = threading.Event()
        while (now_s := time.monotonic()) < until_s:
            for kind, looks in self._looks.items():
                looks.append(_look_at(pids[kind], now_s - self._began_s))
            clock.wait(self._size.interval_s)

    # -- rows --------------------------------------------------------------

    def growth(self) -> Iterator[measure.Row]:
        """What there is at the end, and in relation to after the start."""
        for kind, looks in self._looks.items():
            for quantity, words in _QUANTITIES.items():
                course = [
                    (look.at_s, float(getattr(look, quantity)))
                    for look in looks
                ]
                early = self._median(course, _EARLY)
                late = self._median(course, _LATE)
                unit = "MiB" if quantity == "memory_mib" else "number"
                yield measure.Row(
                    f"{kind}, {words} at the end",
                    unit,
                    [self._sample(late)],
                    course=course,
                )
                yield measure.Row(
                    f"{kind}, {words}: growth",
                    "times as after the warm-up",
                    [self._sample(late / early)],
                )

    @staticmethod
    def _median(
        course: Sequence[tuple[float, float]],
        window: tuple[float, float],
    ) -> float:
        # Of the looks, not of the time: a slow machine takes some late.
        first, last = (round(share * (len(course) - 1)) for share in window)
        return statistics.median(
            value for _, value in course[first : last + 1]
        )

    def _sample(self, value: float) -> measure.Sample:
        return measure.Sample(value, self._size.duration_s, self._cpu_s)

    def times(self) -> Iterator[measure.Row]:
        """How long the control calls took, in each part of the run."""
        for action, words in _ACTIONS.items():
            parts = self._parts(action)
            for name, rank in (("p50", 0.5), ("p99", 0.99)):
                yield measure.Row(
                    f"{words}, {name}",
                    "ms",
                    [
                        self._sample(1e3 * _percentile(part, rank))
                        for part in parts
                    ],
                )
        yield measure.Row(
            "sessions from open to close",
            "1/s",
            [
                self._sample(len(part) / self._size.part_s)
                for part in self._parts("whole")
            ],
        )

    def _parts(self, action: str) -> list[list[float]]:
        """How long an action took, by when in the run it ended."""
        size = self._size
        parts: list[list[float]] = [[] for _ in range(size.parts)]
        for ended_s, took_s in self._timings[action]:
            number = int((ended_s - self._began_s) / size.part_s)
            # What ended late was begun in the last part.
            parts[min(number, size.parts - 1)].append(took_s)
        return parts


def _warm_up(number: int) -> int:
    return number


def _look_at(pids: Sequence[int], at_s: float) -> _Look:
    return _Look(
        at_s,
        sum(map(processes.thread_count, pids)),
        sum(map(processes.descriptor_count, pids)),
        sum(map(_resident_mib, pids)),
    )


def _resident_mib(pid: int) -> float:
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return int(fields["VmRSS"].split()[0]) / 1024


def _percentile(values: Sequence[float], rank: float) -> float:
    return sorted(values)[int(rank * len(values))]
