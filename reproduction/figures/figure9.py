# SPDX-License-Identifier: Apache-2.0

"""Figure 9: the distributions of sizes in Figures 10 and 11."""

from __future__ import annotations

import itertools
import pathlib

import numpy as np

from fpgapool.sim.inputs import distributions
from fpgapool.sim.inputs import families
from fpgapool.sim.plots import style
from reproduction.figures import experiments
from reproduction.figures import figure10
from reproduction.figures import figure11
from reproduction.figures import tables

_MB = 1e6
_LOW_MB, _HIGH_MB = 20.0, 10_000.0
_POINTS = 400
#: Figures call jobs above this size large.
_LARGE_MB = 1000.0
_HEADER = ("sizes", "parameter", "size_mb", "share_of_jobs")


def make(
    out_dir: pathlib.Path, _measure: experiments.Measure | None = None
) -> str:
    """Write ``figure9.png`` and ``figure9.csv``; nothing is simulated."""
    panels = {
        "exponential": {
            f"mean {mean} MB": families.parse(figure10.sizes(mean), "sizes")
            for mean in figure10.MEANS_MB
        },
        "power law": {
            f"α = {alpha:g}": families.parse(figure11.sizes(alpha), "sizes")
            for alpha in figure11.ALPHAS
        },
    }
    sizes_mb = np.geomspace(_LOW_MB, _HIGH_MB, _POINTS)
    tables.write(
        out_dir / "figure9.csv",
        _HEADER,
        [
            (name, parameter, f"{size_mb:.6g}", f"{share:.6g}")
            for name, lines in panels.items()
            for parameter, sizes in lines.items()
            for size_mb, share in zip(
                sizes_mb, sizes.cdf(sizes_mb * _MB), strict=True
            )
        ],
    )
    _draw(panels, sizes_mb, out_dir / "figure9.png")
    return _judge(list(panels["power law"].values()))


def _judge(power_laws: list[distributions.SizeDistribution]) -> str:
    large = [1 - float(each.cdf(_LARGE_MB * _MB)) for each in power_laws]
    is_so = all(one > other for one, other in itertools.pairwise(large))
    return (
        f"Figure 9 {'holds' if is_so else 'does not hold'} (the paper: the "
        "smaller α, the longer the tail): jobs above "
        f"{_LARGE_MB / 1000:g} GB are {100 * large[0]:.1f} % of all with "
        f"α = {figure11.ALPHAS[0]:g} and {100 * large[-1]:.2f} % with "
        f"α = {figure11.ALPHAS[-1]:g}; the parameters are ours, because the "
        "paper's table of them is not at hand."
    )


def _draw(
    panels: dict[str, dict[str, distributions.SizeDistribution]],
    sizes_mb: distributions.Floats,
    path: pathlib.Path,
) -> None:
    figure, [grid] = style.make_panels(
        5.4,
        (1, len(panels)),
        left=0.06,
        bottom=0.11,
        top=0.80,
        gaps=(0.0, 0.07),
        sharey=True,
    )
    for axes, (name, lines) in zip(grid, panels.items(), strict=True):
        style.prepare_axes(axes, "both")
        colours = style.lines_of(lines)
        for at, (parameter, sizes) in enumerate(lines.items()):
            axes.plot(
                sizes_mb,
                sizes.cdf(sizes_mb * _MB),
                color=colours[parameter],
                linestyle=style.PATTERNS[at % len(style.PATTERNS)],
                linewidth=1.8,
                label=parameter,
            )
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_ylim(0, 1.01)
        style.name_panel(axes, f"{name} sizes")
        axes.set_xlabel("size, MB, logarithmic", fontsize=9)
        axes.legend(
            loc="lower right", fontsize=9.5, frameon=False, handlelength=3.4
        )
    grid[0].set_ylabel("share of jobs of at most this size", fontsize=9)
    style.write_texts(
        figure,
        "Figure 9: distributions of sizes",
        "Exponential: no job below 20 MB. Bounded power law: from 20 MB to "
        "10 GB. Figures 10 and 11 use them.",
    )
    style.save(figure, path)
