# SPDX-License-Identifier: Apache-2.0

"""Processes that an agent keeps alive: workers and groups' desks.

They may outlive their agent. A new agent finds them by their control sockets
and starts only the missing ones. A process is signalled only through its
pidfd, and only once it has been proved to own the control socket. So no other
process is killed when a process number is reused.

A process goes through these states::

    absent ──start──▶ started ──its socket accepts──▶ connected
      ▲  ▲               │                               │   ▲
      │  └── died ◀──────┴──────── its pidfd is ready ◀──┤   │
      │                                                  ▼   │
      └── given up (not proved) ◀── hung up ◀── connection ends

``absent`` ends after a pause, which doubles with each consecutive failure. A
process that an agent finds when it starts is ``connected`` from the beginning,
and proved by its first status.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import os
import signal
import socket
import time
import typing
from collections.abc import Callable
from collections.abc import Iterable

from oslo_log import log as logging

from fpgapool.agent import loop as agent_loop
from fpgapool.agent import settings as agent_settings
from fpgapool.agent.child import process as child_process
from fpgapool.agent.slots import slot
from fpgapool.agent.supervision import cgroups
from fpgapool.agent.supervision import forks
from fpgapool.agent.supervision import link as links
from fpgapool.agent.supervision import processes
from fpgapool.common.channels import descriptors
from fpgapool.protocol import messages
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import rules
from fpgapool.vocabulary import shapes

LOG = logging.getLogger(__name__)

#: Intervals at which a new process is dialled: first and longest. Between
#: them, the interval is a quarter of the process's age.
FIRST_CONNECT_S = 0.001
CONNECT_INTERVAL_S = 0.02

#: A new process that has not responded for this long is killed.
START_TIMEOUT_S = 30.0

#: A process that hangs up is dialled again after this time.
RECONNECT_S = 0.1

#: A process that leaves so many requests unanswered is killed.
_MOST_REQUESTS = 1000

FIRST_RESPAWN_S = 0.1
LONGEST_RESPAWN_S = 30.0

#: A process that has run for this long is considered healthy.
HEALTHY_AFTER_S = 10.0

#: Consecutive failures after which a process is reported as faulty.
FAULTY_AFTER_FAILURES = 4

#: Maximum time that one tick adds to a process's silence.
LONGEST_TICK_S = 2.0

#: The shape of answers.
ANSWER = shapes.Members(
    {"id": shapes.integer(0), "ok": shapes.flag},
    {
        "error": shapes.Members(
            {"code": slot.CODE, "message": shapes.legible(1000)}, others=True
        )
    },
    others=True,
)

# How a process ended.
LEFT = "left"
KILLED = "killed"
DIED = "died"
OUT_OF_MEMORY = "out_of_memory"

#: Settings of the agent that all processes receive unchanged.
_SAME = (
    "data_address data_ports tls block_cache_bytes hello_timeout_s isolation"
    " log_level"
).split()


def connect_client(path: str, what: str) -> socket.socket:
    """Return a connection to a process's data socket, for a client.

    :param what: what error messages call the process.
    """
    sock = processes.dial(path)
    if sock is None:
        raise rules.RequestError(
            codes.WORKER_LOST, f"{what} does not accept connections"
        )
    # The client receives the same open file description, which must block.
    sock.setblocking(True)
    return sock


def log_file(settings: agent_settings.AgentSettings, name: str) -> str | None:
    """Return the path of a process's log, or None for standard error."""
    log_dir = settings.log_dir
    return log_dir and os.path.join(os.path.abspath(log_dir), name)


@dataclasses.dataclass(slots=True, eq=False, kw_only=True)
class Child:
    """A process, which may be absent.

    :ivar name: its kind and what it serves, such as ``worker-board0.1``.
    :ivar proved: whether ``pidfd`` is proved to belong to the socket's owner.
    :ivar failures: number of consecutive failures.
    :ivar ended_for: why the agent kills, or has killed, the process.
    """

    title: str
    name: str
    control_path: str
    data_path: str
    log_file: str | None
    link: links.Link = dataclasses.field(init=False)
    pid: int = 0
    pidfd: int | None = None
    proved: bool = False
    started_at_s: float = 0.0
    failures: int = 0
    ended_for: str | None = None
    timer: agent_loop.Timer | None = None

    def is_silent(self, limit_s: float) -> bool:
        """Whether the process has not answered for this long."""
        # START_TIMEOUT_S applies to a process that has never reported.
        link = self.link
        return (
            link.sock is not None
            and link.heard
            and self.ended_for is None
            and (
                link.silent_s >= limit_s or len(link.requests) > _MOST_REQUESTS
            )
        )

    def signal(self, number: signal.Signals) -> None:
        """Signal the process if it is proved to be the right one."""
        if self.pidfd is None or not self.proved:
            return
        try:
            signal.pidfd_send_signal(self.pidfd, number)
        except ProcessLookupError:
            LOG.debug("%s has ended", self.title)

    def cancel_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


def _manner(ended_for: str | None, left: bool, ran_out: bool) -> str:
    # Who runs out of memory may be too slow to answer before.
    if ran_out:
        return OUT_OF_MEMORY
    if ended_for:
        return KILLED
    return LEFT if left else DIED


def _prove(child: Child, module: str) -> bool:
    """Try to prove that a silent process is one of the agent's.

    If the socket still accepts connections, its process has run since before
    the pidfd was opened, so the process number is still its own.
    """
    sock = processes.dial(child.control_path)
    if sock is None:
        return False
    with sock:
        is_same = descriptors.peer(sock)[0] == child.pid
        child.proved = is_same and processes.runs(child.pid, module)
    return child.proved


C = typing.TypeVar("C", bound=Child)


class Keeper(abc.ABC, typing.Generic[C]):
    """Keeps processes alive and communicates with them.

    Everything except :meth:`close` runs in the loop's thread.

    :param limits: what each of the processes may use.
    """

    #: What messages call these processes.
    KIND: typing.ClassVar[str]
    #: The module that the processes run.
    MODULE: typing.ClassVar[str]

    def __init__(
        self,
        settings: agent_settings.AgentSettings,
        loop: agent_loop.Loop,
        server: forks.ForkServer,
        groups: cgroups.Cgroups,
        limits: cgroups.Limits,
    ) -> None:
        self._settings = settings
        self._limits = limits
        self._server = server
        self._cgroups = groups
        self._state_dir = os.path.abspath(settings.state_path)
        self._loop = loop
        self._ticked_at_s = loop.now()
        self._closing = False

    @abc.abstractmethod
    def _children(self) -> Iterable[C]:
        """Return all processes, present and absent."""

    @abc.abstractmethod
    def _greet(self, child: C) -> None:
        """Request the status over a new control connection."""

    @abc.abstractmethod
    def _ask_status(self, child: C) -> None:
        """Request a process's status."""

    @abc.abstractmethod
    def _handle(self, child: C, message: messages.Message) -> None:
        """Handle a message from a process."""

    @abc.abstractmethod
    def _hung_up(self, child: C) -> None:
        """Handle the loss of the connection; the process may still run."""

    @abc.abstractmethod
    def _died(self, child: C, how: str | None) -> None:
        """Handle the end of a process.

        :param how: :data:`LEFT`, :data:`KILLED`, :data:`DIED` or
            :data:`OUT_OF_MEMORY`; None if it was never proved to be one of
            the agent's.
        """

    @abc.abstractmethod
    def _unstartable(self, child: C, message: str) -> None:
        """A process has failed to start several times in a row."""

    def _document(self, child: C) -> dict[str, object]:
        settings = self._settings
        return {
            "control_socket": child.control_path,
            "data_socket": child.data_path,
            **{name: getattr(settings, name) for name in _SAME},
            "orphan_s": settings.worker_orphan_s,
            "exit_with_agent": not settings.workers_outlive_agent,
            "log_file": child.log_file,
            "cgroup": self._cgroups.path(child.name),
            "memory_bytes": self._limits.memory_bytes,
        }

    def _link(
        self,
        child: C,
        read: Callable[[socket.socket], bytes | memoryview] = links.receive,
    ) -> C:
        """Give a process its control connection, which is not open yet."""
        child.link = links.Link(
            self._loop,
            child.title,
            functools.partial(self._handle, child),
            functools.partial(self._lied, child),
            functools.partial(self._disconnected, child),
            read,
        )
        return child

    def settled(self) -> bool:
        """Whether all processes that were found running have reported."""
        return all(
            child.link.heard or child.proved or child.pidfd is None
            for child in self._children()
        )

    def tick(self) -> None:
        """Request every process's status; kill processes that do not answer.

        Called regularly, to detect frozen processes and hanging main threads.
        """
        now, last_s = self._loop.now(), self._ticked_at_s
        self._ticked_at_s = now
        # Count only a little of the time for which the agent was suspended.
        passed_s = min(now - last_s, LONGEST_TICK_S)
        for child in [*self._children()]:
            if child.link.requests:
                child.link.silent_s += passed_s
            if child.is_silent(self._settings.worker_timeout_s):
                self._end(child, "does not answer")
            self._ask_status(child)

    def _end(self, child: C, reason: str) -> None:
        """Kill a process.

        :param reason: the rest of a sentence that starts with "it".
        """
        LOG.warning("Killing %s: it %s", child.title, reason)
        child.ended_for = reason
        child.signal(signal.SIGKILL)

    def _lied(self, child: C, error: Exception) -> None:
        """Kill a process that sends what no process of this agent would."""
        # Only the process itself can have sent it.
        child.proved = True
        child.link.close()
        self._end(child, f"sent an invalid message: {error!s:.200}")
        self._hung_up(child)

    def close(self, timeout_s: float) -> None:
        """Leave the processes running, or end them with the agent.

        Called when the loop has ended.

        :param timeout_s: time in which they must end before they are killed.
        """
        self._closing = True
        children = [*self._children()]
        for child in children:
            if child.link.sock is not None:
                # This ends a process that must end with its agent.
                child.link.sock.close()
                child.link.sock = None
        if not self._settings.workers_outlive_agent:
            self._end_all(children, timeout_s)
        for child in children:
            self._close_pidfd(child)

    def _end_all(self, children: list[C], timeout_s: float) -> None:
        deadline_s = time.monotonic() + timeout_s
        for child in children:
            # The signal also ends processes that had no connection.
            child.signal(signal.SIGTERM)
        for child in children:
            if child.pidfd is None:
                continue
            if not processes.ended(child.pidfd, deadline_s - time.monotonic()):
                LOG.warning("Killing %s: it did not end in time", child.title)
                child.signal(signal.SIGKILL)
                processes.ended(child.pidfd, timeout_s)
            _reap(self._server, child, child.pidfd)
            self._cgroups.remove(child.name)

    # Start.

    def _take_over(self, child: C) -> None:
        child.timer = None
        if not self._adopt(child):
            self._spawn(child)

    def _adopt(self, child: C) -> bool:
        """Adopt a process that an earlier agent started.

        :returns: False if there is none.
        """
        sock = processes.dial(child.control_path)
        if sock is None:
            return False
        child.pid = descriptors.peer(sock)[0]
        try:
            child.pidfd = os.pidfd_open(child.pid)
        except OSError as error:
            LOG.info("%s: cannot open its pidfd: %s", child.title, error)
            sock.close()
            return False
        LOG.info("%s is running: process %d", child.title, child.pid)
        try:
            # The options may have changed.
            self._cgroups.make(child.name, self._limits)
        except OSError as error:
            LOG.error("Cannot limit %s: %s", child.title, error)
        # The process number may have been reused just before the pidfd was
        # opened. The next message on this connection proves the process.
        child.proved = False
        child.ended_for = None
        child.started_at_s = self._loop.now()
        self._watch_process(child)
        self._connected(child, sock)
        return True

    def _spawn(self, child: C) -> bool:
        """Start a process now, or later if that fails.

        :returns: whether it was started now.
        """
        child.timer = None
        child.ended_for = None
        child.started_at_s = self._loop.now()
        try:
            self._cgroups.make(child.name, self._limits)
            child.pid, child.pidfd = self._server.start(
                self.MODULE, self._document(child)
            )
        except OSError as error:
            LOG.error("Cannot start %s: %s", child.title, error)
            self._failed(child, str(error))
            return False
        LOG.info("Started %s: process %d", child.title, child.pid)
        child.proved = True
        self._watch_process(child)
        self._connect_later(child)
        return True

    # Connection.

    def _connect_later(self, child: C) -> None:
        age_s = self._loop.now() - child.started_at_s
        child.timer = self._loop.call_later(
            min(max(age_s / 4, FIRST_CONNECT_S), CONNECT_INTERVAL_S),
            functools.partial(self._connect, child),
        )

    def _connect(self, child: C) -> None:
        child.timer = None
        if child.pidfd is None or child.link.sock is not None:
            return
        sock = processes.dial(child.control_path)
        # Until the new process listens there, its predecessor may still do so.
        if sock is not None and descriptors.peer(sock)[0] != child.pid:
            sock.close()
            sock = None
        if sock is not None:
            self._connected(child, sock)
        elif self._loop.now() > child.started_at_s + START_TIMEOUT_S:
            self._end(child, "did not open its control socket in time")
        else:
            self._connect_later(child)

    def _connected(self, child: C, sock: socket.socket) -> None:
        child.link.open(sock)
        child.timer = self._loop.call_later(
            START_TIMEOUT_S, functools.partial(self._check_heard, child, sock)
        )
        self._greet(child)

    def _check_heard(self, child: C, sock: socket.socket) -> None:
        if child.link.sock is not sock or child.link.heard:
            return
        if child.proved or _prove(child, self.MODULE):
            self._end(child, "does not answer")
        else:
            self._abandon(child)

    def _disconnected(self, child: C) -> None:
        child.cancel_timer()
        self._hung_up(child)
        if child.pidfd is None:
            return
        if child.proved:
            # If the process ends, the pidfd reports that.
            child.started_at_s = self._loop.now()
            child.timer = self._loop.call_later(
                RECONNECT_S, functools.partial(self._connect, child)
            )
        else:
            self._abandon(child)

    # End.

    def _watch_process(self, child: C) -> None:
        pidfd = child.pidfd
        self._loop.watch(
            pidfd,
            agent_loop.READ,
            lambda _events: self._exited(child, pidfd),
        )

    def _exited(self, child: C, pidfd: int | None) -> None:
        if child.pidfd != pidfd or pidfd is None:
            return
        exit_status = _reap(self._server, child, pidfd)
        status = processes.how(exit_status)
        ran_out = self._cgroups.ran_out(child.name)
        if ran_out:
            status = f"{status}, out of memory"
        # The process's last messages, such as a result, may still be unread.
        child.link.receive_rest()
        if child.pidfd != pidfd:
            # It was not proved, and was abandoned when its connection ended.
            return
        self._forget_process(child)
        LOG.info("%s ended (%s)", child.title, child.ended_for or status)
        lived_s = self._loop.now() - child.started_at_s
        heard, child.link.heard = child.link.heard, False
        if heard and lived_s >= HEALTHY_AFTER_S:
            child.failures = 0
        left = heard and exit_status == 0
        self._cgroups.remove(child.name)
        self._died(child, _manner(child.ended_for, left, ran_out))
        if left:
            self._spawn(child)
        else:
            # An unknown status counts as a failure: only the parent learns it,
            # which may have been an earlier agent, or a lost fork server.
            # If another process has the lock, adopt that process: an earlier
            # agent may have started it, but its socket did not exist yet.
            taken = exit_status == child_process.EXIT_TAKEN
            log = child.log_file or "the agent's standard error"
            self._failed(
                child,
                f"the {self.KIND} ended ({status}); see {log}",
                self._take_over if taken else self._spawn,
            )

    def _abandon(self, child: C) -> None:
        """Give up a process that could not be proved to be the agent's."""
        self._forget_process(child)
        self._died(child, None)
        self._failed(
            child,
            f"the {self.KIND} that was running when the agent started has"
            " disappeared",
        )

    def _forget_process(self, child: C) -> None:
        self._close_pidfd(child)
        child.cancel_timer()
        if child.link.sock is not None:
            child.link.close()
            self._hung_up(child)

    def _failed(
        self,
        child: C,
        message: str,
        retry: Callable[[C], object] | None = None,
    ) -> None:
        child.failures += 1
        if child.failures >= FAULTY_AFTER_FAILURES:
            self._unstartable(child, message)
        delay_s = min(
            FIRST_RESPAWN_S * 2 ** min(child.failures - 1, 20),
            LONGEST_RESPAWN_S,
        )
        child.timer = self._loop.call_later(
            delay_s, functools.partial(retry or self._spawn, child)
        )

    def _close_pidfd(self, child: C) -> None:
        if child.pidfd is None:
            return
        if not self._closing:
            self._loop.unwatch(child.pidfd)
        os.close(child.pidfd)
        child.pidfd = None


def _reap(server: forks.ForkServer, child: Child, pidfd: int) -> int | None:
    exit_status = server.exit_status(child.pid, pidfd)
    if child.proved:
        processes.end_rest(child.pid)
    return exit_status
