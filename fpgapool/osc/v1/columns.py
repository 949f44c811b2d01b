# SPDX-License-Identifier: Apache-2.0

"""Values of columns: amounts for people, raw ones for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from osc_lib.cli import format_columns

from fpgapool.vocabulary import fields
from fpgapool.vocabulary import units


class Amount(format_columns.SizeColumn):
    """A number with a unit; empty if it is unknown."""

    def human_readable(self) -> str:
        return "" if self._value is None else self.text(self._value)

    def text(self, value: float) -> str:
        """Return a number as people read it."""
        return f"{value:.4g}" if isinstance(value, float) else str(value)


class Bytes(Amount):
    def text(self, value: float) -> str:
        return units.bytes_text(value)


class Rate(Amount):
    def text(self, value: float) -> str:
        return f"{units.bytes_text(value)}/s"


class Seconds(Amount):
    def text(self, value: float) -> str:
        return units.seconds_text(value)


class Counts(format_columns.DictColumn):
    """Numbers by name."""

    def human_readable(self) -> str:
        return ", ".join(
            f"{name} {number}" for name, number in sorted(self._value.items())
        )


class JsonColumn(format_columns.DictColumn):
    """A nested document; its human-readable form has several lines."""

    def human_readable(self) -> str:
        return json.dumps(self._value, indent=1, ensure_ascii=False)


class Lines(format_columns.ListColumn):
    """Shows each text on a line of its own."""

    def human_readable(self) -> str:
        return "\n".join(self._value)


class Sentences(format_columns.ListDictColumn):
    """Shows reasons; people read only the sentences."""

    def __init__(self, value: list[dict[str, Any]] | None) -> None:
        # Services of earlier releases do not send them in lists.
        super().__init__(value or [])

    def human_readable(self) -> str:
        return "\n".join(one["message"] for one in self._value)


#: Formats whose cells are text; cliff would write Python's form of nested
#: values. Not "shell": cliff does not escape the backslashes of JSON.
_TEXT_FORMATS = ("csv", "value")
_NESTED = (
    format_columns.DictColumn,
    format_columns.ListColumn,
    format_columns.ListDictColumn,
)


def cells(formatter: str, values: Iterable[Any]) -> tuple[Any, ...]:
    """Return values with nested ones as JSON, if the format needs text."""
    if formatter not in _TEXT_FORMATS:
        return tuple(values)
    return tuple(map(_cell, values))


def _cell(value: Any) -> Any:
    if isinstance(value, _NESTED):
        value = value.machine_readable()
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return value


_BY_KIND = {
    fields.NAMES: format_columns.ListColumn,
    fields.NUMBER: Amount,
    fields.OBJECT: JsonColumn,
    fields.OBJECTS: format_columns.ListDictColumn,
    fields.RATE: Rate,
    fields.SECONDS: Seconds,
}
_BY_SUFFIX = {"_bytes": Bytes, "_s": Seconds}
_AMOUNTS = (fields.COUNT, fields.INTEGER, fields.NUMBER)


def formatters(described: fields.Fields) -> dict[str, Any]:
    """Return the classes of the described members that need one."""
    found = {one.name: _class_of(one) for one in described.shown}
    return {name: class_ for name, class_ in found.items() if class_}


def _class_of(field: fields.Field) -> Any:
    if field.kind in _AMOUNTS and not field.name.endswith("_per_s"):
        for suffix, class_ in _BY_SUFFIX.items():
            if field.name.endswith(suffix):
                return class_
    return _BY_KIND.get(field.kind)
