# SPDX-License-Identifier: Apache-2.0

"""The agent's end of its fork server; see
:mod:`fpgapool.agent.child.forkserver`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import time
import typing
from collections.abc import Mapping

from oslo_log import log as logging

from fpgapool.agent import loop as agent_loop
from fpgapool.agent.child import forkserver
from fpgapool.agent.supervision import processes
from fpgapool.common.channels import descriptors

LOG = logging.getLogger(__name__)

#: Time for the imports of the first server, for which the agent waits.
START_TIMEOUT_S = 20.0
#: Time in which a server must answer before it is replaced.
ANSWER_TIMEOUT_S = 5.0
KILL_TIMEOUT_S = 1.0

FIRST_RESTART_S = 0.1
LONGEST_RESTART_S = 30.0
#: A server that has run for this long is considered healthy.
HEALTHY_AFTER_S = 10.0

_ANSWER_BYTES = 4096


class ForkServer:
    """Starts processes: forks of a server while it serves, else new programs.

    Without :meth:`launch`, there is no server. After that, everything runs in
    the loop's thread. A server that ends leaves its processes running, and is
    replaced.

    :param modules: what is forked: for each module, what it warms up with.
    :ivar pid: process number of the server, or None.
    """

    def __init__(
        self,
        loop: agent_loop.Loop,
        modules: Mapping[str, Mapping[str, object]],
    ) -> None:
        self._loop = loop
        self._argument = forkserver.argument(modules)
        self.pid: int | None = None
        self._pidfd = -1
        self._sock: socket.socket | None = None
        self._ready = False
        self._patience_s = START_TIMEOUT_S
        self._pause_s = FIRST_RESTART_S
        self._launched_at_s = 0.0
        # By process number: the exit status; None while the process runs.
        self._forked: dict[int, int | None] = {}

    def launch(self) -> None:
        """Start the server, which is ready once its imports are done."""
        self._launched_at_s = self._loop.now()
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            try:
                self.pid, self._pidfd = processes.start(
                    forkserver.MODULE, self._argument, its.fileno()
                )
            except OSError as error:
                mine.close()
                LOG.error("Cannot start a fork server: %s", error)
                self._launch_later()
                return
        self._sock = mine
        self._loop.watch(mine, agent_loop.READ, lambda _events: self._hear())

    def start(
        self, module: str, document: Mapping[str, object]
    ) -> tuple[int, int]:
        """Start a process.

        :returns: its number and its pidfd.
        :raises OSError: if it cannot be started.
        """
        text = json.dumps(document)
        if self._sock is not None and not self._ready:
            # Only the first server is worth a wait.
            self._await("ready", None, self._patience_s)
        self._patience_s = 0.0
        if self._ready and (forked := self._fork(module, text)) is not None:
            return forked
        return processes.start(module, text)

    def exit_status(self, pid: int, pidfd: int) -> int | None:
        """Reap an ended process, if this object has started it.

        :returns: its exit status, or the negative number of the signal that
            ended it; None if it is unknown.
        """
        if pid not in self._forked:
            return processes.exit_status(pidfd)
        if self._forked[pid] is None:
            self._await("ended", pid, ANSWER_TIMEOUT_S)
        return self._forked.pop(pid, None)

    def close(self, timeout_s: float) -> None:
        """End the server; call this when the loop has ended."""
        if self._sock is not None:
            self._end(timeout_s)

    def _fork(self, module: str, text: str) -> tuple[int, int] | None:
        """Fork a process; return None if the server is lost."""
        assert self._sock is not None
        try:
            self._sock.send(json.dumps([module, text]).encode())
        except OSError as error:
            self._lost(str(error))
            return None
        answer = self._await("pid", None, ANSWER_TIMEOUT_S)
        if answer is None:
            self._lost("it does not answer")
            return None
        pid: int | None = answer["pid"]
        if pid is None:
            raise OSError(answer["error"])
        self._forked[pid] = None
        return pid, answer["fds"][0]

    def _await(
        self, key: str, value: object, timeout_s: float
    ) -> dict[str, typing.Any] | None:
        """Return the next message with a key, and a value unless it is None.

        :returns: None if the server is late or lost.
        """
        deadline_s = time.monotonic() + timeout_s
        while message := self._next(max(0.0, deadline_s - time.monotonic())):
            if key in message and value in (None, message[key]):
                return message
        return None

    def _next(self, timeout_s: float) -> dict[str, typing.Any] | None:
        """Take in the server's next message; return None if there is none."""
        sock = self._sock
        if sock is None or not descriptors.is_readable(sock, timeout_s):
            return None
        try:
            data, fds, _flags, _address = socket.recv_fds(
                sock, _ANSWER_BYTES, 1, socket.MSG_CMSG_CLOEXEC
            )
        except OSError as error:
            self._lost(str(error))
            return None
        if not data:
            self._lost("it has ended")
            return None
        message: dict[str, typing.Any] = json.loads(data)
        self._ready = True
        # Too late, it is about a process that was given up: its number may
        # belong to another one soon.
        if message.get("ended") in self._forked:
            self._forked[message["ended"]] = message["status"]
        return {**message, "fds": fds}

    def _hear(self) -> None:
        while self._next(0.0):
            pass

    def _lost(self, why: str) -> None:
        """Replace a server that does not serve."""
        sock = self._sock
        if sock is None:
            return
        self._loop.unwatch(sock)
        pid, status = self.pid, self._end(0.0)
        LOG.error(
            "Lost the fork server, process %d (%s): %s. Its processes go on,"
            " and new ones have no parent to share memory with until another"
            " server is ready",
            pid,
            status,
            why,
        )
        # Nobody will tell how those end that still run.
        self._forked = {
            pid: status
            for pid, status in self._forked.items()
            if status is not None
        }
        if self._loop.now() - self._launched_at_s >= HEALTHY_AFTER_S:
            self._pause_s = FIRST_RESTART_S
        self._launch_later()

    def _launch_later(self) -> None:
        self._loop.call_later(self._pause_s, self.launch)
        self._pause_s = min(2 * self._pause_s, LONGEST_RESTART_S)

    def _end(self, timeout_s: float) -> str:
        """End the server; return how it has ended.

        :param timeout_s: time in which it must end before it is killed.
        """
        assert self._sock is not None
        self._sock.close()
        self._sock, self._ready, self.pid = None, False, None
        if not processes.ended(self._pidfd, timeout_s):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            processes.ended(self._pidfd, KILL_TIMEOUT_S)
        status = processes.exit_status(self._pidfd)
        os.close(self._pidfd)
        return processes.how(status)
