# SPDX-License-Identifier: Apache-2.0

"""Queries the OpenCL runtimes for devices, in a separate process.

Runtimes are large libraries from many vendors. If one crashes or hangs, the
agent must not be affected.
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
from fpgapool.vocabulary import codes

PROGRAM = "fpgapool.drivers.opencl.survey"
TIMEOUT_S = 60.0
#: Time between two checks of working devices.
INTERVAL_S = 60.0

_MAX_TEXT_CHARS = 500

#: All devices of the host, and the errors of those that were tested.
Answer = list[tuple[devices.Found, str | None]]
Ask = collections.abc.Callable[[collections.abc.Collection[str], bool], Answer]


def ask(
    names: collections.abc.Collection[str] = (), builds: bool = False
) -> Answer:
    """List the devices of the host, and test some of them.

    :param names: names of the devices to test.
    :param builds: whether to also build and run a kernel on these.
    :raises base.DriverError: ``DEVICE_FAILED`` if the query fails.
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
                # A cached kernel must not hide a broken compiler.
                env={**os.environ, building.POCL_VARIABLE: kept},
            )
        return [
            (devices.Found(**each["device"]), each["fault"])
            for each in json.loads(done.stdout)
        ]
    except subprocess.TimeoutExpired:
        message = f"the OpenCL runtimes did not answer within {TIMEOUT_S:g} s"
    except subprocess.CalledProcessError as error:
        text = base.one_line(error.stderr.decode(errors="replace"))
        message = text[-_MAX_TEXT_CHARS:] or str(error)
    except (OSError, ValueError, KeyError, TypeError) as error:
        message = f"cannot query the OpenCL runtimes: {error}"
    raise base.DriverError(codes.DEVICE_FAILED, message)


class Watch:
    """Checks devices in the background, without blocking callers."""

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
        # True until a check has shown that all devices can run kernels.
        self._builds = True
        self._lock = threading.Lock()
        self._checking: threading.Thread | None = None

    def fault(self, name: str) -> str | None:
        """Return the last check's result; start the next check if it is due.

        :returns: why the device cannot be used; None if it can.
        """
        with self._lock:
            if time.monotonic() >= self._due_s:
                self._start()
            return self._faults.get(name, "no such device")

    def check(self) -> None:
        """Schedule a thorough check after a worker's failure."""
        with self._lock:
            self._builds = True
            self._start()

    def check_first(self) -> None:
        """Start a thorough check; devices are unusable until it ends."""
        with self._lock:
            self._faults = dict.fromkeys(self._faults, base.UNANSWERED)
        self.check()

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait for the end of the check in progress."""
        with self._lock:
            checking = self._checking
        if checking is not None:
            checking.join(timeout_s)

    def _start(self) -> None:
        if self._checking is not None and self._checking.is_alive():
            # The running check may have tested the device before it failed, so
            # another one is due.
            self._due_s = 0.0
            return
        self._due_s = time.monotonic() + INTERVAL_S
        self._checking = threading.Thread(
            target=self._check, name="opencl-watch", daemon=True
        )
        self._checking.start()

    def _check(self) -> None:
        found: dict[str, str | None]
        with self._lock:
            builds, self._builds = self._builds, False
        try:
            answer = self._ask(self._names, builds)
        except base.DriverError as error:
            found = dict.fromkeys(self._faults, error.message)
        else:
            found = dict.fromkeys(
                self._faults, "the OpenCL runtime no longer lists the device"
            )
            reasons = dict(answer)
            for device in devices.matched(self._boards, reasons):
                if device.name in found:
                    found[device.name] = reasons[device.found]
        with self._lock:
            self._builds |= any(found.values())
            self._faults = found
