# SPDX-License-Identifier: Apache-2.0

"""Bags of jobs with deadlines, for the figures of the paper on HJF.

A bag has twenty jobs for one host with a board. Some have high requirements
(HR): deadlines that a core alone cannot keep. Bags of the same seed differ in
these only. A chunk is 1500 frames, and takes 60 s in the slot and 150 s on a
core. The paper prints its arrivals, sizes, deadlines and powers in part; the
rest is chosen here. Its tables are not available.
"""

from __future__ import annotations

import dataclasses
import random
import typing
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

from fpgapool.sim import simulation
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import gains
from fpgapool.sim.outcomes import results
from reproduction.figures import figure

#: Of a set of bags. An independent simulation has those of the first set.
SEEDS: Sequence[int] = range(40)
#: How many sets a table has.
SETS = 40
JOBS = 20
#: Jobs with high requirements: 10, 25 and 50 %.
HIGH = (2, 5, 10)
#: With the paper's 4 cores, these are the bottleneck, not the board.
CORES = 8
#: Time for each chunk of a job with high requirements.
HIGH_CHUNK_S = 105.0
ATTACH_S = 1.0
_SLOT_CHUNK_S = 60.0
_CORE_CHUNK_S = 150.0
_CHUNK_BYTES = 60e6
_POWER = scenarios.Power(
    host_w=40.0, device_idle_w=20.0, device_active_w=25.0, core_active_w=15.0
)

#: By name, how slots change hands and what the deadline does. The first three
#: are the paper's.
MODES = {
    "coarse": scenarios.StrategyOptions(deadline_action="continue"),
    "fine": scenarios.StrategyOptions(
        preempt="fine", deadline_action="continue"
    ),
    "opt": scenarios.StrategyOptions(preempt="fine", deadline_action="kill"),
    "early": scenarios.StrategyOptions(
        preempt="fine", deadline_action="early"
    ),
}
PAPER_MODES = ("coarse", "fine", "opt")
#: By name, the strategy and its rule. The first three are the paper's.
RULES: dict[str, tuple[str, str | None]] = {
    "RND": ("random", None),
    "EDF": ("edf", None),
    "HJF": ("hjf", None),
    "need": ("hjf", "need"),
}
PAPER_RULES = ("RND", "EDF", "HJF")


@dataclasses.dataclass(frozen=True)
class Setting:
    """What all rules are compared in.

    :ivar mode: one of :data:`MODES`.
    """

    mode: str
    high: int = 10
    cores: int = CORES
    high_chunk_s: float = HIGH_CHUNK_S

    @property
    def high_percent(self) -> int:
        """Return the share of jobs with high requirements."""
        return 100 * self.high // JOBS

    @property
    def name(self) -> str:
        """Return what it is, for people."""
        parts = [f"HR {self.high_percent} %, {self.mode}"]
        if self.cores != CORES:
            parts.append(f"{self.cores} cores")
        if self.high_chunk_s != HIGH_CHUNK_S:
            parts.append(f"HR at {self.high_chunk_s:g} s per chunk")
        return ", ".join(parts)


def make_jobs(setting: Setting, seed: int) -> list[scenarios.JobSpec]:
    """Draw the jobs of a bag; the same seed gives the same jobs."""
    draw = random.Random(seed)
    gaps_s = [draw.expovariate(1 / 160) for _ in range(JOBS)]
    chunks = [draw.randint(3, 9) for _ in range(JOBS)]
    margins_s = [draw.uniform(0, 30) for _ in range(JOBS)]
    ids = list(range(JOBS))
    draw.shuffle(ids)
    high = frozenset(ids[: setting.high])
    jobs = []
    arrival_s = 0.0
    for number in range(JOBS):
        arrival_s += gaps_s[number]
        count = chunks[number]
        # The paper's examples: 450 to 480 s for 3 chunks, and 1400 to 1430 s
        # for 9.
        least_s = 950 * count / 6 - 25
        if number in high:
            least_s = setting.high_chunk_s * count
        jobs.append(
            scenarios.JobSpec(
                id=number,
                host=0,
                size_bytes=count * _CHUNK_BYTES,
                arrival_s=arrival_s,
                accelerator="sobel",
                deadline_s=least_s + margins_s[number],
            )
        )
    return jobs


class Found(typing.NamedTuple):
    """The results of a bag.

    :ivar kept: jobs that kept their deadlines.
    """

    kept: int
    energy_j: float
    frames_per_s: float
    wasted_frames: float


@dataclasses.dataclass(frozen=True)
class BagRun:
    """One rule on one bag."""

    setting: Setting
    rule: str
    seed: int

    def measure(self) -> Found:
        """Simulate."""
        strategy, rule = RULES[self.rule]
        mode = MODES[self.setting.mode]
        scenario = scenarios.Scenario(
            format=scenarios.FORMAT,
            cluster=scenarios.Cluster(
                hosts=1,
                fpga_hosts=(0,),
                slots_per_device=1,
                accelerators={
                    "sobel": scenarios.AcceleratorProfile(
                        peak_bytes_per_s=_CHUNK_BYTES / _SLOT_CHUNK_S,
                        cpu_bytes_per_s=_CHUNK_BYTES / _CORE_CHUNK_S,
                        quantum_bytes=_CHUNK_BYTES,
                    )
                },
                power=_POWER,
                cores_per_host=self.setting.cores,
                attach_s=ATTACH_S,
            ),
            strategies={
                self.rule: scenarios.StrategyOptions(
                    strategy=strategy,
                    rule=rule,
                    preempt=mode.preempt,
                    deadline_action=mode.deadline_action,
                )
            },
            jobs=make_jobs(self.setting, self.seed),
        )
        found = results.evaluate(
            scenario, simulation.run(scenario, self.rule, seed=self.seed)
        )
        service, energy = found.service, found.details.energy
        assert service is not None
        assert energy is not None
        assert service.frames_per_s is not None
        assert service.wasted_frames is not None
        return Found(
            kept=round(service.sla * JOBS),
            energy_j=energy.total_j,
            frames_per_s=service.frames_per_s,
            wasted_frames=service.wasted_frames,
        )


@dataclasses.dataclass(frozen=True)
class Score:
    """A rule in a setting, over the bags of a set, or the mean of sets.

    :ivar sla_percent: jobs that kept their deadlines.
    :ivar energy_kj: mean energy of a bag.
    :ivar kj_per_sla: energy of all bags over all deadlines kept.
    :ivar frames_per_s: of such jobs; mean over the bags.
    :ivar wasted_frames: of the others; mean over the bags.
    """

    sla_percent: float
    energy_kj: float
    kj_per_sla: float
    frames_per_s: float
    wasted_frames: float


Scores = Mapping[tuple[Setting, str], Score]


def compare(
    measure: figure.Measure,
    settings: Iterable[Setting],
    rules: Iterable[str] = tuple(RULES),
) -> Scores:
    """Simulate rules in settings, with the first set of bags."""
    return compare_sets(measure, settings, rules, 1)[0]


def compare_sets(
    measure: figure.Measure,
    settings: Iterable[Setting],
    rules: Iterable[str] = tuple(RULES),
    sets: int | None = None,
) -> list[Scores]:
    """Simulate rules in settings.

    :param sets: number of sets of bags; None: :data:`SETS`.
    :returns: the scores of each set.
    """
    keys = [(setting, rule) for setting in settings for rule in rules]
    count = SETS if sets is None else sets
    runs = [
        {key: [BagRun(*key, first + seed) for seed in SEEDS] for key in keys}
        for first in range(0, count * len(SEEDS), len(SEEDS))
    ]
    found = measure(
        [run for one in runs for bags in one.values() for run in bags]
    )
    return [
        {key: _score([found[run] for run in one[key]]) for key in keys}
        for one in runs
    ]


def means(sets: Sequence[Scores]) -> Scores:
    """Return the means over sets of bags."""
    return _over(sets, lambda values: gains.confidence(values)[0])


def halves(sets: Sequence[Scores]) -> Scores:
    """Return half of the 95 % interval of each mean; infinite for one set."""
    return _over(sets, lambda values: gains.confidence(values)[1])


def _over(
    sets: Sequence[Scores], reduce: Callable[[Sequence[float]], float]
) -> Scores:
    return {
        key: Score(
            *map(
                reduce,
                zip(
                    *(dataclasses.astuple(each[key]) for each in sets),
                    strict=True,
                ),
            )
        )
        for key in sets[0]
    }


def _score(bags: Sequence[Found]) -> Score:
    kept = sum(bag.kept for bag in bags)
    energy_kj = sum(bag.energy_j for bag in bags) / 1e3
    return Score(
        sla_percent=100 * kept / (JOBS * len(bags)),
        energy_kj=energy_kj / len(bags),
        kj_per_sla=energy_kj / kept,
        frames_per_s=sum(bag.frames_per_s for bag in bags) / len(bags),
        wasted_frames=sum(bag.wasted_frames for bag in bags) / len(bags),
    )
