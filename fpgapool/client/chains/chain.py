# SPDX-License-Identifier: Apache-2.0

"""Chains, as programs use them."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from typing import BinaryIO
from typing import Unpack

from fpgapool.client import checks
from fpgapool.client import options as session_options
from fpgapool.client import shown
from fpgapool.client.chains import checking
from fpgapool.client.chains import meanwhile
from fpgapool.client.chains import transfer
from fpgapool.client.sessions import blocks
from fpgapool.client.transfers import bars
from fpgapool.client.transfers import feeding
from fpgapool.client.transfers import files
from fpgapool.client.transfers import sinks
from fpgapool.client.transfers import transfer as transfers


class Chain(shown.Shown):
    """Accelerators one after the other; :func:`chain` makes it.

    Each call gets slots for all stages at the same time, and gives them back.
    The output of a stage goes to the worker of the next one directly, never
    through this process. If a slot is lost, a stateless stage continues in
    another slot, and the others go on.

    Errors name the stage: in their message, and as ``stage``, from 1.
    """

    def __init__(
        self,
        stages: Sequence[checking.Stage],
        options: session_options.Options,
    ) -> None:
        self._stages = tuple(stages)
        self._options = options

    @property
    def accelerators(self) -> tuple[str, ...]:
        """The names of the accelerators, in order."""
        return tuple(one.accelerator for one in self._stages)

    def _facts(self) -> Mapping[str, object]:
        return {"accelerators": self.accelerators}

    def run_buffer(
        self,
        data: blocks.Buffer,
        *,
        progress: bars.Progress | bool | None = None,
        timeout_s: float | None = None,
    ) -> tuple[bytearray, transfer.ChainReport]:
        """Send bytes through the chain.

        :param data: the input, which must not change during the call.
        :param progress: see :func:`fpgapool.client.run_stream`.
        :param timeout_s: time limit for the whole call.
        :returns: the output of the last stage, and the report.
        :raises: as :meth:`run_stream`.
        """
        view, sink = memoryview(blocks.bytes_of(data)), sinks.BufferSink()
        report = self._run(
            feeding.BufferSource(view),
            sink,
            len(view),
            progress=progress,
            timeout_s=timeout_s,
        )
        return sink.data, report

    def run_stream(
        self,
        source: BinaryIO,
        destination: BinaryIO,
        size_bytes: int,
        *,
        progress: bars.Progress | bool | None = None,
        timeout_s: float | None = None,
    ) -> transfer.ChainReport:
        """Send a binary stream through the chain.

        Parameters are those of :func:`fpgapool.client.run_stream`. Input is
        cut into pieces; the output of one piece is the next stage's piece, but
        for a rest that is shorter than its ``chunk_multiple_bytes``, which
        comes first in the piece after it. Only the last piece has any length,
        so padding is the program's affair.

        :raises errors.InvalidRequest: if an argument is invalid.
        :raises errors.SessionFailed: if a stage has failed; among others with
            ``CHAIN_LINK_LOST`` if its worker cannot reach the next one's, and
            ``CHAIN_STALLED`` if its output is too short for the next stage.
        :raises: otherwise, as :func:`fpgapool.client.run_stream`.
        """
        checks.size(size_bytes, may_be_zero=True)
        files.check_size(source, size_bytes)
        return self._run(
            feeding.StreamSource(source),
            sinks.StreamSink(destination),
            size_bytes,
            progress=progress,
            timeout_s=timeout_s,
        )

    def run_file(
        self,
        source: files.Path | BinaryIO,
        destination: files.Path | BinaryIO,
        *,
        size_bytes: int | None = None,
        progress: bars.Progress | bool | None = None,
        timeout_s: float | None = None,
    ) -> transfer.ChainReport:
        """Send a file through the chain into another file.

        Parameters are those of :func:`fpgapool.client.run_file`; the output
        file appears only when it is complete.

        :raises OSError: if a file cannot be read or written; the error names
            it.
        :raises: as :meth:`run_stream`.
        """
        with transfers.opened(source, destination, size_bytes) as (
            read,
            written,
            length_bytes,
        ):
            return self._run(
                feeding.StreamSource(read),
                sinks.StreamSink(written),
                length_bytes,
                progress=progress,
                timeout_s=timeout_s,
            )

    def _run(
        self,
        source: feeding.Source,
        sink: sinks.Sink,
        size_bytes: int,
        *,
        progress: bars.Progress | bool | None = None,
        timeout_s: float | None = None,
    ) -> transfer.ChainReport:
        """Send any source through the chain; see :meth:`run_stream`."""
        return transfer.Job(
            self._stages,
            source,
            sink,
            size_bytes,
            progress,
            checks.deadline(timeout_s),
            self._options,
        ).run()


@session_options.accepted
def chain(
    *accelerators: str,
    timeout_s: float | None = None,
    **options: Unpack[session_options.Options],
) -> Chain:
    """Put accelerators one after the other.

    Here the stages are checked; slots are requested when data is sent. Each
    stage claims the bytes that the one before it returns according to its
    profile. ``deadline_s``, ``wait_timeout_s`` and time limits are those of
    the whole chain.

    :param accelerators: 2 to 8 names, for example ``"gzip", "aes"``.
    :param timeout_s: time limit of this call.
    :param options: see :class:`fpgapool.client.options.Options`; but
        ``params`` has the parameters of each stage, by the accelerator's name,
        or by the stage's number as text, and ``arguments``, ``checksum``,
        ``fallback``, ``set_id`` and ``set_size`` are not possible. With
        ``meanwhile="cpu"`` this process computes all stages until their slots,
        which come at the same time, can take over.
    :raises errors.InvalidRequest: ``CHAIN_LENGTH``, ``CHAIN_PARAMS``,
        ``CHAIN_OPTION``; ``CHAIN_NO_OUTPUT`` if a stage before the last one
        returns nothing; or ``INVALID_PARAMS`` of a stage.
    :raises errors.RequestRejected: ``UNKNOWN_ACCELERATOR`` of a stage.
    :raises: with ``meanwhile``, also as :func:`fpgapool.client.acc_open`.
    """
    found = checking.stages(accelerators, options)
    fitting = checking.fitting(found, options, timeout_s)
    if options.get("meanwhile"):
        meanwhile.check(fitting)
    return Chain(fitting, options)
