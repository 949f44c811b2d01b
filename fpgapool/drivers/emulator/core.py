# SPDX-License-Identifier: Apache-2.0

"""An accelerator's software core in an emulated slot."""

from __future__ import annotations

import dataclasses
import os
import signal
import threading
import time
import zlib

from fpgapool.drivers import base
from fpgapool.drivers.emulator import faults
from fpgapool.drivers.emulator import pacing
from fpgapool.vocabulary import codes

# finish() does not check for faults if the previous check was this recent.
_QUIET_NS = 200_000


class FaultInjected(Exception):
    """An injected fault made a core fail."""


class EmulatedCore(base.ChecksummedCore):
    """A core with a modelled rate and injected faults.

    The checksums are those of the correct output: wrong results are injected
    later, as if data changed on its way from the board.
    """

    def __init__(
        self,
        core: base.Core,
        pacer: pacing.Pacer | pacing.FreePacer,
        session_faults: faults.SessionFaults,
    ) -> None:
        self._core = core
        self._pacer = pacer
        self._faults = session_faults
        self._spoil = False
        # When a check last found no fault.
        self._quiet_ns = 0
        self._checksums: base.Checksums | None = None

    @property
    def chunk_multiple_bytes(self) -> int | None:
        return self._core.chunk_multiple_bytes

    @property
    def in_place(self) -> bool:
        return self._core.in_place

    @property
    def reusable(self) -> bool:
        return self._core.reusable

    @property
    def has_snapshots(self) -> bool:
        return self._core.has_snapshots

    def snapshot(self) -> bytes:
        return self._core.snapshot()

    def restore(self, snapshot: bytes, offset_bytes: int) -> None:
        self._core.restore(snapshot, offset_bytes)

    def set_argument(self, number: int, data: memoryview) -> None:
        self._core.set_argument(number, data)

    def process(
        self, chunk_in: memoryview, chunk_out: memoryview, offset_bytes: int
    ) -> int:
        due = self._faults.due(len(chunk_in))
        if due:
            for fault in due:
                _break(fault)
            self._pacer.slow_down(max(1.0, *(each.slowness for each in due)))
        else:
            self._quiet_ns = time.monotonic_ns()
            self._pacer.slow_down(1.0)
        # The modelled time includes the computation.
        self._pacer.start(len(chunk_in))
        # Read the input before the output overwrites it.
        self._sum_up_input(chunk_in)
        output_bytes = self._core.process(chunk_in, chunk_out, offset_bytes)
        self._sum_up_output(chunk_out, output_bytes)
        self._pacer.finish(len(chunk_in))
        if due:
            self._spoil |= any(
                each.kind == faults.WRONG_RESULT for each in due
            )
        return self._spoiled(chunk_out, output_bytes)

    def finish(self, chunk_out: memoryview) -> int:
        # For a short task, the check in process() is enough.
        if time.monotonic_ns() - self._quiet_ns > _QUIET_NS:
            for fault in self._faults.due(0):
                _break(fault)
        output_bytes = self._core.finish(chunk_out)
        self._sum_up_output(chunk_out, output_bytes)
        return self._spoiled(chunk_out, output_bytes)

    def start_checksums(self) -> None:
        self._checksums = base.Checksums()

    def checksums(self) -> base.Checksums:
        return self._checksums or base.Checksums()

    def _sum_up_input(self, chunk_in: memoryview) -> None:
        before = self._checksums
        if before is not None:
            self._checksums = dataclasses.replace(
                before,
                input_bytes=before.input_bytes + len(chunk_in),
                input_crc32=zlib.crc32(chunk_in, before.input_crc32),
            )

    def _sum_up_output(self, chunk_out: memoryview, output_bytes: int) -> None:
        before = self._checksums
        if before is not None:
            output = chunk_out[:output_bytes]
            self._checksums = dataclasses.replace(
                before,
                output_bytes=before.output_bytes + output_bytes,
                output_crc32=zlib.crc32(output, before.output_crc32),
            )

    def _spoiled(self, chunk_out: memoryview, output_bytes: int) -> int:
        # Wait for output: it may begin only after the input has ended.
        if self._spoil and output_bytes:
            self._spoil = False
            chunk_out[output_bytes // 2] ^= 0xFF
        return output_bytes

    def max_output_bytes(self, input_bytes: int) -> int:
        return self._core.max_output_bytes(input_bytes)

    def cancel(self) -> None:
        self._core.cancel()
        self._pacer.cancel()


def _break(fault: faults.Fault) -> None:
    match fault.kind:
        case faults.DEAD:
            raise base.DriverError(codes.DEVICE_FAILED, fault.message)
        case faults.CORE_ERROR:
            raise FaultInjected(fault.place)
        case faults.CORE_CRASH:
            # Skip all cleanup, as in a real crash.
            os.kill(os.getpid(), signal.SIGKILL)
        case faults.CORE_HANG:
            hang()


def hang() -> None:
    """Never return; only killing the process ends it."""
    threading.Event().wait()
