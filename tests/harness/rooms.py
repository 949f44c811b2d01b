# SPDX-License-Identifier: Apache-2.0

"""A process with the files that a driver declares, and no others."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from fpgapool.drivers import base
from fpgapool.drivers.opencl.compiling import confinement

ROOT = pathlib.Path(__file__).parents[2]
_NO_LANDLOCK = 77


def enter(needs: base.Needs, nowhere: pathlib.Path) -> None:
    """Give up all files but those that a driver needs.

    :param nowhere: directory that can be written if the driver needs none.
    """
    # What any worker may read.
    confinement._SYSTEM = (
        *("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache"),
        *(f"/proc/{os.getpid()}", sys.prefix, sys.base_prefix, str(ROOT)),
    )
    confinement._DEVICES = ("null", "urandom")
    writable = os.path.commonpath(needs.writable or (str(nowhere),))
    if not confinement.keep_files(needs.readable, writable):
        sys.exit(_NO_LANDLOCK)


def run(
    script: str, *arguments: str | pathlib.Path, **environment: str
) -> None:
    """Run a script that enters a room, and fail if it does."""
    found = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    if found.returncode == _NO_LANDLOCK:
        pytest.skip("this kernel has no Landlock")
    assert found.returncode == 0, found.stderr
