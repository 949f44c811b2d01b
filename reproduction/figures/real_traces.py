# SPDX-License-Identifier: Apache-2.0

"""Strategies on demand that people really had, and on the papers' loads.

No file of the repository has the traces. The variable FPGAPOOL_TRACES names a
directory with ``LCG.swf.gz`` (Parallel Workloads Archive, graciously provided
by Hui Li) and ``gentd26_requests.csv.gz`` (alibaba/clusterdata,
v2026-GenAI); without it, only the synthetic loads are simulated.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import statistics
import typing
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

import msgspec

from fpgapool.sim import simulation
from fpgapool.sim.inputs import generating
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import results
from reproduction.figures import charts
from reproduction.figures import figure

STRATEGIES = ("fifo", "sjf", "wra", "era", "auto")
#: Each time is compared with the best of these.
BEST_OF = ("fifo", "sjf", "wra", "era")
TIMES = ("mean", "p95", "p99")
#: By strategy: the highest ratios to the best, of mean, p95 and p99.
LIMITS = {"auto": (1.06, 1.10, 1.10), "wra": (1.5, 1.7, None)}
LEAST_JAIN = 0.94
SEED = 1
#: Jobs of each setting; tests take fewer.
JOBS = 5000

_USUAL = ("--wakeups", "--slot-choice=least_busy", "--offer-order=least_busy")
_LCG = (
    *("--trace=LCG.swf.gz", "--hosts=40", "--boards=10", "--load=0.8"),
    *("--accelerator=grid", "--peak-bytes-per-s=grid=1e8"),
)
_GENTD26 = (
    "--trace=gentd26_requests.csv.gz",
    *(
        f"--column={name}={column}"
        for name, column in (
            ("arrival_s", "gmt_create"),
            ("run_s", "exec_time_seconds"),
            ("accelerator", "checkpoint_model_version_id"),
            ("host", "groupId"),
            ("tenant", "groupId"),
        )
    ),
    *("--hash-hosts", "--hash-tenants=8", "--skip-incomplete"),
    *("--other-peak-bytes-per-s=1e8", "--reconfiguration-s=5"),
    *("--max-gap-s=600", "--min-run-s=0.5", "--load=0.8"),
    *("--hosts=16", "--boards=4"),
)
_POWER_LAW = ("--sizes=power-law", "--max-size-bytes=1e10", "--alpha=1.1")
#: Name and options of each; LCG's jobs have the same order at both scales.
SETTINGS: dict[str, tuple[str, ...]] = {
    "LCG": _LCG,
    "LCG, scaled": _LCG,
    "GenTD26": _GENTD26,
    "exponential, load 0.8": ("--return-ratio=1", "--load=0.8"),
    "exponential, load 2": ("--return-ratio=1", "--load=2"),
    "power law, 10 boards": (
        *_POWER_LAW,
        "--return-ratio=1",
        # As many bytes as 50 boards can take.
        "--boards=10",
        "--load=5",
    ),
    "power law, programming": (
        *_POWER_LAW,
        "--return-ratio=0",
        "--load=1",
        "--reconfiguration-s=0.5",
    ),
}
#: Divides LCG's sizes and times for a mean size of 400 MB.
SCALE = 475.0


class Measured(typing.NamedTuple):
    """What one run gave.

    :ivar times_s: mean, 95th and 99th percentile of the completion time.
    :ivar order: jobs by the time at which they got slots.
    """

    times_s: tuple[float, float, float]
    slowdown_max: float
    jain: float | None
    programmings: float
    order: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Run:
    """One strategy at one setting."""

    setting: str
    strategy: str
    jobs: int = 0

    def measure(self) -> Measured:
        """Simulate."""
        made = make_scenario(self.setting, self.jobs or JOBS)
        outcomes = simulation.run(made, self.strategy, seed=SEED)
        found = results.evaluate(made, outcomes)
        treated = found.details.treatment
        assert treated is not None
        return Measured(
            (
                found.measured.act_s,
                found.measured.tct95_s,
                found.details.p99_s,
            ),
            treated.slowdown_max,
            treated.jain,
            treated.programmings_per_job,
            tuple(
                sorted(
                    range(len(outcomes)),
                    key=lambda n: (outcomes[n].start_s, n),
                )
            ),
        )


def directory() -> pathlib.Path | None:
    """Return where the traces are, if they are anywhere."""
    named = os.environ.get("FPGAPOOL_TRACES")
    return pathlib.Path(named) if named else None


def make_scenario(setting: str, jobs: int) -> scenarios.Scenario:
    """Make a setting's scenario, with this number of jobs."""
    options = [*_USUAL, *SETTINGS[setting], f"--jobs={jobs}"]
    options = [
        f"--trace={(directory() or pathlib.Path()) / each[8:]}"
        if each.startswith("--trace=")
        else each
        for each in options
    ]
    made = generating.make_scenario(options, SEED, setting)
    strategy = next(iter(made.strategies.values()))
    made = msgspec.structs.replace(
        made,
        strategies={
            name: msgspec.structs.replace(strategy, strategy=name)
            for name in STRATEGIES
        },
    )
    if setting != "LCG, scaled":
        return made
    return msgspec.structs.replace(
        made,
        jobs=[
            msgspec.structs.replace(
                job,
                arrival_s=job.arrival_s / SCALE,
                size_bytes=job.size_bytes / SCALE,
            )
            for job in made.jobs
        ],
    )


# -- the figure ----------------------------------------------------------

_Found: typing.TypeAlias = Mapping[str, Mapping[str, Measured]]


def simulate(measure: figure.Measure) -> _Found:
    """Run all strategies at all settings for which there are traces."""
    chosen = [
        name
        for name, options in SETTINGS.items()
        if directory() is not None or not options[0].startswith("--trace=")
    ]
    runs = [Run(name, each, JOBS) for name in chosen for each in STRATEGIES]
    found = measure(runs)
    return {
        name: {each: found[Run(name, each, JOBS)] for each in STRATEGIES}
        for name in chosen
    }


def ratios(found: _Found, strategy: str, time: int) -> dict[str, float]:
    """Return a strategy's time divided by the best one's, by setting."""
    return {
        name: measured[strategy].times_s[time]
        / min(measured[each].times_s[time] for each in BEST_OF)
        for name, measured in found.items()
    }


def _rows(found: _Found) -> Iterator[Sequence[object]]:
    for name, measured in found.items():
        for strategy, one in measured.items():
            yield (
                name,
                strategy,
                *one.times_s,
                one.slowdown_max,
                one.jain,
                one.programmings,
            )


def _claims(found: _Found) -> list[figure.Claim]:
    claims = []
    for strategy, limits in LIMITS.items():
        for time, limit in enumerate(limits):
            by_setting = ratios(found, strategy, time)
            worst = max(by_setting, key=by_setting.__getitem__)
            mean = statistics.geometric_mean(by_setting.values())
            if limit is not None:
                claims.append(
                    figure.Claim(
                        f"{strategy}'s {TIMES[time]} is near the best one's",
                        f"at most {limit:g} ×",
                        f"{by_setting[worst]:.3g} × at worst ({worst}), "
                        f"{mean:.2f} × in the geometric mean",
                        by_setting[worst] <= limit,
                    )
                )
    if "LCG" in found:
        claims += [_same_order(found, name) for name in ("auto", "wra")]
    if "GenTD26" in found:
        jains = [measured["auto"].jain or 1.0 for measured in found.values()]
        claims.append(
            figure.Claim(
                "auto is fair between tenants",
                f"Jain's index at least {LEAST_JAIN}",
                f"{min(jains):.3f}",
                min(jains) >= LEAST_JAIN,
            )
        )
    return claims


def _same_order(found: _Found, strategy: str) -> figure.Claim:
    holds = (
        found["LCG"][strategy].order == found["LCG, scaled"][strategy].order
    )
    return figure.Claim(
        f"{strategy} serves LCG's jobs in the same order at both scales",
        "yes",
        "yes" if holds else "no",
        holds,
    )


def _picture(found: _Found) -> charts.Picture:
    return charts.Picture(
        title="Completion times on real traces and on the papers' loads",
        subtitle=f"Divided by the best of {', '.join(BEST_OF)}; "
        f"{JOBS} jobs each",
        panels=[
            [
                charts.Panel(
                    title=time,
                    ylabel="÷ best",
                    log="y",
                    categories=list(found),
                    series=[
                        charts.Series(
                            label=strategy,
                            y=list(ratios(found, strategy, number).values()),
                        )
                        for strategy in STRATEGIES
                    ],
                )
            ]
            for number, time in enumerate(TIMES)
        ],
    )


def _notes(found: _Found) -> list[str]:
    if "LCG" in found:
        return []
    return [
        "The real traces are left out: FPGAPOOL_TRACES does not name a "
        "directory with LCG.swf.gz and gentd26_requests.csv.gz."
    ]


FIGURES = (
    figure.Figure(
        name="real-traces",
        subject="Strategies on real demand",
        run=simulate,
        header=(
            *("setting", "strategy", "mean_s", "p95_s", "p99_s"),
            *("slowdown_max", "jain", "programmings_per_job"),
        ),
        rows=_rows,
        claims=_claims,
        picture=_picture,
        notes=_notes,
    ),
)
