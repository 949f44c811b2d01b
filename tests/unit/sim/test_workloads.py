# SPDX-License-Identifier: Apache-2.0

"""Synthetic workloads: their statistics, and what is refused."""

import collections
import itertools

import numpy as np
import pytest

from fpgapool.sim.inputs import distributions
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.inputs import workloads

MB = 1e6


def make_cluster(hosts: int = 20, boards: int = 10) -> scenarios.Cluster:
    return scenarios.Cluster(
        hosts=hosts,
        fpga_hosts=workloads.spread_boards(hosts, boards),
        accelerators={
            name: scenarios.AcceleratorProfile(peak)
            for name, peak in workloads.PEAKS_BYTES_PER_S.items()
        },
    )


def make_workload(**members: object) -> workloads.Workload:
    defaults = {
        "sizes": distributions.Exponential(20 * MB, 400 * MB),
        "load": 0.8,
        "accelerators": dict.fromkeys(workloads.PEAKS_BYTES_PER_S, 1.0),
    }
    if not members.keys() & {"jobs", "jobs_per_host", "duration_s"}:
        defaults["jobs"] = 20_000
    return workloads.Workload(**{**defaults, **members})  # type: ignore[arg-type]


def share(jobs: list[scenarios.JobSpec], hosts: tuple[int, ...]) -> float:
    return sum(job.host in hosts for job in jobs) / len(jobs)


def test_boards_are_spread_evenly() -> None:
    assert workloads.spread_boards(10, 4) == (0, 2, 5, 7)
    assert workloads.spread_boards(3, 3) == (0, 1, 2)
    for boards in (0, 4):
        with pytest.raises(ValueError, match="from 1 to 3"):
            workloads.spread_boards(3, boards)


@pytest.mark.parametrize(
    "members",
    [
        {"jobs_per_host": 40},
        {"jobs": 500, "bias": 3.0},
        {"duration_s": 5.0},
        {"tenants": [workloads.Tenant("a", 1.0, 0.5)], "jobs": 500},
    ],
)
def test_a_seed_gives_the_same_jobs(members: dict[str, object]) -> None:
    workload, cluster = make_workload(**members), make_cluster()
    first, again, other = (
        workloads.make_jobs(workload, cluster, seed) for seed in (5, 5, 6)
    )
    assert first == again
    assert first != other
    assert [job.id for job in first] == list(range(len(first)))
    for one, following in itertools.pairwise(first):
        assert one.arrival_s <= following.arrival_s


def test_other_boards_leave_sizes_and_kinds_as_they_are() -> None:
    few, many = (
        workloads.make_jobs(make_workload(), make_cluster(20, boards), 5)
        for boards in (5, 15)
    )
    for name in ("size_bytes", "accelerator", "host"):
        assert [getattr(job, name) for job in few] == [
            getattr(job, name) for job in many
        ]


def test_load_is_of_all_dma_pipes() -> None:
    """λ E[s] = r · boards · U, here with a tenth of sampling error."""
    cluster = make_cluster()
    workload = make_workload(load=1.3)
    assert workload.rate_per_s(cluster) * 400 * MB == pytest.approx(
        1.3 * 10 * 2.1e9
    )
    jobs = workloads.make_jobs(workload, cluster, 1)
    assert workloads.summary(cluster, jobs)["load"] == pytest.approx(
        1.3, rel=0.04
    )


def test_arrivals_are_a_poisson_process() -> None:
    """Gaps vary as much as they are long on average, and are independent."""
    cluster = make_cluster()
    jobs = workloads.make_jobs(make_workload(), cluster, 2)
    gaps_s = np.diff([0.0, *(job.arrival_s for job in jobs)])
    assert gaps_s.std() / gaps_s.mean() == pytest.approx(1, abs=0.03)
    assert abs(np.corrcoef(gaps_s[1:], gaps_s[:-1])[0, 1]) < 0.03


def test_each_host_has_its_own_process() -> None:
    cluster = make_cluster()
    jobs = workloads.make_jobs(make_workload(jobs_per_host=500), cluster, 3)
    counts = collections.Counter(job.host for job in jobs)
    assert counts == dict.fromkeys(range(20), 500)
    rate_per_s = make_workload().rate_per_s(cluster) / 20
    own = [job.arrival_s for job in jobs if job.host == 7]
    gaps_s = np.diff([0.0, *own])
    # Of 500 gaps: the mean is off by 4.5 % at one standard deviation.
    assert gaps_s.mean() == pytest.approx(1 / rate_per_s, rel=0.18)
    assert gaps_s.std() / gaps_s.mean() == pytest.approx(1, abs=0.2)


def test_duration() -> None:
    cluster = make_cluster()
    workload = make_workload(duration_s=200.0)
    jobs = workloads.make_jobs(workload, cluster, 4)
    assert jobs[-1].arrival_s <= 200
    expected = 200 * workload.rate_per_s(cluster)
    assert len(jobs) == pytest.approx(expected, abs=4 * expected**0.5)
    shorter = workloads.make_jobs(make_workload(duration_s=100.0), cluster, 4)
    assert [job.arrival_s for job in shorter] == [
        job.arrival_s for job in jobs[: len(shorter)]
    ]


def test_no_job_in_time() -> None:
    with pytest.raises(ValueError, match="no job arrives"):
        workloads.make_jobs(make_workload(duration_s=1e-9), make_cluster(), 0)


@pytest.mark.parametrize(
    "sizes",
    [
        distributions.Exponential(20 * MB, 400 * MB),
        distributions.BoundedPowerLaw(20 * MB, 10_000 * MB, 1.1),
        distributions.Lognormal(200 * MB, 1.0, 20 * MB, 10_000 * MB),
        distributions.Empirical([1 * MB, 2 * MB, 2 * MB, 50 * MB]),
    ],
    ids=lambda sizes: type(sizes).__name__,
)
def test_sizes_follow_their_distribution(
    sizes: distributions.SizeDistribution,
) -> None:
    """The largest distance of the shares (Kolmogorov and Smirnov) of 20 000
    jobs is below 1.63 / √20 000 in 99 % of all seeds."""
    jobs = workloads.make_jobs(make_workload(sizes=sizes), make_cluster(), 5)
    drawn = np.sort([job.size_bytes for job in jobs])
    assert np.all(drawn == np.rint(drawn))
    assert sizes.min_bytes <= drawn[0]
    assert drawn[-1] <= sizes.max_bytes
    at = np.unique(drawn)
    found = np.searchsorted(drawn, at, side="right") / drawn.size
    # Whole bytes: up to half a byte less.
    wanted = sizes.cdf(at + 0.5)
    assert np.abs(found - wanted).max() < 1.63 / drawn.size**0.5


def test_accelerators_by_weight() -> None:
    workload = make_workload(accelerators={"aes": 3.0, "sha": 1.0, "ec": 0.0})
    jobs = workloads.make_jobs(workload, make_cluster(), 6)
    counts = collections.Counter(job.accelerator for job in jobs)
    assert counts.keys() == {"aes", "sha"}
    assert counts["aes"] / len(jobs) == pytest.approx(0.75, abs=0.02)


@pytest.mark.parametrize("bias", [1.0, 4.0, 8.0])
def test_bias_to_hosts_with_a_board(bias: float) -> None:
    cluster = make_cluster()
    jobs = workloads.make_jobs(make_workload(bias=bias), cluster, 7)
    assert share(jobs, cluster.fpga_hosts) == pytest.approx(
        bias / (bias + 1), abs=0.02
    )


def test_host_weights() -> None:
    workload = make_workload(host_weights={0: 0.0, 1: 6.0})
    jobs = workloads.make_jobs(workload, make_cluster(), 8)
    counts = collections.Counter(job.host for job in jobs)
    assert 0 not in counts
    assert counts[1] / len(jobs) == pytest.approx(6 / 24, abs=0.02)


def test_jobs_per_host_are_a_mean_where_hosts_differ() -> None:
    cluster = make_cluster()
    workload = make_workload(jobs_per_host=50, bias=4.0)
    jobs = workloads.make_jobs(workload, cluster, 9)
    assert len(jobs) == 50 * 20
    assert share(jobs, cluster.fpga_hosts) == pytest.approx(0.8, abs=0.05)


def test_tenants_of_which_one_is_near_the_boards() -> None:
    cluster = make_cluster(20, 5)
    workload = make_workload(
        tenants=[
            workloads.Tenant("near", 3.0, 0.9),
            workloads.Tenant("far", 1.0, 0.0),
            workloads.Tenant("any", 1.0),
        ]
    )
    jobs = workloads.make_jobs(workload, cluster, 10)
    for name, part, near in (
        ("near", 0.6, 0.9),
        ("far", 0.2, 0.0),
        ("any", 0.2, 0.25),
    ):
        own = [job for job in jobs if job.tenant == name]
        assert len(own) / len(jobs) == pytest.approx(part, abs=0.02)
        assert share(own, cluster.fpga_hosts) == pytest.approx(near, abs=0.03)


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"jobs": 1, "duration_s": 1.0}, "one of jobs_per_host"),
        ({"jobs": 0}, "number of jobs"),
        ({"load": 0.0}, "load"),
        ({"load": float("nan")}, "load"),
        ({"bias": -1.0}, "bias"),
        ({"accelerators": {}}, "accelerators"),
        ({"accelerators": {"aes": 0.0}}, "accelerators"),
        ({"accelerators": {"aes": -1.0}}, "'aes'"),
        ({"tenants": [workloads.Tenant("a", float("nan"))]}, "'a'"),
        ({"tenants": [workloads.Tenant("a", 1.0, 1.5)]}, "board share"),
        ({"tenants": [workloads.Tenant("a")] * 2}, "duplicate tenant name"),
    ],
)
def test_workloads_that_cannot_be(
    members: dict[str, object], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        make_workload(**members)


@pytest.mark.parametrize(
    ("members", "boards", "reason"),
    [
        (
            {"host_weights": {20: 1.0}},
            10,
            "no host 20; hosts are numbered 0 to 19",
        ),
        ({"host_weights": {1: -1.0}}, 10, "host 1"),
        (
            {"host_weights": dict.fromkeys(range(20), 0.0)},
            10,
            "all hosts have weight 0",
        ),
        (
            {"tenants": [workloads.Tenant("a", 1.0, 0.5)]},
            20,
            "none has a weight above 0",
        ),
        ({"jobs": 10**12}, 10, "exceed the limit"),
        ({"duration_s": 1e300}, 10, "exceed the limit"),
    ],
)
def test_workloads_that_do_not_fit_the_cluster(
    members: dict[str, object], boards: int, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        workloads.make_jobs(
            make_workload(**members), make_cluster(20, boards), 0
        )
