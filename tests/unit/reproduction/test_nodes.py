# SPDX-License-Identifier: Apache-2.0

"""Hosts with cores: deadlines, slots that change hands, kills and energy."""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
import typing
from collections.abc import Callable
from collections.abc import Sequence

import msgspec
import pytest

from fpgapool import strategies
from fpgapool.core import strategy as strategy_api
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.inputs import scenario_files
from fpgapool.sim.outcomes import results
from fpgapool.sim.outcomes import schedules
from reproduction import __main__ as reproduction
from reproduction.models import nodes
from tests.unit.reproduction import commands

#: Bytes of a chunk: 60 s in a slot, 150 s on a core.
CHUNK = 60e6
PROFILE: dict[str, typing.Any] = {
    "peak_bytes_per_s": 1e6,
    "cpu_bytes_per_s": 0.4e6,
    "quantum_bytes": CHUNK,
}
FINE = scenarios.StrategyOptions(preempt="fine")


def make_job(
    number: int,
    chunks: float,
    deadline_s: float | None = None,
    **members: object,
) -> dict[str, typing.Any]:
    job = {
        "id": number,
        "host": 0,
        "size_bytes": chunks * CHUNK,
        "arrival_s": 0.0,
        "accelerator": "sobel",
        "deadline_s": deadline_s,
    }
    return {**job, **members}


def make_document(
    *jobs: dict[str, typing.Any], **cluster: object
) -> dict[str, typing.Any]:
    """A scenario file: a host with two cores and a board of one slot."""
    defaults = {
        "hosts": 1,
        "fpga_hosts": [0],
        "slots_per_device": 1,
        "accelerators": {"sobel": PROFILE},
        "cores_per_host": 2,
        "power": {
            "host_w": 40,
            "device_idle_w": 20,
            "device_active_w": 25,
            "core_active_w": 15,
        },
    }
    return {
        "format": "fpgapool-scenario/1",
        "cluster": {**defaults, **cluster},
        "strategies": {"hjf": {"preempt": "fine"}},
        "jobs": list(jobs),
    }


@dataclasses.dataclass
class Recorder:
    """A strategy that records what it chose."""

    strategy: strategy_api.Strategy
    chosen: list[tuple[float, int]] = dataclasses.field(default_factory=list)

    def most_urgent(
        self, contenders: Sequence[strategy_api.Contender], now: float
    ) -> strategy_api.Contender:
        assert contenders
        ids = [each.job.id for each in contenders]
        assert ids == sorted(ids)
        found = self.strategy.most_urgent(contenders, now)
        self.chosen.append((now, found.job.id))
        return found


def simulate(
    document: dict[str, typing.Any],
    tmp_path: pathlib.Path,
    name: str = "hjf",
    options: scenarios.StrategyOptions = FINE,
    rule: str = "hjf",
) -> tuple[results.Result, list[tuple[float, int]]]:
    """Run a strategy, and return what it chose, too."""
    path = commands.write(tmp_path / "s.json", document)
    scenario = scenario_files.read(path)
    given = {"rule": rule} if name == "hjf" else {}
    recorder = Recorder(getattr(strategies, name)(given, 0))
    outcomes = nodes.run(
        scenario, typing.cast(strategy_api.Strategy, recorder), options
    )
    return results.evaluate(scenario, outcomes), recorder.chosen


def finishes(found: results.Result) -> dict[int, float]:
    return {job.id: job.finish_s for job in found.outcome.jobs}


def core_of(job: schedules.JobOutcome) -> schedules.OnCore:
    assert job.core is not None
    return job.core


EXAMPLE = make_document(make_job(0, 4, 500.0), make_job(1, 4, 300.0))


# -- the worked example ----------------------------------------------------


def test_the_platform_cpu_says_rate_and_power_of_a_core(
    tmp_path: pathlib.Path,
) -> None:
    """Like the example, with 9 W in place of 15 W for each core."""
    cpu = {"peak_bytes_per_s": 0.4e6, "active_w": 9}
    profile = {**PROFILE, "cpu_bytes_per_s": None, "platforms": {"cpu": cpu}}
    document = make_document(
        make_job(0, 4, 500.0),
        make_job(1, 4, 300.0),
        accelerators={"sobel": profile},
    )
    found, _ = simulate(document, tmp_path)
    assert finishes(found) == pytest.approx({0: 369.6, 1: 276.0})
    energy = found.details.energy
    assert energy is not None
    assert energy.cores_j == pytest.approx(9 * (369.6 + 276))
    assert found.outcome.jobs[0].energy_j == pytest.approx(
        9 * 369.6 + 5 * (60 + 369.6 - 276)
    )


def test_hjf_changes_its_mind_at_180_s(tmp_path: pathlib.Path) -> None:
    found, chosen = simulate(EXAMPLE, tmp_path)
    # After the two cores: B until its stress is below A's, then A, then B.
    assert [job for _, job in chosen[2:]] == [1, 1, 1, 0, 1, 0, 0]
    assert [time for time, _ in chosen[2:]] == pytest.approx(
        [0, 60, 120, 180, 240, 276, 336]
    )
    assert finishes(found) == pytest.approx({0: 369.6, 1: 276.0})
    assert [job.state for job in found.outcome.jobs] == ["done", "done"]
    # B left at 180 s, A at 240 s.
    assert [job.preemptions for job in found.outcome.jobs] == [1, 1]
    assert found.details.preemptions == 2
    energy = found.details.energy
    assert energy is not None
    assert energy.total_j == pytest.approx(33_708)
    assert energy.hosts_j == pytest.approx(40 * 369.6)
    assert energy.devices_j == pytest.approx(25 * 369.6)
    assert energy.cores_j == pytest.approx(15 * (369.6 + 276))
    assert [job.energy_j for job in found.outcome.jobs] == pytest.approx(
        [
            15 * 369.6 + 5 * (60 + 369.6 - 276),
            15 * 276 + 5 * (180 + 276 - 240),
        ]
    )
    assert found.outcome.metrics["sla"] == 1.0
    assert found.outcome.metrics["energy_j_per_sla"] == pytest.approx(16_854)
    assert found.outcome.metrics["frames_per_s"] == pytest.approx(
        8 * 1500 / 369.6
    )


def test_edf_does_not(tmp_path: pathlib.Path) -> None:
    found, _ = simulate(EXAMPLE, tmp_path, "edf")
    assert finishes(found) == pytest.approx({0: 384.0, 1: 240.0})
    assert found.details.energy is not None
    assert found.details.energy.total_j == pytest.approx(34_320)


@pytest.mark.parametrize(
    ("action", "end_s", "energy_j", "had_slot"),
    [
        ("kill", 200.0, 16_000.0, True),
        (None, 200.0, 16_000.0, True),
        ("early", 0.0, 0.0, False),
        ("continue", 240.0, 19_200.0, True),
    ],
)
def test_a_deadline_that_no_slot_can_keep(
    action: typing.Literal["kill", "early", "continue"] | None,
    end_s: float,
    energy_j: float,
    had_slot: bool,
    tmp_path: pathlib.Path,
) -> None:
    options = msgspec.structs.replace(FINE, deadline_action=action)
    found, _ = simulate(
        make_document(make_job(0, 4, 200.0)), tmp_path, options=options
    )
    [job] = found.outcome.jobs
    assert job.state == ("late" if action == "continue" else "killed")
    assert job.finish_s == pytest.approx(end_s)
    assert (job.host, job.slot) == ((0, 0) if had_slot else (None, None))
    assert found.details.energy is not None
    assert found.details.energy.total_j == pytest.approx(energy_j)
    # All missed: no energy per kept deadline.
    assert found.outcome.metrics["energy_j_per_sla"] is None
    assert found.outcome.metrics["sla"] == 0.0
    assert found.outcome.metrics["wasted_frames"] == pytest.approx(
        1500 * end_s / 60
    )


# -- slots and cores -------------------------------------------------------


def test_coarse_slots_stay_to_the_end(tmp_path: pathlib.Path) -> None:
    coarse = scenarios.StrategyOptions()
    found, chosen = simulate(EXAMPLE, tmp_path, options=coarse)
    assert [job for _, job in chosen[2:]] == [1, 0]
    assert finishes(found) == pytest.approx(
        {1: 240.0, 0: 240 + 60 * (4 - 240 / 150)}
    )


@pytest.mark.parametrize("towards", [-math.inf, 240.0, math.inf])
def test_an_end_and_an_arrival_that_fall_together_are_one_instant(
    tmp_path: pathlib.Path, towards: float
) -> None:
    document = make_document(
        make_job(0, 4, 250.0),
        make_job(1, 4, 2000.0),
        make_job(2, 4, 300.0, arrival_s=math.nextafter(240.0, towards)),
    )
    found, _ = simulate(
        document, tmp_path, options=scenarios.StrategyOptions()
    )
    # The slot is free at 240 s; job 2 is more urgent than job 1.
    assert finishes(found)[2] == pytest.approx(480.0)


def test_attaching_takes_time_without_progress(tmp_path: pathlib.Path) -> None:
    document = make_document(
        make_job(0, 4, 500.0), make_job(1, 4, 300.0), attach_s=1.0
    )
    found, chosen = simulate(document, tmp_path)
    # The holder stays at no cost; the core is idle while a slot is attached.
    assert [time for time, _ in chosen[2:]] == pytest.approx(
        [0, 61, 121, 181, 242, 278.6, 339.6]
    )
    assert [job for _, job in chosen[2:]] == [1, 1, 1, 0, 1, 0, 0]
    a, b = (core_of(job) for job in found.outcome.jobs)
    # B's last chunk: 61 s on its core, then the slot again.
    assert finishes(found)[1] == pytest.approx(242 + 1 + 60 * (1 - 61 / 150))
    assert b.slot_s == pytest.approx(181 + 36.6)
    assert a.done_bytes == b.done_bytes == 4 * CHUNK


def test_a_job_needs_a_core(tmp_path: pathlib.Path) -> None:
    document = make_document(
        make_job(0, 1, 1000.0),
        make_job(1, 2, 900.0, arrival_s=1.0),
        make_job(2, 1, 300.0, arrival_s=2.0),
        cores_per_host=1,
    )
    found, _ = simulate(document, tmp_path)
    assert [job.start_s for job in found.outcome.jobs] == [0.0, 120.0, 60.0]
    used = found.details.utilisation
    assert used.cores == pytest.approx(1.0)
    assert used.slots == pytest.approx(1.0)
    assert used.dma is None or used.dma == 0.0


def test_two_slots_go_by_their_numbers(tmp_path: pathlib.Path) -> None:
    document = make_document(
        make_job(0, 1, 900.0),
        make_job(1, 1, 300.0),
        make_job(2, 1, 200.0),
        cores_per_host=3,
        slots_per_device=2,
    )
    found, _ = simulate(document, tmp_path)
    assert [job.slot for job in found.outcome.jobs] == [0, 1, 0]
    assert finishes(found) == pytest.approx({2: 60.0, 1: 60.0, 0: 96.0})


def test_faster_platforms_take_less_time(tmp_path: pathlib.Path) -> None:
    profile = {
        **PROFILE,
        "platforms": {"large": {"peak_bytes_per_s": 2e6, "active_w": 9.0}},
    }
    document = make_document(
        make_job(0, 4, 500.0),
        accelerators={"sobel": profile},
        shape="large",
    )
    found, _ = simulate(document, tmp_path)
    assert finishes(found) == pytest.approx({0: 120.0})
    assert found.details.energy is not None
    assert found.details.energy.devices_j == pytest.approx(29 * 120)


def test_a_gain_keeps_the_holder(tmp_path: pathlib.Path) -> None:
    options = msgspec.structs.replace(FINE, preempt_gain=0.25)
    found, chosen = simulate(EXAMPLE, tmp_path, options=options)
    # At 180 s A's stress is 1.05 times B's only, which is not enough.
    assert finishes(found) == pytest.approx({1: 240.0, 0: 384.0})
    assert chosen[5] == (pytest.approx(180), 0)


def test_need_saves_what_only_a_slot_saves(tmp_path: pathlib.Path) -> None:
    document = make_document(
        # Under the highest stress, but a core will do.
        make_job(0, 2, 300.0),
        make_job(1, 4, 300.0),
        # Lost.
        make_job(2, 4, 200.0),
        cores_per_host=3,
    )
    stays = scenarios.StrategyOptions(
        preempt="fine", deadline_action="continue"
    )
    found, _ = simulate(document, tmp_path, options=stays, rule="need")
    states = [job.state for job in found.outcome.jobs]
    assert states == ["done", "done", "late"]
    found, _ = simulate(document, tmp_path, options=stays)
    assert [job.state for job in found.outcome.jobs] != states


@pytest.mark.parametrize(
    ("rule", "action"),
    [("need", "continue"), ("need", "kill"), ("hjf", "early")],
)
def test_hopeless_deadlines_do_not_harm_the_others(
    rule: str,
    action: typing.Literal["continue", "kill", "early"],
    tmp_path: pathlib.Path,
) -> None:
    liars = [make_job(number, 4, 100.0) for number in range(100)]
    honest = make_job(100, 4, 245.0)
    found, _ = simulate(
        make_document(*liars, honest),
        tmp_path,
        options=msgspec.structs.replace(FINE, deadline_action=action),
        rule=rule,
    )
    states = [job.state for job in found.outcome.jobs]
    assert states[-1] == "done"
    assert "done" not in states[:-1]


def test_jobs_without_deadlines_are_done(tmp_path: pathlib.Path) -> None:
    document = make_document(make_job(0, 1), make_job(1, 1, 70.0))
    found, _ = simulate(document, tmp_path)
    assert [job.state for job in found.outcome.jobs] == ["done", "done"]
    assert finishes(found) == pytest.approx({1: 60.0, 0: 60 + 36.0})
    assert found.outcome.metrics["sla"] == 1.0
    document["jobs"].pop()
    found, _ = simulate(document, tmp_path)
    assert found.service is None
    assert "sla" not in found.outcome.metrics


# -- kills -----------------------------------------------------------------


def test_the_deadline_kills_inside_a_chunk_and_while_waiting(
    tmp_path: pathlib.Path,
) -> None:
    document = make_document(
        make_job(0, 4, 90.0),
        make_job(1, 4, 70.0, arrival_s=1.0),
        make_job(2, 4, 5000.0, arrival_s=2.0),
        cores_per_host=1,
    )
    found, _ = simulate(document, tmp_path)
    first, second, third = found.outcome.jobs
    assert (first.state, first.finish_s) == ("killed", 90.0)
    assert core_of(first).done_bytes == pytest.approx(1.5 * CHUNK)
    # In the queue, without a core, a slot or any work.
    assert (second.state, second.finish_s) == ("killed", 71.0)
    assert (second.start_s, second.host, second.slot) == (71.0, None, None)
    assert core_of(second) == schedules.OnCore(None, 0.0, 0.0)
    # The freed core and slot go on at once.
    assert (third.start_s, third.finish_s) == (90.0, 330.0)
    assert found.service is not None
    assert found.service.wasted_frames == pytest.approx(1.5 * 1500)


def test_a_job_that_ends_at_its_deadline_is_in_time(
    tmp_path: pathlib.Path,
) -> None:
    for deadline_s in (240.0, 240.0 - 5e-7):
        found, _ = simulate(
            make_document(make_job(0, 4, deadline_s)), tmp_path
        )
        assert found.outcome.jobs[0].state == "done"
    found, _ = simulate(make_document(make_job(0, 4, 239.99)), tmp_path)
    assert found.outcome.jobs[0].state == "killed"


EARLY = scenarios.StrategyOptions(preempt="fine", deadline_action="early")


def test_early_gives_up_what_waits_too_long(tmp_path: pathlib.Path) -> None:
    document = make_document(
        make_job(0, 9, 1000.0),
        make_job(1, 2, 200.0, arrival_s=10.0),
        cores_per_host=1,
        attach_s=1.0,
    )
    found, _ = simulate(document, tmp_path, options=EARLY)
    # At 89 s, its 2 chunks would still end at 210 s with the slot.
    assert found.outcome.jobs[1].state == "killed"
    assert finishes(found)[1] == pytest.approx(89.0)


def test_early_gives_up_on_a_core(tmp_path: pathlib.Path) -> None:
    document = make_document(
        make_job(0, 9, 600.0), make_job(1, 4, 500.0), attach_s=1.0
    )
    found, _ = simulate(
        document,
        tmp_path,
        "edf",
        scenarios.StrategyOptions(deadline_action="early"),
    )
    assert [job.state for job in found.outcome.jobs] == ["killed", "done"]
    # Even with the slot of job 1, which has it until 241 s, it would end at
    # 541 s; each second on its core costs it 0.6 s of the rest.
    assert finishes(found)[0] == pytest.approx((600 - 541) / 0.6)


def test_early_spares_what_its_core_will_do(tmp_path: pathlib.Path) -> None:
    # A slot with the time to attach it would be slower than the core.
    document = make_document(
        make_job(0, 9, 700.0), make_job(1, 0.005, 0.8), attach_s=1.0
    )
    found, _ = simulate(document, tmp_path, "edf", EARLY)
    first, second = found.outcome.jobs
    assert second.state == "killed"
    assert first.state == "done"


# -- several hosts ---------------------------------------------------------


def hosts_of(found: results.Result) -> list[int | None]:
    return [core_of(job).host for job in found.outcome.jobs]


def test_the_cluster_chooses_hosts(tmp_path: pathlib.Path) -> None:
    document = make_document(
        # A core will do: hosts without a board, the first one first.
        make_job(0, 2, 1000.0, host=None),
        make_job(1, 2, 1000.0, host=None, arrival_s=1.0),
        make_job(2, 2, 1000.0, host=None, arrival_s=2.0),
        # Only a slot will do: the host with the least stress.
        make_job(3, 4, 500.0, host=None, arrival_s=3.0),
        make_job(4, 4, 400.0, host=None, arrival_s=4.0),
        make_job(5, 4, 400.0, host=None, arrival_s=5.0),
        # It is told.
        make_job(6, 1, 500.0, host=3, arrival_s=6.0),
        hosts=5,
        fpga_hosts=[3, 4],
    )
    found, _ = simulate(document, tmp_path)
    assert hosts_of(found) == [0, 0, 1, 3, 4, 3, 3]
    # What ran on a core alone had no slot.
    assert [job.host for job in found.outcome.jobs[:3]] == [None] * 3
    assert [job.local for job in found.outcome.jobs] == [False] * 6 + [True]


def test_jobs_wait_for_a_host_in_the_order_of_hjf(
    tmp_path: pathlib.Path,
) -> None:
    document = make_document(
        make_job(0, 1, 1000.0, host=None),
        make_job(1, 1, 1000.0, host=None),
        make_job(2, 1, 900.0, host=None, arrival_s=1.0),
        make_job(3, 1, 300.0, host=None, arrival_s=2.0),
        hosts=2,
        cores_per_host=1,
    )
    for name in ("hjf", "edf", "random"):
        found, _ = simulate(document, tmp_path, name)
        # A host with a board is free after 60 s, the other one after 150 s.
        starts = [job.start_s for job in found.outcome.jobs]
        assert starts == [0.0, 0.0, 120.0, 60.0]
        assert hosts_of(found) == [1, 0, 0, 0]


# -- one seed, one run -----------------------------------------------------


def test_random_depends_on_the_seed_only(tmp_path: pathlib.Path) -> None:
    document = make_document(
        *(make_job(number, 3, 600.0) for number in range(6)),
        cores_per_host=6,
    )
    document["strategies"] = {"random": {"preempt": "fine"}}
    path = commands.write(tmp_path / "s.json", document)
    outputs = []
    for seed in ("1", "1", "2"):
        output = tmp_path / f"{len(outputs)}.json"
        arguments = ["run", str(path), "--seed", seed, "--output", str(output)]
        assert reproduction.main(arguments) == 0
        outputs.append(output.read_bytes())
    assert outputs[0] == outputs[1]
    assert outputs[0] != outputs[2]


def test_any_strategy_runs_on_cores(tmp_path: pathlib.Path) -> None:
    for name, first in (("fifo", 0), ("sjf", 1), ("ra", 0)):
        document = make_document(make_job(0, 2), make_job(1, 1))
        found, _ = simulate(document, tmp_path, name)
        assert min(finishes(found).items(), key=lambda each: each[1]) == (
            first,
            pytest.approx(120.0 if first == 0 else 60.0),
        )


# -- files -----------------------------------------------------------------


def test_results_and_their_table(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = make_document(make_job(0, 4, 500.0), make_job(1, 4, 100.0))
    path = commands.write(tmp_path / "s.json", document)
    output = tmp_path / "o.json"
    assert reproduction.main(["run", str(path), "--output", str(output)]) == 0
    content = json.loads(output.read_text())
    found = content["results"]["hjf"]
    assert [job["state"] for job in found["jobs"]] == ["done", "killed"]
    assert found["jobs"][1]["core"] == {
        "host": 0,
        "slot_s": 100.0,
        "done_bytes": 1e8,
    }
    metrics = found["metrics"]
    assert metrics["sla"] == 0.5
    energy = content["details"]["hjf"]["energy"]
    assert metrics["energy_j_per_sla"] == energy["total_j"]
    assert energy["cores_j"] > 0
    said = capsys.readouterr().out
    [row] = [line for line in said.splitlines() if "50.0%" in line]
    assert row.split()[:2] == ["hjf", "50.0%"]
    assert "kJ per SLA" in said
    assert "cores" in said


Change = Callable[[dict[str, typing.Any]], None]


def _cluster(**members: object) -> Change:
    return lambda document: document["cluster"].update(members)


def _profile(**members: object) -> Change:
    return _cluster(accelerators={"sobel": {**PROFILE, **members}})


def _job(**members: object) -> Change:
    return lambda document: document["jobs"][0].update(members)


def _policy(**members: object) -> Change:
    return lambda document: document["strategies"]["hjf"].update(members)


def _without_cores(change: Change) -> Change:
    def both(document: dict[str, typing.Any]) -> None:
        del document["cluster"]["cores_per_host"]
        document["strategies"] = {"hjf": {}}
        change(document)

    return both


BAD: dict[str, tuple[Change, str, str]] = {
    "no cores": (
        _cluster(cores_per_host=0),
        "cluster.cores_per_host",
        ">= 1",
    ),
    "attach": (_cluster(attach_s=-1), "cluster.attach_s", ">= 0"),
    "attach without cores": (
        _without_cores(_cluster(attach_s=1)),
        "cluster.attach_s",
        "requires cluster.cores_per_host",
    ),
    "programming": (
        _cluster(reconfiguration_s=1),
        "cluster.reconfiguration_s",
        "only attach_s counts",
    ),
    "core power": (
        _cluster(power={"core_active_w": -1}),
        "cluster.power.core_active_w",
        ">= 0",
    ),
    "cpu": (
        _profile(cpu_bytes_per_s=0),
        "cluster.accelerators.sobel.cpu_bytes_per_s",
        ">= 0.001",
    ),
    "no cpu": (
        _profile(cpu_bytes_per_s=None),
        "cluster.accelerators.sobel.cpu_bytes_per_s",
        "is missing",
    ),
    "endless cpu": (
        _profile(cpu_bytes_per_s=1e300),
        "cluster.accelerators.sobel.cpu_bytes_per_s",
        "<= 1",
    ),
    "two rates of the cpu": (
        _profile(platforms={"cpu": {"peak_bytes_per_s": 1e6}}),
        "cluster.accelerators.sobel.cpu_bytes_per_s",
        "differs from the rate of the platform cpu",
    ),
    "no quantum": (
        _profile(quantum_bytes=None),
        "cluster.accelerators.sobel.quantum_bytes",
        "is missing",
    ),
    "quantum": (
        _profile(quantum_bytes=-1),
        "cluster.accelerators.sobel.quantum_bytes",
        "> 0",
    ),
    "deadline": (_job(deadline_s=0), "jobs[0].deadline_s", "> 0"),
    "endless": (
        _job(deadline_s=1e300),
        "jobs[0].deadline_s",
        "<= 1",
    ),
    "preempt": (
        _policy(preempt="often"),
        "strategies.hjf.preempt",
        "often",
    ),
    "gain": (
        _policy(preempt="none", preempt_gain=0.5),
        "strategies.hjf.preempt_gain",
        "requires preempt: fine",
    ),
    "negative gain": (
        _policy(preempt_gain=-0.5),
        "strategies.hjf.preempt_gain",
        ">= 0",
    ),
    "action": (
        _policy(deadline_action="stop"),
        "strategies.hjf.deadline_action",
        "stop",
    ),
    "kill without cores": (
        _without_cores(_policy(deadline_action="kill")),
        "strategies.hjf.deadline_action",
        "requires cluster.cores_per_host",
    ),
    "rule": (_policy(rule="x"), "strategies.hjf", "hjf or need"),
    "rule of another": (
        _policy(strategy="edf", rule="need"),
        "strategies.hjf",
        "unknown options rule",
    ),
    "groups": (
        lambda document: document.update(
            groups=[
                {
                    "name": "g",
                    "slots": 1,
                    "clients": [{"name": "c", "task_s": 1, "arrivals_s": [0]}],
                }
            ]
        ),
        "groups",
        "jobs only",
    ),
}


@pytest.mark.parametrize(
    ("change", "place", "reason"), BAD.values(), ids=BAD.keys()
)
def test_bad_values_are_named(
    change: Change,
    place: str,
    reason: str,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = make_document(make_job(0, 4, 500.0))
    change(document)
    said = commands.complaint(capsys, tmp_path, document)
    assert said.startswith(f"{place}: "), said
    assert reason in said


@pytest.mark.parametrize(
    "option", [["--engine", "chunk"], ["--fair-share"], ["--plot"]]
)
def test_options_that_cores_do_not_have(
    option: list[str],
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if option == ["--plot"]:
        option = ["--plot", str(tmp_path / "plots")]
    said = commands.complaint(capsys, tmp_path, EXAMPLE, *option)
    assert said.startswith(
        "cluster.cores_per_host: clusters with cores do not support "
    )


@pytest.mark.parametrize(
    ("members", "place"),
    [
        (
            {
                "strategies": {
                    "edf": {"preempt": "fine", "preempt_quantum_bytes": 1}
                }
            },
            "strategies.edf.preempt_quantum_bytes",
        ),
        ({"jobs": [commands.make_job(0, priority=1)]}, "jobs[0].priority"),
        (
            {"jobs": [commands.make_job(0, claimed_bytes=1)]},
            "jobs[0].claimed_bytes",
        ),
        ({"max_priorities": {"a": 1}}, "max_priorities"),
    ],
)
def test_cores_go_without_priorities_quanta_and_claims(
    members: dict[str, typing.Any],
    place: str,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = commands.make_scenario(**members)
    document["cluster"]["cores_per_host"] = 1
    for profile in document["cluster"]["accelerators"].values():
        profile |= {"cpu_bytes_per_s": 1e8, "quantum_bytes": 1e8}
    said = commands.complaint(capsys, tmp_path, document)
    assert said.startswith(f"{place}: "), said
    assert "cores" in said


# -- deadlines without cores -----------------------------------------------


def test_slots_alone_order_by_deadlines_and_count_them(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = commands.make_scenario(strategies={"edf": {}, "fifo": {}})
    document["cluster"]["slots_per_device"] = 1
    document["cluster"]["fpga_hosts"] = [0]
    document["jobs"] = [
        commands.make_job(0, size_bytes=1.2e9),
        commands.make_job(1, size_bytes=1.2e9, arrival_s=0.1),
        commands.make_job(2, size_bytes=1.2e9, arrival_s=0.2, deadline_s=2.0),
    ]
    path = commands.write(tmp_path / "s.json", document)
    output = tmp_path / "o.json"
    assert reproduction.main(["run", str(path), "--output", str(output)]) == 0
    found = json.loads(output.read_text())["results"]
    states = {
        name: [job.get("state") for job in each["jobs"]]
        for name, each in found.items()
    }
    assert states == {
        "edf": [None, None, "done"],
        "fifo": [None, None, "late"],
    }
    assert found["edf"]["metrics"]["sla"] == 1.0
    assert found["fifo"]["metrics"]["sla"] == 0.0
    assert found["edf"]["metrics"]["frames_per_s"] is None
    capsys.readouterr()
