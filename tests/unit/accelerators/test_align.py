# SPDX-License-Identifier: Apache-2.0

"""Alignments with a matrix, compared with those of Biopython."""

import itertools

import numpy
import pytest
from Bio import Align
from Bio.Align import substitution_matrices

from fpgapool.accelerators import align
from fpgapool.accelerators import base
from fpgapool.accelerators import matrices
from tests.unit.accelerators import runs

PROTEIN = b"ARNDCQEGHILKMFPSTWYVBZX*"
DNA = b"ACGT"
BLOSUM62 = substitution_matrices.load("BLOSUM62")


def make_pairs(seed, letters, query_symbols, target_symbols, count):
    """Make pairs whose sequences differ by some changes and gaps."""
    chance = numpy.random.default_rng([seed, query_symbols, target_symbols])
    letters = numpy.frombuffer(letters, "u1")
    for _ in range(count):
        target = chance.choice(letters, target_symbols)
        query = numpy.resize(numpy.roll(target, chance.integers(9)), 70)
        for _ in range(chance.integers(0, 5)):
            place = chance.integers(0, len(query) - 10)
            more = chance.choice(letters, chance.integers(0, 6))
            query = numpy.concatenate(
                [query[:place], more, query[place + chance.integers(6) :]]
            )
        yield numpy.resize(query, query_symbols).tobytes(), target.tobytes()


def aligned(pairs, table=None, **params):
    """Return score, ends and operations of each pair."""
    query, target = pairs[0]
    core = runs.load(
        "align",
        query_symbols=len(query),
        target_symbols=len(target),
        **params,
    )
    if table is not None:
        core.set_argument(1, memoryview(table))
    output = runs.run(core, b"".join(itertools.chain.from_iterable(pairs)))
    for result in numpy.frombuffer(output, "u1").reshape(len(pairs), -1):
        head = result[: align.HEAD_BYTES].view(align.HEAD_TYPE).tolist()
        yield head, result[align.HEAD_BYTES :].tobytes().rstrip(b"\0")


def rescored(query, target, found, score, gap_open, gap_extend):
    """Add up what an alignment's operations score."""
    (_, row, row_end, column, column_end), operations = found
    total = 0
    for operation, run in itertools.groupby(operations):
        length = len(list(run))
        if operation == align.BOTH:
            for step in range(length):
                total += score(query[row + step], target[column + step])
            row, column = row + length, column + length
        else:
            total -= gap_open + length * gap_extend
            if operation == align.QUERY_ONLY:
                row += length
            else:
                column += length
    assert (row, column) == (row_end, column_end)
    return total


@pytest.mark.parametrize("sizes", [(60, 60), (40, 75), (75, 33), (4, 4)])
@pytest.mark.parametrize("gaps", [(11, 1), (0, 2), (5, 3)])
@pytest.mark.parametrize("letters", [PROTEIN, DNA], ids=["protein", "dna"])
def test_alignments_are_as_good_as_those_of_biopython(sizes, gaps, letters):
    pairs = list(make_pairs(7, letters, *sizes, 40))
    judge = Align.PairwiseAligner(mode="local")
    # There a gap's first symbol is part of the opening.
    judge.open_gap_score = -sum(gaps)
    judge.extend_gap_score = -gaps[1]
    params = {"gap_open": gaps[0], "gap_extend": gaps[1]}
    if letters is DNA:
        judge.match_score, judge.mismatch_score = 2, -3
        params |= {"matrix": "dna", "match": 2, "mismatch": -3}
    else:
        judge.substitution_matrix = BLOSUM62

    def score(one, other):
        if letters is DNA:
            return 2 if one == other else -3
        return BLOSUM62[chr(one)][chr(other)]

    gapped = 0
    for pair, found in zip(pairs, aligned(pairs, **params), strict=True):
        query, target = pair
        best = judge.score(target.decode(), query.decode())
        assert found[0][0] == best
        assert rescored(query, target, found, score, *gaps) == best
        gapped += b"I" in found[1] or b"D" in found[1]
    assert gapped > 2 or min(sizes) < 10


def test_scores_and_ends_are_those_of_sw():
    pairs = list(make_pairs(3, DNA + b"\0", 50, 64, 60))
    found = aligned(
        pairs, matrix="dna", match=1, mismatch=-4, gap_open=6, gap_extend=1
    )
    core = runs.load("sw", query_symbols=50, target_symbols=64)
    output = runs.run(core, b"".join(itertools.chain.from_iterable(pairs)))
    for (head, _), wanted in zip(
        found, numpy.frombuffer(output, "<i4").reshape(-1, 3), strict=True
    ):
        assert [head[0], head[2], head[4]] == wanted.tolist()


def test_the_matrix_is_that_of_biopython():
    table = matrices.blosum62()
    for one, other in itertools.product(PROTEIN, PROTEIN):
        wanted = BLOSUM62[chr(one)][chr(other)]
        assert table[one, other] == wanted
        assert table[ord(chr(one).lower()), other] == wanted
    assert table[0, 0] == table[0, ord("A")] == table[1, ord("W")] == -4


def test_a_matrix_of_the_programs_own():
    table = numpy.full((256, 256), -5, "i1")
    # It need not be symmetric.
    table[ord("A"), ord("T")] = 9
    pairs = [(b"AAAA", b"TTTT"), (b"TTTT", b"AAAA")]
    first, second = aligned(pairs, table.tobytes(), matrix="argument")
    assert first == ([36, 0, 4, 0, 4], b"MMMM")
    assert second == ([0] * 5, b"")


def test_arguments_that_do_not_fit():
    params = {"query_symbols": 4, "target_symbols": 4}
    core = runs.load("align", matrix="argument", **params)
    for work in (
        lambda: runs.process(core, b"ACGTACGT"),
        lambda: core.set_argument(1, memoryview(bytes(9))),
        lambda: core.set_argument(2, memoryview(bytes(65536))),
        lambda: runs.load("align", **params).set_argument(
            1, memoryview(bytes(65536))
        ),
    ):
        with pytest.raises(base.InvalidArgument):
            work()


def test_a_pair_that_is_too_large_is_refused():
    with pytest.raises(base.InvalidParams, match="at most 16777216"):
        runs.load("align", query_symbols=65536, target_symbols=257)


def test_many_pairs_are_computed_in_batches(monkeypatch):
    pairs = list(make_pairs(5, DNA, 30, 40, 23))
    whole = list(aligned(pairs, matrix="dna"))
    monkeypatch.setattr(align, "_BATCH_BYTES", 1 << 13)
    assert list(aligned(pairs, matrix="dna")) == whole
