# SPDX-License-Identifier: Apache-2.0

"""Digests: hashlib computes them over the input."""

from __future__ import annotations

import hashlib
import typing

from demo import workload


def is_right(job: workload.Job) -> bool:
    """Hash a job's input and compare that with its output.

    :param job: the job, done.
    :returns: whether they are equal.
    """
    algorithm = typing.cast(str, job.params["algorithm"])
    with open(job.source, "rb") as stream:
        digest = hashlib.file_digest(stream, algorithm).digest()
    return job.output.read_bytes() == digest
