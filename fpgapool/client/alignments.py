# SPDX-License-Identifier: Apache-2.0

"""Align pairs of sequences with the accelerator ``align``."""

from __future__ import annotations

import dataclasses
import itertools
import struct
import typing
from collections.abc import Sequence
from typing import Any
from typing import Unpack

from fpgapool.client import errors
from fpgapool.client import options as session_options
from fpgapool.client import shown
from fpgapool.client.transfers import transfer
from fpgapool.vocabulary import codes

Text: typing.TypeAlias = str | bytes

_HEAD = struct.Struct("<5i")
# The accelerator's shortest sequence.
_LEAST_SYMBOLS = 4
_GAP = "-"
_LINE_SYMBOLS = 60
_MATRICES = ("blosum62", "dna")


@dataclasses.dataclass(frozen=True)
class Alignment(shown.ShownFields):
    """The best local alignment of two sequences.

    :ivar score: 0 if nothing aligns; the rest is then empty.
    :ivar query_start: where it begins in the query, from 0.
    :ivar query_end: where it ends in the query; this symbol is not a part.
    :ivar target_start: like ``query_start``, in the target.
    :ivar target_end: like ``query_end``, in the target.
    :ivar cigar: operations and how often each is repeated, as in SAM: ``M``
        for a pair of symbols, equal or not; ``I`` for symbols of the query
        alone, ``D`` of the target alone.
    :ivar aligned_query: the query's part, with ``-`` for gaps.
    :ivar aligned_target: the target's part, with ``-`` for gaps.
    """

    score: int
    query_start: int
    query_end: int
    target_start: int
    target_end: int
    cigar: str
    aligned_query: str
    aligned_target: str

    def __str__(self) -> str:
        """Return the pairs in lines; ``|`` is between equal symbols."""
        lines = [f"score {self.score}"]
        at, other = self.query_start, self.target_start
        width = len(str(max(self.query_end, self.target_end)))
        for start in range(0, len(self.aligned_query), _LINE_SYMBOLS):
            end = start + _LINE_SYMBOLS
            query = self.aligned_query[start:end]
            target = self.aligned_target[start:end]
            matches = "".join(
                "|" if one == two else " " if _GAP in (one, two) else "."
                for one, two in zip(query, target, strict=True)
            )
            ends = [
                place + len(part) - part.count(_GAP)
                for place, part in ((at, query), (other, target))
            ]
            lines += [
                "",
                f"query  {at:{width}} {query} {ends[0]}",
                f"       {'':{width}} {matches}".rstrip(),
                f"target {other:{width}} {target} {ends[1]}",
            ]
            at, other = ends
        return "\n".join(lines)


@session_options.accepted
def align(
    queries: Text | Sequence[Text],
    targets: Text | Sequence[Text],
    *,
    matrix: str | bytes = "blosum62",
    match: int = 1,
    mismatch: int = -4,
    gap_open: int = 11,
    gap_extend: int = 1,
    timeout_s: float | None = None,
    **options: Unpack[session_options.Options],
) -> list[Alignment]:
    """Find the best local alignment of each query with its target.

    All sequences are filled up to the length of the longest: align sequences
    of similar length together.

    :param queries: sequences of ASCII characters; a single one is aligned with
        each target.
    :param targets: as many, or a single one for all queries.
    :param matrix: ``blosum62`` for proteins; ``dna`` for scores ``match`` and
        ``mismatch``; or a matrix of 256 rows of 256 signed bytes, one row for
        each character of queries, one column for each of targets.
    :param gap_open: cost of a gap, in addition to ``gap_extend`` for each of
        its symbols.
    :raises errors.InvalidRequest: with code ``INVALID_INPUT`` if the numbers
        of queries and targets differ, or a sequence has other characters.
    :raises errors.InvalidParams: if there is no such matrix.
    :raises: as :func:`fpgapool.client.run_buffer`.
    """
    pairs = _pairs(_sequences(queries), _sequences(targets))
    if not pairs:
        return []
    rows = max(_LEAST_SYMBOLS, *(len(query) for query, _ in pairs))
    columns = max(_LEAST_SYMBOLS, *(len(target) for _, target in pairs))
    params: dict[str, Any] = {
        "query_symbols": rows,
        "target_symbols": columns,
        "matrix": matrix,
        "match": match,
        "mismatch": mismatch,
        "gap_open": gap_open,
        "gap_extend": gap_extend,
        **(options.pop("params", None) or {}),
    }
    if isinstance(matrix, str):
        if matrix not in _MATRICES:
            raise errors.InvalidParams(
                f"matrix must be {' or '.join(_MATRICES)}, or a table of your"
                " own: bytes, 256 rows of 256 scores"
            )
    else:
        params["matrix"] = "argument"
        options["arguments"] = {1: matrix}
    data = b"".join(
        query.ljust(rows, b"\0") + target.ljust(columns, b"\0")
        for query, target in pairs
    )
    output, _ = transfer.run_buffer(
        "align", data, params=params, timeout_s=timeout_s, **options
    )
    result_bytes = _HEAD.size + rows + columns
    if len(output) != result_bytes * len(pairs):
        raise errors.FpgapoolError(
            codes.SIZE_MISMATCH,
            f"align returned {len(output)} bytes for {len(pairs)} pairs",
        )
    view = memoryview(output)
    return [
        _alignment(*pair, view[start : start + result_bytes])
        for pair, start in zip(
            pairs, range(0, len(output), result_bytes), strict=True
        )
    ]


def _sequences(given: Text | Sequence[Text]) -> list[bytes]:
    found = []
    for one in [given] if isinstance(given, str | bytes) else given:
        try:
            sequence = one.encode("ascii") if isinstance(one, str) else one
        except UnicodeEncodeError as exc:
            letter = exc.object[exc.start]
            raise _unfit(
                f"takes ASCII characters only, not {letter!r}"
            ) from None
        if not isinstance(sequence, bytes) or b"\0" in sequence:
            raise _unfit("takes texts, or bytes without zeros")
        found.append(sequence)
    return found


def _pairs(
    queries: list[bytes], targets: list[bytes]
) -> list[tuple[bytes, bytes]]:
    if len(queries) == 1:
        queries = queries * len(targets)
    elif len(targets) == 1:
        targets = targets * len(queries)
    if len(queries) != len(targets):
        raise _unfit(
            f"takes as many queries as targets, not {len(queries)} and "
            f"{len(targets)}"
        )
    return list(zip(queries, targets, strict=True))


def _alignment(query: bytes, target: bytes, result: memoryview) -> Alignment:
    score, row, row_end, column, column_end = _HEAD.unpack_from(result)
    operations = bytes(result[_HEAD.size :]).rstrip(b"\0").decode()
    queries = iter(query[row:row_end].decode("latin-1"))
    targets = iter(target[column:column_end].decode("latin-1"))
    return Alignment(
        score,
        row,
        row_end,
        column,
        column_end,
        "".join(
            f"{len(list(run))}{operation}"
            for operation, run in itertools.groupby(operations)
        ),
        "".join(_GAP if one == "D" else next(queries) for one in operations),
        "".join(_GAP if one == "I" else next(targets) for one in operations),
    )


def _unfit(message: str) -> errors.InvalidRequest:
    return errors.InvalidRequest(codes.INVALID_INPUT, f"align {message}")
