# SPDX-License-Identifier: Apache-2.0

"""Figure 13 of the paper on HJF: frames computed for jobs that were late."""

from __future__ import annotations

import pathlib

from fpgapool.sim.plots import style
from reproduction.figures import bags
from reproduction.figures import experiments
from reproduction.figures import tables
from reproduction.figures import verdicts

SETTINGS = tuple(bags.Setting(mode) for mode in bags.MODES)
_HEIGHT_IN = 4.2


def make(out_dir: pathlib.Path, measure: experiments.Measure) -> str:
    """Write a picture, its numbers and its claims; see the package."""
    scores = bags.compare(measure, SETTINGS)
    tables.write(
        out_dir / "hjf13.csv",
        ("mode", "strategy", *bags.HEADER),
        [
            (setting.mode, rule, *bags.cells_of(score))
            for (setting, rule), score in scores.items()
        ],
    )
    claims = _claims(scores)
    verdicts.write(out_dir / "hjf13-claims.csv", claims)
    _draw(scores, out_dir / "hjf13.png")
    return verdicts.say(
        "Figure 13 of the paper on HJF (wasted frames)", claims
    )


def _wasted(scores: bags.Scores, mode: str, rule: str) -> float:
    """Return thousands of frames of a bag."""
    return scores[bags.Setting(mode), rule].wasted_frames / 1e3


def _claims(scores: bags.Scores) -> list[verdicts.Claim]:
    fine, killed = (
        [_wasted(scores, mode, rule) for rule in bags.PAPER_RULES]
        for mode in ("fine", "opt")
    )
    hjf, rnd = (_wasted(scores, "opt", rule) for rule in ("HJF", "RND"))
    return [
        verdicts.Claim(
            "fewer frames are wasted if jobs end with their deadlines",
            "significantly fewer",
            "; ".join(
                f"{rule} {before:.1f}k, then {after:.1f}k"
                for rule, before, after in zip(
                    bags.PAPER_RULES, fine, killed, strict=True
                )
            ),
            all(
                after < before
                for before, after in zip(fine, killed, strict=True)
            ),
        ),
        verdicts.Claim(
            "HJF wastes fewer frames than RND",
            "fewer",
            f"{hjf:.1f}k and {rnd:.1f}k in a bag",
            hjf < rnd,
        ),
    ]


def _draw(scores: bags.Scores, path: pathlib.Path) -> None:
    figure, grid = style.make_panels(
        _HEIGHT_IN, (1, 1), left=0.06, bottom=0.1, top=0.72
    )
    axes = grid[0][0]
    colours = style.colours_of(bags.RULES)
    for column, (rule, colour) in enumerate(colours.items()):
        for at, setting in enumerate(SETTINGS):
            wasted = _wasted(scores, setting.mode, rule)
            place = at + 0.21 * (column - 1.5)
            axes.bar(
                place,
                wasted,
                width=0.2,
                color=colour,
                label=None if at else rule,
            )
            axes.text(
                place,
                wasted,
                f"{wasted:.1f}",
                ha="center",
                va="bottom",
                fontsize=8.5,
            )
    axes.set_xticks(range(len(SETTINGS)), [each.mode for each in SETTINGS])
    axes.set_ylabel("thousand frames of a bag", fontsize=9)
    style.prepare_axes(axes, "y")
    style.add_legend(figure, axes.get_legend_handles_labels()[0])
    style.write_texts(
        figure,
        "Figure 13 of HJF: frames computed for jobs that missed deadlines",
        f"{len(bags.SEEDS)} bags, HR 50 %; 'early' and 'need' are not the "
        "paper's.",
    )
    style.save(figure, path)
