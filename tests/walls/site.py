# SPDX-License-Identifier: Apache-2.0

"""A host of a victim, and an attacked process beside it.

A worker, a desk and a compiler are started as their agent or worker starts
them, but for the settings that name what is attacked.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import pty
import secrets
import shutil
import subprocess
import sys
import tempfile
import typing
from collections.abc import Callable
from collections.abc import Iterator

from fpgapool.common.channels import channel as channels
from tests.functional.groupdesk import harness as desks
from tests.functional.worker import harness as workers
from tests.harness import waiting
from tests.walls import attacks
from tests.walls import worker as attacked
from tests.walls.attacks import calls
from tests.walls.attacks import others

ROOT = pathlib.Path(__file__).parents[2]

#: An ordinary user, for tests that root runs; nobody else should be it.
ORDINARY = 64_199

_MIB = 1 << 20
#: What workers and desks may allocate.
MEMORY_BYTES = 4 << 30
#: What attempts without bound give up at. Private memory is not written to.
_AMOUNTS = {
    "memory_bytes": 64 << 30,
    "shared_bytes": 1024 * _MIB,
    "disk_bytes": 1024 * _MIB,
    "tasks": 600,
    "descriptors": 100_000,
}
_LINE_LIMIT_S = 120.0


def landlock_version() -> int:
    """Return the version of Landlock that the kernel has; 0: none."""
    ask_version = 1
    try:
        return calls.call("landlock_create_ruleset", None, 0, ask_version)
    except OSError:
        return 0


def can_run(user: int | None) -> bool:
    """Whether a user can read the interpreter and the code under test."""
    if user is None:
        return True
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", "import tests.walls"],
            env={"PYTHONPATH": str(ROOT)},
            cwd="/",
            user=user,
            group=user,
            extra_groups=[],
            capture_output=True,
            check=False,
        )
    except PermissionError:
        return False
    return done.returncode == 0


class Host:
    """The directories of a host and the processes of others on it.

    :param directory: empty; of the user.
    :param user: of all processes; None: the one of the tests.
    """

    def __init__(self, directory: pathlib.Path, user: int | None) -> None:
        self.directory = directory
        self.user = user
        self._password = f"planted-{secrets.token_hex(12)}"
        self._terminal, slave = pty.openpty()
        self.scene = _AMOUNTS | self._files() | {"terminal": os.ttyname(slave)}
        self._own(slave)
        self._victim = self.popen(
            "tests.walls.victim",
            str(directory / "run"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=self.with_password(),
        )
        self.scene |= self._ask_victim()

    def _files(self) -> dict[str, typing.Any]:
        """Plant what the agent, the host's users and others have."""
        state = self.directory / "state"
        planted = {
            "configuration": "etc/agent.conf",
            "home_file": "home/.ssh/id_ed25519",
            "other_file": "state/workers/board0.1/notes",
            "other_bitstream": "state/bitstreams/0123.bin",
            "database": "state/agent.db",
            "log": "log/agent.log",
        }
        for path in planted.values():
            file = self.directory / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"transport_url = rabbit://{self._password}@b/\n")
            file.chmod(0o600)
        for name in ("run", "state/workers/board0.0", "cwd", "tmp"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        scene = {
            name: str(self.directory / path) for name, path in planted.items()
        }
        return {
            **scene,
            "state_dir": str(state),
            "other_dir": str(state / "workers" / "board0.1"),
            "shared_dirs": [
                str(state),
                *("/tmp", "/var/tmp", "/dev/shm"),
            ],
            **self._set_user_id(),
        }

    def _set_user_id(self) -> dict[str, str]:
        """Make a program of root's that tells who it is."""
        if os.geteuid() != 0 or self.user is None:
            return {}
        path = self.directory / "tell-user"
        shutil.copy("/usr/bin/id", path)
        return {"set_user_id": str(path)}

    def _own(self, slave: int) -> None:
        if self.user is None:
            return
        os.fchown(slave, self.user, self.user)
        for path in (self.directory, *self.directory.rglob("*")):
            if path.name != "tell-user":
                os.chown(path, self.user, self.user)
        (self.directory / "tell-user").chmod(0o4755)

    def popen(
        self, module: str, *arguments: str, **options: typing.Any
    ) -> subprocess.Popen[typing.Any]:
        """Start a module as the host's user."""
        if self.user is not None:
            options |= {
                "user": self.user,
                "group": self.user,
                "extra_groups": [],
            }
        environment = {
            "PATH": os.defpath,
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(self.directory / "tmp"),
            "HOME": str(self.directory / "home"),
            **options.pop("env", {}),
        }
        return subprocess.Popen(
            [sys.executable, "-P", "-m", module, *arguments],
            cwd=self.directory / "cwd",
            env=environment,
            **options,
        )

    def with_password(self) -> dict[str, str]:
        """Return an environment as units have it that set variables."""
        return {"BROKER_PASSWORD": self._password}

    def _ask_victim(self) -> typing.Any:
        assert self._victim.stdout is not None
        return json.loads(self._victim.stdout.readline())

    def confirmed(self, attack: Callable[[], str]) -> str:
        """Return how an attack went, as its victim sees it, too."""
        before = self._signals()
        text = attack()
        if others.AWAITED in text and self._signals() == before:
            return f"{attacks.REFUSED}: no signal has come"
        return text

    def _signals(self) -> int:
        self._victim.stdin.write("\n")
        self._victim.stdin.flush()
        return self._ask_victim()

    def close(self) -> None:
        """End the victim; it must still be there."""
        self._victim.communicate(timeout=waiting.LIMIT_S)
        os.close(self._terminal)
        assert self._victim.returncode == 0, "the victim has been harmed"


@contextlib.contextmanager
def host(user: int | None) -> Iterator[Host]:
    """Give a host, in a directory with a short name."""
    with tempfile.TemporaryDirectory(prefix="fp-") as name:
        made = Host(pathlib.Path(name), user)
        try:
            yield made
        finally:
            made.close()


class Worker:
    """A worker in whose slot a session attacks."""

    def __init__(self, on: Host) -> None:
        self._host = on
        state = on.scene["state_dir"]
        self.settings = {
            "worker_id": "board0.0",
            "device": attacked.DEVICE,
            "slot": 0,
            "state_dir": state,
            "control_socket": f"{state}/w/board0.0.sock",
            "data_socket": f"{state}/w/board0.0.data.sock",
            "driver": "tests.walls.worker:AttackedDriver",
            "memory_bytes": MEMORY_BYTES,
            "driver_settings": {"scene": on.scene},
            "log_file": str(on.directory / "worker.log"),
        }
        self._start()

    def _start(self) -> None:
        self.process = self._host.popen(
            "fpgapool.agent.worker", json.dumps(self.settings)
        )
        self._agent = workers.AgentEnd(
            workers.dial(self.settings["control_socket"], self.process)
        )
        prepared = self._agent.prepare()
        sock = channels.connect_unix(self.settings["data_socket"])
        client = workers.Client(channels.PlainChannel(sock))
        self._client = client.hello(prepared)

    def outcome(self, name: str) -> str:
        """Have the session attack."""
        try:
            return run(self._client, name)
        except (workers.ErrorFrame, channels.ChannelClosed):
            status = self.process.wait(waiting.LIMIT_S)
            self._start()
            return f"{attacks.BOUNDED}: the worker ended, {status}"

    def close(self) -> None:
        """End the worker."""
        self._client.channel.close()
        self._agent.close()
        self.process.kill()
        self.process.wait()


def run(
    client: workers.Client,
    name: str,
    changes: dict[str, typing.Any] | None = None,
) -> str:
    """Have a session attack; return how it went.

    :param changes: of the scene.
    """
    wanted = {"name": name, "scene": changes or {}}
    return client.run(json.dumps(wanted).encode()).decode()


class Desk:
    """A desk that attacks."""

    def __init__(self, on: Host) -> None:
        self._host = on
        self._start()

    def _start(self) -> None:
        state = self._host.scene["state_dir"]
        settings = {
            "memory_bytes": MEMORY_BYTES,
            "group_id": desks.GROUP,
            "slots": [["board0", 0], ["board0", 1]],
            "control_socket": f"{state}/g/control.sock",
            "data_socket": f"{state}/g/data.sock",
            "member_socket": f"{state}/g/member.sock",
            "log_file": str(self._host.directory / "desk.log"),
            "scene": self._host.scene,
        }
        self.process = self._host.popen(
            "tests.walls.desk", json.dumps(settings)
        )
        self._agent = desks.Agent(settings["control_socket"])

    def outcome(self, name: str) -> str:
        """Have the desk attack."""
        try:
            return str(self._agent.ask("attack", name=name)["outcome"])
        except OSError:
            status = self.process.wait(waiting.LIMIT_S)
            self._start()
            return f"{attacks.BOUNDED}: the desk ended, {status}"

    def close(self) -> None:
        """End the desk."""
        self._agent.close()
        self.process.kill()
        self.process.wait()


class Compiler:
    """A process whose compiler attacks, with all that is asked for at once."""

    def __init__(self, on: Host) -> None:
        self.process = on.popen(
            "tests.walls.compiling",
            json.dumps(on.scene),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=on.with_password(),
        )
        self.process.stdin.write(json.dumps([*attacks.ATTACKS]) + "\n")
        self.process.stdin.flush()
        self._outcomes = json.loads(self.process.stdout.readline())

    def outcome(self, name: str) -> str:
        """Return how an attack went."""
        return self._outcomes[name]

    def close(self) -> None:
        """End the process."""
        self.process.communicate(timeout=waiting.LIMIT_S)


PLACES = {"worker": Worker, "desk": Desk, "compiler": Compiler}


def outcomes(place: str, user: int | None) -> dict[str, str]:
    """Have a process of a user try everything."""
    found = {}
    with host(user) as on, contextlib.closing(PLACES[place](on)) as process:
        for name in attacks.ATTACKS:
            found[name] = on.confirmed(lambda name=name: process.outcome(name))
    return found


def main() -> None:
    """Show what succeeds: ``python -m tests.walls.site PLACE [USER]``."""
    user = int(sys.argv[2]) if len(sys.argv) > 2 else None
    found = outcomes(sys.argv[1], user)
    for name, text in found.items():
        sys.stdout.write(f"{name:24} {text}\n")
    fails = [one for one in found.values() if one.startswith(("got", "brok"))]
    sys.stdout.write(f"{len(fails)} of {len(found)} succeed\n")


if __name__ == "__main__":
    main()
