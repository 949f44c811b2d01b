# SPDX-License-Identifier: Apache-2.0

"""Local alignments with a matrix of scores, and how the sequences align."""

from __future__ import annotations

import collections.abc
import typing

import numpy
import numpy.typing

from fpgapool.accelerators import base
from fpgapool.accelerators import matrices
from fpgapool.accelerators import parameters

MATRICES = ("blosum62", "dna", "argument")
LEAST_SYMBOLS = 4
MAX_SYMBOLS = 1 << 16
#: Limits a pair to about a second, and its directions to 32 MiB.
MAX_CELLS = 1 << 24
#: The numbers before a result's operations.
HEAD_TYPE = numpy.dtype("<i4")
HEAD_NUMBERS = 5
HEAD_BYTES = HEAD_NUMBERS * HEAD_TYPE.itemsize

# How much memory the directions of several pairs may take at once.
_BATCH_BYTES = 1 << 24
# Less than all scores, and far from where numbers overflow.
_NEVER = -(1 << 30)

# A cell's direction: where its score comes from, and whether a gap that ends
# there began before.
_FROM_BOTH, _FROM_ABOVE, _FROM_LEFT, _SOURCE = 1, 2, 3, 3
_LONGER_ABOVE, _LONGER_LEFT = 4, 8
#: Operations, as in SAM: both sequences go on, or only one of them.
BOTH, QUERY_ONLY, TARGET_ONLY = b"MID"

_Numbers: typing.TypeAlias = numpy.typing.NDArray[typing.Any]


class AlignCore(base.Core):
    """Returns the best local alignment of each pair of sequences, stateless.

    A gap of n symbols costs ``gap_open`` + n ``gap_extend``. A zero byte fills
    up a shorter sequence. A result has five ``int32``: the score, where the
    alignment begins and ends in the query, and where in the target; then as
    many bytes as a pair, of which the first are the alignment's operations,
    and the others zero. If several alignments have the same score, the one
    whose ends have the smallest sum is chosen; if several remain, the one that
    ends first in the query; then the one that, from the end, aligns symbols
    rather than to leave out some of the query or, last, of the target. If no
    score is positive, everything is 0.

    :param params: ``query_symbols`` and ``target_symbols``: lengths of both
        sequences; ``matrix``: ``blosum62`` (the default), ``dna``, whose
        scores are ``match`` and ``mismatch``, or ``argument``: argument 1 has
        256 rows, one for each byte of the query, of 256 ``int8``;
        ``gap_open`` and ``gap_extend``.
    """

    # A gap of one symbol between five pairs of matches.
    known_answers = (
        base.KnownAnswer(
            {
                "query_symbols": 10,
                "target_symbols": 12,
                "matrix": "dna",
                "match": 5,
            },
            b"ACGTACGTAC" + b"TACGTGACGTAC",
            numpy.array([38, 0, 10, 1, 12], HEAD_TYPE).tobytes()
            + b"MMMMDMMMMMM".ljust(22, b"\0"),
        ),
    )
    usual_params: typing.ClassVar = {
        "query_symbols": 128,
        "target_symbols": 128,
    }

    def __init__(self, params: collections.abc.Mapping[str, object]) -> None:
        values = parameters.checked(
            params,
            ("query_symbols", "target_symbols"),
            {
                "matrix": "blosum62",
                "match": 1,
                "mismatch": -4,
                "gap_open": 11,
                "gap_extend": 1,
            },
        )
        self._rows, self._columns = (
            parameters.integer(values, name, LEAST_SYMBOLS, MAX_SYMBOLS)
            for name in ("query_symbols", "target_symbols")
        )
        if self._rows * self._columns > MAX_CELLS:
            raise base.InvalidParams(
                "'query_symbols' times 'target_symbols' must be at most "
                f"{MAX_CELLS}"
            )
        matrix = parameters.choice(values, "matrix", MATRICES)
        match = parameters.integer(values, "match", 1, 127)
        mismatch = parameters.integer(values, "mismatch", -128, 0)
        self._extend = parameters.integer(values, "gap_extend", 1, 1000)
        # The cost of a gap of one symbol.
        self._first = self._extend + parameters.integer(
            values, "gap_open", 0, 1000
        )
        self._table: matrices.Table | None = None
        self._takes_table = matrix == "argument"
        if matrix == "blosum62":
            self._table = matrices.blosum62()
        elif matrix == "dna":
            self._table = matrices.equality(match, mismatch)
        self._cancelled = False

    @property
    def chunk_multiple_bytes(self) -> int:
        """Length of a pair of sequences."""
        return self._rows + self._columns

    def set_argument(self, number: int, data: memoryview) -> None:
        if number != 1 or not self._takes_table:
            super().set_argument(number, data)
        expected_bytes = matrices.SYMBOLS**2
        if data.nbytes != expected_bytes:
            raise base.InvalidArgument(
                f"argument 1, the matrix, is {data.nbytes} bytes; expected "
                f"{expected_bytes} bytes"
            )
        numbers = numpy.frombuffer(data, numpy.int8).copy()
        self._table = numbers.reshape(matrices.SYMBOLS, matrices.SYMBOLS)

    def process(
        self, chunk_in: memoryview, chunk_out: memoryview, offset_bytes: int
    ) -> int:
        if self._table is None:
            raise base.InvalidArgument("argument 1, the matrix, is missing")
        pair_bytes = self.chunk_multiple_bytes
        base.require_whole(len(chunk_in), pair_bytes, "pair of sequences")
        pairs = numpy.frombuffer(chunk_in, numpy.uint8).reshape(-1, pair_bytes)
        output_bytes = self.max_output_bytes(len(chunk_in))
        results = numpy.frombuffer(
            chunk_out[:output_bytes], numpy.uint8
        ).reshape(len(pairs), -1)
        batch_pairs = max(1, _BATCH_BYTES // (pair_bytes * (self._rows + 1)))
        for start in range(0, len(pairs), batch_pairs):
            batch = slice(start, start + batch_pairs)
            self._align(pairs[batch], self._table.ravel(), results[batch])
            if self._cancelled:
                return 0
        return output_bytes

    def _align(
        self, pairs: _Numbers, table: _Numbers, results: _Numbers
    ) -> None:
        """Fill in the tables of several pairs at once, then go back.

        See :meth:`sw.SwCore._align`: a table has a row for each symbol of the
        query, and an antidiagonal is computed at once.
        """
        rows, columns, count = self._rows, self._columns, len(pairs)
        queries = pairs[:, :rows].T.astype(numpy.int32) * matrices.SYMBOLS
        # Reversed, so that an antidiagonal's symbols are in the order of rows.
        targets = pairs[:, rows:].T[::-1].astype(numpy.int32)
        shape = (rows + 1, count)
        scores, last, older = numpy.zeros((3, *shape), numpy.int32)
        above, last_above, left = numpy.full((3, *shape), _NEVER, numpy.int32)
        directions = numpy.zeros((rows + columns, *shape), numpy.uint8)
        best = numpy.zeros((3, count), numpy.int32)
        for number in range(rows + columns - 1):
            if self._cancelled:
                return
            first, end = max(0, number - columns + 1), min(rows, number + 1)
            here, before = slice(first + 1, end + 1), slice(first, end)
            begin = columns - 1 - number + first
            symbols = queries[before] + targets[begin : begin + end - first]
            opened = last[first : end + 1] - self._first
            longer = last_above[before] - self._extend
            direction = directions[number, here]
            direction |= (longer > opened[:-1]) * numpy.uint8(_LONGER_ABOVE)
            numpy.maximum(longer, opened[:-1], out=above[here])
            longer = left[here] - self._extend
            direction |= (longer > opened[1:]) * numpy.uint8(_LONGER_LEFT)
            numpy.maximum(longer, opened[1:], out=left[here])
            aligned = older[before] + table[symbols]
            current = numpy.maximum(aligned, above[here])
            numpy.maximum(current, left[here], out=current)
            source = numpy.where(
                current == aligned,
                numpy.uint8(_FROM_BOTH),
                numpy.where(
                    current == above[here],
                    numpy.uint8(_FROM_ABOVE),
                    numpy.uint8(_FROM_LEFT),
                ),
            )
            source[current <= 0] = 0
            direction |= source
            numpy.maximum(current, 0, out=scores[here])
            highest = current.max(axis=0)
            better = numpy.flatnonzero(highest > best[0])
            if len(better):
                row = first + current[:, better].argmax(axis=0)
                best[:, better] = highest[better], row + 1, number - row + 1
            scores, last, older = older, scores, last
            above, last_above = last_above, above
        self._go_back(directions, best, results)

    def _go_back(
        self, directions: _Numbers, best: _Numbers, results: _Numbers
    ) -> None:
        """Follow directions from the best cells, and write the results."""
        count = best.shape[1]
        pairs = numpy.arange(count)
        row, column = best[1].copy(), best[2].copy()
        # Which sequence alone goes on in the gap that a pair is in, if any.
        gap = numpy.zeros(count, numpy.uint8)
        backwards = numpy.zeros(
            (count, self._rows + self._columns), numpy.uint8
        )
        lengths = numpy.zeros(count, numpy.int64)
        active = pairs[best[0] > 0]
        step = 0
        while len(active) and not self._cancelled:
            there = directions[
                row[active] + column[active] - 2, row[active], active
            ]
            moves = gap[active]
            moves = numpy.where(moves, moves, there & _SOURCE)
            going = moves > 0
            active, there, moves = active[going], there[going], moves[going]
            backwards[active, step] = _OPERATIONS[moves]
            lengths[active] += 1
            row[active] -= moves != _FROM_LEFT
            column[active] -= moves != _FROM_ABOVE
            stays = there & _STAYS[moves] > 0
            gap[active] = numpy.where(stays, moves, 0)
            inside = (row[active] > 0) & (column[active] > 0)
            active = active[inside]
            step += 1
        head = numpy.stack([best[0], row, best[1], column, best[2]], axis=1)
        head[best[0] == 0] = 0
        results[:, :HEAD_BYTES] = head.astype(HEAD_TYPE).view(numpy.uint8)
        places = lengths[:, None] - 1 - numpy.arange(backwards.shape[1])
        forwards = numpy.take_along_axis(
            backwards, numpy.maximum(places, 0), axis=1
        )
        results[:, HEAD_BYTES:] = numpy.where(places >= 0, forwards, 0)

    def max_output_bytes(self, input_bytes: int) -> int:
        pair_bytes = self.chunk_multiple_bytes
        return input_bytes // pair_bytes * (HEAD_BYTES + pair_bytes)

    def cancel(self) -> None:
        self._cancelled = True


#: By the source of a score: the operation, and what says that a gap is longer.
_OPERATIONS = numpy.array([0, BOTH, QUERY_ONLY, TARGET_ONLY], numpy.uint8)
_STAYS = numpy.array([0, 0, _LONGER_ABOVE, _LONGER_LEFT], numpy.uint8)
