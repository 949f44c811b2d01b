# SPDX-License-Identifier: Apache-2.0

"""Runs ``python -m reproduction`` in the process of the tests."""

import functools
import pathlib

import pytest

from reproduction import __main__ as reproduction
from tests.unit.sim.commands import complaint as _complaint
from tests.unit.sim.commands import make_job
from tests.unit.sim.commands import make_scenario
from tests.unit.sim.commands import said_by
from tests.unit.sim.commands import without_progress
from tests.unit.sim.commands import write

__all__ = [
    "complaint",
    "make_job",
    "make_scenario",
    "refused",
    "without_progress",
    "write",
]


def refused(
    capsys: pytest.CaptureFixture[str], *arguments: str | pathlib.Path
) -> str:
    """Run a command that is refused.

    :returns: what it says, without the program's name.
    """
    return said_by(capsys, reproduction.main, reproduction.PROGRAM, arguments)


complaint = functools.partial(_complaint, refused=refused)
