# SPDX-License-Identifier: Apache-2.0

"""A session's data plane: receives, processes and sends data.

Three threads work on a session, so that both directions and the computation
overlap: the thread of a connection receives (:mod:`.receiving`), the session's
own thread processes, and a third one sends long messages (:mod:`.sending`).
The thread that has set ``busy`` processes, and also sends unless the sender is
busy. If everything is idle, a receiving thread sets it to process a small
piece itself, because passing the piece to another thread would take longer.

The session outlives its connections. It keeps output that is not acknowledged.
When a connection is lost, it drops input that is not processed, because the
client sends that again::

    attached ──connection lost──▶ detached ──attach, with offsets──▶ attached
       │
       ├─ CLOSE: remaining data is processed and sent, then CLOSED
       ├─ failure, or the client gives up: ERROR
       └─ the slot is taken away: started pieces are finished (``leaving``)
                              │
                              ▼
                    ended, then stopped: all threads have ended
"""

from __future__ import annotations

import collections
import collections.abc
import threading
import time
import typing

from fpgapool.agent.child import crew
from fpgapool.agent.child import goodbye
from fpgapool.agent.child import port as ports
from fpgapool.agent.worker import hello as hellos
from fpgapool.agent.worker import settings as worker_settings
from fpgapool.agent.worker import state
from fpgapool.agent.worker import watch
from fpgapool.agent.worker.data import blocks
from fpgapool.agent.worker.data import links
from fpgapool.agent.worker.data import memory as memories
from fpgapool.agent.worker.data import outgoing
from fpgapool.agent.worker.data import processing
from fpgapool.agent.worker.data import sending
from fpgapool.common.channels import channel as channels
from fpgapool.common.monitoring import ratelimit
from fpgapool.protocol import blocks as references
from fpgapool.protocol import frames
from fpgapool.protocol import stream
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import exceptions
from fpgapool.vocabulary import states

LOG = ratelimit.RateLimitedLog(__name__)

# Maximum number of waiting pieces; there is a limit because each uses memory
# in addition to its bytes. When it is reached, reading pauses. The protocol
# reference states this limit.
MAX_TASKS = 4096

Post: typing.TypeAlias = collections.abc.Callable[
    [state.Event | memories.Unread], None
]
_Work = processing.Task | processing.Started | sending.Message


class DataSession:
    """One session's data plane.

    :param post: takes events of the assignment without blocking.
    :param reach: connects to the next stage's worker of a chain.
    """

    def __init__(
        self,
        processor: processing.Processor,
        memory: memories.Memory,
        shared: bool,
        settings: worker_settings.WorkerSettings,
        keyring: hellos.Keyring,
        post: Post,
        kept: blocks.Blocks,
        reach: links.Reach,
        start_input_bytes: int = 0,
        start_output_bytes: int = 0,
    ) -> None:
        self.processor = processor
        self._borders = watch.Borders(keyring.order.limits.quantum_bytes)
        self.memory = memory
        self.shared = shared
        self.settings = settings
        self.keyring = keyring
        self._post = post
        self.kept = kept
        self.links = links.Links(self, reach)
        #: Arguments that the core has, by number.
        self.arguments: dict[int, references.Reference] = {}
        self._generation = keyring.order.generation
        self._started_s = time.monotonic()
        self._thread_ended: threading.Event | None = None
        self._attach_lock = threading.Lock()
        # Guards everything below. The thread that has set busy owns the core
        # and, unless the sender is busy, sends. Only that thread processes
        # tasks.
        self.lock = threading.RLock()
        self.condition = threading.Condition(self.lock)
        self.busy = False
        # Whether a thread, perhaps of an old connection, receives into memory.
        self.filling = False
        self.run_waiters = 0
        self.stopping = False
        self.ended = False
        self.leaving = False
        self._over = (codes.SESSION_CLOSED, "the session has ended")
        self.channel: channels.Channel | None = None
        self.confirmed = True
        self.tasks: collections.deque[processing.Task] = collections.deque()
        self._max_started = processor.core.max_started if shared else 1
        self.input = stream.Inbound(
            stream.WORKER,
            start_input_bytes,
            settings.window_bytes,
            processor.multiple_bytes,
        )
        if shared:
            self.input.buffers = settings.window_chunks
        self.outgoing = outgoing.Outgoing(
            processor,
            memory,
            shared,
            self.input,
            start_output_bytes,
            settings.window_bytes,
        )
        self._output = self.outgoing.output
        self.sender = sending.BackgroundSender(
            self.condition, self._next_message, self.lose, settings
        )
        # Whether the core first needs its state from the previous slot.
        self.awaits_state = bool(
            start_input_bytes and processor.has_checkpoints
        )
        # Whether the client has closed its sending side: no more ACKs arrive.
        self.half_closed = False

    @property
    def input_bytes(self) -> int:
        """Number of input bytes processed in this slot."""
        return self.input.consumed_bytes - self.input.start_bytes

    @property
    def output_bytes(self) -> int:
        """Number of output bytes produced in this slot."""
        return self._output.added_bytes - self._output.start_bytes

    def progress(self) -> watch.Progress:
        """Return the progress and what the session waits for; never blocks."""
        output = self._output
        return watch.Progress(
            self.input_bytes,
            output.sent_bytes + output.acknowledged_bytes,
            self._wait_text(),
            self.processor.is_computing,
            self.links.incoming.expected,
        )

    def _wait_text(self) -> str:
        output = self._output
        if self.processor.is_computing:
            return "the core has been computing a piece of input for {}"
        unsent_bytes = output.added_bytes - output.sent_bytes
        if unsent_bytes or self.sender.is_busy:
            return (
                "the client has read no output for {}: "
                f"{unsent_bytes} bytes are unsent, "
                f"{self.outgoing.unacknowledged()}"
            )
        if self.tasks:
            return (
                "the client has acknowledged too little output for {}: "
                f"{self.outgoing.unacknowledged()}"
            )
        if self.filling:
            return "the client has sent only part of a piece of input for {}"
        return "the client has sent no input for {}"

    # Connections.

    def attach(
        self,
        channel: channels.Channel,
        acked_input_bytes: int,
        received_output_bytes: int,
        send_opened: collections.abc.Callable[[int, int], None],
    ) -> None:
        """Attach a connection and abandon the previous one.

        :param acked_input_bytes: input for which the client has received an
            ACK.
        :param received_output_bytes: output that the client has received.
        :param send_opened: sends OPENED with the input and output offsets
            from which both sides continue.
        :raises ports.Refused: if the session has ended, or cannot continue
            from these offsets and therefore ends.
        """
        with self._attach_lock:
            with self.lock:
                self._give_up_channel()
                self.wait_for_run(
                    lambda: (
                        (self.is_idle() and not self.filling) or self.stopping
                    )
                )
                self._refuse_if_over()
                try:
                    self._rewind(acked_input_bytes, received_output_bytes)
                except frames.ProtocolError as failure:
                    self.fail(failure)
                    raise ports.Refused(
                        failure.code, failure.message
                    ) from None
            try:
                send_opened(self.input.consumed_bytes, received_output_bytes)
            except OSError:
                self._post(state.Detached(self._generation))
                raise
            with self.lock:
                self._refuse_if_over()
                self.channel = channel
                self._post(state.Attached(self._generation, time.time()))
                if self.input.closed or self.has_work():
                    self.wake()

    def send_over(self, other: channels.Channel) -> None:
        """Start sending on a second connection of the client.

        :param other: connection of the authenticated client; it is closed
            together with the attached one.
        :raises channels.ChannelClosed: if no connection is attached, or it is
            lost; the caller must then close the second one.
        """
        # The second connection may arrive before the first one is attached.
        with self._attach_lock, self.lock:
            channel = self.channel
        if channel is None:
            raise channels.ChannelClosed("the session is not connected")
        channel.send_over(other, frames.pack_header(frames.RETURN))

    def _refuse_if_over(self) -> None:
        if self.stopping or self.ended:
            raise ports.Refused(*self._over)

    def _give_up_channel(self) -> None:
        if self.channel is not None:
            self.channel.shutdown()
            self.channel = None
        self.tasks.clear()
        self.links.incoming.drop()
        self.condition.notify_all()

    def _rewind(self, acked_input_bytes: int, received_bytes: int) -> None:
        self.input.resume(acked_input_bytes)
        self.outgoing.resume(received_bytes)
        self.memory.clear_input()
        self.half_closed = False
        self.confirmed = False

    def lose(self, channel: channels.Channel, reason: str) -> None:
        with self.lock:
            if self.channel is not channel:
                return
            self._give_up_channel()
            if self.ended:
                return
            if self.input.closed:
                self._end(states.CLOSED, codes.OK, "")
                return
            LOG.info("the client's connection was lost: %s", reason)
            self._post(state.Detached(self._generation))

    def half_close(self, channel: channels.Channel) -> bool:
        """Let a client that has sent CLOSE receive the remaining output.

        :returns: False if it has not sent CLOSE or was replaced.
        """
        with self.lock:
            if self.channel is not channel or not self.input.closed:
                return False
            self.half_closed = True
            if self.is_idle():
                self.outgoing.forget_sent()
            self.wake()
            return True

    # Processing and sending.

    def wake(self) -> None:
        """Wake the session's own thread; the caller holds the lock."""
        self._start_thread()
        self.condition.notify_all()

    def _start_thread(self) -> None:
        # Start the thread on demand, because short sessions often need none.
        is_over = self.stopping or self.ended
        if self._thread_ended is None and not is_over:
            self._thread_ended = crew.CREW.start("session", self._work)

    def _work(self) -> None:
        while True:
            with self.lock:
                while not self.stopping and (self.busy or not self.has_work()):
                    self._wait_for_work()
                if self.stopping:
                    return
                self.busy = True
            self.run()

    def _wait_for_work(self) -> None:
        is_open = self.channel is None or not self.input.closed
        if is_open or not self.is_idle():
            self.condition.wait()
            return
        if self.half_closed:
            # Only unacknowledged output is left, and no ACK will arrive.
            self._end(states.CLOSED, codes.OK, "")
            self.condition.wait()
            return
        # A client that has sent CLOSE may not read the remaining output. With
        # this limit, it cannot hold the slot forever.
        acked_bytes = self._output.acknowledged_bytes
        woken = self.condition.wait(self.settings.send_timeout_s)
        if not woken and self._output.acknowledged_bytes == acked_bytes:
            self._end(states.CLOSED, codes.OK, "")

    def run(self) -> None:
        """Do all pending work; the caller has set busy."""
        try:
            with self.lock:
                work = self._next()
            while work is not None:
                work = self._do(work)
        except (processing.Failure, MemoryError) as exc:
            if isinstance(exc, MemoryError):
                exc = processing.out_of_memory()
            with self.lock:
                self.fail(exc)
            self.processor.drop()
            self.rest()
        except BaseException:
            self.processor.drop()
            self.rest()
            raise

    def is_idle(self) -> bool:
        """Whether no thread processes or sends; the caller holds the lock."""
        return not (self.busy or self.sender.is_busy)

    def awaits_client(self) -> bool:
        """Whether only the client can act now; the caller holds the lock."""
        return self.is_idle() and not (
            self.has_work() or self.leaving or self.stopping or self.ended
        )

    def rest(self) -> None:
        """Reset busy, and wake threads that wait for that."""
        with self.lock:
            self.busy = False
            # Wake threads only if necessary: for a small piece, that takes
            # longer than processing it.
            if self.has_work():
                self.wake()
            elif self.run_waiters or self.stopping:
                self.condition.notify_all()

    def wait_for_run(
        self,
        predicate: collections.abc.Callable[[], bool],
        timeout_s: float | None = None,
    ) -> bool:
        """Wait for a predicate, with the lock held; see :meth:`rest`."""
        self.run_waiters += 1
        try:
            return self.condition.wait_for(predicate, timeout_s)
        finally:
            self.run_waiters -= 1

    def _next(self) -> _Work | None:
        """Return the next work item, or reset busy and return None; the caller
        holds the lock.
        """
        channel, is_sending = self.channel, self.sender.is_busy
        if is_sending:
            # The session's thread continues once the sender is done.
            self._start_thread()
        if self.half_closed and not is_sending:
            self.outgoing.forget_sent()
        if self.stopping or channel is None or not self.has_work():
            if self.processor.started:
                return self.processor.started[0]
            self.rest()
            return None
        if not is_sending and self.outgoing.may_send():
            return self._next_message()
        if self.tasks:
            task = self.tasks.popleft()
            if len(self.tasks) == MAX_TASKS - 1:
                self.condition.notify_all()
            return task
        closed = _closed_frame(
            self.input_bytes, self.output_bytes, self._started_s
        )
        self._end(states.CLOSED, codes.OK, "")
        return sending.Message(channel, [closed])

    def _next_message(self) -> sending.Message | None:
        """Return what can be sent now; the caller holds the lock."""
        channel = self.channel
        if channel is None or self.stopping or self.ended:
            return None
        if not self.outgoing.may_send():
            return None
        parts = self.outgoing.collect()
        if self.outgoing.linked:
            # What the client knows of may go over the link.
            self.condition.notify_all()
        return sending.Message(channel, parts)

    def _do(self, work: _Work) -> _Work | None:
        if isinstance(work, sending.Message):
            # With checkpoints, wait until the message is sent: the next one
            # may contain a checkpoint, which must be taken between two pieces.
            self.sender.send(work, alone=self.processor.has_checkpoints)
            with self.lock:
                return self._next()
        if isinstance(work, processing.Task):
            self.processor.start(work, self.outgoing.take_room())
            if self._max_started > 1 and self.tasks:
                with self.lock:
                    return self._next()
        task, written_bytes = self.processor.collect()
        with self.lock:
            self._keep(task, written_bytes)
            return self._next()

    def has_work(self) -> bool:
        """Whether there is work to do.

        This method may reserve room for the next task, so the caller must have
        set busy, or hold the lock while busy is not set.
        """
        if self.channel is None or self.ended:
            return False
        is_sending = self.sender.is_busy
        if not is_sending:
            if self.outgoing.may_send():
                return True
            if self._output.unsent:
                return False
        if self.tasks:
            return (
                not self.leaving
                and self.processor.may_start(self._max_started)
                and self.outgoing.has_room(self.tasks[0])
            )
        is_done = not (is_sending or self.processor.started)
        return self.input.closed and is_done

    def _keep(self, task: processing.Task, written_bytes: int) -> None:
        """Keep a task's output; the caller holds the lock."""
        self.outgoing.add(task, written_bytes)
        if task.view:
            self.memory.return_input()
        self.input.consume(len(task.view), task.task_id, task.end)
        if self._borders.reached(self.input_bytes):
            self._post(state.QuantumDone(self._generation))

    # The end.

    def fail(self, failure: exceptions.CodedError) -> None:
        self._end(states.FAILED, failure.code, failure.message)

    def _end(self, outcome: str, code: str, message: str) -> None:
        if not (self.ended or self.stopping):
            self.ended = True
            self._post(state.Ended(self._generation, outcome, code, message))
            self.condition.notify_all()

    def _finish_begun(self) -> bytes:
        """Start no more pieces; send and acknowledge all results.

        :returns: the checkpoint frame for the next slot, or no bytes.
        """
        with self.lock:
            self.leaving = True
            self.condition.notify_all()
            done = self.wait_for_run(
                lambda: (
                    self.channel is None
                    or self.ended
                    or (
                        self.is_idle()
                        and not (self.has_work() or self._output.unsent)
                    )
                ),
                self.settings.clear_timeout_s / 2,
            )
            if (
                done
                and self.processor.has_checkpoints
                and not (self.ended or self.busy or self.awaits_state)
            ):
                return self.processor.checkpoint(self.input.consumed_bytes)
            return b""

    def stop(self, code: str, message: str) -> None:
        """End the session, and wait until all of its threads have ended.

        :param code: error code to send to a connected client; ``OK`` if the
            client needs no reason.
        """
        checkpoint = b""
        if code in codes.TAKEN_BACK:
            checkpoint = self._finish_begun()
        with self.lock:
            self.stopping = True
            if code != codes.OK:
                self._over = (code, message)
            self.processor.cancel()
            self.links.stop()
            self.condition.notify_all()
            idle = self.wait_for_run(self.is_idle, goodbye.LINGER_S)
            channel, self.channel = self.channel, None
        if channel is not None:
            if idle:
                goodbye.say(
                    channel,
                    code,
                    message,
                    self.input.consumed_bytes,
                    checkpoint,
                )
            else:
                channel.shutdown()
        with self.lock:
            self.condition.notify_all()
            self.wait_for_run(self.is_idle)
        if self._thread_ended is not None:
            self._thread_ended.wait()
        self.links.wait()
        with self.lock:
            remains = memories.remains(code, bool(self._output.kept))
            # Threads that still read the connection keep this object alive, so
            # release what it holds.
            self.tasks.clear()
            self.outgoing.finish()
        # A connection that is being attached may be passing the memory's
        # descriptors to the client.
        with self._attach_lock:
            unread = self.memory.close(remains)
        if unread is not None:
            self._post(unread)


def _closed_frame(
    input_bytes: int, output_bytes: int, started_s: float
) -> bytes:
    """Encode the last frame of a session, in answer to CLOSE."""
    return frames.encode_frame(
        frames.FrameHeader(frames.CLOSED),
        {
            "code": codes.OK,
            "input_bytes": input_bytes,
            "output_bytes": output_bytes,
            "run_s": time.monotonic() - started_s,
        },
    )
