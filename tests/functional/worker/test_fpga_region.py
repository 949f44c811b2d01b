# SPDX-License-Identifier: Apache-2.0

"""A session in a region that Linux programs, on a temporary tree of sysfs."""

from tests.functional.worker import harness
from tests.unit.drivers.fpga_region import trees


def test_a_session_in_a_region(start, directory):
    tree = trees.Tree(directory)
    # In this tree the kernel does nothing when it gets a file.
    tree.state("operating")
    worker = start(
        device="kria0",
        driver="fpgapool.drivers.fpga_region:FpgaRegionDriver",
        driver_settings=tree.settings(trees.MANAGER_BOARDS),
    )
    agent = worker.connect()
    data = bytes(range(256)) * 1000
    prepared = agent.prepare()
    client = harness.Client.local(worker).hello(prepared)
    client.stream(data)
    assert client.output == data
    memory = directory / "sys/class/fpga_region/region0/memory"
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
