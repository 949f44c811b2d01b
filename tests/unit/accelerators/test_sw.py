# SPDX-License-Identifier: Apache-2.0

"""Smith-Waterman."""

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpgapool.accelerators import base
from fpgapool.accelerators import sw
from tests.unit.accelerators import runs


def plain(query, target):
    """Fill in one cell after the other, as the definition says."""
    none = -(10**9)
    width = len(target) + 1
    scores = [0] * width
    down = [none] * width
    best = (0, 0, 0)
    for i, symbol in enumerate(query, start=1):
        before, scores = scores, [0]
        across = none
        for j in range(1, width):
            down[j] = max(down[j] - 1, before[j] - 7)
            across = max(across - 1, scores[j - 1] - 7)
            equal = symbol == target[j - 1] and symbol
            aligned = before[j - 1] + (1 if equal else -4)
            score = max(0, aligned, down[j], across)
            scores.append(score)
            if score and (-score, i + j, i) < (
                -best[0],
                sum(best[1:]),
                best[1],
            ):
                best = (score, i, j)
    return list(best)


def align(pairs):
    """Align pairs of sequences, all as long as those of the first one."""
    query, target = pairs[0]
    core = runs.load(
        "sw", query_symbols=len(query), target_symbols=len(target)
    )
    output = runs.run(core, b"".join(map(b"".join, pairs)))
    return numpy.frombuffer(output, "<i4").reshape(-1, 3).tolist()


def make_pairs(seed, query_symbols, target_symbols, count):
    """Make pairs whose sequences differ by a few changes and gaps."""
    generator = numpy.random.default_rng([seed, query_symbols, target_symbols])
    pairs = []
    for _ in range(count):
        letters = numpy.frombuffer(b"ACGT\0", "u1")[: generator.integers(2, 6)]
        target = generator.choice(letters, target_symbols)
        query = numpy.resize(target, query_symbols)
        for _ in range(generator.integers(0, 4)):
            place, length = generator.integers(0, query_symbols), 1
            if generator.random() < 0.5:
                length = generator.integers(1, 6)
                query = numpy.delete(query, slice(place, place + length))
            else:
                letter = generator.choice(letters, length)
                query = numpy.insert(query, min(place, len(query)), letter)
        query = numpy.pad(query, (0, query_symbols))[:query_symbols]
        pairs.append((query.tobytes(), target.tobytes()))
    return pairs


@pytest.mark.parametrize(
    ("query", "target", "result"),
    [
        (b"ACGT", b"ACGT", [4, 4, 4]),
        (b"AAAA", b"TTTT", [0, 0, 0]),
        (b"TTACGA", b"GACG", [3, 5, 4]),
        # A mismatch costs more than three matches give.
        (b"AAATCCC", b"AAAGCCC", [3, 3, 3]),
        # Ten matches on both sides pay for a mismatch ...
        (
            b"A" * 10 + b"T" + b"C" * 10,
            b"A" * 10 + b"G" + b"C" * 10,
            [16, 21, 21],
        ),
        # ... and for a gap of three in either.
        (b"A" * 10 + b"C" * 10, b"A" * 10 + b"GGG" + b"C" * 10, [11, 20, 23]),
        (b"A" * 10 + b"GGG" + b"C" * 10, b"A" * 10 + b"C" * 10, [11, 23, 20]),
        # A gap of four costs all that ten matches give.
        (b"A" * 10 + b"C" * 10, b"A" * 10 + b"GGGG" + b"C" * 10, [10, 10, 10]),
        (b"ACG\0\0", b"\0\0ACG", [3, 3, 5]),
        (b"\0\0", b"\0\0", [0, 0, 0]),
        # The nearest one to the beginnings.
        (b"AC", b"AxCAC", [2, 2, 5]),
        (b"AxA", b"A", [1, 1, 1]),
        (b"xAxA", b"yyA", [1, 2, 3]),
    ],
)
def test_known_alignments(query, target, result):
    assert align([(query, target)]) == [result]
    assert plain(query, target) == result


@given(
    seed=st.integers(0, 1 << 32),
    query_symbols=st.integers(1, 40),
    target_symbols=st.integers(1, 40),
    count=st.integers(1, 8),
)
def test_agrees_with_a_plain_dynamic_programme(
    seed, query_symbols, target_symbols, count
):
    pairs = make_pairs(seed, query_symbols, target_symbols, count)
    assert align(pairs) == [plain(*pair) for pair in pairs]


@given(
    query=st.binary(min_size=1, max_size=30),
    target=st.binary(min_size=1, max_size=30),
)
def test_symbols_are_bytes(query, target):
    assert align([(query, target)]) == [plain(query, target)]


def test_many_pairs_are_aligned_in_batches(monkeypatch):
    pairs = make_pairs(1, 10, 12, 50)
    expected = align(pairs)
    monkeypatch.setattr(sw, "_BATCH_CELLS", 70)
    assert align(pairs) == expected


def test_long_scores_do_not_overflow(monkeypatch):
    pairs = make_pairs(2, 60, 50, 9)
    expected = align(pairs)
    monkeypatch.setattr(sw, "_INT16", 0)
    assert align(pairs) == expected


def test_pairs_that_take_too_long():
    with pytest.raises(base.InvalidParams) as caught:
        runs.load("sw", query_symbols=65536, target_symbols=2049)
    assert "'target_symbols'" in caught.value.message
    core = runs.load("sw", query_symbols=65536, target_symbols=2048)
    assert core.chunk_multiple_bytes == 65536 + 2048
