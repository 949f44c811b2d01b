# SPDX-License-Identifier: Apache-2.0

"""Reservations in scenarios."""

import json
import pathlib
import typing

import msgspec
import pytest

from fpgapool.cmd import sim
from fpgapool.sim import errors
from fpgapool.sim import simulation
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import schedules
from tests.unit.sim import test_outages

STRATEGIES = ("fifo", "sjf", "wra", "era", "auto", "affinity")


def reserve(
    start_s: float, end_s: float, slots: int = 1, **members: typing.Any
) -> scenarios.Reservation:
    wanted = {"accelerator": "aes", "project": "p", **members}
    return scenarios.Reservation(
        slots=slots, start_s=start_s, end_s=end_s, **wanted
    )


def make_scenario(
    jobs: list[scenarios.JobSpec],
    *reserved: scenarios.Reservation,
    **members: typing.Any,
) -> scenarios.Scenario:
    found = test_outages.make_scenario(jobs, **members)
    return msgspec.structs.replace(found, reservations=reserved)


def run(
    scenario: scenarios.Scenario, strategy: str = "fifo"
) -> dict[int, schedules.JobOutcome]:
    return {
        one.id: one
        for one in simulation.run(
            msgspec.structs.replace(
                scenario, strategies={strategy: scenarios.StrategyOptions()}
            ),
            strategy,
        )
    }


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_slot_is_its_tenants_from_start_to_end(strategy: str) -> None:
    scenario = make_scenario(
        [
            test_outages.make_job(0, 10.0),
            test_outages.make_job(1, 1.0, 0.5, tenant="p"),
            test_outages.make_job(2, 1.0, 6.0, tenant="p", accelerator="sha"),
        ],
        reserve(4.0, 8.0),
    )
    found = run(scenario, strategy)
    # Who waits at the start is served then, and the other goes on at the end.
    assert found[1].start_s == 4.0
    assert found[1].finish_s == 5.0
    assert found[0].preemptions == 1
    assert found[0].finish_s + found[2].finish_s == pytest.approx(
        14.0 + 15.0 if found[0].finish_s < found[2].finish_s else 9.0 + 15.0
    )


def test_what_is_being_programmed_leaves_too() -> None:
    scenario = make_scenario(
        [
            test_outages.make_job(0, 3.0, 0.5),
            test_outages.make_job(1, 1.0, 1.0, tenant="p"),
        ],
        reserve(1.0, 4.0),
        reconfiguration_s=1.0,
    )
    found = run(scenario)
    assert found[1].finish_s == 3.0
    assert found[0].finish_s == 7.0 or found[0].finish_s == 8.0


def test_recurring_ones_on_certain_hosts() -> None:
    day_s = 86400.0
    jobs = [
        test_outages.make_job(n, 1.0, n * day_s + 5.0, accelerator="sha")
        for n in range(3)
    ]
    scenario = make_scenario(
        jobs, reserve(0.0, 10.0, repeat="day", times=2, hosts=(0,))
    )
    found = run(scenario)
    assert [found[n].start_s - n * day_s for n in range(3)] == [10, 10, 5]


def test_what_does_not_fit_is_refused() -> None:
    jobs = [test_outages.make_job(0, 1.0)]
    scenario = make_scenario(jobs, reserve(4.0, 8.0), reserve(6.0, 9.0))
    with pytest.raises(errors.InputError, match="it fits from 8 s on"):
        run(scenario)


@pytest.mark.parametrize(
    ("members", "place"),
    [
        ({"end_s": 1.0}, r"reservations\[0\].end_s"),
        ({"accelerator": "none"}, r"reservations\[0\].accelerator"),
        ({"hosts": [1]}, r"reservations\[0\].hosts"),
        ({"times": 2}, r"reservations\[0\].times"),
        ({"slots": 0}, r"reservations\[0\].slots"),
        ({"repeat": "hour"}, r"reservations\[0\].repeat"),
        ({"end_s": 9e8, "repeat": "day"}, r"reservations\[0\].end_s"),
    ],
)
def test_nonsense_is_refused(
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    members: dict[str, object],
    place: str,
) -> None:
    scenario = make_scenario(
        [test_outages.make_job(0, 1.0)], reserve(2.0, 8.0)
    )
    document = json.loads(msgspec.json.encode(scenario))
    document["reservations"][0] |= members
    path = tmp_path / "s.json"
    path.write_text(json.dumps(document))
    assert sim.main(["run", str(path)]) != 0
    assert place.replace("\\", "") in capsys.readouterr().err


def test_chunks_have_none() -> None:
    scenario = make_scenario(
        [test_outages.make_job(0, 1.0)], reserve(2.0, 8.0)
    )
    with pytest.raises(errors.InputError, match="require --engine fluid"):
        simulation.run(scenario, "fifo", engine="chunk")
