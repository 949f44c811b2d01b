# SPDX-License-Identifier: Apache-2.0

"""Runs the tasks of a group's desk in a slot that is a member of the group.

The worker itself connects to nothing: its agent dials the desk and passes the
connection on, as often as one is lost.

The desk sends records one by one through a ring of shared memory; see
:mod:`fpgapool.protocol.records`. Each task opens the slot with its own
parameters and gives the core all its input in one call. Only its result
remains: parameters, core and input are gone before the next record is read. A
core is reused only under a lock, or if it has neither parameters nor state.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import queue
import select
import socket
import threading
import time
import typing

from fpgapool.agent.child import crew
from fpgapool.agent.worker import hello as hellos
from fpgapool.agent.worker import settings as worker_settings
from fpgapool.agent.worker import state
from fpgapool.agent.worker import watch
from fpgapool.agent.worker.data import blocks
from fpgapool.agent.worker.data import processing
from fpgapool.common.channels import channel as channels
from fpgapool.common.channels import rings
from fpgapool.common.monitoring import ratelimit
from fpgapool.drivers import base as drivers
from fpgapool.protocol import blocks as references
from fpgapool.protocol import frames
from fpgapool.protocol import records
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import group
from fpgapool.vocabulary import states

LOG = ratelimit.RateLimitedLog(__name__)

# The first and the longest pause before the agent is asked for the desk again.
_FIRST_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 1.0

_NO_BYTES = memoryview(b"")

#: Codes of failures that would affect later tasks, too.
_FATAL = codes.DEVICE_FAULTS - {codes.DEVICE_OUT_OF_MEMORY}


class TaskResult(typing.NamedTuple):
    """The result of a task.

    :ivar busy_ns: how long the member worked on it; 0 if blocks are missing.
    :ivar output: output, which is valid until the task's record is released.
    """

    kind: int
    busy_ns: int
    detail: bytes = b""
    output: memoryview = _NO_BYTES


@dataclasses.dataclass(eq=False)
class Runner:
    """Runs tasks in a programmed slot; uses no threads, sockets or rings.

    :ivar fault: code of a failure that prevents further tasks, or None.
    """

    driver: drivers.Driver
    device: str
    slot: int
    profile: drivers.Profile
    traffic: drivers.Traffic
    cache: blocks.BlockCache
    clock_ns: collections.abc.Callable[[], int] = time.monotonic_ns

    def __post_init__(self) -> None:
        # The blocks of the current project and application, or None.
        self._blocks: blocks.Blocks | None = None
        self.input_bytes = 0
        self.output_bytes = 0
        self.started = 0
        self.is_running = False
        self.fault: str | None = None
        # Memory for the output of cores that do not work in place.
        self._room = _NO_BYTES
        self._locked = False
        # A core that may be reused, and its encoded parameters.
        self._kept: tuple[bytes, processing.Processor] | None = None
        self._processor: processing.Processor | None = None
        self._cancelled = False

    def run(self, task: records.Record, max_output_bytes: int) -> TaskResult:
        """Run a task.

        :param task: its record in the ring; a core may overwrite the input.
        """
        self.started += 1
        self.is_running = True
        began_ns = self.clock_ns()
        try:
            task, arguments, missing = self._resolve(task)
            if missing:
                detail = frames.encode_json({"arguments": missing})
                return TaskResult(records.MISS, 0, detail)
            self.input_bytes += len(task.rest)
            processor = self._open(task, bool(arguments))
            for number, argument in arguments.items():
                processor.set_argument(number, argument)
            room = self._room_for(processor, task.rest)
            if room is task.rest and task.kind == records.BLOCKS_TASK:
                # The core must not overwrite its input if that is a cached
                # block.
                room = self._own_room(len(room))
                room[:] = task.rest
                task = task._replace(rest=room)
            count_bytes = processor.process(
                processing.Task(
                    task.task_id, task.number, task.rest, end=True
                ),
                room,
            )
            if count_bytes > max_output_bytes:
                raise processing.Failure(
                    codes.TASK_TOO_LARGE,
                    f"the task's output is {count_bytes} bytes, larger than "
                    f"the limit of {max_output_bytes}",
                )
        except Exception as exc:
            self._kept = None
            if getattr(exc, "code", None) in _FATAL:
                self.fault = exc.code  # type: ignore[attr-defined]
            busy_ns = self.clock_ns() - began_ns
            return TaskResult(records.FAILED, busy_ns, _detail(exc))
        finally:
            if self._blocks is not None:
                self._blocks.release()
            self._processor = None
            self.is_running = False
        self.output_bytes += count_bytes
        if count_bytes != len(room):
            room = room[:count_bytes]
        busy_ns = self.clock_ns() - began_ns
        return TaskResult(records.DONE, busy_ns, b"", room)

    def _resolve(
        self, task: records.Record
    ) -> tuple[records.Record, dict[int, memoryview], list[int]]:
        """Replace a task's references with the blocks.

        :returns: the task with its input, its arguments, and the numbers of
            missing blocks.
        """
        if task.kind != records.BLOCKS_TASK:
            return task, {}, []
        kept = self._blocks
        if kept is None:
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR,
                "block references require the client to name an application",
            )
        parts, rest = references.decode_parts(task.rest, group.MAX_TASK_BYTES)
        arguments: dict[int, memoryview] = {}
        missing = []
        for reference, data in parts:
            found: memoryview | None = None
            if data is None:
                found = kept.find(reference)
            else:
                found = memoryview(data)
                kept.keep(reference, found)
            if found is None:
                missing.append(reference.argument)
            else:
                arguments[reference.argument] = found
        if 0 in arguments:
            rest = arguments.pop(0)
        return task._replace(rest=rest), arguments, missing

    def use_blocks(self, project_id: str, application: str) -> None:
        """Let tasks use an application's blocks until :meth:`clear`."""
        self._blocks = self.cache.open(project_id, application)

    def keep(self) -> None:
        """Keep reusable cores open until :meth:`clear`."""
        self._locked = True

    def clear(self, project_id: str | None = None) -> None:
        """Remove everything that earlier tasks have left behind.

        :param project_id: the next task's project, whose blocks are kept, or
            None.
        """
        self._locked = False
        self._kept = None
        self._blocks = None
        self.cache.wipe(project_id)
        if self._room:
            # Overwrite the memory before it is freed.
            self._room[:] = bytes(len(self._room))
            self._room = _NO_BYTES
        self.driver.clear_task(self.device, self.slot)

    def cancel(self) -> None:
        """Make the current task and all later ones fail; may be called from
        any thread.
        """
        self._cancelled = True
        processor = self._processor
        if processor is not None:
            processor.cancel()

    def _open(
        self, task: records.Record, is_own: bool
    ) -> processing.Processor:
        offset_bytes = task.number
        if offset_bytes and not self.profile.stateless:
            raise processing.Failure(
                codes.BAD_OFFSET,
                f"{self.profile.name} is stateful, so a task must start at"
                " offset 0",
            )
        if offset_bytes > hellos.MAX_START_OFFSET:
            raise processing.Failure(
                codes.BAD_OFFSET,
                f"the offset exceeds the limit of {hellos.MAX_START_OFFSET}",
            )
        encoded = task.middle
        kept = self._kept
        if kept is not None and kept[0] == encoded and not is_own:
            processor = kept[1]
        else:
            self._kept = None
            core = processing.open_core(
                self.driver,
                self.device,
                self.slot,
                self.traffic,
                frames.decode_json(encoded) if encoded else {},
            )
            processor = processing.Processor(core, self.profile)
            if (
                core.reusable
                and not is_own
                and (self._locked or (self.profile.stateless and not encoded))
            ):
                self._kept = (encoded, processor)
        # In this order: a cancel() that was too early for the core has set its
        # flag.
        self._processor = processor
        if self._cancelled:
            raise processing.Failure(
                codes.SESSION_CLOSED, "the slot is leaving its group"
            )
        return processor

    def _room_for(
        self, processor: processing.Processor, data: memoryview
    ) -> memoryview:
        if processor.core.in_place:
            return data
        return self._own_room(processor.needed_bytes(len(data), True))

    def _own_room(self, needed_bytes: int) -> memoryview:
        if len(self._room) < needed_bytes:
            self._room = memoryview(bytearray(needed_bytes))
        return self._room[:needed_bytes]


def _detail(exc: Exception) -> bytes:
    if isinstance(exc, (processing.Failure, frames.ProtocolError)):
        code, message = exc.code, exc.message
    else:
        # Omit the exception's text: it may quote parameters or data.
        LOG.error("a task failed: %s", type(exc).__name__)
        code, message = processing.code_of(exc), type(exc).__name__
    return frames.encode_json({"code": code, "message": message})


class _Over(Exception):
    """The connection to the desk has ended."""


@dataclasses.dataclass(eq=False)
class Member:
    """Connects a slot to its group's desk, and reconnects if necessary.

    :param post: takes events of the assignment without blocking.
    :param ask: lets the agent know what is ``wanted``, without blocking.
    :ivar wanted: generation of an assignment that waits for a connection to
        its desk, or None.
    """

    settings: worker_settings.WorkerSettings
    driver: drivers.Driver
    post: collections.abc.Callable[[state.Event], None]
    cache: blocks.BlockCache
    ask: collections.abc.Callable[[], None]

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self.wanted: int | None = None
        # One answer for each time that something was wanted.
        self._answers: queue.SimpleQueue[socket.socket | None] = (
            queue.SimpleQueue()
        )
        self._runner: Runner | None = None
        self._stopped = threading.Event()
        self._done: threading.Event | None = None
        self._sock: channels.PlainChannel | None = None

    def arm(self, order: state.Order, profile: drivers.Profile) -> None:
        """Prepare to run the tasks of an assignment."""
        settings = self.settings
        self._runner = Runner(
            self.driver,
            settings.device,
            settings.slot,
            profile,
            drivers.Traffic(order.local, order.origin_host_uuid),
            self.cache,
        )
        self._stopped.clear()

    def join(self, order: state.Order) -> None:
        """Start serving the desk, after :meth:`arm`."""
        self._done = crew.CREW.start("tasks", self._serve, order)

    def take_desk(self, generation: object, fd: int | None) -> None:
        """Take a connection to the desk from the agent; close a needless one.

        :param fd: its descriptor; None if the desk accepts no connection.
        """
        with self._lock:
            if self.wanted is not None and generation == self.wanted:
                self._answer(None if fd is None else socket.socket(fileno=fd))
            elif fd is not None:
                channels.close_fds([fd])

    def _answer(self, sock: socket.socket | None) -> None:
        self.wanted = None
        self._answers.put(sock)

    @property
    def is_waiting(self) -> bool:
        """Whether the slot is a member and has no task."""
        runner = self._runner
        return runner is not None and not runner.is_running

    def counters(self) -> tuple[int, int]:
        """Return the input and output bytes of all tasks so far."""
        runner = self._runner
        if runner is None:
            return 0, 0
        return runner.input_bytes, runner.output_bytes

    def progress(self) -> watch.Progress:
        """Return the progress; each started task counts as a byte of input."""
        runner = self._runner
        return watch.Progress(
            0 if runner is None else runner.input_bytes + runner.started,
            wait="a task of the group has been running for {}",
        )

    def clear(self, _code: str, _message: str) -> tuple[int, int]:
        """Leave the desk immediately, and abandon the current task.

        Waits until the core has stopped.

        :returns: the input and output bytes of all tasks.
        """
        counters = self.counters()
        runner, done = self._runner, self._done
        if runner is None:
            return counters
        with self._lock:
            self._stopped.set()
            if self._sock is not None:
                self._sock.shutdown()
            if self.wanted is not None:
                self._answer(None)
        runner.cancel()
        if done is not None:
            done.wait()
        counters = self.counters()
        self._runner = self._done = None
        return counters

    def _serve(self, order: state.Order) -> None:
        runner = self._runner
        assert runner is not None
        ending = None
        while ending is None and not self._stopped.is_set():
            try:
                ending = self._serve_desk(order, runner)
            except _Over:
                LOG.info("the connection to the desk has ended")
            except (frames.ProtocolError, rings.RingDamaged) as exc:
                LOG.error(
                    "disconnecting from the desk: it sent an invalid "
                    "record: %s",
                    exc,
                )
            ending = ending or self._forget(order, runner)
        if ending is not None:
            self.post(ending)

    def _forget(
        self, order: state.Order, runner: Runner
    ) -> state.Ended | None:
        """Clear the slot, so that it can join again as a new member."""
        self.post(state.Detached(order.generation))
        # If the desk keeps failing, this must not become a busy loop.
        self._stopped.wait(_FIRST_PAUSE_S)
        try:
            runner.clear()
        except Exception as exc:
            return _soiled(order, exc)
        return None

    def _serve_desk(
        self, order: state.Order, runner: Runner
    ) -> state.Ended | None:
        """Serve a desk process until the slot leaves its group."""
        sock = self._connect(order.generation)
        try:
            channel = self._receive(sock)
            try:
                post = _Postbox(channel, sock)
                post.send(records.READY, detail=self._who(order))
                self.post(state.Attached(order.generation, time.time()))
                return self._work(order, runner, post)
            finally:
                channel.close()
        finally:
            with self._lock:
                self._sock = None
            sock.close()

    def _connect(self, generation: int) -> channels.PlainChannel:
        pause_s = _FIRST_PAUSE_S
        while (sock := self._ask_for_desk(generation)) is None:
            if self._stopped.wait(pause_s):
                raise _Over
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        channel = channels.PlainChannel(sock)
        with self._lock:
            self._sock = channel
            if self._stopped.is_set():
                channel.shutdown()
        return channel

    def _ask_for_desk(self, generation: int) -> socket.socket | None:
        with self._lock:
            if self._stopped.is_set():
                raise _Over
            self.wanted = generation
        self.ask()
        return self._answers.get()

    def _receive(self, sock: channels.PlainChannel) -> rings.Channel:
        deadline_s = channels.deadline_after(self.settings.hello_timeout_s)
        try:
            fds = sock.recv_exact_with_fds(
                memoryview(bytearray(1)), rings.CHANNEL_FDS, deadline_s
            )
            return rings.Channel.attach(fds)
        except OSError as exc:
            raise _Over from exc

    def _who(self, order: state.Order) -> bytes:
        return frames.encode_json(
            {
                "device": self.settings.device,
                "slot": self.settings.slot,
                "generation": order.generation,
            }
        )

    def _work(
        self, order: state.Order, runner: Runner, post: _Postbox
    ) -> state.Ended | None:
        while not self._stopped.is_set():
            record = records.split(post.receive())
            match record.kind:
                case records.TASK | records.BLOCKS_TASK:
                    result = runner.run(record, post.max_bytes)
                    if self._stopped.is_set():
                        # Another member will run the task again.
                        break
                    post.send_result(record.task_id, result)
                    post.free()
                    if runner.fault is not None:
                        post.send(records.LEFT)
                        return state.Ended(
                            order.generation,
                            states.FAILED,
                            runner.fault,
                            "the device failed while running a task",
                        )
                    continue
                case records.KEEP:
                    runner.keep()
                case records.SCOPE:
                    runner.use_blocks(
                        record.middle.decode(errors="replace"),
                        bytes(record.rest).decode(errors="replace"),
                    )
                case records.CLEAR:
                    project_id = record.middle.decode(errors="replace")
                    post.free()
                    try:
                        runner.clear(project_id or None)
                    except Exception as exc:
                        post.send(records.LEFT)
                        return _soiled(order, exc)
                    post.wipe()
                    post.send(records.CLEARED)
                    continue
                case records.STOP:
                    post.send(records.LEFT)
                    return state.Ended(
                        order.generation,
                        states.CLOSED,
                        codes.OK,
                        "the slot has left its group",
                    )
                case _:
                    raise frames.ProtocolError(
                        frames.PROTOCOL_ERROR,
                        f"unknown record kind {record.kind}",
                    )
            post.free()
        return None


def _soiled(order: state.Order, exc: Exception) -> state.Ended:
    LOG.error("clearing the slot failed", exc_info=exc)
    return state.Ended(
        order.generation,
        states.FAILED,
        codes.SLOT_FAULTY,
        f"the slot cannot be cleared: {type(exc).__name__}",
    )


class _Postbox:
    """A channel to the desk. Waiting ends when the desk's connection ends."""

    def __init__(
        self, channel: rings.Channel, sock: channels.PlainChannel
    ) -> None:
        self._channel = channel
        self._get = channel.get
        self._sock_fd = sock.fileno()
        self._poller = select.poll()
        self._poller.register(channel.fileno(), select.POLLIN)
        self._poller.register(self._sock_fd, select.POLLIN)
        self.max_bytes = channel.max_record_bytes - records.HEADER_BYTES

    def receive(self) -> rings.Record:
        """Wait for the next record and return it, still in the ring."""
        while (record := self._get()) is None:
            self._wait(None)
        return record

    def free(self) -> None:
        """Wipe the received record and release its room."""
        self._channel.free(wipe=True)

    def wipe(self) -> None:
        """Wipe sent results once the desk has released them."""
        while not self._channel.wipe():
            self._wait(rings.ALL)

    def send_result(self, task_id: int, result: TaskResult) -> None:
        kind, busy_ns, detail, output = result
        head = records.header(kind, task_id, len(detail), busy_ns)
        self._send(head, detail, output)

    def send(self, kind: int, task_id: int = 0, detail: bytes = b"") -> None:
        """Send a record as soon as there is room."""
        self._send(records.header(kind, task_id, len(detail)), detail)

    def _send(self, *parts: rings.Buffer) -> None:
        while not self._channel.put(*parts):
            self._wait(sum(map(len, parts)))

    def _wait(self, room_bytes: int | None) -> None:
        ready: list[tuple[int, int]] = []
        if self._channel.arm(room_bytes):
            ready = self._poller.poll()
        self._channel.disarm()
        for fd, _ in ready:
            if fd == self._sock_fd:
                raise _Over
