# SPDX-License-Identifier: Apache-2.0

"""The client library and its command with real worker processes."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import threading

import pytest

from fpgapool import client
from fpgapool.accelerators import aes
from fpgapool.client.sessions import flow
from fpgapool.client.transfers import feeding
from fpgapool.cmd import run
from fpgapool.common import interrupts
from fpgapool.vocabulary import codes
from tests.functional.client import breaking
from tests.functional.worker import harness
from tests.harness import cases
from tests.harness import programs
from tests.harness import slots
from tests.unit.accelerators import runs

KEY, IV = programs.KEY, programs.IV


def test_encrypts_over_breaking_connections(door):
    chooser = random.Random(door.slot.transport)
    data = chooser.randbytes(40 * harness.CHUNK_BYTES + 4711)
    breaker = breaking.Breaker()
    breaks = set(chooser.sample(range(40), 6))

    def progress(done_bytes, _total_bytes):
        chunk = done_bytes // harness.CHUNK_BYTES
        if any(number <= chunk for number in breaks):
            breaks.difference_update(range(chunk + 1))
            breaker.break_connection()

    output, report = client.run_buffer(
        "aes",
        data,
        params={"key": KEY, "iv": IV},
        front_door=door.path,
        cancel=breaker,
        progress=progress,
        timeout_s=breaking.TIMEOUT_S,
    )
    assert bytes(output) == programs.encrypted(data)
    assert report.reconnects > 0


def test_runs_over_breaking_connections(door):
    chooser = random.Random(door.slot.transport)
    data = chooser.randbytes(30000)
    breaker = breaking.Breaker()
    output = b""
    with client.acc_open(
        "copy",
        len(data),
        front_door=door.path,
        cancel=breaker,
        timeout_s=breaking.TIMEOUT_S,
    ) as session:
        for start in range(0, len(data), 1000):
            session.pin[:1000] = data[start : start + 1000]
            if chooser.random() < 0.3:
                breaker.break_connection()
            output += session.run(1000, timeout_s=breaking.TIMEOUT_S)
        breaker.break_connection()
        output += session.finish(timeout_s=breaking.TIMEOUT_S)
    assert output == data
    assert session.reconnects > 3


def test_worker_with_another_certificate(directory):
    with slots.Door(directory, "tls") as door:
        door.promised_sha256 = "00" * 32
        with pytest.raises(client.SessionFailed) as caught:
            client.acc_open(
                "copy", 1, front_door=door.path, timeout_s=breaking.TIMEOUT_S
            )
    assert caught.value.code == "CERTIFICATE_MISMATCH"
    assert door.cancelled.is_set()


@pytest.mark.parametrize("loss", ["preempted", "killed"])
def test_a_state_outlives_a_client_that_does_not_read(directory, loss):
    chunk_bytes = 4 << 20
    settings = {"chunk_bytes": chunk_bytes, "clear_timeout_s": 3}
    with slots.Door(directory, "tcp", **settings) as door:
        door.spares.append(slots.Slot(directory / "spare", "tcp", **settings))
        data = random.Random(loss).randbytes(12 * chunk_bytes + 77)

        def progress(done_bytes, _total_bytes):
            # It reads no more meanwhile, and sockets do not hold all.
            if done_bytes and len(door.slots) == 1:
                if loss == "killed":
                    door.worker.kill()
                else:
                    door.take_back(codes.PREEMPTED)

        output, report = client.run_buffer(
            "aes-cbc",
            data,
            params={"key": KEY, "iv": IV},
            front_door=door.path,
            progress=progress,
            timeout_s=breaking.TIMEOUT_S,
        )
    assert report.reopens == 1
    core = runs.load("aes-cbc", key=KEY.hex(), iv=IV.hex())
    assert bytes(output) == runs.run(core, data)


TRANSPORTS = ("shm", "tls", "shm", "tcp", "tcp")


def _moving_door(directory, chooser) -> slots.Door:
    first, *others = chooser.sample(TRANSPORTS, 3)
    door = slots.Door(directory, first)
    for number, transport in enumerate(others):
        door.spares.append(slots.Slot(directory / f"spare{number}", transport))
    return door


@pytest.mark.parametrize("seed", cases.first(*range(4)))
def test_encrypts_in_one_slot_after_the_other(directory, seed):
    chooser = random.Random(seed)
    data = chooser.randbytes(40 * harness.CHUNK_BYTES + 4711)
    door = _moving_door(directory, chooser)
    # More than a window apart, and from the end.
    losses = [chooser.randrange(12), 22 + chooser.randrange(6)]

    def progress(done_bytes, _total_bytes):
        if losses and done_bytes >= losses[0] * harness.CHUNK_BYTES:
            losses.pop(0)
            if chooser.random() < 0.5:
                door.worker.kill()
            else:
                door.take_back()

    with door:
        output, report = client.run_buffer(
            "aes",
            data,
            into=bytearray(len(data)) if seed % 2 else None,
            params={"key": KEY, "iv": IV},
            front_door=door.path,
            progress=progress,
            timeout_s=breaking.TIMEOUT_S,
        )
    assert bytes(output) == programs.encrypted(data)
    assert report.reopens == 2


def _cbc(data: bytes) -> bytes:
    core = aes.AesCbcCore({"key": KEY.hex(), "iv": IV.hex()})
    output = memoryview(bytearray(len(data) + 32))
    length_bytes = core.process(memoryview(data), output, 0)
    return bytes(output[: length_bytes + core.finish(output[length_bytes:])])


def test_state_moves_from_slot_to_slot(directory):
    """Also if the pieces on their way are not computed."""
    chooser = random.Random(8)
    data = chooser.randbytes(40 * harness.CHUNK_BYTES + 4711)
    door = _moving_door(directory, chooser)
    losses = [(5, "PREEMPTED"), (25, "YIELDED")]
    waits = []

    def progress(done_bytes, _total_bytes):
        if losses and done_bytes >= losses[0][0] * harness.CHUNK_BYTES:
            # The client reads meanwhile.
            waits.append(door.begin_to_take_back(losses.pop(0)[1]))

    with door:
        output, report = client.run_buffer(
            "aes-cbc",
            data,
            params={"key": KEY, "iv": IV},
            front_door=door.path,
            progress=progress,
            timeout_s=breaking.TIMEOUT_S,
        )
        for wait in waits:
            wait()
    assert bytes(output) == _cbc(data)
    assert report.reopens == 2


def test_state_moves_between_tasks(directory):
    chooser = random.Random(9)
    data = chooser.randbytes(32000)
    door = _moving_door(directory, chooser)
    output = b""
    with door:
        with client.acc_open(
            "aes-cbc",
            len(data),
            params={"key": KEY, "iv": IV},
            front_door=door.path,
            timeout_s=breaking.TIMEOUT_S,
        ) as session:
            for start in range(0, len(data), 1600):
                if start == 8000:
                    door.take_back("DRAINED")
                if start == 16000:
                    door.take_back("RESERVED")
                session.pin[:1600] = data[start : start + 1600]
                output += session.run(1600, timeout_s=breaking.TIMEOUT_S)
            output += session.finish(timeout_s=breaking.TIMEOUT_S)
    assert output == _cbc(data)
    assert (session.reopens, session.stateless) == (2, False)


def test_state_that_is_lost_ends_the_session(directory):
    # Other workers send states early.
    with slots.Door(directory, "shm") as door:
        door.spares.append(slots.Slot(directory / "spare", "tcp"))
        session = client.acc_open(
            "aes-cbc",
            1000,
            params={"key": KEY, "iv": IV},
            front_door=door.path,
            timeout_s=breaking.TIMEOUT_S,
        )
        session.run(160, timeout_s=breaking.TIMEOUT_S)
        door.worker.kill()
        with pytest.raises(client.SessionFailed) as caught:
            session.run(160, timeout_s=breaking.TIMEOUT_S)
        session.abort()
    assert caught.value.offset_bytes == 160


@pytest.mark.parametrize("aborted", [False, True])
def test_the_last_output_outlives_the_session(local_door, aborted):
    data = random.Random(10).randbytes(3000)
    session = client.acc_open(
        "copy",
        len(data),
        front_door=local_door.path,
        timeout_s=breaking.TIMEOUT_S,
    )
    pin = session.pin
    pin[: len(data)] = data
    output = session.run(len(data), timeout_s=breaking.TIMEOUT_S)
    rest = session.pout[1000:]
    if aborted:
        session.abort()
        local_door.take_back("CANCELLED")
        # Output that was not acknowledged is kept for a while.
        local_door.slot.end()
    else:
        session.close()
        local_door.slot.agent.wait_result()
    assert bytes(pin[: len(data)]) == bytes(len(data))
    assert (bytes(output), bytes(rest)) == (data, data[1000:])


def test_a_slot_that_was_lost_too_long_ago(directory):
    with slots.Door(directory, "shm") as door:
        door.spares.append(slots.Slot(directory / "spare", "shm"))
        with client.acc_open(
            "copy", 1, front_door=door.path, timeout_s=breaking.TIMEOUT_S
        ) as session:
            session.pin[:3] = b"abc"
            session.run(3, timeout_s=breaking.TIMEOUT_S)
            # The agent keeps the buffers for a while, but not for ever.
            door.take_back("RESUME_TIMEOUT")
            door.slot.end()
            with pytest.raises(client.SessionFailed) as caught:
                session.run(3, timeout_s=breaking.TIMEOUT_S)
    assert caught.value.code == "SESSION_LOST"
    assert "cleared" in caught.value.message


@pytest.fixture(params=["shm", "tcp"])
def emptied_door(request, directory):
    """A first slot whose buffers are empty before there is another one."""
    with slots.Door(directory, "shm") as door:
        door.spares.append(slots.Slot(directory / "spare", request.param))
        door.on_reopen = lambda: door.slot.end()
        yield door


@pytest.mark.security
def test_programs_that_send_too_much_keep_no_memory_of_the_slot(local_door):
    with client.acc_open(
        "copy", 1, front_door=local_door.path, timeout_s=breaking.TIMEOUT_S
    ) as session:
        shared = session.flow.shared
        buffers = shared.input(1), shared.output(1)
        for buffer in buffers:
            buffer[:3] = b"abc"
        local_door.take_back("YIELDED")
        local_door.slot.end()
        assert [bytes(buffer[:3]) for buffer in buffers] == 2 * [bytes(3)]
        with pytest.raises(client.SessionFailed):
            session.run(3, timeout_s=breaking.TIMEOUT_S)


def test_runs_go_on_with_what_was_in_emptied_buffers(emptied_door):
    data = random.Random(11).randbytes(3000)
    with client.acc_open(
        "copy",
        len(data),
        front_door=emptied_door.path,
        timeout_s=breaking.TIMEOUT_S,
    ) as session:
        session.pin[: len(data)] = data
        first = session.run(1000, timeout_s=breaking.TIMEOUT_S)
        assert bytes(first) == data[:1000]
        emptied_door.take_back("YIELDED")
        output = session.run(2000, timeout_s=breaking.TIMEOUT_S)
        assert bytes(output) == data[:2000]
        # What was not asked for has not changed either.
        assert bytes(session.pin[: len(data)]) == data
        again = session.run(3000, timeout_s=breaking.TIMEOUT_S)
        assert (bytes(again), session.reopens) == (data, 1)


def encrypt_and_lose_the_slot(door, seed):
    """Encrypt data through a door that takes the slot back once."""
    data = random.Random(seed).randbytes(40 * harness.CHUNK_BYTES + 4711)
    lost = []

    def progress(done_bytes, _total_bytes):
        if done_bytes > 5 * harness.CHUNK_BYTES and not lost:
            lost.append(done_bytes)
            door.take_back("YIELDED")

    output, report = client.run_buffer(
        "aes",
        data,
        params={"key": KEY, "iv": IV},
        front_door=door.path,
        progress=progress,
        timeout_s=breaking.TIMEOUT_S,
    )
    assert bytes(output) == programs.encrypted(data)
    assert (report.reopens, report.restarts) == (1, 0)


def test_transfers_go_on_with_what_was_in_emptied_buffers(emptied_door):
    encrypt_and_lose_the_slot(emptied_door, 12)


def test_a_buffer_that_was_filled_before_it_was_emptied(
    emptied_door, monkeypatch
):
    """The program is so slow that another slot was found before it sends."""
    late, moved = [], threading.Event()
    send, move = feeding.Feeder._send, flow.Flow._move

    def send_late(feeder, piece):
        if feeder._left_bytes < 30 * harness.CHUNK_BYTES and not late:
            late.append(piece)
            assert moved.wait(breaking.TIMEOUT_S)
        send(feeder, piece)

    def move_and_tell(one, *args):
        move(one, *args)
        moved.set()

    monkeypatch.setattr(feeding.Feeder, "_send", send_late)
    monkeypatch.setattr(flow.Flow, "_move", move_and_tell)
    encrypt_and_lose_the_slot(emptied_door, 13)
    assert len(late) == 1


def test_digest_is_started_over(directory):
    data = random.Random(8).randbytes(40 * harness.CHUNK_BYTES)
    with slots.Door(directory, "shm") as door:
        lost = []

        def progress(done_bytes, _total_bytes):
            if done_bytes > 5 * harness.CHUNK_BYTES and not lost:
                lost.append(done_bytes)
                door.take_back()

        output, report = client.run_buffer(
            "sha",
            data,
            front_door=door.path,
            progress=progress,
            timeout_s=breaking.TIMEOUT_S,
        )
    assert bytes(output) == hashlib.sha256(data).digest()
    assert (report.restarts, report.reopens) == (1, 0)


def _command(door, *arguments):
    return run.main(["--socket", door.path, "--timeout", "60", *arguments])


def test_command_encrypts_and_decrypts(local_door, directory, capsys):
    data = random.Random(5).randbytes(300_000)
    plain, secret, again = (
        directory / name for name in ("plain", "secret", "again")
    )
    plain.write_bytes(data)
    key_file = directory / "key"
    key_file.write_text(KEY.hex() + "\n")
    common = ["aes", "--key-file", str(key_file)]
    status = _command(
        local_door, *common, "--in", str(plain), "--out", str(secret)
    )
    assert status == 0
    assert "stored in" in capsys.readouterr().out
    iv = bytes.fromhex((directory / "secret.iv").read_text())
    assert secret.read_bytes() == programs.encrypted(data, iv=iv)
    key_file.write_bytes(KEY)
    status = _command(
        local_door,
        *common,
        "--json",
        *("--iv-file", f"{secret}.iv"),
        *("--in", str(secret), "--out", str(again)),
    )
    assert status == 0
    report = json.loads(capsys.readouterr().out)
    assert report["input_bytes"] == report["output_bytes"] == 300_000
    assert again.read_bytes() == data
    assert not list(directory.glob("*.part"))


@pytest.mark.parametrize(
    ("number", "deaf"),
    [
        (signal.SIGINT, True),
        *cases.first(
            *((number, False) for number in interrupts.SIGNALS),
        ),
    ],
)
def test_interrupted_command_cancels_and_leaves_nothing(
    local_door, directory, number, deaf
):
    """Also if its main thread waits already when it would see the signal."""
    source, destination = directory / "in", directory / "out"
    os.mkfifo(source)
    source_end = os.open(source, os.O_RDWR)
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", _SLOW_COMMAND.format(deaf=deaf), "copy"),
            *("--socket", local_door.path),
            *("--size-bytes", "1000"),
            *("--in", str(source), "--out", str(destination)),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "running\n"
    assert list(directory.glob(".out.*.part"))
    process.send_signal(number)
    _, error = process.communicate(timeout=breaking.TIMEOUT_S)
    os.close(source_end)
    assert process.returncode == 130
    assert error.splitlines()[-1] == "fpgapool-run: CANCELLED: interrupted"
    assert local_door.cancelled.is_set()
    assert not list(directory.glob("*out*"))


# The source is a pipe that never gives anything. A signal goes to another
# thread while the main thread blocks it. No other thread runs, to say so,
# before the main thread waits.
_SLOW_COMMAND = """
import signal
import sys
import threading
from fpgapool.client.transfers import transfer
from fpgapool.cmd import run
receive = transfer._Job._receive
def say():
    print("running", flush=True)
def announced(*arguments):
    if {deaf}:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        waits = threading.Event()
        threading.Thread(target=lambda: waits.wait() and say()).start()
        sys.setswitchinterval(1000)
        waits.set()
    else:
        say()
    receive(*arguments)
transfer._Job._receive = announced
sys.exit(run.main())
"""


_HASTY_COMMAND = """
import sys
from fpgapool.cmd import launch, run
run._CLEANS_UP_S = 0.1
sys.exit(launch.run())
"""


@pytest.mark.parametrize(
    "words",
    cases.some(
        (
            "--in - --out out",
            "--in big --out -",
            "--in big --out fifo",
            "--in fifo --out out",
            "--in - --size-bytes 9 --out out",
            "--param-file key=fifo --in big --out out",
        ),
        lambda words: words.endswith("-") or "--out fifo" in words,
    ),
)
def test_the_time_limit_ends_waits_for_pipes(local_door, directory, words):
    """Of the command's own: a pipe that never ends, or that nobody reads."""
    os.mkfifo(directory / "fifo")
    (directory / "big").write_bytes(bytes(1 << 20))
    with _hasty(local_door, directory, words) as process:
        assert process.wait(breaking.TIMEOUT_S) == 1
        last = process.stderr.read().decode().splitlines()[-1]
    assert last == "fpgapool-run: TIMEOUT: the time limit was exceeded"
    assert not list(directory.glob("*out*"))


def test_the_time_limit_ends_a_wait_for_both_outputs(local_door, directory):
    """There is nobody to tell then."""
    (directory / "big").write_bytes(bytes(1 << 20))
    words = "--in big --out -"
    with _hasty(
        local_door, directory, words, stderr=subprocess.STDOUT
    ) as process:
        assert process.wait(breaking.TIMEOUT_S) == 1


def _hasty(door, directory, words, stderr=subprocess.PIPE):
    options = ("--timeout", "0.3", "--socket", door.path)
    return subprocess.Popen(
        [
            *(sys.executable, "-c", _HASTY_COMMAND, "copy"),
            *(*words.split(), *options),
        ],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
    )
