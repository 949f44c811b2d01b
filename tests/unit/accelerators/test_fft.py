# SPDX-License-Identifier: Apache-2.0

"""Fourier transforms."""

import numpy
import pytest

from tests.unit.accelerators import runs


def frames(count, frame_samples):
    """Make frames of noise, in double precision."""
    generator = numpy.random.default_rng([count, frame_samples])
    parts = generator.standard_normal((2, count, frame_samples))
    return (parts[0] + 1j * parts[1]).astype(numpy.complex64)


def transformed(core, data):
    output = runs.run(core, data.astype("<c8").tobytes())
    return numpy.frombuffer(output, "<c8").reshape(data.shape)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("frame_samples", [1, 2, 3, 64, 97, 1000])
def test_agrees_with_another_library(frame_samples, inverse, norm):
    data = frames(5, frame_samples)
    core = runs.load(
        "fft", frame_samples=frame_samples, inverse=inverse, norm=norm
    )
    reference = numpy.fft.ifft if inverse else numpy.fft.fft
    expected = reference(data.astype(numpy.complex128), norm=norm)
    error = numpy.abs(transformed(core, data) - expected).max()
    assert error < 1e-5 * numpy.abs(expected).max()


@pytest.mark.parametrize(
    ("norm", "level"), [("backward", 8), ("ortho", 8**0.5), ("forward", 1)]
)
def test_factor_of_a_constant(norm, level):
    core = runs.load("fft", frame_samples=8, norm=norm)
    result = transformed(core, numpy.ones((1, 8)))
    assert result[0, 0] == pytest.approx(level)
    assert result[0, 1:] == pytest.approx(numpy.zeros(7), abs=1e-6)


def test_there_and_back():
    data = frames(3, 256)
    there = transformed(runs.load("fft", frame_samples=256), data)
    back = transformed(
        runs.load("fft", frame_samples=256, inverse=True), there
    )
    assert numpy.abs(back - data).max() < 1e-5


@pytest.mark.parametrize("odd", [numpy.nan, numpy.inf, 1j * -numpy.inf, 3e38])
@pytest.mark.parametrize("frame_samples", [1, 4, 6, 1009])
def test_a_frame_is_finite_or_no_number(frame_samples, odd):
    data = frames(3, frame_samples)
    data[1, 0] = odd
    if odd == 3e38:
        # Two of them are too much for the result.
        data[1, -1] = odd
    core = runs.load("fft", frame_samples=frame_samples)
    found = transformed(core, data)
    is_lost = odd != 3e38 or frame_samples > 1
    parts = found[1].view("<f4")
    assert (numpy.isnan if is_lost else numpy.isfinite)(parts).all()
    assert numpy.isfinite(found[[0, 2]]).all()


def test_the_largest_frame_is_a_megabyte():
    core = runs.load("fft", frame_samples=131072)
    assert core.chunk_multiple_bytes == 1 << 20
