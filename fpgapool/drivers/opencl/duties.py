# SPDX-License-Identifier: Apache-2.0

"""What the worker of a slot cannot do itself; see :mod:`..drivers.helper`.

Only these write to the driver's directory: the agent reads it, and workers of
other projects do.
"""

from __future__ import annotations

import collections.abc
import logging
import pathlib

from fpgapool.drivers import common
from fpgapool.drivers import helper
from fpgapool.drivers.opencl.compiling import building
from fpgapool.vocabulary import shapes

LOG = logging.getLogger(__name__)

#: The agent waits for a device's slots in proportion to its time, whatever
#: one worker says.
_LONGEST_S = 600.0

_TIME = shapes.Members({"taken_s": shapes.number(0.0, 1e6)})


def mark_path(directory: pathlib.Path, device: str) -> pathlib.Path:
    """Return the file that changes when a device fails in a worker."""
    return directory / f"{device}.failed"


def time_path(directory: pathlib.Path, device: str) -> pathlib.Path:
    """Return the file with a device's last programming time in s."""
    return directory / f"{device}.programming_s"


def of_device(
    directory: str, binaries: str, device: str
) -> collections.abc.Mapping[str, helper.Duty]:
    """Return the duties for the worker of one of a device's slots.

    :param binaries: directory for :class:`building.Binaries`.
    """
    here = pathlib.Path(directory)

    def note_time(_data: bytes, taken_s: float) -> bytes:
        told_s = min(taken_s, _LONGEST_S)
        return _write(time_path(here, device), f"{told_s:.3f}")

    def mark_failure(_data: bytes) -> bytes:
        return _write(mark_path(here, device), "")

    return {
        "compile": building.Binaries(pathlib.Path(binaries)).duty(),
        "note_time": helper.Duty(note_time, _TIME),
        "mark_failure": helper.Duty(mark_failure),
    }


def _write(path: pathlib.Path, text: str) -> bytes:
    try:
        common.replace_file(path, text.encode())
    except OSError as exc:
        LOG.warning("Cannot write %s: %s", path, exc)
    return b""
