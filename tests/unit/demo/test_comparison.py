# SPDX-License-Identifier: Apache-2.0

"""A pool whose slots do not all work is not compared with anything."""

import contextlib
import io
import pathlib
from collections.abc import Iterator

import pytest
import rich.console

from demo import errors
from demo import execution
from demo import pool as pools
from demo.acts import comparison
from fpgapool import client

POOL = pools.Pool({"node1": "/door"}, {"node1": 1}, slots_per_board=2)


@contextlib.contextmanager
def running(
    directory: pathlib.Path, _plan: pools.Plan
) -> Iterator[pools.Pool]:
    directory.mkdir()
    yield POOL


def refuse(*_arguments: object, **_options: object) -> None:
    raise client.RequestRejected("CORE_FAILED", "it broke")


def test_a_slot_that_does_not_work_ends_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    ran: list[object] = []
    monkeypatch.setattr(pools, "running", running)
    monkeypatch.setattr(client, "acc_open", refuse)
    monkeypatch.setattr(execution, "run_jobs", lambda *told: ran.append(told))
    monkeypatch.setattr(comparison, "WORK_S", 0.01)
    console = rich.console.Console(file=io.StringIO())
    with pytest.raises(errors.DemoError, match="a slot failed") as caught:
        comparison.perform(comparison.Settings(out=tmp_path, seed=1), console)
    assert caught.value.code == errors.POOL_FAILED
    assert "CORE_FAILED" in caught.value.message
    assert not ran
