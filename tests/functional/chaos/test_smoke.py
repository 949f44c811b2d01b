# SPDX-License-Identifier: Apache-2.0

"""A minute of load and faults on a pool, always the same ones."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from fpgapool.vocabulary import budget
from fpgapool.vocabulary import codes
from tests.chaos import __main__ as command
from tests.chaos import budgets
from tests.chaos import faults
from tests.chaos import measure
from tests.chaos import run as runs
from tests.harness import cloud as clouds
from tests.services import process

# The limit is for a machine that has other work as well.
# In the gate: tests/world.
pytestmark = [pytest.mark.long, pytest.mark.alone]

OPTIONS = runs.Options(
    seed=31,
    # Room for two faults, whether or not the pool is soon as before.
    duration_s=50.0,
    clients=24,
    kinds=faults.named(
        [
            "worker-kill",
            "agent-restart",
            "leader-kill",
            "network-messages-lost",
        ]
    ),
    warm_up_s=3.0,
    calm_s=4.0,
    quiet_every=8,
    second_share=0.0,
    lasts_s=(2.0, 4.0),
    recovery_limit_s=10.0,
)


@pytest.fixture(scope="module")
def played(
    service_workspace: process.Workspace, rabbitmq, mariadb
) -> Iterator[runs.Run]:
    """Play it, on the servers of the other tests."""
    rabbitmq.ensure_running()
    mariadb.ensure_running()
    with command.staged(
        OPTIONS, service_workspace, rabbitmq, mariadb, print_nothing
    ) as run:
        run.play()
        yield run


def print_nothing(_text: str) -> None:
    pass


def test_all_that_must_hold_has_held(played: runs.Run) -> None:
    assert played.problems == []


def test_faults_happened_and_clients_were_served(played: runs.Run) -> None:
    rows = {row.title: row for row in played.rows()}
    assert rows[measure.NO_FAULT].times == 1
    assert len(rows) >= 3
    assert all(row.jobs for row in rows.values())
    done = [one for one in played.outcomes() if not one.code]
    assert {one.door for one in done} == {"socket", "api"}
    assert {one.stateless for one in done} == {True, False}


def test_budgets_were_looked_at_and_used(played: runs.Run) -> None:
    # After the warm-up, after the faults, and without groups; a leader is
    # killed meanwhile.
    assert len(played.books.looks) == 3
    assert played.books.takeovers >= 1
    rows = {
        (row.project_id, row.unit): row
        for row in budgets.rows(played.books.looks)
    }
    for project_id in clouds.PROJECT, clouds.OTHER_PROJECT:
        for unit in budget.RESOURCES:
            row = rows[project_id, unit]
            assert row.charged > 0
            assert 1 - budgets.MOST_WRONG <= row.least <= row.most
            assert row.most <= 1 + budgets.MOST_WRONG
    # With this seed, neighbours use up what they have.
    assert rows[clouds.OTHER_PROJECT, "slot_s"].action == budget.FINISH
    refused = [
        one.neighbour
        for one in played.outcomes()
        if one.code == codes.BUDGET_EXHAUSTED
    ]
    assert refused
    assert all(refused)
    assert played.got_bytes() > 0


def test_files_are_written(played: runs.Run, tmp_path) -> None:
    rows = runs.save(played, tmp_path)
    document = json.loads((tmp_path / "results.json").read_text())
    assert document["seed"] == OPTIONS.seed
    assert len(document["faults"]) == len(rows)
    table = (tmp_path / "table.txt").read_text()
    assert all(row.title in table for row in rows)
    assert {one["unit"] for one in document["budgets"]} == {*budget.RESOURCES}
    assert "Charged ÷ used" in table
    logs = {path.name for path in (tmp_path / "logs").iterdir()}
    assert {"rabbitmq.log", "mariadb.log"} < logs
