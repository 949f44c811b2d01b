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

"""Digests: hashlib computes them over the input."""

from __future__ import annotations

import hashlib
import typing

from fpgapool.demo import workload


def is_right(job: workload.Job) -> bool:
    """Hash a job's input and compare that with its output.

    :param job: the job, done.
    :returns: whether they are equal.
    """
    algorithm = typing.cast(str, job.params["algorithm"])
    with open(job.source, "rb") as stream:
        digest = hashlib.file_digest(stream, algorithm).digest()
    return job.output.read_bytes() == digest
