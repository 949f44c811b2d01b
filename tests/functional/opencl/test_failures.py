# SPDX-License-Identifier: Apache-2.0

"""What goes wrong on a device, and that its slot is usable again."""

import os
import signal

import pytest

from fpgapool.protocol import frames
from tests.functional.opencl import harness
from tests.functional.worker import harness as workers

DATA = bytes(range(256)) * 16

COPY = """
kernel void run(global const uchar *input, global uchar *output,
                const ulong length)
{
    for (ulong i = 0; i < length; i++)
        output[i] = input[i];
}
"""
#: The first byte says how often to do nothing.
BUSY = """
kernel void run(global const volatile uchar *input, global uchar *output,
                const ulong length)
{
    ulong left = input[0] == 255 ? ~0ul : input[0] * 20000000ul;

    while (left && input[1] != 255)
        left--;
    for (ulong i = 0; i < length; i++)
        output[i] = input[i];
}
"""
NEVER, LONG = b"\xff\0", b"\x14\0"


def copies(worker, agent, generation):
    """Whether the slot is usable."""
    client = harness.open_session(worker, agent, generation)
    return client.run(DATA, frames.END) == DATA


def failure(client):
    with pytest.raises(workers.ErrorFrame) as caught:
        client.recv_to_the_end()
    return caught.value.code


def test_a_kernel_that_never_ends(start_device, directory):
    worker = start_device({"hang_min_s": 2, "hang_factor": 1})
    agent = worker.connect()
    order = harness.program(directory, BUSY)
    client = harness.open_session(worker, agent, **order)
    client.send_input(NEVER)
    assert failure(client) == "KERNEL_HUNG"
    result = agent.wait_result()
    assert (result["state"], result["code"]) == ("FAILED", "KERNEL_HUNG")
    # The process is the only thing that can be ended.
    assert worker.wait() == 0
    again = start_device()
    assert copies(again, again.connect(), 2)


def test_a_slow_kernel_goes_on(start_device, directory):
    worker = start_device()
    agent = worker.connect()
    order = harness.program(directory, BUSY)
    client = harness.open_session(worker, agent, **order)
    assert client.run(LONG, frames.END) == LONG
    client.close_session()
    assert agent.wait_result()["code"] == "OK"
    assert copies(worker, agent, 2)


def test_a_client_that_goes_while_a_kernel_hangs(start_device, directory):
    worker = start_device(clear_timeout_s=0.5)
    agent = worker.connect()
    order = harness.program(directory, BUSY)
    client = harness.open_session(worker, agent, **order)
    client.send_input(NEVER)
    harness.wait_until_busy(worker)
    assert agent.request("release", generation=1, reason="GONE")["ok"]
    assert worker.wait() == 4
    again = start_device()
    assert copies(again, again.connect(), 2)


def test_a_killed_worker(start_device, directory):
    worker = start_device()
    agent = worker.connect()
    client = harness.open_session(worker, agent)
    assert client.run(DATA) == DATA
    os.kill(worker.process.pid, signal.SIGKILL)
    agent.wait_closed()
    # Its lock outlives its socket by a moment.
    worker.process.wait(30.0)
    again = start_device()
    assert copies(again, again.connect(), 2)


def test_a_source_that_cannot_be_compiled(start_device, directory):
    worker = start_device()
    agent = worker.connect()
    order = harness.program(directory, COPY.replace("length;", "nonsense;"))
    assert agent.assign(1, **order)["ok"]
    result = agent.wait_result(1)
    assert result["state"] == "PREPARE_FAILED"
    assert result["code"] == "KERNEL_BUILD_FAILED"
    assert "nonsense" in result["message"]
    assert copies(worker, agent, 2)


@pytest.mark.parametrize("size_bytes", [1 << 31, 1 << 24])
def test_a_session_that_needs_too_much_memory(
    start_device, directory, size_bytes
):
    # Its share is a thousandth.
    worker = start_device({"shares": [1, 999]})
    agent = worker.connect()
    order = harness.program(
        directory, COPY, buffers={"rows": {"bytes": "size"}}
    )
    prepared = agent.prepare(1, **order)
    client = workers.Client.local(worker)
    with pytest.raises(workers.ErrorFrame) as caught:
        client.hello(prepared, transport="shm", params={"size": size_bytes})
    assert caught.value.code == "DEVICE_OUT_OF_MEMORY"
    result = agent.wait_result(1)
    assert (result["state"], result["code"]) == (
        "FAILED",
        "DEVICE_OUT_OF_MEMORY",
    )
    client = harness.open_session(worker, agent, 2, **order)
    assert client.run(DATA, frames.END) == DATA


def test_a_device_that_is_not_there(start_device):
    worker = start_device({"device": "no such device"})
    agent = worker.connect()
    assert agent.assign(1)["ok"]
    result = agent.wait_result(1)
    assert result["state"] == "PREPARE_FAILED"
    assert result["code"] == "PROGRAM_FAILED"
    assert "NO_SUCH_SLOT" in result["message"]
