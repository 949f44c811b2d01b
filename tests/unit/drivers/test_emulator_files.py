# SPDX-License-Identifier: Apache-2.0

"""Workers with emulated boards open no files after their start."""

import pathlib

import pytest

from fpgapool.drivers import helper
from fpgapool.vocabulary import shapes
from tests.harness import rooms
from tests.unit.drivers import emulated

START = """
import json, pathlib, sys
from fpgapool.drivers import base, helper, selftest
from tests.harness import rooms
from tests.unit.drivers import emulated

directory = pathlib.Path(sys.argv[1])
driver = emulated.make(directory, is_apart=sys.argv[2] == "apart")

# Another process, with the rights of the operator.
operator = helper.start(
    "tests.unit.drivers.test_emulator_files:replacing",
    str(driver._files.paths["boards"].parent),
)
driver.start_helper("board0", 1)
rooms.enter(driver.needs("board0", 1), directory / "nowhere")
try:
    open(directory / "secret")
    sys.exit("it reads other files")
except PermissionError:
    pass
profile = driver.program("board0", 1, "builtin:copy")
"""
SESSION = """
selftest.run(driver, "board0", 1, profile)
driver.scrub("board0", 1)
"""
FAULTS = """
faults = {"board0": {"scrub": [
    {"once": True}, {"slot": 1, "probability": 0.001}
]}}
operator.ask(
    "replace", json.dumps(faults).encode(), name="boards.faults.yaml"
)
try:
    driver.scrub("board0", 1)
    sys.exit("there is no fault")
except base.DriverError as error:
    assert error.code == "SCRUB_FAILED", error
driver.scrub("board0", 1)
"""
BOARDS = """
boards = {"unlimited": True, "boards": [
    {"name": "board0", "slots": 2, "idle_power_w": 77}
]}
operator.ask("replace", json.dumps(boards).encode(), name="boards.yaml")
assert driver.telemetry("board0").power_w == 77
"""


def replacing(directory):
    """Return the duty of the operator, who replaces files."""

    def replace(data, name):
        fresh = pathlib.Path(directory) / "new"
        fresh.write_bytes(data)
        fresh.rename(fresh.with_name(name))
        return b""

    members = shapes.Members({"name": shapes.text()})
    return {"replace": helper.Duty(replace, members, 1000)}


@pytest.fixture(params=["apart", "among others"])
def run(request, tmp_path):
    (tmp_path / "nowhere").mkdir()
    (tmp_path / "secret").touch()
    return lambda rest: rooms.run(START + rest, tmp_path, request.param)


def test_a_session_in_a_room(run, tmp_path):
    run(SESSION)
    (found,) = emulated.make(tmp_path).discover()
    assert [slot.programmed for slot in found.slots] == [None, "copy"]


def test_a_worker_sees_faults_that_appear(run, tmp_path):
    run(FAULTS)
    there = tmp_path / "emulator"
    assert list(there.glob("faults/board0.*.happened"))
    assert list(there.glob("board0.1/*.draws"))


def test_a_worker_sees_boards_that_change(run):
    run(BOARDS)


def test_files_among_others_need_a_helper(tmp_path):
    driver = emulated.make(tmp_path, is_apart=True)
    needs = driver.needs("board0", 1)
    assert needs.readable[-1] == str(tmp_path / "boards")
    assert needs.writable == (
        str(tmp_path / "emulator" / "board0.1"),
        str(tmp_path / "emulator" / "faults"),
    )
    (tmp_path / "boards" / "fpgapool.conf").touch()
    driver = emulated.make(tmp_path, is_apart=True)
    assert driver.has_helper
    needs = driver.needs("board0", 1)
    assert str(tmp_path / "boards") not in needs.readable
    assert needs.writable == ()
