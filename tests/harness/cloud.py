# SPDX-License-Identifier: Apache-2.0

"""A pool of real processes: conductors, agents and their workers."""

from __future__ import annotations

import configparser
import contextlib
import dataclasses
import itertools
import pathlib
import subprocess
import types
import typing
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

import yaml

from fpgapool.cmd import manage
from fpgapool.db import api as db_api
from fpgapool.db import migration
from fpgapool.objects import identity
from tests.harness import consistency
from tests.harness import door as doors
from tests.harness import processes
from tests.harness import waiting
from tests.services import process

PROJECT = "project-a"
OTHER_PROJECT = "project-b"

CHUNK_BYTES = 64 * 1024
WINDOW_CHUNKS = 8

_COMMAND_LIMIT_S = 60
_LOG_TAIL_LINES = 60

_cloud_numbers = itertools.count(1)

Options = Mapping[str, Mapping[str, object]]

#: What a host needs wherever it is.
_HOST_OPTIONS: Options = {
    "agent": {
        "data_address": process.LOOPBACK,
        "nic_bytes_per_s": 1_250_000_000,
    },
}

#: Time limits at which tests need not wait long.
_CONDUCTOR_OPTIONS: Options = {
    "conductor": {
        "report_timeout_s": 4,
        "lease_s": 2,
        # Where a test opens a session by hand, on a slow machine.
        "connect_timeout_s": 300,
        "resume_grace_s": 10,
        "resend_interval_s": 0.5,
        # Slots whose workers are killed too often come back soon.
        "self_test_after_s": 1,
        "self_test_max_s": 4,
    },
}

_AGENT_OPTIONS: Options = {
    "agent": {
        "report_interval_s": 0.5,
        "open_timeout_s": 10,
        "session_poll_interval_s": 1,
        "chunk_bytes": CHUNK_BYTES,
        "window_chunks": WINDOW_CHUNKS,
        # The clients of the tests do not come again, as the library does.
        "hello_timeout_s": 8,
        # What is left of a run that was killed ends by itself.
        "worker_orphan_s": 120,
    },
}


@dataclasses.dataclass(frozen=True)
class HostPlan:
    """A host of a cloud.

    :param slots: on its only board; 0 means that it has no board.
    :param tls: whether its workers encrypt what crosses the network.
    :param paced: whether accelerators have the rates of their profiles;
        otherwise they are as fast as they can be.
    """

    name: str
    slots: int = 2
    tls: bool = True
    shape: str = "medium"
    paced: bool = False


class Host:
    """A host: its agent, its workers and its front doors."""

    def __init__(
        self, plan: HostPlan, uuid: str, daemon: processes.Daemon
    ) -> None:
        self.plan = plan
        self.name = plan.name
        self.uuid = uuid
        self.agent = daemon
        self.state_dir = daemon.directory / "state"
        self.state_dir.mkdir()
        self._boards_path = daemon.directory / "boards" / "boards.yaml"
        self._boards_path.parent.mkdir()
        self.write_boards()

    def write_boards(
        self,
        *,
        programming_time_s: float = 0.0,
        power_cap_w: float | None = None,
    ) -> None:
        """Describe the board; the emulator notices changes.

        :param programming_time_s: how long another accelerator takes to be
            put into a slot.
        :param power_cap_w: what the slots may take; None: any power.
        """
        board = {
            "name": "board0",
            "shape": self.plan.shape,
            "slots": self.plan.slots,
            "programming_time_s": programming_time_s,
        }
        document = {
            "unlimited": not self.plan.paced,
            "boards": [board] if self.plan.slots else [],
        }
        if power_cap_w is not None:
            document["power_cap_w"] = power_cap_w
        # Replaced, not rewritten: workers read it at any time.
        fresh = self._boards_path.with_suffix(".new")
        fresh.write_text(yaml.safe_dump(document))
        fresh.replace(self._boards_path)

    @property
    def name_for_tenants(self) -> str:
        """What the API calls it in answers to the first project."""
        return f"host-{identity.host_hash(self.uuid, PROJECT)[:8]}"

    def socket_path(self, project_id: str = PROJECT) -> str:
        """Return the path of a project's front door."""
        return str(self.agent.directory / f"{project_id}.sock")

    def door(self, project_id: str = PROJECT) -> doors.Door:
        """Connect to a front door."""
        return doors.Door(self.socket_path(project_id))

    def options(self) -> Options:
        """Return what only this host's configuration says."""
        sockets = ",".join(
            f"{project}:{self.socket_path(project)}"
            for project in (PROJECT, OTHER_PROJECT)
        )
        return {
            "DEFAULT": {
                "host_uuid": self.uuid,
                "host_name": self.name,
                "state_path": self.state_dir,
            },
            "agent": {"front_door_sockets": sockets, "tls": self.plan.tls},
            "emulator": {"boards_file": self._boards_path},
        }

    def workers(self) -> list[processes.Worker]:
        """Return its worker processes."""
        return processes.find_workers(self.state_dir)

    def worker(self, slot: int) -> processes.Worker:
        """Return the worker of a slot."""
        (found,) = [one for one in self.workers() if one.slot == slot]
        return found

    def desks(self) -> list[processes.Desk]:
        """Return the processes of its groups' desks."""
        return processes.find_desks(self.state_dir)

    def wait_served(self) -> None:
        """Wait until the front door takes clients."""

        def connectable() -> bool:
            assert self.agent.running, self.agent.log_tail()
            self.door().close()
            return True

        waiting.wait_until(connectable, f"the front door of {self.name}")


class Cloud:
    """A pool of real processes; a context manager that ends them all.

    :param workspace: where it lives and who cleans up after it.
    :param transport_url: of an empty virtual host.
    :param conductors: how many; they stand by for each other.
    :param options: for all daemons, over the defaults.
    :param hurried: the defaults are those of this module, with short time
        limits; otherwise they are those that operators get.
    :param releases: of daemons that are not of the present one, by modules.
    :param variables: what all of them find in their environment.
    """

    def __init__(
        self,
        workspace: process.Workspace,
        transport_url: str,
        database_url: str,
        hosts: Iterable[HostPlan],
        *,
        conductors: int = 1,
        options: Options | None = None,
        hurried: bool = True,
        releases: Mapping[str, processes.Release] = types.MappingProxyType({}),
        variables: Mapping[str, str] = types.MappingProxyType({}),
    ) -> None:
        self.transport_url = transport_url
        self.database_url = database_url
        self.hurried = hurried
        prefix = f"c{next(_cloud_numbers)}"
        self.conductors = [
            processes.Daemon(
                f"{prefix}-conductor{number}",
                workspace,
                "fpgapool.cmd.conductor",
            )
            for number in range(conductors)
        ]
        self.hosts = {
            plan.name: Host(
                plan,
                f"{number:08x}-0000-4000-8000-000000000000",
                processes.Daemon(
                    f"{prefix}-{plan.name}", workspace, "fpgapool.cmd.agent"
                ),
            )
            for number, plan in enumerate(hosts, start=1)
        }
        for daemon in self.daemons():
            daemon.variables.update(variables)
            daemon.release = releases.get(daemon.module, daemon.release)
        self._write_configuration(options or {})
        self._database = db_api.Database(database_url)

    def _write_configuration(self, options: Options) -> None:
        conductor_defaults = _CONDUCTOR_OPTIONS if self.hurried else {}
        agent_defaults = _AGENT_OPTIONS if self.hurried else {}
        common: Options = {
            "DEFAULT": {"transport_url": self.transport_url},
            "database": {"connection": self.database_url},
        }
        for daemon in self.conductors:
            own = {"conductor": {"name": daemon.name}}
            _write(
                daemon.config_path,
                common,
                conductor_defaults,
                options,
                own,
                self.options_of(daemon),
            )
        for host in self.hosts.values():
            _write(
                host.agent.config_path,
                common,
                _HOST_OPTIONS,
                agent_defaults,
                options,
                host.options(),
                self.options_of(host.agent),
            )

    def options_of(self, daemon: processes.Daemon) -> Options:
        """Return what only one daemon is told, over everything else.

        For subclasses; called before anything is started.

        :param daemon: a conductor or an agent.
        """
        return {}

    # Life.

    def __enter__(self) -> typing.Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def start(self) -> None:
        """Make the tables, start everything and wait until it serves."""
        for host in self.hosts.values():
            host.agent.start()
        self._sync_database()
        for conductor in self.conductors:
            conductor.start()
        self.wait_ready()

    def _sync_database(self) -> None:
        conductor = self.conductors[0]
        if conductor.release is processes.PRESENT and not conductor.variables:
            # As the command does, which imports for longer than it works.
            migration.sync(self._database.engine)
            manage.add_missing_accelerators(self._database)
            return
        done = self.command("manage", "db", "sync")
        assert done.returncode == 0, done.stdout

    def command(
        self, name: str, *arguments: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of the operator's, of the first conductor's release.

        :param name: such as ``manage``, for ``fpgapool-manage``.
        """
        conductor = self.conductors[0]
        return subprocess.run(
            [
                *(conductor.release.python, "-m", f"fpgapool.cmd.{name}"),
                *("--config-file", str(conductor.config_path), *arguments),
            ],
            env=conductor.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_COMMAND_LIMIT_S,
            check=False,
        )

    def stop(self) -> None:
        """End all processes, also those that outlive their parents."""
        for daemon in self.daemons():
            daemon.kill()
        for host in self.hosts.values():
            processes.kill_children(host.state_dir)
        self._database.close()

    def daemons(self) -> Iterator[processes.Daemon]:
        """Return conductors and agents."""
        yield from self.conductors
        for host in self.hosts.values():
            yield host.agent

    @property
    def conductor(self) -> processes.Daemon:
        """The first of the conductors."""
        return self.conductors[0]

    def logs(self) -> Iterator[tuple[str, str]]:
        """Return name and last lines of each log, for failed tests."""
        for daemon in self.daemons():
            lines = daemon.log().splitlines()[-_LOG_TAIL_LINES:]
            yield daemon.name, "\n".join(lines)

    # Questions.

    def _serving_host(self) -> Host:
        return next(one for one in self.hosts.values() if one.agent.serving)

    def summary(self) -> dict[str, typing.Any]:
        """Return the pool as the conductor sees it.

        :raises OSError: if it cannot be asked now.
        """
        host = self._serving_host()
        with host.door() as door:
            try:
                return door.request("pool")["summary"]
            except doors.Refused as error:
                raise ConnectionError(error.code) from error

    def views(
        self, session_ids: Iterable[str]
    ) -> dict[str, dict[str, typing.Any]]:
        """Return what front doors say of sessions, by id.

        :param session_ids: the sessions, of any of the two projects.
        :raises OSError: if they cannot be asked now.
        """
        host = self._serving_host()
        found = {}
        with host.door() as door, host.door(OTHER_PROJECT) as other_door:
            for session_id in session_ids:
                for each in (door, other_door):
                    with contextlib.suppress(doors.Refused):
                        found[session_id] = each.request(
                            "get", session_id=session_id
                        )["session"]
        return found

    def state(self, session_id: str) -> str:
        """Return a session's state, as the conductor sees it."""
        view = self.views([session_id]).get(session_id)
        return "" if view is None else view["state"]

    def wait_session(self, session_id: str, *states: str) -> dict:
        """Wait until a session is in one of these states."""

        def view_if_there() -> dict[str, typing.Any] | None:
            view = self.views([session_id]).get(session_id)
            if view and view["state"] in states:
                return view
            assert not view or view["state"] not in doors.TERMINAL, view
            return None

        found = waiting.wait_until(
            view_if_there,
            lambda: (
                f"session {session_id} is {states}; it is"
                f" {self.state(session_id)}"
            ),
        )
        assert found is not None
        return found

    def snapshot(self) -> db_api.Snapshot:
        """Return what the database holds."""
        return self._database.load()

    def session_record(
        self, request_id: str, project_id: str = PROJECT
    ) -> db_api.SessionRecord | None:
        """Return the row of a request's session, None if there is none."""
        return self._database.find_session(project_id, request_id)

    def usage(self) -> list[db_api.UsageRecord]:
        """Return what projects have used on the last day of use."""
        return self._database.load().usage

    @property
    def database(self) -> db_api.Database:
        """What conductors share."""
        return self._database

    def lease(self) -> db_api.Lease:
        """Return who leads."""
        lease = self._database.read_lease()
        assert lease is not None
        return lease

    def lease_holder(self) -> str | None:
        """Return the name of the conductor that leads."""
        lease = self._database.read_lease()
        return None if lease is None else lease.holder

    def host_states(self) -> dict[str, bool]:
        """Return which hosts the conductor counts as up, by name."""
        return {host["name"]: host["up"] for host in self.summary()["hosts"]}

    # Waiting and checking.

    def wait_ready(self) -> None:
        """Wait until every host is up and every slot can be used."""
        for host in self.hosts.values():
            host.wait_served()
        waiting.wait_until(self._all_hosts_up, "a conductor knows all hosts")

        def ready() -> bool:
            usable = {
                host["name"]: sum(
                    slot["state"] != "faulty"
                    for device in host["devices"]
                    for slot in device["slots"]
                )
                for host in self.summary()["hosts"]
                if host["up"]
            }
            return usable == {
                name: host.plan.slots for name, host in self.hosts.items()
            }

        waiting.wait_until(ready, "all hosts are up and their slots usable")

    def _all_hosts_up(self) -> bool:
        # A question that is asked too early would wait for its time limit.
        for daemon in self.daemons():
            assert daemon.running, f"{daemon.name}: {daemon.log_tail()}"
        lines = [
            f"Host {one.name} ({one.uuid}) is up"
            for one in self.hosts.values()
        ]
        return any(
            all(line in conductor.present_log() for line in lines)
            for conductor in self.conductors
        )

    def check_consistent(
        self, *, live: int | None = 0, limit_s: float = waiting.LIMIT_S
    ) -> None:
        """Check that all parts of the pool say the same, and soon.

        :param live: how many sessions there are; None means any number.
        :raises AssertionError: with the differences.
        """
        consistency.check(self, live, limit_s)


def _write(path: pathlib.Path, *layers: Options) -> None:
    parser = configparser.ConfigParser(
        interpolation=None, default_section="no default section"
    )
    for layer in layers:
        for section, values in layer.items():
            if not parser.has_section(section):
                parser.add_section(section)
            for name, value in values.items():
                parser.set(section, name, str(value))
    with path.open("w") as file:
        parser.write(file)
