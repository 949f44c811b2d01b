# SPDX-License-Identifier: Apache-2.0

"""The worker processes of a host: one per slot, started before it is used.

Workers may outlive their agent; see :mod:`.children`.
"""

from __future__ import annotations

import array
import collections
import contextlib
import dataclasses
import errno
import functools
import hashlib
import json
import os
import pathlib
import shutil
import socket
import typing
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping

from oslo_log import log as logging

from fpgapool import version
from fpgapool.agent import loop as agent_loop
from fpgapool.agent import metrics
from fpgapool.agent import settings as agent_settings
from fpgapool.agent.slots import orders
from fpgapool.agent.slots import slot
from fpgapool.agent.slots import table
from fpgapool.agent.supervision import assigned
from fpgapool.agent.supervision import cgroups
from fpgapool.agent.supervision import children
from fpgapool.agent.supervision import forks
from fpgapool.agent.supervision import link as links
from fpgapool.agent.supervision import processes
from fpgapool.agent.supervision import unread
from fpgapool.common.channels import buffers
from fpgapool.common.channels import channel
from fpgapool.common.channels import descriptors
from fpgapool.drivers import base as drivers
from fpgapool.drivers import documents
from fpgapool.protocol import frames
from fpgapool.protocol import messages
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import shapes
from fpgapool.vocabulary import states

LOG = logging.getLogger(__name__)

# Why workers refuse requests while all is well: a slot goes to another
# project, or the client has connected before the agent asked for a new secret.
_ORDINARY = frozenset({codes.RECYCLE, codes.SESSION_NOT_READY})

#: Time in which an idle worker must answer, and then end.
IDLE_TIMEOUT_S = 10.0

#: Shortest time between two connections of a worker to its desk, or to the
#: next stage's worker.
DESK_INTERVAL_S = 0.02

# What a worker does only after an order, and once: it takes an assignment up,
# announces that the slot is ready, and hands unread buffers over.
_HOLD, _PREPARED, _UNREAD = "hold", "prepared", "unread"
_ONCE = (_HOLD, _PREPARED, _UNREAD)

# The events of workers.
_EVENTS = {
    _PREPARED: shapes.Members(
        {
            "generation": messages.GENERATION,
            "secret": shapes.matching("([0-9a-f]{64})?", "a secret"),
        },
        others=True,
    ),
    "desk_wanted": shapes.Members(
        {"generation": messages.GENERATION}, others=True
    ),
    "next_wanted": shapes.Members(
        {
            "number": shapes.integer(0, 2**63 - 1),
            "generation": messages.GENERATION,
            "session_id": messages.HOLDER,
            "next_generation": messages.GENERATION,
        },
        others=True,
    ),
    _UNREAD: shapes.Members({}, others=True),
}

#: Connects a project's worker to the worker of a session: project, session,
#: generation, and what to call with the connection or None.
DialNext: typing.TypeAlias = Callable[
    [str, str, int, Callable[[socket.socket | None], None]], None
]


def control_path(state_dir: str, key: orders.Key) -> str:
    return f"{_workers_dir(state_dir)}/{key[0]}.{key[1]}.sock"


def data_path(state_dir: str, key: orders.Key) -> str:
    """Return the path of a worker's socket for local clients."""
    return f"{_workers_dir(state_dir)}/{key[0]}.{key[1]}.data.sock"


def own_dir(state_dir: str, key: orders.Key) -> str:
    """Return the path of the directory that only a slot's worker reads."""
    return f"{_workers_dir(state_dir)}/{key[0]}.{key[1]}"


def _record_path(state_dir: str, key: orders.Key) -> str:
    return os.path.join(own_dir(state_dir, key), "assigned")


def _workers_dir(state_dir: str) -> str:
    return os.path.join(state_dir, "workers")


def warm_up_with(
    settings: agent_settings.AgentSettings,
) -> dict[str, object]:
    """Return what all workers of an agent have in common."""
    return {
        **_driver(settings),
        "tls": settings.tls and settings.data_address is not None,
    }


def _driver(settings: agent_settings.AgentSettings) -> dict[str, object]:
    return {
        "driver": settings.driver_path,
        "driver_settings": agent_settings.driver_settings(settings),
    }


class Busy(Exception):
    """A worker has a session, or does not respond."""


def end_idle(state_dir: str, device: str | None) -> None:
    """End the idle workers of the host's last agent. No agent may be running.

    :param device: end only the workers of its slots; None for all workers.
    """
    for path in sorted(pathlib.Path(_workers_dir(state_dir)).glob("*.sock")):
        name, _, number = path.stem.rpartition(".")
        # Skip the sockets for clients.
        if number.isdecimal() and device in (None, name):
            try:
                _end_idle(path)
            except (OSError, frames.ProtocolError) as error:
                raise Busy(
                    f"the worker at {path.name} does not respond: {error}"
                ) from error


def _end_idle(path: pathlib.Path) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(IDLE_TIMEOUT_S)
        try:
            sock.connect(str(path))
        except OSError:
            # The worker has died and left its socket behind.
            return
        pidfd = os.pidfd_open(descriptors.peer(sock)[0])
        try:
            sock.sendall(messages.encode(messages.request(1, "status")))
            if _status(sock)["session_id"] is not None:
                raise Busy(f"the worker of slot {path.stem} has a session")
            sock.sendall(messages.encode(messages.request(2, "exit")))
            if not processes.ended(pidfd, IDLE_TIMEOUT_S):
                raise Busy(
                    f"the worker of slot {path.stem} did not end in time"
                )
        finally:
            os.close(pidfd)


def _status(sock: socket.socket) -> messages.Message:
    """Return the first status that a worker sends.

    :raises OSError: if no status arrives in time.
    """
    decoder = messages.MessageDecoder()
    while data := sock.recv(links.RECEIVE_BYTES):
        for message in decoder.feed(data):
            status = message.get("status")
            if isinstance(status, dict) and "session_id" in status:
                return status
    raise ConnectionError("the worker closed the connection")


@dataclasses.dataclass(slots=True, eq=False, kw_only=True)
class _WorkerProcess(children.Child):
    """A slot's process, which may be absent.

    :ivar made_for: digest of a worker that is started now; see
        :func:`_made_for`.
    :ivar stale: whether it has a different digest, or has served a group.
    :ivar assigned: its last assignment; None if it is not known yet.
    :ivar run: see :func:`.processes.run_of`.
    :ivar is_new: whether this agent has started it and not yet reached it.
    :ivar may: how often it may still do what it does only after an order.
    :ivar holds: whether its last status has a holder.
    :ivar desk_due_s: when it may get the next connection to its desk.
    :ivar ask_next: asks again for a connection to the next stage's worker,
        which it did before it had answered the last one.
    :ivar reported_idle: whether, since the last status request, it has
        reported without a request that it is idle.
    """

    key: orders.Key
    #: Received file descriptors whose message has not arrived yet.
    fds: list[int] = dataclasses.field(default_factory=list)
    made_for: str = ""
    stale: bool = False
    assigned: assigned.Assigned | None = None
    run: str = ""
    is_new: bool = False
    may: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter
    )
    holds: bool = False
    desk_due_s: float = 0.0
    next_due_s: float = 0.0
    dials_next: bool = False
    ask_next: Callable[[], None] | None = None
    reported_idle: bool = False

    def spend(self, what: str) -> None:
        """Note that it does something; see ``_ONCE``."""
        self.may[what] -= 1
        if self.may[what] < 0:
            raise shapes.Invalid(what, "comes without an order")


class Workers(children.Keeper[_WorkerProcess]):
    """Keeps one worker for each slot alive, and communicates with it.

    :param emit: passes an event to the slot table: the slot, a method of the
        table, and the method's other arguments.
    :param dial_desk: see :meth:`.desks.Desks.dial_for`.
    :param dial_next: see :class:`.stages.NextStages`.
    :ivar started: number of processes started, by device.
    :ivar ended: number of processes that have ended, by device and manner:
        "left", "killed", "died" or "out_of_memory".
    """

    KIND = "worker"
    MODULE = processes.WORKER_MODULE

    def __init__(
        self,
        settings: agent_settings.AgentSettings,
        loop: agent_loop.Loop,
        counts: metrics.Counts,
        emit: Callable[..., None],
        dial_desk: Callable[[orders.Key, int], socket.socket | None],
        dial_next: DialNext,
        server: forks.ForkServer,
        groups: cgroups.Cgroups,
    ) -> None:
        limits = cgroups.Limits(
            memory_bytes=settings.worker_memory_bytes,
            pids=settings.worker_pids_max,
            cpu_weight=settings.worker_cpu_weight,
        )
        super().__init__(settings, loop, server, groups, limits)
        self._counts = counts
        self._emit = emit
        self._dial_desk = dial_desk
        self._dial_next = dial_next
        self._workers: dict[orders.Key, _WorkerProcess] = {}
        # Descriptors of two messages may arrive before the first is complete.
        self._most_fds = 2 * buffers.DESCRIPTORS
        self._buffer = memoryview(bytearray(links.RECEIVE_BYTES))
        self._unread = unread.Unread(
            loop, 2 * settings.chunk_bytes * settings.window_chunks
        )
        self.started = collections.Counter[str]()
        self.ended = collections.Counter[tuple[str, str]]()

    def start(self, devices: Iterable[drivers.DeviceInfo]) -> None:
        """Adopt the running workers and start the missing ones."""
        directory = pathlib.Path(_workers_dir(self._state_dir))
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory.chmod(0o700)
        for device in devices:
            for facts in device.slots:
                key = device.name, facts.number
                name = f"{key[0]}.{key[1]}"
                (directory / name).mkdir(mode=0o700, exist_ok=True)
                worker = self._workers[key] = _WorkerProcess(
                    title=f"Worker of slot {name}",
                    name=f"worker-{name}",
                    control_path=control_path(self._state_dir, key),
                    data_path=data_path(self._state_dir, key),
                    log_file=children.log_file(
                        self._settings, f"worker-{name}.log"
                    ),
                    key=key,
                )
                self._link(worker, functools.partial(self._read, worker))
                worker.made_for = _made_for(
                    device, self._document(worker), self._settings
                )
                self._take_over(worker)

    def send(self, request: orders.ToWorker) -> None:
        """Send a request to a worker.

        Without a connection, it is dropped; the caller repeats it later.
        """
        worker = self._workers[request.key]
        if request.operation == "assign":
            given = worker.assigned or assigned.Assigned()
            # An honest worker refuses other projects by itself.
            if worker.stale or not given.may_serve(request):
                self._replace(worker, request)
                return
            try:
                request = self._placed(request)
            except OSError as error:
                self._emit(
                    request.key,
                    table.SlotTable.bitstream_failed,
                    request.generation,
                    codes.BITSTREAM_UNAVAILABLE,
                    f"it cannot be placed: {error}",
                )
                return
            self._record(worker, given.followed_by(request))
            worker.may.update(_ONCE)
        elif request.operation == "reissue_secret":
            worker.may[_PREPARED] += 1
        worker.link.ask(request.operation, request.members, request)

    def _placed(self, request: orders.ToWorker) -> orders.ToWorker:
        """Give a worker, which can open no other, its assignment's bitstream.

        Only now, and instead of the last one: the slot's last worker, and the
        next one, may be those of other projects.

        :returns: the assignment, with the path by which the worker reads it.
        :raises OSError: if the file cannot be placed there.
        """
        own = own_dir(self._state_dir, request.key)
        placed, fresh = f"{own}/bitstream", f"{own}/bitstream.new"
        reference = request.members.get("bitstream_ref")
        if not isinstance(reference, dict):
            _remove(placed, fresh)
            return request
        _remove(fresh)
        try:
            os.link(reference["path"], fresh)
        except OSError as error:
            # An operator may keep bitstreams in a file system of their own.
            if error.errno != errno.EXDEV:
                raise
            shutil.copyfile(reference["path"], fresh)
        os.rename(fresh, placed)
        members = {
            **request.members,
            "bitstream_ref": {**reference, "path": placed},
        }
        return dataclasses.replace(request, members=members)

    def _replace(
        self, worker: _WorkerProcess, request: orders.ToWorker
    ) -> None:
        """Replace a worker before it receives an assignment.

        It was not replaced when it became idle, because it keeps its last
        result until the conductor has received it, as the next assignment
        proves.
        """
        LOG.info(
            "Replacing %s: its settings are outdated, or it served a group or"
            " another project",
            worker.title,
        )
        worker.link.ask("exit", {}, request)
        self._expect_exit(worker)
        self._emit(
            request.key,
            table.SlotTable.worker_refused,
            request.generation,
            codes.RECYCLE,
            "",
        )

    def _expect_exit(self, worker: _WorkerProcess) -> None:
        pid = worker.pid

        def check() -> None:
            if worker.pidfd is not None and worker.pid == pid:
                self._end(worker, "did not exit to be replaced")

        self._loop.call_later(IDLE_TIMEOUT_S, check)

    def _record(
        self, worker: _WorkerProcess, given: assigned.Assigned
    ) -> None:
        worker.assigned = given
        given.save(_record_path(self._state_dir, worker.key), worker.run)

    def end(self, key: orders.Key, reason: str) -> None:
        """Kill a worker that does not follow its orders.

        :param reason: the rest of a sentence that starts with "it".
        """
        self._end(self._workers[key], reason)

    def close(self, timeout_s: float) -> None:
        super().close(timeout_s)
        for worker in self._workers.values():
            self._close_fds(worker)
        self._workers.clear()
        self._unread.close()

    # Methods of the keeper.

    def _children(self) -> Iterable[_WorkerProcess]:
        return self._workers.values()

    def _document(self, child: _WorkerProcess) -> dict[str, object]:
        settings, key = self._settings, child.key
        return {
            **super()._document(child),
            "worker_id": f"{key[0]}.{key[1]}",
            "device": key[0],
            "slot": key[1],
            "state_dir": self._state_dir,
            "own_dir": own_dir(self._state_dir, key),
            **_driver(settings),
            "chunk_bytes": settings.chunk_bytes,
            "window_chunks": settings.window_chunks,
            "made_for": child.made_for,
        }

    def _spawn(self, child: _WorkerProcess) -> bool:
        has_started = child.is_new = super()._spawn(child)
        self.started[child.key[0]] += has_started
        return has_started

    def _greet(self, child: _WorkerProcess) -> None:
        child.reported_idle = child.holds = False
        child.may.update(_ONCE)
        child.run = processes.run_of(child.pid)
        if child.is_new:
            child.is_new = False
            self._record(child, assigned.Assigned())
        elif child.assigned is None:
            child.assigned = assigned.load(
                _record_path(self._state_dir, child.key), child.run
            )
        self._emit(child.key, table.SlotTable.worker_connected)
        self._ask_status(child)

    def _ask_status(self, child: _WorkerProcess) -> None:
        if child.reported_idle:
            # The worker is alive and idle, so it need not be queried.
            child.reported_idle = False
            return
        self.send(orders.ToWorker(child.key, "status", 0, {}))

    def _read(self, child: _WorkerProcess, sock: socket.socket) -> memoryview:
        room_bytes = socket.CMSG_SPACE(
            buffers.DESCRIPTORS * array.array("i").itemsize
        )
        count, ancillary, _flags, _ = sock.recvmsg_into(
            [self._buffer], room_bytes, socket.MSG_CMSG_CLOEXEC
        )
        child.fds += channel.take_fds(ancillary)
        if len(child.fds) > self._most_fds:
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR,
                "received file descriptors without a message",
            )
        return self._buffer[:count]

    @staticmethod
    def _close_fds(child: _WorkerProcess) -> None:
        fds, child.fds = child.fds, []
        channel.close_fds(fds)

    def _hung_up(self, child: _WorkerProcess) -> None:
        self._close_fds(child)
        child.ask_next = None
        self._emit(child.key, table.SlotTable.worker_disconnected)

    def _died(self, child: _WorkerProcess, how: str | None) -> None:
        if how is not None:
            self.ended[child.key[0], how] += 1
        child.assigned = None
        child.may.clear()
        if how == children.OUT_OF_MEMORY:
            self._emit(child.key, table.worker_ran_out)
        else:
            self._emit(child.key, table.SlotTable.worker_died)

    def _unstartable(self, child: _WorkerProcess, message: str) -> None:
        self._emit(child.key, table.SlotTable.worker_unstartable, message)

    def _handle(
        self, child: _WorkerProcess, message: messages.Message
    ) -> None:
        child.link.silent_s = 0.0
        event = message.get("event")
        if event is None:
            self._take_answer(child, children.ANSWER(message, "answer"))
        elif event in _EVENTS:
            self._take_event(child, event, _EVENTS[event](message, event))
        if event in (None, "status") and message.get("status") is not None:
            self._take_status(child, message["status"], event is not None)

    def _take_answer(
        self, child: _WorkerProcess, answer: messages.Message
    ) -> None:
        request = child.link.requests.pop(answer["id"], None)
        if request is None:
            return
        if not answer["ok"]:
            self._refused(child, request, **answer["error"])
        if request.operation == "next" and child.ask_next is not None:
            ask, child.ask_next = child.ask_next, None
            ask()

    def _take_event(
        self, child: _WorkerProcess, event: str, members: messages.Message
    ) -> None:
        if event == "desk_wanted":
            self._connect_member(child, members["generation"])
            return
        if event == "next_wanted":
            self._connect_next(child, **members)
            return
        child.spend(event)
        if event == _PREPARED:
            self._prepared(child.key, **members)
            return
        count = buffers.DESCRIPTORS
        fds, child.fds = child.fds[:count], child.fds[count:]
        self._unread.keep(child.key, fds)

    def _take_status(
        self, child: _WorkerProcess, members: messages.Message, is_news: bool
    ) -> None:
        status = slot.WorkerStatus.from_members(members, child.made_for)
        if child.assigned is None:
            self._record(child, assigned.Assigned.found_in(status))
            assert child.assigned is not None
        status = child.assigned.checked(status)
        if status.generation is not None and not child.holds:
            child.spend(_HOLD)
        child.holds = status.generation is not None
        child.link.heard = child.proved = True
        child.stale = status.is_stale
        child.reported_idle = is_news and status.state == states.SLOT_IDLE
        self._counts.count_status(child.key, status)
        self._emit(child.key, table.SlotTable.worker_status, status)

    def _connect_member(self, child: _WorkerProcess, generation: int) -> None:
        """Pass a member a connection to its desk, or tell it there is none."""
        if self._owes(child, "desk"):
            # The answer is on its way.
            return
        sock, now = None, self._loop.now()
        if now >= child.desk_due_s:
            # Each connection costs the desk two rings.
            child.desk_due_s = now + DESK_INTERVAL_S
            sock = self._dial_desk(child.key, generation)
        answer = {"generation": generation, "connected": sock is not None}
        child.link.ask(
            "desk",
            answer,
            orders.ToWorker(child.key, "desk", generation, answer),
            [] if sock is None else [sock.detach()],
        )

    @staticmethod
    def _owes(child: _WorkerProcess, operation: str) -> bool:
        """Whether the worker has not answered a request of this kind."""
        asked = child.link.requests.values()
        return any(one.operation == operation for one in asked)

    def _connect_next(
        self,
        child: _WorkerProcess,
        number: int,
        generation: int,
        session_id: str,
        next_generation: int,
        **_others: object,
    ) -> None:
        """Pass a worker a connection to the next stage of its chain."""
        if self._owes(child, "next"):
            # Each may be a descriptor, which stays here until it is read.
            child.ask_next = functools.partial(
                self._connect_next,
                child,
                number,
                generation,
                session_id,
                next_generation,
            )
            return
        given, now, run = child.assigned, self._loop.now(), child.run

        def answer(sock: socket.socket | None) -> None:
            if child.run != run:
                # Another process runs the slot.
                if sock is not None:
                    sock.close()
                return
            members = {"number": number, "connected": sock is not None}
            child.link.ask(
                "next",
                members,
                orders.ToWorker(child.key, "next", generation, members),
                [] if sock is None else [sock.detach()],
            )

        if (
            given is None
            or given.project_id is None
            or given.is_member
            or given.generation != generation
            or now < child.next_due_s
            or child.dials_next
        ):
            answer(None)
            return

        def dialed(sock: socket.socket | None) -> None:
            child.dials_next = False
            answer(sock)

        child.next_due_s = now + DESK_INTERVAL_S
        child.dials_next = True
        self._dial_next(given.project_id, session_id, next_generation, dialed)

    def _prepared(self, key: orders.Key, generation: int, secret: str) -> None:
        self._counts.count_prepared(key, generation, self._loop.now())
        self._emit(key, table.SlotTable.worker_prepared, generation, secret)

    def _refused(
        self,
        child: _WorkerProcess,
        request: orders.ToWorker,
        code: str,
        message: str,
    ) -> None:
        LOG.log(
            logging.DEBUG if code in _ORDINARY else logging.WARNING,
            "The worker of slot %s.%d refused %s: %s: %s",
            *request.key,
            request.operation,
            code,
            message,
        )
        if request.operation == "assign":
            if code == codes.RECYCLE:
                self._expect_exit(child)
            self._emit(
                request.key,
                table.SlotTable.worker_refused,
                request.generation,
                code,
                message,
            )


def _remove(*paths: str) -> None:
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _made_for(
    device: drivers.DeviceInfo,
    document: Mapping[str, object],
    settings: agent_settings.AgentSettings,
) -> str:
    """Return a digest of everything that determines a worker's behaviour.

    It changes with the release, the settings, the board, and the files named
    in the driver's settings, such as a description of the boards.
    """
    facts: list[object] = [version.version_string(), document, device.model]
    facts += [(one.number, one.shape) for one in device.slots]
    for value in settings.driver_settings.values():
        if isinstance(value, str):
            with contextlib.suppress(OSError, ValueError):
                facts.append(documents.file_version(value))
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()
