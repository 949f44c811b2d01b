# SPDX-License-Identifier: Apache-2.0

"""The worker processes of a host: one per slot, started ahead of its use.

Workers may outlive their agent. A new agent finds them by their control
sockets and starts only the missing ones. A process is signalled only through
a descriptor of it (pidfd), and only after that process has been proved to be
the one behind the control socket. So a recycled process number never costs
another process its life.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import os
import pathlib
import signal
import socket
import time
import typing
from collections.abc import Callable
from collections.abc import Iterable

from oslo_log import log as logging

from fpgapool.agent import loop as agent_loop
from fpgapool.agent import metrics
from fpgapool.agent import orders
from fpgapool.agent import processes
from fpgapool.agent import settings as agent_settings
from fpgapool.agent import slot
from fpgapool.agent import table
from fpgapool.common import descriptors
from fpgapool.protocol import frames
from fpgapool.protocol import messages

LOG = logging.getLogger(__name__)

CONNECT_INTERVAL_S = 0.02

#: A live worker that has sent nothing within this time is of no use.
START_TIMEOUT_S = 30.0

FIRST_RESPAWN_S = 0.1
LONGEST_RESPAWN_S = 30.0

#: A worker that lived this long was not broken from the start.
HEALTHY_AFTER_S = 10.0

#: A slot is faulty after this many deaths in a row, each soon after a start.
FAULTY_AFTER_FAILURES = 4

#: The most that one tick adds to the silence of a worker.
LONGEST_TICK_S = 2.0

RECEIVE_BYTES = 65536


#: Settings that workers take from their agent unchanged.
_SAME = (
    "data_address data_ports tls chunk_bytes window_chunks hello_timeout_s"
    " log_level"
).split()

#: Passes an event of a slot to the slot table.
Tell: typing.TypeAlias = Callable[[orders.Key, table.Change], None]


def control_path(state_dir: str, key: orders.Key) -> str:
    """Return the path of a worker's control socket."""
    return f"{_workers_dir(state_dir)}/{key[0]}.{key[1]}.sock"


def data_path(state_dir: str, key: orders.Key) -> str:
    """Return the path of the socket of a worker's local clients."""
    return f"{_workers_dir(state_dir)}/{key[0]}.{key[1]}.data.sock"


def _workers_dir(state_dir: str) -> str:
    return os.path.join(state_dir, "workers")


@dataclasses.dataclass(slots=True, eq=False)
class _Worker:
    """The process of one slot, or its absence."""

    key: orders.Key
    pid: int = 0
    pidfd: int | None = None
    #: ``pidfd`` is proved to be of the process behind the control socket.
    proved: bool = False
    sock: socket.socket | None = None
    decoder: messages.MessageDecoder = dataclasses.field(
        default_factory=messages.MessageDecoder
    )
    unsent: bytearray = dataclasses.field(default_factory=bytearray)
    requests: dict[int, orders.ToWorker] = dataclasses.field(
        default_factory=dict
    )
    last_number: int = 0
    #: How long the worker has been silent while it owed answers.
    silent_s: float = 0.0
    started_at_s: float = 0.0
    failures: int = 0
    #: A status has come over the present connection.
    heard: bool = False
    #: Why the worker was, or is about to be, ended on purpose.
    ended_for: str | None = None
    timer: agent_loop.Timer | None = None


class Supervisor:
    """Keeps one worker per slot alive and talks to it.

    Everything but :meth:`close` runs in the loop's thread.

    :param settings: of the agent.
    :param loop: serves the control connections.
    :param counts: receives the counts of events …
    :param tell: … and this passes the events to the slot table.
    :ivar started: number of started processes, by device.
    :ivar ended: number of ended ones, by device and how: "left", "killed", or
        "died".
    """

    def __init__(
        self,
        settings: agent_settings.AgentSettings,
        loop: agent_loop.Loop,
        counts: metrics.Counts,
        tell: Tell,
    ) -> None:
        self._settings = settings
        self._state_dir = os.path.abspath(settings.state_path)
        self._loop = loop
        self._counts = counts
        self._tell = tell
        self._workers: dict[orders.Key, _Worker] = {}
        self._ticked_at_s = loop.now()
        self._closing = False
        self.started = collections.Counter[str]()
        self.ended = collections.Counter[tuple[str, str]]()

    def start(self, keys: Iterable[orders.Key]) -> None:
        """Take over the living workers and start the missing ones.

        :param keys: the slots.
        """
        directory = pathlib.Path(_workers_dir(self._state_dir))
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory.chmod(0o700)
        for key in keys:
            worker = _Worker(key)
            self._workers[key] = worker
            self._take_over(worker)

    def settled(self) -> bool:
        """Whether all workers found running have reported."""
        return all(
            worker.heard or worker.proved or worker.pidfd is None
            for worker in self._workers.values()
        )

    def send(self, request: orders.ToWorker) -> None:
        """Send a request to a worker.

        Without a connection it is dropped; the caller repeats it when there
        is one.

        :param request: slot and request.
        """
        worker = self._workers[request.key]
        if worker.sock is None:
            return
        worker.last_number += 1
        worker.requests[worker.last_number] = request
        worker.unsent += messages.encode(
            messages.request(
                worker.last_number, request.operation, **request.members
            )
        )
        self._flush(worker)

    def tick(self) -> None:
        """Ask every worker for its status and end those that do not answer.

        Called at regular intervals. A frozen worker, or one whose main thread
        hangs, is of no use, whether it has a session or not.
        """
        now, last_s = self._loop.now(), self._ticked_at_s
        self._ticked_at_s = now
        # Time during which the agent itself stood still counts for little.
        passed_s = min(now - last_s, LONGEST_TICK_S)
        for worker in self._workers.values():
            if worker.requests:
                worker.silent_s += passed_s
            if self._is_silent(worker):
                self.end(worker.key, "does not answer")
            self.send(orders.ToWorker(worker.key, "status", 0, {}))

    def _is_silent(self, worker: _Worker) -> bool:
        # A worker that never reported has a limit of its own.
        return (
            worker.sock is not None
            and worker.heard
            and worker.ended_for is None
            and worker.silent_s >= self._settings.worker_timeout_s
        )

    def end(self, key: orders.Key, reason: str) -> None:
        """Kill a worker that does not obey.

        :param key: the slot.
        :param reason: for the log.
        """
        worker = self._workers[key]
        LOG.warning("Worker of slot %s.%d is ended: it %s", *key, reason)
        worker.ended_for = reason
        self._signal(worker, signal.SIGKILL)

    def close(self, timeout_s: float) -> None:
        """Leave the workers alone, or end them if they go with their agent.

        Called when the loop has ended.

        :param timeout_s: how long they may take to end on their own.
        """
        self._closing = True
        for worker in self._workers.values():
            if worker.sock is not None:
                # This tells a worker that goes with its agent to end.
                worker.sock.close()
                worker.sock = None
        if not self._settings.workers_outlive_agent:
            self._end_all(timeout_s)
        for worker in self._workers.values():
            self._close_pidfd(worker)
        self._workers.clear()

    def _end_all(self, timeout_s: float) -> None:
        deadline_s = time.monotonic() + timeout_s
        for worker in self._workers.values():
            # A worker without a connection misses that sign.
            self._signal(worker, signal.SIGTERM)
        for worker in self._workers.values():
            if worker.pidfd is None:
                continue
            if not processes.ended(
                worker.pidfd, deadline_s - time.monotonic()
            ):
                LOG.warning("Worker of slot %s.%d is killed", *worker.key)
                self._signal(worker, signal.SIGKILL)
                processes.ended(worker.pidfd, timeout_s)
            processes.exit_status(worker.pidfd)

    # Start.

    def _take_over(self, worker: _Worker) -> None:
        worker.timer = None
        if not self._adopt(worker):
            self._spawn(worker)

    def _adopt(self, worker: _Worker) -> bool:
        """Take over a worker started by an earlier agent.

        :returns: False if there is none.
        """
        sock = self._dial(worker)
        if sock is None:
            return False
        worker.pid = processes.peer_pid(sock)
        try:
            worker.pidfd = os.pidfd_open(worker.pid)
        except OSError as error:
            LOG.info("Worker of slot %s.%d is gone: %s", *worker.key, error)
            sock.close()
            return False
        LOG.info(
            "Worker of slot %s.%d found: process %d", *worker.key, worker.pid
        )
        # The number may have passed to another process just before its
        # descriptor was opened. The worker's next message proves it.
        worker.proved = False
        worker.ended_for = None
        worker.started_at_s = self._loop.now()
        self._watch_process(worker)
        self._connected(worker, sock)
        return True

    def _prove(self, worker: _Worker) -> bool:
        """Check whether a silent process is a worker.

        If the socket still accepts, its process has lived since before the
        descriptor was opened, so the number is still its own.
        """
        sock = self._dial(worker)
        if sock is None:
            return False
        with sock:
            is_same = processes.peer_pid(sock) == worker.pid
            worker.proved = is_same and processes.is_worker(worker.pid)
        return worker.proved

    def _spawn(self, worker: _Worker) -> None:
        worker.timer = None
        worker.ended_for = None
        worker.started_at_s = self._loop.now()
        try:
            worker.pid = processes.start(self._document(worker.key))
            # The child has not been waited for yet, so that its number still
            # belongs to it.
            worker.pidfd = os.pidfd_open(worker.pid)
        except OSError as error:
            LOG.error(
                "Worker of slot %s.%d does not start: %s", *worker.key, error
            )
            self._failed(worker, str(error))
            return
        LOG.info("Worker of slot %s.%d: process %d", *worker.key, worker.pid)
        self.started[worker.key[0]] += 1
        worker.proved = True
        self._watch_process(worker)
        self._connect_later(worker)

    def _document(self, key: orders.Key) -> dict[str, object]:
        settings = self._settings
        return {
            "worker_id": f"{key[0]}.{key[1]}",
            "device": key[0],
            "slot": key[1],
            "state_dir": self._state_dir,
            "control_socket": control_path(self._state_dir, key),
            "data_socket": data_path(self._state_dir, key),
            "driver": settings.driver_path,
            "driver_settings": agent_settings.driver_settings(settings),
            **{name: getattr(settings, name) for name in _SAME},
            "orphan_s": settings.worker_orphan_s,
            "exit_with_agent": not settings.workers_outlive_agent,
            "log_file": self._log_file(key),
        }

    def _log_file(self, key: orders.Key) -> str | None:
        log_dir = self._settings.log_dir
        if log_dir is None:
            return None
        return os.path.join(
            os.path.abspath(log_dir), f"worker-{key[0]}.{key[1]}.log"
        )

    # Connection.

    def _dial(self, worker: _Worker) -> socket.socket | None:
        return processes.dial(control_path(self._state_dir, worker.key))

    def _connect_later(self, worker: _Worker) -> None:
        worker.timer = self._loop.call_later(
            CONNECT_INTERVAL_S, functools.partial(self._connect, worker)
        )

    def _connect(self, worker: _Worker) -> None:
        worker.timer = None
        if worker.pidfd is None or worker.sock is not None:
            return
        sock = self._dial(worker)
        # Until a fresh worker has made its socket, another process may still
        # listen there.
        if sock is not None and processes.peer_pid(sock) != worker.pid:
            sock.close()
            sock = None
        if sock is not None:
            self._connected(worker, sock)
        elif self._loop.now() > worker.started_at_s + START_TIMEOUT_S:
            self.end(worker.key, "has no control socket")
        else:
            self._connect_later(worker)

    def _connected(self, worker: _Worker, sock: socket.socket) -> None:
        worker.sock = sock
        worker.decoder = messages.MessageDecoder()
        worker.unsent.clear()
        worker.requests.clear()
        worker.silent_s = 0.0
        worker.heard = False
        worker.timer = self._loop.call_later(
            START_TIMEOUT_S, functools.partial(self._check_heard, worker, sock)
        )
        self._watch(worker)
        key = worker.key
        self._tell(key, lambda slots, _now: slots.worker_connected(key))
        self.send(orders.ToWorker(worker.key, "status", 0, {}))

    def _check_heard(self, worker: _Worker, sock: socket.socket) -> None:
        if worker.sock is not sock or worker.heard:
            return
        if worker.proved or self._prove(worker):
            self.end(worker.key, "does not answer")
        else:
            self._abandon(worker)

    def _watch(self, worker: _Worker) -> None:
        sock = worker.sock
        if sock is None:
            return
        events = agent_loop.READ
        if worker.unsent:
            events |= agent_loop.WRITE
        self._loop.watch(
            sock, events, functools.partial(self._ready, worker, sock)
        )

    def _ready(
        self, worker: _Worker, sock: socket.socket, events: int
    ) -> None:
        if worker.sock is sock and events & agent_loop.WRITE:
            self._flush(worker)
        if worker.sock is sock and events & agent_loop.READ:
            self._receive(worker, sock)

    def _flush(self, worker: _Worker) -> None:
        sock = worker.sock
        if sock is None:
            return
        try:
            while worker.unsent:
                sent_bytes = sock.send(worker.unsent)
                del worker.unsent[:sent_bytes]
        except BlockingIOError:
            LOG.debug("Worker of slot %s.%d is busy", *worker.key)
        except OSError as error:
            # The reading side handles the end.
            LOG.debug("Worker of slot %s.%d: %s", *worker.key, error)
            worker.unsent.clear()
        self._watch(worker)

    def _receive(self, worker: _Worker, sock: socket.socket) -> None:
        try:
            data = sock.recv(RECEIVE_BYTES)
            received = worker.decoder.feed(data)
        except BlockingIOError:
            return
        except (OSError, frames.ProtocolError) as error:
            LOG.warning("Worker of slot %s.%d: %s", *worker.key, error)
            data = b""
            received = []
        for message in received:
            if worker.sock is sock:
                self._dispatch(worker, message)
        if not data:
            self._disconnected(worker)

    def _dispatch(self, worker: _Worker, message: messages.Message) -> None:
        try:
            self._handle(worker, message)
        except (KeyError, TypeError, ValueError) as error:
            LOG.error(
                "Worker of slot %s.%d sent an invalid message: %r",
                *worker.key,
                error,
            )

    def _handle(self, worker: _Worker, message: messages.Message) -> None:
        worker.silent_s = 0.0
        event = message.get("event")
        if event == "prepared":
            self._prepared(worker.key, message)
            return
        if event is None:
            request = worker.requests.pop(message["id"], None)
            if request is not None and not message["ok"]:
                error = message["error"]
                self._refused(
                    request, str(error["code"]), str(error["message"])
                )
        members = message.get("status")
        if members is None:
            return
        worker.heard = worker.proved = True
        key, status = worker.key, slot.WorkerStatus.from_members(members)
        self._counts.note_status(key, status)
        self._tell(
            key, lambda slots, now: slots.worker_status(key, status, now)
        )

    def _prepared(self, key: orders.Key, message: messages.Message) -> None:
        generation = int(message["generation"])
        secret = str(message["secret"])
        certificate_sha256 = message.get("certificate_sha256")
        self._counts.note_prepared(key, generation, self._loop.now())
        self._tell(
            key,
            lambda slots, _now: slots.worker_prepared(
                key, generation, secret, certificate_sha256
            ),
        )

    def _refused(
        self, request: orders.ToWorker, code: str, message: str
    ) -> None:
        key, generation = request.key, request.generation
        LOG.warning(
            "Worker of slot %s.%d refused %s: %s: %s",
            *key,
            request.operation,
            code,
            message,
        )
        if request.operation == "assign":
            self._tell(
                key,
                lambda slots, now: slots.worker_refused(
                    key, generation, code, message, now
                ),
            )

    def _disconnected(self, worker: _Worker) -> None:
        if worker.sock is None:
            return
        self._loop.unwatch(worker.sock)
        worker.sock.close()
        worker.sock = None
        self._cancel_timer(worker)
        key = worker.key
        self._tell(key, lambda slots, _now: slots.worker_disconnected(key))
        if worker.pidfd is None:
            return
        if worker.proved:
            # Its descriptor shows whether it is dying.
            worker.started_at_s = self._loop.now()
            self._connect_later(worker)
        else:
            self._abandon(worker)

    # End.

    def _watch_process(self, worker: _Worker) -> None:
        pidfd = worker.pidfd
        self._loop.watch(
            pidfd,
            agent_loop.READ,
            lambda _events: self._exited(worker, pidfd),
        )

    def _exited(self, worker: _Worker, pidfd: int | None) -> None:
        if worker.pidfd != pidfd or pidfd is None:
            return
        exit_status = processes.exit_status(pidfd)
        status = processes.how(exit_status)
        if worker.sock is not None:
            # Its last messages, such as a result, may still be there.
            self._receive_rest(worker)
        self._disconnected_by_death(worker)
        LOG.info(
            "Worker of slot %s.%d ended (%s)",
            *worker.key,
            worker.ended_for or status,
        )
        lived_s = self._loop.now() - worker.started_at_s
        if worker.heard and lived_s >= HEALTHY_AFTER_S:
            worker.failures = 0
        heard, worker.heard = worker.heard, False
        left = heard and exit_status in (0, None)
        how = "killed" if worker.ended_for else "left" if left else "died"
        self.ended[worker.key[0], how] += 1
        self._died(worker.key)
        if left:
            # It made room for a fresh one. The exit status is unknown if an
            # earlier agent started it, and the first try is free.
            self._spawn(worker)
        else:
            # The other worker may have been started by an agent that died
            # before that worker had made its socket.
            taken = exit_status == processes.EXIT_SLOT_TAKEN
            log = self._log_file(worker.key) or "standard error of the agent"
            self._failed(
                worker,
                f"the worker ended ({status}); {log} says why",
                self._take_over if taken else self._spawn,
            )

    def _abandon(self, worker: _Worker) -> None:
        """Forget a process that is not, or not certainly, a worker."""
        self._disconnected_by_death(worker)
        self._died(worker.key)
        self._failed(worker, "the worker found at the start is gone")

    def _died(self, key: orders.Key) -> None:
        self._tell(key, lambda slots, now: slots.worker_died(key, now))

    def _receive_rest(self, worker: _Worker) -> None:
        while worker.sock is not None:
            sock = worker.sock
            try:
                if not descriptors.is_readable(sock, 0):
                    return
            except (OSError, ValueError):
                return
            self._receive(worker, sock)

    def _disconnected_by_death(self, worker: _Worker) -> None:
        self._close_pidfd(worker)
        self._cancel_timer(worker)
        self._disconnected(worker)

    def _failed(
        self,
        worker: _Worker,
        message: str,
        retry: Callable[[_Worker], None] | None = None,
    ) -> None:
        worker.failures += 1
        if worker.failures >= FAULTY_AFTER_FAILURES:
            key = worker.key
            self._tell(
                key,
                lambda slots, now: slots.worker_unstartable(key, message, now),
            )
        delay_s = min(
            FIRST_RESPAWN_S * 2 ** min(worker.failures - 1, 20),
            LONGEST_RESPAWN_S,
        )
        worker.timer = self._loop.call_later(
            delay_s, functools.partial(retry or self._spawn, worker)
        )

    def _signal(self, worker: _Worker, number: signal.Signals) -> None:
        if worker.pidfd is None or not worker.proved:
            return
        try:
            signal.pidfd_send_signal(worker.pidfd, number)
        except ProcessLookupError:
            LOG.debug("Worker of slot %s.%d has ended", *worker.key)

    def _close_pidfd(self, worker: _Worker) -> None:
        if worker.pidfd is None:
            return
        if not self._closing:
            self._loop.unwatch(worker.pidfd)
        os.close(worker.pidfd)
        worker.pidfd = None

    @staticmethod
    def _cancel_timer(worker: _Worker) -> None:
        if worker.timer is not None:
            worker.timer.cancel()
            worker.timer = None
