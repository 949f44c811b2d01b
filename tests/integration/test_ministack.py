# SPDX-License-Identifier: Apache-2.0

"""The command tools/ministack, as a user runs it."""

import contextlib
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

import pymysql
import pytest

from tests.harness import waiting
from tests.integration.nova import harness
from tests.services import kept
from tests.services import nova
from tests.services import openstack
from tests.services import process

COMMAND = openstack.ROOT / "tools" / "ministack"
# Generous: it costs time only where something is wrong.
LIMIT_S = 500
#: As fpgapool makes them in Placement.
TRAIT = "CUSTOM_FPGAPOOL_AES"
SERVERS = {"epmd", "rabbitmq", "mariadb", "keystone", "glance"}

pytestmark = pytest.mark.long


class Tool:
    """The command, with a state of its own.

    :param state: what it is told to use.
    :param workspace: ends what is left if this run is killed.
    """

    def __init__(
        self, state: pathlib.Path, workspace: process.Workspace
    ) -> None:
        self.state = state
        self._workspace = workspace

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command; every server that it starts is watched."""
        result = subprocess.run(
            [COMMAND, *arguments, f"--state={self.state}"],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        for name, pid in self.pids().items():
            self._workspace.watch(name, pid)
        return result

    def expect(self, *arguments: str) -> str:
        """Run a command that has to succeed and return what it prints."""
        result = self.run(*arguments)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def pids(self) -> dict[str, int]:
        """Return the processes that it has recorded, by server."""
        return {
            path.stem: json.loads(path.read_text())["pid"]
            for path in (self.state / "run").glob("*.json")
        }

    def ports(self) -> dict[str, int]:
        """Return the ports that it has chosen, by purpose."""
        found: dict[str, int] = json.loads(
            (self.state / "ports.json").read_text()
        )
        return found

    def processes(self) -> set[int]:
        """Return all processes that are at home in its state."""
        return set(processes_in(self.state))

    def exports(self) -> dict[str, str]:
        """Return what a shell knows that has read its environment."""
        script = (
            f'eval "$({shlex.quote(str(COMMAND))} env'
            f' --state={shlex.quote(str(self.state))})"; env -0'
        )
        output = subprocess.run(
            ["bash", "-c", script],
            env={"PATH": process.SEARCH_PATH},
            stdout=subprocess.PIPE,
            text=True,
            timeout=LIMIT_S,
            check=True,
        ).stdout
        return dict(line.split("=", 1) for line in output.split("\0")[:-1])


def processes_in(directory: pathlib.Path) -> Iterator[int]:
    """Find the processes whose directory is below one."""
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                home = pathlib.Path(os.readlink(entry / "cwd"))
            except OSError:
                # It has ended; what waits for its parent is no process.
                continue
            if home.is_relative_to(directory):
                yield int(entry.name)


@pytest.fixture(scope="module")
def tool(service_workspace: process.Workspace) -> Iterator[Tool]:
    """Give the command, with everything up."""
    made = Tool(service_workspace.path / "ministack", service_workspace)
    try:
        made.expect("up")
        yield made
    finally:
        made.run("down", "--wipe")


def test_up_says_where_everything_is(tool: Tool) -> None:
    printed = tool.expect("up")
    assert [line.split()[0] for line in printed.splitlines()] == [
        "rabbitmq",
        "mariadb",
        "keystone",
        "glance",
    ]
    for purpose in ("rabbitmq", "mariadb", "keystone", "glance"):
        assert f":{tool.ports()[purpose]}" in printed


def test_env_is_what_the_client_of_openstack_needs(tool: Tool) -> None:
    answer = subprocess.run(
        [openstack.program("openstack"), "token", "issue", "-f", "json"],
        env=tool.exports(),
        stdout=subprocess.PIPE,
        timeout=LIMIT_S,
        check=True,
    ).stdout
    assert {"id", "project_id", "user_id"} <= set(json.loads(answer))


def test_env_is_what_fpgapool_needs(tool: Tool) -> None:
    exports = tool.exports()
    subprocess.run(
        [
            sys.executable,
            "-m",
            "fpgapool.cmd.manage",
            f"--config-file={exports['FPGAPOOL_CONFIG']}",
            "db",
            "sync",
        ],
        stdout=subprocess.DEVNULL,
        timeout=LIMIT_S,
        check=True,
    )
    assert "sessions" in tables(tool)


def tables(tool: Tool) -> set[str]:
    """Return the tables of fpgapool's own database."""
    with database(tool) as cursor:
        cursor.execute("SHOW TABLES FROM fpgapool")
        return {row[0] for row in cursor.fetchall()}


@contextlib.contextmanager
def database(tool: Tool) -> Iterator[pymysql.cursors.Cursor]:
    """Give what asks its databases."""
    with pymysql.connect(
        host=process.LOOPBACK,
        port=tool.ports()["mariadb"],
        user="fpgapool",
        password="fpgapool",
    ) as connection:
        with connection.cursor() as cursor:
            yield cursor


@contextlib.contextmanager
def bystander(directory: pathlib.Path) -> Iterator[subprocess.Popen[bytes]]:
    """Give a process that nobody has to end."""
    with subprocess.Popen(
        ["sleep", "1000"], cwd=directory, start_new_session=True
    ) as made:
        try:
            yield made
        finally:
            made.kill()


def accounts(tool: Tool) -> openstack.Accounts:
    """Give what makes users at its Keystone."""
    port = tool.ports()["keystone"]
    return openstack.Accounts(f"http://{process.LOOPBACK}:{port}/v3")


def kill(tool: Tool, name: str) -> None:
    """End the leader of a server as a crash would."""
    survivor = kept.Survivor(tool.pids()[name])
    survivor.send_signal(signal.SIGKILL)
    survivor.wait(LIMIT_S)
    survivor.close()


def test_up_brings_back_what_was_killed_with_its_data(tool: Tool) -> None:
    made = accounts(tool).create_project("before-the-crash")
    before = tool.pids()
    # RabbitMQ's leader is a shell: the broker itself is left behind.
    killed = {"keystone", "rabbitmq"}
    for name in killed:
        kill(tool, name)
    tool.expect("up")
    after = tool.pids()
    assert {one for one in SERVERS if after[one] != before[one]} == killed
    assert accounts(tool).create_project(made.name) == made


def test_down_ends_what_up_has_started_and_up_finds_its_data(
    tool: Tool,
) -> None:
    made = accounts(tool).create_project("before-down")
    ports = tool.ports()
    with bystander(tool.state) as stranger:
        tool.expect("down")
        assert stranger.poll() is None
        assert tool.processes() == {stranger.pid}
    assert tool.pids() == {}
    assert all(process.port_is_free(port) for port in ports.values())
    assert tool.expect("down") == ""
    tool.expect("up", "--services=keystone")
    assert set(tool.pids()) == SERVERS - {"glance"}
    assert tool.ports() == ports
    assert accounts(tool).create_project("before-down") == made


def test_directory_of_something_else_is_refused(
    tmp_path: pathlib.Path, service_workspace: process.Workspace
) -> None:
    (tmp_path / "precious").touch()
    tool = Tool(tmp_path, service_workspace)
    assert "neither empty nor" in tool.run("up").stderr
    assert "nothing was started" in tool.expect("down", "--wipe")
    assert tool.run("env").returncode == 1
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


class Cloud:
    """A ministack with Nova, as Keystone, Nova and Placement describe it."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool

    def up(self) -> None:
        """Bring it up, and have all computes known to Placement."""
        self._tool.expect("up", "--services=nova")
        waiting.wait_until(
            lambda: len(self.inventory()["providers"]) >= nova.COMPUTES,
            "Placement knows the computes",
            harness.LIMIT_S,
        )

    @contextlib.contextmanager
    def _connection(self) -> Iterator[Any]:
        known = accounts(self._tool)
        made = harness.connect(known.admin(), known.auth_url)
        with contextlib.closing(made):
            yield made

    def use(self) -> None:
        """Leave there what fpgapool leaves: an address, a board, a trait."""
        accounts(self._tool).register_endpoint("http://127.0.0.1:9")
        with self._connection() as connection:
            connection.placement.create_resource_provider(name="board")
            connection.placement.create_trait(TRAIT)

    def inventory(self) -> dict[str, list[Any]]:
        """Return all that may be there twice, or be left over, by kind."""
        with self._connection() as connection:
            types = {
                one.id: one.type for one in connection.identity.services()
            }
            return {
                "services": sorted(types.values()),
                "endpoints": sorted(
                    (types[one.service_id], one.interface, one.region_id)
                    for one in connection.identity.endpoints()
                ),
                "roles": sorted(
                    one.name for one in connection.identity.roles()
                ),
                "users": sorted(
                    one.name for one in connection.identity.users()
                ),
                "daemons": sorted(
                    (one.binary, one.host)
                    for one in connection.compute.services()
                ),
                "providers": sorted(
                    one.name
                    for one in connection.placement.resource_providers()
                ),
                "traits": [
                    one.name
                    for one in connection.placement.traits(
                        name="startswith:CUSTOM_"
                    )
                ],
                "cells": self._column("name", "cell_mappings"),
                "hosts": self._column("host", "host_mappings"),
            }

    def _column(self, column: str, table: str) -> list[str]:
        query = f"SELECT {column} FROM nova_api.{table}"
        with database(self._tool) as cursor:
            cursor.execute(query)
            return sorted(row[0] for row in cursor.fetchall())


def assert_gone(tool: Tool, ports: Iterable[int]) -> None:
    """Check that nothing runs, and nothing listens."""
    assert tool.pids() == {}
    assert tool.processes() == set()
    assert all(process.port_is_free(port) for port in ports)
    assert str(tool.state) not in pathlib.Path("/proc/net/unix").read_text()


@pytest.mark.timeout(5 * LIMIT_S)
def test_nova_comes_back_as_it_was_and_begins_anew_after_a_wipe(
    service_workspace: process.Workspace,
) -> None:
    tool = Tool(service_workspace.path / "ministack-nova", service_workspace)
    cloud = Cloud(tool)
    try:
        cloud.up()
        servers, ports = set(tool.pids()), tool.ports()
        fresh = cloud.inventory()
        for kind, names in fresh.items():
            assert len(set(names)) == len(names), kind
        assert fresh["cells"] == ["cell0", "cell1"]
        assert fresh["traits"] == []
        cloud.use()
        used = cloud.inventory()
        assert used["traits"] == [TRAIT]
        tool.expect("down")
        assert_gone(tool, ports.values())
        cloud.up()
        assert set(tool.pids()) == servers
        assert tool.ports() == ports
        assert cloud.inventory() == used
        tool.expect("down", "--wipe")
        assert_gone(tool, ports.values())
        assert not tool.state.exists()
        cloud.up()
        assert set(tool.pids()) == servers
        assert cloud.inventory() == fresh
    finally:
        tool.run("down", "--wipe")
