# SPDX-License-Identifier: Apache-2.0

"""What is seen of a run, added up into bins."""

import pathlib

import numpy as np
import pytest

from fpgapool.sim import simulation
from fpgapool.sim.inputs import scenario_files
from fpgapool.sim.plots import observation
from tests.unit.sim import commands


@pytest.mark.parametrize(
    ("engine", "rates_hold"),
    [("fluid", True), ("fluid", False), ("chunk", False)],
)
@pytest.mark.parametrize("bins", [2, 10, 400])
def test_bytes_and_times_add_up(
    engine: str, bins: int, rates_hold: bool
) -> None:
    """Whatever the bins are, and however often an engine changes rates."""
    scenario = scenario_files.read(commands.LARGEST_CASE)
    observer = observation.Observer(scenario, rates_hold=rates_hold, bins=bins)
    outcomes = simulation.run(scenario, "wra", engine=engine, watcher=observer)
    course = observer.course()
    end_s = max(each.finish_s for each in outcomes)
    lengths_s = np.full(course.busy_slots.size, course.bin_s)
    lengths_s[-1] = end_s - course.bin_s * (lengths_s.size - 1)
    assert 0 < lengths_s[-1] <= course.bin_s * (1 + 1e-9)
    assert lengths_s.size <= bins
    busy_s = sum(each.finish_s - each.start_s for each in outcomes)
    assert course.busy_slots @ lengths_s == pytest.approx(busy_s)
    sizes = {job.id: job.size_bytes for job in scenario.jobs}
    for rates, local in (
        (course.local_bytes_per_s, True),
        (course.remote_bytes_per_s, False),
    ):
        carried = sum(
            sizes[each.id] for each in outcomes if each.local == local
        )
        assert rates @ lengths_s == pytest.approx(carried)


def test_by_hand(tmp_path: pathlib.Path) -> None:
    """A slot works from 1 to 3 s at 1 GB/s."""
    content = commands.make_scenario(
        jobs=[commands.make_job(0, size_bytes=2e9, arrival_s=1.0)]
    )
    content["cluster"]["accelerators"]["aes"]["peak_bytes_per_s"] = 1e9
    scenario = scenario_files.read(
        commands.write(tmp_path / "s.json", content)
    )
    observer = observation.Observer(scenario, bins=4)
    simulation.run(scenario, "fifo", watcher=observer)
    course = observer.course()
    assert course.bin_s == 1.0
    assert course.busy_slots.tolist() == pytest.approx([0, 1, 1])
    assert course.local_bytes_per_s.tolist() == pytest.approx([0, 1e9, 1e9])
    assert not course.remote_bytes_per_s.any()


def test_mean_rates_where_they_change_between_calls() -> None:
    """Whatever was said at a call; a rate is never below 0."""
    scenario = scenario_files.read(commands.LARGEST_CASE)
    observer = observation.Observer(scenario, rates_hold=False)
    outcomes = simulation.run(
        scenario, "wra", engine="chunk", watcher=observer
    )
    course = observer.course()
    assert (course.local_bytes_per_s >= 0).all()
    assert (course.remote_bytes_per_s >= 0).all()
    [last] = sorted(outcomes, key=lambda each: each.finish_s)[-1:]
    [size] = [j.size_bytes for j in scenario.jobs if j.id == last.id]
    assert course.remote_bytes_per_s[-1] == pytest.approx(
        size / (last.finish_s - last.start_s)
    )
    assert not last.local
