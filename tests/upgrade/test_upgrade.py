# SPDX-License-Identifier: Apache-2.0

"""Services are exchanged one by one, and nobody notices."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterator

import pytest

from tests.harness import releases
from tests.services import mariadb as mariadb_service
from tests.services import process
from tests.services import rabbitmq as rabbitmq_service
from tests.services import stack as stacks
from tests.upgrade import pool as pools
from tests.upgrade import run as runs

# In the gate: tests/unit/recorded.
pytestmark = pytest.mark.long

_LIMIT_S = 1800


@pytest.fixture(scope="module")
def stack(
    service_workspace: process.Workspace,
    rabbitmq: rabbitmq_service.RabbitMQ,
    mariadb: mariadb_service.MariaDB,
) -> stacks.Stack:
    """Give Keystone, running."""
    made = stacks.Stack(service_workspace, rabbitmq, mariadb)
    made.start(["keystone"])
    return made


@pytest.fixture(scope="module")
def people(stack: stacks.Stack) -> pools.People:
    """Give two projects."""
    personas = stack.accounts.create_personas("upgrade")
    member, stranger, admin = (
        stack.accounts.token(one)
        for one in (personas.member, personas.stranger, personas.admin)
    )
    return pools.People(
        member.project_id,
        member.text,
        stranger.project_id,
        stranger.text,
        admin.text,
    )


@pytest.fixture
def say(
    capsys: pytest.CaptureFixture[str],
) -> Iterator[object]:
    """Give what prints at once."""

    def print_now(text: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()

    return print_now


@pytest.mark.timeout(_LIMIT_S)
@pytest.mark.parametrize("database", ["mariadb", "postgresql"])
def test_upgrade_under_load(
    request: pytest.FixtureRequest,
    service_workspace: process.Workspace,
    transport_url: str,
    stack: stacks.Stack,
    people: pools.People,
    say,
    tmp_path: pathlib.Path,
    database: str,
) -> None:
    """And back, and again; see doc/source/install/upgrade.rst."""
    url = {"mariadb": "database_url", "postgresql": "postgresql_url"}
    old = releases.installed()
    with pools.Pool(
        service_workspace,
        transport_url,
        request.getfixturevalue(url[database]),
        stack.keystone,
        people,
        old,
    ) as pool:
        run = runs.Run(pool, old, say)
        try:
            run.play()
        finally:
            run.save(tmp_path)
            say(run.table(f"with {database}; logs are in {tmp_path}"))
    assert run.problems == []
