# SPDX-License-Identifier: Apache-2.0

"""What a tutorial has its reader do: write files, run commands.

Blocks of a page, in their order:

* one with a caption is a file of that name;
* one of ``sh`` is pasted into the reader's shell, and the block of ``text``
  right below it is what it prints, where ``…`` stands for anything;
* one of ``sh`` with the caption ``In another shell`` runs until the end.
"""

from __future__ import annotations

import dataclasses
import re
import textwrap

ELSEWHERE = "In another shell"

_BLOCK = re.compile(
    r"^\.\. code-block:: (\w+)\n"
    r"((?:   :\w+: .*\n)*)\n"
    r"((?:   .*\n|\n)+)",
    re.MULTILINE,
)


@dataclasses.dataclass(frozen=True)
class File:
    """A file to write."""

    name: str
    text: str


@dataclasses.dataclass(frozen=True)
class Commands:
    """What is pasted into a shell.

    :ivar elsewhere: whether it runs in a shell of its own, until the end.
    :ivar prints: what it prints; None if the page does not show that.
    """

    text: str
    elsewhere: bool = False
    prints: str | None = None


def steps_of(page: str) -> list[File | Commands]:
    """Return the steps of a page.

    :raises ValueError: if a block is none of those above.
    """
    steps: list[File | Commands] = []
    for language, options, indented in _BLOCK.findall(page):
        text = textwrap.dedent(indented).strip() + "\n"
        caption = re.search(r":caption: (.*)", options)
        if language == "text":
            last = steps[-1] if steps else None
            if not isinstance(last, Commands) or last.prints is not None:
                raise ValueError(f"no command prints this: {text}")
            steps[-1] = dataclasses.replace(last, prints=text)
        elif language == "sh":
            elsewhere = caption is not None and caption[1] == ELSEWHERE
            steps.append(Commands(text, elsewhere))
        elif caption:
            steps.append(File(caption[1], text))
        else:
            raise ValueError(f"a block without a purpose: {text}")
    return steps
