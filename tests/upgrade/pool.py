# SPDX-License-Identifier: Apache-2.0

"""The pool whose services are exchanged: real ones, with keys and Keystone."""

from __future__ import annotations

import configparser
import dataclasses
import itertools
import secrets
import typing

from fpgapool.common.messaging import signing
from fpgapool.rpcapi import agent
from fpgapool.rpcapi import conductor
from tests.chaos import jobs
from tests.functional.api import harness as api_harness
from tests.harness import cloud as clouds
from tests.harness import processes
from tests.harness import waiting
from tests.services import process
from tests.unit.bitstreams import samples

if typing.TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Mapping

    from tests.services import keystone as keystone_service

#: The shelf is for sessions that wait: its board is out of use.
SHELF = "shelf"
SHELF_SHAPE = "large"
HOSTS = (
    clouds.HostPlan("board-a", slots=6, paced=True),
    clouds.HostPlan("board-b", slots=6, tls=False, paced=True),
    clouds.HostPlan(SHELF, slots=1, shape=SHELF_SHAPE),
    clouds.HostPlan("plain", slots=0),
)

#: As release 1.0.0 sends and understands messages.
PINS = {"agent": "1.0", "conductor": "1.0"}
#: With these, services send stamps and also accept messages without them.
BRIDGE = {"agent": agent.VERSION, "conductor": conductor.VERSION}
_PINS_SECTION = "upgrade_levels"

_OPTIONS: clouds.Options = {
    "conductor": {
        "connect_timeout_s": jobs.CONNECT_TIMEOUT_S,
        "resume_grace_s": 30,
        "idle_timeout_s": jobs.IDLE_TIMEOUT_S,
    },
}


@dataclasses.dataclass(frozen=True)
class People:
    """Who uses the pool: two projects in Keystone, and their tokens."""

    project_id: str
    token: str
    other_project_id: str
    other_token: str
    admin_token: str


class Pool(clouds.Cloud):
    """Two conductors, two servers of the API, four hosts.

    :param release: what it begins with.
    """

    def __init__(
        self,
        workspace: process.Workspace,
        transport_url: str,
        database_url: str,
        keystone: keystone_service.Keystone,
        people: People,
        release: processes.Release,
    ) -> None:
        self.people = people
        number = next(_numbers)
        directory = workspace.path / f"upgrade-{number}"
        directory.mkdir()
        self.signer = samples.Signer(directory / "trusted-keys")
        self.signer.trust()
        store_dir = directory / "store"
        store_dir.mkdir()
        self._pool_key = directory / "pool.key"
        self._pool_key.write_text(secrets.token_hex(signing.KEY_BYTES))
        self._keys = signing.read(str(self._pool_key), signing.CONTROL, "")
        super().__init__(
            workspace,
            transport_url,
            database_url,
            HOSTS,
            conductors=2,
            options={
                **_OPTIONS,
                "bitstreams": {
                    "signature_required": True,
                    "trusted_keys_dir": self.signer.directory,
                    "store_dir": store_dir,
                },
                "bitstream_cache": {"source": "file"},
                "keystone_authtoken": keystone.authtoken_options("fpgapool"),
            },
            # What operators have, where time limits are concerned.
            hurried=False,
        )
        self.apis = [
            api_harness.Server(
                f"upgrade-{number}-api{one}",
                self,
                workspace,
                auth_strategy="keystone",
            )
            for one in range(2)
        ]
        for daemon in self.all_daemons():
            daemon.release = release

    def options_of(self, daemon: processes.Daemon) -> clouds.Options:
        """Return keys, and the front doors of Keystone's projects."""
        if daemon in self.conductors:
            return {"messages": {"pool_key_file": self._pool_key}}
        (host,) = [one for one in self.hosts.values() if one.agent is daemon]
        assert self._keys is not None
        key = daemon.directory / "host.key"
        key.write_text(self._keys.host_key(host.uuid))
        sockets = {
            self.people.project_id: clouds.PROJECT,
            self.people.other_project_id: clouds.OTHER_PROJECT,
        }
        return {
            "messages": {"host_key_file": key},
            "agent": {
                "front_door_sockets": ",".join(
                    f"{project_id}:{host.socket_path(name)}"
                    for project_id, name in sockets.items()
                )
            },
        }

    def start(self) -> None:
        """Start everything."""
        super().start()
        for api in self.apis:
            api.start()

    def stop(self) -> None:
        """End all processes."""
        for api in self.apis:
            api.kill()
        super().stop()

    def all_daemons(self) -> Iterator[processes.Daemon]:
        """Return conductors, servers of the API, and agents."""
        yield from self.conductors
        yield from self.apis
        yield from (host.agent for host in self.hosts.values())

    @property
    def api(self) -> api_harness.Server:
        """A server of the API that runs."""
        return next(one for one in self.apis if one.running)

    def pin(self, pins: Mapping[str, str]) -> None:
        """Write into all files which messages services send.

        It has an effect when they are started next.

        :param pins: what ``[upgrade_levels]`` has; nothing of it if empty.
        """
        for daemon in self.daemons():
            parser = configparser.ConfigParser(
                default_section="no default section", interpolation=None
            )
            parser.read(daemon.config_path)
            parser.remove_section(_PINS_SECTION)
            if pins:
                parser[_PINS_SECTION] = pins
            with daemon.config_path.open("w") as file:
                parser.write(file)

    def exchange(
        self, daemon: processes.Daemon, release: processes.Release
    ) -> None:
        """Stop a service in order, and start that of a release."""
        daemon.stop()
        daemon.release = release
        daemon.start()
        self.wait_led()

    def wait_led(self) -> None:
        """Wait until all services run and the leader knows all hosts."""
        for host in self.hosts.values():
            host.wait_served()
        waiting.wait_until(
            lambda: (
                set(self.host_states().values()) == {True}
                and len(self.host_states()) == len(self.hosts)
            ),
            lambda: f"all hosts are up: {self.host_states()}",
        )


_numbers = itertools.count(1)
