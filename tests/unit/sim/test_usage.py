# SPDX-License-Identifier: Apache-2.0

"""Use of slots, pipes and energy, on schedules computed by hand."""

import msgspec
import pytest

from fpgapool.sim import simulation
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import metrics
from fpgapool.sim.outcomes import results
from fpgapool.sim.outcomes import usage


def make_scenario(
    jobs: list[scenarios.JobSpec], **members: object
) -> scenarios.Scenario:
    """Three hosts, the first one with a board of two slots."""
    profiles = {
        "aes": scenarios.AcceleratorProfile(1e9, 0.5),
        "sha": scenarios.AcceleratorProfile(0.5e9),
    }
    defaults = {
        "hosts": 3,
        "fpga_hosts": (0,),
        "accelerators": profiles,
        "slots_per_device": 2,
        "dma_bytes_per_s": 2e9,
        "nic_bytes_per_s": 1e9,
        "power": scenarios.Power(10.0, 30.0, 100.0),
    }
    return scenarios.Scenario(
        format=scenarios.FORMAT,
        cluster=scenarios.Cluster(**{**defaults, **members}),  # type: ignore[arg-type]
        strategies={"fifo": scenarios.StrategyOptions()},
        jobs=jobs,
    )


LOCAL = scenarios.JobSpec(0, 0, 2e9, 0.0, "aes", "a")
REMOTE = scenarios.JobSpec(1, 1, 1e9, 0.0, "sha", "b")
OUTSIDE = scenarios.JobSpec(2, None, 1e9, 0.0, "aes")


def test_by_hand() -> None:
    """Both slots from 0 to 2 s; 2 GB local, 1 GB from host 1."""
    scenario = make_scenario([LOCAL, REMOTE])
    outcomes = simulation.run(scenario, "fifo")
    assert [each.finish_s for each in outcomes] == pytest.approx([2, 2])
    details = results.evaluate(scenario, outcomes).details
    assert details.utilisation == results.Utilisation(
        slots=pytest.approx(1.0),
        dma=pytest.approx(3e9 / 4e9),
        nic_egress=pytest.approx(1 / 6),
        nic_ingress=pytest.approx(1 / 6),
    )
    # The board: 30 W for 2 s. Three hosts: 100 W for 2 s each.
    assert details.energy == results.Energy(
        pytest.approx(60), pytest.approx(600), pytest.approx(660)
    )
    assert [host.energy.total_j for host in details.hosts if host.energy] == [
        pytest.approx(260),
        pytest.approx(200),
        pytest.approx(200),
    ]
    sender = details.hosts[1]
    assert sender.utilisation == results.Utilisation(
        None, None, pytest.approx(0.5), 0.0
    )
    assert sender.submitted is not None
    assert sender.submitted.act_s == pytest.approx(2)
    assert details.hosts[2].submitted is None
    assert {name: each.dlr for name, each in details.tenants.items()} == {
        "a": 1.0,
        "b": 0.0,
    }


def _three_jobs_in_a_slot(warm_up_s: float) -> results.Result:
    """One slot: a's job from 0 to 2 s, b's to 3 s, and from 10 to 12 s.

    Alone they would take 2, 1 and 2 s.
    """
    later = scenarios.JobSpec(1, 0, 1e9, 0.5, "aes", "b")
    last = scenarios.JobSpec(2, 0, 1e9, 10.0, "sha", "b")
    scenario = make_scenario([LOCAL, later, last], slots_per_device=1)
    outcomes = simulation.run(scenario, "fifo")
    return results.evaluate(scenario, outcomes, warm_up_s)


def test_treatment_by_hand() -> None:
    found = _three_jobs_in_a_slot(0.0)
    assert found.slowdowns is not None
    assert found.slowdowns.tolist() == pytest.approx([1, 2.5, 1])
    assert found.programmings.tolist() == [1, 0, 1]
    assert found.details.treatment == metrics.Treatment(
        slowdown_mean=pytest.approx(1.5),
        slowdown_p95=pytest.approx(2.35),
        slowdown_p99=pytest.approx(2.47),
        slowdown_max=pytest.approx(2.5),
        programmings_per_job=pytest.approx(2 / 3),
        # Mean slowdowns of 1 and 1.75.
        jain=pytest.approx(2.75**2 / 2 / (1 + 1.75**2)),
    )


def test_metrics_leave_out_what_arrives_during_warm_up() -> None:
    found = _three_jobs_in_a_slot(0.5)
    assert found.measured.jobs == 2
    assert found.measured.act_s == pytest.approx(2.25)
    assert found.details.warm_up_jobs == 1
    assert found.details.tenants.keys() == {"b"}
    treatment = found.details.treatment
    assert treatment is not None
    assert treatment.slowdown_mean == pytest.approx(1.75)
    assert treatment.programmings_per_job == pytest.approx(0.5)
    assert treatment.jain is None
    # What slots do in that time counts.
    whole = _three_jobs_in_a_slot(0.0)
    assert found.details.utilisation == whole.details.utilisation
    assert found.details.energy == whole.details.energy
    assert len(found.outcome.jobs) == 3


def test_programmings_count_each_change_of_a_slot() -> None:
    jobs = [
        scenarios.JobSpec(at, 0, 1e6, float(at), name)
        for at, name in enumerate(("aes", "aes", "sha", "aes", "aes"))
    ]
    scenario = make_scenario(jobs, slots_per_device=1)
    for reconfiguration_s in (0.0, 0.25):
        cluster = msgspec.structs.replace(
            scenario.cluster, reconfiguration_s=reconfiguration_s
        )
        changed = msgspec.structs.replace(scenario, cluster=cluster)
        found = results.evaluate(changed, simulation.run(changed, "fifo"))
        assert found.programmings.tolist() == [1, 0, 1, 1, 0]


def test_a_board_with_half_of_its_slots_taken() -> None:
    """One slot for 2 s, then none until 4 s: 10 W, and 10 W more for 2 s."""
    late = scenarios.JobSpec(1, 0, 1.0, 4.0, "aes")
    scenario = make_scenario([LOCAL, late])
    found = results.evaluate(scenario, simulation.run(scenario, "fifo"))
    assert found.details.energy is not None
    assert found.details.energy.devices_j == pytest.approx(60)
    assert found.details.utilisation.slots == pytest.approx(0.25)


def test_what_comes_back() -> None:
    """Half of it, to host 1 and to the outside."""
    remote = scenarios.JobSpec(0, 1, 1e9, 0.0, "aes")
    scenario = make_scenario([remote, OUTSIDE])
    used = usage.measure(scenario, simulation.run(scenario, "fifo"))
    assert used.dma_bytes.tolist() == [2e9, 0, 0]
    assert used.egress_bytes.tolist() == [1e9, 1e9, 0]
    assert used.ingress_bytes.tolist() == [2e9, 0.5e9, 0]


def test_jobs_from_outside_are_a_group() -> None:
    scenario = make_scenario([LOCAL, OUTSIDE])
    found = results.evaluate(scenario, simulation.run(scenario, "fifo"))
    assert found.details.outside is not None
    assert found.details.outside.jobs == 1


def test_programming_takes_the_slot_too() -> None:
    """aes, aes, sha on one slot: it is programmed twice, 0.5 s each."""
    jobs = [
        scenarios.JobSpec(0, 0, 1e9, 0.0, "aes"),
        scenarios.JobSpec(1, 0, 1e9, 0.0, "aes"),
        scenarios.JobSpec(2, 0, 1e9, 0.0, "sha"),
    ]
    scenario = make_scenario(jobs, slots_per_device=1, reconfiguration_s=0.5)
    outcomes = simulation.run(scenario, "fifo")
    assert outcomes[2].finish_s == pytest.approx(5)
    used = usage.measure(scenario, outcomes)
    assert used.taken_s.tolist() == pytest.approx([5, 0, 0])


def test_no_power_no_energy() -> None:
    scenario = make_scenario([LOCAL], power=None)
    found = results.evaluate(scenario, simulation.run(scenario, "fifo"))
    assert found.details.energy is None


def test_the_platform_of_the_slot_decides_rate_and_power() -> None:
    """A job of 1 GB on each of two boards; one is twice as fast."""
    platforms = {"fast": scenarios.Platform(2e9, 50.0)}
    scenario = make_scenario(
        [
            scenarios.JobSpec(0, 0, 1e9, 0.0, "sha"),
            scenarios.JobSpec(1, 1, 1e9, 0.0, "sha"),
        ],
        fpga_hosts=(0, 1),
        slots_per_device=1,
        shape="slow",
        host_overrides={1: scenarios.HostOverride(shape="fast")},
        accelerators={
            "sha": scenarios.AcceleratorProfile(1e9, platforms=platforms)
        },
    )
    outcomes = simulation.run(scenario, "fifo")
    assert [one.finish_s for one in outcomes] == pytest.approx([1.0, 0.5])
    energy = results.evaluate(scenario, outcomes).details.energy
    assert energy is not None
    # Idle: 2 boards of 10 W for 1 s. The 20 W of the slow board for 1 s, and
    # 50 W on the fast one for 0.5 s.
    assert energy.devices_j == pytest.approx(20 + 20 + 25)
