# SPDX-License-Identifier: Apache-2.0

"""The flow of one stage of a chain.

The client sends the first stage its input, and receives the last stage's
output. Between two stages it moves headers only: the sender's OUTPUT says how
much there is, and INPUT tells the receiver how to cut it; the data goes over a
link from worker to worker.

A stage's worker acknowledges input that it has processed. That is not enough
to forget it: its output may be lost with the next stage's slot. So the client
acknowledges a stage's output only as far as the next stage's input is settled,
and settles a stage's input only as far as its output is acknowledged. The last
stage's input is settled when its output has arrived. In this way any stage can
begin again, in another slot, from what the stage before it still keeps.
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import secrets
import threading
from typing import NamedTuple

from fpgapool.client.chains import cutting
from fpgapool.client.links import connection as connections
from fpgapool.client.links import waiting
from fpgapool.client.sessions import flow as flows
from fpgapool.client.sessions import pieces
from fpgapool.client.sessions import recovery
from fpgapool.common.channels import buffers
from fpgapool.common.channels import channel
from fpgapool.common.channels import waits
from fpgapool.protocol import frames
from fpgapool.protocol import links
from fpgapool.protocol import stream
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import rules

_NO_BYTES = memoryview(b"")


class Over(Exception):
    """The chain has all its output, so a lost stage is not replaced."""


class _Processed(NamedTuple):
    """Input that a worker has processed, and the output of it.

    :ivar input_bytes: end of the input.
    :ivar task_id: its last task.
    :ivar output_bytes: end of the output.
    """

    input_bytes: int
    task_id: int
    output_bytes: int


class Hop:
    """The link between two neighbouring stages, as the client orders it.

    :ivar target: where it leads; None while the receiver has no slot.
    :ivar waiting: pieces that the receiver was not told of; its window's lock
        guards them.
    :ivar announces: whether it is being told of the first of them.
    """

    def __init__(
        self, sender: StageFlow, receiver: StageFlow, require_tls: bool
    ) -> None:
        self.sender = sender
        self.receiver = receiver
        self._require_tls = require_tls
        self._lock = threading.Lock()
        self.waiting: collections.deque[cutting.Cut] = collections.deque()
        self.announces = False
        self._announcing = waits.Lock()
        self.target: links.Target | None = None
        self.cutter = cutting.Cutter(
            receiver.chunk_bytes,
            receiver.chunk_multiple_bytes,
            receiver.acknowledged_bytes,
        )
        self.renew()

    def renew(self, *, if_there: bool = False) -> None:
        """Make another secret, which a lost worker does not have.

        :param if_there: do nothing while the receiver has no slot; it renews
            the link when it has one.
        """
        with self._lock:
            if if_there and self.target is None:
                return
            view = self.receiver.view
            self._secret = secrets.token_hex(rules.SECRET_BYTES)
            self.target = links.Target(
                view.session_id,
                view.generation,
                self._secret,
                view.certificate_sha256,
                self._require_tls,
            )

    def cut(self) -> None:
        """Note that the receiver has no slot."""
        with self._lock:
            self.target = None

    def push(self) -> None:
        """Announce as much to the receiver as it has room for.

        Never waits for room: a thread that did could not see that its own
        worker, for whose data the receiver waits, is lost.
        """
        with self._announcing:
            while self._begin():
                try:
                    self.receiver.announce(self.waiting[0])
                finally:
                    # Not earlier: the stages would seem to be stalled.
                    with self.receiver.window.lock:
                        self.waiting.popleft()
                        self.announces = False
        self.receiver.check_stalled()

    def _begin(self) -> bool:
        """Whether there is a piece to announce now."""
        with self.receiver.window.lock:
            self.announces = bool(self.waiting) and self.receiver.may_announce(
                self.waiting[0]
            )
            return self.announces

    @property
    def secret_sha256(self) -> str:
        return hashlib.sha256(self._secret.encode()).hexdigest()


class StageFlow(flows.Flow):
    """The flow of one stage.

    :ivar number: number of the stage, from 1.
    :ivar accelerator: its name.
    :ivar hop_in: link from the stage before; None for the first stage.
    :ivar hop_out: link to the next stage; None for the last stage.
    :ivar deadline_s: absolute time limit of the chain.
    :ivar over: whether nothing is needed of this stage any more.
    """

    number = 0
    accelerator = ""
    hop_in: Hop | None = None
    hop_out: Hop | None = None
    deadline_s: float | None = None
    over = False
    lags = True
    # A stage's input is settled piece by piece, and each stage may have a rest
    # that is not settled. So the window must have room for many pieces.
    most_piece_bytes = 2**20

    def join(self, hop_in: Hop | None, hop_out: Hop | None) -> None:
        """Connect the stage to its neighbours, before any data is sent."""
        self._processed: collections.deque[_Processed] = collections.deque()
        # Ends of the worker's pieces of output: it resumes at them only.
        self._borders: collections.deque[int] = collections.deque()
        # Guards them, and the order of acknowledgements.
        self._settling = threading.RLock()
        self._recovers = self._moved = False
        # Stands for input that goes over the link: only its length counts, and
        # the memory is never touched.
        self._nothing = buffers.blank(self.chunk_bytes)
        self.hop_in, self.hop_out = hop_in, hop_out
        if hop_in is not None:
            # All stages have one, so that who looks whether they are stalled
            # sees them as they are at one moment. Nobody waits while holding
            # it, and it is the last one that anybody takes.
            self.window.lock = hop_in.sender.window.lock
        if hop_out is None:
            # Its next slot may be on this host, with buffers for chunks.
            self.window.limit(self.window_bytes // self.chunk_bytes)
        self.window.on_full = self.check_stalled
        self._count_buffers()

    def send_link(self) -> None:
        """Tell the worker its neighbours."""
        # What is true when it is sent: the present connection may be replaced
        # before, and know more.
        self._behind.send(
            lambda: self._order().frame(), self._present, self.deadline_s
        )

    def _order(self) -> links.Order:
        hop_in, hop_out = self.hop_in, self.hop_out
        return links.Order(
            None if hop_in is None else hop_in.secret_sha256,
            hop_out is not None,
            None if hop_out is None else hop_out.target,
        )

    def _count_buffers(self) -> None:
        super()._count_buffers()
        if self.hop_out is not None:
            # Nothing comes to this process.
            self._output.buffers = 0
            self._output.due_pieces = stream.UNLIMITED

    def begin_from(self, state: bytes, deadline_s: float | None) -> None:
        """Continue from a core's state, before any input is sent."""
        offset_bytes = self.acknowledged_bytes
        self._checkpoints = {offset_bytes: state}
        # A new connection would be sent it again.
        with contextlib.suppress(channel.ChannelClosed):
            self._connection.channel.send(
                frames.checkpoint_frame(offset_bytes, state),
                deadline_s=deadline_s,
            )

    # Input from the stage before.

    def may_announce(self, cut: cutting.Cut) -> bool:
        """Whether there is room for a piece, and a worker to tell of it."""
        has_room = self.window.has_room(cut.length_bytes)
        return has_room and not self._recovers

    def announce(self, cut: cutting.Cut) -> None:
        """Tell the worker of input that comes over the link."""
        number = self.window.reserve(cut.length_bytes, self.deadline_s)
        nothing = self._nothing[: cut.length_bytes]
        piece = pieces.Piece(number, nothing, None)
        piece.flags = frames.LINKED
        self.send(piece, end=cut.end, deadline_s=self.deadline_s)

    def _send_unsent(self, prefix: bytes, deadline_s: float | None) -> None:
        if self.hop_in is None:
            super()._send_unsent(prefix, deadline_s)
            return
        connection = self._connection
        while self._input.unsent:
            piece = self._input.take()
            in_buffer = connection.shared is not None and bool(piece.data)
            header = piece.header(frames.INPUT, in_buffer)
            connection.channel.send(prefix + header, deadline_s=deadline_s)
            prefix = b""

    # Output to the next stage.

    def _handle(
        self,
        connection: connections.Connection,
        header: frames.FrameHeader,
        place: memoryview,
        deadline_s: float | None,
    ) -> pieces.Output | None:
        if header.type == frames.PING and self.hop_out is not None:
            # Output is acknowledged as soon as it can be, and not before.
            return None
        return super()._handle(connection, header, place, deadline_s)

    def _take_output(
        self,
        connection: connections.Connection,
        header: frames.FrameHeader,
        place: memoryview,
        deadline_s: float | None,
    ) -> pieces.Output | None:
        hop = self.hop_out
        if hop is None:
            return super()._take_output(connection, header, place, deadline_s)
        length_bytes = header.payload_length_bytes
        if length_bytes and not header.flags & frames.LINKED:
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR, "output did not go over the link"
            )
        if not self._output.accept(header):
            return None
        end = bool(header.flags & frames.END)
        known_bytes = self._output.consume(length_bytes, header.task_id, end)
        self._output.ack_due = False
        seen_bytes = self._output.delivered_bytes
        border_bytes = header.offset_bytes + length_bytes
        with self._settling:
            self._borders.append(border_bytes)
        last = bool(header.flags & (frames.TASK_END | frames.END))
        is_new = known_bytes < length_bytes or border_bytes == seen_bytes
        with self.window.lock:
            if is_new:
                hop.waiting += hop.cutter.add(seen_bytes, last=last, end=end)
            if last and self.stateless:
                self._note_task(header.task_id, border_bytes)
        if is_new:
            hop.push()
        self.settle()
        return None

    def _note_task(self, task_id: int, output_bytes: int) -> None:
        """Note that a task is processed, as its output has ended.

        The worker may acknowledge the input of many tasks at once, for
        example when a connection is resumed. A rest of the output of the last
        one would then keep the input of all, up to a whole window of it. The
        caller holds the window's lock.
        """
        input_bytes = next(
            (
                piece.end_offset_bytes
                for piece in self._input.kept
                if piece.task_id == task_id
            ),
            None,
        )
        if input_bytes is not None:
            self._note(_Processed(input_bytes, task_id, output_bytes))

    def _note(self, processed: _Processed) -> None:
        with self.window.lock:
            known = self._processed
            if not known or known[-1].input_bytes < processed.input_bytes:
                known.append(processed)

    # Settling.

    def _keep_checkpoint(self, offset_bytes: int, state: bytes) -> None:
        if self.hop_out is None:
            super()._keep_checkpoint(offset_bytes, state)
            return
        # Several may come before the input of the first one is settled.
        settled_bytes = self.acknowledged_bytes
        self._checkpoints = {
            offset: known
            for offset, known in self._checkpoints.items()
            if offset >= settled_bytes
        } | {offset_bytes: state}

    def _acknowledged(self, header: frames.FrameHeader) -> None:
        if self.hop_out is None:
            super()._acknowledged(header)
            self._settle_before()
            return
        self._note(
            _Processed(
                header.offset_bytes,
                header.task_id,
                self._output.consumed_bytes,
            )
        )
        self.settle()

    def _finish(self) -> None:
        super()._finish()
        self._settle_before()

    def _settle_before(self) -> None:
        if self.hop_in is not None:
            self.hop_in.push()
            self.hop_in.sender.settle()

    def settle(self) -> None:
        """Acknowledge output that the next stage needs no more, and settle the
        input of it; any thread may call this.
        """
        hop = self.hop_out
        assert hop is not None
        newest = None
        with self._settling:
            if self._recovers:
                # The recovering thread does it when it is done.
                return
            with self.window.lock:
                while self._can_settle:
                    newest = self._processed.popleft()
                if newest is not None:
                    done = self._input.acknowledge(
                        newest.input_bytes, newest.task_id
                    )
                    self.window.free(done)
                    self._output.settled_bytes = newest.output_bytes
            release = self._release()
            if release:
                self._behind.send(release, self._present, self.deadline_s)
        if newest is not None:
            self._settle_before()
        self.check_stalled()

    def _release(self) -> bytes:
        hop = self.hop_out
        if hop is None:
            return super()._release()
        with self._settling:
            needed_bytes = hop.receiver.acknowledged_bytes
            offset_bytes = self._output.acknowledged_bytes
            while self._borders and self._borders[0] <= needed_bytes:
                offset_bytes = max(offset_bytes, self._borders.popleft())
            if offset_bytes == self._output.acknowledged_bytes:
                return b""
            self._output.acknowledged_bytes = offset_bytes
        return frames.pack_header(frames.ACK, offset_bytes=offset_bytes)

    def check_stalled(self) -> None:
        """Fail instead of waiting for ever, here or in a later stage.

        :raises errors.SessionFailed: if everything is processed but the rest
            of a stage's output, and no input has room that would complete it.
        """
        hop = self.hop_out
        if hop is None:
            return
        receiver, sent = hop.receiver, self._input
        with self.window.lock:
            if receiver.window.idle and not hop.waiting and self._is_stuck:
                in_flight_bytes = sent.added_bytes - sent.acknowledged_bytes
                raise self._failure(
                    codes.CHAIN_STALLED,
                    f"{in_flight_bytes} bytes of input have only "
                    f"{hop.cutter.left_bytes} bytes of output, and the next "
                    f"stage takes multiples of "
                    f"{receiver.chunk_multiple_bytes}",
                ).of_stage(self.number, self.accelerator)
        receiver.check_stalled()

    # The caller holds the window's lock.

    @property
    def _can_settle(self) -> bool:
        """Whether the next stage has settled the output of some input."""
        hop, processed = self.hop_out, self._processed
        assert hop is not None
        return bool(processed) and (
            processed[0].output_bytes <= hop.receiver.acknowledged_bytes
        )

    @property
    def _is_stuck(self) -> bool:
        """Whether it has processed all its input, can settle none of it, and
        can have no more before.
        """
        hop, processed = self.hop_in, self._processed
        if not processed or self._can_settle or self._expects_output:
            return False
        if hop is None:
            wanted_bytes = self.window.wanted_bytes
        elif hop.announces:
            return False
        elif hop.waiting:
            wanted_bytes = hop.waiting[0].length_bytes
        else:
            # A stage that is about to settle, perhaps once it has another
            # slot, makes room for input.
            return hop.sender._is_stuck
        return wanted_bytes is not None and not self.window.has_room(
            wanted_bytes
        )

    @property
    def _expects_output(self) -> bool:
        """Whether output of its input is still to come."""
        hop, newest = self.hop_out, self._processed[-1]
        assert hop is not None
        return (
            newest.input_bytes < self._input.added_bytes
            or newest.output_bytes != hop.cutter.seen_bytes
        )

    # Recovery.

    def _recover(
        self,
        deadline_s: float | None,
        trouble: channel.ChannelClosed | recovery.SlotLost,
    ) -> None:
        if self.over:
            raise Over
        with self._settling:
            self._recovers = True
        try:
            super()._recover(deadline_s, trouble)
        finally:
            with self._settling:
                self._recovers = False
        # What was left meanwhile, perhaps news of a neighbour.
        self._behind.flush(self._present, deadline_s)
        if self._moved:
            self._moved = False
            if self.hop_in is not None:
                self.hop_in.sender.send_link()
            if self.hop_out is not None:
                self.hop_out.receiver.send_link()
        if self.hop_out is not None:
            self.settle()
        if self.hop_in is not None:
            self.hop_in.push()

    def _resume(
        self, deadline_s: float | None, reason: channel.ChannelClosed
    ) -> None:
        if self.hop_out is not None:
            # The worker must keep what the next stage may need again.
            with self._settling:
                self._output.consumed_bytes = self._output.acknowledged_bytes
                self._output.finished = False
                self._borders.clear()
        super()._resume(deadline_s, reason)

    def _reopen(
        self, deadline_s: float | None, lost: recovery.SlotLost
    ) -> None:
        if self.hop_in is not None:
            self.hop_in.cut()
            self.hop_in.sender.send_link()
        super()._reopen(deadline_s, lost)
        with self._settling, self.window.lock:
            self._processed.clear()
            self._borders.clear()
        if self.hop_in is not None:
            self.hop_in.renew()
        if self.hop_out is not None:
            self.hop_out.renew(if_there=True)
        self._moved = True

    def _send_again(self, deadline_s: float | None) -> None:
        self._connection.channel.send(
            self._order().frame(), deadline_s=deadline_s
        )
        super()._send_again(deadline_s)

    # Ending.

    def end(self) -> None:
        """Tell the worker that the stage is over; any thread may call this."""
        with self._settling:
            self.over = True
            if self._recovers:
                self.stop()
                return
            close = frames.pack_header(frames.CLOSE)
            self._behind.send(
                self._release() + close, self._present, self.deadline_s
            )

    def settle_all(self) -> None:
        """Count all input as processed: the chain has all of its output.

        A stage whose connection is lost at the end does not hear of it.
        """
        self.window.finish()

    def run(self) -> None:
        """Receive headers until the worker confirms the end."""
        try:
            while self.closed is None:
                self.receive(_NO_BYTES, self.deadline_s)
        except Over:
            return
        except waiting.Stopped:
            if not self.over:
                raise
