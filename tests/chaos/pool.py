# SPDX-License-Identifier: Apache-2.0

"""The pool that faults happen to: its processes and the ways between them."""

from __future__ import annotations

import configparser
import pathlib
import secrets
import time
import typing

from fpgapool.common import exception
from fpgapool.common.messaging import signing
from tests.chaos import budgets
from tests.chaos import faulty
from tests.chaos import grouptasks
from tests.chaos import jobs
from tests.chaos import judge
from tests.chaos import relay as relays
from tests.chaos import sandbox as sandboxes
from tests.functional.api import harness as api_harness
from tests.harness import cloud as clouds
from tests.harness import processes
from tests.harness import waiting
from tests.services import mariadb as mariadb_service
from tests.services import process
from tests.services import rabbitmq as rabbitmq_service

if typing.TYPE_CHECKING:
    from collections.abc import Iterator

#: Boards on three hosts; programs are on all of them, some without boards.
HOSTS = (
    clouds.HostPlan("board-a", slots=4, paced=True),
    clouds.HostPlan("board-b", slots=4, tls=False, paced=True),
    clouds.HostPlan("board-c", slots=4, tls=False, paced=True),
    clouds.HostPlan("plain-a", slots=0),
    clouds.HostPlan("plain-b", slots=0),
)

REPORT_TIMEOUT_S = 4
WORKER_TIMEOUT_S = 4
LEASE_S = 3

#: Room for the files of two bitstreams of the tenant, so that they are
#: fetched again and again.
_CACHE_BYTES = 3_000
_TEXT_LENGTH = 900

_OPTIONS: clouds.Options = {
    "conductor": {
        "report_timeout_s": REPORT_TIMEOUT_S,
        "lease_s": LEASE_S,
        "connect_timeout_s": jobs.CONNECT_TIMEOUT_S,
        "resume_grace_s": 4,
        "idle_timeout_s": jobs.IDLE_TIMEOUT_S,
        "resend_interval_s": 0.5,
    },
    "agent": {
        "open_timeout_s": 6,
        "worker_timeout_s": WORKER_TIMEOUT_S,
    },
    "bitstreams": {"signature_required": False},
    "budget": budgets.DEFAULT,
    "bitstream_cache": {
        "max_bytes": _CACHE_BYTES,
        "source": "file",
        "fetch_timeout_s": 5,
    },
    "oslo_messaging_rabbit": {"heartbeat_timeout_threshold": 4},
    "DEFAULT": {"debug": False},
}


def declaration_of(
    name: str, peak_bytes_per_s: float = 1e9
) -> dict[str, typing.Any]:
    return {
        "format_version": 1,
        "name": name,
        "description": "x" * _TEXT_LENGTH,
        "core": "aes",
        "params": {"key": jobs.TENANT_KEY, "iv": jobs.tenant_iv(name)},
        "stateless": True,
        "peak_bytes_per_s": peak_bytes_per_s,
    }


class Line:
    """How a daemon reaches the broker and the database.

    :param address: on which it finds them.
    """

    def __init__(
        self,
        address: str,
        rabbitmq: rabbitmq_service.RabbitMQ,
        mariadb: mariadb_service.MariaDB,
    ) -> None:
        self.broker = relays.Relay(address, rabbitmq.port)
        self.database = relays.Relay(address, mariadb.port)
        self._address = address

    def through(self, url: str, relay: relays.Relay, port: int) -> str:
        """Return a service's URL by this line."""
        return url.replace(
            f"@{process.LOOPBACK}:{port}/", f"@{self._address}:{relay.port}/"
        )

    def close(self) -> None:
        """Take it down."""
        self.broker.close()
        self.database.close()


class Api(api_harness.Server):
    """The REST API, with a line of its own."""

    def __init__(
        self,
        name: str,
        pool: Pool,
        workspace: process.Workspace,
        own: clouds.Options,
    ) -> None:
        super().__init__(
            name, pool, workspace, conductor_timeout_s=6, max_waiters=16
        )
        parser = configparser.ConfigParser(
            default_section="no default section", interpolation=None
        )
        parser.read(self.config_path)
        parser.read_dict(own)
        with self.config_path.open("w") as file:
            parser.write(file)


class Pool(clouds.Cloud):
    """Conductors, agents, workers and an API, each with its own lines."""

    def __init__(
        self,
        workspace: process.Workspace,
        rabbitmq: rabbitmq_service.RabbitMQ,
        mariadb: mariadb_service.MariaDB,
        conductors: int = 2,
    ) -> None:
        self.rabbitmq = rabbitmq
        self.mariadb = mariadb
        self.workspace = workspace
        self.lines: dict[str, Line] = {}
        #: The ids of groups, by their names, and since when there are some.
        self.groups: dict[str, str] = {}
        self._groups_since_s = 0.0
        #: By names of hosts; empty where the system does not allow them.
        self.sandboxes: dict[str, sandboxes.Sandbox] = {}
        pool_key = workspace.path / "pool.key"
        pool_key.write_text(secrets.token_hex(signing.KEY_BYTES))
        self._keys = signing.read(str(pool_key), signing.CONTROL, "")
        self._of_services = {"messages": {"pool_key_file": pool_key}}
        store_dir = workspace.path / "store"
        store_dir.mkdir(exist_ok=True)
        bitstreams = {**_OPTIONS["bitstreams"], "store_dir": store_dir}
        super().__init__(
            workspace,
            rabbitmq.transport_url(rabbitmq.create_vhost()),
            mariadb.database_url(mariadb.create_database()),
            HOSTS,
            conductors=conductors,
            options={**_OPTIONS, "bitstreams": bitstreams},
        )
        self.api = Api(
            f"{self.conductor.name}-api",
            self,
            workspace,
            {
                **self._line_options("api", process.LOOPBACK),
                **self._of_services,
            },
        )

    def faults_path(self, daemon: processes.Daemon) -> pathlib.Path:
        """Return where a daemon reads what is wrong in its world.

        :param daemon: a conductor or an agent.
        """
        return daemon.directory / "faults.json"

    def options_of(self, daemon: processes.Daemon) -> clouds.Options:
        """Return lines, addresses and disks of a daemon's own."""
        daemon.wrappers = [faulty.__name__]
        daemon.variables[faulty.VARIABLE] = str(self.faults_path(daemon))
        if daemon in self.conductors:
            line = self._line_options(daemon.name, process.LOOPBACK)
            return {**line, **self._of_services}
        (host,) = [
            host for host in self.hosts.values() if host.agent is daemon
        ]
        key = daemon.directory / "host.key"
        assert self._keys is not None
        key.write_text(self._keys.host_key(host.uuid))
        of_host: clouds.Options = {"messages": {"host_key_file": key}}
        if not sandboxes.available():
            line = self._line_options(daemon.name, process.LOOPBACK)
            return {**line, **of_host}
        sandbox = sandboxes.Sandbox(daemon.name, self.workspace)
        self.sandboxes[host.name] = sandbox
        sandbox.mount(host.state_dir)
        daemon.prefix = sandbox.prefix
        return {
            **self._line_options(daemon.name, sandbox.outside),
            **of_host,
            "agent": {"data_address": sandbox.inside},
        }

    def _line_options(self, name: str, address: str) -> clouds.Options:
        line = Line(address, self.rabbitmq, self.mariadb)
        self.lines[name] = line
        return {
            "DEFAULT": {
                "transport_url": line.through(
                    self.transport_url, line.broker, self.rabbitmq.port
                )
            },
            "database": {
                "connection": line.through(
                    self.database_url, line.database, self.mariadb.port
                )
            },
        }

    def start(self) -> None:
        """Start everything and bring the tenants' bitstreams."""
        super().start()
        self.api.start()
        for name in jobs.TENANT_BITSTREAMS:
            for token in api_harness.TOKEN, api_harness.OTHER_TOKEN:
                self.api.bring(declaration_of(name), token=token)
        self.api.bring(declaration_of(jobs.PACED, jobs.PACED_BYTES_PER_S))
        self._groups_since_s = time.monotonic()
        for name, accelerator in grouptasks.GROUPS.items():
            wanted = {
                "name": name,
                "accelerator": accelerator,
                "size": grouptasks.LEAST_MEMBERS,
                "min_size": grouptasks.LEAST_MEMBERS,
                "max_size": grouptasks.MOST_MEMBERS,
            }
            answer = self.api.ask("POST", "/v1/groups", body={"group": wanted})
            assert answer.status == 202, answer
            self.groups[name] = answer.document["group"]["id"]

    def stop(self) -> None:
        """End all processes and take down the lines."""
        self.api.kill()
        super().stop()
        for line in self.lines.values():
            line.close()
        for sandbox in self.sandboxes.values():
            sandbox.close()

    def all_daemons(self) -> Iterator[processes.Daemon]:
        """Return conductors, agents and the API."""
        yield from self.daemons()
        yield self.api

    def host_called(self, name: str) -> clouds.Host:
        """Return the host that a program names: the API calls it otherwise."""
        (found,) = (
            one
            for one in self.hosts.values()
            if name in (one.name, one.name_for_tenants)
        )
        return found

    def leader(self) -> processes.Daemon:
        """Return the conductor that leads; the first if nobody can tell."""
        try:
            holder = self.lease_holder()
        except exception.DatabaseError:
            holder = None
        named = [one for one in self.conductors if one.name == holder]
        return (named or self.conductors)[0]

    def show_group(self, name: str) -> dict[str, typing.Any]:
        """Return a group, with the names of its hosts."""
        path = f"/v1/groups/{self.groups[name]}"
        answer = self.api.ask("GET", path, api_harness.ADMIN_TOKEN)
        shown: dict[str, typing.Any] = answer.document["group"]
        return shown

    def check_members(self, limit_s: float) -> None:
        """Check that groups have the members that they shall have, and soon.

        :raises AssertionError: if they do not.
        """

        def complete() -> bool:
            found[:] = [self.show_group(name) for name in self.groups]
            return all(
                [member["state"] for member in group["members"]]
                == ["ACTIVE"] * group["size"]
                for group in found
            )

        found: list[dict[str, typing.Any]] = []
        waiting.wait_until(
            complete, lambda: f"groups have their members: {found}", limit_s
        )

    def end_groups(self, limit_s: float) -> list[str]:
        """Delete the groups, and wait until nothing is left of them.

        :returns: what is wrong with their accounts.
        :raises AssertionError: if something is left.
        """
        for group_id in self.groups.values():
            answer = self.api.ask("DELETE", f"/v1/groups/{group_id}")
            assert answer.status == 204, answer
        waiting.wait_until(
            lambda: not self.api.ask("GET", "/v1/groups").document["groups"],
            "no groups",
            limit_s,
        )
        lived_s = time.monotonic() - self._groups_since_s
        self.check_consistent(live=0, limit_s=limit_s)
        waiting.wait_until(
            lambda: not any(host.desks() for host in self.hosts.values()),
            "no desks",
            limit_s,
        )
        usage = self.api.ask("GET", "/v1/usage").document["usage"]
        return judge.charged(usage, lived_s)

    def audit(self) -> str:
        """Have the operator's command compare who says what.

        :returns: what it found; empty if all say the same.
        """
        done = self.command("manage", "audit")
        return f"audit: {done.stdout}" if done.returncode else ""

    def ensure_running(self) -> None:
        """Have everything run and reach each other again."""
        for service in (self.rabbitmq, self.mariadb, *self.all_daemons()):
            service.ensure_running()
        for line in self.lines.values():
            line.broker.resume()
            line.database.resume()
        for sandbox in self.sandboxes.values():
            sandbox.plug_in()
            sandbox.make_room()
        for daemon in self.daemons():
            self.faults_path(daemon).unlink(missing_ok=True)
