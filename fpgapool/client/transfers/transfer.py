# SPDX-License-Identifier: Apache-2.0

"""Send whole files, streams and buffers through an accelerator, pipelined.

If a session loses its slot, a stateless accelerator continues in another slot.
With other accelerators, the transfer starts over if the input can be read
again and the output can be discarded.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
import typing
from collections.abc import Callable
from collections.abc import Iterator
from typing import BinaryIO
from typing import Unpack
from typing import overload

from fpgapool.client import cancel as cancelling
from fpgapool.client import checks
from fpgapool.client import errors
from fpgapool.client import options as session_options
from fpgapool.client import shown
from fpgapool.client.links import waiting
from fpgapool.client.sessions import blocks
from fpgapool.client.sessions import flow as flows
from fpgapool.client.sessions import opening
from fpgapool.client.sessions import session as sessions
from fpgapool.client.transfers import bars
from fpgapool.client.transfers import feeding
from fpgapool.client.transfers import files
from fpgapool.client.transfers import sinks
from fpgapool.common.channels import buffers
from fpgapool.common.channels import channel
from fpgapool.common.channels import waits
from fpgapool.vocabulary import codes

Progress = bars.Progress
Buffer: typing.TypeAlias = blocks.Buffer

#: How often a transfer may start over.
MAX_RESTARTS = 3
#: Codes of errors that another slot may avoid.
RESTART_CODES = codes.SLOT_LOST | {
    codes.INCOMPATIBLE_SLOT,
    codes.SESSION_LOST,
}
# How much data one of several tasks moves before it is another one's turn.
_TURN_BYTES = 1024 * 1024
# A repeated request needs a different name of at most 64 characters.
_NAME_STEM = 60


@dataclasses.dataclass(frozen=True)
class RunReport(shown.ShownFields):
    """The results of a transfer.

    If there were several slots, the attributes describe the last one.

    :ivar waited_s: seconds from the request until the slot was ready.
    :ivar ran_s: seconds from then until the last output was written.
    :ivar session_id: ID of the session; empty if the CPU computed.
    :ivar reconnects: how often a broken connection was replaced.
    :ivar reopens: how often a lost slot was replaced.
    :ivar fallback_reason: code of the pool's error due to which this machine's
        CPU computed; None if a slot did.
    :ivar checksum: whether input and output were checked end to end.
    :ivar cpu_energy_j: see
        :attr:`session.Session.cpu_energy_j`.
    """

    waited_s: float
    ran_s: float
    input_bytes: int
    output_bytes: int
    bytes_per_s: float
    host: str | None
    device: str | None
    slot: int | None
    local: bool
    session_id: str
    reconnects: int
    reopens: int
    restarts: int
    fallback_reason: str | None
    checksum: bool = False
    cpu_energy_j: float | None = None


@dataclasses.dataclass
class _Job:
    """One call of :func:`run_stream` or a similar function."""

    accelerator: str
    source: feeding.Source
    sink: sinks.Sink
    size_bytes: int
    progress: Progress | bool | None
    timeout_s: dataclasses.InitVar[float | None]
    options: session_options.Options
    session: sessions.Session | None = None
    feeder: feeding.Feeder | None = None
    waited_s: float = 0.0
    ran_s: float = 0.0
    reconnects: int = 0
    reopens: int = 0
    restarts: int = 0
    tell: Progress | None = None

    def __post_init__(self, timeout_s: float | None) -> None:
        checks.size(self.size_bytes, may_be_zero=True)
        self.deadline_s = checks.deadline(timeout_s)

    def run(self) -> RunReport:
        with bars.reporting(self.progress, self.accelerator) as self.tell:
            return self._run()

    def _run(self) -> RunReport:
        """Transfer everything, starting over as often as allowed."""
        while True:
            try:
                session = self._attempt()
            except errors.SessionFailed as exc:
                if not self._can_start_over(exc):
                    raise
                self.restarts += 1
            else:
                self.source.check_end(self._check)
                return self._report(session)

    def _check(self) -> None:
        left_s(self.deadline_s)
        token = cancelling.token_of(self.options.get("cancel"))
        try:
            token.check()
        finally:
            cancelling.release(token)

    def _attempt(self) -> sessions.Session:
        self.session = None
        session = opening.acc_open(
            self.accelerator,
            # A session must claim at least one byte.
            max(self.size_bytes, 1),
            timeout_s=left_s(self.deadline_s),
            **self._request_options(),
        )
        self.session = session
        self.waited_s += session.waited_s
        started_s = time.monotonic()
        with session:
            try:
                self._transfer(session)
            finally:
                self.ran_s += time.monotonic() - started_s
                self.reconnects += session.reconnects
                self.reopens += session.reopens
        return session

    def _request_options(self) -> session_options.Options:
        request_id = self.options.get("request_id")
        if not self.restarts or request_id is None:
            return self.options
        name = f"{request_id[:_NAME_STEM]}.{self.restarts}"
        return {**self.options, "request_id": name}

    def _transfer(self, session: sessions.Session) -> None:
        flow = session.flow
        place = buffers.blank(0 if flow.shared else flow.chunk_bytes)
        feeder = self.source.feeder(flow, self.size_bytes, self.deadline_s)
        self.feeder = feeder
        alone = waits.current() is not None
        with session.using():
            if not alone:
                feeder.start()
            try:
                self._receive(flow, place, feeder.feed if alone else None)
            except waiting.Stopped:
                feeder.check()
                # Otherwise, the pool has ended the session.
                raise
            finally:
                if not flow.ended:
                    flow.stop()
                feeder.stop()

    def _can_start_over(self, failure: errors.SessionFailed) -> bool:
        session = self.session
        return (
            session is not None
            and failure.code in RESTART_CODES
            and (
                not session.stateless
                or failure.code == codes.INCOMPATIBLE_SLOT
            )
            and self.restarts < MAX_RESTARTS
            # A running feeder would read the next attempt's input.
            and self.feeder is not None
            and not self.feeder.is_alive()
            and self.source.rewind()
            and self.sink.rewind()
        )

    def _report(self, session: sessions.Session) -> RunReport:
        statistics = session.statistics
        return RunReport(
            waited_s=self.waited_s,
            ran_s=self.ran_s,
            input_bytes=statistics.input_bytes,
            output_bytes=statistics.output_bytes,
            bytes_per_s=statistics.input_bytes / max(self.ran_s, 1e-9),
            host=session.host_name,
            device=session.device,
            slot=session.slot,
            local=session.local,
            session_id=session.session_id,
            reconnects=self.reconnects,
            reopens=self.reopens,
            restarts=self.restarts,
            fallback_reason=session.fallback_reason,
            checksum=session.checksum,
            cpu_energy_j=session.cpu_energy_j,
        )

    def _receive(
        self,
        flow: flows.Flow,
        place: memoryview,
        feed: Callable[[], None] | None,
    ) -> None:
        """Receive all output.

        :param feed: sends input that has room; None: another thread does.
        """
        reported_bytes, paused_bytes = -1, 0
        while not flow.ended:
            if feed is not None:
                feed()
                moved_bytes = flow.acknowledged_bytes + flow.received_bytes
                if moved_bytes - paused_bytes > _TURN_BYTES:
                    # Other tasks run, even if there is always more data.
                    waits.pause(0)
                    paused_bytes = moved_bytes
            wanted = self.sink.place()
            output = flow.receive(
                place if wanted is None else wanted, self.deadline_s
            )
            if output is not None and output.data:
                self.sink.write(output.data)
            done_bytes = flow.acknowledged_bytes
            if self.tell is not None and done_bytes != reported_bytes:
                self.tell(done_bytes, self.size_bytes)
                reported_bytes = done_bytes


def left_s(deadline_s: float | None) -> float | None:
    """Return the seconds until a deadline; None if there is no deadline.

    :raises errors.OperationTimeout: if it has passed.
    """
    remaining_s = channel.remaining_s(deadline_s)
    if remaining_s == 0:
        raise errors.OperationTimeout("the time limit was exceeded")
    return remaining_s


@session_options.accepted
def run_stream(
    accelerator: str,
    source: BinaryIO,
    destination: BinaryIO,
    size_bytes: int,
    *,
    progress: Progress | bool | None = None,
    timeout_s: float | None = None,
    **options: Unpack[session_options.Options],
) -> RunReport:
    """Send a binary stream through an accelerator.

    If the slot is lost, a stateless accelerator continues in another slot.
    With other accelerators, the transfer starts over, at most three times, if
    the source can seek, and the destination either can seek and be truncated
    or has received nothing yet; ``progress`` then starts again.

    Input is sent in pieces of ``chunk_bytes``. If the source is slow, the
    data read so far is sent after a second, rounded down to a multiple of the
    accelerator's ``chunk_multiple_bytes``.

    :param source: binary file object to read from.
    :param destination: binary file object to write the output to.
    :param size_bytes: size of the input, which may be 0. The source must end
        there, unless it is a device, a pipe or a socket.
    :param progress: called with the input bytes done and the total; True shows
        a bar of tqdm, which ``fpgapool[progress]`` installs.
    :param timeout_s: time limit for the whole call.
    :param options: see :func:`fpgapool.client.acc_open`. After a checksum
        error, the destination contains output that must not be used.
    :raises errors.InvalidRequest: with code ``SIZE_MISMATCH`` if the source
        has a different size, even if it has just grown or shrunk; the
        destination may then contain output that must not be used.
    :raises TypeError: if an option is unknown; nothing was done.
    :raises: as :func:`fpgapool.client.acc_open` and
        :meth:`fpgapool.client.Session.run`.
    """
    checks.size(size_bytes, may_be_zero=True)
    files.check_size(source, size_bytes)
    return _Job(
        accelerator,
        feeding.StreamSource(source),
        sinks.StreamSink(destination),
        size_bytes,
        progress,
        timeout_s,
        options,
    ).run()


@overload
def run_buffer(
    accelerator: str,
    data: Buffer,
    *,
    into: None = None,
    progress: Progress | bool | None = None,
    timeout_s: float | None = None,
    **options: Unpack[session_options.Options],
) -> tuple[bytearray, RunReport]: ...


@overload
def run_buffer(
    accelerator: str,
    data: Buffer,
    *,
    into: bytearray | memoryview,
    progress: Progress | bool | None = None,
    timeout_s: float | None = None,
    **options: Unpack[session_options.Options],
) -> tuple[memoryview, RunReport]: ...


@session_options.accepted
def run_buffer(
    accelerator: str,
    data: Buffer,
    *,
    into: bytearray | memoryview | None = None,
    progress: Progress | bool | None = None,
    timeout_s: float | None = None,
    **options: Unpack[session_options.Options],
) -> tuple[bytearray | memoryview, RunReport]:
    """Send bytes through an accelerator.

    :param data: the input, which must not change during the call.
    :param into: memory for the output, separate from ``data``. Output from a
        network is received directly into it, so that large output needs
        neither a copy nor new memory. None means that memory is allocated.
    :param options: see :func:`run_stream`.
    :returns: the output, as a view of ``into`` if given, and the report.
    :raises errors.InvalidRequest: with code ``INVALID_INPUT`` if ``data`` is
        no bytes, ``SIZE_MISMATCH`` if the output is longer than ``into``,
        ``INVALID_REQUEST`` if ``into`` cannot be written to or is the input's
        memory.
    :raises: as :func:`run_stream`.
    """
    view = memoryview(blocks.bytes_of(data))
    sink = (
        sinks.BufferSink()
        if into is None
        else sinks.PlaceSink(_place(into, view))
    )
    report = _Job(
        accelerator,
        feeding.BufferSource(view),
        sink,
        len(view),
        progress,
        timeout_s,
        options,
    ).run()
    return sink.data, report


def _place(into: bytearray | memoryview, data: memoryview) -> memoryview:
    place = memoryview(into).cast("B")
    # The input must not be overwritten, because it may have to be sent again.
    if place.readonly or place.obj is data.obj:
        raise errors.invalid(
            "into must be writable, and must not share the input's memory"
        )
    return place


@session_options.accepted
def run_file(
    accelerator: str,
    source: files.Path | BinaryIO,
    destination: files.Path | BinaryIO,
    *,
    size_bytes: int | None = None,
    progress: Progress | bool | None = None,
    timeout_s: float | None = None,
    **options: Unpack[session_options.Options],
) -> RunReport:
    """Send a file through an accelerator into another file.

    The output file appears only when it is complete; after a failure, there is
    none, and an existing file of that name is unchanged. Source and
    destination may be the same file.

    :param source: path or binary file object, read from its current position.
    :param destination: path of the output, or binary file object to which
        output is written as it arrives.
    :param size_bytes: size of the input; None requires a source with a known
        size. If the source is the path of a pipe, it must end there.
    :param options: see :func:`run_stream`.
    :raises errors.InvalidRequest: with code ``INVALID_SIZE`` if the size of
        the input is unknown; ``SIZE_MISMATCH`` as in :func:`run_stream`.
    :raises OSError: if a file cannot be read or written; the error names it.
    :raises: as :func:`run_stream`.
    """
    with opened(source, destination, size_bytes) as (read, written, length):
        return _Job(
            accelerator,
            feeding.StreamSource(read),
            sinks.StreamSink(written),
            length,
            progress,
            timeout_s,
            options,
        ).run()


@contextlib.contextmanager
def opened(
    source: files.Path | BinaryIO,
    destination: files.Path | BinaryIO,
    size_bytes: int | None,
) -> Iterator[tuple[BinaryIO, BinaryIO, int]]:
    """Open the files of a transfer; the output file appears at the end.

    :returns: the input, the output, and the size of the input.
    """
    with contextlib.ExitStack() as stack:
        if isinstance(source, str | os.PathLike):
            source = stack.enter_context(files.Input(source))
        if size_bytes is None:
            size_bytes = files.size_of(source)
        checks.size(size_bytes, may_be_zero=True)
        files.check_size(source, size_bytes)
        output = stack.enter_context(files.opened_output(destination))
        yield source, output, size_bytes
