# SPDX-License-Identifier: Apache-2.0

"""Waiting for commands of a device, with a limit.

OpenCL has no such wait, and a kernel that never ends cannot be stopped. So
another thread waits without a limit; if its command does not end, nothing in
this process can use the device any more.
"""

from __future__ import annotations

import contextlib
import ctypes
import queue
import threading
import time
import typing

from fpgapool.drivers import base
from fpgapool.vocabulary import codes

#: How long the caller polls for the end of a command before another thread
#: waits for it. The hand-over to that thread and back takes about as long.
_LOOK_S = 100e-6
_COMPLETE = 0
#: Other threads may run meanwhile; the device may be this processor. Unlike
#: os.sched_yield, it releases the interpreter, too.
_yield = ctypes.CDLL(None).sched_yield


class Event(typing.Protocol):
    """The part of OpenCL's events that is used here."""

    @property
    def command_execution_status(self) -> int:
        """0 when the command has ended, negative after an error."""

    def wait(self) -> None:
        """Wait for the end, and raise the error."""


class Waiter:
    """Waits for the commands of one slot.

    :ivar fault: why the slot cannot be used any more, None if it can.
    """

    def __init__(self, limit_s: float) -> None:
        self.fault: str | None = None
        self._limit_s = limit_s
        self._started = False
        self._waited: queue.SimpleQueue[tuple[Event, threading.Event]] = (
            queue.SimpleQueue()
        )

    def set_limit(self, limit_s: float) -> None:
        self._limit_s = limit_s

    def wait(self, event: Event) -> None:
        """Wait until a command has ended.

        :raises base.DriverError: ``KERNEL_HUNG`` if it takes too long, and for
            all commands after that.
        :raises Exception: the runtime's, if the command has failed.
        """
        if self.fault is not None:
            raise base.DriverError(codes.KERNEL_HUNG, self.fault)
        end_s = time.monotonic() + _LOOK_S
        while event.command_execution_status > _COMPLETE:
            if time.monotonic() > end_s:
                self._wait_elsewhere(event)
                break
            _yield()
        event.wait()

    def _wait_elsewhere(self, event: Event) -> None:
        if not self._started:
            self._started = True
            threading.Thread(
                target=self._work, name="device", daemon=True
            ).start()
        ended = threading.Event()
        self._waited.put((event, ended))
        if not ended.wait(self._limit_s):
            self.fault = (
                "the device did not finish a command within"
                f" {self._limit_s:g} s"
            )
            raise base.DriverError(codes.KERNEL_HUNG, self.fault)

    def _work(self) -> None:
        while True:
            event, ended = self._waited.get()
            # The thread that needs the result reads the error.
            with contextlib.suppress(Exception):
                event.wait()
            del event
            ended.set()
