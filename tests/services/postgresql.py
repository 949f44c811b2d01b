#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""A private PostgreSQL server."""

import contextlib
import itertools
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator

import psycopg

from tests.services import process

_PACKAGE = "postgresql"
# Debian keeps each version's programs in a directory of its own.
_VERSIONS = pathlib.Path("/usr/lib/postgresql")
_CONNECT_LIMIT_S = 10
_INSTALL_LIMIT_S = 120


def _find_program(name: str) -> str:
    found = sorted(
        _VERSIONS.glob(f"*/bin/{name}"),
        key=lambda path: float(path.parts[-3]),
        reverse=True,
    )
    return process.find_program(name, _PACKAGE, *map(str, found))


class PostgreSQL(process.Service):
    """A database server with its own data directory, port and account.

    What it has written survives the death of the server, and not that of the
    machine.

    :param workspace: where it lives.
    """

    user = "fpgapool"
    # Clients are let go at once; SIGTERM would wait for them.
    stop_signal = signal.SIGINT

    def __init__(self, workspace: process.Keeper) -> None:
        super().__init__("postgresql", workspace)
        self._server = _find_program("postgres")
        self._installer = _find_program("initdb")
        self.port = workspace.port("postgresql")
        self._data = self.directory / "data"
        self._database_numbers = itertools.count(1)

    def _as_user(self) -> list[str]:
        # The server refuses to run as root.
        if os.geteuid() != 0:
            return []
        account = ("--reuid=postgres", "--regid=postgres", "--clear-groups")
        return ["setpriv", *account, "--"]

    def _install(self) -> None:
        # An interrupted installation must not look like a whole one.
        unfinished = self.directory / "data.new"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        if os.geteuid() == 0:
            account = pwd.getpwnam("postgres")
            os.chown(unfinished, account.pw_uid, account.pw_gid)
        with self.log_path.open("ab") as log:
            result = subprocess.run(
                [
                    *self._as_user(),
                    self._installer,
                    f"--pgdata={unfinished}",
                    f"--username={self.user}",
                    # On loopback, for as long as the tests run.
                    "--auth=trust",
                    "--encoding=UTF8",
                    "--locale=C.UTF-8",
                    "--no-sync",
                ],
                env=self.environment(),
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=_INSTALL_LIMIT_S,
                check=False,
            )
        if result.returncode != 0:
            self._fail("could not make its data directory")
        unfinished.rename(self._data)

    def command(self) -> list[str]:
        """Return the command line."""
        settings = {
            "listen_addresses": process.LOOPBACK,
            "port": self.port,
            "unix_socket_directories": "",
            "max_connections": 200,
            "shared_buffers": "32MB",
            "fsync": "off",
            "full_page_writes": "off",
        }
        return [
            *self._as_user(),
            self._server,
            "-D",
            str(self._data),
            *(f"--{name}={value}" for name, value in settings.items()),
        ]

    def ports(self) -> tuple[int, ...]:
        """Return the TCP ports that the server listens on."""
        return (self.port,)

    def start(self) -> None:
        """Start the server, with an empty data directory at first.

        :raises ServiceError: if it fails to.
        """
        if not self._data.exists():
            self._install()
        super().start()

    def is_ready(self) -> bool:
        """Tell whether the account can log in."""
        try:
            with self._connection():
                return True
        except psycopg.OperationalError:
            return False

    @contextlib.contextmanager
    def _connection(self) -> Iterator[psycopg.Connection]:
        connection = psycopg.connect(
            host=process.LOOPBACK,
            port=self.port,
            user=self.user,
            dbname="postgres",
            autocommit=True,
            connect_timeout=_CONNECT_LIMIT_S,
        )
        with contextlib.closing(connection):
            yield connection

    def execute(self, statement: str) -> None:
        """Run a statement as the owner of everything.

        :param statement: in a transaction of its own.
        """
        with self._connection() as connection:
            connection.execute(statement)  # type: ignore[arg-type]

    def create_database(self) -> str:
        """Make an empty database.

        :returns: its name.
        """
        name = f"test_{next(self._database_numbers)}"
        self.execute(f"CREATE DATABASE {name}")
        return name

    def drop_database(self, name: str) -> None:
        """Remove a database, whoever is connected to it.

        :param name: what :meth:`create_database` returned.
        """
        self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def database_url(self, name: str) -> str:
        """Return the ``[database] connection`` option for a database.

        :param name: its name.
        """
        return (
            f"postgresql+psycopg://{self.user}@"
            f"{process.LOOPBACK}:{self.port}/{name}"
        )
