# SPDX-License-Identifier: Apache-2.0

"""A session's data plane: it receives, processes and sends data.

The connection's thread receives into reused buffers while the session's own
thread processes, and a third one sends what is long, so that both directions
and the computation overlap. The receiving thread processes a small piece
itself if everything is idle: a hand-over would cost more than the work.

The session outlives its connections. It keeps output that was sent and not
acknowledged. It drops input that was received and not processed, because the
client sends it again.
"""

from __future__ import annotations

import collections
import collections.abc
import functools
import threading
import time
import typing

from fpgapool.agent.child import crew
from fpgapool.agent.child import goodbye
from fpgapool.agent.worker import hello as hellos
from fpgapool.agent.worker import settings as worker_settings
from fpgapool.agent.worker import state
from fpgapool.agent.worker import watch
from fpgapool.agent.worker.data import blocks
from fpgapool.agent.worker.data import memory as memories
from fpgapool.agent.worker.data import outgoing
from fpgapool.agent.worker.data import processing
from fpgapool.agent.worker.data import sending
from fpgapool.common.channels import channel as channels
from fpgapool.common.monitoring import ratelimit
from fpgapool.protocol import frames
from fpgapool.protocol import stream
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import exceptions
from fpgapool.vocabulary import states

LOG = ratelimit.RateLimitedLog(__name__)

# Bounds the memory that tiny pieces cost beyond their bytes: above it,
# reading waits. The protocol's documentation has it.
_MAX_TASKS = 4096
_NO_BYTES = memoryview(b"")

Post: typing.TypeAlias = collections.abc.Callable[
    [state.Event | memories.Unread], None
]
_Work = processing.Task | processing.Started | sending.Message


class Refused(exceptions.CodedError):
    """The session does not accept a connection."""


class DataSession:
    """One session's data plane.

    :param processor: runs the core.
    :param memory: holds the bytes.
    :param shared: whether the client maps that memory.
    :param settings: of the worker: sizes and times.
    :param keyring: of its assignment.
    :param post: takes events of the assignment; must not block.
    :param kept: the client's blocks.
    :param start_input_bytes: offset of the first byte of input.
    :param start_output_bytes: offset of the first byte of output.
    """

    def __init__(
        self,
        processor: processing.Processor,
        memory: memories.Memory,
        shared: bool,
        settings: worker_settings.Settings,
        keyring: hellos.Keyring,
        post: Post,
        kept: blocks.Blocks,
        start_input_bytes: int = 0,
        start_output_bytes: int = 0,
    ) -> None:
        self.processor = processor
        self._borders = watch.Borders(keyring.order.limits.quantum_bytes)
        self.memory = memory
        self.shared = shared
        self._settings = settings
        self._keyring = keyring
        self._post = post
        self._generation = keyring.order.generation
        self._started_s = time.monotonic()
        self._thread_ended: threading.Event | None = None
        self._attach_lock = threading.Lock()
        # Guards everything below. The thread that has set _busy owns the core,
        # and the sending side unless the sender is busy; only that thread
        # takes tasks.
        self._lock = threading.RLock()
        self._condition = threading.Condition(self._lock)
        self._busy = False
        # A thread, perhaps of an abandoned connection, receives into memory.
        self._filling = False
        self._run_waiters = 0
        self._stopping = False
        self._ended = False
        self._leaving = False
        self._over = (codes.SESSION_CLOSED, "the session is over")
        self._channel: channels.Channel | None = None
        self._confirmed = True
        self._tasks: collections.deque[processing.Task] = collections.deque()
        self._max_started = processor.core.max_started if shared else 1
        self._input = stream.Inbound(
            stream.WORKER,
            start_input_bytes,
            settings.window_bytes,
            processor.multiple_bytes,
        )
        if shared:
            self._input.buffers = settings.window_chunks
        self._outgoing = outgoing.Outgoing(
            processor,
            memory,
            shared,
            self._input,
            start_output_bytes,
            settings.window_bytes,
        )
        self._output = self._outgoing.output
        self._sender = sending.Sender(
            self._condition, self._next_message, self._lose, settings
        )
        # References count for the connection on which they come.
        self._make_announced = functools.partial(
            blocks.Announced,
            kept,
            settings.chunk_bytes,
            shared,
            self._set_argument,
            self._miss,
            {},
        )
        # The core first needs the state that another slot has left.
        self._awaits_state = bool(
            start_input_bytes and processor.has_checkpoints
        )
        # The client has closed and sends no more, not even an ACK.
        self._half_closed = False

    @property
    def input_bytes(self) -> int:
        """Bytes that were processed in this slot."""
        return self._input.consumed_bytes - self._input.start_bytes

    @property
    def output_bytes(self) -> int:
        """Bytes that were produced in this slot."""
        return self._output.added_bytes - self._output.start_bytes

    def progress(self) -> watch.Progress:
        """Tell how far the session is, and what it waits for; never waits."""
        output = self._output
        return watch.Progress(
            self.input_bytes,
            output.sent_bytes + output.acknowledged_bytes,
            self._wait_text(),
            self.processor.is_computing,
        )

    def _wait_text(self) -> str:
        output = self._output
        if self.processor.is_computing:
            return "the slot computed a piece of input for {} without a result"
        unsent_bytes = output.added_bytes - output.sent_bytes
        if unsent_bytes or self._sender.is_busy:
            return (
                "the client read no output for {}: "
                f"{unsent_bytes} bytes wait to be sent, after "
                f"{self._unacknowledged()}"
            )
        if self._tasks:
            return (
                "the worker waited {} for room for output: "
                f"{self._unacknowledged()}"
            )
        if self._filling:
            return "the client sent only part of a piece of input in {}"
        return "the client sent no input for {}"

    def _unacknowledged(self) -> str:
        output = self._output
        held_bytes = output.sent_bytes - output.acknowledged_bytes
        count = len(output.kept) - len(output.unsent)
        return f"{held_bytes} bytes in {count} pieces are unacknowledged"

    # Connections.

    def attach(
        self,
        channel: channels.Channel,
        acked_input_bytes: int,
        received_output_bytes: int,
        send_opened: collections.abc.Callable[[int, int], None],
    ) -> None:
        """Attach a connection and abandon the previous one.

        :param channel: of the authenticated client.
        :param acked_input_bytes: input whose ACK the client has seen.
        :param received_output_bytes: output that the client has.
        :param send_opened: sends OPENED with the input and output offsets
            from which both sides continue.
        :raises Refused: if the session is over, or cannot continue from
            these offsets; the latter ends the session.
        :raises channels.ChannelClosed: if the connection is already lost.
        :raises channels.DeadlineExceeded: if OPENED is not accepted.
        """
        with self._attach_lock:
            with self._lock:
                self._give_up_channel()
                self._wait_for_run(
                    lambda: (
                        (self._is_idle() and not self._filling)
                        or self._stopping
                    )
                )
                self._refuse_if_over()
                try:
                    self._rewind(acked_input_bytes, received_output_bytes)
                except frames.ProtocolError as failure:
                    self._fail(failure)
                    raise Refused(failure.code, failure.message) from None
            try:
                send_opened(self._input.consumed_bytes, received_output_bytes)
            except OSError:
                self._post(state.Detached(self._generation))
                raise
            with self._lock:
                self._refuse_if_over()
                self._channel = channel
                self._post(state.Attached(self._generation, time.time()))
                if self._input.closed or self._has_work():
                    self._wake()

    def send_over(self, other: channels.Channel) -> None:
        """Send by another connection of the client from now on.

        :param other: of the authenticated client; it goes with the attached
            one.
        :raises channels.ChannelClosed: if there is none, or it is lost; the
            other one stays the caller's then.
        """
        # Its client may be here before the connection counts as attached.
        with self._attach_lock, self._lock:
            channel = self._channel
        if channel is None:
            raise channels.ChannelClosed("the session is not connected")
        channel.send_over(other, frames.pack_header(frames.RETURN))

    def _refuse_if_over(self) -> None:
        if self._stopping or self._ended:
            raise Refused(*self._over)

    def _give_up_channel(self) -> None:
        if self._channel is not None:
            self._channel.shutdown()
            self._channel = None
        self._tasks.clear()
        self._condition.notify_all()

    def _rewind(self, acked_input_bytes: int, received_bytes: int) -> None:
        self._input.resume(acked_input_bytes)
        self._outgoing.resume(received_bytes)
        self.memory.clear_input()
        self._half_closed = False
        self._confirmed = False

    def serve(self, channel: channels.Channel) -> None:
        """Receive on a connection until it ends, then close it.

        :param channel: the attached connection.
        """
        try:
            self._receive(channel)
        except channels.ChannelEnded as exc:
            if not self._half_close(channel):
                self._lose(channel, str(exc))
        except (channels.ChannelClosed, channels.DeadlineExceeded) as exc:
            self._lose(channel, str(exc))
        except (frames.ProtocolError, processing.Failure) as failure:
            with self._lock:
                if self._channel is channel:
                    LOG.warning("session failed: %s", failure)
                    self._fail(failure)
        goodbye.drop_rest(channel)
        with self._lock:
            # The working thread may be sending on it; a client that only
            # listens may still have output to receive.
            self._wait_for_run(
                lambda: (
                    self._is_idle()
                    and not (self._half_closed and self._channel is channel)
                )
            )
        channel.close()

    def _receive(self, channel: channels.Channel) -> None:
        scratch = bytearray(frames.HEADER_BYTES)
        announced = self._make_announced()
        while True:
            header = channels.recv_header(
                channel, scratch, max_data_bytes=self._settings.chunk_bytes
            )
            if self._stopping or self._ended or self._channel is not channel:
                return
            if not self._confirmed:
                self._confirmed = True
                self._keyring.confirm_resume()
            if header.optional:
                payload = channels.recv_payload(channel, header)
                if header.type == frames.CHECKPOINT:
                    self._restore(payload)
                continue
            if header.stream_id:
                raise processing.Failure(
                    codes.STREAM_LIMIT, "there is one stream, number 0"
                )
            self._take(channel, header, announced)

    def _take(
        self,
        channel: channels.Channel,
        header: frames.FrameHeader,
        announced: blocks.Announced,
    ) -> None:
        match header.type:
            case frames.INPUT:
                piece = announced.take(channel, header)
                if piece is not None:
                    self._take_input(channel, piece, announced)
            case frames.ACK:
                self._take_ack(header.offset_bytes)
            case frames.PING:
                place = header.task_id, header.offset_bytes
                self._take_ping(frames.pack_header(frames.PONG, 0, 0, *place))
            case frames.CLOSE:
                self._take_close()
            case frames.PONG:
                self._take_ack(header.offset_bytes, asked=True)
            case frames.ERROR:
                raise goodbye.given_up(
                    frames.decode_json(channels.recv_payload(channel, header)),
                    frames.CHECKSUM_FEATURE in self.processor.features,
                    header.offset_bytes,
                )
            case _:
                raise frames.ProtocolError(
                    frames.PROTOCOL_ERROR,
                    f"unexpected frame of type {header.type}",
                )

    def _restore(self, payload: bytes) -> None:
        with self._lock:
            # A client that resumes cannot know whether it arrived.
            if self._awaits_state:
                self.processor.restore(payload, self._input.consumed_bytes)
                self._awaits_state = False

    def _take_close(self) -> None:
        with self._lock:
            self._input.closed = True
            # A thread that computes or sends would not read what comes.
            left = self._busy or self._tasks or self._outgoing.may_send()
            if left or not self._has_work():
                self._wake()
                return
            self._busy = True
        self._run()

    def _take_ping(self, pong: bytes) -> None:
        with self._lock:
            pongs = self._outgoing.pongs
            self._wait_for_run(
                lambda: len(pongs) < _MAX_TASKS or self._channel is None
            )
            pongs.append(pong)
            self._wake()

    def _miss(self, task_id: int) -> None:
        self._take_ping(frames.pack_header(frames.MISS, task_id=task_id))

    def _set_argument(self, number: int, data: memoryview) -> None:
        with self._lock:
            self._wait_for_run(lambda: not self._busy)
            if self._stopping:
                return
            if self._input.received_bytes > self._input.start_bytes:
                raise frames.ProtocolError(
                    frames.PROTOCOL_ERROR, "an argument after the first piece"
                )
            self._busy = True
        try:
            self.processor.set_argument(number, data)
        finally:
            self._rest()

    def _take_ack(self, offset_bytes: int, asked: bool = False) -> None:
        with self._lock:
            if asked:
                self._outgoing.take_pong(offset_bytes)
            else:
                self._outgoing.acknowledge(offset_bytes)
            if not self._busy and self._has_work():
                self._wake()

    def _take_input(
        self,
        channel: channels.Channel,
        header: frames.FrameHeader,
        announced: blocks.Announced,
    ) -> None:
        length_bytes = header.payload_length_bytes
        with self._lock:
            if self._channel is not channel:
                return
            if self._awaits_state:
                raise frames.ProtocolError(
                    frames.PROTOCOL_ERROR, "input before the CHECKPOINT"
                )
            if not self._input.accept(header):
                self._wake()
                return
            if len(self._tasks) >= _MAX_TASKS:
                self._await_fewer_tasks(channel)
            if self._channel is not channel:
                return
            view = _NO_BYTES
            if length_bytes:
                view = self.memory.take_input(header.aux, length_bytes)
            here = not length_bytes or (self.shared and not announced.pending)
            if here:
                inline = self._add_task(header, view)
            else:
                self._filling = True
        if not here:
            inline = self._fill(channel, header, view, announced)
        if inline:
            self._run()

    def _await_fewer_tasks(self, channel: channels.Channel) -> None:
        """Wait, with the lock, until another piece may come.

        :raises frames.ProtocolError: if that is never: the acknowledgement
            that the worker needs is behind the piece.
        """
        self._wait_for_run(
            lambda: (
                len(self._tasks) < _MAX_TASKS
                or self._channel is not channel
                or self._awaits_client()
            )
        )
        if self._channel is channel and len(self._tasks) >= _MAX_TASKS:
            raise frames.ProtocolError(
                codes.CREDIT_EXCEEDED,
                f"more than {_MAX_TASKS} pieces of input unacknowledged, "
                f"while of the output {self._unacknowledged()}",
            )

    def _fill(
        self,
        channel: channels.Channel,
        header: frames.FrameHeader,
        view: memoryview,
        announced: blocks.Announced,
    ) -> bool:
        """Receive a piece; see :meth:`_add_task`."""
        complete = False
        try:
            if not (announced.fill(view) or self.shared):
                channel.recv_exact_into(view)
            announced.check(view)
            complete = True
        finally:
            with self._lock:
                self._filling = False
                if self._run_waiters:
                    self._condition.notify_all()
                inline = (
                    complete
                    and self._channel is channel
                    and self._add_task(header, view)
                )
        return inline

    def _add_task(self, header: frames.FrameHeader, view: memoryview) -> bool:
        """Add a received piece.

        :returns: whether the caller has to process it; the caller then owns
            the core.
        """
        length_bytes = len(view)
        end = bool(header.flags & frames.END)
        self._tasks.append(
            processing.Task(header.task_id, header.offset_bytes, view, end)
        )
        if self._busy:
            return False
        self._busy = (
            not (self._stopping or self._leaving or self._sender.is_busy)
            and len(self._tasks) == 1
            and self._outgoing.allows_inline(length_bytes)
        )
        if not self._busy:
            self._wake()
        return self._busy

    def _lose(self, channel: channels.Channel, reason: str) -> None:
        with self._lock:
            if self._channel is not channel:
                return
            self._give_up_channel()
            if self._ended:
                return
            if self._input.closed:
                self._end(states.CLOSED, codes.OK, "")
                return
            LOG.info("connection lost: %s", reason)
            self._post(state.Detached(self._generation))

    def _half_close(self, channel: channels.Channel) -> bool:
        """Let a client that has closed receive the remaining output.

        :returns: whether it has closed.
        """
        with self._lock:
            if self._channel is not channel or not self._input.closed:
                return False
            self._half_closed = True
            if self._is_idle():
                self._outgoing.forget_sent()
            self._wake()
            return True

    # Processing and sending.

    def _wake(self) -> None:
        """Let the session's own thread look for work; with the lock."""
        self._start_thread()
        self._condition.notify_all()

    def _start_thread(self) -> None:
        # Not before it is needed: the receiving thread does all the work of
        # many short sessions.
        is_over = self._stopping or self._ended
        if self._thread_ended is None and not is_over:
            self._thread_ended = crew.CREW.start("session", self._work)

    def _work(self) -> None:
        while True:
            with self._lock:
                while not self._stopping and (
                    self._busy or not self._has_work()
                ):
                    self._wait_for_work()
                if self._stopping:
                    return
                self._busy = True
            self._run()

    def _wait_for_work(self) -> None:
        is_open = self._channel is None or not self._input.closed
        if is_open or not self._is_idle():
            self._condition.wait()
            return
        if self._half_closed:
            # Only output that it would have to acknowledge is left.
            self._end(states.CLOSED, codes.OK, "")
            self._condition.wait()
            return
        # A client that has closed need not accept the remaining output;
        # without this limit a silent client could keep the slot.
        acked_bytes = self._output.acknowledged_bytes
        woken = self._condition.wait(self._settings.send_timeout_s)
        if not woken and self._output.acknowledged_bytes == acked_bytes:
            self._end(states.CLOSED, codes.OK, "")

    def _run(self) -> None:
        """Do all pending work; the caller has set _busy."""
        try:
            with self._lock:
                work = self._next()
            while work is not None:
                work = self._do(work)
        except processing.Failure as failure:
            with self._lock:
                self._fail(failure)
            self.processor.drop()
            self._rest()
        except BaseException:
            self.processor.drop()
            self._rest()
            raise

    def _is_idle(self) -> bool:
        """Whether no thread processes or sends; with the lock."""
        return not (self._busy or self._sender.is_busy)

    def _awaits_client(self) -> bool:
        """Whether only the client can let the session go on; with the lock."""
        return self._is_idle() and not (
            self._has_work() or self._leaving or self._stopping or self._ended
        )

    def _rest(self) -> None:
        """Give up _busy."""
        with self._lock:
            self._busy = False
            # Waking the working thread needlessly would cost a small
            # piece more than its processing.
            if self._has_work():
                self._wake()
            elif self._run_waiters or self._stopping:
                self._condition.notify_all()

    def _wait_for_run(
        self,
        predicate: collections.abc.Callable[[], bool],
        timeout_s: float | None = None,
    ) -> bool:
        """Wait, with the lock, for the condition at the end of _run()."""
        self._run_waiters += 1
        try:
            return self._condition.wait_for(predicate, timeout_s)
        finally:
            self._run_waiters -= 1

    def _next(self) -> _Work | None:
        """Return the next work item, or give up _busy; with the lock."""
        channel, is_sending = self._channel, self._sender.is_busy
        if is_sending:
            # For what is left when all is sent.
            self._start_thread()
        if self._half_closed and not is_sending:
            self._outgoing.forget_sent()
        if self._stopping or channel is None or not self._has_work():
            if self.processor.started:
                return self.processor.started[0]
            self._rest()
            return None
        if not is_sending and self._outgoing.may_send():
            return self._next_message()
        if self._tasks:
            task = self._tasks.popleft()
            if len(self._tasks) == _MAX_TASKS - 1:
                self._condition.notify_all()
            return task
        closed = goodbye.closed_frame(
            self.input_bytes, self.output_bytes, self._started_s
        )
        self._end(states.CLOSED, codes.OK, "")
        return sending.Message(channel, [closed])

    def _next_message(self) -> sending.Message | None:
        """Return what can be sent now; with the lock."""
        channel = self._channel
        if channel is None or self._stopping or self._ended:
            return None
        if not self._outgoing.may_send():
            return None
        return sending.Message(channel, self._outgoing.collect())

    def _do(self, work: _Work) -> _Work | None:
        """Do one work item and return the next one."""
        if isinstance(work, sending.Message):
            # The next message may have a checkpoint: it is made between two
            # pieces.
            self._sender.send(work, alone=self.processor.has_checkpoints)
            with self._lock:
                return self._next()
        if isinstance(work, processing.Task):
            self.processor.start(work, self._outgoing.take_room())
            if self._max_started > 1 and self._tasks:
                with self._lock:
                    return self._next()
        task, written_bytes = self.processor.collect()
        with self._lock:
            self._keep(task, written_bytes)
            return self._next()

    def _has_work(self) -> bool:
        """Whether there is work to do; the caller has set _busy.

        The caller may instead have seen under the lock that _busy is not set:
        this method may take room for the next task.
        """
        if self._channel is None or self._ended:
            return False
        is_sending = self._sender.is_busy
        if not is_sending:
            if self._outgoing.may_send():
                return True
            if self._output.unsent:
                return False
        if self._tasks:
            return (
                not self._leaving
                and self.processor.may_start(self._max_started)
                and self._outgoing.has_room(self._tasks[0])
            )
        is_done = not (is_sending or self.processor.started)
        return self._input.closed and is_done

    def _keep(self, task: processing.Task, written_bytes: int) -> None:
        """Keep the output of a task; with the lock."""
        self._outgoing.add(task, written_bytes)
        if task.view:
            self.memory.return_input()
        self._input.consume(len(task.view), task.task_id, task.end)
        if self._borders.reached(self.input_bytes):
            self._post(state.QuantumDone(self._generation))

    # The end.

    def _fail(self, failure: exceptions.CodedError) -> None:
        self._end(states.FAILED, failure.code, failure.message)

    def _end(self, outcome: str, code: str, message: str) -> None:
        if not (self._ended or self._stopping):
            self._ended = True
            self._post(state.Ended(self._generation, outcome, code, message))
            self._condition.notify_all()

    def _finish_begun(self) -> bytes:
        """Begin no more; let the client have and know all that is done.

        :returns: the frame with which another slot goes on, if there is one.
        """
        with self._lock:
            self._leaving = True
            self._condition.notify_all()
            done = self._wait_for_run(
                lambda: (
                    self._channel is None
                    or self._ended
                    or (
                        self._is_idle()
                        and not (self._has_work() or self._output.unsent)
                    )
                ),
                self._settings.clear_timeout_s / 2,
            )
            if (
                done
                and self.processor.has_checkpoints
                and not (self._ended or self._busy or self._awaits_state)
            ):
                return self.processor.checkpoint(self._input.consumed_bytes)
            return b""

    def stop(self, code: str, message: str) -> None:
        """End the session; returns when none of its threads runs any more.

        :param code: sent to a connected client; ``OK`` if it already knows.
        :param message: the same for people.
        """
        checkpoint = b""
        if code in codes.TAKEN_BACK:
            checkpoint = self._finish_begun()
        with self._lock:
            self._stopping = True
            if code != codes.OK:
                self._over = (code, message)
            self.processor.cancel()
            self._condition.notify_all()
            idle = self._wait_for_run(self._is_idle, goodbye.LINGER_S)
            channel, self._channel = self._channel, None
        if channel is not None:
            if idle:
                goodbye.say(
                    channel,
                    code,
                    message,
                    self._input.consumed_bytes,
                    checkpoint,
                )
            else:
                channel.shutdown()
        with self._lock:
            self._condition.notify_all()
            self._wait_for_run(self._is_idle)
        if self._thread_ended is not None:
            self._thread_ended.wait()
        with self._lock:
            remains = memories.remains(code, bool(self._output.kept))
            # Threads that still read the connection keep the session.
            self._tasks.clear()
            self._outgoing.finish()
        # An attaching connection may be handing over its descriptors.
        with self._attach_lock:
            unread = self.memory.close(remains)
        if unread is not None:
            self._post(unread)
