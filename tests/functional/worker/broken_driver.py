# SPDX-License-Identifier: Apache-2.0

"""A driver whose slots fail on request."""

import time

from fpgapool.drivers import base
from fpgapool.drivers import emulator


class BrokenCore(base.Core):
    """Copies, and fails at an input of ``fail``.

    With the parameter ``in_place`` it says that it works so, and gives a byte
    less than it got. ``cancel_s`` is how long it takes to be cancelled.
    """

    def __init__(self, params):
        self._in_place = params.get("in_place", False)
        self._cancel_s = params.get("cancel_s", 0)

    @property
    def in_place(self):
        return self._in_place

    def cancel(self):
        time.sleep(self._cancel_s)

    def process(self, chunk_in, chunk_out, offset_bytes):
        if chunk_in == b"fail":
            raise RuntimeError("the board is on fire")
        chunk_out[: len(chunk_in)] = chunk_in
        return len(chunk_in) - self._in_place


class BrokenDriver(emulator.EmulatorDriver):
    """The emulator with broken cores."""

    def open(self, device, slot, params):
        return BrokenCore(params)
