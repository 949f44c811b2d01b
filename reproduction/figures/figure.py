# SPDX-License-Identifier: Apache-2.0

"""What a figure is: simulations, a table, claims and a picture.

A paper's module makes rows of :data:`reproduction.figures.FIGURES` of these;
what all figures do, this module does.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import pathlib
import typing
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

from fpgapool.sim import files
from reproduction.figures import charts

_Found = typing.TypeVar("_Found")
_Found_co = typing.TypeVar("_Found_co", covariant=True)


class Run(typing.Protocol[_Found_co]):
    """A simulation to be done; equal runs have equal results."""

    def measure(self) -> _Found_co:
        """Simulate."""

    def __hash__(self) -> int:
        """Runs are keys."""


class Measure(typing.Protocol):
    """Does simulations, in any processes."""

    def __call__(
        self, runs: Sequence[Run[_Found]], /
    ) -> Mapping[Run[_Found], _Found]:
        """Return the result of each."""


def measure_one(run: Run[_Found]) -> _Found:
    """Simulate; a function that processes can import."""
    return run.measure()


class Claim(typing.NamedTuple):
    """A claim of the paper beside what the simulations say."""

    text: str
    paper: str
    ours: str
    holds: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class Figure:
    """A row of the table of figures.

    :ivar name: its number, or the name of its files.
    :ivar subject: what its sentences are about.
    :ivar run: simulates; the others get what it returns.
    :ivar header: names of the table's columns, with units.
    :ivar notes: sentences besides those on claims.
    :ivar more: writes further files into the directory.
    """

    name: str
    subject: str
    run: Callable[[Measure], typing.Any]
    header: Sequence[str]
    rows: Callable[[typing.Any], Iterable[Sequence[object]]]
    claims: Callable[[typing.Any], Sequence[Claim]]
    picture: Callable[[typing.Any], charts.Picture]
    notes: Callable[[typing.Any], Sequence[str]] = lambda _: ()
    more: Callable[[typing.Any, pathlib.Path], None] = lambda *_: None

    @property
    def stem(self) -> str:
        """Return the name of its files."""
        return f"figure{self.name}" if self.name.isdecimal() else self.name

    def make(self, out_dir: pathlib.Path, measure: Measure) -> str:
        """Write its numbers and claims (CSV) and its picture (PNG).

        :returns: sentences: which claims hold at these settings.
        :raises OSError: if the picture cannot be written.
        :raises fpgapool.sim.errors.InputError: if the numbers cannot.
        """
        found = self.run(measure)
        write(out_dir / f"{self.stem}.csv", self.header, self.rows(found))
        claims = self.claims(found)
        write(
            out_dir / f"{self.stem}-claims.csv",
            ("claim", "paper", "ours", "holds"),
            [(*each[:3], "yes" if each.holds else "no") for each in claims],
        )
        charts.draw(self.picture(found), out_dir / f"{self.stem}.png")
        self.more(found, out_dir)
        return "\n".join([say(self.subject, claims), *self.notes(found)])


def verdict(claims: Sequence[Claim]) -> str:
    """Say how many of a figure's claims hold."""
    holds = [claim.holds for claim in claims]
    if all(holds):
        return "holds"
    return "holds in part" if any(holds) else "does not hold"


def say(subject: str, claims: Sequence[Claim]) -> str:
    """Say in sentences which claims hold."""
    lines = [f"{subject}: what the paper says {verdict(claims)}."]
    lines += [
        f"{'so' if claim.holds else 'NOT so'}: {claim.text}, "
        f"paper: {claim.paper}, here: {claim.ours}."
        for claim in claims
    ]
    return "\n".join(lines)


def write(
    path: pathlib.Path,
    header: Sequence[str],
    rows: Iterable[Sequence[object]],
) -> None:
    """Write a table as a CSV file; floats have six digits, None is empty.

    :raises fpgapool.sim.errors.InputError: if it cannot be written.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        writer.writerow(
            [
                f"{cell:.6g}" if isinstance(cell, float) else cell
                for cell in row
            ]
        )
    files.write(path, text.getvalue().encode())


def agreement(off: Mapping[str, float], tolerance: float, unit: str) -> str:
    """Say which values are those of an independent simulation.

    :param off: by name, how far each value is from it.
    """
    far = [
        f"{name} ({value:+.3g})"
        for name, value in off.items()
        if abs(value) > tolerance
    ]
    return (
        f"{len(off) - len(far)} of {len(off)} values are those of an "
        f"independent simulation within {tolerance:g}{unit}"
        + (f"; not: {'; '.join(far)}." if far else ".")
    )


def change(after: float, before: float) -> str:
    """Return a relative change in percent, as text."""
    return f"{100 * (after / before - 1):+.1f} %"


def to(
    values: Iterable[float], pattern: str = "{:.1f}", unit: str = ""
) -> str:
    """Return the range of values, as text."""
    some = list(values)
    low, high = pattern.format(min(some)), pattern.format(max(some))
    return (low if low == high else f"{low} to {high}") + unit


def listed(values: Iterable[object], pattern: str = "{}") -> str:
    """Return values with commas, as text."""
    return ", ".join(pattern.format(each) for each in values)
