# SPDX-License-Identifier: Apache-2.0

"""Sessions on a device give what the software cores give."""

import contextlib
import random

import pytest

from fpgapool import client
from fpgapool.protocol import frames
from fpgapool.vocabulary import codes
from tests.functional.opencl import harness
from tests.functional.worker import harness as workers
from tests.harness import cases
from tests.harness import programs
from tests.harness import slots
from tests.unit.accelerators import runs
from tests.unit.drivers.opencl import sessions

TIMEOUT_S = 60
AES = {"key": programs.KEY, "iv": programs.IV}
TEXTS = {name: value.hex() for name, value in AES.items()}


@pytest.fixture
def door(directory, binaries):
    """Give a door to a device; spares may follow."""
    with contextlib.ExitStack() as stack:

        def make(transport, kind="opencl", **settings):
            if kind == "opencl":
                settings |= harness.settings(directory, binaries)
            made = slots.Door(directory, transport, **settings)
            return stack.enter_context(made)

        yield make


BY_NAME = {session.name: session for session in sessions.LARGE}


@pytest.mark.parametrize(
    ("name", "transport"),
    cases.first(
        ("aes", "shm"),
        ("sha", "tcp"),
        ("fft", "shm"),
        ("ec", "tcp"),
        ("lr", "shm"),
        ("km", "tcp"),
    ),
)
def test_output_is_that_of_the_software_core(door, name, transport):
    session = BY_NAME[name]
    data = session.input(1, 3 * 1024 * 1024)
    output, report = client.run_buffer(
        session.name,
        data,
        params=session.params,
        arguments=dict(enumerate(session.arguments, start=1)),
        # Some of their blocks are long.
        front_door=door(transport, chunk_bytes=2 << 20).path,
        timeout_s=TIMEOUT_S,
    )
    expected = runs.run(session.core(), data)
    session.assert_same(bytes(output), expected)
    assert report.input_bytes == len(data)


@pytest.mark.parametrize("first", ["opencl", "emulator"])
def test_a_session_goes_on_in_a_slot_of_another_kind(
    door, directory, binaries, first
):
    entry = door("shm", first)
    spare = directory / "spare"
    settings = {}
    if first == "emulator":
        settings = harness.settings(spare, binaries)
    entry.spares.append(slots.Slot(spare, "tcp", **settings))
    data = random.Random(first).randbytes(40 * workers.CHUNK_BYTES + 4711)

    def progress(done_bytes, _total_bytes):
        if done_bytes > len(data) // 2 and len(entry.slots) == 1:
            entry.slots[0].worker.kill()

    output, report = client.run_buffer(
        "aes",
        data,
        params=AES,
        front_door=entry.path,
        progress=progress,
        timeout_s=TIMEOUT_S,
    )
    assert report.reopens == 1
    assert bytes(output) == programs.encrypted(data)


@pytest.mark.parametrize(
    ("first", "second"),
    [("opencl", "opencl"), ("opencl", "emulator"), ("emulator", "opencl")],
)
def test_a_stateful_session_goes_on_in_a_slot_of_any_kind(
    door, directory, binaries, first, second
):
    entry = door("shm", first)
    spare = directory / "spare"
    settings = {}
    if second == "opencl":
        settings = harness.settings(spare, binaries)
    entry.spares.append(slots.Slot(spare, "tcp", **settings))
    params = AES | {"direction": "decrypt"}
    plain = random.Random(f"{first}{second}").randbytes(50 * 1008 + 7)
    encrypt = runs.load("aes-cbc", **TEXTS)
    data = runs.run(encrypt, plain)
    output = b""
    with client.acc_open(
        "aes-cbc",
        len(data),
        params=params,
        front_door=entry.path,
        timeout_s=TIMEOUT_S,
    ) as session:
        for start in range(0, len(data), 1008):
            if start == 13 * 1008:
                entry.take_back(codes.PREEMPTED)
            piece = data[start : start + 1008]
            session.pin[: len(piece)] = piece
            output += session.run(len(piece), timeout_s=TIMEOUT_S)
        output += session.finish(timeout_s=TIMEOUT_S)
    assert session.reopens == 1
    assert output == plain


@pytest.mark.security
@pytest.mark.parametrize("length_bytes", [0, 16, 31, 33, 4096])
def test_a_state_of_another_length_is_refused(start_device, length_bytes):
    worker = start_device()
    agent = worker.connect()
    prepared = agent.prepare(
        1, accelerator="aes-cbc", bitstream="builtin:aes-cbc"
    )
    opened = workers.Client.local(worker).hello(
        prepared,
        transport="shm",
        params=TEXTS | {"direction": "decrypt"},
        features=[frames.CHECKPOINT_FEATURE],
        start_input_offset=1024,
        start_output_offset=1008,
    )
    opened.channel.send(frames.checkpoint_frame(1024, bytes(length_bytes)))
    with pytest.raises(workers.ErrorFrame) as caught:
        opened.recv()
    assert caught.value.code == codes.INVALID_CHECKPOINT
    opened.close()


def test_a_session_goes_on_within_a_block(door, directory, binaries):
    # The emulator takes pieces of any length.
    entry = door("shm", "emulator")
    spare = directory / "spare"
    settings = harness.settings(spare, binaries)
    entry.spares.append(slots.Slot(spare, "shm", **settings))
    data = random.Random(1).randbytes(30000)
    output = b""
    with client.acc_open(
        "aes",
        len(data),
        params=AES,
        front_door=entry.path,
        timeout_s=TIMEOUT_S,
    ) as session:
        for start in range(0, len(data), 1001):
            if start == 11 * 1001:
                entry.take_back()
            piece = data[start : start + 1001]
            session.pin[: len(piece)] = piece
            output += session.run(len(piece), timeout_s=TIMEOUT_S)
        output += session.finish(timeout_s=TIMEOUT_S)
    assert session.reopens == 1
    assert output == programs.encrypted(data)


def test_the_next_session_computes_with_its_own_parameters(start_device):
    worker = start_device()
    agent = worker.connect()
    data = bytes(1000)
    for generation, key in enumerate(("00" * 16, "11" * 32), 1):
        params = {"key": key, "iv": "00" * 16}
        opened = harness.open_session(
            worker,
            agent,
            generation,
            params,
            accelerator="aes",
            bitstream="builtin:aes",
        )
        expected = runs.run(runs.load("aes", **params), data)
        assert opened.run(data, frames.END) == expected
        opened.close_session()
        agent.wait_result(generation)


@pytest.mark.parametrize("accelerator", cases.first("copy", "fft", "sobel"))
def test_self_tests(start_device, accelerator):
    agent = start_device().connect()
    assert agent.assign(
        1,
        accelerator=accelerator,
        bitstream=f"builtin:{accelerator}",
        self_test=True,
    )["ok"]
    result = agent.wait_result(1)
    assert (result["state"], result["code"]) == ("CLOSED", "OK")
