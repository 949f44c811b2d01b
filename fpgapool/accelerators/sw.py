# SPDX-License-Identifier: Apache-2.0

"""Smith-Waterman: the best local alignment of two sequences."""

from __future__ import annotations

import collections.abc
import typing

import numpy
import numpy.typing

from fpgapool.accelerators import base
from fpgapool.accelerators import parameters

MATCH = 1
MISMATCH = -4
#: A gap of n symbols costs GAP_OPEN + n * GAP_EXTEND.
GAP_OPEN = 6
GAP_EXTEND = 1
#: Type of the three numbers of a result: the score and two ends.
RESULT_TYPE = numpy.dtype("<i4")
RESULT_BYTES = 3 * RESULT_TYPE.itemsize
MAX_SYMBOLS = 1 << 16
#: Limits the time of one pair to about half a second.
MAX_CELLS = 1 << 27

# Cells of several pairs that are computed at once: their arrays fit in a
# processor's cache.
_BATCH_CELLS = 1 << 16
# The cost of a gap of one symbol.
_FIRST_GAP = GAP_OPEN + GAP_EXTEND
# Scores below this fit in 16 bits.
_INT16 = 1 << 14

_Symbols: typing.TypeAlias = numpy.typing.NDArray[numpy.uint8]


class SwCore(base.Core):
    """Returns the best local alignment of each pair, stateless.

    A match scores 1, a mismatch -4; a gap of n symbols costs 6 + n. A symbol
    is a byte; a zero byte matches nothing, so it can pad a shorter sequence.
    A result consists of the score and two ends: how many symbols of the query
    and of the target there are up to the end of the alignment. If several
    alignments have the same score, the one whose ends have the smallest sum
    is chosen; if several remain, the one that ends first in the query. If
    nothing matches, all three numbers are 0.

    :param params: ``query_symbols`` and ``target_symbols``: lengths of the
        two sequences of a pair.
    """

    # The sequences have three consecutive symbols in common: ACG.
    known_answers = (
        base.KnownAnswer(
            {"query_symbols": 6, "target_symbols": 4},
            b"TTACGA" + b"GACG",
            numpy.array([3, 5, 4], RESULT_TYPE).tobytes(),
        ),
    )
    usual_params: typing.ClassVar = {
        "query_symbols": 128,
        "target_symbols": 128,
    }

    def __init__(self, params: collections.abc.Mapping[str, object]) -> None:
        values = parameters.checked(
            params, ("query_symbols", "target_symbols")
        )
        self._query_symbols = parameters.integer(
            values, "query_symbols", 1, MAX_SYMBOLS
        )
        self._target_symbols = parameters.integer(
            values, "target_symbols", 1, MAX_SYMBOLS
        )
        if self._query_symbols * self._target_symbols > MAX_CELLS:
            raise base.InvalidParams(
                "'query_symbols' times 'target_symbols' must be at most "
                f"{MAX_CELLS}"
            )
        self._cancelled = False

    @property
    def chunk_multiple_bytes(self) -> int:
        """Length of a pair of sequences."""
        return self._query_symbols + self._target_symbols

    def process(
        self, chunk_in: memoryview, chunk_out: memoryview, offset_bytes: int
    ) -> int:
        base.require_whole(
            len(chunk_in), self.chunk_multiple_bytes, "pair of sequences"
        )
        pairs = numpy.frombuffer(chunk_in, numpy.uint8).reshape(
            -1, self.chunk_multiple_bytes
        )
        output_bytes = len(pairs) * RESULT_BYTES
        results = numpy.frombuffer(
            chunk_out[:output_bytes], RESULT_TYPE
        ).reshape(-1, 3)
        batch_pairs = max(1, _BATCH_CELLS // self._query_symbols)
        for start in range(0, len(pairs), batch_pairs):
            batch = slice(start, start + batch_pairs)
            self._align(pairs[batch], results[batch])
            if self._cancelled:
                return 0
        return output_bytes

    def _align(
        self,
        pairs: _Symbols,
        results: numpy.typing.NDArray[numpy.int32],
    ) -> None:
        """Fill in the tables of several pairs at once.

        A table has a row for each symbol of the query, and a column for each
        symbol of the target. The cells of an antidiagonal do not depend on
        each other, so a whole antidiagonal is computed at once. In the arrays,
        the first axis is the row of the table, the second is the pair.
        """
        rows, columns = self._query_symbols, self._target_symbols
        queries = numpy.ascontiguousarray(pairs[:, :rows].T)
        # Reversed, so that an antidiagonal's symbols are in the order of rows.
        targets = numpy.ascontiguousarray(pairs[:, rows:].T[::-1])
        gains = numpy.where(queries, MATCH - MISMATCH, 0).astype(numpy.int8)
        kind = numpy.int16 if min(rows, columns) < _INT16 else numpy.int32
        # The arrays have an extra first row for the cells above the table.
        shape = (rows + 1, len(pairs))
        # The current antidiagonal and the two previous ones.
        scores, last, older = numpy.zeros((3, *shape), kind)
        # Best scores of alignments that end in a gap: in the target, for this
        # antidiagonal and the previous one; and in the query.
        down, last_down, across = numpy.full((3, *shape), -_FIRST_GAP, kind)
        best = numpy.zeros(len(pairs), kind)
        nothing = numpy.zeros_like(best)
        results[:] = 0
        for number in range(rows + columns - 1):
            if self._cancelled:
                return
            first, end = max(0, number - columns + 1), min(rows, number + 1)
            here, above = slice(first + 1, end + 1), slice(first, end)
            begin = columns - 1 - number + first
            of_target = targets[begin : begin + end - first]
            gained = (queries[above] == of_target).view(numpy.int8)
            gained *= gains[above]
            gained += MISMATCH
            opened = last[first : end + 1] - kind(_FIRST_GAP)
            last_down[above] -= GAP_EXTEND
            numpy.maximum(last_down[above], opened[:-1], out=down[here])
            across[here] -= GAP_EXTEND
            numpy.maximum(across[here], opened[1:], out=across[here])
            current = scores[here]
            numpy.add(older[above], gained, out=current)
            numpy.maximum(current, down[here], out=current)
            numpy.maximum(current, across[here], out=current)
            numpy.maximum(current, nothing, out=current)
            highest = current.max(axis=0)
            better = numpy.flatnonzero(highest > best)
            if len(better):
                best[better] = highest[better]
                row = first + current[:, better].argmax(axis=0)
                results[better, 1] = row + 1
                results[better, 2] = number - row + 1
            scores, last, older = older, scores, last
            down, last_down = last_down, down
        results[:, 0] = best

    def max_output_bytes(self, input_bytes: int) -> int:
        return input_bytes // self.chunk_multiple_bytes * RESULT_BYTES

    def cancel(self) -> None:
        self._cancelled = True
