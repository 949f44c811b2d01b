# SPDX-License-Identifier: Apache-2.0

"""The agent's unit, with systemd: workers outlive it in their cgroups."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from tests.harness import waiting
from tests.unit import systemd
from tests.unit.tree import ROOT
from tests.walls import standin

pytestmark = [
    # "make test-walls" has a systemd of its own.
    pytest.mark.long,
    pytest.mark.security,
    pytest.mark.skipif(
        "WALLS_IN_VM" not in os.environ or os.getuid() != 0,
        reason="needs a systemd of its own",
    ),
]

_UNIT = "fpgapool-agent"
_PLACE = pathlib.Path("/run/systemd/system")
_GROUP = pathlib.Path(f"/sys/fs/cgroup/system.slice/{_UNIT}.service")
_WORKER = _GROUP / standin.WORKER.replace("-", f"-{standin.HOST}-")

#: Another program, as a user whom the virtual machine has.
_CHANGES = f"""\
[Unit]
DefaultDependencies=no
[Service]
Type=exec
User=nobody
Group=nogroup
WorkingDirectory={ROOT}
ProtectHome=no
ExecStart=
ExecStart={sys.executable} -m {standin.__name__}
"""


def systemctl(*arguments: str) -> str:
    return subprocess.run(
        ["systemctl", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.strip()


def main_pid() -> str:
    return systemctl("show", "--value", "--property=MainPID", _UNIT)


def worker() -> str:
    """Return the number of the worker, once it is limited."""
    found = []

    def is_limited() -> bool:
        try:
            limit = (_WORKER / "memory.max").read_text().strip()
            found[:] = (_WORKER / "cgroup.procs").read_text().split()
        except FileNotFoundError:
            return False
        return limit == str(standin.LIMIT_BYTES) and bool(found)

    waiting.wait_until(is_limited, "a limited worker")
    (pid,) = found
    return pid


@pytest.fixture
def unit():
    shutil.copy(systemd.ETC / "systemd" / f"{_UNIT}.service", _PLACE)
    drop_in = _PLACE / f"{_UNIT}.service.d" / "changes.conf"
    drop_in.parent.mkdir()
    drop_in.write_text(_CHANGES)
    systemctl("daemon-reload")
    systemctl("start", _UNIT)
    yield
    systemctl("kill", "--signal=KILL", _UNIT)
    systemctl("stop", _UNIT)


def test_a_worker_keeps_its_limits_whatever_happens_to_its_agent(unit):
    pid, agent = worker(), main_pid()
    systemctl("kill", "--signal=KILL", "--kill-who=main", _UNIT)
    waiting.wait_until(
        lambda: main_pid() not in ("0", agent), "the next agent"
    )
    assert worker() == pid
    # That runs a program in the unit, too.
    systemctl("reload", _UNIT)
    systemctl("daemon-reload")
    assert worker() == pid
    agent = main_pid()
    systemctl("restart", _UNIT)
    assert main_pid() not in ("0", agent)
    assert worker() == pid
    assert (_GROUP / "agent/cgroup.procs").read_text().split() == [main_pid()]
