# SPDX-License-Identifier: Apache-2.0

"""Files that drivers read."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from fpgapool.drivers import base
from fpgapool.drivers import documents
from fpgapool.drivers import loader


class Shape:
    """Takes all, and counts how often."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, value: object, _where: str) -> object:
        self.calls += 1
        return value


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    made = tmp_path / "boards.yaml"
    made.write_text("a: 1")
    return made


def test_a_file_is_read_again_only_when_it_has_changed(path):
    shape = Shape()
    first = documents.read("file", path, shape)
    assert documents.read("file", path, shape) == first
    assert (first[0], shape.calls) == ({"a": 1}, 1)
    path.write_text("a: 22")
    assert documents.read("file", path, shape)[0] == {"a": 22}
    assert shape.calls == 2


def test_each_shape_checks_a_file_itself(path):
    documents.read("file", path, Shape())
    other = Shape()
    documents.read("file", path, other)
    assert other.calls == 1


def test_a_file_that_has_gone_is_not_remembered(path):
    documents.read("file", path, Shape())
    path.unlink()
    with pytest.raises(base.DriverError, match="boards"):
        documents.read("file", path, Shape())


WARM_UP = """
import os, sys
from fpgapool.drivers import loader
before = os.listdir("/proc/self/fd")
loader.load_driver_class(sys.argv[1]).warm_up({"boards_file": sys.argv[2]})
assert os.listdir("/proc/self/fd") == before
assert len(os.listdir("/proc/self/task")) == 1
"""

BOARDS = {
    "emulator": "boards: [{name: board0, slots: 1}]",
    "opencl": "boards: [{name: board0}]",
    "fpga_region": (
        "boards: [{name: board0, manager: fpga0, accelerators: {},"
        " regions: [{region: region0, shape: medium}]}]"
    ),
    "noop": "",
}


@pytest.mark.parametrize("name", BOARDS)
def test_drivers_start_no_thread_and_keep_no_file_before_a_fork(name, path):
    path.write_text(BOARDS[name])
    subprocess.run(
        [sys.executable, "-c", WARM_UP, loader.driver_path(name), str(path)],
        check=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "4"},
    )
