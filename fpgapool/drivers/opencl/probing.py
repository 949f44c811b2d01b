# SPDX-License-Identifier: Apache-2.0

"""Asks the runtimes of OpenCL for devices, in a process of its own.

Runtimes are large libraries of many vendors: what one of them does to its
process must not happen to the agent.
"""

from __future__ import annotations

import collections.abc
import json
import os
import subprocess
import sys
import tempfile
import threading
import time

from fpgapool.drivers import base
from fpgapool.drivers.opencl import devices
from fpgapool.drivers.opencl.compiling import building

PROGRAM = "fpgapool.drivers.opencl.survey"
TIMEOUT_S = 60.0
#: Time between two looks at devices that seem to be well.
INTERVAL_S = 60.0

_MAX_TEXT_CHARS = 500

#: All devices of the host, and why those that were tried do not answer.
Answer = list[tuple[devices.Found, str | None]]
Ask = collections.abc.Callable[[collections.abc.Collection[str], bool], Answer]


def ask(
    names: collections.abc.Collection[str] = (), builds: bool = False
) -> Answer:
    """List the devices of the host.

    :param names: of devices to try.
    :param builds: whether to build and run a kernel on these, too.
    :raises base.DriverError: ``DEVICE_FAILED`` if that is impossible.
    """
    options = ["--build"] if builds else []
    try:
        with tempfile.TemporaryDirectory(
            prefix="fpgapool-probe-", ignore_cleanup_errors=True
        ) as kept:
            done = subprocess.run(
                [sys.executable, "-m", PROGRAM, *options, *names],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=TIMEOUT_S,
                check=True,
                # Nothing that was built before may hide a broken compiler.
                env={**os.environ, building.POCL_VARIABLE: kept},
            )
        return [
            (devices.Found(**each["device"]), each["fault"])
            for each in json.loads(done.stdout)
        ]
    except subprocess.TimeoutExpired:
        message = f"the runtimes have not answered after {TIMEOUT_S:g} s"
    except subprocess.CalledProcessError as error:
        text = base.one_line(error.stderr.decode(errors="replace"))
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
        # Until a look has found that each of them can run kernels.
        self._builds = True
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
        """Look soon, and closely: a worker has had a failure."""
        with self._lock:
            self._builds = True
            self._start()

    def look_first(self) -> None:
        """Look closely; until that is over, no device can be used."""
        with self._lock:
            self._faults = dict.fromkeys(self._faults, base.UNANSWERED)
        self.look()

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait for the end of the look that is under way.

        :param timeout_s: how long; None: until it is over.
        """
        with self._lock:
            looking = self._looking
        if looking is not None:
            looking.join(timeout_s)

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
        with self._lock:
            builds, self._builds = self._builds, False
        try:
            answer = self._ask(self._names, builds)
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
            self._builds |= any(found.values())
            self._faults = found
