# SPDX-License-Identifier: Apache-2.0

"""What the agent keeps of forked processes."""

import errno
import json
import os
import socket
import subprocess
import typing
from collections.abc import Iterator

import pytest

from fpgapool.agent import loop as agent_loop
from fpgapool.agent.supervision import forks
from fpgapool.agent.supervision import processes


@pytest.fixture
def servers_end() -> Iterator[tuple[forks.ForkServer, socket.socket]]:
    """An agent's end, and the end of its server."""
    loop = agent_loop.Loop("test")
    made = forks.ForkServer(loop, {})
    mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with mine, its:
        made._sock = mine
        yield made, its
    # A loop closes its files at its end.
    loop.start()
    loop.stop(5.0)


def test_a_late_end_says_nothing_of_a_later_process_of_the_same_number(
    servers_end: tuple[forks.ForkServer, socket.socket],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, its = servers_end
    monkeypatch.setattr(forks, "ANSWER_TIMEOUT_S", 0.0)

    def say(**message: typing.Any) -> None:
        its.send(json.dumps(message).encode())

    made._forked[7] = None
    assert made.exit_status(7, -1) is None
    say(ended=7, status=3)
    made._hear()
    assert not made._forked
    made._forked[7] = None
    say(ended=7, status=0)
    made._hear()
    assert made.exit_status(7, -1) == 0


def test_a_process_that_cannot_be_watched_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = subprocess.Popen(["sleep", "1000"])

    def fail(_pid: int) -> int:
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(processes, "_spawn", lambda *_arguments: started.pid)
    monkeypatch.setattr(os, "pidfd_open", fail)
    with pytest.raises(OSError, match="too many"):
        processes.start("module", "{}")
    with pytest.raises(ChildProcessError):
        os.waitpid(started.pid, os.WNOHANG)
    started.returncode = 0
