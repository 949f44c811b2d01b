# SPDX-License-Identifier: Apache-2.0

"""Fourier transforms: numpy computes them in double precision."""

from __future__ import annotations

import typing

import numpy as np

from demo import workload

#: Of the largest value of a frame; single precision has about 1e-7.
_TOLERANCE = 1e-5


def is_right(job: workload.Job) -> bool:
    """Transform a job's frames and compare them with its output.

    :param job: the job, done.
    :returns: whether they are equal, except for rounding.
    """
    if job.output.stat().st_size != job.size_bytes:
        return False
    frame_samples = typing.cast(int, job.params["frame_samples"])
    frames, found = (
        np.fromfile(path, "<c8").reshape(-1, frame_samples)
        for path in (job.source, job.output)
    )
    expected = np.fft.fft(frames.astype(np.complex128))
    limits = _TOLERANCE * np.abs(expected).max(axis=1, keepdims=True)
    # A wrong output may hold anything; NaN is within no limit.
    with np.errstate(all="ignore"):
        return bool((np.abs(found - expected) <= limits).all())
