# SPDX-License-Identifier: Apache-2.0

"""Chains: all stages begin at the same time, at the pace of the slowest."""

from __future__ import annotations

import csv
import itertools
import json
import pathlib
import random
import typing

import msgspec
import pytest

from fpgapool.cmd import sim
from fpgapool.sim import errors
from fpgapool.sim import simulation
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.inputs import scenario_files
from fpgapool.sim.outcomes import results
from fpgapool.sim.outcomes import schedules
from tests.unit.sim import commands

FAST = 1e12
ACCELERATORS = {
    # Input/s, and bytes of output for each.
    "gzip": scenarios.AcceleratorProfile(1e9, 0.5),
    "aes": scenarios.AcceleratorProfile(0.25e9, 1.0),
    "sha": scenarios.AcceleratorProfile(2e9),
}
FINE = scenarios.StrategyOptions(
    preempt="fine", preempt_quantum_bytes=500_000_000
)


def make_job(number: int, **members: typing.Any) -> scenarios.JobSpec:
    return scenarios.JobSpec(
        **{
            "id": number,
            "host": 0,
            "size_bytes": 4e9,
            "arrival_s": 0.0,
            **members,
        }
    )


def make_chain(number: int = 0, **members: typing.Any) -> scenarios.JobSpec:
    """A chain that takes 8 s."""
    return make_job(number, **{"chain": ("gzip", "aes"), **members})


def make_scenario(
    jobs: list[scenarios.JobSpec],
    hosts: int = 1,
    slots: int = 2,
    strategy: str = "fifo",
    options: scenarios.StrategyOptions | None = None,
    **cluster: typing.Any,
) -> scenarios.Scenario:
    return scenarios.Scenario(
        format=scenarios.FORMAT,
        cluster=scenarios.Cluster(
            **{
                "hosts": hosts,
                "fpga_hosts": tuple(range(hosts)),
                "slots_per_device": slots,
                "dma_bytes_per_s": FAST,
                "nic_bytes_per_s": FAST,
                "accelerators": ACCELERATORS,
                **cluster,
            }
        ),
        strategies={strategy: options or scenarios.StrategyOptions()},
        jobs=jobs,
    )


def run(scenario: scenarios.Scenario) -> list[schedules.JobOutcome]:
    scenario_files.check(scenario, "file")
    return simulation.run(scenario, next(iter(scenario.strategies)))


def times_s(one: schedules.JobOutcome) -> typing.Any:
    return pytest.approx((one.start_s, one.finish_s))


@pytest.mark.parametrize("strategy", ["fifo", "sjf", "wra", "era", "auto"])
def test_the_slowest_stage_decides(strategy: str) -> None:
    scenario = make_scenario([make_chain()], strategy=strategy)
    [found] = run(scenario)
    assert times_s(found) == (0.0, 8.0)
    assert [one.accelerator for one in found.stages] == ["gzip", "aes"]
    assert {one.slot for one in found.stages} == {0, 1}


@pytest.mark.parametrize(
    ("chain", "took_s"),
    [
        # 4 GB at 0.25 GB/s, and what comes after is no slower.
        (("aes", "gzip"), 16.0),
        # 1 GB of it is left for aes.
        (("gzip", "gzip", "aes"), 4.0),
        (("gzip", "sha"), 4.0),
        (("aes",) * 8, 16.0),
    ],
)
def test_a_stage_gets_what_is_left(
    chain: tuple[str, ...], took_s: float
) -> None:
    [found] = run(make_scenario([make_chain(chain=chain)], slots=8))
    assert (0.0, took_s) == times_s(found)


def test_it_takes_as_long_as_its_slowest_stage_alone() -> None:
    """With links and pipes that others use, too."""
    cluster = {"nic_bytes_per_s": 1e9, "dma_bytes_per_s": 0.6e9}
    alone = make_scenario([make_job(0, accelerator="aes")], 2, **cluster)
    chain = make_scenario(
        [make_chain(chain=("aes", "aes"))],
        hosts=2,
        options=scenarios.StrategyOptions(slot_choice="index"),
        **cluster,
    )
    [one], [other] = run(alone), run(chain)
    assert times_s(one) == (other.start_s, other.finish_s)


def test_the_link_between_two_hosts_is_a_bottleneck() -> None:
    scenario = make_scenario(
        [make_chain(set_placement="spread")], hosts=2, nic_bytes_per_s=0.1e9
    )
    [found] = run(scenario)
    # 2 GB go to the second host, and 2 GB return at the same time.
    assert times_s(found) == (0.0, 20.0)
    used = results.evaluate(scenario, [found]).details.hosts
    sent = [host.utilisation.nic_egress for host in used]
    received = [host.utilisation.nic_ingress for host in used]
    assert sent == received == pytest.approx([1.0, 1.0])
    assert [host.utilisation.slots for host in used] == pytest.approx(
        [0.5, 0.5]
    )


def test_two_stages_share_the_pipe_of_their_board() -> None:
    [found] = run(make_scenario([make_chain()], dma_bytes_per_s=0.3e9))
    # 6 GB in all.
    assert times_s(found) == (0.0, 20.0)


def test_its_rate_leaves_the_rest_of_a_pipe_to_others() -> None:
    """Its first stage takes no more than the second one lets through."""
    jobs = [
        make_chain(set_placement="spread"),
        make_job(1, accelerator="gzip", size_bytes=8e9),
    ]
    scenario = make_scenario(jobs, hosts=2, dma_bytes_per_s=1.1e9)
    chain, other = run(scenario)
    assert times_s(chain) == (0.0, 8.0)
    assert other.host == chain.stages[0].host
    # 0.6 GB/s beside the chain's 0.5 GB/s, then 1 GB/s.
    assert times_s(other) == (0.0, 11.2)


def test_all_begin_when_the_last_slot_is_programmed() -> None:
    jobs = [
        make_job(1, accelerator="gzip"),
        make_chain(2, arrival_s=1.0),
        make_job(3, accelerator="gzip", arrival_s=2.0),
    ]
    first, chain, last = run(make_scenario(jobs, reconfiguration_s=3.0))
    assert times_s(first) == (3.0, 7.0)
    # One slot is programmed already; the other one was kept free.
    assert times_s(chain) == (10.0, 18.0)
    assert times_s(last) == (18.0, 22.0)
    assert {one.start_s for one in chain.stages} == {chain.start_s}


def test_a_chain_that_loses_a_slot_goes_on_with_the_rest() -> None:
    jobs = [
        make_chain(),
        make_job(1, accelerator="gzip", arrival_s=1.2, priority=1),
    ]
    scenario = make_scenario(jobs, options=FINE)
    chain, urgent = run(scenario)
    assert times_s(urgent) == (2.0, 6.0)
    assert times_s(chain) == (6.0, 12.0)
    assert chain.preemptions == 1
    [stay] = chain.stays
    assert (stay.start_s, stay.finish_s) == pytest.approx((0.0, 2.0))
    assert stay.done_bytes == 1e9
    gzip, aes = chain.stages
    # The other stage has kept its slot all the time.
    assert [one.finish_s for one in gzip.stays] == pytest.approx([2.0])
    assert [one.finish_s for one in aes.stays] == pytest.approx([6.0])
    assert (aes.slot, aes.start_s) == (aes.stays[0].slot, gzip.start_s)
    found = results.evaluate(scenario, [chain, urgent]).details
    assert found.kinds["chains"].wait_mean_s == pytest.approx(4.0)
    assert found.kinds["chains"].took_mean_s == pytest.approx(8.0)
    assert found.utilisation.slots == pytest.approx(1.0)


def test_the_stage_that_lost_its_slot_returns_before_a_due_set() -> None:
    """The set would wait for the other stage's slot for ever."""
    jobs = [
        make_chain(),
        make_job(1, accelerator="gzip", arrival_s=1.2, priority=1),
        *(
            make_job(number, accelerator="sha", arrival_s=1.5, set_id="pair")
            for number in (2, 3)
        ),
    ]
    chain, _, *pair = run(make_scenario(jobs, options=FINE))
    assert times_s(chain) == (6.0, 12.0)
    assert [one.start_s for one in pair] == pytest.approx([12.0, 12.0])


@pytest.mark.parametrize("reconfiguration_s", [0.0, 3.0])
@pytest.mark.parametrize("kind", ["chain", "set"])
def test_a_reservation_takes_a_slot(
    kind: str, reconfiguration_s: float
) -> None:
    """Also while slots are programmed: then all are given back."""
    jobs = [make_chain(1)]
    if kind == "set":
        jobs = [
            make_job(number, accelerator="gzip", set_id="a", size_bytes=8e9)
            for number in (1, 2)
        ]
    reserved = scenarios.Reservation("sha", 1, 2.0, 5.0, hosts=(1,))
    scenario = msgspec.structs.replace(
        make_scenario(
            jobs, hosts=2, slots=1, reconfiguration_s=reconfiguration_s
        ),
        reservations=(reserved,),
    )
    found = run(scenario)
    # 2 s of 8 were done, or nothing.
    end_s = 5.0 + 8.0 + (3.0 if reconfiguration_s else -2.0)
    assert max(one.finish_s for one in found) == pytest.approx(end_s)
    assert sum(one.preemptions for one in found) == (not reconfiguration_s)


def _at_random(seed: int) -> list[scenarios.JobSpec]:
    """Chains, sets and single jobs of several priorities."""
    chooser = random.Random(seed)
    jobs: list[scenarios.JobSpec] = []
    arrival_s = 0.0
    while len(jobs) < 120:
        arrival_s += chooser.expovariate(0.7)
        one = make_job(
            len(jobs),
            host=chooser.choice([None, 0, 1, 2]),
            arrival_s=arrival_s,
            size_bytes=chooser.uniform(1e8, 4e9),
            accelerator=chooser.choice(["gzip", "aes", "sha"]),
        )
        kind = chooser.choices(["single", "set", "chain"], (12, 1, 6))[0]
        if kind == "single":
            urgent = chooser.choice([0, 1])
            one = msgspec.structs.replace(one, priority=urgent)
        if kind == "chain":
            names = chooser.choices(["gzip", "aes"], k=chooser.randint(2, 4))
            placement = chooser.choice([None, None, "same_board"])
            one = msgspec.structs.replace(
                one,
                accelerator="",
                chain=tuple(names),
                set_placement=placement,
            )
        jobs.append(one)
        if kind == "set":
            jobs[-1] = msgspec.structs.replace(one, set_id=f"s{one.id}")
            jobs.append(msgspec.structs.replace(jobs[-1], id=one.id + 1))
    return jobs


@pytest.mark.parametrize("strategy", ["fifo", "wra", "auto", "edf"])
@pytest.mark.parametrize("seed", range(3))
def test_what_holds_for_all_chains(strategy: str, seed: int) -> None:
    scenario = make_scenario(
        _at_random(seed),
        hosts=3,
        slots=4,
        strategy=strategy,
        options=FINE,
        nic_bytes_per_s=0.5e9,
        dma_bytes_per_s=1e9,
    )
    outcomes = run(scenario)
    held: dict[tuple[int | None, int | None], list[tuple[float, float]]] = {}
    lost = 0
    for job, one in zip(scenario.jobs, outcomes, strict=True):
        for each in one.stages or (one,):
            for stay in each.stays:
                held.setdefault((stay.host, stay.slot), []).append(
                    (stay.start_s, stay.finish_s)
                )
            held.setdefault((each.host, each.slot), []).append(
                (each.start_s, one.finish_s)
            )
        if job.chain is None:
            continue
        ratios = scenario.cluster.stage_ratios(job)
        least_s = max(
            job.size_bytes * ratio / ACCELERATORS[name].peak_bytes_per_s
            for name, ratio in zip(job.chain, ratios, strict=False)
        )
        assert one.worked_s >= least_s * (1 - 1e-9)
        lost += one.preemptions
        for stage, ratio in zip(one.stages, ratios, strict=False):
            assert len(stage.stays) == len(one.stays)
            for stay, whole in zip(stage.stays, one.stays, strict=True):
                assert stay.done_bytes == pytest.approx(
                    whole.done_bytes * ratio, abs=2 + ratio
                )
        if job.set_placement is not None and not one.preemptions:
            assert len({stage.host for stage in one.stages}) == 1
    assert lost > 0
    # A slot has one holder at a time.
    for times in held.values():
        times.sort()
        for (_, end_s), (start_s, _) in itertools.pairwise(times):
            assert start_s >= end_s - 1e-6


def test_budgets_count_each_stage() -> None:
    """The budget of 10 slot-seconds is used up after 5 s of two slots."""
    scenario = msgspec.structs.replace(
        make_scenario([make_chain(tenant="t"), make_chain(1, tenant="t")]),
        budgets={"t": scenarios.Budget(period_s=100.0, slot_s=10.0)},
    )
    first, second = run(scenario)
    assert times_s(first) == (0.0, 8.0)
    assert times_s(second) == (100.0, 108.0)


def test_results_tell_chains_and_sets_apart(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = make_scenario(
        [
            make_chain(),
            make_job(1, accelerator="gzip", arrival_s=1.0),
            make_job(2, accelerator="sha", arrival_s=1.0, set_id="s"),
            make_job(3, accelerator="sha", arrival_s=1.0, set_id="s"),
        ],
        power=scenarios.Power(device_active_w=2.0),
    )
    source, output = tmp_path / "s.json", tmp_path / "o.json"
    scenario_files.write(scenario, source)
    assert scenario_files.read(source) == scenario
    pictures = tmp_path / "pictures"
    assert (
        sim.main(
            ["run", f"{source}", f"--output={output}", f"--plot={pictures}"]
        )
        == 0
    )
    said = capsys.readouterr().out
    assert "Sets and chains" in said
    document = json.loads(output.read_text())
    kinds = document["details"]["fifo"]["kinds"]
    assert {name: one["count"] for name, one in kinds.items()} == {
        "single": 1,
        "sets": 1,
        "chains": 1,
    }
    assert kinds["chains"]["took_p95_s"] == pytest.approx(8.0)
    assert kinds["single"]["wait_mean_s"] == pytest.approx(7.0)
    chain = document["results"]["fifo"]["jobs"][0]
    assert [one["accelerator"] for one in chain["stages"]] == ["gzip", "aes"]
    # Two slots, each with half of the board's power, for 8 s.
    assert chain["energy_j"] == pytest.approx(16.0)
    table = tmp_path / "o.csv"
    assert sim.main(["run", f"{source}", f"--output={table}"]) == 0
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["accelerator"] for row in rows] == [
        "gzip + aes",
        "gzip",
        "sha",
        "sha",
    ]
    assert [row["set_id"] for row in rows] == ["", "", "s", "s"]


# -- bad input -------------------------------------------------------------


def _job(**members: typing.Any) -> dict[str, typing.Any]:
    job = {
        "id": 0,
        "host": 0,
        "size_bytes": 1e9,
        "arrival_s": 0,
        "chain": ["aes", "sha"],
        **members,
    }
    return {name: value for name, value in job.items() if value is not None}


BAD: dict[str, tuple[dict[str, typing.Any], str]] = {
    "one stage": (
        _job(chain=["aes"]),
        "jobs[0].chain: has 1 stages; a chain has 2 to 8",
    ),
    "no stage": (_job(chain=[]), "jobs[0].chain: has 0 stages"),
    "nine": (
        _job(chain=["aes"] * 9),
        "jobs[0].chain: has 9 stages; a chain has 2 to 8",
    ),
    "unknown": (
        _job(chain=["aes", "nothing"]),
        "jobs[0].chain[1]: unknown accelerator 'nothing'; known accelerators:"
        " aes, sha",
    ),
    "no output": (
        _job(chain=["aes", "sha", "aes"]),
        "jobs[0].chain[1]: 'sha' returns no data (return_ratio 0), so it can "
        "only be the last stage",
    ),
    "slots": (
        _job(chain=["aes", "aes", "aes"]),
        "jobs[0].chain: needs 3 slots at the same time; there are 2 for jobs",
    ),
    "board": (
        _job(set_placement="same_board"),
        "jobs[0].chain: needs 2 slots of one board; none has more than 1 for"
        " jobs",
    ),
    "both": (
        _job(accelerator="aes"),
        "jobs[0].accelerator: cannot be combined with chain",
    ),
    "neither": (
        _job(chain=None),
        "jobs[0].accelerator: is required, unless it is a chain",
    ),
    "set": (_job(set_id="s"), "jobs[0].set_id: cannot be combined"),
    "claim": (
        _job(claimed_bytes=1e9),
        "jobs[0].claimed_bytes: cannot be combined with chain",
    ),
}


@pytest.mark.parametrize(("job", "message"), BAD.values(), ids=BAD)
def test_bad_chains(
    job: dict[str, typing.Any],
    message: str,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    scenario = commands.make_scenario(jobs=[job])
    scenario["cluster"]["slots_per_device"] = 1
    assert commands.complaint(capsys, tmp_path, scenario).startswith(message)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"outages": (scenarios.Outage(0, 1.0),)}, "outages: cannot be"),
        ({}, "cluster.cores_per_host: cannot be combined with chains"),
        ({}, "cluster.heartbeat_s: cannot be combined with chains"),
    ],
)
def test_what_chains_cannot_be_combined_with(
    members: dict[str, typing.Any], message: str
) -> None:
    cluster = {
        name: 1
        for name in ("cores_per_host", "heartbeat_s")
        if name in message
    }
    scenario = make_scenario([make_chain()], **cluster)
    with pytest.raises(errors.InputError) as caught:
        scenario_files.check(
            msgspec.structs.replace(scenario, **members), "file"
        )
    assert str(caught.value).startswith(f"file: {message}")


def test_chunks_do_not_flow_through_chains() -> None:
    with pytest.raises(errors.InputError) as caught:
        simulation.run(make_scenario([make_chain()]), "fifo", engine="chunk")
    assert "jobs[0].chain: chains require --engine fluid" in str(caught.value)
