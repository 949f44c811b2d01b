#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Fourier transforms: numpy computes them in double precision."""

from __future__ import annotations

import typing

import numpy as np

from fpgapool.demo import workload

#: Of the largest value of a frame; single precision has about 1e-7.
_TOLERANCE = 1e-5


def is_right(job: workload.Job) -> bool:
    """Transform a job's frames and compare them with its output.

    :param job: the job, done.
    :returns: whether they are equal, but for rounding.
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
    # A wrong output may hold anything; what is no number is within no limit.
    with np.errstate(all="ignore"):
        return bool((np.abs(found - expected) <= limits).all())
