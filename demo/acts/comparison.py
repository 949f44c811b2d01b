# SPDX-License-Identifier: Apache-2.0

"""Act two: the same mixed load under fifo and under wra, side by side."""

from __future__ import annotations

import dataclasses
import pathlib
import tempfile
from collections.abc import Mapping
from collections.abc import Sequence

import numpy as np
import rich.console

from demo import display
from demo import execution
from demo import mixture
from demo import pool
from demo import verification
from demo import warming
from demo import workload
from fpgapool.sim import plots
from fpgapool.sim import screen
from fpgapool.sim.outcomes import metrics

PICTURE_NAME = "fifo-wra.png"
STRATEGIES = ("fifo", "wra")

#: Enough for small and large jobs of every host and accelerator.
JOBS = 120
#: So slow that jobs do not wait for the two processor cores. All boards
#: together then process 32 MB/s. The software cores take 0.1 (AES) to 6 ns
#: (DTW) for a byte, so they use a twentieth of a processor core. Opening the
#: sessions and keeping to the modelled rates takes nearly a whole core.
RATE_SCALE = 0.005
#: How long the boards would work if only their DMA pipes limited them.
WORK_S = 5.5
#: Bytes that arrive per second, divided by the rate of the DMA pipes. Above 1
#: a queue builds up.
LOAD = 1.5
#: A host with a board has this many times the tenants of a host without one: a
#: cloud places tenants that want accelerators near them.
BOARD_HOST_WEIGHT = 2
#: The factor by which wra's DLR should exceed that of random slots. Fifo takes
#: such slots in the paper; in a single run its own DLR is a matter of luck.
DLR_FACTOR = 2.0

_LINE_AFTER_JOBS = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """The user's choices.

    :ivar out: directory for the picture; it exists.
    :ivar seed: of the whole load.
    """

    out: pathlib.Path
    seed: int


@dataclasses.dataclass(frozen=True)
class _Run:
    """The results under a strategy."""

    strategy: str
    results: list[metrics.JobResult]
    slots: list[plots.SlotName]

    def measure(self) -> metrics.Metrics:
        return metrics.measure(self.results)


def perform(settings: Settings, console: rich.console.Console) -> None:
    """Run the load under both strategies, check and compare.

    :param settings: the user's choices.
    :param console: for all output.
    :raises DemoError: if something goes wrong.
    :raises OSError: if a file cannot be read or written.
    """
    _Comparison(settings, console).run()


def random_share(
    jobs: Sequence[workload.Job], boards: Mapping[str, int]
) -> float:
    """Return the share of bytes that would stay local in random slots.

    :param jobs: the jobs.
    :param boards: number of boards of each host; all have as many slots.
    """
    local_bytes = sum(job.size_bytes * boards[job.host] for job in jobs)
    all_bytes = sum(job.size_bytes for job in jobs)
    return local_bytes / (all_bytes * sum(boards.values()))


def verdict(
    before: metrics.Metrics, after: metrics.Metrics, random_dlr: float
) -> str:
    """Say whether the jobs show what the paper claims.

    :param before: metrics of fifo.
    :param after: metrics of wra on the same jobs.
    :param random_dlr: DLR that random slots would have.
    """
    found = metrics.improvement(before, after)
    dlr_factor = after.dlr / random_dlr
    shows = found.act > 1 and found.tct95 > 1 and dlr_factor >= DLR_FACTOR
    start = (
        "The paper's direction shows"
        if shows
        else ("The paper's direction does NOT show in this run")
    )
    return (
        f"{start}: with wra jobs are done {found.act:.2f} times as fast on"
        f" average and {found.tct95:.2f} times at the 95th percentile (above"
        f" 1 expected), and {dlr_factor:.2f} times as many bytes stay local as"
        f" in random slots ({after.dlr:.2f} of all instead of"
        f" {random_dlr:.2f}; at least {DLR_FACTOR:g} times expected)."
    )


class _Comparison:
    """The act."""

    def __init__(
        self, settings: Settings, console: rich.console.Console
    ) -> None:
        self._settings = settings
        self._console = console
        self._total_bytes = int(pool.BYTES_PER_S * RATE_SCALE * WORK_S)
        self._jobs: list[workload.Job] = []
        self._boards: Mapping[str, int] = {}

    def run(self) -> None:
        with tempfile.TemporaryDirectory(prefix="fp-") as name:
            directory = pathlib.Path(name)
            # Of all accelerators, erasure coding returns more than it gets.
            workload.check_space(directory, 4 * self._total_bytes)
            before, after = (
                self._run(directory, strategy) for strategy in STRATEGIES
            )
        self._show(before, after)

    def _run(self, directory: pathlib.Path, strategy: str) -> _Run:
        own = directory / strategy
        plan = pool.for_jobs(strategy, self._total_bytes / JOBS, RATE_SCALE)
        self._say(f"{strategy}: starting {plan}")
        with pool.running(own, plan) as testbed:
            self._say(f"{strategy}: watch it at {testbed.page_url}")
            if not self._jobs:
                self._boards = testbed.boards
                self._jobs = self._generate(directory, testbed.boards)
            jobs = [
                dataclasses.replace(job, output=own / job.output.name)
                for job in self._jobs
            ]
            self._warm_up(strategy, testbed)
            self._say(f"{strategy}: running them as they arrive")
            with display.make_display(
                self._console, jobs, _LINE_AFTER_JOBS
            ) as shown:
                outcomes = execution.run_jobs(jobs, testbed.front_doors, shown)
        self._verify(strategy, jobs)
        results = [outcome.result() for outcome in outcomes]
        return _Run(strategy, results, testbed.slots())

    def _generate(
        self, directory: pathlib.Path, boards: Mapping[str, int]
    ) -> list[workload.Job]:
        arriving_s = WORK_S / LOAD
        names = ", ".join(kind.accelerator for kind in mixture.KINDS)
        self._say(
            f"generating {JOBS} jobs for {names} from {len(boards)} hosts,"
            f" {self._total_bytes / 1e6:.0f} MB together, arriving within"
            f" {arriving_s:.1f} s, seed {self._settings.seed}"
        )
        rng = np.random.default_rng(self._settings.seed)
        tenants = [
            host
            for host, count in boards.items()
            for _ in range(BOARD_HOST_WEIGHT if count else 1)
        ]
        requests = mixture.draw_requests(
            tenants, JOBS, self._total_bytes, arriving_s, rng
        )
        return mixture.make_jobs(directory, requests, rng)

    def _warm_up(self, strategy: str, testbed: pool.Pool) -> None:
        self._say(f"{strategy}: trying every accelerator in every slot")
        rng = np.random.default_rng(self._settings.seed)
        works = [
            warming.Work(
                kind.accelerator, kind.make_params(rng), kind.unit_bytes
            )
            for kind in mixture.KINDS
        ]
        pool.warm_up(testbed, works)

    def _verify(self, strategy: str, jobs: Sequence[workload.Job]) -> None:
        with display.counting(
            self._console, f"{strategy}: checking outputs", len(jobs)
        ) as on_checked:
            verification.check_outputs(jobs, on_checked)
        found = ", ".join(
            f"{name}: {who}"
            for name, (_check, who) in verification.CHECKS.items()
        )
        self._say(f"{strategy}: verified all {len(jobs)} outputs ({found})")

    def _show(self, before: _Run, after: _Run) -> None:
        self._console.print()
        display.show_comparison(
            self._console,
            (before.strategy, before.measure()),
            (after.strategy, after.measure()),
        )
        self._console.print()
        random_dlr = random_share(self._jobs, self._boards)
        self._say(verdict(before.measure(), after.measure(), random_dlr))
        path = self._settings.out / PICTURE_NAME
        plots.draw_comparison(
            {run.strategy: run.results for run in (before, after)},
            path,
            slots=before.slots,
            title=f"The same {JOBS} jobs from {pool.HOSTS} hosts on"
            f" {len(before.slots)} slots",
            subtitle=f"all modelled rates × {RATE_SCALE:g} ·"
            f" {self._total_bytes / 1e6:.0f} MB · load {LOAD:g} · seed"
            f" {self._settings.seed}",
        )
        self._say(f"both timelines: {path.resolve()}")
        self._say(
            f"all modelled rates, of slots, boards and network cards, were"
            f" scaled by {RATE_SCALE:g}, so that this machine's processors are"
            " not the bottleneck; wra's size thresholds and waiting limits"
            " were scaled to the jobs' sizes and these rates"
        )

    def _say(self, text: str) -> None:
        screen.say(self._console, text)
