# SPDX-License-Identifier: Apache-2.0

"""A driver whose cores keep a state of any length."""

from fpgapool.drivers import base
from fpgapool.drivers import emulator


class StatefulCore(base.Core):
    """Copies; its state is the last byte, many times.

    The parameter ``iv`` says how often, as hexadecimal digits.
    """

    has_snapshots = True

    def __init__(self, params):
        self._state_bytes = int(params["iv"], 16)
        self._last = 0

    def process(self, chunk_in, chunk_out, offset_bytes):
        chunk_out[: len(chunk_in)] = chunk_in
        self._last = chunk_in[-1]
        return len(chunk_in)

    def snapshot(self):
        return bytes([self._last]) * self._state_bytes


class StatefulDriver(emulator.EmulatorDriver):
    """The emulator with such cores, whatever is programmed."""

    def open(self, device, slot, params):
        return StatefulCore(params)
