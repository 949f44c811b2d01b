# SPDX-License-Identifier: Apache-2.0

"""Slots that go to other jobs at borders, on schedules computed by hand."""

import json
import pathlib
import typing

import numpy as np
import pytest
from oslo_config import cfg

from fpgapool.cmd import sim
from fpgapool.conf import scheduler
from fpgapool.sim import plots
from fpgapool.sim import simulation
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import metrics
from fpgapool.sim.outcomes import results
from fpgapool.sim.outcomes import schedules
from fpgapool.sim.outcomes import usage
from fpgapool.sim.plots import observation
from fpgapool.sim.plots import pictures
from tests.unit.sim import commands

RATE = 1_000_000_000
FINE = scenarios.StrategyOptions(preempt="fine", preempt_quantum_bytes=RATE)


def make_job(
    number: int, arrival_s: float, work_s: float, **members: typing.Any
) -> scenarios.JobSpec:
    """A local job of host 0 that a slot computes in so many seconds."""
    defaults = {"host": 0, "accelerator": "aes", "tenant": "t"}
    return scenarios.JobSpec(
        id=number,
        size_bytes=work_s * RATE,
        arrival_s=arrival_s,
        **{**defaults, **members},  # type: ignore[arg-type]
    )


def make_scenario(
    jobs: list[scenarios.JobSpec],
    options: scenarios.StrategyOptions = FINE,
    *,
    name: str = "fifo",
    max_priorities: dict[str, int] | None = None,
    **members: typing.Any,
) -> scenarios.Scenario:
    """Two hosts, the first one with a board of one slot."""
    defaults = {
        "hosts": 2,
        "fpga_hosts": (0,),
        "slots_per_device": 1,
        "accelerators": {
            "aes": scenarios.AcceleratorProfile(RATE),
            "sha": scenarios.AcceleratorProfile(RATE),
        },
        "power": scenarios.Power(10.0, 30.0, 100.0),
    }
    return scenarios.Scenario(
        format=scenarios.FORMAT,
        cluster=scenarios.Cluster(**{**defaults, **members}),  # type: ignore[arg-type]
        strategies={name: options},
        jobs=jobs,
        max_priorities=max_priorities or {},
    )


LOW = make_job(0, 0.0, 10.0)
HIGH = make_job(1, 2.5, 2.0, priority=1, tenant="t")


def finishes(outcomes: list[schedules.JobOutcome]) -> list[float]:
    return [pytest.approx(one.finish_s) for one in outcomes]


def test_a_job_leaves_at_a_border_and_goes_on() -> None:
    """It computes from 0 to 3 s, and from 5 to 12 s."""
    scenario = make_scenario([LOW, HIGH])
    low, high = simulation.run(scenario, "fifo")
    assert low.stays == (
        schedules.Stay(0, 0, 0.0, pytest.approx(3.0), 3 * RATE),
    )
    assert (low.start_s, low.finish_s) == (
        pytest.approx(5.0),
        pytest.approx(12.0),
    )
    assert (low.preemptions, high.preemptions) == (1, 0)
    assert (high.start_s, high.finish_s, high.stays) == (
        pytest.approx(3.0),
        pytest.approx(5.0),
        (),
    )
    found = results.evaluate(scenario, [low, high])
    assert found.measured.sar == pytest.approx((10 / 12 + 2 / 2.5) / 2)
    assert found.details.preemptions == 1
    assert found.details.utilisation.slots == pytest.approx(1.0)


def test_without_preemption_priorities_only_order() -> None:
    options = scenarios.StrategyOptions()
    jobs = [LOW, make_job(2, 1.0, 1.0), HIGH]
    outcomes = simulation.run(make_scenario(jobs, options), "fifo")
    assert finishes(outcomes) == [10.0, 13.0, 12.0]


def test_it_waits_at_its_old_place() -> None:
    """The third job, of its own priority, comes after it again."""
    jobs = [LOW, HIGH, make_job(2, 1.0, 1.0)]
    outcomes = simulation.run(make_scenario(jobs), "fifo")
    assert finishes(outcomes) == [12.0, 5.0, 13.0]


def test_deadlines_take_slots_with_edf_only() -> None:
    jobs = [LOW, make_job(1, 2.5, 2.0, deadline_s=3.0)]
    for name, expected in (("edf", [12.0, 5.0]), ("fifo", [10.0, 12.0])):
        outcomes = simulation.run(make_scenario(jobs, name=name), name)
        assert finishes(outcomes) == expected
        assert outcomes[1].state == ("done" if name == "edf" else "late")


@pytest.mark.parametrize(("gain", "preemptions"), [(1.0, 1), (3.0, 0)])
def test_a_gain_keeps_the_holder(gain: float, preemptions: int) -> None:
    """At 2 s: 8 s left in 18, and 2 s left in 2, which is 2.25 as much."""
    options = scenarios.StrategyOptions(
        preempt="fine", preempt_gain=gain, preempt_quantum_bytes=RATE
    )
    jobs = [
        make_job(0, 0.0, 10.0, deadline_s=20.0),
        make_job(1, 1.0, 2.0, deadline_s=3.0),
    ]
    scenario = make_scenario(jobs, options, name="hjf")
    assert simulation.run(scenario, "hjf")[0].preemptions == preemptions


def test_programming_again_takes_time_and_makes_chunks_longer() -> None:
    """0.5 s each time, so that a chunk takes 5 s: the border is at 5.5 s."""
    jobs = [LOW, make_job(1, 1.0, 2.0, accelerator="sha", priority=1)]
    scenario = make_scenario(jobs, reconfiguration_s=0.5)
    low, high = simulation.run(scenario, "fifo")
    assert low.stays[0].finish_s == pytest.approx(5.5)
    assert (high.start_s, high.finish_s) == (
        pytest.approx(6.0),
        pytest.approx(8.0),
    )
    assert (low.start_s, low.finish_s) == (
        pytest.approx(8.5),
        pytest.approx(13.5),
    )
    used = usage.measure(scenario, [low, high])
    assert used.taken_s.tolist() == pytest.approx([13.5, 0.0])


def test_the_same_accelerator_is_not_programmed_again() -> None:
    scenario = make_scenario([LOW, HIGH], reconfiguration_s=0.1)
    assert finishes(simulation.run(scenario, "fifo")) == [12.1, 5.1]


def test_what_has_to_leave_goes_on_where_a_slot_is_idle() -> None:
    """The other host's slot is busy up to 3.5 s; its bytes are remote then."""
    jobs = [LOW, HIGH, make_job(2, 0.1, 3.4, host=1, priority=1)]
    scenario = make_scenario(jobs, fpga_hosts=(0, 1))
    low, *_ = outcomes = simulation.run(scenario, "fifo")
    assert [(one.host, one.done_bytes) for one in low.stays] == [(0, 3 * RATE)]
    assert (low.host, low.local) == (1, False)
    assert low.start_s == pytest.approx(3.5)
    found = results.evaluate(scenario, outcomes)
    assert found.measured.dlr == pytest.approx(8.4 / 15.4)
    used = usage.measure(scenario, outcomes)
    assert used.dma_bytes.tolist() == [5 * RATE, 10.4 * RATE]
    assert used.ingress_bytes.tolist() == [0, 7 * RATE]


@pytest.mark.parametrize(
    ("fair", "highest", "preemptions"),
    [(True, 5, 1), (True, 0, 0), (False, 5, 0)],
)
def test_other_tenants_need_shares_and_a_priority_that_counts(
    fair: bool, highest: int, preemptions: int
) -> None:
    """The first tenant has used up its share with its first claim."""
    jobs = [LOW, make_job(1, 2.5, 2.0, priority=9, tenant="u")]
    scenario = make_scenario(jobs, max_priorities={"u": highest})
    outcomes = simulation.run(scenario, "fifo", fair_share=fair)
    assert outcomes[0].preemptions == preemptions


@pytest.mark.parametrize("name", ["era", "auto"])
def test_a_strategy_with_rates_lets_jobs_leave_too(name: str) -> None:
    scenario = make_scenario([LOW, HIGH], name=name)
    low, high = simulation.run(scenario, name)
    assert (low.preemptions, high.finish_s) == (1, pytest.approx(5.0))


def test_the_default_quantum_is_that_of_the_conductor() -> None:
    conf = cfg.ConfigOpts()
    scheduler.OPTIONS.register(conf)
    default_bytes = conf.scheduler.preempt_quantum_bytes
    assert default_bytes == simulation.QUANTUM_BYTES
    options = scenarios.StrategyOptions(preempt="fine")
    low, _ = simulation.run(make_scenario([LOW, HIGH], options), "fifo")
    [stay] = low.stays
    assert stay.done_bytes % default_bytes == 0
    assert 2.5 <= stay.finish_s <= 2.5 + default_bytes / RATE


def test_energy_goes_to_jobs_and_tenants(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """20 W above the idle board, 10 s for one tenant, 2 s for the other."""
    document = commands.make_scenario(
        strategies={
            "fifo": {"preempt": "fine", "preempt_quantum_bytes": RATE},
            "edf": {},
        },
        jobs=[
            commands.make_job(0, size_bytes=10e9, tenant="a"),
            commands.make_job(
                1, size_bytes=2e9, arrival_s=2.5, priority=1, tenant="a"
            ),
            commands.make_job(2, size_bytes=1e9, arrival_s=12.0),
        ],
    )
    document["cluster"] |= {
        "fpga_hosts": [0],
        "slots_per_device": 1,
        "accelerators": {"aes": {"peak_bytes_per_s": 1e9}},
        "power": {"device_idle_w": 10, "device_active_w": 30, "host_w": 100},
    }
    path = commands.write(tmp_path / "s.json", document)
    output = tmp_path / "o.json"
    assert sim.main(["run", str(path), "--output", str(output)]) == 0
    content = json.loads(output.read_text())
    jobs = content["results"]["fifo"]["jobs"]
    assert [job["energy_j"] for job in jobs] == pytest.approx([200, 40, 20])
    assert [job.get("preemptions", 0) for job in jobs] == [1, 0, 0]
    assert jobs[0]["stays"] == [
        {
            "host": 0,
            "slot": 0,
            "start_s": 0.0,
            "finish_s": pytest.approx(3.0),
            "done_bytes": 3 * RATE,
        }
    ]
    details = content["details"]["fifo"]
    assert details["preemptions"] == 1
    assert "preemptions" not in content["details"]["edf"]
    assert details["tenants_j"] == {
        "": pytest.approx(20),
        "a": pytest.approx(240),
    }
    idle_j = 13 * (10 + 3 * 100)
    assert details["energy"]["total_j"] == pytest.approx(idle_j + 260)
    said = capsys.readouterr().out
    assert "preemptions" in said
    [row] = [
        line for line in said.splitlines() if "kJ" in line and "ed" in line
    ]
    assert row.split()[-1] == "0"


def test_pictures_have_a_bar_for_each_stay(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = make_scenario([LOW, HIGH])
    observer = observation.Observer(scenario, bins=2)
    outcomes = simulation.run(scenario, "fifo", watcher=observer)
    drawn: list[tuple[list[metrics.JobResult], str]] = []
    monkeypatch.setattr(
        plots,
        "draw_timeline",
        lambda jobs, _path, *, subtitle, **_: drawn.append((jobs, subtitle)),
    )
    for name in ("draw_completions", "draw_utilisation"):
        monkeypatch.setattr(plots, name, lambda *_, **__: None)
    found = {"fifo": results.evaluate(scenario, outcomes)}
    names = pictures.Files(tmp_path)
    pictures.draw(scenario, found, {"fifo": observer}, names)
    [(jobs, subtitle)] = drawn
    assert [(job.job_id, job.arrival_s, job.start_s) for job in jobs] == [
        ("0", 0.0, 0.0),
        ("0", pytest.approx(3.0), pytest.approx(5.0)),
        ("1", 2.5, pytest.approx(3.0)),
    ]
    assert subtitle.endswith("2 jobs, 1 preemptions")
    course = observer.course()
    lengths_s = np.full(course.busy_slots.size, course.bin_s)
    lengths_s[-1] = 12.0 - course.bin_s * (lengths_s.size - 1)
    assert course.local_bytes_per_s @ lengths_s == pytest.approx(12 * RATE)


# -- files -----------------------------------------------------------------


BAD: dict[str, tuple[dict[str, typing.Any], str, str]] = {
    "quantum without preempt": (
        {"strategies": {"fifo": {"preempt_quantum_bytes": 1}}},
        "strategies.fifo.preempt_quantum_bytes",
        "requires preempt: fine",
    ),
    "no quantum": (
        {
            "strategies": {
                "fifo": {"preempt": "fine", "preempt_quantum_bytes": 0}
            }
        },
        "strategies.fifo.preempt_quantum_bytes",
        ">= 1",
    ),
    "half a byte": (
        {
            "strategies": {
                "fifo": {"preempt": "fine", "preempt_quantum_bytes": 1.5}
            }
        },
        "strategies.fifo.preempt_quantum_bytes",
        "expected `int | null`",
    ),
    "unknown": (
        {"strategies": {"fifo": {"preempt": "coarse"}}},
        "strategies.fifo.preempt",
        "unknown value 'coarse'",
    ),
    "a high priority": (
        {"jobs": [commands.make_job(0, priority=1001)]},
        "jobs[0].priority",
        "<= 1000",
    ),
    "priority in words": (
        {"jobs": [commands.make_job(0, priority="high")]},
        "jobs[0].priority",
        "expected `int`",
    ),
    "a negative limit": (
        {"max_priorities": {"a": -1}},
        "max_priorities.a",
        ">= 0",
    ),
}


@pytest.mark.parametrize(
    ("members", "place", "reason"), BAD.values(), ids=BAD.keys()
)
def test_bad_values_are_named(
    members: dict[str, typing.Any],
    place: str,
    reason: str,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    scenario = commands.make_scenario(**members)
    said = commands.complaint(capsys, tmp_path, scenario)
    assert said.startswith(f"{place}: "), said
    assert reason in said


def test_chunks_on_the_way_do_not_change_hands(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = commands.make_scenario(strategies={"fifo": {"preempt": "fine"}})
    said = commands.complaint(capsys, tmp_path, document, "--engine=chunk")
    assert (
        said == "strategies.fifo.preempt: preemption requires --engine fluid"
    )
