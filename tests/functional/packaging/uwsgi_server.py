# SPDX-License-Identifier: Apache-2.0

"""uWSGI with the sample of its configuration."""

from __future__ import annotations

import configparser
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence

from tests.services import openstack
from tests.services import process
from tests.unit import systemd

SAMPLE = systemd.ETC / "fpgapool/fpgapool-api-uwsgi.ini.sample"
RUN_DIRECTORY = "/run/fpgapool-api"
#: Stands for the group of the socket, in which a proxy's account is.
GROUP_ID = 64001
LIMIT_S = 30.0
#: Takes the place of the API: the socket is what is looked at.
APPLICATION = """
def application(environ, start_response):
    start_response("200 OK", [])
    return [environ["wsgi.url_scheme"].encode(), environ["HTTP_HOST"].encode()]
"""
#: Arguments: user, group, socket. Standard input is sent, answers come out.
CLIENT = """
import os, socket, sys
user_id, group_id, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
os.setgroups([])
os.setgid(group_id)
os.setuid(user_id)
connection = socket.socket(socket.AF_UNIX)
connection.connect(path)
connection.sendall(sys.stdin.buffer.read())
while piece := connection.recv(65536):
    sys.stdout.buffer.write(piece)
"""
REQUEST = (
    b"GET / HTTP/1.0\r\nHost: fpga.example.org\r\n"
    b"X-Forwarded-Proto: https\r\n\r\n"
)
#: What a client has uWSGI load.
INTRUDER = """
import pathlib
pathlib.Path({marker!r}).touch()
def application(environ, start_response):
    start_response("200 OK", [])
    return [b"intruder"]
"""


class Uwsgi(process.Service):
    """uWSGI as sample and unit have it; root stands for the service's user.

    :param name: for its directory and for messages.
    :param workspace: where it lives and who cleans up after it.
    :param launcher: a command that runs another one.
    """

    def __init__(
        self,
        name: str,
        workspace: process.Workspace,
        launcher: Sequence[str] = (),
    ) -> None:
        super().__init__(name, workspace)
        self._launcher = launcher
        run = self.directory / "run"
        unit = systemd.read_unit("fpgapool-api")["Service"]
        (mode,) = unit.get("RuntimeDirectoryMode", ["0755"])
        run.mkdir()
        run.chmod(int(mode, 8))
        for command in unit.get("ExecStartPre", []):
            subprocess.run(shlex.split(self._here(command)), check=True)
        self.socket = run / "api.sock"
        self.intruder = self.directory / "intruder.py"
        self.marker = self.directory / "marker"
        self.intruder.write_text(INTRUDER.format(marker=str(self.marker)))
        self._settings = self.directory / "uwsgi.ini"
        self._settings.write_text(self._sample())

    def _here(self, text: str) -> str:
        text = text.replace(RUN_DIRECTORY, str(self.directory / "run"))
        text = text.replace("fpgapool:fpgapool-api", f"0:{GROUP_ID}")
        return re.sub(r"\bfpgapool-api\b", str(GROUP_ID), text)

    def _sample(self) -> str:
        parser = configparser.ConfigParser(interpolation=None)
        parser.read(SAMPLE)
        options = parser["uwsgi"]
        # uWSGI from PyPI has Python built in.
        del options["plugin"]
        del options["module"]
        application = self.directory / "application.py"
        application.write_text(APPLICATION)
        options["wsgi-file"] = str(application)
        options["processes"] = "1"
        lines = [f"{name} = {value}" for name, value in options.items()]
        return self._here("\n".join(["[uwsgi]", *lines, ""]))

    def command(self) -> list[str]:
        command = [openstack.program("uwsgi"), "--ini", str(self._settings)]
        return [*self._launcher, *command]

    def ports(self) -> tuple[int, ...]:
        return ()

    def is_ready(self) -> bool:
        # Said when the application is loaded.
        return "WSGI app 0" in self.log_tail()


def ask(account: tuple[int, int], server: Uwsgi, request: bytes) -> bytes:
    """Send a request as another account.

    :raises PermissionError: if the socket is not for that account.
    """
    result = subprocess.run(
        [
            sys.executable,
            "-I",
            "-c",
            CLIENT,
            *map(str, account),
            server.socket,
        ],
        input=request,
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )
    if b"\nPermissionError: " in result.stderr:
        raise PermissionError(result.stderr.decode())
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout
