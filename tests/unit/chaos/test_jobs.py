# SPDX-License-Identifier: Apache-2.0

"""What clients do is decided by a seed, and its results are right."""

from __future__ import annotations

import random

import numpy
import pytest

from fpgapool.accelerators import base as accelerators
from tests.chaos import jobs
from tests.harness import cloud as clouds

DOORS = 3


def some(seed: int, count: int) -> list[jobs.Job]:
    rng = random.Random(seed)
    return [jobs.draw(rng, DOORS) for _ in range(count)]


def test_a_seed_can_be_repeated() -> None:
    assert some(1, 50) == some(1, 50)
    assert some(1, 50) != some(2, 50)


def test_everything_is_done() -> None:
    drawn = some(3, 500)
    assert {job.conduct for job in drawn} == set(jobs.CONDUCTS)
    assert {job.door for job in drawn} == set(range(DOORS))
    assert {job.accelerator for job in drawn} == {
        *("copy", "aes", "fft", "sha"),
        *jobs.TENANT_BITSTREAMS,
    }


def test_long_streams_are_under_way_when_they_say_so() -> None:
    rng = random.Random(6)
    drawn = [jobs.draw_long(rng, DOORS) for _ in range(100)]
    assert {job.door for job in drawn} == set(range(DOORS))
    left_s = jobs.LONG_LEFT_BYTES / jobs.PACED_BYTES_PER_S
    assert left_s > 1.0
    assert jobs.LONG_LEFT_BYTES >= 2 * clouds.CHUNK_BYTES
    for job in drawn:
        assert job.stateless
        assert job.cut_bytes is not None
        assert 0 < job.cut_bytes < job.size_bytes - jobs.LONG_LEFT_BYTES


@pytest.mark.parametrize(
    "name", ["copy", "aes", "fft", "sha", "chaos-3", jobs.PACED]
)
def test_expected_output_is_that_of_the_core(name: str) -> None:
    drawn = [*some(4, 500), jobs.draw_long(random.Random(4), DOORS)]
    job = next(
        job
        for job in drawn
        if job.accelerator == name and job.size_bytes > 1000
    )
    data = job.data()
    assert len(data) == job.size_bytes
    params = {
        key: value.hex() if isinstance(value, bytes) else value
        for key, value in job.params.items()
    }
    core = name
    if name in (*jobs.TENANT_BITSTREAMS, jobs.PACED):
        core = "aes"
        params = {"key": jobs.TENANT_KEY, "iv": jobs.tenant_iv(name)}
    made = accelerators.load_core(core)(params)
    output = memoryview(bytearray(2 * len(data) + 64))
    count = made.process(memoryview(data), output, 0)
    count += made.finish(output[count:])
    assert bytes(output[:count]) == job.expected(data)


def test_numbers_are_equal_to_themselves() -> None:
    (job, *_) = [job for job in some(5, 500) if job.accelerator == "fft"]
    samples = numpy.frombuffer(job.data(), "<f4")
    assert numpy.array_equal(samples, samples)
    assert samples.any()
