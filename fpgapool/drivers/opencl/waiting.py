# SPDX-License-Identifier: Apache-2.0

"""Waits for a device's commands, with a time limit.

OpenCL's own wait has no limit, and a kernel that never ends cannot be stopped.
So another thread waits without a limit. If its command does not end, this
process can no longer use the device.
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
#: waits for it; the handover to that thread and back takes about as long.
_LOOK_S = 100e-6
_COMPLETE = 0
#: Lets other threads run: the device may be this CPU. Unlike os.sched_yield, a
#: ctypes call also releases the interpreter lock.
_yield = ctypes.CDLL(None).sched_yield


class Event(typing.Protocol):
    """The part of an OpenCL event that is used here."""

    @property
    def command_execution_status(self) -> int:
        """0 if the command has ended, negative after an error."""

    def wait(self) -> None:
        """Wait until the command has ended, and raise its error."""


class Waiter:
    """Waits for the commands of one slot.

    :ivar fault: why the slot can no longer be used; None if it can.
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

        :raises base.DriverError: ``KERNEL_HUNG`` if this takes too long, and
            for all later commands.
        :raises Exception: the runtime's error, if the command has failed.
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
            # The thread that called wait() gets the error itself.
            with contextlib.suppress(Exception):
                event.wait()
            del event
            ended.set()
