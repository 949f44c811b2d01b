# SPDX-License-Identifier: Apache-2.0

"""Caps on the power of slots in the simulator."""

import functools
import pathlib
import typing

import pytest

from fpgapool.sim import errors
from fpgapool.sim import simulation
from fpgapool.sim.inputs import scenario_files
from tests.unit.sim import commands


@pytest.fixture
def most_at_once(tmp_path: pathlib.Path) -> typing.Callable[..., object]:
    """Return :func:`_most_at_once` for a directory."""
    return functools.partial(_most_at_once, tmp_path)


def _most_at_once(
    directory: pathlib.Path,
    power: dict[str, float] | None,
    platforms: dict[str, typing.Any] | None = None,
    **cluster: object,
) -> tuple[int, int]:
    """Run ten jobs; return the most in use together, and on one host."""
    document = commands.make_scenario(
        jobs=[commands.make_job(n, size_bytes=1e9) for n in range(10)]
    )
    document["cluster"] |= {"power": power, **cluster}
    document["cluster"]["accelerators"]["aes"]["platforms"] = platforms or {}
    path = commands.write(directory / "s.json", document)
    scenario = scenario_files.read(path)
    outcomes = simulation.run(scenario, "fifo", source="s.json")
    moments = [
        [
            one.host
            for one in outcomes
            if one.start_s <= other.start_s < one.finish_s
        ]
        for other in outcomes
    ]
    return (
        max(map(len, moments)),
        max(hosts.count(host) for hosts in moments for host in hosts),
    )


BOARD = {"host_w": 40.0, "device_idle_w": 20.0, "device_active_w": 60.0}


def test_jobs_wait_below_a_cap(most_at_once) -> None:
    assert most_at_once(BOARD) == (8, 4)
    # A slot takes a quarter of 40 W.
    assert most_at_once({**BOARD, "cap_w": 35.0}) == (3, 3)
    assert most_at_once({**BOARD, "cap_w": 1000.0}) == (8, 4)
    assert most_at_once({**BOARD, "host_cap_w": 25.0}) == (4, 2)
    both = {**BOARD, "host_cap_w": 20.0, "cap_w": 30.0}
    assert most_at_once(both) == (3, 2)


def test_platforms_say_what_a_slot_takes(most_at_once) -> None:
    platforms = {"any": {"peak_bytes_per_s": 1e9, "active_w": 15.0}}
    assert most_at_once({**BOARD, "cap_w": 35.0}, platforms) == (2, 2)


def test_a_cap_below_one_slot_is_refused(most_at_once) -> None:
    with pytest.raises(
        errors.InputError, match="below the 10 W that one slot"
    ):
        most_at_once({**BOARD, "cap_w": 9.9})
    with pytest.raises(errors.InputError, match=r"s\.json: .*host_cap_w"):
        most_at_once({**BOARD, "host_cap_w": 9.9})
