# SPDX-License-Identifier: Apache-2.0

"""A private MariaDB server."""

import contextlib
import itertools
import os
import pathlib
import pwd
import secrets
import shutil
import stat
import subprocess
from collections.abc import Iterator

import pymysql

from tests.services import certificates
from tests.services import process

_PACKAGE = "mariadb-server"
_CONNECT_LIMIT_S = 10
_INSTALL_LIMIT_S = 120


class MariaDB(process.Service):
    """A database server with its own data directory, port and account.

    :param durable: whether a transaction that has ended survives the death
        of the machine, as in production, and not only that of the server;
        costs a disk flush for each.
    :param tls: its certificate; nobody is served without TLS then. None
        means that nobody is asked for it.
    """

    user = password = "fpgapool"

    def __init__(
        self,
        workspace: process.Keeper,
        *,
        durable: bool = False,
        tls: certificates.Pair | None = None,
    ) -> None:
        super().__init__("mariadb", workspace)
        self._server = process.find_program("mariadbd", _PACKAGE)
        self._installer = process.find_program("mariadb-install-db", _PACKAGE)
        self.port = workspace.port("mariadb")
        self._data = self.directory / "data"
        # In a common one, each server that starts would delete the temporary
        # tables of those that run: it takes them for what a crash has left.
        self._temporary = self.directory / "tmp"
        self._flush = 1 if durable else 2
        self._tls = tls
        # Other processes may make some on the same server.
        self._database_prefix = f"test_{secrets.token_hex(4)}"
        self._database_numbers = itertools.count(1)

    def _user_options(self) -> list[str]:
        # The server refuses to run as root.
        return ["--user=mysql"] if os.geteuid() == 0 else []

    def _require_access(self) -> None:
        # The server tells it only as "No such file or directory".
        if os.geteuid() == 0:
            for directory in self.directory.parents:
                if not directory.stat().st_mode & stat.S_IXOTH:
                    raise process.ServiceError(
                        f"mariadb runs as the user mysql, which may not enter"
                        f" {directory}"
                    )

    def _install(self) -> None:
        self._require_access()
        # An interrupted installation must not look like a whole one.
        unfinished = self.directory / "data.new"
        shutil.rmtree(unfinished, ignore_errors=True)
        self._make_own(unfinished)
        (self.directory / "init.sql").write_text(
            f"CREATE USER IF NOT EXISTS {self.user}@'{process.LOOPBACK}'"
            f" IDENTIFIED BY '{self.password}';\n"
            f"GRANT ALL ON *.* TO {self.user}@'{process.LOOPBACK}'"
            " WITH GRANT OPTION;\n"
        )
        with self.log_path.open("ab") as log:
            result = subprocess.run(
                [
                    self._installer,
                    "--no-defaults",
                    *self._user_options(),
                    f"--datadir={unfinished}",
                    f"--tmpdir={self._temporary}",
                    "--skip-test-db",
                    "--auth-root-authentication-method=normal",
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

    def _make_own(self, directory: pathlib.Path) -> None:
        """Make a directory in which only the server may do anything."""
        directory.mkdir(mode=0o700)
        if os.geteuid() == 0:
            account = pwd.getpwnam("mysql")
            os.chown(directory, account.pw_uid, account.pw_gid)

    def command(self) -> list[str]:
        """Return the command line."""
        return [
            self._server,
            "--no-defaults",
            *self._user_options(),
            f"--datadir={self._data}",
            f"--tmpdir={self._temporary}",
            f"--socket={self._data / 'server.sock'}",
            f"--pid-file={self._data / 'server.pid'}",
            f"--init-file={self.directory / 'init.sql'}",
            f"--bind-address={process.LOOPBACK}",
            f"--port={self.port}",
            "--max-connections=600",
            "--skip-name-resolve",
            "--skip-log-bin",
            "--innodb-buffer-pool-size=64M",
            f"--innodb-flush-log-at-trx-commit={self._flush}",
            "--character-set-server=utf8mb4",
            *self._tls_options(),
        ]

    def _tls_options(self) -> list[str]:
        if self._tls is None:
            return []
        return [
            f"--ssl-ca={self._tls.ca_path}",
            f"--ssl-cert={self._tls.certificate_path}",
            f"--ssl-key={self._tls.key_path}",
            "--require-secure-transport=ON",
        ]

    def ports(self) -> tuple[int, ...]:
        """Return the TCP ports that the server listens on."""
        return (self.port,)

    def start(self) -> None:
        """Start the server, with an empty data directory at first.

        :raises ServiceError: if it fails to.
        """
        if not self._temporary.exists():
            self._make_own(self._temporary)
        if not self._data.exists():
            self._install()
        super().start()

    def is_ready(self) -> bool:
        """Tell whether the account can log in."""
        try:
            with self._connection():
                return True
        except pymysql.err.OperationalError:
            return False

    @contextlib.contextmanager
    def _connection(self) -> Iterator[pymysql.connections.Connection]:
        connection = pymysql.connect(
            host=process.LOOPBACK,
            port=self.port,
            user=self.user,
            password=self.password,
            autocommit=True,
            connect_timeout=_CONNECT_LIMIT_S,
            ssl=None if self._tls is None else self._tls.client_context(),
        )
        with contextlib.closing(connection):
            yield connection

    @contextlib.contextmanager
    def cursor(self) -> Iterator[pymysql.cursors.Cursor]:
        """Give what executes statements; each is a transaction."""
        with self._connection() as connection, connection.cursor() as cursor:
            yield cursor

    def _execute(self, statement: str) -> None:
        with self.cursor() as cursor:
            cursor.execute(statement)

    def create_database(
        self, name: str | None = None, *, character_set: str = "utf8mb4"
    ) -> str:
        """Make an empty database.

        :param name: one that may be there already, and stays as it is then;
            None means a new one.
        """
        how = "IF NOT EXISTS" if name else ""
        number = next(self._database_numbers)
        name = name or f"{self._database_prefix}_{number}"
        self._execute(
            f"CREATE DATABASE {how} {name} CHARACTER SET {character_set}"
        )
        return name

    def drop_database(self, name: str) -> None:
        """Remove a database."""
        self._execute(f"DROP DATABASE IF EXISTS {name}")

    def database_url(self, name: str) -> str:
        """Return the ``[database] connection`` option for a database."""
        return (
            f"mysql+pymysql://{self.user}:{self.password}@"
            f"{process.LOOPBACK}:{self.port}/{name}?charset=utf8mb4"
        )
