# SPDX-License-Identifier: Apache-2.0

"""A session in a region that Linux programs, on a temporary tree of sysfs."""

import tempfile

import pytest

from tests.functional.worker import harness
from tests.unit.drivers.fpga_region import trees


@pytest.fixture
def node():
    """Give the path of what an operator's class opens, a device file."""
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        yield file.name


def test_a_session_in_a_region(start, directory, node):
    tree = trees.Tree(directory)
    # In this tree the kernel does nothing when it gets a file.
    tree.state("operating")
    memory = directory / "sys/class/fpga_region/region0/memory"
    memory.symlink_to(node)
    worker = start(
        device="kria0",
        driver="fpgapool.drivers.fpga_region:FpgaRegionDriver",
        driver_settings=tree.settings(
            trees.MANAGER_BOARDS.replace(
                "{region: region0,",
                f"{{region: region0, devices: [{node}],",
            )
        ),
    )
    agent = worker.connect()
    data = bytes(range(256)) * 1000
    prepared = agent.prepare()
    client = harness.Client.local(worker).hello(prepared)
    client.stream(data)
    assert client.output == data
    assert memory.read_bytes()
    assert client.close_session()["code"] == "OK"
    assert agent.wait_result()["code"] == "OK"
    assert memory.read_bytes() == b""
    manager = directory / "sys/class/fpga_manager/fpga0"
    assert (manager / "flags").read_text() == "1\n"
    assert (manager / "firmware").read_text() == "fpgapool-kria0.0.bin\n"
    assert list(tree.firmware.iterdir()) == []
    client.close()


def test_a_region_that_does_not_operate(start, directory):
    tree = trees.Tree(directory)
    tree.state("write error")
    worker = start(
        device="kria0",
        driver="fpgapool.drivers.fpga_region:FpgaRegionDriver",
        driver_settings=tree.settings(trees.MANAGER_BOARDS),
    )
    agent = worker.connect()
    assert agent.assign()["ok"]
    assert agent.wait_result()["code"] == "PROGRAM_FAILED"
