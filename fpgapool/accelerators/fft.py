# SPDX-License-Identifier: Apache-2.0

"""Fourier transforms of frames of samples."""

from __future__ import annotations

import collections.abc
import typing

import numpy
from scipy import fft

from fpgapool.accelerators import base
from fpgapool.accelerators import parameters

#: Real and imaginary parts, single precision, little-endian.
SAMPLE_TYPE = numpy.dtype("<c8")
#: Limits a frame to one mebibyte.
MAX_FRAME_SAMPLES = (1 << 20) // SAMPLE_TYPE.itemsize
NORMS = ("backward", "ortho", "forward")


class FftCore(base.Core):
    """Transforms each frame of complex samples, stateless.

    If any number in a frame's result is not finite, all of them become NaN.

    :param params: ``frame_samples``: samples in a frame; ``inverse``: false
        by default; ``norm``: where the factor 1/N is applied: ``backward``
        (the default) in the inverse transform, ``forward`` in the forward
        transform, ``ortho`` as its square root in both.
    """

    # An impulse contains all frequencies equally.
    known_answers = (
        base.KnownAnswer(
            {"frame_samples": 4, "inverse": False, "norm": "backward"},
            numpy.array([1, 0, 0, 0], SAMPLE_TYPE).tobytes(),
            numpy.array([1, 1, 1, 1], SAMPLE_TYPE).tobytes(),
        ),
    )
    usual_params: typing.ClassVar = {"frame_samples": 1024}
    rounding = ("<f4", 1e-5)

    def __init__(self, params: collections.abc.Mapping[str, object]) -> None:
        values = parameters.checked(
            params,
            ("frame_samples",),
            {"inverse": False, "norm": "backward"},
        )
        self._frame_samples = parameters.integer(
            values, "frame_samples", 1, MAX_FRAME_SAMPLES
        )
        self._norm = parameters.choice(values, "norm", NORMS)
        inverse = parameters.flag(values, "inverse")
        self._transform = fft.ifft if inverse else fft.fft

    @property
    def chunk_multiple_bytes(self) -> int:
        """Length of a frame."""
        return self._frame_samples * SAMPLE_TYPE.itemsize

    def process(
        self, chunk_in: memoryview, chunk_out: memoryview, offset_bytes: int
    ) -> int:
        base.require_whole(len(chunk_in), self.chunk_multiple_bytes, "frame")
        shape = (-1, self._frame_samples)
        frames = numpy.frombuffer(chunk_in, SAMPLE_TYPE).reshape(shape)
        result = numpy.frombuffer(chunk_out[: len(chunk_in)], SAMPLE_TYPE)
        transformed = self._transform(frames, norm=self._norm)
        # How far an infinity spreads depends on the order of operations,
        # which differs between implementations.
        is_whole = numpy.isfinite(transformed).all(axis=1)
        transformed[~is_whole] = complex(numpy.nan, numpy.nan)
        result.reshape(shape)[:] = transformed
        return len(chunk_in)

    def max_output_bytes(self, input_bytes: int) -> int:
        return input_bytes
