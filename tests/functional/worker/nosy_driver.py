# SPDX-License-Identifier: Apache-2.0

"""A driver whose cores look for what earlier tasks have left behind."""

import gc
import json
import mmap
import os
import re
import signal
import sys
import threading

import numpy

from fpgapool.drivers import base
from fpgapool.drivers import emulator
from fpgapool.vocabulary import codes

#: A secret is this and sixteen digits; the pattern itself does not match.
SECRET = re.compile(rb"SECRET-[0-9]{16}")


class NosyCore(base.Core):
    """Does what its parameter ``do`` says.

    ``echo``
        Returns the input.
    ``room``
        Writes nothing, and returns as much as it got input.
    ``snoop``
        Returns the names of the routes that lead to a secret.
    ``stay``
        Returns the number of its tasks. Stays under a lock.
    ``raise``, ``huge``, ``hang``, ``wait``, ``die``
        Fails: at once, by too much output, never, until it is cancelled, or
        with its process.
    """

    def __init__(self, params):
        if "do" not in params:
            raise base.InvalidParams("do is missing")
        self._params = params
        self._tasks = 0
        self._cancelled = threading.Event()

    @property
    def reusable(self):
        return self._params["do"] == "stay"

    def max_output_bytes(self, input_bytes):
        if self._params["do"] == "huge":
            return 10 * input_bytes
        return input_bytes + 4096

    def process(self, chunk_in, chunk_out, offset_bytes):
        self._tasks += 1
        return getattr(self, "_" + self._params["do"])(chunk_in, chunk_out)

    def cancel(self):
        self._cancelled.set()

    def _echo(self, chunk_in, chunk_out):
        return _write(chunk_out, chunk_in)

    def _room(self, chunk_in, chunk_out):
        return len(chunk_in)

    def _snoop(self, chunk_in, chunk_out):
        found = sorted(set(_routes(chunk_in, chunk_out)))
        return _write(chunk_out, json.dumps(found).encode())

    def _stay(self, chunk_in, chunk_out):
        return _write(chunk_out, b"%d" % self._tasks)

    def _raise(self, chunk_in, chunk_out):
        # A core's own copies are its own affair, unless they are objects.
        raise RuntimeError(f"the board quotes {bytes(chunk_in[:40])!r}")

    def _huge(self, chunk_in, chunk_out):
        return len(chunk_out)

    def _hang(self, chunk_in, chunk_out):
        threading.Event().wait()

    def _wait(self, chunk_in, chunk_out):
        self._cancelled.wait()
        raise RuntimeError("cancelled")

    def _die(self, chunk_in, chunk_out):
        os.kill(os.getpid(), signal.SIGKILL)


def _write(chunk_out, data):
    chunk_out[: len(data)] = data
    return len(data)


def _routes(chunk_in, chunk_out):
    """Yield the routes by which a secret can be reached."""
    yield from _if_secret("room", chunk_out)
    yield from _if_secret("input", chunk_in)
    yield from _if_secret("input's memory", chunk_in.obj)
    yield from _if_secret("room's memory", chunk_out.obj)
    for power in range(4, 23):
        yield from _if_secret("new memory", numpy.empty(1 << power, "u1"))
    gc.collect()
    for thing in _reachable():
        yield from _if_secret("an object", thing)
    yield from _if_secret("the process", _memory())


def _reachable():
    for tracked in gc.get_objects():
        yield tracked
        yield from gc.get_referents(tracked)
    for frame in list(sys._current_frames().values()):
        while frame is not None:
            yield from list(frame.f_locals.values())
            frame = frame.f_back


def _memory():
    """Return the writable memory that the process shares or maps."""
    contents = bytearray()
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb") as mem:
        for line in maps:
            span, rights, *_, name = line.split(None, 5)
            if rights[:2] != "rw" or "fpgapool-ring" not in name:
                continue
            start, end = (int(text, 16) for text in span.split("-"))
            mem.seek(start)
            contents += mem.read(end - start)
    return contents


def _if_secret(route, thing):
    if isinstance(thing, str):
        thing = thing.encode(errors="replace")
    if isinstance(thing, bytes | bytearray | mmap.mmap):
        found = SECRET.search(thing)
    elif isinstance(thing, memoryview | numpy.ndarray):
        try:
            found = SECRET.search(memoryview(thing).cast("B"))
        except (TypeError, ValueError):
            found = None
    else:
        found = None
    if found is not None:
        yield route


class NosyDriver(emulator.EmulatorDriver):
    """The emulator with such cores.

    With a file ``soiled`` in its directory, slots cannot be cleared.
    """

    def __init__(self, settings):
        super().__init__(settings)
        self._soiled = os.path.join(settings["state_dir"], "soiled")

    def open(self, device, slot, params):
        return NosyCore(params)

    def clear_task(self, device, slot):
        super().clear_task(device, slot)
        if os.path.exists(self._soiled):
            raise base.DriverError(codes.SCRUB_FAILED, "soiled")
