# SPDX-License-Identifier: Apache-2.0

"""The list of attacks, and its copy in the documentation."""

from __future__ import annotations

from tests.walls import attacks
from tests.walls import table


def test_the_documentation_lists_what_is_tried() -> None:
    assert table.FILE.read_text(encoding="utf-8") == table.text(), (
        "renew it: python -m tests.walls.table"
    )
    security = table.FILE.with_name("security.rst")
    assert f".. include:: {table.FILE.name}" in security.read_text()


def test_no_two_attacks_try_the_same() -> None:
    tried = [one.tried for one in attacks.ATTACKS.values()]
    assert len(set(tried)) == len(tried) >= 40
