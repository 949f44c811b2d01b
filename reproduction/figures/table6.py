# SPDX-License-Identifier: Apache-2.0

"""The reference table: gains of strategies over FIFO at four settings.

An independent simulator gave these factors for the paper's cluster. The table
compares them with means over seeds that no figure uses.
"""

from __future__ import annotations

import dataclasses
import pathlib
import typing
from collections.abc import Callable

from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import gains
from fpgapool.sim.plots import style
from reproduction.figures import experiments
from reproduction.figures import tables

#: No figure uses these seeds.
SEEDS = (101, 102, 103, 104, 105)
#: How far factors may deviate from the reference, relatively.
ACT_TOLERANCE = 0.10
TCT95_TOLERANCE = 0.15

_HEADER = (
    "load",
    "sizes",
    "return_ratio",
    "strategy",
    "act_reference",
    "tct95_reference",
    "act_deviation",
    "tct95_deviation",
    *experiments.GAIN_HEADER,
)
_COLUMNS = ("setting", *map(str.upper, experiments.STRATEGIES))
_HEIGHT_IN = 3.9


@dataclasses.dataclass(frozen=True)
class Setting:
    """A row of the table.

    :ivar name: in words.
    :ivar sizes: as :class:`.experiments.ClusterRun` has them.
    :ivar reference: ACT and TCT over FIFO, by strategy.
    """

    name: str
    load: float
    sizes: str
    return_ratio: float
    queues: scenarios.Queues
    reference: dict[str, tuple[float, float]]

    def make_run(self, strategy: str, seed: int) -> experiments.ClusterRun:
        """Return its simulation."""
        return experiments.ClusterRun(
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
    return dict(zip(experiments.STRATEGIES, factors, strict=True))


SETTINGS = (
    Setting(
        "load 0.8, exponential, return 1",
        0.8,
        experiments.EXPONENTIAL,
        1.0,
        scenarios.SHORT_TAIL,
        _by_strategy((2.1, 0.7), (2.0, 0.8), (7.8, 5.6), (6.5, 2.7)),
    ),
    Setting(
        "load 1.3, exponential, return 1",
        1.3,
        experiments.EXPONENTIAL,
        1.0,
        scenarios.SHORT_TAIL,
        _by_strategy((2.0, 0.9), (1.9, 0.9), (4.0, 3.0), (6.1, 2.2)),
    ),
    Setting(
        "load 1.0, power law, return 1",
        1.0,
        experiments.POWER_LAW,
        1.0,
        scenarios.LONG_TAIL,
        _by_strategy((2.9, 1.0), (2.9, 1.0), (6.3, 4.9), (7.4, 3.8)),
    ),
    Setting(
        "load 1.0, exponential, return 0",
        1.0,
        experiments.EXPONENTIAL,
        0.0,
        scenarios.SHORT_TAIL,
        _by_strategy((2.1, 0.6), (2.1, 0.7), (2.4, 1.7), (4.1, 1.5)),
    ),
)


@dataclasses.dataclass(frozen=True)
class Cell:
    """One strategy at one setting.

    :ivar gain: over FIFO, as simulated.
    :ivar act: the reference's.
    :ivar tct95: the reference's.
    """

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


def make(out_dir: pathlib.Path, measure: experiments.Measure) -> str:
    """Write ``table6.png`` and ``table6.csv``; see the package."""
    cells = compare(measure)
    tables.write(
        out_dir / "table6.csv", _HEADER, [_row(cell) for cell in cells]
    )
    _draw(cells, out_dir / "table6.png")
    return _judge(cells)


def compare(measure: experiments.Measure) -> list[Cell]:
    """Simulate all settings: a cell for each strategy of each."""
    wanted: dict[typing.Any, Callable[[str, int], experiments.ClusterRun]] = {
        at: setting.make_run for at, setting in enumerate(SETTINGS)
    }
    found = experiments.measure_gains(
        measure, wanted, experiments.STRATEGIES, SEEDS
    )
    return [
        Cell(setting, strategy, found[at, strategy], *reference)
        for at, setting in enumerate(SETTINGS)
        for strategy, reference in setting.reference.items()
    ]


def _row(cell: Cell) -> tuple[object, ...]:
    setting = cell.setting
    return (
        f"{setting.load:g}",
        setting.sizes,
        f"{setting.return_ratio:g}",
        cell.strategy,
        f"{cell.act:g}",
        f"{cell.tct95:g}",
        f"{cell.act_deviation:.4f}",
        f"{cell.tct95_deviation:.4f}",
        *experiments.cells_of(cell.gain),
    )


def _judge(cells: list[Cell]) -> str:
    outside = [cell for cell in cells if not cell.is_within]
    act = max((cell.act_deviation for cell in cells), key=abs)
    tct95 = max((cell.tct95_deviation for cell in cells), key=abs)
    count = len(cells)
    exceptions = "; ".join(
        f"{cell.strategy.upper()} at {cell.setting.name}: "
        f"{cell.gain.act.mean:.2f} / {cell.gain.tct95.mean:.2f}, not "
        f"{cell.act:.1f} / {cell.tct95:.1f}"
        for cell in outside
    )
    return (
        f"The reference table {'does not hold' if outside else 'holds'}: over "
        f"{len(SEEDS)} fresh seeds {count - len(outside)} of {count} pairs of "
        f"ACT and TCT improvements are within ± {100 * ACT_TOLERANCE:.0f} % "
        f"and ± {100 * TCT95_TOLERANCE:.0f} % of it (farthest: ACT "
        f"{100 * act:+.1f} %, TCT {100 * tct95:+.1f} %)"
        + (f"; not: {exceptions}." if outside else ".")
    )


def _draw(cells: list[Cell], path: pathlib.Path) -> None:
    from matplotlib import transforms

    figure = style.make_figure(_HEIGHT_IN)
    axes = figure.add_axes((0.015, 0.03, 0.97, 0.74))
    axes.set_axis_off()
    by_place = {(cell.setting.name, cell.strategy): cell for cell in cells}
    texts = [list(_COLUMNS)]
    shades = [[style.BAND] * len(_COLUMNS)]
    for setting in SETTINGS:
        row = [
            by_place[setting.name, strategy]
            for strategy in experiments.STRATEGIES
        ]
        texts.append([setting.name, *map(_text, row)])
        shades.append(
            [
                "white",
                *("white" if cell.is_within else "#F6D5C3" for cell in row),
            ]
        )
    table = axes.table(
        cellText=texts,
        cellColours=shades,
        colWidths=[0.28, *[0.18] * len(experiments.STRATEGIES)],
        cellLoc="center",
        bbox=transforms.Bbox.unit(),
    )
    table.auto_set_font_size(False)
    table.set_fontsize(9.5)
    for (row_at, column), box in table.get_celld().items():
        box.set_edgecolor(style.GRID)
        if row_at == 0 or column == 0:
            box.set_text_props(fontweight="bold", color=style.INK)
    style.write_texts(
        figure,
        "Reference table: improvement over FIFO, ACT / TCT(95)",
        f"Simulated, {len(SEEDS)} seeds (below: reference, deviation). "
        "100 hosts, 50 boards of 4 slots, 50 jobs per host, C = 2, D = 5, "
        "random orders. Shaded: outside of "
        f"± {100 * ACT_TOLERANCE:.0f} % or ± {100 * TCT95_TOLERANCE:.0f} %.",
    )
    style.save(figure, path)


def _text(cell: Cell) -> str:
    return (
        f"{cell.gain.act.mean:.2f} / {cell.gain.tct95.mean:.2f}\n"
        f"{cell.act:.1f} / {cell.tct95:.1f},  "
        f"{100 * cell.act_deviation:+.0f} % / "
        f"{100 * cell.tct95_deviation:+.0f} %"
    )
