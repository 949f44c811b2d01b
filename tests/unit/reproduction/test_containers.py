# SPDX-License-Identifier: Apache-2.0

"""Containers of applications on hosts that share their slots."""

from __future__ import annotations

import json
import pathlib
import typing
from collections.abc import Callable

import pytest

from fpgapool.sim import simulation
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.inputs import scenario_files
from fpgapool.sim.outcomes import results
from reproduction import __main__ as reproduction
from reproduction.models import containers
from tests.unit.reproduction import commands

#: Input of a task: 2 s in a slot.
TASK = 2e6


def make_container(
    number: int, accelerator: str, tasks: int, **members: object
) -> dict[str, typing.Any]:
    container = {
        "id": number,
        "host": None,
        "size_bytes": tasks * TASK,
        "arrival_s": 0.0,
        "accelerator": accelerator,
        "tasks": tasks,
    }
    return {**container, **members}


def make_document(
    *jobs: dict[str, typing.Any], **cluster: object
) -> dict[str, typing.Any]:
    """A scenario file: two hosts with a slot and two places each."""
    defaults = {
        "hosts": 2,
        "fpga_hosts": [0, 1],
        "slots_per_device": 1,
        "accelerators": {
            "lr": {"peak_bytes_per_s": 1e6},
            "km": {"peak_bytes_per_s": 1e6},
        },
        "reconfiguration_s": 1.5,
        "heartbeat_s": 1.0,
        "containers_per_device": 2,
    }
    return {
        "format": "fpgapool-scenario/1",
        "cluster": {**defaults, **cluster},
        "strategies": {
            "naive": {},
            "static": {},
            "gam4": {"strategy": "gam", "affinity_misses": 4},
            "gam16": {"strategy": "gam", "affinity_misses": 16},
            "gam": {},
            "lpt": {},
        },
        "jobs": list(jobs),
    }


EXAMPLE = make_document(
    make_container(0, "lr", 3),
    make_container(1, "lr", 1),
    make_container(2, "km", 2),
)


def simulate(
    document: dict[str, typing.Any], tmp_path: pathlib.Path, name: str
) -> results.Result:
    path = commands.write(tmp_path / "s.json", document)
    scenario = scenario_files.read(path)
    return results.evaluate(scenario, simulation.run(scenario, name))


def places(found: results.Result) -> list[tuple[float, int | None, float]]:
    return [
        (job.start_s, job.host, job.finish_s) for job in found.outcome.jobs
    ]


# -- the worked example ----------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected", "reprogrammings"),
    [
        # Board 0 alternates.
        ("naive", [(0, 0, 17.5), (0.5, 1, 4.0), (1, 0, 14.0)], 6),
        ("static", [(0, 0, 9.5), (1, 0, 5.5), (0.5, 1, 6.0)], 2),
        # The third misses at 1, 1.5, 2 and 2.5 s, and then takes any host.
        ("gam4", [(0, 0, 17.5), (0.5, 1, 4.0), (3, 0, 14.0)], 6),
        # It goes to the host that is empty since 4 s.
        ("gam16", [(0, 0, 7.5), (0.5, 1, 4.0), (4.5, 1, 10.0)], 3),
        ("gam", [(0, 0, 7.5), (0.5, 1, 4.0), (4.5, 1, 10.0)], 3),
        # The third has two tasks, and comes before the second.
        ("lpt", [(0, 0, 9.5), (1, 0, 5.5), (0.5, 1, 6.0)], 2),
    ],
)
def test_worked_example(
    name: str,
    expected: list[tuple[float, int, float]],
    reprogrammings: int,
    tmp_path: pathlib.Path,
) -> None:
    found = simulate(EXAMPLE, tmp_path, name)
    assert places(found) == expected
    assert found.packing is not None
    assert found.packing.reprogrammings == reprogrammings
    makespan_s = max(end_s for _, _, end_s in expected)
    assert found.packing.distance_to_bound == 1 - 7.5 / makespan_s


def test_bound_is_the_longest_of_three(tmp_path: pathlib.Path) -> None:
    def bound_s(document: dict[str, typing.Any]) -> float:
        path = commands.write(tmp_path / "s.json", document)
        return containers.bound_s(scenario_files.read(path))

    # Slots: 12 s of tasks and two programmings on two slots.
    assert bound_s(EXAMPLE) == 7.5
    # Places: 4 tasks of 5 s in one place.
    alone = make_document(
        make_container(0, "lr", 2, cpu_s_per_task=3),
        make_container(1, "lr", 2, cpu_s_per_task=3),
        hosts=1,
        fpga_hosts=[0],
        containers_per_device=1,
    )
    assert bound_s(alone) == 20
    # One job: 3 tasks of 5 s from 10 s on.
    late = make_document(
        make_container(0, "lr", 3, cpu_s_per_task=3, arrival_s=10)
    )
    assert bound_s(late) == 25
    # The first task is ready at 2 s.
    ready = make_document(
        *(
            make_container(number, "lr", 3, cpu_s_per_task=2)
            for number in range(4)
        )
    )
    assert bound_s(ready) == 2 + (24 + 3) / 2
    # Processors need no programming.
    ready["cluster"]["shape"] = "cpu"
    assert bound_s(ready) == 2 + 24 / 2


# -- rules -----------------------------------------------------------------


def test_lonely_application_is_placed_after_its_misses(
    tmp_path: pathlib.Path,
) -> None:
    """Its fitness of 0 is enough as soon as the threshold is 0."""
    document = make_document(
        make_container(0, "lr", 20),
        make_container(1, "lr", 20),
        make_container(2, "lr", 20),
        make_container(3, "km", 1),
        hosts=1,
        fpga_hosts=[0],
        containers_per_device=4,
    )
    found = simulate(document, tmp_path, "gam4")
    starts = [start_s for start_s, _, _ in places(found)]
    # Others take what is offered before it; it misses at 3, 4, 5 and 6 s.
    assert starts == [0, 1, 2, 7]


def test_misses_start_again_with_each_grant(tmp_path: pathlib.Path) -> None:
    document = make_document(
        make_container(0, "lr", 50),
        make_container(1, "km", 9, app="a"),
        make_container(2, "km", 8, app="a"),
        hosts=1,
        fpga_hosts=[0],
        containers_per_device=5,
    )
    found = simulate(document, tmp_path, "gam4")
    starts = [start_s for start_s, _, _ in places(found)]
    # Four misses, then the larger one; then the threshold is 1 again, and
    # one of two containers fits by a half: two misses.
    assert starts == [0, 5, 8]


def test_offers_place_one_container_each(tmp_path: pathlib.Path) -> None:
    document = make_document(
        *(make_container(number, "lr", 1) for number in range(5)),
        containers_per_device=3,
        heartbeat_s=10.0,
    )
    found = simulate(document, tmp_path, "naive")
    assert [(start_s, host) for start_s, host, _ in places(found)] == [
        (0, 0),
        (5, 1),
        (10, 0),
        (15, 1),
        (20, 0),
    ]


def test_full_hosts_offer_nothing(tmp_path: pathlib.Path) -> None:
    document = make_document(
        make_container(0, "lr", 2),
        make_container(1, "lr", 1),
        hosts=3,
        fpga_hosts=[2],
        containers_per_device=1,
    )
    found = simulate(document, tmp_path, "naive")
    # The place is free again at 5.5 s, and offered at 6 s.
    assert places(found) == [(0, 2, 5.5), (6, 2, 8)]
    assert found.packing is not None
    assert found.packing.reprogrammings == 1


def test_heartbeats_keep_their_times_while_no_one_waits(
    tmp_path: pathlib.Path,
) -> None:
    document = make_document(
        make_container(0, "lr", 1),
        make_container(1, "lr", 1, arrival_s=1000.6),
        make_container(2, "lr", 1, arrival_s=2001.0),
        make_container(3, "lr", 1, arrival_s=3001.5),
    )
    found = simulate(document, tmp_path, "naive")
    assert [(start_s, host) for start_s, host, _ in places(found)] == [
        (0, 0),
        (1001, 0),
        # An arrival comes before the heartbeat of the same time.
        (2001, 0),
        (3001.5, 1),
    ]


def test_processor_works_before_each_task(tmp_path: pathlib.Path) -> None:
    document = make_document(
        make_container(0, "lr", 2, cpu_s_per_task=1.0),
        hosts=1,
        fpga_hosts=[0],
    )
    found = simulate(document, tmp_path, "naive")
    assert places(found) == [(0, 0, 1 + 1.5 + 2 + 1 + 2)]
    [job] = found.outcome.jobs
    assert job.container is not None
    assert job.container.slot_s == 1.5 + 2 + 2
    assert job.slot is None
    assert found.details.utilisation.slots == 5.5 / 7.5


def test_programmed_slot_is_preferred(tmp_path: pathlib.Path) -> None:
    document = make_document(
        make_container(0, "lr", 1),
        make_container(1, "km", 1, arrival_s=1),
        # Both slots are idle then.
        make_container(2, "km", 1, arrival_s=10),
        make_container(3, "lr", 1, arrival_s=11),
        hosts=1,
        fpga_hosts=[0],
        slots_per_device=2,
    )
    found = simulate(document, tmp_path, "naive")
    assert [end_s for _, _, end_s in places(found)] == [3.5, 4.5, 12, 13]
    assert found.packing is not None
    assert found.packing.reprogrammings == 2


def test_slots_end_tasks_before_others_are_ready(
    tmp_path: pathlib.Path,
) -> None:
    document = make_document(
        make_container(0, "lr", 1),
        make_container(1, "km", 1, size_bytes=TASK / 4),
        # Ready at 3.5 s, when the first one ends; the second has ended.
        make_container(2, "lr", 1, cpu_s_per_task=1.5),
        hosts=1,
        fpga_hosts=[0],
        slots_per_device=2,
        containers_per_device=3,
    )
    found = simulate(document, tmp_path, "naive")
    assert places(found) == [(0, 0, 3.5), (1, 0, 3), (2, 0, 5.5)]


def test_rates_by_shape_and_processors(tmp_path: pathlib.Path) -> None:
    profile = {
        "peak_bytes_per_s": 1e6,
        "platforms": {
            "big": {"peak_bytes_per_s": 4e6},
            "cpu": {"peak_bytes_per_s": 0.5e6},
        },
    }
    document = make_document(
        make_container(0, "lr", 2),
        make_container(1, "lr", 2),
        make_container(2, "lr", 2),
        hosts=3,
        fpga_hosts=[0, 1, 2],
        heartbeat_s=3.0,
        accelerators={"lr": profile},
        host_overrides={"0": {"shape": "big"}, "2": {"shape": "cpu"}},
    )
    found = simulate(document, tmp_path, "naive")
    assert places(found) == [
        (0, 0, 1.5 + 2 * 0.5),
        (1, 1, 1 + 1.5 + 2 * 2),
        (2, 2, 2 + 2 * 4),
    ]
    assert [
        job.container and job.container.reprogrammings
        for job in found.outcome.jobs
    ] == [1, 1, 0]


def test_static_divides_hosts_in_order_of_the_file(
    tmp_path: pathlib.Path,
) -> None:
    names = ("z", "a", "m")
    document = make_document(
        *(
            make_container(3 * at + copy, name, 1)
            for at, name in enumerate(names)
            for copy in range(3)
        ),
        hosts=8,
        fpga_hosts=[7, 6, 5, 4, 3, 2, 1],
        accelerators={name: {"peak_bytes_per_s": 1e6} for name in names},
    )
    found = simulate(document, tmp_path, "static")
    hosts: dict[str, set[int | None]] = {}
    for job, outcome in zip(document["jobs"], found.outcome.jobs, strict=True):
        hosts.setdefault(job["accelerator"], set()).add(outcome.host)
    assert hosts == {"z": {1, 2, 3}, "a": {4, 5}, "m": {6, 7}}


def test_applications_come_in_order_of_arrival(
    tmp_path: pathlib.Path,
) -> None:
    """Of an application, the largest container that has arrived is first."""
    document = make_document(
        make_container(7, "lr", 1, app="b", arrival_s=0.25),
        make_container(2, "lr", 1, app="a", arrival_s=0.25),
        make_container(9, "lr", 2, app="a", arrival_s=0.3),
        make_container(3, "lr", 9, app="a", arrival_s=2.25),
        make_container(8, "lr", 1, app="b", arrival_s=0.2),
        hosts=1,
        fpga_hosts=[0],
        containers_per_device=9,
    )
    found = simulate(document, tmp_path, "naive")
    starts = {job.id: job.start_s for job in found.outcome.jobs}
    # b arrived first: its equal containers by their ids; then a.
    assert starts == {7: 1, 8: 2, 3: 3, 9: 4, 2: 5}
    found = simulate(document, tmp_path, "lpt")
    starts = {job.id: job.start_s for job in found.outcome.jobs}
    assert starts == {9: 1, 7: 2, 3: 3, 8: 4, 2: 5}


def test_applications_of_tenants_are_apart(tmp_path: pathlib.Path) -> None:
    def starts(tenant: str) -> list[float]:
        document = make_document(
            make_container(0, "lr", 1, app="a"),
            make_container(1, "lr", 1, app="b"),
            # Of a, it would be before b.
            make_container(2, "lr", 1, app="a", tenant=tenant),
            hosts=1,
            fpga_hosts=[0],
            containers_per_device=3,
        )
        found = simulate(document, tmp_path, "naive")
        return [start_s for start_s, _, _ in places(found)]

    assert starts("") == [0, 2, 1]
    assert starts("other") == [0, 1, 2]


def test_energy(tmp_path: pathlib.Path) -> None:
    document = make_document(
        make_container(0, "lr", 1),
        make_container(1, "km", 1),
        hosts=1,
        fpga_hosts=[0],
        power={"host_w": 200, "device_idle_w": 20, "device_active_w": 25},
    )
    found = simulate(document, tmp_path, "naive")
    # Two programmings, two tasks.
    assert found.outcome.metrics["makespan_s"] == 7
    energy = found.details.energy
    assert energy is not None
    assert energy.total_j == 7 * 225
    assert [job.energy_j for job in found.outcome.jobs] == [17.5, 17.5]
    assert found.details.utilisation.nic_ingress == 0


# -- the command -----------------------------------------------------------


def test_run_shows_and_writes(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = commands.write(tmp_path / "s.json", EXAMPLE)
    out = tmp_path / "out.json"
    assert reproduction.main(["run", str(path), "--output", str(out)]) == 0
    said = capsys.readouterr().out
    assert "reprogrammings" in said
    assert "57.1%" in said
    written = json.loads(out.read_text())["results"]
    assert written["gam16"]["metrics"]["reprogrammings"] == 3
    assert written["gam16"]["metrics"]["distance_to_bound"] == 0.25
    assert written["static"]["jobs"][1] == {
        "id": 1,
        "start_s": 1.0,
        "finish_s": 5.5,
        "host": 0,
        "slot": None,
        "local": False,
        "container": {"slot_s": 2.0, "reprogrammings": 0},
    }


def test_policy_that_the_scenario_does_not_name(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = {**EXAMPLE, "strategies": {"naive": {}}}
    path = commands.write(tmp_path / "s.json", document)
    assert reproduction.main(["run", str(path), "--strategy", "lpt"]) == 0
    assert "lpt" in capsys.readouterr().out


def test_scenario_is_written_as_it_was_read(tmp_path: pathlib.Path) -> None:
    document = make_document(
        make_container(0, "lr", 3, app="a", cpu_s_per_task=0.5)
    )
    path = commands.write(tmp_path / "s.json", document)
    scenario = scenario_files.read(path)
    assert scenario.strategies["gam4"] == scenarios.StrategyOptions(
        strategy="gam", affinity_misses=4
    )
    again = tmp_path / "again.json"
    scenario_files.write(scenario, again)
    assert scenario_files.read(again) == scenario


Change = Callable[[dict[str, typing.Any]], None]


def _cluster(**members: object) -> Change:
    return lambda document: document["cluster"].update(members)


def _job(**members: object) -> Change:
    return lambda document: document["jobs"][1].update(members)


def _strategy(**members: object) -> Change:
    return lambda document: document.update(strategies={"x": members})


def _without_heartbeats(change: Change) -> Change:
    def changed(document: dict[str, typing.Any]) -> None:
        cluster = document["cluster"]
        del cluster["heartbeat_s"], cluster["containers_per_device"]
        for job in document["jobs"]:
            del job["tasks"]
        document["strategies"] = {"fifo": {}}
        change(document)

    return changed


REFUSED: dict[str, tuple[Change, str]] = {
    "no tasks": (
        _job(tasks=None),
        "jobs[1].tasks: is missing; containers need it",
    ),
    "zero tasks": (
        _job(tasks=0),
        "jobs[1].tasks: expected `int` >= 1",
    ),
    "own host": (
        _job(host=0),
        "jobs[1].host: must be null; the strategy chooses the hosts of "
        "containers",
    ),
    "deadline": (
        _job(deadline_s=9),
        "jobs[1].deadline_s: cannot be combined with containers",
    ),
    "priority": (
        _job(priority=1),
        "jobs[1].priority: cannot be combined with containers",
    ),
    "endless processor": (
        _job(cpu_s_per_task=1e300),
        "jobs[1].cpu_s_per_task: expected `float` <= 1000000000000.0",
    ),
    "negative processor": (
        _job(cpu_s_per_task=-1),
        "jobs[1].cpu_s_per_task: expected `float` >= 0.0",
    ),
    "two accelerators": (
        lambda document: [job.update(app="a") for job in document["jobs"]],
        "jobs[2].accelerator: the application 'a' uses 'lr'",
    ),
    "cores": (
        lambda document: document["cluster"].update(
            cores_per_host=1,
            accelerators={
                name: {
                    "peak_bytes_per_s": 1,
                    "cpu_bytes_per_s": 1,
                    "quantum_bytes": 1,
                }
                for name in ("lr", "km")
            },
            reconfiguration_s=0,
        ),
        "cluster.cores_per_host: cannot be combined with containers",
    ),
    "cap": (
        _cluster(power={"cap_w": 0}),
        "cluster.power.cap_w: cannot be combined with containers",
    ),
    "host cap": (
        _cluster(power={"host_cap_w": 99}),
        "cluster.power.host_cap_w: cannot be combined with containers",
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
        "groups: cannot be combined with containers",
    ),
    "priorities": (
        lambda document: document.update(max_priorities={"t": 1}),
        "max_priorities: cannot be combined with containers",
    ),
    "fast heartbeats": (
        _cluster(heartbeat_s=0.0001),
        "cluster.heartbeat_s: expected `float` >= 0.001",
    ),
    "endless heartbeat": (
        _cluster(heartbeat_s=1e300),
        "cluster.heartbeat_s: expected `float` <= 1000000000.0",
    ),
    "no places": (
        _cluster(containers_per_device=0),
        "cluster.containers_per_device: expected `int` >= 1",
    ),
    "strategy": (
        _strategy(strategy="wra"),
        "strategies.x: containers do not support strategy 'wra'; known: "
        "static, naive, gam, lpt",
    ),
    "option": (
        _strategy(strategy="gam", remote_limit=1),
        "strategies.x.remote_limit: is not an option of 'gam'",
    ),
    "misses": (
        _strategy(strategy="naive", affinity_misses=1),
        "strategies.x.affinity_misses: is not an option of 'naive'",
    ),
    "elasticity": (
        _strategy(strategy="naive", elasticity={"name": "ahead"}),
        "strategies.x.elasticity: requires groups",
    ),
    "too few hosts": (
        lambda document: document.update(
            cluster={**document["cluster"], "fpga_hosts": [0]},
            strategies={"static": {}},
        ),
        "strategies.static: 1 hosts with a board cannot be split between "
        "2 accelerators",
    ),
    "tasks without heartbeats": (
        _without_heartbeats(_job(tasks=2)),
        "jobs[1].tasks: requires cluster.heartbeat_s",
    ),
    "processor without heartbeats": (
        _without_heartbeats(_job(cpu_s_per_task=1)),
        "jobs[1].cpu_s_per_task: requires cluster.heartbeat_s",
    ),
    "places without heartbeats": (
        _without_heartbeats(_cluster(containers_per_device=3)),
        "cluster.containers_per_device: requires cluster.heartbeat_s",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused(
    name: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, reason = REFUSED[name]
    document = json.loads(json.dumps(EXAMPLE))
    change(document)
    assert commands.complaint(capsys, tmp_path, document) == reason


@pytest.mark.parametrize(
    "option",
    [("--engine", "chunk"), ("--plot", "pictures"), ("--fair-share",)],
)
def test_options_that_containers_do_not_have(
    option: tuple[str, ...],
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    said = commands.complaint(capsys, tmp_path, EXAMPLE, *option)
    assert said == (
        "cluster.heartbeat_s: clusters with containers do not "
        "support the chunk engine, plots or fair sharing"
    )
