# SPDX-License-Identifier: Apache-2.0

"""How workers and desks start and end."""

import os
import pathlib
import subprocess
import sys
import types

import pytest

from fpgapool.agent.child import process

_PROGRAM = """
import os, types
from fpgapool.agent.child import process

class Service:
    room = None
    def run(self): pass
    def exit(self, reason): pass

settings = types.SimpleNamespace(isolation="none")
process.run(lambda settings: Service(), RuntimeError, settings)
os._exit(9)
"""


_BOUNDED = """
import resource, subprocess
from fpgapool.agent.child import memory

before = bytearray(48 << 20)
helper = subprocess.Popen("cat", stdin=subprocess.PIPE)
memory.limit(None, 32 << 20)
some = bytearray(16 << 20)
try:
    bytearray(64 << 20)
except MemoryError:
    print("refused")
same = resource.getrlimit(resource.RLIMIT_DATA)
assert resource.prlimit(helper.pid, resource.RLIMIT_DATA) == same
helper.communicate()
"""


def test_a_process_may_be_bounded_beyond_what_it_has_with_its_helper() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _BOUNDED], capture_output=True, check=True
    )
    assert ended.stdout == b"refused\n"


def test_a_process_that_cannot_enter_its_cgroup_does_not_start(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would use memory that another one is charged for."""
    cgroup = tmp_path / "worker"
    found = types.SimpleNamespace(cgroup=str(cgroup), memory_bytes=0)
    monkeypatch.setattr(sys, "argv", ["worker", "{}"])
    status = process.main("worker", lambda _text: found, lambda _: 0)
    assert status == process.EXIT_FAILURE


def test_an_orderly_end_needs_no_standard_output() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        preexec_fn=lambda: os.closerange(1, 3),
        check=False,
    )
    assert ended.returncode == 0
