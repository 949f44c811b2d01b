# SPDX-License-Identifier: Apache-2.0

"""A pool of fifty agents plays what happens to a big one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness import waiting
from tests.scale import report
from tests.scale import run as runs
from tests.services import process

OPTIONS = runs.Options(
    agents=50,
    slots=2,
    waiting=300,
    projects=40,
    clients=60,
    visits_per_s=20.0,
    leavers=5,
    seconds=1.0,
    processes=2,
    report_interval_s=0.5,
    report_timeout_s=2.0,
    lease_s=1.5,
    limit_s=waiting.LIMIT_S,
    commands=0,
)


@pytest.fixture(scope="module")
def played(
    service_workspace: process.Workspace, rabbitmq, mariadb
) -> Iterator[runs.Run]:
    """Play it, on the servers of the other tests."""
    rabbitmq.ensure_running()
    mariadb.ensure_running()
    with runs.staged(
        OPTIONS, service_workspace, rabbitmq, mariadb, print_nothing
    ) as run:
        run.play()
        yield run


def print_nothing(_text: str) -> None:
    pass


def test_nothing_is_lost(played: runs.Run) -> None:
    assert played.findings.problems == []


def test_clients_were_served(played: runs.Run) -> None:
    counts = played.findings.counts
    assert counts["used"] >= OPTIONS.agents * OPTIONS.slots
    assert counts["closed"] > 0


def test_a_new_leader_has_decided(played: runs.Run) -> None:
    times_s = played.findings.times_s
    assert (
        0
        < times_s["new leader: has the lease"]
        < times_s["new leader: has heard of all hosts"]
    )


def test_files_are_written(played: runs.Run, tmp_path) -> None:
    report.save(played, tmp_path)
    table = (tmp_path / "sizing.rst").read_text()
    assert "conductor (leader)" in table
    assert (tmp_path / "table.txt").read_text().endswith("problems: 0\n")
