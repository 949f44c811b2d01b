# SPDX-License-Identifier: Apache-2.0

"""Hosts that are lost and come back, with the jobs that they had."""

import itertools
import json
import pathlib
import statistics
import typing

import msgspec
import pytest

from fpgapool.cmd import sim
from fpgapool.sim import errors
from fpgapool.sim import simulation
from fpgapool.sim.inputs import generating
from fpgapool.sim.inputs import outages
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import results
from fpgapool.sim.outcomes import schedules
from tests.unit.sim import commands

RATE = 1e9
STRATEGIES = ("fifo", "sjf", "wra", "era", "auto", "affinity")


def make_job(
    number: int, work_s: float, arrival_s: float = 0.0, **members: typing.Any
) -> scenarios.JobSpec:
    """A job of host 0 that a slot computes in so many seconds."""
    defaults = {"host": 0, "accelerator": "aes"}
    return scenarios.JobSpec(
        id=number,
        size_bytes=work_s * RATE,
        arrival_s=arrival_s,
        **{**defaults, **members},  # type: ignore[arg-type]
    )


def make_scenario(
    jobs: list[scenarios.JobSpec],
    *lost: scenarios.Outage,
    options: scenarios.StrategyOptions | None = None,
    **members: typing.Any,
) -> scenarios.Scenario:
    """Host 0 has a board of one slot."""
    defaults = {
        "hosts": 2,
        "fpga_hosts": (0,),
        "slots_per_device": 1,
        "accelerators": {
            "aes": scenarios.AcceleratorProfile(RATE),
            "sha": scenarios.AcceleratorProfile(RATE),
        },
    }
    options = options or scenarios.StrategyOptions()
    return scenarios.Scenario(
        format=scenarios.FORMAT,
        cluster=scenarios.Cluster(**{**defaults, **members}),  # type: ignore[arg-type]
        strategies={"fifo": options},
        jobs=jobs,
        outages=lost,
    )


def make_cloud(
    seed: int, scale: float = 1.0, *options: str
) -> scenarios.Scenario:
    """Twelve hosts, each of whose boards is often lost; programming counts."""
    made = generating.make_scenario(
        [
            *(
                "--hosts=12",
                "--boards=6",
                "--slots-per-device=2",
                "--jobs=150",
            ),
            *("--sizes=power-law", "--load=1.2", "--reconfiguration-s=0.01"),
            *("--mean-up-s=0.2", "--mean-down-s=0.05", "--wakeups"),
            *("--tenant=a=1", "--tenant=b=2", "--slot-choice=least_busy"),
            *options,
        ],
        seed,
        "options",
    )
    return msgspec.structs.replace(
        made,
        cluster=msgspec.structs.replace(
            made.cluster, reconfiguration_s=0.01 * scale
        ),
        jobs=[
            msgspec.structs.replace(
                job,
                arrival_s=job.arrival_s * scale,
                size_bytes=job.size_bytes * scale,
            )
            for job in made.jobs
        ],
        outages=tuple(
            scenarios.Outage(
                each.host, each.start_s * scale, (each.end_s or 0) * scale
            )
            for each in made.outages
        ),
    )


class Visit(typing.NamedTuple):
    host: int
    slot: int
    start_s: float
    finish_s: float
    done_bytes: float


def visits(
    made: scenarios.Scenario, outcomes: list[schedules.JobOutcome]
) -> list[Visit]:
    """Return all times in which slots worked."""
    found: list[Visit] = []
    for job, outcome in zip(made.jobs, outcomes, strict=True):
        found += [
            Visit(
                stay.host,
                stay.slot,
                stay.start_s,
                stay.finish_s,
                stay.done_bytes,
            )
            for stay in outcome.stays
        ]
        assert outcome.host is not None
        assert outcome.slot is not None
        left = job.size_bytes - sum(stay.done_bytes for stay in outcome.stays)
        found.append(
            Visit(
                outcome.host,
                outcome.slot,
                outcome.start_s,
                outcome.finish_s,
                left,
            )
        )
    return found


# -- by hand ---------------------------------------------------------------


def test_a_job_goes_on_when_its_host_is_back() -> None:
    """It computes from 0 to 4 s, and from 6 to 12 s."""
    scenario = make_scenario(
        [make_job(0, 10)], scenarios.Outage(host=0, start_s=4, end_s=6)
    )
    [job] = outcomes = simulation.run(scenario, "fifo")
    assert job.stays == (
        schedules.Stay(0, 0, 0.0, pytest.approx(4), 4 * int(RATE), lost=True),
    )
    assert (job.start_s, job.finish_s) == (
        pytest.approx(6),
        pytest.approx(12),
    )
    assert (job.interruptions, job.preemptions) == (1, 0)
    details = results.evaluate(scenario, outcomes).details
    assert details.outages == results.Outages(1, pytest.approx(2), 1)


@pytest.mark.parametrize("name", STRATEGIES)
def test_or_at_once_on_another_host(name: str) -> None:
    scenario = make_scenario(
        [make_job(0, 10)],
        scenarios.Outage(host=0, start_s=4, end_s=1000),
        fpga_hosts=(0, 1),
    )
    [job] = simulation.run(scenario, name)
    assert [stay.host for stay in job.stays] == [0]
    assert (job.host, job.start_s) == (1, pytest.approx(4))


@pytest.mark.parametrize("name", STRATEGIES)
def test_data_stays_reachable_without_the_board(name: str) -> None:
    scenario = make_scenario(
        [make_job(0, 1, arrival_s=1)],
        scenarios.Outage(host=0, start_s=0, end_s=1000),
        fpga_hosts=(0, 1),
    )
    [job] = simulation.run(scenario, name)
    assert (job.host, job.start_s) == (1, pytest.approx(1))


def test_a_job_waits_at_its_old_place() -> None:
    jobs = [make_job(0, 10), make_job(1, 1, arrival_s=3), make_job(2, 1, 5)]
    lost = scenarios.Outage(host=0, start_s=4, end_s=6)
    outcomes = simulation.run(make_scenario(jobs, lost), "fifo")
    assert [one.finish_s for one in outcomes] == pytest.approx([12, 13, 14])


def test_a_slot_that_comes_back_is_blank() -> None:
    """Programming takes 2 s: at 0, and at 8 s for the same accelerator."""
    scenario = make_scenario(
        [make_job(0, 1), make_job(1, 2, arrival_s=5), make_job(2, 1, 9)],
        scenarios.Outage(host=0, start_s=6, end_s=8),
        reconfiguration_s=2.0,
    )
    outcomes = simulation.run(scenario, "fifo")
    assert [one.start_s for one in outcomes] == pytest.approx([2, 10, 11])
    assert outcomes[1].stays[0].finish_s == pytest.approx(6)
    found = results.evaluate(scenario, outcomes)
    assert found.programmings.tolist() == [1, 1, 0]


def test_programming_begins_again() -> None:
    """It had lasted for 1 of 2 s; the slot had not worked for the job yet."""
    scenario = make_scenario(
        [make_job(0, 1)],
        scenarios.Outage(host=0, start_s=1, end_s=3),
        reconfiguration_s=2.0,
    )
    [job] = simulation.run(scenario, "fifo")
    assert (job.start_s, job.interruptions, job.stays) == (5.0, 0, ())


def test_a_host_may_be_back_and_lost_in_one_instant() -> None:
    scenario = make_scenario(
        [make_job(0, 3)],
        scenarios.Outage(host=0, start_s=2, end_s=5),
        scenarios.Outage(host=0, start_s=1, end_s=2),
    )
    [job] = simulation.run(scenario, "fifo")
    assert job.finish_s == pytest.approx(7)
    assert job.interruptions == 1


def test_a_job_that_ends_as_its_host_is_lost_has_ended() -> None:
    scenario = make_scenario(
        [make_job(0, 4)], scenarios.Outage(host=0, start_s=4)
    )
    [job] = simulation.run(scenario, "fifo")
    assert (job.finish_s, job.interruptions) == (pytest.approx(4), 0)


def test_without_hosts_that_come_back_jobs_wait_forever() -> None:
    scenario = make_scenario(
        [make_job(0, 4)], scenarios.Outage(host=0, start_s=3)
    )
    with pytest.raises(errors.InputError, match="1 jobs would wait forever"):
        simulation.run(scenario, "fifo")


def test_a_border_and_an_outage_may_be_one_instant() -> None:
    """A chunk takes 1 s."""
    options = scenarios.StrategyOptions(
        preempt="fine", preempt_quantum_bytes=int(RATE)
    )
    scenario = make_scenario(
        [make_job(0, 10), make_job(1, 2, arrival_s=3, priority=1)],
        scenarios.Outage(host=0, start_s=3, end_s=4),
        options=options,
    )
    low, high = simulation.run(scenario, "fifo")
    assert (high.finish_s, low.finish_s) == (
        pytest.approx(6),
        pytest.approx(13),
    )
    assert [stay.done_bytes for stay in low.stays] == [3 * int(RATE)]
    assert (low.interruptions, low.preemptions) == (1, 0)


# -- rules -----------------------------------------------------------------


@pytest.mark.parametrize("fair_share", [False, True])
@pytest.mark.parametrize("name", STRATEGIES)
def test_each_job_is_computed_once_on_hosts_that_are_up(
    name: str, fair_share: bool
) -> None:
    made = make_cloud(3)
    outcomes = simulation.run(made, name, fair_share=fair_share)
    assert [one.id for one in outcomes] == [job.id for job in made.jobs]
    assert sum(one.interruptions for one in outcomes) > 10
    by_slot: dict[tuple[int, int], list[Visit]] = {}
    for visit in visits(made, outcomes):
        assert visit.done_bytes >= 0
        by_slot.setdefault((visit.host, visit.slot), []).append(visit)
        for outage in made.outages:
            if outage.host == visit.host:
                assert outage.end_s is not None
                assert (
                    visit.finish_s <= outage.start_s * (1 + 1e-9)
                    or visit.start_s >= outage.end_s
                )
    for some in by_slot.values():
        some.sort(key=lambda each: each.start_s)
        for before, after in itertools.pairwise(some):
            assert before.finish_s <= after.start_s * (1 + 1e-9)
    assert outcomes == simulation.run(made, name, fair_share=fair_share)


@pytest.mark.parametrize("name", STRATEGIES)
def test_outages_that_begin_later_change_nothing(name: str) -> None:
    made = msgspec.structs.replace(make_cloud(4), outages=())
    expected = simulation.run(made, name)
    late_s = max(one.finish_s for one in expected) + 1
    later = msgspec.structs.replace(
        made, outages=(scenarios.Outage(host=0, start_s=late_s),)
    )
    assert simulation.run(later, name) == expected
    details = results.evaluate(later, expected).details
    assert details.outages == results.Outages(0, 0.0, 0)


@pytest.mark.parametrize("name", ["fifo", "sjf", "wra", "auto"])
def test_sizes_and_times_by_the_same_factor_give_the_same_slots(
    name: str,
) -> None:
    places = []
    for scale in (1.0, 475.0):
        made = make_cloud(5, scale)
        strategy = msgspec.structs.replace(
            made.strategies["wra"],
            strategy=name,
            wait_s_per_byte=1e-8,
        )
        made.strategies[name] = strategy
        places.append(
            [
                (visit.host, visit.slot)
                for visit in visits(made, simulation.run(made, name))
            ]
        )
    assert places[0] == places[1]


# -- drawn outages ---------------------------------------------------------


def test_a_seed_and_a_host_decide_its_outages() -> None:
    some = outages.draw((0, 2), 4.0, 1.0, 100.0, 7)
    more = outages.draw((2, 1, 0), 4.0, 1.0, 100.0, 7)
    assert some == tuple(each for each in more if each.host != 1)
    assert some != outages.draw((0, 2), 4.0, 1.0, 100.0, 8)
    assert all(each.start_s < 100.0 for each in some)


def test_times_have_their_means() -> None:
    found = outages.draw((0,), 4.0, 1.0, 1e5, 0)
    downs = [(each.end_s or 0.0) - each.start_s for each in found]
    assert statistics.mean(downs) == pytest.approx(1.0, rel=0.05)
    assert len(found) == pytest.approx(1e5 / 5.0, rel=0.05)


def test_outages_leave_the_jobs_as_they_are() -> None:
    without = [*("--hosts=12", "--boards=6", "--jobs=20")]
    lost = ["--mean-up-s=0.1", "--mean-down-s=0.1"]
    made = generating.make_scenario([*without, *lost], 1, "options")
    plain = generating.make_scenario(without, 1, "options")
    assert made.outages
    assert not plain.outages
    assert msgspec.structs.replace(made, outages=()) == plain


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--mean-up-s=3"], "--mean-up-s: requires --mean-down-s"),
        (["--mean-down-s=3"], "--mean-down-s: requires --mean-up-s"),
        (
            ["--mean-up-s=1e-7", "--mean-down-s=1e-7"],
            "outages exceed the limit of 1e\\+06",
        ),
    ],
)
def test_bad_options_are_refused(options: list[str], message: str) -> None:
    with pytest.raises(errors.InputError, match=message):
        generating.make_scenario(options, 0, "options")


# -- files -----------------------------------------------------------------

_OUTAGE = {"host": 0, "start_s": 1.0, "end_s": 2.0}
_CLUSTER = commands.make_scenario()["cluster"]
BAD: dict[str, tuple[dict[str, typing.Any], str]] = {
    "no board": (
        {"outages": [_OUTAGE | {"host": 1}]},
        "outages[0].host: host 1 has no board",
    ),
    "no length": (
        {"outages": [_OUTAGE | {"end_s": 1.0}]},
        "outages[0].end_s: is not above 1",
    ),
    "twice": (
        {"outages": [_OUTAGE | {"start_s": 1.5, "end_s": 3.0}, _OUTAGE]},
        "outages[0].start_s: lies within another outage of host 0",
    ),
    "after one without an end": (
        {"outages": [{"host": 0, "start_s": 0.5}, _OUTAGE]},
        "outages[1].start_s: lies within another outage of host 0",
    ),
    "cores": (
        {"outages": [_OUTAGE], "cluster": _CLUSTER | {"cores_per_host": 2}},
        "outages: cannot be combined with cluster.cores_per_host",
    ),
    "containers": (
        {"outages": [_OUTAGE], "cluster": _CLUSTER | {"heartbeat_s": 1.0}},
        "outages: cannot be combined with cluster.heartbeat_s",
    ),
    "groups": (
        {
            "outages": [_OUTAGE],
            "groups": [
                {
                    "name": "g",
                    "slots": 1,
                    "clients": [{"name": "c", "task_s": 1, "arrivals_s": [0]}],
                }
            ],
        },
        "outages: cannot be combined with groups",
    ),
}


@pytest.mark.parametrize(("members", "said"), BAD.values(), ids=BAD.keys())
def test_bad_outages_are_named(
    members: dict[str, typing.Any],
    said: str,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    scenario = commands.make_scenario(**members)
    assert commands.complaint(capsys, tmp_path, scenario) == said


def test_chunks_on_the_way_are_not_lost(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = commands.make_scenario(outages=[_OUTAGE])
    said = commands.complaint(capsys, tmp_path, document, "--engine=chunk")
    assert said == "outages: lost hosts require --engine fluid"


def test_the_command_shows_what_outages_cost(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, output = tmp_path / "s.json", tmp_path / "o.json"
    assert (
        sim.main(
            [
                *("generate", "--output", str(path), "--hosts=4"),
                *("--boards=2", "--jobs=40", "--strategy=fifo"),
                *("--mean-up-s=2", "--mean-down-s=1"),
            ]
        )
        == 0
    )
    scenario = json.loads(path.read_text())
    assert f"outages: {len(scenario['outages'])} of hosts with a board" in (
        capsys.readouterr().out
    )
    assert sim.main(["run", str(path), "--output", str(output)]) == 0
    content = json.loads(output.read_text())
    found = content["details"]["fifo"]["outages"]
    jobs = content["results"]["fifo"]["jobs"]
    assert found["interruptions"] == sum(
        job.get("interruptions", 0) for job in jobs
    )
    assert found["interruptions"] > 0
    said = capsys.readouterr().out
    assert f"{found['lost_slot_s']:.0f} slot-s" in said
    [row] = [line for line in said.splitlines() if "slot-s" in line]
    assert row.split()[-1] == str(found["interruptions"])
