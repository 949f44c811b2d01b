# SPDX-License-Identifier: Apache-2.0

"""The reference table: gains of strategies over FIFO at four settings.

An independent simulator gave these factors for the paper's cluster. The table
compares them with means over seeds that no figure uses.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable

from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import gains
from reproduction.figures import charts
from reproduction.figures import clusters
from reproduction.figures import figure

#: No figure uses these seeds.
SEEDS = (101, 102, 103, 104, 105)
#: How far factors may deviate from the reference, relatively.
ACT_TOLERANCE = 0.10
TCT95_TOLERANCE = 0.15


@dataclasses.dataclass(frozen=True)
class Setting:
    """A row of the table.

    :ivar sizes: as :class:`.clusters.ClusterRun` has them.
    :ivar reference: ACT and TCT over FIFO, by strategy.
    """

    name: str
    load: float
    sizes: str
    return_ratio: float
    queues: scenarios.Queues
    reference: dict[str, tuple[float, float]]

    def make_run(self, strategy: str, seed: int) -> clusters.ClusterRun:
        """Return its simulation."""
        return clusters.ClusterRun(
            strategy,
            self.sizes,
            self.load,
            self.return_ratio,
            seed,
            self.queues,
        )


def _by_strategy(
    *factors: tuple[float, float],
) -> dict[str, tuple[float, float]]:
    return dict(zip(clusters.STRATEGIES, factors, strict=True))


SETTINGS = (
    Setting(
        "load 0.8, exponential, return 1",
        0.8,
        clusters.EXPONENTIAL,
        1.0,
        scenarios.SHORT_TAIL,
        _by_strategy((2.1, 0.7), (2.0, 0.8), (7.8, 5.6), (6.5, 2.7)),
    ),
    Setting(
        "load 1.3, exponential, return 1",
        1.3,
        clusters.EXPONENTIAL,
        1.0,
        scenarios.SHORT_TAIL,
        _by_strategy((2.0, 0.9), (1.9, 0.9), (4.0, 3.0), (6.1, 2.2)),
    ),
    Setting(
        "load 1.0, power law, return 1",
        1.0,
        clusters.POWER_LAW,
        1.0,
        scenarios.LONG_TAIL,
        _by_strategy((2.9, 1.0), (2.9, 1.0), (6.3, 4.9), (7.4, 3.8)),
    ),
    Setting(
        "load 1.0, exponential, return 0",
        1.0,
        clusters.EXPONENTIAL,
        0.0,
        scenarios.SHORT_TAIL,
        _by_strategy((2.1, 0.6), (2.1, 0.7), (2.4, 1.7), (4.1, 1.5)),
    ),
)


@dataclasses.dataclass(frozen=True)
class Cell:
    """One strategy at one setting."""

    setting: Setting
    strategy: str
    gain: gains.Gain
    act: float
    tct95: float

    @property
    def act_deviation(self) -> float:
        """Return the relative deviation from the reference."""
        return self.gain.act.mean / self.act - 1

    @property
    def tct95_deviation(self) -> float:
        """Return the relative deviation from the reference."""
        return self.gain.tct95.mean / self.tct95 - 1

    @property
    def is_within(self) -> bool:
        """Return whether both factors are within the tolerances."""
        return (
            abs(self.act_deviation) <= ACT_TOLERANCE
            and abs(self.tct95_deviation) <= TCT95_TOLERANCE
        )


def compare(measure: figure.Measure) -> list[Cell]:
    """Simulate all settings: a cell for each strategy of each."""
    wanted: dict[typing.Any, Callable[[str, int], clusters.ClusterRun]] = {
        at: setting.make_run for at, setting in enumerate(SETTINGS)
    }
    found = clusters.measure_gains(measure, wanted, clusters.STRATEGIES, SEEDS)
    return [
        Cell(setting, strategy, found[at, strategy], *reference)
        for at, setting in enumerate(SETTINGS)
        for strategy, reference in setting.reference.items()
    ]


def _claims(cells: list[Cell]) -> list[figure.Claim]:
    return [
        figure.Claim(
            f"factors over FIFO at {setting.name}, ACT and TCT",
            figure.listed(
                f"{cell.strategy.upper()} {cell.act:g} / {cell.tct95:g}"
                for cell in some
            )
            + " (an independent simulator)",
            figure.listed(
                f"{cell.gain.act.mean:.2f} / {cell.gain.tct95.mean:.2f}"
                for cell in some
            ),
            all(cell.is_within for cell in some),
        )
        for setting in SETTINGS
        for some in [[cell for cell in cells if cell.setting is setting]]
    ]


def _picture(cells: list[Cell]) -> charts.Picture:
    by_place = {(cell.setting.name, cell.strategy): cell for cell in cells}
    return charts.Picture(
        title="Reference table: improvement over FIFO, ACT / TCT(95)",
        subtitle=f"Simulated, {len(SEEDS)} seeds (below: reference, "
        "deviation); dark: far. 100 hosts, 50 boards of 4 slots, 50 jobs per "
        "host, C = 2, D = 5, random orders.",
        left_in=2.6,
        panels=[
            [
                charts.Panel(
                    title="",
                    categories=[each.upper() for each in clusters.STRATEGIES],
                    rows=[setting.name for setting in SETTINGS],
                    cells=[
                        [
                            (abs(cell.act_deviation), _text(cell))
                            for strategy in clusters.STRATEGIES
                            for cell in [by_place[setting.name, strategy]]
                        ]
                        for setting in SETTINGS
                    ],
                )
            ]
        ],
    )


def _text(cell: Cell) -> str:
    return (
        f"{cell.gain.act.mean:.2f} / {cell.gain.tct95.mean:.2f}\n"
        f"{cell.act:.1f} / {cell.tct95:.1f},  "
        f"{100 * cell.act_deviation:+.0f} % / "
        f"{100 * cell.tct95_deviation:+.0f} %"
    )


FIGURES = (
    figure.Figure(
        name="table6",
        subject="The reference table (fresh seeds; ACT within ± 10 %, TCT "
        "within ± 15 %)",
        run=compare,
        header=(
            *("load", "sizes", "return_ratio", "strategy", "act_reference"),
            *("tct95_reference", "act_deviation", "tct95_deviation"),
            *clusters.GAIN_HEADER,
        ),
        rows=lambda cells: [
            (
                *(cell.setting.load, cell.setting.sizes),
                *(cell.setting.return_ratio, cell.strategy),
                *(cell.act, cell.tct95),
                *(cell.act_deviation, cell.tct95_deviation),
                *clusters.cells_of(cell.gain),
            )
            for cell in cells
        ],
        claims=_claims,
        picture=_picture,
    ),
)
