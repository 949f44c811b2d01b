# SPDX-License-Identifier: Apache-2.0

"""The jobs of a trace, before they are fitted to a cluster."""

from __future__ import annotations

import dataclasses
import datetime
import math
from collections.abc import Mapping

from fpgapool.sim import errors
from fpgapool.vocabulary import rules

#: How much of a wrong value a message shows.
_MOST_SHOWN = 40


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """A job as its file has it. A text that is empty is unknown.

    :ivar place: where the file has it: what messages put before the name of a
        column.
    :ivar arrival_s: counted from anything.
    :ivar run_s: time that it ran; None: it did not run, or has ``size_bytes``.
    :ivar size_bytes: None: follows from ``run_s``.
    :ivar host: the name of the host of its data, or what stands for it.
    :ivar kind: jobs of the same kind use the same accelerator.
    :ivar more: further members of the job by name, as text.
    """

    place: str
    arrival_s: float
    run_s: float | None = None
    size_bytes: float | None = None
    accelerator: str = ""
    host: str = ""
    tenant: str = ""
    id: str = ""
    kind: str = ""
    processors: int = 1
    more: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Log:
    """The content of a trace.

    :ivar columns: by member of a job, what the file calls it.
    :ivar names_hosts: whether ``host`` names hosts; false: it is a user, or
        the job itself, whose data is on any host.
    """

    source: str
    rows: list[Row]
    columns: Mapping[str, str]
    names_hosts: bool

    def wrong(self, row: Row, column: str, reason: str) -> errors.InputError:
        name = self.columns.get(column, column)
        return errors.InputError(self.source, f"{row.place}{name}", reason)


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """One line of a table.

    :ivar renamed: by column, what the file calls it instead.
    """

    source: str
    number: int
    values: dict[str, str]
    renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def place(self) -> str:
        return f"line {self.number}, column "

    def wrong(self, column: str, reason: str) -> errors.InputError:
        name = self.renamed.get(column, column)
        return errors.InputError(self.source, f"{self.place}{name}", reason)

    def number_of(self, column: str, least: float = -math.inf) -> float:
        """Return a value as a finite number.

        :raises errors.InputError: if it is not one, or is too small.
        """
        text = self.values[column]
        try:
            value = float(text)
        except ValueError:
            raise self.wrong(
                column, f"{shown(text)} is not a number"
            ) from None
        if not math.isfinite(value) or value < least:
            limit = "" if least == -math.inf else f" of at least {least:g}"
            raise self.wrong(
                column, f"{shown(text)} is not a finite number{limit}"
            )
        return value

    def moment_s(self, column: str) -> float:
        """Return a time in seconds; dates count from 1970, in UTC.

        :raises errors.InputError: if it is neither a number nor a date.
        """
        text = self.values[column]
        if "-" not in text[1:] or "e" in text.lower():
            return self.number_of(column)
        try:
            if not rules.ISO_TIME.fullmatch(text):
                raise ValueError
            moment = datetime.datetime.fromisoformat(text)
        except ValueError:
            raise self.wrong(
                column,
                f"{shown(text)} is neither seconds nor a time such as "
                "2026-01-31T08:00:00",
            ) from None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=datetime.UTC)
        return moment.timestamp()


def shown(text: str) -> str:
    """Return a value for a message."""
    if len(text) > _MOST_SHOWN:
        text = f"{text[:_MOST_SHOWN]}…"
    return repr(text)
