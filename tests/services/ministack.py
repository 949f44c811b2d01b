# SPDX-License-Identifier: Apache-2.0

"""The command ``tools/ministack``: servers to try fpgapool with."""

from __future__ import annotations

import argparse
import pathlib
import shlex
import subprocess
import sys
from collections.abc import Sequence

import requests
import yaml

from tests.services import kept
from tests.services import keystone as keystone_service
from tests.services import mariadb as mariadb_service
from tests.services import openstack
from tests.services import process
from tests.services import rabbitmq as rabbitmq_service
from tests.services import stack as stack_services

SERVICES = tuple(stack_services.NEEDS)
#: Nova needs a minute and two gigabytes of memory: only who asks gets it.
DEFAULT_SERVICES = ("keystone", "glance")
DEFAULT_STATE = openstack.ROOT / ".ministack"

_NAME = "fpgapool"
_CLOUD = "ministack"
_DEMO = "demo"
_INTERRUPTED_STATUS = 130


class Ministack:
    """RabbitMQ, MariaDB, and services of OpenStack if they are asked for.

    :param directory: where they live, and go on when this program ends.
    :param names: which of :data:`SERVICES`; what they need comes, too.
    """

    def __init__(
        self, directory: kept.Directory, names: Sequence[str]
    ) -> None:
        self._directory = directory
        self._names = stack_services.complete(names)
        self._rabbitmq = rabbitmq_service.RabbitMQ(directory)
        self._mariadb = mariadb_service.MariaDB(directory)
        self._stack = None
        if names:
            self._stack = stack_services.Stack(
                directory, self._rabbitmq, self._mariadb
            )

    def start(self) -> None:
        """Start what does not run and fill it; again is harmless.

        :raises ServiceError: if something does not start.
        """
        if self._stack is None:
            self._rabbitmq.start()
            self._mariadb.start()
        else:
            self._stack.start(self._names)
            demo = self._stack.accounts.create_project(_DEMO)
            self._stack.accounts.create_user(_DEMO, demo, "member")
        self._rabbitmq.create_vhost(_NAME)
        self._mariadb.create_database(_NAME)
        self._write_files()

    def urls(self) -> dict[str, str]:
        """Return where everything is, by name."""
        found = {
            "rabbitmq": self._rabbitmq.transport_url(_NAME),
            "mariadb": self._mariadb.database_url(_NAME),
        }
        if self._stack is not None:
            found |= self._stack.urls(self._names)
        return found

    def _write_files(self) -> None:
        config_path = self._directory.path / "fpgapool.conf"
        clouds_path = self._directory.path / "clouds.yaml"
        sections = {
            "DEFAULT": {"transport_url": self.urls()["rabbitmq"]},
            "database": {"connection": self.urls()["mariadb"]},
        }
        exports = {
            "FPGAPOOL_TRANSPORT_URL": self.urls()["rabbitmq"],
            "FPGAPOOL_DATABASE_URL": self.urls()["mariadb"],
            "FPGAPOOL_CONFIG": str(config_path),
        }
        if self._stack is not None:
            keystone = self._stack.keystone
            sections["keystone_authtoken"] = keystone.authtoken_options(_NAME)
            clouds_path.write_text(yaml.safe_dump(_clouds(keystone)))
            exports["OS_CLIENT_CONFIG_FILE"] = str(clouds_path)
            exports["OS_CLOUD"] = _CLOUD
        openstack.write_config(config_path, sections)
        _environment_path(self._directory.path).write_text(
            "".join(
                f"export {name}={shlex.quote(value)}\n"
                for name, value in exports.items()
            )
        )


def _clouds(keystone: keystone_service.Keystone) -> dict[str, object]:
    users = {_CLOUD: "admin", f"{_CLOUD}-{_DEMO}": _DEMO}
    clouds = {
        name: {
            # The administrator's project has the same name.
            "auth": keystone.auth_options(user, user),
            "region_name": openstack.REGION,
        }
        for name, user in users.items()
    }
    return {"clouds": clouds}


def _environment_path(state: pathlib.Path) -> pathlib.Path:
    return state / "environment"


def up(state: pathlib.Path, names: Sequence[str]) -> None:
    """Start what does not run yet, and say where it is.

    :raises ServiceError: if something does not start.
    """
    with kept.Directory(state, create=True) as directory:
        ministack = Ministack(directory, names)
        ministack.start()
    for name, url in ministack.urls().items():
        _say(f"{name:10} {url}")


def down(state: pathlib.Path, *, wipe: bool) -> None:
    """End what :func:`up` has started, and nothing else.

    :raises ServiceError: if something does not end.
    """
    if not kept.is_one(state):
        _say(f"nothing was started in {state}")
        return
    with kept.Directory(state) as directory:
        for name in directory.end_all():
            _say(f"{name} has ended")
        if wipe:
            directory.remove()
            _say(f"removed {state}")


def env(state: pathlib.Path) -> None:
    """Print what a shell needs to know.

    :raises ServiceError: if nothing was started there.
    """
    path = _environment_path(state)
    if not path.exists():
        raise process.ServiceError(f"nothing was started in {state}")
    sys.stdout.write(path.read_text())


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _names(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    unknown = set(names).difference(SERVICES)
    if unknown:
        raise argparse.ArgumentTypeError(
            f"unknown: {', '.join(sorted(unknown))};"
            f" there are {', '.join(SERVICES)}"
        )
    return names


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tools/ministack",
        description="A private broker, database and services of OpenStack.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    helps = {
        "up": "start what does not run, and say where it is",
        "down": "end what was started",
        "env": "print exports for a shell",
    }
    for name, text in helps.items():
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument(
            "--state",
            type=pathlib.Path,
            default=DEFAULT_STATE,
            metavar="DIR",
            help="where everything is kept (default: %(default)s)",
        )
        if name == "up":
            command.add_argument(
                "--services",
                type=_names,
                default=DEFAULT_SERVICES,
                metavar="NAMES",
                help="of OpenStack; nothing for broker and database only"
                f" (default: {','.join(DEFAULT_SERVICES)})",
            )
        elif name == "down":
            command.add_argument(
                "--wipe", action="store_true", help="remove all data too"
            )
    return parser


def _run(arguments: argparse.Namespace) -> None:
    state = arguments.state.resolve()
    if arguments.command == "up":
        up(state, arguments.services)
    elif arguments.command == "down":
        down(state, wipe=arguments.wipe)
    else:
        env(state)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    :param argv: None means the process's own.
    """
    try:
        _run(_parser().parse_args(argv))
    except (
        OSError,
        subprocess.SubprocessError,
        process.ServiceError,
        openstack.RefusedError,
        requests.RequestException,
    ) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; 'down' ends what was started\n")
        return _INTERRUPTED_STATUS
    return 0


if __name__ == "__main__":
    sys.exit(main())
