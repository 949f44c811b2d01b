# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-sim sweep`` in processes here and on a Dask cluster."""

import pathlib

import distributed
import pytest

from fpgapool.cmd import sim
from fpgapool.sim import errors
from fpgapool.sim.experiments import sweeps

# In the gate: tests/unit/sim/test_sweeps.py and test_command.py.
pytestmark = pytest.mark.long

SPECIFICATION = """
fixed: {hosts: 4, boards: 2, jobs-per-host: 3}
vary: {load: [0.5, 0.9]}
seeds: 2
strategies: [fifo, wra]
"""


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    made = tmp_path / "sweep.yaml"
    made.write_text(SPECIFICATION)
    return made


def sweep(path: pathlib.Path, name: str, *options: str) -> list[str]:
    """:returns: the lines of the results, sorted."""
    out = path.parent / name
    assert sim.main(["sweep", str(path), "--out", str(out), *options]) == 0
    return sorted((out / sweeps.RESULTS).read_text().splitlines())


def test_a_sweep_that_was_interrupted_goes_on(
    path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = sweep(path, "whole", "--processes=2")
    assert len(whole) == 1 + 8
    said = capsys.readouterr().out
    assert "± " in said
    assert "8 runs" in said
    assert "wait p95" in " ".join(said.split())
    results = path.parent / "whole" / sweeps.RESULTS
    lines = results.read_text().splitlines(keepends=True)
    # Marked, so that it would be seen if they were done again.
    kept = [line.rpartition(",")[0] + ",77.5\n" for line in lines[1:4]]
    results.write_text("".join([lines[0], *kept, lines[4][:7]]))
    again = sweep(path, "whole", "--processes=1")
    assert len(again) == len(whole)
    assert sum(line.endswith(",77.5") for line in again) == 3
    assert len(set(again) & set(whole)) == 1 + 8 - 3


def test_on_a_dask_cluster(path: pathlib.Path) -> None:
    here = sweep(path, "here", "--processes=1")
    with distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address=None,
    ) as cluster:
        address = cluster.scheduler_address
        assert sweep(path, "there", f"--scheduler={address}") == here


def test_no_cluster_there(
    path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for address in ("tcp://127.0.0.1:1", "nonsense://x"):
        code = sim.main(
            [
                *("sweep", str(path), "--out", str(path.parent / "out")),
                *("--scheduler", address),
            ]
        )
        assert code == 2
        assert "no Dask scheduler answered" in capsys.readouterr().err


@pytest.mark.parametrize("scheduler", [False, True])
def test_jobs_that_would_wait_for_ever(
    path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    scheduler: bool,
) -> None:
    """Jobs of hosts without a board may go nowhere with ra."""
    path.write_text(
        SPECIFICATION.replace("wra", "ra").replace(
            "hosts: 4", "remote-limit: 0, hosts: 4"
        )
    )
    out = path.parent / "out"
    arguments = ["sweep", str(path), "--out", str(out)]
    if scheduler:
        with distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address=None,
        ) as cluster:
            address = cluster.scheduler_address
            code = sim.main([*arguments, "--scheduler", address])
    else:
        code = sim.main([*arguments, "--processes=1"])
    assert code == 2
    said = capsys.readouterr().err
    assert "jobs would wait forever" in said
    assert "load 0.5" in said
    assert errors.InputError.__name__ not in said
