# SPDX-License-Identifier: Apache-2.0

"""The jobs of both acts: drawn from a seed, and as they are asked for."""

import collections
import pathlib

import numpy as np
import pytest

from demo import mixture
from demo import workload

HOSTS = ["a", "b", "c", "d", "e"]


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def draw(count: int = 100, seed: int = 1) -> list[mixture.Request]:
    return mixture.draw_requests(HOSTS, count, 10**8, 4.0, rng(seed))


def test_sizes_differ_and_sum_up() -> None:
    sizes_bytes = workload.draw_sizes_bytes(40, 10**8, rng())
    assert sizes_bytes == workload.draw_sizes_bytes(40, 10**8, rng())
    assert sizes_bytes != workload.draw_sizes_bytes(40, 10**8, rng(2))
    assert sum(sizes_bytes) == pytest.approx(10**8, rel=1e-3)
    assert len(set(sizes_bytes)) > 20


def test_sizes_are_spread_exponentially() -> None:
    sizes_bytes = workload.draw_sizes_bytes(1000, 10**9, rng())
    median, large = np.percentile(sizes_bytes, (50, 90))
    smallest = min(sizes_bytes)
    # Above the smallest, 90 % of an exponential distribution are below
    # ln 10 / ln 2 times the median.
    assert (large - smallest) / (median - smallest) == pytest.approx(
        np.log(10) / np.log(2), rel=0.02
    )


def test_files_come_from_all_hosts(tmp_path: pathlib.Path) -> None:
    jobs = workload.make_jobs(
        tmp_path, ["a", "b"], [10, 5_000_000, 1], [], rng()
    )
    assert [job.host for job in jobs] == ["a", "b", "a"]
    assert [job.source.stat().st_size for job in jobs] == [10, 5_000_000, 1]
    assert len({job.params["key"] for job in jobs}) == 3
    assert len({job.params["iv"] for job in jobs}) == 3
    assert {job.arrival_s for job in jobs} == {0.0}
    assert "key" not in repr(jobs[0])


def test_requests_depend_on_the_seed_only() -> None:
    assert draw() == draw()
    assert draw() != draw(seed=2)


def test_every_host_asks_for_everything_equally_often() -> None:
    counts = collections.Counter(
        (request.host, request.kind.accelerator) for request in draw(100)
    )
    assert len(counts) == len(HOSTS) * 5
    assert set(counts.values()) == {4}


def test_no_host_has_all_large_requests() -> None:
    sums = collections.Counter()
    for request in draw(150):
        sums[request.host] += request.size_bytes
    mean_bytes = sum(sums.values()) / len(HOSTS)
    for size_bytes in sums.values():
        assert size_bytes == pytest.approx(mean_bytes, rel=0.3)


def test_requests_are_whole_and_in_order() -> None:
    requests = draw(60)
    assert len(requests) == 60
    for request in requests:
        assert request.size_bytes > 0
        assert request.size_bytes % request.kind.unit_bytes == 0
        assert 0 <= request.arrival_s <= 4.0
    arrivals_s = [request.arrival_s for request in requests]
    assert arrivals_s == sorted(arrivals_s)
    total_bytes = sum(request.size_bytes for request in requests)
    assert total_bytes == pytest.approx(10**8, rel=0.02)


def test_jobs_are_what_was_asked_for(tmp_path: pathlib.Path) -> None:
    requests = mixture.draw_requests(HOSTS, 10, 10**6, 4.0, rng())
    jobs = mixture.make_jobs(tmp_path, requests, rng())
    for job, request in zip(jobs, requests, strict=True):
        assert job.host == request.host
        assert job.accelerator == request.kind.accelerator
        assert job.arrival_s == request.arrival_s
        assert job.source.stat().st_size == job.size_bytes
        assert job.size_bytes == request.size_bytes
        if request.kind.has_numbers:
            assert np.isfinite(np.fromfile(job.source, "<f4")).all()
    assert len({job.output for job in jobs}) == len(jobs)
