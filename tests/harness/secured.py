# SPDX-License-Identifier: Apache-2.0

"""What tests of services behind TLS share."""

from __future__ import annotations

import configparser
import pathlib
import subprocess
import sys
from collections.abc import Callable
from collections.abc import Mapping

import pytest

from fpgapool.common import exception
from fpgapool.db import api as db_api
from tests.harness import processes
from tests.harness import waiting
from tests.services import certificates
from tests.services import process


class Site:
    """A place with an authority that is trusted, and one that is not."""

    def __init__(self, workspace: process.Workspace) -> None:
        self.workspace = workspace
        # Of its own: the database server may be another user.
        self.directory = workspace.path / "certificates"
        self.directory.mkdir(mode=0o755)
        self.authority = certificates.Authority(self.directory, "ca")
        self.stranger = certificates.Authority(self.directory, "other-ca")

    def misled(
        self,
        daemon: processes.Daemon,
        name: str,
        changes: Mapping[tuple[str, str], object],
    ) -> processes.Daemon:
        """Return a service like another one, with other options.

        :param changes: values by group and option.
        """
        found = processes.Daemon(name, self.workspace, daemon.module)
        parser = configparser.ConfigParser(interpolation=None)
        parser.read(daemon.config_path)
        for (group, option), value in changes.items():
            parser[group][option] = str(value)
        with found.config_path.open("w") as file:
            parser.write(file)
        return found

    def check_files_are_read_anew(
        self, url_of: Callable[[pathlib.Path], str], refused: str
    ) -> None:
        """A pool of connections that is running takes a changed file.

        :param url_of: gives ``[database] connection`` with an authority's
            file.
        :param refused: what is said of a server of another authority.
        """
        ca_path = self.directory / "changing-ca.pem"
        ca_path.write_bytes(self.authority.path.read_bytes())
        database = db_api.Database(url_of(ca_path))
        try:
            database.engine.connect().close()
            ca_path.write_bytes(self.stranger.path.read_bytes())
            database.engine.connect().close()
            # Only new connections look at it.
            database.engine.dispose()
            with pytest.raises(exception.DatabaseUnavailable, match=refused):
                database.accelerators()
            ca_path.write_bytes(self.authority.path.read_bytes())
            database.engine.connect().close()
        finally:
            database.close()


def check_sync_is_refused(conductor: processes.Daemon, refused: str) -> None:
    """The command says why the database is not reached, without a trace.

    :param conductor: whose configuration the command has.
    """
    result = subprocess.run(
        [
            sys.executable,
            *("-m", "fpgapool.cmd.manage"),
            *("--config-file", str(conductor.config_path)),
            *("db", "sync"),
        ],
        env=conductor.environment(),
        capture_output=True,
        text=True,
        timeout=waiting.LIMIT_S,
        check=False,
    )
    assert result.returncode != 0
    assert refused in result.stderr + result.stdout
    assert "Traceback" not in result.stderr + result.stdout
