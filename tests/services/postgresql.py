# SPDX-License-Identifier: Apache-2.0

"""A private PostgreSQL server."""

import contextlib
import hashlib
import itertools
import os
import pathlib
import pwd
import secrets
import shutil
import signal
import socket
import ssl
import struct
import subprocess
from collections.abc import Iterator

import psycopg

from tests.services import certificates
from tests.services import process

_PACKAGE = "postgresql"
# Debian keeps each version's programs in a directory of its own.
_VERSIONS = pathlib.Path("/usr/lib/postgresql")
_CONNECT_LIMIT_S = 10
# What a client says before it begins TLS: eight bytes, code 80877103.
_SSL_REQUEST = struct.pack("!ii", 8, 80877103)
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

    :param tls: its certificate; nobody is served without TLS then. None
        means that nobody is asked for it.
    """

    user = "fpgapool"
    # Clients are let go at once; SIGTERM would wait for them.
    stop_signal = signal.SIGINT

    def __init__(
        self,
        workspace: process.Keeper,
        *,
        tls: certificates.Pair | None = None,
    ) -> None:
        super().__init__("postgresql", workspace)
        self._server = _find_program("postgres")
        self._installer = _find_program("initdb")
        self.port = workspace.port("postgresql")
        self._data = self.directory / "data"
        self._tls = tls
        # Other processes may make some on the same server.
        self._database_prefix = f"test_{secrets.token_hex(4)}"
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
        if self._tls is not None:
            # Instead of what lets in whoever comes without.
            (unfinished / "pg_hba.conf").write_text(
                "hostssl all all 127.0.0.1/32 trust\n"
            )
        unfinished.rename(self._data)

    def show(self, pair: certificates.Pair) -> None:
        """Have the server show a certificate to who connects from now on.

        :param pair: the files are copied: the server wants a key that only
            itself or root can read.
        """
        for path, name in (
            (pair.certificate_path, "server.crt"),
            (pair.key_path, "server.key"),
        ):
            fresh = self._data / f"{name}.new"
            shutil.copyfile(path, fresh)
            fresh.chmod(0o600)
            if os.geteuid() == 0:
                shutil.chown(fresh, "postgres", "postgres")
            fresh.replace(self._data / name)
        if self.running:
            self.execute("SELECT pg_reload_conf()")

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
            "ssl": "off" if self._tls is None else "on",
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
            if self._tls is not None:
                self.show(self._tls)
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
            sslmode="disable" if self._tls is None else "require",
        )
        with contextlib.closing(connection):
            yield connection

    def certificate_sha256(self) -> bytes:
        """Return the SHA-256 of the certificate that the server shows."""
        with socket.create_connection(
            (process.LOOPBACK, self.port), _CONNECT_LIMIT_S
        ) as sock:
            sock.sendall(_SSL_REQUEST)
            if sock.recv(1) != b"S":
                raise process.ServiceError("postgresql knows no TLS")
            context = ssl.create_default_context()
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            with context.wrap_socket(sock) as wrapped:
                certificate = wrapped.getpeercert(binary_form=True)
        return hashlib.sha256(certificate or b"").digest()

    def execute(self, statement: str) -> None:
        """Run a statement as the owner of everything.

        :param statement: in a transaction of its own.
        """
        with self._connection() as connection:
            connection.execute(statement)  # type: ignore[arg-type]

    def create_database(self) -> str:
        """Make an empty database."""
        name = f"{self._database_prefix}_{next(self._database_numbers)}"
        self.execute(f"CREATE DATABASE {name}")
        return name

    def drop_database(self, name: str) -> None:
        """Remove a database, whoever is connected to it."""
        self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def database_url(self, name: str) -> str:
        """Return the ``[database] connection`` option for a database."""
        return (
            f"postgresql+psycopg://{self.user}@"
            f"{process.LOOPBACK}:{self.port}/{name}"
        )
