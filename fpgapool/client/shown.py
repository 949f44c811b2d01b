# SPDX-License-Identifier: Apache-2.0

"""How objects of the library look at a prompt and in a notebook.

Nothing here asks the pool, and nothing secret is shown.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any


class Shown:
    """An object with facts about itself."""

    def _facts(self) -> Mapping[str, object]:
        """Return what is shown, by name; None values are left out."""
        raise NotImplementedError

    def __repr__(self) -> str:
        facts = "".join(f" {name}={value!r}" for name, value in self._known())
        return f"<{type(self).__name__}{facts}>"

    def _repr_html_(self) -> str:
        return _table(type(self).__name__, dict(self._known()))

    def _known(self) -> list[tuple[str, object]]:
        return [one for one in self._facts().items() if one[1] is not None]


class ShownFields:
    """A dataclass whose fields a notebook shows in a table."""

    def _repr_html_(self) -> str:
        facts = {
            one.name: _readable(one.name, getattr(self, one.name))
            for one in dataclasses.fields(self)  # type: ignore[arg-type]
            if one.repr
        }
        return _table(type(self).__name__, facts)


def _readable(name: str, value: object) -> object:
    """Return what people read instead of a field's value.

    :param name: of the field; its end is the unit of a number.
    """
    if name == "params_schema" and isinstance(value, Mapping):
        return "\n".join(params_lines(value)) or "none"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    # A late import: few programs show anything.
    from fpgapool.vocabulary import units

    if name.endswith("_bytes_per_s") or name == "bytes_per_s":
        return f"{units.bytes_text(value)}/s"
    if name.endswith("_bytes"):
        return units.bytes_text(value)
    for end, unit in (("_s", "s"), ("_j", "J")):
        if name.endswith(end):
            return f"{value:.3g} {unit}"
    return value


def params_lines(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line about each parameter of an accelerator.

    :param schema: JSON schema of the parameters.
    """
    required = schema.get("required", ())
    for name, one in schema.get("properties", {}).items():
        yield _param_text(name, one, name in required)


def _param_text(name: str, schema: Mapping[str, Any], needed: bool) -> str:
    import json

    text = name if needed else f"[{name}]"
    kind = schema.get("type", "")
    if "enum" in schema:
        kind = "one of " + ", ".join(map(str, schema["enum"]))
    about = [str(part) for part in (schema.get("description"), kind) if part]
    if "default" in schema:
        default = schema["default"]
        if not isinstance(default, str):
            default = json.dumps(default)
        about.append(f"default {default}")
    return f"{text}: {'; '.join(about)}" if about else text


def _table(title: str, facts: Mapping[str, object]) -> str:
    """Return a table in HTML; everything in it is escaped."""
    import html

    rows = "".join(
        f"<tr><th>{html.escape(name)}</th>"
        f"<td>{html.escape(str(value)).replace(chr(10), '<br>')}</td></tr>"
        for name, value in facts.items()
    )
    return f"<table><caption>{html.escape(title)}</caption>{rows}</table>"
