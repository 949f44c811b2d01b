# SPDX-License-Identifier: Apache-2.0

"""Processes that measure the same in turns, with compiled decisions or not.

``python -m tests.benchmarks.sides`` is what one of them runs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import pathlib
import subprocess
import sys
from collections.abc import Iterator

from tests.benchmarks import measure
from tests.benchmarks import plain_simulation
from tests.benchmarks import pools
from tests.benchmarks import sim_clusters
from tests.harness import distributions
from tests.harness import native

_BUILDS = distributions.ROOT / "build" / "native"


class Side:
    """One of them.

    :param paths: from where it imports before the sources.
    """

    def __init__(self, paths: tuple[pathlib.Path, ...], tiny: bool) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(int(tiny))],
            env=native.environment(*paths),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, *words: str) -> measure.Sample:
        """Have it measure."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(*words, file=self._process.stdin, flush=True)
        return measure.Sample(**json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """End it."""
        self._process.communicate()


@contextlib.contextmanager
def start(plan: measure.Plan) -> Iterator[tuple[Side, Side]]:
    """Give a side with compiled decisions, and one without.

    Tiny runs compile nothing, as that takes half a minute.
    """
    paths = () if plan.tiny else (native.cached(_BUILDS),)
    with contextlib.ExitStack() as stack:
        made = []
        for each in (paths, ()):
            made.append(Side(each, plan.tiny))
            stack.callback(made[-1].close)
        yield made[0], made[1]


@functools.cache
def _pool(
    tiny: bool, projects: int, strategy: str
) -> tuple[pools.FullPool, int]:
    """Return a pool, and how many decisions it makes at a time."""
    size, count = size_of(tiny, projects)
    pool = pools.FullPool(strategy, size, sharing_projects=projects)
    pool.decide(pool.source.make(count))
    return pool, count


def size_of(tiny: bool, projects: int) -> tuple[pools.Size, int]:
    """Return the size of a pool, and how many decisions are measured."""
    if tiny:
        return pools.Size(hosts=3, waiting=20), 10
    if projects:
        return pools.Size(hosts=500, waiting=20_000), 5000
    return pools.Size(hosts=2500, waiting=100_000), 20_000


def cluster_of(tiny: bool) -> sim_clusters.Size:
    """Return the size of the simulated cluster."""
    if tiny:
        return sim_clusters.Size(hosts=4, jobs_per_host=3)
    return sim_clusters.Size(hosts=100, jobs_per_host=50)


def _decisions(
    tiny: bool, projects: str = "0", strategy: str = "wra"
) -> measure.Sample:
    pool, count = _pool(tiny, int(projects), strategy)
    jobs = pool.source.make(count)
    with measure.stopwatch() as watch:
        made = pool.decide(jobs)
    return watch.rate(made)


@functools.cache
def _simulations(
    tiny: bool,
) -> tuple[sim_clusters.scenarios.Scenario, plain_simulation.Plain]:
    """Return a scenario and the plain program; both have been compiled."""
    scenario = sim_clusters.make(cluster_of(tiny), "wra")
    if not tiny:
        sim_clusters.warm_up()
    plain = plain_simulation.Plain(scenario, compiles=not tiny)
    ends = {one.id: one.finish_s for one in sim_clusters.run(scenario)}
    if plain.run() != ends:
        raise AssertionError("the plain program ends jobs at other times")
    return scenario, plain


def _simulation(tiny: bool) -> measure.Sample:
    scenario, _ = _simulations(tiny)
    with measure.stopwatch() as watch:
        sim_clusters.run(scenario)
    return measure.Sample(watch.cpu_s, watch.wall_s, watch.cpu_s)


def _plain(tiny: bool) -> measure.Sample:
    _, plain = _simulations(tiny)
    with measure.stopwatch() as watch:
        plain.run()
    return measure.Sample(watch.cpu_s, watch.wall_s, watch.cpu_s)


_WORK = {
    "decisions": _decisions,
    "simulation": _simulation,
    "plain": _plain,
}


def main() -> None:
    """Measure what each line asks for."""
    tiny = bool(int(sys.argv[1]))
    for line in sys.stdin:
        name, *more = line.split()
        made = _WORK[name](tiny, *more)
        sys.stdout.write(json.dumps(dataclasses.asdict(made)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
