# SPDX-License-Identifier: Apache-2.0

"""Figure 8: two hosts under one SJF, compared with each for itself."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from reproduction.figures import experiments
from reproduction.figures import pairs


def make(out_dir: pathlib.Path, measure: experiments.Measure) -> str:
    """Write ``figure8.png`` and ``figure8.csv``; see the package."""
    points = pairs.compare(measure, "sjf")
    pairs.write(points, out_dir / "figure8.csv")
    pairs.draw(
        points,
        out_dir / "figure8.png",
        "Figure 8: SJF over both boards against SJF on each host alone",
        logarithmic=True,
    )
    return _judge(points)


def _judge(points: Sequence[pairs.Point]) -> str:
    count = len(pairs.MEANS_MB)
    parts = []
    lost_act = []
    for ratio in pairs.RETURN_RATIOS:
        some = [point for point in points if point.return_ratio == ratio]
        lost = pairs.count_changed(points, ratio, -1)
        lost_act.append(lost[0])
        act = min(point.act.mean for point in some)
        tct95 = min(point.tct95.mean for point in some)
        parts.append(
            f"with return ratio {ratio:g} ACT is longer at {lost[0]} of "
            f"{count} sizes, by up to {-act:.0f} %, TCT at {lost[1]}, by up "
            f"to {-tct95:.0f} %"
        )
    verdict = experiments.verdict(
        [lost == count for lost in lost_act] + [lost > 0 for lost in lost_act]
    )
    return (
        f"Figure 8 {verdict} (the paper: with one SJF over both boards "
        f"completion takes longer than with SJF on each host): "
        f"{'; '.join(parts)}; it takes longer because half of the bytes cross "
        "the network."
    )
