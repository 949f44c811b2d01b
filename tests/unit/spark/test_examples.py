# SPDX-License-Identifier: Apache-2.0

"""How much of a program changes when it uses accelerators."""

from __future__ import annotations

import difflib
import pathlib

import pytest

EXAMPLES = pathlib.Path(__file__).parents[3] / "doc" / "examples" / "spark"


def lines_of(name: str) -> list[str]:
    """Return the lines of a program that are not empty."""
    text = (EXAMPLES / f"{name}.py").read_text()
    return [line for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize(("name", "most"), [("lr", 9), ("km", 7)])
def test_few_lines_change(name: str, most: int) -> None:
    plain, pool = lines_of(f"{name}_plain"), lines_of(f"{name}_pool")
    changes = difflib.SequenceMatcher(None, plain, pool, autojunk=False)
    changed = [
        max(before_end - before, after_end - after)
        for kind, before, before_end, after, after_end in changes.get_opcodes()
        if kind != "equal"
    ]
    assert 0 < sum(changed) <= most
