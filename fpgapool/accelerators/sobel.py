# SPDX-License-Identifier: Apache-2.0

"""Edge detection in images: the Sobel operator."""

from __future__ import annotations

import collections.abc

import numpy
import numpy.typing

from fpgapool.accelerators import base

WIDTH_PIXELS = 640
HEIGHT_PIXELS = 480
#: One byte per pixel, row after row.
FRAME_BYTES = WIDTH_PIXELS * HEIGHT_PIXELS

_Sums = numpy.typing.NDArray[numpy.int16]


def _edge() -> tuple[bytes, bytes]:
    """Return a frame that is dark on the left, and its result."""
    frame = numpy.zeros((HEIGHT_PIXELS, WIDTH_PIXELS), numpy.uint8)
    frame[:, WIDTH_PIXELS // 2 :] = 50
    result = numpy.zeros_like(frame)
    # The columns on both sides of the edge; the weights are 1, 2 and 1.
    middle = WIDTH_PIXELS // 2
    result[1:-1, middle - 1 : middle + 1] = 4 * 50
    return frame.tobytes(), result.tobytes()


class SobelCore(base.Core):
    """Stateless; returns the gradient of each frame of 8-bit grey pixels.

    A pixel becomes ``min(255, |Gx| + |Gy|)``, or 0 at the border of a frame.
    There are no parameters.
    """

    known_answers = (base.KnownAnswer({}, *_edge()),)

    def __init__(self, params: collections.abc.Mapping[str, object]) -> None:
        base.refuse_unknown_params(params, ())

    def process(
        self, chunk_in: memoryview, chunk_out: memoryview, offset_bytes: int
    ) -> int:
        base.require_whole(len(chunk_in), FRAME_BYTES, "frame")
        shape = (-1, HEIGHT_PIXELS, WIDTH_PIXELS)
        frames = numpy.frombuffer(chunk_in, numpy.uint8).reshape(shape)
        result = numpy.frombuffer(chunk_out[: len(chunk_in)], numpy.uint8)
        for frame, edges in zip(frames, result.reshape(shape), strict=True):
            _detect(frame, edges)
        return len(chunk_in)


def _detect(
    frame: numpy.typing.NDArray[numpy.uint8],
    edges: numpy.typing.NDArray[numpy.uint8],
) -> None:
    pixels = frame.astype(numpy.int16)
    across = _smooth(pixels)
    along = _smooth(pixels.T).T
    sums = numpy.abs(across[:, 2:] - across[:, :-2])
    sums += numpy.abs(along[2:] - along[:-2])
    edges[:] = 0
    edges[1:-1, 1:-1] = numpy.minimum(sums, 255)


def _smooth(pixels: _Sums) -> _Sums:
    """Add twice each row and its two neighbours."""
    return pixels[:-2] + 2 * pixels[1:-1] + pixels[2:]
