# SPDX-License-Identifier: Apache-2.0

"""Drivers with faults. Processes of the command import them."""

import os
import signal
import threading

from fpgapool.accelerators import base as accelerators
from fpgapool.accelerators import copy
from fpgapool.drivers import base
from fpgapool.vocabulary import codes


class Sound(base.Driver):
    """A board that runs software cores."""

    def __init__(self, settings):
        self._programmed = None

    def discover(self):
        slots = (base.SlotInfo(0, "small", None),)
        return (base.DeviceInfo("b0", "m", 1e9, 0.0, slots),)

    def program(self, device, slot, bitstream, file=None):
        name = bitstream.removeprefix("builtin:")
        if name == "sobel":
            raise base.DriverError(codes.BITSTREAM_UNKNOWN, "not here")
        profile = accelerators.load_profile(name)
        self._programmed = accelerators.load_core(profile.core)
        return profile

    def open(self, device, slot, params):
        return self._programmed(params)

    def scrub(self, device, slot):
        pass

    def health(self, device):
        return base.Health(True)

    def telemetry(self, device):
        return base.Telemetry(12.5, None)


class Empty(Sound):
    """Finds no board."""

    def discover(self):
        return ()


class Refusing(Sound):
    """Cannot list boards."""

    def discover(self):
        raise base.DriverError(codes.DEVICE_FAILED, "no runtime")


class Sick(Sound):
    """A board with faults, which cannot be cleared."""

    def health(self, device):
        return base.Health(False, "too hot")

    def telemetry(self, device):
        raise OSError("no sensor")

    def scrub(self, device, slot):
        raise base.DriverError(codes.SCRUB_FAILED, "it does not answer")


class _WrongCore(copy.CopyCore):
    """Changes one byte of a long input."""

    def process(self, chunk_in, chunk_out, offset_bytes):
        size_bytes = super().process(chunk_in, chunk_out, offset_bytes)
        if size_bytes > 1000:
            chunk_out[1000] ^= 1
        return size_bytes


class Wrong(Sound):
    """Computes wrong results."""

    def open(self, device, slot, params):
        return _WrongCore(params)


class Hanging(Sound):
    """Hangs when it is opened."""

    def open(self, device, slot, params):
        threading.Event().wait()


class Crashing(Sound):
    """Crashes when it is programmed."""

    def program(self, device, slot, bitstream, file=None):
        os.kill(os.getpid(), signal.SIGSEGV)


class Gone(Sound):
    """Crashes when it is loaded."""

    def __init__(self, settings):
        os.kill(os.getpid(), signal.SIGABRT)
