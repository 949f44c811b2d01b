# SPDX-License-Identifier: Apache-2.0

"""How objects of the library look at a prompt and in a notebook.

Nothing here asks the pool, and nothing secret is shown.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping


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
            one.name: getattr(self, one.name)
            for one in dataclasses.fields(self)  # type: ignore[arg-type]
            if one.repr
        }
        return _table(type(self).__name__, facts)


def _table(title: str, facts: Mapping[str, object]) -> str:
    """Return a table in HTML; everything in it is escaped."""
    import html

    rows = "".join(
        f"<tr><th>{html.escape(name)}</th>"
        f"<td>{html.escape(str(value))}</td></tr>"
        for name, value in facts.items()
    )
    return f"<table><caption>{html.escape(title)}</caption>{rows}</table>"
