# SPDX-License-Identifier: Apache-2.0

"""FPGA managers and sensors in Linux's sysfs."""

from __future__ import annotations

import collections.abc
import contextlib
import fcntl
import os
import pathlib

from fpgapool.drivers import base
from fpgapool.vocabulary import codes

_MAX_ATTRIBUTE_BYTES = 4096

OPERATING = "operating"
#: Flag that tells an FPGA manager to reconfigure only part of the FPGA.
_PARTIAL = "1"
_POWER_OFF = "power off"
_MICRO = 1e-6
_MILLI = 1e-3


def read(path: pathlib.Path) -> str | None:
    """Return an attribute, stripped; None if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(_MAX_ATTRIBUTE_BYTES).decode("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None


@contextlib.contextmanager
def exclusive(path: pathlib.Path) -> collections.abc.Iterator[None]:
    """Hold a lock that excludes other processes."""
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Manager:
    """Programs the regions of an FPGA from files.

    It uses the attributes ``firmware`` and ``flags``, which only vendors'
    kernels have, such as ``linux-xlnx``.
    """

    def __init__(
        self, directory: pathlib.Path, firmware_dir: pathlib.Path
    ) -> None:
        self._directory = directory
        self._firmware_dir = firmware_dir

    def fault(self) -> str:
        """Return why the FPGA cannot be used; empty if it can."""
        state = read(self._directory / "state")
        if state is None:
            return f"FPGA manager {self._directory.name} is missing"
        if state == _POWER_OFF or state.endswith("error"):
            return f"FPGA manager {self._directory.name} is in state {state!r}"
        return ""

    @property
    def operates(self) -> bool:
        """Whether the FPGA has been programmed."""
        return read(self._directory / "state") == OPERATING

    def program(self, contents: bytes, name: str, *, partial: bool) -> None:
        """Program a region; block until this is done.

        :param name: name of the file, unique to the region.
        :param partial: whether the rest of the FPGA stays unchanged.
        :raises base.DriverError: ``PROGRAMMING_FAILED``.
        """
        path = self._firmware_dir / name
        try:
            try:
                path.write_bytes(contents)
                self._write("flags", _PARTIAL if partial else "0")
                self._write("firmware", name)
            finally:
                # Do not leave a tenant's file where other users may read it.
                path.unlink(missing_ok=True)
        except OSError as error:
            raise self._failed(error.strerror or str(error)) from error
        if not self.operates:
            raise self._failed("the FPGA is not operating")

    def _write(self, attribute: str, value: str) -> None:
        # O_CREAT is not set: the kernel creates attributes, and a wrong path
        # must not create a file.
        flags = os.O_WRONLY | os.O_TRUNC
        descriptor = os.open(self._directory / attribute, flags)
        with open(descriptor, "w") as file:
            file.write(f"{value}\n")

    def _failed(self, reason: str) -> base.DriverError:
        found = [
            f"{attribute} {text!r:.200}"
            for attribute in ("state", "status")
            if (text := read(self._directory / attribute))
        ]
        return base.DriverError(
            codes.PROGRAMMING_FAILED,
            f"FPGA manager {self._directory.name}: {reason}"
            f" ({', '.join(found) or 'no state'})",
        )


def telemetry(
    directories: collections.abc.Iterable[pathlib.Path],
) -> base.Telemetry:
    """Read a board's sensors: total power and highest temperature."""
    powers_w, temperatures_c = [], []
    for directory in directories:
        powers_w += _values(directory, "power*_input", _MICRO)
        temperatures_c += _values(directory, "temp*_input", _MILLI)
    return base.Telemetry(
        sum(powers_w) if powers_w else None,
        max(temperatures_c, default=None),
    )


def _values(
    directory: pathlib.Path, pattern: str, factor: float
) -> list[float]:
    found = []
    for path in sorted(directory.glob(pattern)):
        # A sensor in sleep mode may not be readable.
        with contextlib.suppress(ValueError):
            found.append(int(read(path) or "") * factor)
    return found
