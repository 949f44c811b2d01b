# SPDX-License-Identifier: Apache-2.0

"""Input that is copied into shared memory, in pieces shorter than a chunk."""

import random

import pytest

from fpgapool import client
from tests.functional.client import breaking
from tests.harness import programs
from tests.harness import slots
from tests.unit.accelerators import runs

SETTINGS = {"chunk_bytes": 4 << 20, "window_chunks": 8}
MIB = 1 << 20
KEYS = {"key": programs.KEY.hex(), "iv": programs.IV.hex()}


@pytest.fixture
def door(directory):
    with slots.Door(directory, "shm", **SETTINGS) as made:
        yield made


def _run(door, core, data, **options):
    return client.run_buffer(
        core,
        data,
        front_door=door.path,
        timeout_s=breaking.TIMEOUT_S,
        **options,
    )


@pytest.mark.parametrize("size_bytes", [0, 1, MIB, MIB + 1, 9 * MIB + 4711])
@pytest.mark.parametrize("core", ["aes", "aes-cbc", "sha", "copy"])
def test_output_is_that_of_the_core_alone(door, core, size_bytes):
    """In the place of the input, longer, and after the end only."""
    data = random.Random(size_bytes).randbytes(size_bytes)
    params = KEYS if core.startswith("aes") else {}
    expected = runs.run(runs.load(core, **params), data)
    into = bytearray(size_bytes + 32)
    output, report = _run(door, core, data, params=params, into=into)
    assert output == expected
    assert bytes(into[len(expected) :]) == bytes(len(into) - len(expected))
    assert report.input_bytes == size_bytes
    assert _run(door, core, data, params=params)[0] == expected


def test_a_frame_longer_than_a_piece_stays_whole(door):
    """Of three quarters of a mebibyte: no two of them fit in a piece."""
    params = {"frame_samples": 3 << 15}
    frame_bytes = 8 * params["frame_samples"]
    data = bytes(range(256)) * (7 * frame_bytes // 256)
    output, _ = _run(door, "fft", data, params=params)
    assert bytes(output) == runs.run(runs.load("fft", **params), data)


def test_an_error_in_the_last_piece_ends_the_transfer(door):
    with pytest.raises(client.SessionFailed) as caught:
        _run(door, "fft", bytes(9 * MIB + 1), params={"frame_samples": 1024})
    assert caught.value.code == "INVALID_INPUT"
    assert caught.value.offset_bytes <= 9 * MIB


@pytest.mark.parametrize("killed", [True, False])
def test_a_lost_slot_loses_nothing(directory, door, killed):
    spare = slots.Slot(directory / "spare", "shm", **SETTINGS)
    door.spares.append(spare)
    data = random.Random(killed).randbytes(12 * MIB + 77)

    def progress(done_bytes, _total_bytes):
        if done_bytes >= 3 * MIB and door.spares:
            if killed:
                door.worker.kill()
            else:
                door.take_back()

    output, report = _run(
        door,
        "aes",
        data,
        params=KEYS,
        into=bytearray(len(data)),
        progress=progress,
    )
    assert bytes(output) == programs.encrypted(data)
    assert report.reopens == 1
