# SPDX-License-Identifier: Apache-2.0

"""Processes that an agent keeps alive: workers, and desks of groups.

They may outlive their agent. A new agent finds them by their control sockets
and starts only the missing ones. A process is signalled only through a
descriptor of it (pidfd), and only after that process has been proved to be
the one behind the control socket. So a recycled process number never costs
another process its life.
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
from fpgapool.agent.supervision import processes
from fpgapool.common.channels import descriptors
from fpgapool.common.messaging import codec
from fpgapool.protocol import frames
from fpgapool.protocol import messages

LOG = logging.getLogger(__name__)

CONNECT_INTERVAL_S = 0.02

#: A live process that has sent nothing within this time is of no use.
START_TIMEOUT_S = 30.0

FIRST_RESPAWN_S = 0.1
LONGEST_RESPAWN_S = 30.0

#: A process that lived this long was not broken from the start.
HEALTHY_AFTER_S = 10.0

#: So many deaths in a row, each soon after a start, are told.
FAULTY_AFTER_FAILURES = 4

#: The most that one tick adds to the silence of a process.
LONGEST_TICK_S = 2.0

RECEIVE_BYTES = 65536

#: How a process ended.
LEFT = "left"
KILLED = "killed"
DIED = "died"


@dataclasses.dataclass(slots=True, eq=False, kw_only=True)
class Child:
    """A process, or its absence.

    :ivar title: for the log.
    :ivar control_path: of its control socket.
    :ivar log_file: path of its log; None: the agent's standard error.
    """

    title: str
    control_path: str
    log_file: str | None
    pid: int = 0
    pidfd: int | None = None
    #: ``pidfd`` is proved to be of the process behind the control socket.
    proved: bool = False
    sock: socket.socket | None = None
    decoder: messages.MessageDecoder = dataclasses.field(
        default_factory=messages.MessageDecoder
    )
    unsent: bytearray = dataclasses.field(default_factory=bytearray)
    #: What was asked and is not answered yet.
    requests: dict[int, typing.Any] = dataclasses.field(default_factory=dict)
    last_number: int = 0
    #: How long it has been silent while it owed answers.
    silent_s: float = 0.0
    started_at_s: float = 0.0
    failures: int = 0
    #: A status has come over the present connection.
    heard: bool = False
    #: Why it was, or is about to be, ended on purpose.
    ended_for: str | None = None
    timer: agent_loop.Timer | None = None

    def is_silent(self, limit_s: float) -> bool:
        """Whether it has owed an answer for so long."""
        # One that never reported has a limit of its own.
        return (
            self.sock is not None
            and self.heard
            and self.ended_for is None
            and self.silent_s >= limit_s
        )

    def signal(self, number: signal.Signals) -> None:
        """Signal the process, if it is certainly the right one."""
        if self.pidfd is None or not self.proved:
            return
        try:
            signal.pidfd_send_signal(self.pidfd, number)
        except ProcessLookupError:
            LOG.debug("%s has ended", self.title)

    def cancel_timer(self) -> None:
        """Forget what was to be done later."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


def log_file(settings: agent_settings.AgentSettings, name: str) -> str | None:
    """Return the path of a process's log; None: standard error."""
    if settings.log_dir is None:
        return None
    return os.path.join(os.path.abspath(settings.log_dir), name)


C = typing.TypeVar("C", bound=Child)


class Keeper(abc.ABC, typing.Generic[C]):
    """Keeps processes alive and talks to them.

    Everything but :meth:`close` runs in the loop's thread.

    :param settings: of the agent.
    :param loop: serves the control connections.
    """

    #: For messages.
    KIND: typing.ClassVar[str]

    def __init__(
        self, settings: agent_settings.AgentSettings, loop: agent_loop.Loop
    ) -> None:
        self._settings = settings
        self._state_dir = os.path.abspath(settings.state_path)
        self._loop = loop
        self._ticked_at_s = loop.now()
        self._closing = False

    @abc.abstractmethod
    def _children(self) -> Iterable[C]:
        """Return all processes, present and absent."""

    @abc.abstractmethod
    def _module(self) -> str:
        """Return the module that the processes run."""

    @abc.abstractmethod
    def _document(self, child: C) -> dict[str, object]:
        """Return the settings of a process."""

    @abc.abstractmethod
    def _greet(self, child: C) -> None:
        """There is a control connection; ask for the status."""

    @abc.abstractmethod
    def _handle(self, child: C, message: messages.Message) -> None:
        """Take a message.

        :raises: KeyError, TypeError or ValueError if it is invalid.
        """

    @abc.abstractmethod
    def _hung_up(self, child: C) -> None:
        """The control connection is over; the process may still be alive."""

    @abc.abstractmethod
    def _died(self, child: C, how: str | None) -> None:
        """A process is gone.

        :param how: :data:`LEFT`, :data:`KILLED` or :data:`DIED`; None for one
            that is not, or not certainly, a process of this kind.
        """

    @abc.abstractmethod
    def _unstartable(self, child: C, message: str) -> None:
        """The start of a process failed several times in a row."""

    def _left(self, child: C) -> None:
        """A process has ended on its own, without a fault."""
        self._spawn(child)

    def _started(self, child: C) -> None:
        """A process was started."""

    def settled(self) -> bool:
        """Whether all processes found running have reported."""
        return all(
            child.heard or child.proved or child.pidfd is None
            for child in self._children()
        )

    def _ask(
        self,
        child: C,
        operation: str,
        members: typing.Mapping[str, object],
        request: typing.Any,
    ) -> None:
        """Send a request.

        Without a connection it is dropped; the caller repeats it when there
        is one.

        :param request: kept in ``requests`` until it is answered.
        """
        if child.sock is None:
            return
        child.last_number += 1
        child.requests[child.last_number] = request
        child.unsent += messages.encode(
            messages.request(child.last_number, operation, **members)
        )
        self._flush(child)

    def tick(self) -> None:
        """Ask every process for its status; end those that do not answer.

        Called at regular intervals. A frozen process, or one whose main
        thread hangs, is of no use.
        """
        now, last_s = self._loop.now(), self._ticked_at_s
        self._ticked_at_s = now
        # Time during which the agent itself stood still counts for little.
        passed_s = min(now - last_s, LONGEST_TICK_S)
        for child in [*self._children()]:
            if child.requests:
                child.silent_s += passed_s
            if child.is_silent(self._settings.worker_timeout_s):
                self._end(child, "does not answer")
            self._ask_status(child)

    @abc.abstractmethod
    def _ask_status(self, child: C) -> None:
        """Ask a process for its status."""

    def _end(self, child: C, reason: str) -> None:
        """Kill a process that does not obey.

        :param reason: for the log.
        """
        LOG.warning("%s is ended: it %s", child.title, reason)
        child.ended_for = reason
        child.signal(signal.SIGKILL)

    def close(self, timeout_s: float) -> None:
        """Leave the processes alone, or end them if they go with their agent.

        Called when the loop has ended.

        :param timeout_s: how long they may take to end on their own.
        """
        self._closing = True
        children = [*self._children()]
        for child in children:
            if child.sock is not None:
                # This tells a process that goes with its agent to end.
                child.sock.close()
                child.sock = None
        if not self._settings.workers_outlive_agent:
            self._end_all(children, timeout_s)
        for child in children:
            self._close_pidfd(child)

    def _end_all(self, children: list[C], timeout_s: float) -> None:
        deadline_s = time.monotonic() + timeout_s
        for child in children:
            # A process without a connection misses that sign.
            child.signal(signal.SIGTERM)
        for child in children:
            if child.pidfd is None:
                continue
            if not processes.ended(child.pidfd, deadline_s - time.monotonic()):
                LOG.warning("%s is killed", child.title)
                child.signal(signal.SIGKILL)
                processes.ended(child.pidfd, timeout_s)
            processes.exit_status(child.pidfd)

    # Start.

    def _take_over(self, child: C) -> None:
        child.timer = None
        if not self._adopt(child):
            self._spawn(child)

    def _adopt(self, child: C) -> bool:
        """Take over a process started by an earlier agent.

        :returns: False if there is none.
        """
        sock = self._dial(child)
        if sock is None:
            return False
        child.pid = processes.peer_pid(sock)
        try:
            child.pidfd = os.pidfd_open(child.pid)
        except OSError as error:
            LOG.info("%s is gone: %s", child.title, error)
            sock.close()
            return False
        LOG.info("%s found: process %d", child.title, child.pid)
        # The number may have passed to another process just before its
        # descriptor was opened. Its next message proves it.
        child.proved = False
        child.ended_for = None
        child.started_at_s = self._loop.now()
        self._watch_process(child)
        self._connected(child, sock)
        return True

    def _prove(self, child: C) -> bool:
        """Check whether a silent process is one of this kind.

        If the socket still accepts, its process has lived since before the
        descriptor was opened, so the number is still its own.
        """
        sock = self._dial(child)
        if sock is None:
            return False
        with sock:
            is_same = processes.peer_pid(sock) == child.pid
            child.proved = is_same and processes.runs(
                child.pid, self._module()
            )
        return child.proved

    def _spawn(self, child: C) -> None:
        child.timer = None
        child.ended_for = None
        child.started_at_s = self._loop.now()
        try:
            child.pid = processes.start(self._module(), self._document(child))
            # The child has not been waited for yet, so that its number still
            # belongs to it.
            child.pidfd = os.pidfd_open(child.pid)
        except OSError as error:
            LOG.error("%s does not start: %s", child.title, error)
            self._failed(child, str(error))
            return
        LOG.info("%s: process %d", child.title, child.pid)
        self._started(child)
        child.proved = True
        self._watch_process(child)
        self._connect_later(child)

    # Connection.

    def _dial(self, child: C) -> socket.socket | None:
        return processes.dial(child.control_path)

    def _connect_later(self, child: C) -> None:
        child.timer = self._loop.call_later(
            CONNECT_INTERVAL_S, functools.partial(self._connect, child)
        )

    def _connect(self, child: C) -> None:
        child.timer = None
        if child.pidfd is None or child.sock is not None:
            return
        sock = self._dial(child)
        # Until a fresh child has made its socket, another process may still
        # listen there.
        if sock is not None and processes.peer_pid(sock) != child.pid:
            sock.close()
            sock = None
        if sock is not None:
            self._connected(child, sock)
        elif self._loop.now() > child.started_at_s + START_TIMEOUT_S:
            self._end(child, "has no control socket")
        else:
            self._connect_later(child)

    def _connected(self, child: C, sock: socket.socket) -> None:
        child.sock = sock
        child.decoder = messages.MessageDecoder(codec.decode_json)
        child.unsent.clear()
        child.requests.clear()
        child.silent_s = 0.0
        child.heard = False
        child.timer = self._loop.call_later(
            START_TIMEOUT_S, functools.partial(self._check_heard, child, sock)
        )
        self._watch(child)
        self._greet(child)

    def _check_heard(self, child: C, sock: socket.socket) -> None:
        if child.sock is not sock or child.heard:
            return
        if child.proved or self._prove(child):
            self._end(child, "does not answer")
        else:
            self._abandon(child)

    def _watch(self, child: C) -> None:
        sock = child.sock
        if sock is None:
            return
        events = agent_loop.READ
        if child.unsent:
            events |= agent_loop.WRITE
        self._loop.watch(
            sock, events, functools.partial(self._ready, child, sock)
        )

    def _ready(self, child: C, sock: socket.socket, events: int) -> None:
        if child.sock is sock and events & agent_loop.WRITE:
            self._flush(child)
        if child.sock is sock and events & agent_loop.READ:
            self._receive(child, sock)

    def _flush(self, child: C) -> None:
        sock = child.sock
        if sock is None:
            return
        try:
            while child.unsent:
                sent_bytes = sock.send(child.unsent)
                del child.unsent[:sent_bytes]
        except BlockingIOError:
            LOG.debug("%s is busy", child.title)
        except OSError as error:
            # The reading side handles the end.
            LOG.debug("%s: %s", child.title, error)
            child.unsent.clear()
        self._watch(child)

    def _read(self, child: C, sock: socket.socket) -> bytes | memoryview:
        """Return what a process has sent, nothing at the end.

        :raises OSError: if nothing is there, or the connection is lost.
        :raises frames.ProtocolError: if it is not what it should be.
        """
        return sock.recv(RECEIVE_BYTES)

    def _receive(self, child: C, sock: socket.socket) -> None:
        data: bytes | memoryview
        try:
            data = self._read(child, sock)
            received = child.decoder.feed(data)
        except BlockingIOError:
            return
        except ConnectionError as error:
            # It has ended with a request unread, also in an ordinary way: its
            # exit says how.
            LOG.info("%s: %s", child.title, error)
            data = b""
            received = []
        except (OSError, frames.ProtocolError) as error:
            LOG.warning("%s: %s", child.title, error)
            data = b""
            received = []
        for message in received:
            if child.sock is sock:
                self._dispatch(child, message)
        if not data:
            self._disconnected(child)

    def _dispatch(self, child: C, message: messages.Message) -> None:
        try:
            self._handle(child, message)
        except (KeyError, TypeError, ValueError) as error:
            LOG.error(
                "%s sent an invalid message: %r",
                child.title,
                error,
            )

    def _disconnected(self, child: C) -> None:
        if child.sock is None:
            return
        self._loop.unwatch(child.sock)
        child.sock.close()
        child.sock = None
        child.cancel_timer()
        self._hung_up(child)
        if child.pidfd is None:
            return
        if child.proved:
            # Its descriptor shows whether it is dying.
            child.started_at_s = self._loop.now()
            self._connect_later(child)
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
        exit_status = processes.exit_status(pidfd)
        status = processes.how(exit_status)
        if child.sock is not None:
            # Its last messages, such as a result, may still be there.
            self._receive_rest(child)
        self._disconnected_by_death(child)
        LOG.info(
            "%s ended (%s)",
            child.title,
            child.ended_for or status,
        )
        lived_s = self._loop.now() - child.started_at_s
        if child.heard and lived_s >= HEALTHY_AFTER_S:
            child.failures = 0
        heard, child.heard = child.heard, False
        left = heard and exit_status in (0, None)
        self._died(
            child, KILLED if child.ended_for else LEFT if left else DIED
        )
        if left:
            # The exit status is unknown if an earlier agent started it, and
            # the first try is free.
            self._left(child)
        else:
            # The other process may have been started by an agent that died
            # before that process had made its socket.
            taken = exit_status == processes.EXIT_TAKEN
            log = child.log_file or "standard error of the agent"
            self._failed(
                child,
                f"the {self.KIND} ended ({status}); {log} says why",
                self._take_over if taken else self._spawn,
            )

    def _abandon(self, child: C) -> None:
        """Forget a process that is not, or not certainly, of this kind."""
        self._disconnected_by_death(child)
        self._died(child, None)
        self._failed(child, f"the {self.KIND} found at the start is gone")

    def _receive_rest(self, child: C) -> None:
        while child.sock is not None:
            sock = child.sock
            try:
                if not descriptors.is_readable(sock, 0):
                    return
            except (OSError, ValueError):
                return
            self._receive(child, sock)

    def _disconnected_by_death(self, child: C) -> None:
        self._close_pidfd(child)
        child.cancel_timer()
        self._disconnected(child)

    def _failed(
        self,
        child: C,
        message: str,
        retry: Callable[[C], None] | None = None,
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
