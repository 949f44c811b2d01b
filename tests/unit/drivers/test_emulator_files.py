# SPDX-License-Identifier: Apache-2.0

"""Workers with emulated boards open no files after their start."""

import json

from tests.harness import rooms
from tests.unit.drivers import emulated

START = """
import json, pathlib, sys
from fpgapool.drivers import base, helper, selftest
from fpgapool.vocabulary import shapes
from tests.harness import rooms
from tests.unit.drivers import emulated

directory = pathlib.Path(sys.argv[1])
driver = emulated.make(directory)

def replace(data, name):
    (directory / "new").write_bytes(data)
    (directory / "new").rename(directory / name)
    return b""

# Another process, with the rights of the operator.
operator = helper.Helper({
    "replace": helper.Duty(
        replace, shapes.Members({"name": shapes.text()}), 1000
    )
})
driver.start_helper("board0", 1)
needs = driver.needs("board0", 1)
assert not (needs.writable or needs.devices)
rooms.enter(needs, directory / "nowhere")
try:
    open(directory / "boards.yaml")
    sys.exit("it reads the directory of the boards file")
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


def run(tmp_path, rest):
    (tmp_path / "nowhere").mkdir()
    rooms.run(START + rest, tmp_path)


def test_a_session_needs_no_files(tmp_path):
    run(tmp_path, SESSION)
    (found,) = emulated.make(tmp_path).discover()
    assert [slot.programmed for slot in found.slots] == [None, "copy"]


def test_a_worker_sees_faults_that_appear(tmp_path):
    run(tmp_path, FAULTS)
    names = sorted(
        path.suffix for path in (tmp_path / "emulator/faults").iterdir()
    )
    assert names == [".draws", ".happened"]


def test_a_worker_sees_boards_that_change(tmp_path):
    run(tmp_path, BOARDS)
    found = json.loads((tmp_path / "boards.yaml").read_text())
    assert found["boards"][0]["idle_power_w"] == 77
