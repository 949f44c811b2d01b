# SPDX-License-Identifier: Apache-2.0

"""The list of attacks in the security documentation.

Renew it: ``python -m tests.walls.table``.
"""

from __future__ import annotations

import importlib
import itertools
import pathlib
import textwrap

from tests.walls import attacks

FILE = (
    pathlib.Path(__file__)
    .parents[2]
    .joinpath("doc", "source", "reference", "walls.rst.inc")
)
_WIDTH = 85


def text() -> str:
    """Return the list as RST."""
    lines = [
        ".. SPDX-License-Identifier: Apache-2.0",
        ".. Made by python -m tests.walls.table",
        "",
    ]
    for module, several in itertools.groupby(
        attacks.ATTACKS.values(), lambda one: one.act.__module__
    ):
        summary = str(importlib.import_module(module).__doc__)
        title = summary.partition(".")[0]
        lines += [f"It {title[0].lower()}{title[1:]}:", ""]
        for one in several:
            lines += _wrapped(one)
        lines.append("")
    return "\n".join(lines[:-1]) + "\n"


def _wrapped(one: attacks.Attack) -> list[str]:
    name = f"* ``{one.name}``: {one.tried} ({one.stops})"
    return textwrap.wrap(
        name, _WIDTH, subsequent_indent="  ", break_on_hyphens=False
    )


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
