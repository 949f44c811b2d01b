# SPDX-License-Identifier: Apache-2.0

"""What executors import: accelerators and records of the tests."""

from __future__ import annotations

import typing
from collections.abc import Iterable
from collections.abc import Iterator

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


def edges(
    numbers: Iterable[int],
) -> Iterator[tuple[int, int, bool]]:
    """Yield first and last number, and whether the others are between."""
    found = numpy.fromiter(numbers, "i8")
    ordered = bool((numpy.diff(found) == 1).all())
    yield int(found[0]), int(found[-1]), ordered


class Fft(spark.Accelerator):
    """Transforms frames."""

    id = "fft"
    params = {"frame_samples": SAMPLES}
    codec = spark.ArrayCodec("<c8", SAMPLES)

    def call(self, element: typing.Any) -> typing.Any:
        return numpy.fft.fft(element).astype("<c8")


class Inverse(Fft):
    """Transforms back."""

    params = {"frame_samples": SAMPLES, "inverse": True}


class Copy(spark.Accelerator):
    """Returns numbered records of any length."""

    id = "copy"
    codec = spark.BytesCodec()


class Numbers(spark.Accelerator):
    """Returns numbers."""

    id = "copy"
    codec = spark.ArrayCodec("<i8")


class Blocks(spark.Accelerator):
    """Returns large records."""

    id = "copy"
    codec = spark.ArrayCodec("u1", 1 << 20)


class Wrong(Numbers):
    """Lacks parameters."""

    id = "aes"


class Encrypt(spark.Accelerator):
    """Encrypts words, two in a row of a DataFrame."""

    id = "aes"
    params = {"key": bytes(16), "iv": bytes(16)}
    codec = spark.ArrayCodec("<i4", 2)


class Called(spark.Accelerator):
    """Is in no pool, and has no software core."""

    id = "adder"
    codec = spark.ArrayCodec("<i8")

    def call(self, element: typing.Any) -> typing.Any:
        return element + 1
