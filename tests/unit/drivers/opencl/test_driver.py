# SPDX-License-Identifier: Apache-2.0

"""The driver on PoCL: programming, sessions, scrubbing, and health."""

import dataclasses
import hashlib
import json

import numpy
import pytest
import yaml

from fpgapool.drivers import base
from fpgapool.drivers.opencl import driver as drivers
from fpgapool.drivers.opencl import kernels
from fpgapool.drivers.opencl import probing
from fpgapool.drivers.opencl.compiling import compiler
from fpgapool.drivers.opencl.contents import package
from tests.harness import pocl
from tests.unit.accelerators import runs
from tests.unit.drivers.opencl import sessions
from tests.unit.drivers.opencl import xclbins

DEVICE = "board0"
#: Leaves a secret in local memory, or returns what is there.
LOCAL = """
kernel void run(global const uint *input, global uint *output,
                volatile local uint *memory, const uint words)
{
    for (uint i = 0; i < words; i++) {
        if (input[0])
            memory[i] = input[0];
        output[i] = memory[i];
    }
}
"""
WORDS = 1024


def write_boards(directory, **members):
    path = directory / "boards.yaml"
    entry = {"name": DEVICE, "platform": pocl.PLATFORM, **members}
    path.write_text(yaml.safe_dump({"boards": [entry]}))
    return str(path)


@pytest.fixture(scope="module")
def settings(device, tmp_path_factory):
    """Give the settings of a driver with two slots on PoCL."""
    directory = tmp_path_factory.mktemp("driver")
    return {
        "state_dir": str(directory),
        "boards_file": write_boards(directory, slots=2),
    }


@pytest.fixture(scope="module")
def driver(settings):
    """Give the driver of a worker."""
    return drivers.OpenCLDriver(settings)


def packed(directory, kind, source, steps=(), **document):
    """Write a package.

    :returns: the arguments with which a slot gets it.
    """
    variant = {"block_bytes": 4, "process": {"output_bytes": "bytes"}}
    variant["process"]["steps"] = list(steps) or [
        {
            "kernel": "run",
            "global": [1],
            "local": [1],
            "arguments": ["output"],
        }
    ]
    document = {"format_version": 1, "name": "test", "variants": [variant]}
    contents = package.pack(kind, json.dumps(document).encode(), source)
    checksum_sha256 = hashlib.sha256(contents).hexdigest()
    path = directory / checksum_sha256
    path.write_bytes(contents)
    return f"bitstream:{checksum_sha256}", base.BitstreamFile(
        "test", str(path), checksum_sha256, len(contents), kind
    )


def test_discovered_as_the_board_file_says(settings):
    (found,) = drivers.OpenCLDriver(settings).discover()
    assert found.name == DEVICE
    assert [slot.number for slot in found.slots] == [0, 1]
    (shape,) = {slot.shape for slot in found.slots}
    assert shape.startswith("Portable-Computing-Language-")
    assert base.NAME_PATTERN.fullmatch(shape)
    assert base.NAME_PATTERN.fullmatch(found.model)


@pytest.mark.parametrize("name", ["copy", "aes"])
def test_a_session_after_another(driver, name):
    session = next(each for each in sessions.LARGE if each.name == name)
    profile = driver.program(DEVICE, 0, f"builtin:{name}")
    assert (profile.name, profile.stateless) == (name, True)
    data = session.input(1, 100_000)
    expected = runs.run(runs.load(name, **session.params), data)
    for _ in range(2):
        core = driver.open(DEVICE, 0, session.params)
        assert runs.run(core, data) == expected
        driver.scrub(DEVICE, 0)


@pytest.mark.parametrize(
    ("members", "units"),
    [
        ({"shares": [1, 1]}, [1, 1]),
        ({"shares": [1] * (pocl.THREADS + 1)}, [pocl.THREADS] * 2),
        ({"slots": 2}, [pocl.THREADS] * 2),
    ],
)
def test_computing_units_of_slots(device, settings, tmp_path, members, units):
    assert device.max_compute_units == pocl.THREADS
    boards_file = write_boards(tmp_path, **members)
    made = drivers.OpenCLDriver({**settings, "boards_file": boards_file})
    data = bytes(range(256)) * 100
    found = []
    for slot in (0, 1):
        made.program(DEVICE, slot, "builtin:copy")
        core = made.open(DEVICE, slot, {})
        assert runs.run(core, data) == data
        made.scrub(DEVICE, slot)
        there = made._slots[DEVICE, slot].program.device
        found.append(there.max_compute_units)
    assert found == units


def test_programmed_again_with_the_same(driver, settings):
    first = driver.program(DEVICE, 0, "builtin:copy")
    before = driver._slots[DEVICE, 0].program
    assert driver.program(DEVICE, 0, "builtin:copy") is first
    assert driver._slots[DEVICE, 0].program is before
    # The time that it took is what agents expect of the next one.
    (found,) = drivers.OpenCLDriver(settings).discover()
    assert 0 < found.programming_time_s < 1000


def test_agents_of_one_machine_compile_once(
    driver, settings, tmp_path, monkeypatch
):
    driver.program(DEVICE, 0, "builtin:copy")
    monkeypatch.setattr(
        compiler, "compile_source", lambda *_: pytest.fail("again")
    )
    made = drivers.OpenCLDriver(
        {
            **settings,
            "state_dir": str(tmp_path),
            "binaries_dir": str(driver._binaries),
        }
    )
    made.program(DEVICE, 0, "builtin:copy")


def test_a_task_leaves_nothing_to_the_next(driver):
    # A group's slot is opened again and again.
    driver.program(DEVICE, 0, "builtin:aes")
    session = next(each for each in sessions.LARGE if each.name == "aes")
    first = driver.open(DEVICE, 0, session.params)
    runs.run(first, b"secret")
    assert first.runner._owned
    driver.open(DEVICE, 0, session.params)
    assert not first.runner._owned
    driver.clear_task(DEVICE, 0)


def test_places_that_are_not_there(driver):
    for device, slot in (("board1", 0), (DEVICE, 2), (DEVICE, -1)):
        for call in (
            lambda device=device, slot=slot: driver.program(
                device, slot, "builtin:copy"
            ),
            lambda device=device, slot=slot: driver.open(device, slot, {}),
            lambda device=device, slot=slot: driver.scrub(device, slot),
        ):
            with pytest.raises(base.DriverError) as caught:
                call()
            assert caught.value.code == "NO_SUCH_SLOT"
    with pytest.raises(base.DriverError) as caught:
        driver.open(DEVICE, 1, {})
    assert caught.value.code == "NOT_PROGRAMMED"
    driver.scrub(DEVICE, 1)


def test_bitstreams_that_do_not_fit(driver, tmp_path):
    driver.program(DEVICE, 0, "builtin:copy")
    refused = {
        "BITSTREAM_UNKNOWN": [("builtin:nothing", None)],
        "XCLBIN_OTHER_PLATFORM": [
            packed(
                tmp_path,
                "xclbin",
                xclbins.write(),
                [
                    {
                        "kernel": "vadd",
                        "global": [1],
                        "local": [1],
                        "arguments": ["input"],
                    }
                ],
            )
        ],
        "KERNEL_BUILD_FAILED": [
            packed(tmp_path, "opencl-binary", b"no binary"),
            packed(tmp_path, "opencl-source", b"kernel void run(int a) { b }"),
        ],
        "INVALID_MANIFEST": [
            packed(
                tmp_path,
                "opencl-source",
                b"kernel void walk(global int *output) {}",
            )
        ],
    }
    name, whole = refused["INVALID_MANIFEST"][0]
    damaged = tmp_path / "damaged"
    damaged.write_bytes(b"x" * whole.size_bytes)
    refused["BITSTREAM_DAMAGED"] = [
        (
            name,
            base.BitstreamFile(
                "test",
                str(damaged),
                whole.checksum_sha256,
                whole.size_bytes,
                whole.format,
            ),
        )
    ]
    for code, files in refused.items():
        for bitstream, file in files:
            with pytest.raises(base.DriverError) as caught:
                driver.program(DEVICE, 0, bitstream, file)
            assert caught.value.code == code, caught.value
    # The slot is as it was.
    core = driver.open(DEVICE, 0, {})
    assert runs.run(core, b"data") == b"data"
    driver.scrub(DEVICE, 0)


@pytest.mark.security
def test_a_secret_in_local_memory_is_overwritten(driver, tmp_path):
    step = {
        "kernel": "run",
        "global": [1],
        "local": [1],
        "arguments": [
            *("input", "output", {"local": 4 * WORDS}, {"uint": WORDS}),
        ],
    }
    bitstream, file = packed(tmp_path, "opencl-source", LOCAL.encode(), [step])
    driver.program(DEVICE, 0, bitstream, file)

    def run(secret):
        core = driver.open(DEVICE, 0, {})
        data = numpy.full(WORDS, secret, "<u4").tobytes()
        return numpy.frombuffer(runs.run(core, data), "<u4")

    assert (run(0x5EC2E7) == 0x5EC2E7).all()
    # Without scrubbing the next kernel finds it, on one thread or another.
    left = max((run(0) == 0x5EC2E7).any() for _ in range(20))
    assert left
    driver.scrub(DEVICE, 0)
    assert not any((run(0) == 0x5EC2E7).any() for _ in range(20))
    driver.scrub(DEVICE, 0)


def test_a_failed_scrub_ends_the_process(settings, monkeypatch):
    worker, agent = (drivers.OpenCLDriver(settings) for _ in range(2))
    assert agent.health(DEVICE).healthy
    worker.program(DEVICE, 0, "builtin:copy")
    core = worker.open(DEVICE, 0, {})

    def fail():
        raise base.DriverError("DEVICE_FAILED", "it is on fire")

    clear = core.runner.clear
    monkeypatch.setattr(core.runner, "clear", fail)
    with pytest.raises(base.DriverError) as caught:
        worker.scrub(DEVICE, 0)
    assert (caught.value.code, caught.value.message) == (
        "PROCESS_SPENT",
        "it is on fire",
    )
    # The agent looks at the device at once.
    agent._watch._ask = lambda names, _builds: [
        (found, "it burns") for found, _ in probing.ask(names)
    ]
    agent.health(DEVICE)
    agent._watch.wait()
    assert agent.health(DEVICE).message == "it burns"
    clear()


def test_a_compiler_that_does_not_work_is_told(settings, monkeypatch):
    agent = drivers.OpenCLDriver(settings)
    with monkeypatch.context() as patch:
        patch.setenv("POCL_EXTRA_BUILD_FLAGS", "--no-such\n--flag")
        found = agent.check(DEVICE)
    assert not found.healthy
    assert found.message == agent.health(DEVICE).message
    assert found.message.startswith("KERNEL_BUILD_FAILED: ")
    assert "\n" not in found.message
    # It is looked at again, and works.
    agent._watch.look()
    agent._watch.wait()
    assert agent.health(DEVICE) == base.Health(True)


def test_only_kernels_that_are_there_are_offered(settings, monkeypatch):
    agent = drivers.OpenCLDriver(settings)
    (device,) = agent.discover()
    assert device.builtins.keys() == set(kernels.names())
    assert device.builtins["sha"] == {"algorithm": ["sha256"]}
    assert device.builtins["copy"] == {}
    # A board needs files.
    found = [
        (dataclasses.replace(each, has_compiler=False), fault)
        for each, fault in probing.ask()
    ]
    monkeypatch.setattr(probing, "ask", lambda: found)
    (device,) = agent.discover()
    assert device.builtins == {}


def test_settings_that_are_wrong(tmp_path):
    path = tmp_path / "boards.yaml"
    path.write_text("boards: []")
    for settings in (
        {},
        {"state_dir": ""},
        {"state_dir": str(tmp_path), "boards_file": str(path)},
        {"state_dir": str(tmp_path), "boards_file": "/no such file"},
        {"state_dir": str(path)},
    ):
        with pytest.raises(base.DriverError) as caught:
            drivers.OpenCLDriver(settings)
        assert caught.value.code == "INVALID_SETTINGS"


def test_an_agent_asks_for_devices_that_it_does_not_have(settings):
    driver = drivers.OpenCLDriver(settings)
    assert not driver.health("board1").healthy
    with pytest.raises(base.DriverError) as caught:
        driver.telemetry("board1")
    assert caught.value.code == "NO_SUCH_SLOT"
    # A processor has no sensors of its own.
    assert driver.telemetry(DEVICE) == base.Telemetry(None, None)


def test_only_workers_load_a_runtime():
    import subprocess
    import sys

    program = (
        "import sys; from fpgapool.drivers.opencl import driver;"
        " sys.exit('pyopencl' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
