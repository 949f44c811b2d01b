# SPDX-License-Identifier: Apache-2.0

"""End-to-end checksums of the client library with real worker processes."""

import json
import random
import struct

import pytest
import yaml

from fpgapool import client
from fpgapool.accelerators import base as accelerators
from fpgapool.cmd import run
from tests.functional.client import breaking
from tests.functional.emulator import harness as emulator
from tests.functional.worker import harness
from tests.harness import cases
from tests.harness import slots

TIMEOUT_S = breaking.TIMEOUT_S
CHUNK = harness.CHUNK_BYTES
KEY = bytes(range(16))
IV = bytes(range(16, 32))
TRANSPORTS = ["shm", "tcp", "tls"]

#: Parameters of each accelerator, and what its input is a multiple of.
ACCELERATORS = {
    "aes": ({"key": KEY, "iv": IV}, 1),
    "aes-cbc": ({"key": KEY, "iv": IV}, 1),
    "copy": ({}, 1),
    "dtw": ({"length_samples": 50, "window_samples": 2}, 400),
    "ec": ({"k": 4, "m": 2, "stripe_bytes": 4096}, 1),
    "fft": ({"frame_samples": 100}, 800),
    "sha": ({}, 1),
    "align": ({"query_symbols": 30, "target_symbols": 50}, 80),
    "sw": ({"query_symbols": 30, "target_symbols": 50}, 80),
}
#: Longer pieces than a chunk of this worker, or arguments.
UNUSED = {"gzip", "km", "lr", "sobel"}


def _run(door, accelerator, data, params=None, **options):
    options = {"checksum": True, "timeout_s": TIMEOUT_S, **options}
    output, report = client.run_buffer(
        accelerator,
        data,
        params=params or {},
        front_door=door.path,
        **options,
    )
    assert report.checksum == options["checksum"]
    return bytes(output), report


def _input(length_bytes: int, unit_bytes: int) -> bytes:
    # Numbers of any kind, but no NaN.
    chooser = random.Random(length_bytes)
    if unit_bytes == 1:
        return chooser.randbytes(length_bytes)
    count = length_bytes // unit_bytes * unit_bytes // 4
    return struct.pack(f"<{count}f", *(chooser.random() for _ in range(count)))


def test_no_false_alarm_of_any_accelerator(door):
    known = set(accelerators.profile_names())
    assert set(ACCELERATORS) == known - UNUSED
    for accelerator, (params, unit_bytes) in ACCELERATORS.items():
        data = _input(5 * CHUNK + 4711, unit_bytes)
        plain, _ = _run(door, accelerator, data, params, checksum=False)
        assert _run(door, accelerator, data, params)[0] == plain


@pytest.mark.parametrize(
    "length_bytes",
    cases.some(
        [1, 2, 3, 7, 15, 17, CHUNK - 1, CHUNK, CHUNK + 1],
        (3, CHUNK, CHUNK + 1).__contains__,
    ),
)
def test_no_false_alarm_of_any_length(local_door, length_bytes):
    data = _input(length_bytes, 1)
    for accelerator in ("copy", "aes-cbc", "ec", "sha"):
        _run(local_door, accelerator, data, ACCELERATORS[accelerator][0])


def test_no_false_alarm_without_output_or_end(door):
    data = _input(777, 1)
    with client.acc_open(
        "sha", len(data), front_door=door.path, checksum=True
    ) as session:
        for start in range(0, len(data), 100):
            piece = data[start : start + 100]
            session.pin[: len(piece)] = piece
            assert session.run(len(piece)) == b""
        # Closed without its end: there never was any output.


def test_no_false_alarm_over_breaking_connections(door):
    chooser = random.Random(f"sums {door.slot.transport}")
    data = chooser.randbytes(40 * CHUNK + 4711)
    breaker = breaking.Breaker()
    breaks = set(chooser.sample(range(40), 6))

    def progress(done_bytes, _total_bytes):
        chunk = done_bytes // CHUNK
        if any(number <= chunk for number in breaks):
            breaks.difference_update(range(chunk + 1))
            breaker.break_connection()

    output, report = _run(
        door, "copy", data, cancel=breaker, progress=progress
    )
    assert output == data
    assert report.reconnects > 0


@pytest.mark.parametrize("seed", cases.first(*range(4)))
def test_no_false_alarm_in_other_slots(directory, seed):
    chooser = random.Random(100 + seed)
    data = chooser.randbytes(40 * CHUNK + 4711)
    first, *others = chooser.sample(TRANSPORTS, 3)
    with slots.Door(directory, first) as door:
        for number, transport in enumerate(others):
            path = directory / f"spare{number}"
            door.spares.append(slots.Slot(path, transport))
        losses = [chooser.randrange(12), 22 + chooser.randrange(6)]

        def progress(done_bytes, _total_bytes):
            if losses and done_bytes >= losses[0] * CHUNK:
                losses.pop(0)
                if chooser.random() < 0.5:
                    door.worker.kill()
                else:
                    door.take_back()

        output, report = _run(door, "copy", data, progress=progress)
    assert output == data
    assert report.reopens == 2


def _write_boards(directory, **faults):
    document = yaml.safe_load(harness.BOARDS)
    document["boards"][0]["faults"] = faults
    (directory / "boards.yaml").write_text(yaml.safe_dump(document))


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("how", cases.first("boards file", "run time"))
def test_a_wrong_result_is_found(directory, transport, how):
    data = random.Random(how).randbytes(10 * CHUNK)
    at = 6 * CHUNK + 5
    wrong = {"wrong_result": [{"slot": 0, "after_bytes": at}]}
    if how == "boards file":
        _write_boards(directory, **wrong)
    with slots.Door(directory, transport) as door:
        if how == "run time":
            assert _run(door, "copy", data)[0] == data
            emulator.write_faults(directory, **wrong)
        output, _ = _run(door, "copy", data, checksum=False)
        assert output[: 6 * CHUNK] == data[: 6 * CHUNK]
        assert output != data
        with pytest.raises(client.ChecksumMismatch) as caught:
            _run(door, "copy", data)
        result = door.slot.agent.wait_result(door._generation)
    failure = caught.value
    # The pool is to know it as failed.
    assert not door.cancelled.is_set()
    offset = failure.offset_bytes
    assert result["message"].endswith(f"after input offset {offset}")
    assert (failure.code, failure.direction) == ("CHECKSUM_MISMATCH", "output")
    assert failure.start_bytes <= at < failure.end_bytes
    assert (result["state"], result["code"]) == (
        "FAILED",
        "CHECKSUM_MISMATCH",
    )


def test_a_run_returns_no_wrong_result(local_door, directory):
    with client.acc_open(
        "copy", 200, front_door=local_door.path, checksum=True
    ) as session:
        assert session.run(100) == bytes(100)
        emulator.write_faults(directory, wrong_result=[0])
        with pytest.raises(client.ChecksumMismatch) as caught:
            session.run(100)
    assert caught.value.start_bytes == 100


def test_input_that_changes_on_its_way(local_door):
    # Shared memory can be written until the worker has read it.
    with client.acc_open(
        "copy", 100, front_door=local_door.path, checksum=True
    ) as session:
        verifier = session.flow._verifier
        add_input = verifier.add_input

        def change_afterwards(piece):
            add_input(piece)
            piece.data[50] ^= 1

        verifier.add_input = change_afterwards
        with pytest.raises(client.ChecksumMismatch) as caught:
            session.run(100)
    assert caught.value.direction == "input"


def test_a_driver_without_checksums(directory, monkeypatch):
    process = harness.WorkerProcess

    def broken(path, **members):
        name = "tests.functional.worker.broken_driver:BrokenDriver"
        return process(path, driver=name, **members)

    monkeypatch.setattr(harness, "WorkerProcess", broken)
    with slots.Door(directory, "shm") as door:
        with pytest.raises(client.SessionFailed) as caught:
            _run(door, "copy", b"abc")
        assert caught.value.code == "CHECKSUM_UNAVAILABLE"
        assert door.cancelled.is_set()


def test_command(local_door, directory, capsys):
    source, destination = directory / "in", directory / "out"
    source.write_bytes(bytes(1000))
    destination.write_bytes(b"before")
    arguments = [
        *("copy", "--checksum", "--socket", local_door.path),
        *("--in", str(source), "--out", str(destination)),
    ]
    emulator.write_faults(directory, wrong_result=[0])
    assert run.main(arguments) == 1
    assert "fpgapool-run: CHECKSUM_MISMATCH: " in capsys.readouterr().err
    assert destination.read_bytes() == b"before"
    assert not list(directory.glob(".*part"))
    (directory / "boards.faults.yaml").unlink()
    assert run.main(arguments) == 0
    assert "checksums match" in capsys.readouterr().out
    assert destination.read_bytes() == bytes(1000)
    assert run.main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["checksum"] is True
