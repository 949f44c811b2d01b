# SPDX-License-Identifier: Apache-2.0

"""Compute a chain on this machine's CPU while it waits for its slots.

The software cores of all stages run in this process, one after the other for
each piece of the input. The sessions of the stages are a set, so that their
slots come at the same time. When all are ready, the slots take over between
two pieces of the input.

A stage may then have output that is too short to be a piece of the next one.
Its slot has to make that again, so it begins at the last piece before it, and
the stage before it likewise. So input is kept until no slot can need it.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

from fpgapool.client import cancel as cancelling
from fpgapool.client import errors
from fpgapool.client.chains import checking
from fpgapool.client.chains import cutting
from fpgapool.client.chains import stage as stages
from fpgapool.client.doors import view as views
from fpgapool.client.links import connection as connections
from fpgapool.client.links import waiting
from fpgapool.client.sessions import flow as flows
from fpgapool.client.sessions import pieces
from fpgapool.client.sessions import session as sessions
from fpgapool.client.sessions import software
from fpgapool.client.sessions import together
from fpgapool.client.transfers import feeding
from fpgapool.client.transfers import sinks
from fpgapool.client.transfers import transfer
from fpgapool.common.channels import buffers
from fpgapool.common.channels import channel
from fpgapool.common.channels import waits
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import exceptions

# How many pieces are read ahead.
_AHEAD = 2
# How much input is kept at most, because its output fills no piece: as much
# as workers take by default.
MOST_KEPT_BYTES = 32 * 2**20

#: Opens the session of a stage: its index, the token that cancels it, and the
#: class of its seeker.
Open = Callable[
    [int, cancelling.CancelToken, Callable[..., Any]], sessions.Session
]


def check(found: Sequence[checking.Stage]) -> None:
    """Check that this machine can compute all stages of a chain.

    :raises errors.InvalidRequest: as :func:`fpgapool.client.acc_open` with
        ``meanwhile``; it names the stage.
    """
    for one in found:
        _load(one, None)


def _load(one: checking.Stage, chunk_bytes: int | None) -> software.Software:
    try:
        return software.movable(
            one.accelerator,
            dict(one.params),
            one.core_name,
            chunk_bytes,
            is_own=one.is_own,
        )
    except errors.FpgapoolError as exc:
        raise exc.of_stage(one.number, one.accelerator) from None


class Border(NamedTuple):
    """A position between two pieces of a stage.

    :ivar input_bytes: position in its input.
    :ivar output_bytes: position in its output.
    :ivar state: of its core; None if only the position matters.
    """

    input_bytes: int
    output_bytes: int
    state: bytes | None = None


class _CpuStage:
    """A stage that this machine's CPU computes.

    :ivar borders: those that are still needed, the last one included.
    """

    def __init__(self, one: checking.Stage, chunk_bytes: int | None) -> None:
        loaded = _load(one, chunk_bytes)
        self.wanted = one
        self.multiple_bytes = loaded.multiple_bytes
        self.chunk_bytes = loaded.chunk_bytes
        self.processor = loaded.processor()
        self._stateless = loaded.stateless
        self.borders = collections.deque([Border(0, 0)])
        #: Output that is in no piece of the next stage yet.
        self.rest = bytearray()
        self.cutter = cutting.Cutter(1, 1)

    @property
    def input_bytes(self) -> int:
        return self.borders[-1].input_bytes

    @property
    def output_bytes(self) -> int:
        return self.borders[-1].output_bytes

    def compute(self, piece: memoryview, end: bool) -> memoryview:
        """Process a piece; the output is valid until the next call.

        :raises errors.SessionFailed: if the core fails; it names the stage.
        """
        last = self.borders[-1]
        try:
            output = self.processor.compute(piece, last.input_bytes, end)
        except exceptions.CodedError as exc:
            raise self._failure(exc.code, exc.message) from exc
        except Exception as exc:
            # Omit the exception's text, which may contain keys or data.
            raise self._failure(
                codes.CORE_FAILED,
                f"{type(exc).__name__} at input offset {last.input_bytes}",
            ) from None
        self.borders.append(
            Border(
                last.input_bytes + len(piece),
                last.output_bytes + len(output),
                None if self._stateless else self.processor.core.snapshot(),
            )
        )
        return output

    def stalled(self, multiple_bytes: int) -> errors.FpgapoolError:
        """Return the failure that its output does not fill a piece."""
        return self._failure(
            codes.CHAIN_STALLED,
            f"{MOST_KEPT_BYTES} bytes of input have only {len(self.rest)} "
            f"bytes of output, and the next stage takes multiples of "
            f"{multiple_bytes}",
        )

    def _failure(self, code: str, message: str) -> errors.FpgapoolError:
        offset_bytes = self.borders[-1].input_bytes
        failure = errors.SessionFailed(code, message, offset_bytes)
        return failure.of_stage(self.wanted.number, self.wanted.accelerator)


class Computing:
    """The cores of all stages, in this process.

    :param chunk_bytes: maximum piece length of the pool's workers, if known.
    """

    def __init__(
        self,
        found: Sequence[checking.Stage],
        chunk_bytes: int | None,
    ) -> None:
        self.stages = [_CpuStage(one, chunk_bytes) for one in found]
        for one, after in zip(self.stages, self.stages[1:], strict=False):
            one.cutter = cutting.Cutter(
                after.chunk_bytes, after.multiple_bytes
            )

    @property
    def input_bytes(self) -> int:
        """Input of the first stage that was processed."""
        return self.stages[0].input_bytes

    def process(
        self, piece: memoryview, end: bool, number: int = 0
    ) -> list[memoryview]:
        """Process a piece of the input of a stage, and all that follows.

        :returns: the output of the last stage.
        """
        one = self.stages[number]
        output = one.compute(piece, end)
        if one is self.stages[-1]:
            return [memoryview(bytes(output))] if output else []
        found: list[memoryview] = []
        one.rest += output
        seen_bytes = one.output_bytes
        taken_bytes = 0
        for cut in one.cutter.add(seen_bytes, last=True, end=end):
            start, taken_bytes = taken_bytes, taken_bytes + cut.length_bytes
            part = bytes(memoryview(one.rest)[start:taken_bytes])
            found += self.process(memoryview(part), cut.end, number + 1)
        del one.rest[:taken_bytes]
        return found

    def starts(self) -> list[Border]:
        """Return where each stage's slot has to begin.

        Earlier borders are forgotten.
        """
        found: list[Border] = []
        needed_bytes = self.stages[-1].output_bytes
        for one in reversed(self.stages):
            borders = one.borders
            while len(borders) > 1 and borders[1].output_bytes <= needed_bytes:
                borders.popleft()
            found.append(borders[0])
            needed_bytes = borders[0].input_bytes
        return found[::-1]

    def cancel(self) -> None:
        for one in self.stages:
            one.processor.core.cancel()


class Inlet:
    """Takes pieces from a feeder, and keeps them until someone asks for them.

    To a feeder it is the flow of a stage.

    :param changed: guards it.
    """

    shared = None
    lags = True

    def __init__(self, first: _CpuStage, changed: waits.Condition) -> None:
        self.chunk_multiple_bytes = first.multiple_bytes
        most_bytes = stages.StageFlow.most_piece_bytes
        self.piece_bytes = min(first.chunk_bytes, most_bytes)
        self.piece_bytes = max(self.piece_bytes, first.multiple_bytes)
        self._changed = changed
        self.waiting: collections.deque[tuple[memoryview, bool]] = (
            collections.deque()
        )
        self.stopped = False

    def reserve(
        self, length_bytes: int, *, filled: bool, deadline_s: float | None
    ) -> pieces.Piece:
        """See :meth:`.flow.Flow.reserve`."""
        with self._changed:
            while len(self.waiting) >= _AHEAD and not self.stopped:
                if not self._changed.wait(channel.remaining_s(deadline_s)):
                    raise channel.DeadlineExceeded("deadline passed")
            if self.stopped:
                raise waiting.Stopped
        if not filled:
            return pieces.Piece(0, memoryview(b""), None)
        return pieces.Piece(0, buffers.blank(length_bytes), None)

    def send(
        self, piece: pieces.Piece, *, end: bool, deadline_s: float | None
    ) -> None:
        """See :meth:`.flow.Flow.send`."""
        with self._changed:
            self.waiting.append((piece.data, end))
            self._changed.notify_all()

    def take(self) -> tuple[memoryview, bool]:
        """Wait for a piece.

        :raises waiting.Stopped: if there will be none.
        """
        with self._changed:
            self._changed.wait_for(lambda: self.waiting or self.stopped)
            if self.stopped:
                raise waiting.Stopped
            self._changed.notify_all()
            return self.waiting.popleft()

    def stop(self) -> None:
        with self._changed:
            self.stopped = True
            self._changed.notify_all()


class _Rest(feeding.Feeder):
    """Sends the slots what the CPU has not computed.

    :param kept: input that was computed, and whose output is needed again.
    """

    def __init__(
        self,
        first: feeding.Feeder,
        inlet: Inlet,
        kept: Sequence[memoryview],
        flow: flows.Flow,
        size_bytes: int,
        deadline_s: float | None,
    ) -> None:
        super().__init__(flow, size_bytes, deadline_s)
        self._first, self._inlet = first, inlet
        self._kept = collections.deque(kept)

    def _feed(self, _length_bytes: int) -> None:
        if self._kept:
            data = self._kept.popleft()
        else:
            try:
                data, _end = self._inlet.take()
            except waiting.Stopped:
                self._first.check()
                raise
        number = self._flow.window.reserve(len(data), self._deadline_s)
        self._send(pieces.Piece(number, data, None))

    def is_alive(self) -> bool:
        return super().is_alive() or self._first.is_alive()

    def stop(self) -> None:
        self._inlet.stop()
        self._first.stop()
        super().stop()


class ParkedSeeker(waiting.SlotSeeker):
    """Has a slot, and connects to it when all stages have theirs."""

    def __init__(
        self, *arguments: Any, beside: Beside, index: int, **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self._beside: Beside | None = beside
        self._index = index

    def reopen(self, *arguments: Any) -> Any:
        # From now on its positions are those of its flow.
        self._beside = None
        return super().reopen(*arguments)

    def _next_view(self, pause_s: float | None) -> views.SessionView | None:
        view = super()._next_view(pause_s)
        if view is not None and self._beside is not None:
            self._beside.accepted(self._index, view)
        return view

    def _connect(
        self, dialer: connections.Dialer
    ) -> connections.Connection | bool:
        if self._beside is not None:
            border = self._beside.turn(self._index)
            self._offsets_bytes = border.input_bytes, border.output_bytes
        return super()._connect(dialer)


@dataclasses.dataclass(eq=False)
class Beside:
    """Computes one transfer while the slots of its chain are awaited.

    :param open_one: opens the session of a stage.
    :param tell: told how much of the input was processed, if not None.

    :ivar feeder: sends the rest, once :meth:`run` has returned sessions.
    """

    wanted: Sequence[checking.Stage]
    source: feeding.Source
    sink: sinks.Sink
    size_bytes: int
    deadline_s: float | None
    token: cancelling.CancelToken
    open_one: Open
    tell: Callable[[int, int], object] | None

    def __post_init__(self) -> None:
        self._changed = waits.Condition()
        self._own = cancelling.LinkedToken()
        self._accepted: dict[int, int | None] = {}
        self._ready: set[int] = set()
        self._starts: list[Border] | None = None
        openers = [
            functools.partial(self._open, index)
            for index in range(len(self.wanted))
        ]
        self._opening = together.Opening(openers, self._own)
        self._kept: collections.deque[tuple[int, memoryview]] = (
            collections.deque()
        )
        self.computing: Computing | None = None

    def run(self) -> list[sessions.Session] | None:
        """Compute until the slots take over.

        :returns: the sessions, whose flows begin where the CPU has ended;
            None if the CPU has computed all.
        """
        self.token.attach(self._own)
        self._own.attach(self)
        opened: list[sessions.Session] | None = None
        try:
            self._opening.start()
            self._compute()
            if self._starts is not None:
                opened = self._sessions(self._starts)
            return opened
        finally:
            if opened is None:
                self.close()

    def close(self) -> None:
        """End what is still wanted of the pool."""
        self.token.detach(self._own)
        self._opening.abandon(sessions.CLOSE_TIMEOUT_S)

    # The CPU.

    def _compute(self) -> None:
        """Compute until all slots are ready, or all is done."""
        computing = self.computing = self._begin()
        self.inlet = Inlet(computing.stages[0], self._changed)
        self._first = self.source.feeder(
            self.inlet,  # type: ignore[arg-type]
            self.size_bytes,
            self.deadline_s,
        )
        self._first.start()
        is_done = False
        try:
            while not is_done:
                found = self._next_piece()
                if found is None:
                    break
                piece, is_done = found
                self._kept.append((computing.input_bytes, piece))
                # Whoever takes the output may wait for room.
                for output in waits.offload(
                    functools.partial(computing.process, piece, is_done)
                ):
                    self.sink.write(output)
                self._forget(computing)
                if self.tell is not None:
                    self.tell(computing.input_bytes, self.size_bytes)
        except BaseException:
            if self._opening.failed:
                # The cores were cancelled for that reason.
                raise self._cause() from None
            self._own.check()
            raise
        finally:
            if is_done or self._starts is None:
                self.inlet.stop()
                self._first.stop()

    def _begin(self) -> Computing:
        """Make the cores, once the pool has accepted all requests."""
        self._await(lambda: len(self._accepted) == len(self.wanted))
        known = [one for one in self._accepted.values() if one is not None]
        return Computing(self.wanted, min(known, default=None))

    def _next_piece(self) -> tuple[memoryview, bool] | None:
        """Wait for a piece; None if the slots take over."""
        inlet = self.inlet
        self._await(lambda: inlet.waiting or inlet.stopped or self._all_ready)
        with self._changed:
            if self._all_ready:
                assert self.computing is not None
                self._starts = self.computing.starts()
                self._changed.notify_all()
                return None
            if inlet.stopped:
                self._first.check()
                raise waiting.Stopped
            return inlet.take()

    def _forget(self, computing: Computing) -> None:
        """Forget input that no slot can need.

        :raises errors.SessionFailed: ``CHAIN_STALLED``, if that leaves more
            than slots can keep.
        """
        starts = computing.starts()
        needed_bytes = starts[0].input_bytes
        if computing.input_bytes - needed_bytes > MOST_KEPT_BYTES:
            number = next(
                number
                for number, one in enumerate(computing.stages)
                if starts[number].output_bytes < one.output_bytes
            )
            raise computing.stages[number].stalled(
                computing.stages[number + 1].multiple_bytes
            )
        while self._kept and (
            self._kept[0][0] + len(self._kept[0][1]) <= needed_bytes
        ):
            self._kept.popleft()

    def _await(self, predicate: Callable[[], object]) -> None:
        with self._changed:
            while not (predicate() or self._own.cancelled):
                self._changed.wait(transfer.left_s(self.deadline_s))
        if self._opening.failed:
            raise self._cause()
        self._own.check()
        transfer.left_s(self.deadline_s)

    def shutdown(self) -> None:
        """For the token, when it is cancelled."""
        with self._changed:
            self._changed.notify_all()
        if self.computing is not None:
            self.computing.cancel()

    # The slots.

    def _open(
        self, index: int, token: cancelling.CancelToken
    ) -> sessions.Session:
        make_seeker = functools.partial(ParkedSeeker, beside=self, index=index)
        return self.open_one(index, token, make_seeker)

    def _cause(self) -> BaseException:
        """Return why the chain has no slots; called when one has failed.

        The caller does not hold the lock.
        """
        self._opening.join(sessions.CLOSE_TIMEOUT_S)
        failed = self._opening.failed
        return failed[together.first_failed(failed)]

    @property
    def _all_ready(self) -> bool:
        return len(self._ready) == len(self.wanted)

    def accepted(self, index: int, view: views.SessionView) -> None:
        """Note that the pool has accepted the request of a stage."""
        with self._changed:
            self._accepted.setdefault(index, view.chunk_bytes)
            self._changed.notify_all()

    def turn(self, index: int) -> Border:
        """Wait until all stages have slots; return where this one begins.

        :raises errors.Cancelled: if the CPU has computed all, or has failed.
        """
        with self._changed:
            self._ready.add(index)
            self._changed.notify_all()
            while self._starts is None:
                self._own.check()
                self._changed.wait()
            return self._starts[index]

    def _sessions(self, starts: Sequence[Border]) -> list[sessions.Session]:
        try:
            opened = self._opening.wait()
        except together.Failed:
            raise self._cause() from None
        for session, border in zip(opened, starts, strict=True):
            if border.state is not None:
                flow = session.flow
                assert isinstance(flow, stages.StageFlow)
                flow.begin_from(border.state, self.deadline_s)
        return opened

    def rest(self, flow: flows.Flow) -> feeding.Feeder:
        """Return what sends the slots the rest of the input."""
        assert self._starts is not None
        return _Rest(
            self._first,
            self.inlet,
            [data for _start, data in self._kept],
            flow,
            self.size_bytes - self._starts[0].input_bytes,
            self.deadline_s,
        )
