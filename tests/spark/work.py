# SPDX-License-Identifier: Apache-2.0

"""What executors import: accelerators and records of the tests."""

from __future__ import annotations

import typing

import numpy

from fpgapool import spark

#: Samples of a frame, and its bytes.
SAMPLES = 64
FRAME_BYTES = 8 * SAMPLES


def frame(number: int) -> numpy.ndarray:
    """Return a frame of which the number can be seen."""
    samples = numpy.arange(SAMPLES) * (1 + number % 7) + 1j * number
    return samples.astype("<c8")


def transformed(number: int) -> numpy.ndarray:
    """Return the frame's Fourier transform."""
    return numpy.fft.fft(frame(number)).astype("<c8")


class Fft(spark.Accelerator):
    """Transforms frames."""

    id = "fft"
    params = {"frame_samples": SAMPLES}
    codec = spark.ArrayCodec("<c8", SAMPLES)
    chunk_multiple_bytes = FRAME_BYTES

    def call(self, element: typing.Any) -> typing.Any:
        return numpy.fft.fft(element).astype("<c8")


class Copy(spark.Accelerator):
    """Returns numbered records of any length."""

    id = "copy"
    codec = spark.BytesCodec()


class Numbers(spark.Accelerator):
    """Returns numbers."""

    id = "copy"
    codec = spark.ArrayCodec("<i8")
