# SPDX-License-Identifier: Apache-2.0

"""Figure 7: two hosts under WRA, compared with each for itself."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from reproduction.figures import experiments
from reproduction.figures import pairs


def make(out_dir: pathlib.Path, measure: experiments.Measure) -> str:
    """Write ``figure7.png`` and ``figure7.csv``; see the package."""
    points = pairs.compare(measure, "wra")
    pairs.write(points, out_dir / "figure7.csv")
    pairs.draw(
        points,
        out_dir / "figure7.png",
        "Figure 7: WRA on both boards against SJF on each host alone",
    )
    return _judge(points)


def _judge(points: Sequence[pairs.Point]) -> str:
    count = len(pairs.MEANS_MB)
    parts = []
    holds = []
    for ratio in pairs.RETURN_RATIOS:
        some = [point for point in points if point.return_ratio == ratio]
        gained = pairs.count_changed(points, ratio, 1)
        lost = pairs.count_changed(points, ratio, -1)
        holds += [2 * each > count for each in gained]
        act = max(point.act.mean for point in some)
        tct95 = max(point.tct95.mean for point in some)
        single_act = max(point.act.high for point in some)
        single_tct95 = max(point.tct95.high for point in some)
        parts.append(
            f"with return ratio {ratio:g} ACT is shorter at {gained[0]} and "
            f"longer at {lost[0]} of {count} sizes, by up to {act:.0f} % "
            f"({single_act:.0f} % in single runs), TCT shorter at {gained[1]} "
            f"and longer at {lost[1]}, by up to {tct95:.0f} % "
            f"({single_tct95:.0f} %)"
        )
    return (
        f"Figure 7 {experiments.verdict(holds)} (the paper: sharing two "
        "boards under WRA is generally better than SJF on each host, by up to "
        f"45 % in ACT and 56 % in TCT): {'; '.join(parts)}; differences below "
        f"{pairs.NOTICEABLE_PERCENT:g} % count as none, as at light load, "
        "where no job waits."
    )
