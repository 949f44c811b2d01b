# SPDX-License-Identifier: Apache-2.0

"""Alignments, computed by this machine without a pool."""

from __future__ import annotations

import typing

import numpy as np
import pytest
from Bio import Align
from Bio.Align import substitution_matrices

from fpgapool import client
from fpgapool.client import alignments

CPU: dict[str, typing.Any] = {"front_door": "/none", "fallback": "cpu"}
LETTERS = "ARNDCQEGHILKMFPSTWYV"


def test_proteins_of_any_length() -> None:
    chance = np.random.default_rng(8)
    targets = [
        "".join(chance.choice(list(LETTERS), chance.integers(1, 60)))
        for _ in range(30)
    ]
    queries = [one[2:9] + one[12:] + "WW" for one in targets]
    judge = Align.PairwiseAligner(mode="local")
    judge.substitution_matrix = substitution_matrices.load("BLOSUM62")
    judge.open_gap_score, judge.extend_gap_score = -12, -1
    found = alignments.align(queries, targets, **CPU)
    for query, target, one in zip(queries, targets, found, strict=True):
        assert one.score == judge.score(target, query)
        assert len(one.aligned_query) == len(one.aligned_target)
        assert (
            one.aligned_query.replace("-", "")
            == query[one.query_start : one.query_end]
        )
        assert (
            one.aligned_target.replace("-", "")
            == target[one.target_start : one.target_end]
        )
    assert any("D" in one.cigar for one in found)


def test_one_query_and_many_targets() -> None:
    found = alignments.align(
        b"ACGTACGT", ["ACGTACGT", "TT", ""], matrix="dna", **CPU
    )
    assert [one.score for one in found] == [8, 1, 0]
    assert found[0].cigar == "8M"
    assert found[2] == alignments.Alignment(0, 0, 0, 0, 0, "", "", "")
    assert alignments.align([], [], **CPU) == []
    assert "<td>8M</td>" in found[0]._repr_html_()


def test_a_table_of_ones_own() -> None:
    table = np.full((256, 256), -1, "i1")
    table[ord("x"), ord("y")] = 3
    (found,) = alignments.align("xx", "zyyz", matrix=table.tobytes(), **CPU)
    assert (found.score, found.aligned_target) == (6, "yy")


@pytest.mark.parametrize("matrix", ["blosum80", "argument", ""])
def test_matrices_that_there_are_not(matrix: str) -> None:
    with pytest.raises(client.InvalidParams) as caught:
        alignments.align("A", "A", matrix=matrix, **CPU)
    assert caught.value.message.startswith(
        "matrix must be blosum62 or dna, or a table of your own: "
    )


@pytest.mark.parametrize(
    ("queries", "targets", "message"),
    [
        (["A", "C"], ["A", "C", "G"], "not 2 and 3"),
        ("ACÄ", "A", "ASCII characters only, not 'Ä'"),
        (b"A\0C", "A", "without zeros"),
        ([7], "A", "takes texts"),
    ],
)
def test_sequences_that_are_none(
    queries: typing.Any, targets: typing.Any, message: str
) -> None:
    with pytest.raises(client.InvalidRequest, match=message) as caught:
        alignments.align(queries, targets, **CPU)
    assert caught.value.code == "INVALID_INPUT"


def test_it_is_printed_in_lines() -> None:
    one = alignments.Alignment(
        9, 2, 67, 10, 74, "", "A" * 59 + "CGT-CAA", "A" * 59 + "CTT" + "TC--"
    )
    assert str(one).splitlines() == [
        "score 9",
        "",
        f"query   2 {'A' * 59}C 62",
        f"          {'|' * 60}",
        f"target 10 {'A' * 59}C 70",
        "",
        "query  62 GT-CAA 67",
        "          .| |",
        "target 70 TTTC-- 74",
    ]
    assert str(alignments.Alignment(0, 0, 0, 0, 0, "", "", "")) == "score 0"
