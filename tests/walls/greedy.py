# SPDX-License-Identifier: Apache-2.0

"""A driver whose cores take all that they can get."""

from __future__ import annotations

import threading
import typing
from collections.abc import Mapping

from fpgapool.drivers import base
from fpgapool.drivers import emulator

_STEP_BYTES = 8 * 2**20
# How much memory a core writes that only takes processor time.
_WRITTEN_BYTES = 256 * 2**20


class GreedyCore(base.Core):
    """Does what its parameter ``take`` says; else returns its input.

    ``memory``
        Uses more and more of it.
    ``processor``
        Writes as much memory as a small limit allows, the same again and
        again; then it fails as if there were no more.
    ``threads``
        Starts threads until it may not; returns their number.
    ``time``
        Waits until it is cancelled.
    """

    def __init__(self, params: Mapping[str, typing.Any]) -> None:
        self._take = params.get("take")
        self._taken: list[bytearray] = []
        self._ended = threading.Event()

    def max_output_bytes(self, input_bytes: int) -> int:
        return input_bytes

    def process(
        self, chunk_in: memoryview, chunk_out: memoryview, offset_bytes: int
    ) -> int:
        found = chunk_in
        if self._take == "memory":
            while True:
                self._taken.append(bytearray(b"x") * _STEP_BYTES)
        if self._take == "processor":
            for _ in range(_WRITTEN_BYTES // _STEP_BYTES):
                self._taken = [bytearray(b"x") * _STEP_BYTES]
            raise MemoryError
        if self._take == "threads":
            found = memoryview(b"%08d" % self._start_threads())
        if self._take == "time":
            self._ended.wait()
            raise RuntimeError("cancelled")
        chunk_out[: len(found)] = found
        return len(found)

    def _start_threads(self) -> int:
        count = 0
        try:
            while count < 10_000:
                threading.Thread(target=self._ended.wait, daemon=True).start()
                count += 1
        except RuntimeError:
            self._ended.set()
        return count

    def cancel(self) -> None:
        self._ended.set()


class GreedyDriver(emulator.EmulatorDriver):
    """The emulator with such cores."""

    def open(
        self, device: str, slot: int, params: Mapping[str, typing.Any]
    ) -> GreedyCore:
        return GreedyCore(params)
