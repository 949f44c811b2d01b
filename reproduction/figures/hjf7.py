# SPDX-License-Identifier: Apache-2.0

"""Figures 7 to 12 of the paper on HJF, and Tables 1 to 6, which they show."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Callable

from fpgapool.sim.plots import style
from reproduction.figures import bags
from reproduction.figures import experiments
from reproduction.figures import tables
from reproduction.figures import verdicts

#: What a panel shows: member of a score, title.
PANELS = (
    ("sla_percent", "SLAs kept, %"),
    ("kj_per_sla", "energy per SLA kept, kJ"),
    ("frames_per_s", "frames/s of jobs that kept theirs"),
)
_HEIGHT_IN = 4.4
#: Below this relative difference, values are the same.
_SAME = 0.02


@dataclasses.dataclass(frozen=True)
class Plan:
    """What one picture shows.

    :ivar name: of the picture's file.
    :ivar subject: the paper's tables and figures.
    :ivar mode: one of :data:`bags.MODES`.
    :ivar claims: what the paper says about it.
    """

    name: str
    subject: str
    mode: str
    claims: Callable[[bags.Scores, str], list[verdicts.Claim]]


def compare(plan: Plan, measure: experiments.Measure) -> bags.Scores:
    """Simulate all rules at all shares of high requirements."""
    return bags.compare(
        measure, [bags.Setting(plan.mode, high) for high in bags.HIGH]
    )


def make(
    plan: Plan, out_dir: pathlib.Path, measure: experiments.Measure
) -> str:
    """Write a picture, its numbers and its claims; see the package."""
    scores = compare(plan, measure)
    tables.write(
        out_dir / f"{plan.name}.csv",
        ("high_percent", "strategy", *bags.HEADER),
        [
            (setting.high_percent, rule, *bags.cells_of(score))
            for (setting, rule), score in scores.items()
        ],
    )
    claims = plan.claims(scores, plan.mode)
    verdicts.write(out_dir / f"{plan.name}-claims.csv", claims)
    _draw(plan, scores, out_dir / f"{plan.name}.png")
    return verdicts.say(
        f"{plan.subject} of the paper on HJF ({plan.mode})", claims
    )


# -- claims ----------------------------------------------------------------


def _of(
    scores: bags.Scores, mode: str, high: int = bags.HIGH[-1]
) -> dict[str, bags.Score]:
    """Return the scores of a setting, by rule."""
    setting = bags.Setting(mode, high)
    return {rule: scores[setting, rule] for rule in bags.RULES}


def _against(found: dict[str, bags.Score], member: str) -> dict[str, float]:
    """Return by how much HJF's value differs from those of others."""
    ours = getattr(found["HJF"], member)
    return {
        rule: ours / getattr(found[rule], member) - 1
        for rule in ("RND", "EDF")
    }


def _percents(values: dict[str, float]) -> str:
    return ", ".join(
        f"{100 * value:+.1f} % against {rule}"
        for rule, value in values.items()
    )


def _energy(scores: bags.Scores, mode: str) -> verdicts.Claim:
    totals = [
        {
            rule: score.energy_kj
            for rule, score in _of(scores, mode, high).items()
        }
        for high in bags.HIGH
    ]
    changes = [
        {rule: each[rule] / each["RND"] - 1 for rule in ("EDF", "HJF")}
        for each in totals
    ]
    values = [value for each in changes for value in each.values()]
    return verdicts.Claim(
        "HJF and EDF take less energy in total than RND",
        "20 % less (abstract)",
        f"{100 * min(values):+.1f} to {100 * max(values):+.1f} %; the idle "
        "host and board take most of it, as long as the bag takes",
        max(values) <= -_SAME,
    )


def _coarse(scores: bags.Scores, mode: str) -> list[verdicts.Claim]:
    by_high = {high: _of(scores, mode, high) for high in bags.HIGH}
    kept = [
        "/".join(f"{found[rule].sla_percent:.1f}" for rule in bags.PAPER_RULES)
        for found in by_high.values()
    ]
    costs = [found["HJF"].kj_per_sla for found in by_high.values()]
    return [
        _energy(scores, mode),
        verdicts.Claim(
            "HJF keeps the most SLAs at each share of HR",
            "the most",
            f"{'; '.join(kept)} % (RND/EDF/HJF)",
            all(
                found["HJF"].sla_percent
                == max(found[rule].sla_percent for rule in bags.PAPER_RULES)
                for found in by_high.values()
            ),
        ),
        verdicts.Claim(
            "energy per SLA grows with the share of HR",
            "grows",
            f"{', '.join(f'{cost:.2f}' for cost in costs)} kJ under HJF",
            costs == sorted(costs),
        ),
    ]


def _fine(scores: bags.Scores, mode: str) -> list[verdicts.Claim]:
    found = _of(scores, mode)
    return [
        _less_energy(found, 35),
        _more_slas(found, 20),
        _frames(
            found,
            "clearly more than RND, similar to EDF",
            lambda changes: changes["RND"] > 0.1 and changes["EDF"] >= 0,
        ),
    ]


def _opt(scores: bags.Scores, mode: str) -> list[verdicts.Claim]:
    found = _of(scores, mode)
    return [
        _less_energy(found, 40),
        _more_slas(found, 15),
        _frames(found, "20 % more", lambda changes: changes["RND"] >= 0.2),
    ]


def _less_energy(found: dict[str, bags.Score], percent: int) -> verdicts.Claim:
    changes = _against(found, "kj_per_sla")
    return verdicts.Claim(
        "HJF takes less energy per SLA at HR 50 %",
        f"{percent} % less",
        _percents(changes),
        all(change <= -percent / 100 for change in changes.values()),
    )


def _more_slas(found: dict[str, bags.Score], percent: int) -> verdicts.Claim:
    changes = _against(found, "sla_percent")
    points = {
        rule: found["HJF"].sla_percent - found[rule].sla_percent
        for rule in changes
    }
    return verdicts.Claim(
        "HJF keeps more SLAs at HR 50 %, than RND at least",
        f"{percent} % more",
        f"{_percents(changes)} ({points['RND']:+.1f} and "
        f"{points['EDF']:+.1f} points)",
        changes["RND"] >= percent / 100,
    )


def _frames(
    found: dict[str, bags.Score],
    paper: str,
    holds: Callable[[dict[str, float]], bool],
) -> verdicts.Claim:
    changes = _against(found, "frames_per_s")
    return verdicts.Claim(
        "HJF processes more frames/s at HR 50 %, than RND at least",
        paper,
        _percents(changes),
        holds(changes),
    )


COARSE = Plan(
    "hjf7",
    "Tables 1 and 2, Figures 7 and 8",
    "coarse",
    _coarse,
)
FINE = Plan(
    "hjf9",
    "Tables 3 and 4, Figures 9 and 10",
    "fine",
    _fine,
)
OPT = Plan(
    "hjf11",
    "Tables 5 and 6, Figures 11 and 12",
    "opt",
    _opt,
)

make_coarse = functools.partial(make, COARSE)
make_fine = functools.partial(make, FINE)
make_opt = functools.partial(make, OPT)


# -- picture ---------------------------------------------------------------


def _draw(plan: Plan, scores: bags.Scores, path: pathlib.Path) -> None:
    figure, grid = style.make_panels(
        _HEIGHT_IN,
        (1, len(PANELS)),
        left=0.04,
        bottom=0.12,
        top=0.7,
        gaps=(0.0, 0.16),
    )
    colours = style.colours_of(bags.RULES)
    for axes, (member, title) in zip(grid[0], PANELS, strict=True):
        for column, rule in enumerate(bags.RULES):
            values = [
                getattr(scores[bags.Setting(plan.mode, high), rule], member)
                for high in bags.HIGH
            ]
            places = [
                at + 0.21 * (column - 1.5) for at in range(len(bags.HIGH))
            ]
            axes.bar(
                places,
                values,
                width=0.2,
                color=colours[rule],
                label=rule,
            )
            for place, value in zip(places, values, strict=True):
                axes.text(
                    place,
                    value,
                    f"{value:.1f}",
                    ha="center",
                    va="bottom",
                    fontsize=7,
                )
        axes.set_xticks(
            range(len(bags.HIGH)),
            [
                f"HR {bags.Setting(plan.mode, high).high_percent} %"
                for high in bags.HIGH
            ],
        )
        style.prepare_axes(axes, "y")
        style.name_panel(axes, title)
    style.add_legend(figure, grid[0][0].get_legend_handles_labels()[0])
    style.write_texts(
        figure,
        f"HJF, {plan.mode}: {plan.subject}",
        f"{len(bags.SEEDS)} bags of {bags.JOBS} jobs, {bags.CORES} cores, one "
        "board; 'need' is not the paper's.",
    )
    style.save(figure, path)
