# SPDX-License-Identifier: Apache-2.0

"""The worker processes of a host: one per slot, started ahead of its use.

Workers may outlive their agent. A new agent finds them by their control
sockets and starts only those that are missing. A process is signalled
through a descriptor of it (pidfd) only, after it has been proved to be the
one behind the control socket, so that a recycled process number never
costs a stranger its life.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import json
import os
import pathlib
import signal
import socket
import struct
import sys
import time
import typing
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping

from oslo_log import log as logging

import fpgapool
from fpgapool.agent import loop as agent_loop
from fpgapool.agent import table
from fpgapool.common import descriptors
from fpgapool.protocol import frames
from fpgapool.protocol import messages

LOG = logging.getLogger(__name__)

WORKER_MODULE = "fpgapool.agent.worker"

CONNECT_INTERVAL_S = 0.02

#: A worker that lives but has not said anything by then is of no use.
START_TIMEOUT_S = 30.0

FIRST_RESPAWN_S = 0.1
LONGEST_RESPAWN_S = 30.0

#: A worker that lived that long was not broken from the start.
HEALTHY_AFTER_S = 10.0

#: Deaths in a row, each soon after the start, that make a slot faulty.
FAULTY_AFTER_FAILURES = 4

#: Most that one tick adds to the silence of a worker.
LONGEST_TICK_S = 2.0

RECEIVE_BYTES = 65536

#: How a worker ends that finds another one in its slot.
EXIT_SLOT_TAKEN = 3

_CREDENTIALS = struct.Struct("3i")


@dataclasses.dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """What all workers of a host have in common.

    :param state_dir: the host's directory; ``workers`` below it has sockets.
    :param driver_path: ``module:Class``.
    :param timeout_s: how long one may take to answer a request.
    :param outlive_agent: leave workers running when the agent stops.
    :param log_dir: where each worker gets a log file; None: standard error.
    :param log_level: name of the lowest level that workers log.
    """

    state_dir: str
    driver_path: str
    driver_settings: Mapping[str, object]
    data_address: str | None = None
    data_ports: str = "0"
    tls: bool = True
    chunk_bytes: int = 4 * 1024 * 1024
    window_chunks: int = 8
    hello_timeout_s: float = 5.0
    orphan_s: float = 600.0
    timeout_s: float = 10.0
    outlive_agent: bool = True
    log_dir: str | None = None
    log_level: str = "INFO"


class Handler(typing.Protocol):
    """Who gets to know what workers do; called in the loop's thread."""

    def worker_connected(self, key: table.Key) -> None:
        """A control connection stands."""

    def worker_status(
        self, key: table.Key, status: Mapping[str, typing.Any]
    ) -> None:
        """A worker sent its status."""

    def worker_prepared(
        self, key: table.Key, message: Mapping[str, typing.Any]
    ) -> None:
        """A worker minted a secret."""

    def worker_refused(
        self, request: table.ToWorker, code: str, message: str
    ) -> None:
        """A worker answered a request with an error."""

    def worker_disconnected(self, key: table.Key) -> None:
        """A control connection ended; the process may be alive."""

    def worker_died(self, key: table.Key) -> None:
        """A worker's process ended."""

    def worker_unstartable(self, key: table.Key, message: str) -> None:
        """Workers of a slot died several times in a row."""


def control_path(state_dir: str, key: table.Key) -> str:
    """Return the path of a worker's control socket."""
    return f"{_workers_dir(state_dir)}/{key[0]}.{key[1]}.sock"


def data_path(state_dir: str, key: table.Key) -> str:
    """Return the path of the socket of a worker's local clients."""
    return f"{_workers_dir(state_dir)}/{key[0]}.{key[1]}.data.sock"


def _workers_dir(state_dir: str) -> str:
    return os.path.join(state_dir, "workers")


@dataclasses.dataclass(slots=True, eq=False)
class _Worker:
    """One slot's process, or the lack of it."""

    key: table.Key
    pid: int = 0
    pidfd: int | None = None
    #: ``pidfd`` is of the process behind the control socket, for certain.
    proved: bool = False
    sock: socket.socket | None = None
    decoder: messages.MessageDecoder = dataclasses.field(
        default_factory=messages.MessageDecoder
    )
    unsent: bytearray = dataclasses.field(default_factory=bytearray)
    requests: dict[int, table.ToWorker] = dataclasses.field(
        default_factory=dict
    )
    last_number: int = 0
    #: How long it has owed answers and not said anything.
    silent_s: float = 0.0
    started_at_s: float = 0.0
    failures: int = 0
    #: A status came over the present connection.
    heard: bool = False
    #: It was, or is about to be, ended on purpose.
    ended_for: str | None = None
    timer: agent_loop.Timer | None = None


class Supervisor:
    """Keeps one worker per slot alive and talks to it.

    Everything but :meth:`close` runs in the loop's thread.

    :param settings: what the workers have in common.
    :param loop: serves the control connections.
    :param handler: gets to know what happens.
    :ivar started: processes that were started, by device.
    :ivar ended: those that ended, by device and how: "left", "killed", or
        "died".
    """

    def __init__(
        self,
        settings: WorkerSettings,
        loop: agent_loop.Loop,
        handler: Handler,
    ) -> None:
        self._settings = settings
        self._loop = loop
        self._handler = handler
        self._workers: dict[table.Key, _Worker] = {}
        self._ticked_at_s = loop.now()
        self._closing = False
        self.started = collections.Counter[str]()
        self.ended = collections.Counter[tuple[str, str]]()

    def start(self, keys: Iterable[table.Key]) -> None:
        """Take over the living workers and start the missing ones.

        :param keys: the slots.
        """
        directory = pathlib.Path(_workers_dir(self._settings.state_dir))
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory.chmod(0o700)
        for key in keys:
            worker = _Worker(key)
            self._workers[key] = worker
            self._take_over(worker)

    def settled(self) -> bool:
        """Whether all workers that were found running have spoken."""
        return all(
            worker.heard or worker.proved or worker.pidfd is None
            for worker in self._workers.values()
        )

    def pid(self, key: table.Key) -> int | None:
        """Return the process number of a slot's worker, None without one.

        :param key: the slot.
        """
        worker = self._workers[key]
        return None if worker.sock is None else worker.pid

    def send(self, request: table.ToWorker) -> None:
        """Send a request to a worker.

        Dropped without a connection: whoever asks repeats it when there is
        one.

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
        """Ask every worker how it is, and end those that do not answer.

        Called at regular intervals. A worker that is frozen, or whose main
        thread hangs, is of no use, whether it has a session or not.
        """
        now, last_s = self._loop.now(), self._ticked_at_s
        self._ticked_at_s = now
        # Of what passed while the agent itself stood still, little counts.
        passed_s = min(now - last_s, LONGEST_TICK_S)
        for worker in self._workers.values():
            if worker.requests:
                worker.silent_s += passed_s
            if self._is_silent(worker):
                self.end(worker.key, "does not answer")
            self.send(table.ToWorker(worker.key, "status", 0, {}))

    def _is_silent(self, worker: _Worker) -> bool:
        # One that has never spoken has a limit of its own.
        return (
            worker.sock is not None
            and worker.heard
            and worker.ended_for is None
            and worker.silent_s >= self._settings.timeout_s
        )

    def end(self, key: table.Key, reason: str) -> None:
        """Kill a worker that does not do what it is told.

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

        :param timeout_s: how long they may take to end by themselves.
        """
        self._closing = True
        for worker in self._workers.values():
            if worker.sock is not None:
                # To a worker that goes with its agent this is the sign.
                worker.sock.close()
                worker.sock = None
        if not self._settings.outlive_agent:
            self._end_all(timeout_s)
        for worker in self._workers.values():
            self._close_pidfd(worker)
        self._workers.clear()

    def _end_all(self, timeout_s: float) -> None:
        deadline_s = time.monotonic() + timeout_s
        for worker in self._workers.values():
            # A worker without a connection so far misses the sign.
            self._signal(worker, signal.SIGTERM)
        for worker in self._workers.values():
            if worker.pidfd is None:
                continue
            if not _ended(worker.pidfd, deadline_s - time.monotonic()):
                LOG.warning("Worker of slot %s.%d is killed", *worker.key)
                self._signal(worker, signal.SIGKILL)
                _ended(worker.pidfd, timeout_s)
            _exit_status(worker.pidfd)

    # Start.

    def _take_over(self, worker: _Worker) -> None:
        worker.timer = None
        if not self._adopt(worker):
            self._spawn(worker)

    def _adopt(self, worker: _Worker) -> bool:
        """Take over a worker of an earlier agent.

        :returns: False if there is none.
        """
        sock = self._dial(worker)
        if sock is None:
            return False
        worker.pid = _peer_pid(sock)
        try:
            worker.pidfd = os.pidfd_open(worker.pid)
        except OSError as error:
            LOG.info("Worker of slot %s.%d is gone: %s", *worker.key, error)
            sock.close()
            return False
        LOG.info(
            "Worker of slot %s.%d found: process %d", *worker.key, worker.pid
        )
        # Its number may have passed to another process just before the line
        # that opened the descriptor; what it says afterwards proves it.
        worker.proved = False
        worker.ended_for = None
        worker.started_at_s = self._loop.now()
        self._watch_process(worker)
        self._connected(worker, sock)
        return True

    def _prove(self, worker: _Worker) -> bool:
        """Find out whether a mute process is a worker after all.

        If the socket still accepts, its process has lived since before the
        descriptor was opened, and the number is still its own.
        """
        sock = self._dial(worker)
        if sock is None:
            return False
        with sock:
            worker.proved = _peer_pid(sock) == worker.pid and _is_worker(
                worker.pid
            )
        return worker.proved

    def _spawn(self, worker: _Worker) -> None:
        worker.timer = None
        worker.ended_for = None
        worker.started_at_s = self._loop.now()
        try:
            worker.pid = self._start_process(worker.key)
            # It is a child that nobody has waited for yet, so that its
            # number is its own.
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

    def _start_process(self, key: table.Key) -> int:
        """Start a worker in a session of its own, so that it may stay."""
        environment = dict(os.environ)
        # The worker must be the agent's own version, wherever it runs, and
        # take nothing from the working directory (-P).
        root = str(pathlib.Path(fpgapool.__file__).parent.parent)
        inherited = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = (
            root if not inherited else os.pathsep.join((root, inherited))
        )
        return os.posix_spawn(
            sys.executable,
            [
                sys.executable,
                "-P",
                "-m",
                WORKER_MODULE,
                json.dumps(self._document(key)),
            ],
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
            ],
            setsid=True,
            setsigmask=[],
        )

    def _document(self, key: table.Key) -> dict[str, object]:
        settings = self._settings
        return {
            "worker_id": f"{key[0]}.{key[1]}",
            "device": key[0],
            "slot": key[1],
            "state_dir": settings.state_dir,
            "control_socket": control_path(settings.state_dir, key),
            "data_socket": data_path(settings.state_dir, key),
            "driver": settings.driver_path,
            "driver_settings": dict(settings.driver_settings),
            "data_address": settings.data_address,
            "data_ports": settings.data_ports,
            "tls": settings.tls,
            "chunk_bytes": settings.chunk_bytes,
            "window_chunks": settings.window_chunks,
            "hello_timeout_s": settings.hello_timeout_s,
            "orphan_s": settings.orphan_s,
            "exit_with_agent": not settings.outlive_agent,
            "log_file": self._log_file(key),
            "log_level": settings.log_level,
        }

    def _log_file(self, key: table.Key) -> str | None:
        log_dir = self._settings.log_dir
        if log_dir is None:
            return None
        return os.path.join(
            os.path.abspath(log_dir), f"worker-{key[0]}.{key[1]}.log"
        )

    # Connection.

    def _dial(self, worker: _Worker) -> socket.socket | None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.setblocking(False)
        try:
            sock.connect(control_path(self._settings.state_dir, worker.key))
        except OSError:
            sock.close()
            return None
        return sock

    def _connect_later(self, worker: _Worker) -> None:
        worker.timer = self._loop.call_later(
            CONNECT_INTERVAL_S, functools.partial(self._connect, worker)
        )

    def _connect(self, worker: _Worker) -> None:
        worker.timer = None
        if worker.pidfd is None or worker.sock is not None:
            return
        sock = self._dial(worker)
        # Until a fresh worker has made its socket, somebody else may still
        # listen there.
        if sock is not None and _peer_pid(sock) != worker.pid:
            sock.close()
            sock = None
        if sock is not None:
            self._connected(worker, sock)
        elif self._is_late(worker):
            self.end(worker.key, "has no control socket")
        else:
            self._connect_later(worker)

    def _is_late(self, worker: _Worker) -> bool:
        return self._loop.now() > worker.started_at_s + START_TIMEOUT_S

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
        self._handler.worker_connected(worker.key)
        self.send(table.ToWorker(worker.key, "status", 0, {}))

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
            # The end is handled where it is read.
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
                "Worker of slot %s.%d sent a message without sense: %r",
                *worker.key,
                error,
            )

    def _handle(self, worker: _Worker, message: messages.Message) -> None:
        worker.silent_s = 0.0
        event = message.get("event")
        if event == "prepared":
            self._handler.worker_prepared(worker.key, message)
            return
        if event is None:
            request = worker.requests.pop(message["id"], None)
            if request is not None and not message["ok"]:
                error = message["error"]
                self._handler.worker_refused(
                    request, str(error["code"]), str(error["message"])
                )
        status = message.get("status")
        if status is not None:
            worker.heard = worker.proved = True
            self._handler.worker_status(worker.key, status)

    def _disconnected(self, worker: _Worker) -> None:
        if worker.sock is None:
            return
        self._loop.unwatch(worker.sock)
        worker.sock.close()
        worker.sock = None
        self._cancel_timer(worker)
        self._handler.worker_disconnected(worker.key)
        if worker.pidfd is None:
            return
        if worker.proved:
            # Whether it is dying shows at its descriptor.
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
        exit_status = _exit_status(pidfd)
        if worker.sock is not None:
            # Its last words, such as a result, may still be there.
            self._receive_rest(worker)
        self._disconnected_by_death(worker)
        LOG.info(
            "Worker of slot %s.%d ended (%s)",
            *worker.key,
            worker.ended_for or _how(exit_status),
        )
        lived_s = self._loop.now() - worker.started_at_s
        if worker.heard and lived_s >= HEALTHY_AFTER_S:
            worker.failures = 0
        heard, worker.heard = worker.heard, False
        left = heard and exit_status in (0, None)
        how = "killed" if worker.ended_for else "left" if left else "died"
        self.ended[worker.key[0], how] += 1
        self._handler.worker_died(worker.key)
        if left:
            # It made room for a fresh one; of a worker that an earlier agent
            # started nobody knows the status, and the first try is free.
            self._spawn(worker)
        else:
            # The other one may have been started by an agent that died
            # before the worker had made its socket.
            taken = exit_status == EXIT_SLOT_TAKEN
            log = self._log_file(worker.key) or "standard error of the agent"
            self._failed(
                worker,
                f"the worker ended ({_how(exit_status)}); {log} says why",
                self._take_over if taken else self._spawn,
            )

    def _abandon(self, worker: _Worker) -> None:
        """Forget a process that is not, or not for certain, a worker."""
        self._disconnected_by_death(worker)
        self._handler.worker_died(worker.key)
        self._failed(worker, "the worker found at the start is gone")

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
            self._handler.worker_unstartable(worker.key, message)
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


def _peer_pid(sock: socket.socket) -> int:
    credentials = sock.getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
    )
    pid: int = _CREDENTIALS.unpack(credentials)[0]
    return pid


def _ended(pidfd: int, timeout_s: float) -> bool:
    """Wait for the end of a process."""
    return descriptors.is_readable(pidfd, max(0.0, timeout_s))


def _exit_status(pidfd: int) -> int | None:
    """Reap an ended process.

    :returns: its status, or the negative number of the signal that ended it;
        None for one that another process started.
    """
    try:
        result = os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG)
    except ChildProcessError:
        return None
    if result is None:
        return None
    has_exited = result.si_code == os.CLD_EXITED
    return result.si_status if has_exited else -result.si_status


def _how(exit_status: int | None) -> str:
    if exit_status is None or exit_status >= 0:
        return f"status {exit_status}"
    return signal.Signals(-exit_status).name


def _is_worker(pid: int) -> bool:
    try:
        command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return WORKER_MODULE.encode() in command.split(b"\0")
