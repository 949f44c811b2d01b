# SPDX-License-Identifier: Apache-2.0

"""Asks the runtimes of OpenCL for devices, in a process of its own.

Runtimes are large libraries of many vendors: what one of them does to its
process must not happen to the agent.
"""

from __future__ import annotations

import collections.abc
import json
import logging
import subprocess
import sys
import threading
import time

from fpgapool.drivers import base
from fpgapool.drivers.opencl import devices

LOG = logging.getLogger(__name__)

PROGRAM = "fpgapool.drivers.opencl.platforms"
TIMEOUT_S = 60.0
#: Time between two looks at devices that seem to be well.
INTERVAL_S = 60.0

_MAX_TEXT_CHARS = 500

#: All devices of the host, and why those that were tried do not answer.
Answer = list[tuple[devices.Found, str | None]]
Ask = collections.abc.Callable[[collections.abc.Collection[str]], Answer]


def ask(names: collections.abc.Collection[str] = ()) -> Answer:
    """List the devices of the host.

    :param names: of devices to try.
    :raises base.DriverError: ``DEVICE_FAILED`` if that is impossible.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-m", PROGRAM, *names],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=True,
        )
        return [
            (devices.Found(**each["device"]), each["fault"])
            for each in json.loads(done.stdout)
        ]
    except subprocess.TimeoutExpired:
        message = f"the runtimes have not answered after {TIMEOUT_S:g} s"
    except subprocess.CalledProcessError as error:
        text = error.stderr.decode(errors="replace").strip()
        message = text[-_MAX_TEXT_CHARS:] or str(error)
    except (OSError, ValueError, KeyError, TypeError) as error:
        message = f"the runtimes cannot be asked: {error}"
    raise base.DriverError(base.DEVICE_FAILED, message)


class Watch:
    """Looks after devices. The looks block no caller.

    :param boards: of the board file.
    :param devices_: of the pool.
    :param ask: lists the devices of the host.
    """

    def __init__(
        self,
        boards: collections.abc.Sequence[devices.Board],
        devices_: collections.abc.Iterable[devices.Device],
        ask: Ask = ask,
    ) -> None:
        self._boards = boards
        self._ask = ask
        self._faults: dict[str, str | None] = {
            device.name: None for device in devices_
        }
        self._names = sorted({device.found.name for device in devices_})
        self._due_s = time.monotonic() + INTERVAL_S
        self._lock = threading.Lock()
        self._looking: threading.Thread | None = None

    def fault(self, name: str) -> str | None:
        """Return what the last look has found, and look again if it is time.

        :param name: of a device.
        :returns: why it cannot be used; None if it can.
        """
        with self._lock:
            if time.monotonic() >= self._due_s:
                self._start()
            return self._faults.get(name, "there is no such device")

    def look(self) -> None:
        """Look soon: a worker has had a failure."""
        with self._lock:
            self._start()

    def wait(self) -> None:
        """Wait for the end of the look that is under way."""
        with self._lock:
            looking = self._looking
        if looking is not None:
            looking.join()

    def _start(self) -> None:
        if self._looking is not None and self._looking.is_alive():
            # It may have seen a device that was still well.
            self._due_s = 0.0
            return
        self._due_s = time.monotonic() + INTERVAL_S
        self._looking = threading.Thread(
            target=self._look, name="opencl-watch", daemon=True
        )
        self._looking.start()

    def _look(self) -> None:
        found: dict[str, str | None]
        try:
            answer = self._ask(self._names)
        except base.DriverError as error:
            found = dict.fromkeys(self._faults, error.message)
        else:
            found = dict.fromkeys(
                self._faults, "its runtime does not have the device any more"
            )
            reasons = dict(answer)
            for device in devices.matched(self._boards, reasons):
                if device.name in found:
                    found[device.name] = reasons[device.found]
        with self._lock:
            for name, fault in found.items():
                if fault != self._faults[name]:
                    LOG.warning("Device %s: %s", name, fault or "is well")
            self._faults = found
