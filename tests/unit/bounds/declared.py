# SPDX-License-Identifier: Apache-2.0

"""The bounds of answers, as the documentation declares them."""

import csv
import dataclasses
import pathlib
import re

PAGE = pathlib.Path(__file__).parents[3] / "doc/source/reference/bounds.rst"


@dataclasses.dataclass(frozen=True)
class Bound:
    """How large an answer may be.

    :ivar per: what it grows with; empty: it does not grow.
    """

    bytes_: int
    per: str = ""

    def of(self, **counts: int) -> int:
        """Return the bound in a pool.

        :param counts: of what the answer grows with.
        """
        return self.bytes_ * (counts[self.per] if self.per else 1)


def table(title: str) -> dict[str, Bound | None]:
    """Return the bounds in a table, by operation.

    None: the table says in words how large it can be.
    """
    text = PAGE.read_text().split(f".. csv-table:: {title}\n")[1]
    block = re.split(r"\n(?=\S)", text)[0]
    lines = [one.strip() for one in block.splitlines()]
    found: dict[str, Bound | None] = {}
    rows = csv.reader(
        (one for one in lines if one.startswith('"')), skipinitialspace=True
    )
    for names, _grows, _how, most in rows:
        for name in names.split(", "):
            assert name not in found, f"{name} is there twice"
            found[name] = _bound(most)
    return found


def _bound(text: str) -> Bound | None:
    matched = re.fullmatch(r"([0-9,]+)(?: per (\w+).*)?", text)
    if matched is None:
        return None
    return Bound(int(matched[1].replace(",", "")), matched[2] or "")
