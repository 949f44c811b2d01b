# SPDX-License-Identifier: Apache-2.0

"""The paper on HJF: Tables 1 to 7 and Figures 7 to 13.

All compare the same rules on the same bags of jobs, and are means of many sets
of bags. Table 7 is the summary, here beside an independent simulation of the
first set, and with settings where HJF fails.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence

from reproduction.figures import bags
from reproduction.figures import charts
from reproduction.figures import figure

#: What a panel shows: member of a score, title.
PANELS = {
    "sla_percent": "SLAs kept, %",
    "kj_per_sla": "energy per SLA kept, kJ",
    "frames_per_s": "frames/s of jobs that kept theirs",
}
#: Below this relative difference, values are the same.
_SAME = 0.02
#: How far a value may be from the reference: points, and relatively.
SLA_TOLERANCE = 0.1
KJ_TOLERANCE = 0.002
#: 'need' should take this share of the energy per SLA, of HJF's in the main
#: setting and of EDF's where HJF fails.
NEED_TO_HJF = 0.98
NEED_TO_EDF = 0.95

MAIN = bags.Setting("fine")
FEW_CORES = dataclasses.replace(MAIN, cores=4)
TIGHT = dataclasses.replace(MAIN, high_chunk_s=75.0)

_Values = Sequence[tuple[float | None, float | None]]
#: SLAs in percent and kJ per SLA of an independent simulation with the same
#: bags, by setting, in the order of the rules; None: it has no such value.
REFERENCE: dict[bags.Setting, _Values] = {
    bags.Setting("coarse"): [
        *((74.0, 30.15), (84.1, 26.61), (85.1, 26.21), (89.1, 25.02)),
    ],
    MAIN: [(73.9, 30.17), (87.5, 25.59), (92.6, 24.01), (96.0, 23.16)],
    bags.Setting("opt"): [
        *((75.9, 28.63), (88.1, 25.06), (92.6, 23.89), (96.2, 22.95)),
    ],
    bags.Setting("early"): [
        *((76.5, 27.84), (91.2, 23.71), (94.6, 23.27), (96.4, 22.85)),
    ],
    bags.Setting("fine", 5): [
        (None, kj) for kj in (26.18, 23.31, 22.96, 22.47)
    ],
    bags.Setting("fine", 2): [
        (None, kj) for kj in (23.97, 22.62, 22.47, 22.33)
    ],
    FEW_CORES: [(sla, None) for sla in (58.9, 68.4, 61.8, 77.6)],
    TIGHT: [(sla, None) for sla in (55.1, 72.2, 62.1, 79.8)],
}


def deviations(scores: bags.Scores) -> dict[str, float]:
    """Return how far values are from the reference, in tolerances."""
    found = {}
    for setting, reference in REFERENCE.items():
        for rule, (sla, kj) in zip(bags.RULES, reference, strict=True):
            score, name = scores[setting, rule], f"{rule} at {setting.name}"
            if sla is not None:
                off = score.sla_percent - sla
                found[f"SLAs of {name}"] = off / SLA_TOLERANCE
            if kj is not None:
                off = score.kj_per_sla / kj - 1
                found[f"kJ of {name}"] = off / KJ_TOLERANCE
    return found


# -- claims ----------------------------------------------------------------


def _of(
    scores: bags.Scores, mode: str, high: int = bags.HIGH[-1]
) -> dict[str, bags.Score]:
    """Return the scores of a setting, by rule."""
    setting = bags.Setting(mode, high)
    return {rule: scores[setting, rule] for rule in bags.RULES}


def _against_others(
    scores: bags.Scores,
    mode: str,
    member: str,
    text: str,
    paper: str,
    holds: Callable[[float, float], bool],
) -> figure.Claim:
    """Return a claim on HJF's values relative to those of RND and EDF."""
    found = _of(scores, mode)
    ours = getattr(found["HJF"], member)
    rnd, edf = (ours / getattr(found[rule], member) for rule in ("RND", "EDF"))
    return figure.Claim(
        f"HJF {text} at HR 50 %",
        paper,
        f"{100 * (rnd - 1):+.1f} % against RND, {100 * (edf - 1):+.1f} % "
        "against EDF",
        holds(rnd, edf),
    )


def _total_energy(scores: bags.Scores, mode: str) -> figure.Claim:
    changes = [
        found[rule].energy_kj / found["RND"].energy_kj - 1
        for high in bags.HIGH
        for found in [_of(scores, mode, high)]
        for rule in ("EDF", "HJF")
    ]
    return figure.Claim(
        "HJF and EDF take less energy in total than RND",
        "20 % less (abstract)",
        figure.to([100 * each for each in changes], "{:+.1f}", " %")
        + "; the idle host and board take most of it, as long as the bag "
        "takes",
        max(changes) <= -_SAME,
    )


def _claims_coarse(scores: bags.Scores, mode: str) -> list[figure.Claim]:
    by_high = [_of(scores, mode, high) for high in bags.HIGH]
    kept = [
        [found[rule].sla_percent for rule in bags.PAPER_RULES]
        for found in by_high
    ]
    costs = [found["HJF"].kj_per_sla for found in by_high]
    return [
        _total_energy(scores, mode),
        figure.Claim(
            "HJF keeps the most SLAs at each share of HR",
            "the most",
            "; ".join("/".join(f"{one:.1f}" for one in each) for each in kept)
            + " % (RND/EDF/HJF)",
            all(each[-1] == max(each) for each in kept),
        ),
        figure.Claim(
            "energy per SLA grows with the share of HR",
            "grows",
            f"{figure.listed(costs, '{:.2f}')} kJ under HJF",
            costs == sorted(costs),
        ),
    ]


def _claims_fine(
    energy: int, slas: int, frames: str, least: tuple[float, float]
) -> Callable[[bags.Scores, str], list[figure.Claim]]:
    """Return what makes the claims when slots change hands.

    :param energy: percent less per SLA, as the paper has it.
    :param slas: percent more that are kept.
    :param frames: what the paper says of frames/s.
    :param least: of frames/s, against RND and EDF.
    """

    def claims(scores: bags.Scores, mode: str) -> list[figure.Claim]:
        return [
            _against_others(
                *(scores, mode, "kj_per_sla", "takes less energy per SLA"),
                f"{energy} % less",
                lambda rnd, edf: max(rnd, edf) <= 1 - energy / 100,
            ),
            _against_others(
                *(scores, mode, "sla_percent", "keeps more SLAs than RND"),
                f"{slas} % more",
                lambda rnd, _: rnd >= 1 + slas / 100,
            ),
            _against_others(
                *(scores, mode, "frames_per_s", "processes more frames/s"),
                frames,
                lambda rnd, edf: rnd >= least[0] and edf >= least[1],
            ),
        ]

    return claims


def _claims_wasted(scores: bags.Scores, _mode: str) -> list[figure.Claim]:
    fine, killed = (
        [_of(scores, mode)[rule].wasted_frames for rule in bags.PAPER_RULES]
        for mode in ("fine", "opt")
    )
    return [
        figure.Claim(
            "fewer frames are wasted if jobs end with their deadlines",
            "significantly fewer",
            "; ".join(
                f"{rule} {before / 1e3:.1f}k, then {after / 1e3:.1f}k"
                for rule, before, after in zip(
                    bags.PAPER_RULES, fine, killed, strict=True
                )
            ),
            all(a < b for b, a in zip(fine, killed, strict=True)),
        ),
        figure.Claim(
            "HJF wastes fewer frames than RND",
            "fewer",
            f"{killed[-1] / 1e3:.1f}k and {killed[0] / 1e3:.1f}k in a bag",
            killed[-1] < killed[0],
        ),
    ]


def _claims_all(scores: bags.Scores, _mode: str) -> list[figure.Claim]:
    killed = _of(scores, "opt")
    best = killed["HJF"]
    energy = {
        "RND in the same mode": killed["RND"].energy_kj,
        "RND coarse": _of(scores, "coarse")["RND"].energy_kj,
    }
    least_kj = min(
        _of(scores, mode)[rule].kj_per_sla
        for mode in bags.PAPER_MODES
        for rule in bags.PAPER_RULES
    )
    return [
        figure.Claim(
            "HJF with kills takes the least energy per SLA of all",
            "the least",
            f"{best.kj_per_sla:.2f} kJ, the least is {least_kj:.2f}",
            best.kj_per_sla == least_kj,
        ),
        figure.Claim(
            "SLAs kept under it at HR 50 %",
            "85 %",
            f"{best.sla_percent:.1f} %",
            best.sla_percent >= 85,
        ),
        figure.Claim(
            "total energy saved by it",
            "20 % (abstract), 23 % (conclusion)",
            ", ".join(
                f"{figure.change(best.energy_kj, other)} against {name}"
                for name, other in energy.items()
            )
            + "; the idle host and board take most of it, whatever the rule",
            all(best.energy_kj <= 0.8 * other for other in energy.values()),
        ),
    ]


def _notes_all(sets: Sequence[bags.Scores]) -> list[str]:
    """Say where HJF is behind EDF, and what 'need' does there."""
    scores, parts = bags.means(sets), []
    for setting in (FEW_CORES, TIGHT):
        kept = "/".join(
            f"{scores[setting, rule].sla_percent:.1f}" for rule in bags.RULES
        )
        need, edf = (
            scores[setting, rule].kj_per_sla for rule in ("need", "EDF")
        )
        parts.append(
            f"{setting.name}: {kept} % of SLAs (RND/EDF/HJF/need), 'need' "
            f"takes {need / edf:.2f} of EDF's energy per SLA (aim "
            f"{NEED_TO_EDF})"
        )
    main = scores[MAIN, "need"].kj_per_sla / scores[MAIN, "HJF"].kj_per_sla
    return [
        "HJF is behind EDF where much is lost anyway, because it holds on to "
        f"hopeless jobs: {'; '.join(parts)}. At {MAIN.name}, "
        f"'need' takes {main:.3f} of HJF's (aim {NEED_TO_HJF}).",
        figure.agreement(
            deviations(sets[0]),
            1.0,
            f" × {SLA_TOLERANCE:g} points of SLAs or {100 * KJ_TOLERANCE:g} % "
            "of energy per SLA, in the first set of bags",
        ),
    ]


# -- figures ---------------------------------------------------------------


def _row(
    name: str,
    subject: str,
    settings: Mapping[bags.Setting, str],
    claims: Callable[[bags.Scores, str], list[figure.Claim]],
    *,
    mode: str = "",
    panels: Mapping[str, str] = PANELS,
    notes: Callable[[Sequence[bags.Scores]], Sequence[str]] = lambda _: (),
) -> figure.Figure:
    """Return a row of the table of figures.

    :param settings: with their names in the picture.
    :param panels: member of a score, and title.
    """

    return figure.Figure(
        name=name,
        subject=f"{subject} of the paper on HJF{f' ({mode})' if mode else ''}",
        run=lambda measure: bags.compare_sets(measure, settings),
        header=(
            *("setting", "mode", "high_percent", "strategy"),
            *(
                f"{each.name}{end}"
                for each in dataclasses.fields(bags.Score)
                for end in ("", "_95_low", "_95_high")
            ),
        ),
        rows=_rows,
        claims=lambda sets: claims(bags.means(sets), mode),
        notes=notes,
        picture=lambda sets: _picture(
            sets,
            f"HJF: {subject}{f' ({mode})' if mode else ''}",
            settings,
            panels,
            REFERENCE if name == "hjf-table7" else {},
        ),
    )


def _rows(sets: Sequence[bags.Scores]) -> list[Sequence[object]]:
    halves = bags.halves(sets)
    return [
        (
            *(setting.name, setting.mode, setting.high_percent, rule),
            *(
                value
                for mean, half in zip(
                    dataclasses.astuple(score),
                    dataclasses.astuple(halves[setting, rule]),
                    strict=True,
                )
                for value in (mean, mean - half, mean + half)
            ),
        )
        for (setting, rule), score in bags.means(sets).items()
    ]


def _picture(
    sets: Sequence[bags.Scores],
    title: str,
    settings: Mapping[bags.Setting, str],
    panels: Mapping[str, str],
    reference: Mapping[bags.Setting, _Values],
) -> charts.Picture:
    scores, halves = bags.means(sets), bags.halves(sets)

    def series(rule: str, member: str) -> charts.Series:
        place = list(bags.RULES).index(rule)
        return charts.Series(
            label=rule,
            y=[getattr(scores[setting, rule], member) for setting in settings],
            halves=[
                getattr(halves[setting, rule], member) for setting in settings
            ],
            marks=[
                reference[setting][place][member != "sla_percent"]
                for setting in settings
                if reference
            ],
            texts="{:.0f}" if member == "wasted_frames" else "{:.1f}",
        )

    return charts.Picture(
        title=title,
        subtitle=f"{len(sets)} sets of {len(bags.SEEDS)} bags of {bags.JOBS} "
        f"jobs, {bags.CORES} cores, one board; bars: 95 % intervals; 'need' "
        "and 'early' are not the paper's; lines: an independent simulation of "
        "one set.",
        panels=[
            [
                charts.Panel(
                    title=name,
                    categories=list(settings.values()),
                    series=[series(rule, member) for rule in bags.RULES],
                )
                for member, name in panels.items()
            ]
        ],
    )


def _by_share(mode: str) -> dict[bags.Setting, str]:
    settings = [bags.Setting(mode, high) for high in bags.HIGH]
    return {each: f"HR {each.high_percent} %" for each in settings}


FIGURES = (
    _row(
        "hjf7",
        "Tables 1 and 2, Figures 7 and 8",
        _by_share("coarse"),
        _claims_coarse,
        mode="coarse",
    ),
    _row(
        "hjf9",
        "Tables 3 and 4, Figures 9 and 10",
        _by_share("fine"),
        _claims_fine(
            35, 20, "clearly more than RND, similar to EDF", (1.1, 1.0)
        ),
        mode="fine",
    ),
    _row(
        "hjf11",
        "Tables 5 and 6, Figures 11 and 12",
        _by_share("opt"),
        _claims_fine(40, 15, "20 % more", (1.2, 0.0)),
        mode="opt",
    ),
    _row(
        "hjf13",
        "Figure 13: frames computed for late jobs",
        {bags.Setting(mode): mode for mode in bags.MODES},
        _claims_wasted,
        panels={"wasted_frames": "wasted frames of a bag"},
    ),
    _row(
        "hjf-table7",
        "Table 7 and the conclusion",
        {each: each.name.replace(", ", ",\n") for each in REFERENCE},
        _claims_all,
        panels={"sla_percent": "SLAs kept, %"},
        notes=_notes_all,
    ),
)
