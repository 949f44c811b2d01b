# SPDX-License-Identifier: Apache-2.0

"""What pages of the documentation tell users to write or to run."""

from __future__ import annotations

import pathlib
import re
import textwrap

CONTRIBUTOR = pathlib.Path(__file__).parents[2] / "doc/source/contributor"


def code_block(page: pathlib.Path, caption: str) -> str:
    """Return the code block of a page that has this caption."""
    _, found, rest = page.read_text().partition(f"   :caption: {caption}\n")
    assert found, f"{page} has no block {caption}"
    lines = []
    for line in rest.splitlines():
        if line and not line.startswith("   "):
            break
        lines.append(line)
    return textwrap.dedent("\n".join(lines)).strip() + "\n"


def shell_blocks(page: pathlib.Path) -> list[str]:
    """Return what a page tells users to paste into a shell."""
    blocks = re.findall(
        r"\.\. code-block:: sh\n\n((?:   .*\n|\n)+)",
        page.read_text(encoding="utf-8"),
    )
    return [textwrap.dedent(block) for block in blocks]
