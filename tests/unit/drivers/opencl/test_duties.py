# SPDX-License-Identifier: Apache-2.0

"""What the helper of an OpenCL worker does, and what it refuses."""

import concurrent.futures
import os
import pathlib
import threading

import pytest

from fpgapool.drivers import base
from fpgapool.drivers import selftest
from fpgapool.drivers.opencl import driver as drivers
from fpgapool.drivers.opencl import duties
from fpgapool.drivers.opencl.compiling import building
from fpgapool.drivers.opencl.compiling import compiler
from fpgapool.vocabulary import codes
from tests.harness import pocl
from tests.harness import rooms
from tests.harness import waiting
from tests.unit.drivers.opencl import test_driver

DEVICE = test_driver.DEVICE
TIMEOUT_S = waiting.LIMIT_S
SOURCE = b"kernel void run(global int *x) { x[0] = %d; }"


@pytest.fixture
def worker(device, tmp_path):
    """Give the driver of a worker, with its helper."""
    found = drivers.OpenCLDriver(
        {
            "state_dir": str(tmp_path),
            "boards_file": test_driver.write_boards(tmp_path),
        }
    )
    found.start_helper(DEVICE, 0)
    yield found
    found._helpers[DEVICE].end()


@pytest.fixture
def binaries(tmp_path):
    return building.Binaries(tmp_path / "binaries")


def facts(opened, **changed):
    return {
        "platform": pocl.PLATFORM,
        "device": opened.name,
        "platform_version": opened.platform.version,
        "driver_version": opened.driver_version,
        **changed,
    }


def nothing_is_compiled(monkeypatch):
    monkeypatch.setattr(
        compiler, "compile_source", lambda *_, **__: pytest.fail("compiled")
    )


def test_a_source_waits_only_for_itself(binaries):
    name, other = "a" * 64, "a" * 14 + "b" * 50
    comes = threading.Event()

    def wait():
        comes.set()
        with binaries._alone(name):
            return "locked"

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        with binaries._alone(name), binaries._alone(other):
            second = pool.submit(wait)
            assert comes.wait(TIMEOUT_S)
            assert not second.done()
        assert second.result(TIMEOUT_S) == "locked"


def test_only_the_helper_compiles_and_writes(worker, tmp_path, monkeypatch):
    nothing_is_compiled(monkeypatch)
    monkeypatch.setattr(
        duties.common, "replace_file", lambda *_: pytest.fail("written")
    )
    profile = worker.program(DEVICE, 0, "builtin:copy")
    selftest.run(worker, DEVICE, 0, profile)
    worker.scrub(DEVICE, 0)
    assert len(list((tmp_path / "opencl/binaries").glob("?" * 64))) == 2
    assert duties.time_path(tmp_path / "opencl", DEVICE).exists()


def test_no_worker_makes_others_wait_for_days(worker, tmp_path):
    """The agent and the conductor believe how long a device takes."""
    worker._helpers[DEVICE].ask("note_time", taken_s=1e6)
    path = duties.time_path(tmp_path / "opencl", DEVICE)
    assert path.read_text() == "600.000"


def test_the_helper_marks_a_device_that_fails(worker, tmp_path, monkeypatch):
    worker.program(DEVICE, 0, "builtin:copy")
    there = worker._slots[DEVICE, 0]
    monkeypatch.setattr(there.waiter, "fault", "the device hangs")
    with pytest.raises(base.DriverError) as caught:
        worker.scrub(DEVICE, 0)
    assert caught.value.code == codes.PROCESS_SPENT
    assert duties.mark_path(tmp_path / "opencl", DEVICE).exists()


def test_a_worker_without_its_helper_ends_after_the_session(worker):
    worker.program(DEVICE, 0, "builtin:copy")
    worker._helpers[DEVICE].end()
    with pytest.raises(base.DriverError) as caught:
        worker.program(DEVICE, 0, "builtin:aes")
    assert caught.value.code == codes.PROCESS_SPENT
    with pytest.raises(base.DriverError) as caught:
        worker.scrub(DEVICE, 0)
    assert caught.value.code == codes.PROCESS_SPENT


def test_a_compiled_binary_is_kept(device, binaries, monkeypatch):
    made = binaries.get(SOURCE % 1, **facts(device))
    nothing_is_compiled(monkeypatch)
    assert binaries.get(SOURCE % 1, **facts(device)) == made


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"driver_version": "0.1"}, codes.PROCESS_SPENT),
        ({"platform_version": "OpenCL 9"}, codes.PROCESS_SPENT),
        ({"device": "*"}, codes.DEVICE_FAILED),
        ({"platform": "P*"}, codes.DEVICE_FAILED),
    ],
)
def test_no_binary_is_kept_under_a_false_name(
    device, binaries, tmp_path, changed, code
):
    with pytest.raises(base.DriverError) as caught:
        binaries.get(SOURCE % 2, **facts(device, **changed))
    assert caught.value.code == code
    assert list((tmp_path / "binaries").glob("?" * 64)) == []


def test_another_version_has_a_binary_of_its_own(
    device, binaries, monkeypatch
):
    made = []

    def compile_source(source, *_, versions):
        made.append((source, *versions))
        return b"binary %d" % len(made)

    monkeypatch.setattr(compiler, "compile_source", compile_source)
    asked = [
        (SOURCE % 1, facts(device)),
        (SOURCE % 2, facts(device)),
        (SOURCE % 1, facts(device, driver_version="0.1")),
        (SOURCE % 1, facts(device, platform_version="OpenCL 9")),
        (SOURCE % 1, facts(device, device="another")),
        (SOURCE % 1, facts(device, platform="another")),
    ]
    found = [binaries.get(source, **members) for source, members in asked]
    assert len(set(found)) == len(asked)


ROOM = """
import pathlib, sys
from fpgapool.drivers import selftest
from fpgapool.drivers.opencl import driver as drivers
from tests.harness import rooms

state_dir, boards_file = sys.argv[1:]
driver = drivers.OpenCLDriver(
    {"state_dir": state_dir, "boards_file": boards_file}
)
driver.start_helper("board0", 0)
rooms.enter(driver.needs("board0", 0), pathlib.Path("/nonexistent"))
try:
    open(f"{state_dir}/opencl/secret")
    sys.exit("it reads the driver's files")
except PermissionError:
    pass
profile = driver.program("board0", 0, "builtin:copy")
selftest.run(driver, "board0", 0, profile)
driver.scrub("board0", 0)
"""


def test_a_driver_works_with_what_it_needs_and_no_more(tmp_path, monkeypatch):
    (tmp_path / "opencl").mkdir()
    (tmp_path / "opencl" / "secret").touch()
    boards_file = test_driver.write_boards(tmp_path)
    environment = {**pocl.environment(tmp_path)}
    del environment[building.POCL_VARIABLE]
    monkeypatch.delenv(building.POCL_VARIABLE, raising=False)
    rooms.run(ROOM, tmp_path, boards_file, **environment)
    assert len(list((tmp_path / "opencl/binaries").glob("?" * 64))) == 2


def test_the_scratch_of_the_last_process_is_gone(tmp_path, monkeypatch):
    monkeypatch.delenv(building.POCL_VARIABLE, raising=False)
    (tmp_path / "board0.0.pocl" / "left").mkdir(parents=True)
    building.prepare(tmp_path, "board0.0")
    place = pathlib.Path(os.environ[building.POCL_VARIABLE])
    assert place == tmp_path / "board0.0.pocl"
    assert list(place.iterdir()) == []
    assert building.scratch(tmp_path, "board0.0") == str(place)
