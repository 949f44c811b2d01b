# SPDX-License-Identifier: Apache-2.0

"""Edges of images."""

import numpy
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
from scipy import ndimage

from fpgapool.accelerators import base
from fpgapool.accelerators import sobel
from tests.unit.accelerators import runs

WIDTH, HEIGHT = 640, 480
FRAME_BYTES = WIDTH * HEIGHT


def frames(seed, count):
    """Make frames of noise, of all brightnesses and contrasts."""
    generator = numpy.random.default_rng(seed)
    noise = generator.integers(0, 256, (count, HEIGHT, WIDTH))
    contrast = generator.random((count, 1, 1))
    return (noise * contrast).astype(numpy.uint8)


def expected(data):
    """Compute the edges with another library, in floating point."""
    sums = [
        sum(numpy.abs(ndimage.sobel(frame, axis)) for axis in (0, 1))
        for frame in data.astype(float)
    ]
    edges = numpy.minimum(255, sums).astype(numpy.uint8)
    edges[:, [0, -1], :] = edges[:, :, [0, -1]] = 0
    return edges


def test_agrees_with_another_library():
    data = frames(1, 4)
    output = runs.run(runs.load("sobel"), data.tobytes())
    assert output == expected(data).tobytes()


def test_agrees_with_the_definition():
    data = frames(2, 1)
    edges = numpy.frombuffer(
        runs.run(runs.load("sobel"), data.tobytes()), numpy.uint8
    ).reshape(HEIGHT, WIDTH)
    weights = {-1: 1, 0: 2, 1: 1}
    for y, x in [(1, 1), (1, 638), (478, 1), (478, 638), (240, 320)]:
        pixel = {
            (dy, dx): int(data[0, y + dy, x + dx])
            for dy in weights
            for dx in weights
        }
        g_x = sum(w * (pixel[d, 1] - pixel[d, -1]) for d, w in weights.items())
        g_y = sum(w * (pixel[1, d] - pixel[-1, d]) for d, w in weights.items())
        assert edges[y, x] == min(255, abs(g_x) + abs(g_y))


def test_largest_difference_is_cut_off():
    data = numpy.zeros((HEIGHT, WIDTH), numpy.uint8)
    data[:, 320:] = 255
    edges = runs.run(runs.load("sobel"), data.tobytes())
    assert set(edges) == {0, 255}
    assert edges.count(255) == 2 * (HEIGHT - 2)


@given(
    seed=st.integers(0, 1 << 32),
    count=st.integers(1, 5),
    cuts=st.lists(st.integers(0, 5), max_size=3),
)
@settings(max_examples=10)
def test_cuts_change_nothing(seed, count, cuts):
    data = frames(seed, count)
    core = runs.load("sobel")
    assert runs.multiple_bytes("sobel", core) == FRAME_BYTES
    output = runs.run(core, data.tobytes(), cuts, FRAME_BYTES)
    assert output == expected(data).tobytes()


def test_frames_do_not_touch_each_other():
    # The last row of one frame lies before the first row of the next one.
    data = numpy.zeros((2, HEIGHT, WIDTH), numpy.uint8)
    data[1] = 255
    assert not any(runs.run(runs.load("sobel"), data.tobytes()))


@pytest.mark.parametrize("length_bytes", [1, FRAME_BYTES - 1])
def test_refuses_an_incomplete_frame(length_bytes):
    with pytest.raises(base.InvalidInput) as caught:
        runs.process(runs.load("sobel"), bytes(FRAME_BYTES + length_bytes))
    assert caught.value.code == "INVALID_INPUT"
    assert f"{length_bytes} bytes into a frame" in caught.value.message


def test_profile_and_core_have_one_frame():
    assert base.load_profile("sobel").chunk_multiple_bytes == FRAME_BYTES
    assert sobel.FRAME_BYTES == FRAME_BYTES
