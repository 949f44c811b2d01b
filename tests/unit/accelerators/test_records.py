# SPDX-License-Identifier: Apache-2.0

"""Blocks of records: logistic regression and k-means."""

import itertools

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special
from scipy.spatial import distance

from fpgapool.accelerators import base
from fpgapool.accelerators import records
from tests.unit.accelerators import runs

LR, KM = "lr", "km"
BOTH = pytest.mark.parametrize("name", [LR, KM])


def params_of(name, features, rows, **more):
    word = {LR: "labels", KM: "centres"}[name]
    return {"features": features, word: rows, **more}


def make(name, features, rows, count, seed=0):
    """Make records and a matrix of single precision numbers."""
    generator = numpy.random.default_rng([seed, features, rows, count])
    data = generator.standard_normal((count, features))
    if name == LR:
        labels = generator.integers(0, max(rows, 2), count)
        data = numpy.column_stack([labels, data])
    matrix = generator.standard_normal((rows, features))
    return data.astype("<f4"), matrix.astype("<f4")


def load(name, matrix, **more):
    rows, features = matrix.shape
    core = runs.load(name, **params_of(name, features, rows, **more))
    core.set_argument(1, memoryview(matrix.tobytes()))
    return core


def results(name, data, matrix, cuts=(), **more):
    """Compute, and return a result in each row."""
    core = load(name, matrix, **more)
    unit_bytes = runs.multiple_bytes(name, core)
    output = runs.run(core, data.tobytes(), cuts, unit_bytes)
    return numpy.frombuffer(output, "<f8").reshape(
        -(-len(data) * data[0].nbytes // unit_bytes), -1
    )


def expected(name, block, matrix):
    """Compute the result of a block with other functions."""
    block, matrix = block.astype(float), matrix.astype(float)
    return {LR: expected_lr, KM: expected_km}[name](block, matrix)


def expected_lr(block, weights):
    gradient, loss = numpy.zeros(weights.shape), 0.0
    for label, *features in block:
        scores = weights @ features
        if len(weights) == 1:
            chance = special.expit(scores)
            loss -= special.log_expit(scores[0] if label else -scores[0])
            wanted = [label]
        else:
            chance = special.softmax(scores)
            loss -= special.log_softmax(scores)[int(label)]
            wanted = numpy.arange(len(weights)) == label
        gradient += numpy.outer(chance - wanted, features)
    return [*gradient.ravel(), loss]


def expected_km(block, centres):
    squares = distance.cdist(block, centres, "sqeuclidean")
    table = numpy.zeros((len(centres), block.shape[1] + 1))
    for record, nearest in zip(block, squares.argmin(axis=1), strict=True):
        table[nearest] += [*record, 1]
    return [*table.ravel(), squares.min(axis=1).sum()]


@pytest.mark.parametrize("rows", [1, 2, 10])
@pytest.mark.parametrize("features", [1, 3, 50])
@BOTH
def test_agrees_with_the_definition(name, features, rows):
    data, matrix = make(name, features, rows, 300)
    found = results(name, data, matrix, block_records=100)
    assert len(found) == 3
    for number, result in enumerate(found):
        block = data[100 * number : 100 * (number + 1)]
        right = expected(name, block, matrix)
        assert result == pytest.approx(right, rel=1e-12, abs=1e-12)


@BOTH
@given(
    features=st.integers(1, 9),
    rows=st.integers(1, 3),
    count=st.integers(1, 60),
    block_records=st.integers(4, 20),
    cuts=runs.CUTS,
)
def test_cuts_change_nothing(name, features, rows, count, block_records, cuts):
    data, matrix = make(name, features, rows, count)
    more = {"block_records": block_records}
    whole = results(name, data, matrix, **more)
    assert (results(name, data, matrix, cuts, **more) == whole).all()
    # Also the last block, which is shorter.
    starts = range(0, count, block_records)
    for start, result in zip(starts, whole, strict=True):
        block = data[start : start + block_records]
        right = expected(name, block, matrix)
        assert result == pytest.approx(right, rel=1e-9, abs=1e-9)


@BOTH
def test_results_of_blocks_add_up(name):
    data, matrix = make(name, 20, 3, 2000)
    (whole,) = results(name, data, matrix, block_records=2000)
    parts = results(name, data, matrix, block_records=7)
    assert parts.sum(axis=0) == pytest.approx(whole)


@BOTH
def test_batches_of_a_block_add_up(name, monkeypatch):
    data, matrix = make(name, 20, 3, 1000)
    (whole,) = results(name, data, matrix, block_records=1000)
    monkeypatch.setattr(records, "_BATCH_NUMBERS", 21 * 30)
    (batched,) = results(name, data, matrix, block_records=1000)
    assert batched == pytest.approx(whole)


def test_gradient_is_the_slope_of_the_loss():
    data, weights = make(LR, 6, 4, 50)
    step = numpy.float32(2**-10)
    gradient = results(LR, data, weights)[0][:-1].reshape(weights.shape)
    for place in numpy.ndindex(weights.shape):
        losses = []
        for sign in (-1, 1):
            near = weights.copy()
            near[place] += sign * step
            losses.append(results(LR, data, near)[0][-1])
        # The weights are rounded.
        slope = (losses[1] - losses[0]) / (2 * step)
        assert slope == pytest.approx(gradient[place], rel=1e-3, abs=1e-3)


def test_lr_learns_to_separate():
    generator = numpy.random.default_rng(3)
    labels = generator.integers(0, 3, 500)
    middles = numpy.array([[0, 5], [5, 0], [-5, -5]])
    points = middles[labels] + generator.standard_normal((500, 2))
    data = numpy.column_stack([labels, points]).astype("<f4")
    weights = numpy.zeros((3, 2), "<f4")
    losses = []
    for _ in range(20):
        total = results(LR, data, weights).sum(axis=0)
        losses.append(total[-1])
        step = total[:-1].reshape(weights.shape) / len(data)
        weights = (weights - step).astype("<f4")
    assert losses == sorted(losses, reverse=True)
    assert ((points @ weights.T).argmax(axis=1) == labels).mean() > 0.99


def test_scores_of_any_size():
    data = numpy.array([[0, 1], [1, 1], [0, -1], [1, -1]], "<f4")
    weights = numpy.array([[1e5]], "<f4")
    (result,) = results(LR, data, weights)
    assert result.tolist() == [2, 2e5]
    weights = numpy.array([[1e30], [-1e30]], "<f4")
    (result,) = results(LR, data, weights)
    big = float(numpy.float32(1e30))
    assert result.tolist() == [2, -2, 4 * big]


def test_km_moves_centres_as_lloyd_does():
    generator = numpy.random.default_rng(4)
    middles = numpy.array([[0, 9], [9, 0], [-9, -9]])
    data = numpy.concatenate(
        [middle + generator.standard_normal((100, 2)) for middle in middles]
    ).astype("<f4")
    centres = data[[0, 1, 250]]
    inertias = []
    for _ in range(10):
        total = results(KM, data, centres).sum(axis=0)
        inertias.append(total[-1])
        table = total[:-1].reshape(3, 3)
        centres = (table[:, :2] / table[:, 2:]).astype("<f4")
    assert inertias == sorted(inertias, reverse=True)
    found = sorted(centres.tolist())
    assert found == [
        pytest.approx(each, abs=0.5) for each in sorted(middles.tolist())
    ]


def test_the_first_of_equal_centres_has_the_records():
    data = numpy.array([[1, 1], [3, 3], [2, 2]], "<f4")
    centres = numpy.array([[4, 4], [0, 0], [4, 4]], "<f4")
    (result,) = results(KM, data, centres)
    table = result[:-1].reshape(3, 3).tolist()
    assert table == [[5, 5, 2], [1, 1, 1], [0, 0, 0]]
    assert result[-1] == 2 + 2 + 8


def test_distances_that_are_small_far_from_zero():
    # The squares of these numbers have no room for the difference.
    data = numpy.array([[2**23], [2**23 + 1], [2**23 + 2]], "<f4")
    centres = data[[0, 2]]
    (result,) = results(KM, data, centres)
    assert result[-1] == 1
    assert result[[1, 3]].tolist() == [2, 1]


@BOTH
def test_what_is_no_number_stays_none(name):
    data, matrix = make(name, 3, 2, 8)
    data[1, -1] = numpy.nan
    data[2, -1] = numpy.inf
    found = results(name, data, matrix, block_records=4)
    assert numpy.isnan(found[0, -1])
    right = expected(name, data[4:], matrix)
    assert found[1] == pytest.approx(right)


def test_no_record_belongs_to_a_centre_at_infinity():
    data = numpy.array([[1, 2], [-5, 3], [numpy.inf, 1]], "<f4")
    centres = numpy.array(
        [[0, 0], [numpy.inf, 0], [-numpy.inf, numpy.inf]], "<f4"
    )
    (result,) = results(KM, data, centres)
    # What is infinitely far from all centres belongs to the first one; but
    # infinity less infinity is no number, and the first of these is the least.
    assert result[[2, 5, 8]].tolist() == [2, 1, 0]
    assert result[:2].tolist() == [-4, 5]
    (result,) = results(KM, data[:2], centres)
    assert result.tolist() == [-4, 5, 2, 0, 0, 0, 0, 0, 0, 39]


@pytest.mark.parametrize(
    ("rows", "label"),
    [(1, 2), (1, -1), (3, 3), (1, 0.5), (1, numpy.nan), (3, numpy.inf)],
)
def test_labels_that_are_wrong(rows, label):
    data, weights = make(LR, 3, rows, 10)
    data[7, 0] = label
    with pytest.raises(base.InvalidInput) as caught:
        results(LR, data, weights)
    assert caught.value.code == "INVALID_INPUT"
    assert f"from 0 to {max(1, rows - 1)}" in caught.value.message


@BOTH
def test_needs_its_argument(name):
    core = runs.load(name, **params_of(name, 3, 2))
    with pytest.raises(base.InvalidArgument) as caught:
        runs.process(core, bytes(runs.multiple_bytes(name, core)))
    assert caught.value.code == "INVALID_ARGUMENT"
    assert "argument 1, the " in caught.value.message
    assert "is missing" in caught.value.message


@pytest.mark.parametrize("length_bytes", [0, 23, 20, 28, 48])
@BOTH
def test_argument_of_a_wrong_size(name, length_bytes):
    data, matrix = make(name, 3, 2, 5)
    core = load(name, matrix)
    before = runs.run(core, data.tobytes())
    with pytest.raises(base.InvalidArgument) as caught:
        core.set_argument(1, memoryview(bytes(length_bytes)))
    assert f"{length_bytes} bytes; expected 24" in caught.value.message
    assert runs.run(core, data.tobytes()) == before


@pytest.mark.parametrize("number", [-1, 0, 2])
@BOTH
def test_argument_of_a_wrong_number(name, number):
    core = runs.load(name, **params_of(name, 3, 2))
    with pytest.raises(base.InvalidArgument) as caught:
        core.set_argument(number, memoryview(bytes(24)))
    assert caught.value.message.endswith(f"no argument {number}")


@BOTH
def test_the_last_argument_counts(name):
    data, matrix = make(name, 3, 2, 5)
    core = load(name, matrix * 7)
    core.set_argument(1, memoryview(matrix.tobytes()))
    output = runs.run(core, data.tobytes())
    assert output == results(name, data, matrix).tobytes()


@BOTH
def test_the_data_of_an_argument_is_copied(name):
    data, matrix = make(name, 3, 2, 5)
    core = runs.load(name, **params_of(name, 3, 2))
    passed = bytearray(matrix.tobytes())
    core.set_argument(1, memoryview(passed))
    passed[:] = bytes(len(passed))
    output = runs.run(core, data.tobytes())
    assert output == results(name, data, matrix).tobytes()


@BOTH
def test_refuses_an_incomplete_record(name):
    data, matrix = make(name, 3, 2, 5)
    with pytest.raises(base.InvalidInput) as caught:
        runs.process(load(name, matrix), data.tobytes()[:-4])
    assert "bytes into a record" in caught.value.message


@BOTH
@pytest.mark.parametrize(
    ("features", "rows", "block_records", "word"),
    [
        # More output than the window of a session holds.
        (1, 1024, 100, "'block_records' must be from "),
        # A block that no chunk holds.
        (65536, 1, 100, "'block_records' must be from 1 to 1"),
        (65536, 1024, 100, "'features' times '"),
    ],
)
def test_sizes_that_do_not_suit(name, features, rows, block_records, word):
    params = params_of(name, features, rows, block_records=block_records)
    with pytest.raises(base.InvalidParams) as caught:
        runs.load(name, **params)
    assert word in caught.value.message


@BOTH
def test_output_of_a_chunk_fits_the_window(name):
    chunk_bytes = 4 << 20
    numbers = [1, 2, 3, 100, 1023, 1024]
    for features, rows, block_records in itertools.product(
        [*numbers, 4096, 65536], numbers, [*numbers, 4096, 65536]
    ):
        params = params_of(name, features, rows, block_records=block_records)
        try:
            core = runs.load(name, **params)
        except base.InvalidParams:
            continue
        assert core.chunk_multiple_bytes <= chunk_bytes
        assert core.max_output_bytes(chunk_bytes) <= 8 * chunk_bytes


@BOTH
def test_cancel_ends_a_call_early(name):
    data, matrix = make(name, 3, 2, 5)
    core = load(name, matrix)
    core.cancel()
    assert runs.process(core, data.tobytes()) == b""
