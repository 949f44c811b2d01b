# SPDX-License-Identifier: Apache-2.0

"""Cuts the output of one stage into pieces of input for the next one.

Where it cuts depends on the data alone: on the output of each task, which is
the same whenever it is computed, and never on time. So a piece that is
announced a second time, to another worker, is the same.
"""

from __future__ import annotations

from typing import NamedTuple


class Cut(NamedTuple):
    """A piece of input.

    :ivar length_bytes: its length; 0 only if it is the end.
    :ivar end: whether it is the last one.
    """

    length_bytes: int
    end: bool


class Cutter:
    """The position between two stages.

    :param chunk_bytes: longest piece that the next stage takes.
    :param multiple_bytes: the length of every piece but the last is a multiple
        of this.
    :param start_bytes: where the first piece begins.
    :ivar cut_bytes: end of the last piece.
    :ivar seen_bytes: end of the output.
    """

    def __init__(
        self, chunk_bytes: int, multiple_bytes: int, start_bytes: int = 0
    ) -> None:
        self._most_bytes = chunk_bytes - chunk_bytes % multiple_bytes
        self._multiple_bytes = multiple_bytes
        self.cut_bytes = self.seen_bytes = start_bytes
        self._ended = False

    @property
    def left_bytes(self) -> int:
        """Output that is in no piece yet."""
        return self.seen_bytes - self.cut_bytes

    def add(self, seen_bytes: int, *, last: bool, end: bool) -> list[Cut]:
        """Return the pieces that can be cut now.

        :param seen_bytes: end of the output so far.
        :param last: whether that is the end of a task's output.
        :param end: whether it is the end of all output.
        """
        if self._ended:
            return []
        self.seen_bytes = seen_bytes
        self._ended = end
        cuts: list[Cut] = []
        while self.left_bytes > self._most_bytes:
            cuts.append(self._cut(self._most_bytes))
        if end:
            cuts.append(self._cut(self.left_bytes)._replace(end=True))
        elif last:
            whole_bytes = self.left_bytes
            whole_bytes -= whole_bytes % self._multiple_bytes
            if whole_bytes:
                cuts.append(self._cut(whole_bytes))
        return cuts

    def _cut(self, length_bytes: int) -> Cut:
        self.cut_bytes += length_bytes
        return Cut(length_bytes, False)
