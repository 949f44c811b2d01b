# SPDX-License-Identifier: Apache-2.0

"""The directive ``error-codes``: a table of codes, with the words of the code.

Its content names a code in each line that is not indented; the lines below it
say what to do.
"""

from __future__ import annotations

from collections.abc import Iterator

from docutils import nodes
from docutils import statemachine
from docutils.parsers import rst

from fpgapool.vocabulary import codes

HEAD = """\
.. list-table::
   :header-rows: 1
   :widths: 27 8 30 35

   * - Code
     - HTTP
     - Meaning
     - What to do
"""


class ErrorCodes(rst.Directive):
    """Adds meaning and HTTP status from the table of codes."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        source, _ = self.state_machine.get_source_and_line(self.lineno)
        table = nodes.Element()
        lines = statemachine.StringList(list(self._lines()), source=source)
        self.state.nested_parse(lines, self.content_offset, table)
        return list(table.children)

    def _lines(self) -> Iterator[str]:
        yield from HEAD.splitlines()
        first = True
        for line in filter(None, self.content):
            if line.startswith(" "):
                mark = "-" if first else " "
                yield f"     {mark} {line.strip()}"
                first = False
                continue
            error = codes.ERRORS[line]
            yield f"   * - ``{line}``"
            yield f"     - {error.status or ''}"
            yield f"     - {error.sentence}"
            first = True


def setup(app: object) -> dict[str, bool]:
    """Register the directive."""
    rst.directives.register_directive("error-codes", ErrorCodes)
    return {"parallel_read_safe": True}
