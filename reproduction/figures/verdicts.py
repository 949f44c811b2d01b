# SPDX-License-Identifier: Apache-2.0

"""What a paper claims, and what simulations say about it."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterable
from collections.abc import Sequence

from reproduction.figures import experiments
from reproduction.figures import tables


@dataclasses.dataclass(frozen=True)
class Claim:
    """A claim of the paper beside what the simulations say.

    :ivar text: what it is about.
    :ivar paper: the paper's figure.
    :ivar ours: the same here.
    """

    text: str
    paper: str
    ours: str
    holds: bool


def write(path: pathlib.Path, claims: Iterable[Claim]) -> None:
    """Write claims as a table."""
    tables.write(
        path,
        ("claim", "paper", "ours", "holds"),
        [
            (each.text, each.paper, each.ours, "yes" if each.holds else "no")
            for each in claims
        ],
    )


def say(subject: str, claims: Sequence[Claim]) -> str:
    """Say in sentences which claims hold."""
    verdict = experiments.verdict([claim.holds for claim in claims])
    lines = [f"{subject}: what the paper says {verdict}."]
    lines += [
        f"{'so' if claim.holds else 'NOT so'}: {claim.text}, "
        f"paper: {claim.paper}, here: {claim.ours}."
        for claim in claims
    ]
    return "\n".join(lines)


def change(after: float, before: float) -> str:
    """Return a relative change in percent, as text."""
    return f"{100 * (after / before - 1):+.1f} %"
