# SPDX-License-Identifier: Apache-2.0

"""Chains in a real pool."""

from __future__ import annotations

import concurrent.futures
import gzip
import io
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import threading

import pytest

from fpgapool import client
from fpgapool.vocabulary import codes
from tests.functional.allinone import harness
from tests.harness import processes
from tests.harness import programs

AES = {"key": programs.KEY, "iv": programs.IV}
MIB = 2**20
#: Halves are equal, so that gzip has something to do.
DATA = random.Random(1).randbytes(5 * MIB + 12_345) * 2
KILLS = 30


def _chain(pool: harness.Pool, *names: str, **options: object) -> client.Chain:
    return client.chain(
        *(names or ("gzip", "aes")),
        **{
            "params": {"aes": AES},
            "front_door": pool.front_door(),
            "timeout_s": harness.LIMIT_S,
            **options,
        },
    )


def _plain(output: bytes) -> bytes:
    return gzip.decompress(programs.encrypted(bytes(output)))


class Streams:
    """What this process sends and receives on its sockets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.received_bytes = 0
        self._lock = threading.Lock()
        from fpgapool.common.channels import channel

        receive = channel.PlainChannel.recv_exact_into

        def counting(one, buffer, deadline_s=None):
            receive(one, buffer, deadline_s)
            with self._lock:
                self.received_bytes += len(buffer)

        monkeypatch.setattr(channel.PlainChannel, "recv_exact_into", counting)


def test_the_output_is_that_of_both(pool) -> None:
    output, report = _chain(pool).run_buffer(DATA, timeout_s=harness.LIMIT_S)
    assert _plain(output) == DATA
    assert report.input_bytes == len(DATA)
    assert report.output_bytes == len(output)
    assert [one.accelerator for one in report.stages] == ["gzip", "aes"]
    assert report.stages[0].output_bytes == report.stages[1].input_bytes


def test_the_data_between_does_not_come_here(pool, monkeypatch) -> None:
    """The last stage has 32 bytes of output, and nothing else arrives."""
    streams = Streams(monkeypatch)
    chain = _chain(pool, "copy", "copy", "sha", params={})
    output, _ = chain.run_buffer(DATA, timeout_s=harness.LIMIT_S)
    assert len(output) == 32
    assert streams.received_bytes < len(DATA) / 10


def test_four_stages_and_streams(pool) -> None:
    names = ["copy"] * 3 + ["aes"]
    result = io.BytesIO()
    chain = _chain(pool, *names, params={"4": AES})
    chain.run_stream(
        io.BytesIO(DATA), result, len(DATA), timeout_s=harness.LIMIT_S
    )
    assert result.getvalue() == programs.encrypted(DATA)


def test_two_hosts(two_hosts) -> None:
    """The link crosses a network, with TLS."""
    chain = _chain(two_hosts, require_tls=True)
    output, report = chain.run_buffer(DATA, timeout_s=harness.LIMIT_S)
    assert _plain(output) == DATA
    assert {one.host for one in report.stages} == {"node1", "node2"}


def test_empty_input(pool) -> None:
    output, _ = _chain(pool, "aes", "copy").run_buffer(
        b"", timeout_s=harness.LIMIT_S
    )
    assert output == b""


@pytest.mark.parametrize(
    ("names", "options", "code", "stage"),
    [
        ((), {}, codes.CHAIN_LENGTH, None),
        (("gzip",), {}, codes.CHAIN_LENGTH, None),
        (("copy",) * 9, {}, codes.CHAIN_LENGTH, None),
        (("aes", "nothing"), {}, codes.UNKNOWN_ACCELERATOR, 2),
        (("sha", "aes"), {}, codes.CHAIN_NO_OUTPUT, 1),
        (("gzip", "copy"), {}, codes.CHAIN_PARAMS, None),
        (("gzip", "aes"), {"params": {}}, codes.INVALID_PARAMS, 2),
        (("gzip", "aes"), {"checksum": True}, codes.CHAIN_OPTION, None),
        (("gzip", "aes"), {"fallback": "cpu"}, codes.CHAIN_OPTION, None),
        (("gzip", "sha"), {"meanwhile": "cpu"}, codes.INVALID_REQUEST, 2),
    ],
)
def test_bad_input_changes_nothing(pool, names, options, code, stage) -> None:
    before = harness.ask_pool(pool.front_door())
    with pytest.raises(client.FpgapoolError) as caught:
        client.chain(
            *names,
            **{
                "params": {"aes": AES},
                "front_door": pool.front_door(),
                **options,
            },
        )
    assert (caught.value.code, caught.value.stage) == (code, stage)
    after = harness.ask_pool(pool.front_door())
    for counted in ("queued", "sessions"):
        assert after.get(counted) == before.get(counted)


def test_a_failure_names_its_stage(pool) -> None:
    chain = _chain(
        pool, "copy", "gzip", params={"gzip": {"level": 99}}, verify=False
    )
    with pytest.raises(
        client.InvalidParams, match=r"stage 2 \(gzip\)"
    ) as caught:
        chain.run_buffer(DATA, timeout_s=harness.LIMIT_S)
    assert caught.value.stage == 2


def test_all_or_nothing(pool) -> None:
    """Five stages never fit into four slots, and none stays taken."""
    chain = _chain(pool, *["copy"] * 5, params={}, wait_timeout_s=1)
    with pytest.raises(client.RequestRejected, match="stage") as caught:
        chain.run_buffer(DATA, timeout_s=harness.LIMIT_S)
    assert caught.value.code == codes.SET_IMPOSSIBLE
    output, _ = _chain(pool, *["copy"] * 4, params={}).run_buffer(
        DATA, timeout_s=harness.LIMIT_S
    )
    assert output == DATA


def test_the_time_limit_is_that_of_the_chain(pool) -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as source, os.fdopen(writer, "wb"):
        with pytest.raises(client.OperationTimeout):
            _chain(pool).run_stream(source, io.BytesIO(), MIB, timeout_s=2)


@pytest.fixture
def directory(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "key").write_text(programs.KEY.hex())
    (tmp_path / "FILE").write_bytes(DATA)
    return tmp_path


def _command(
    pool: harness.Pool, directory: pathlib.Path, *words: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*harness.command("run"), "--socket", pool.front_door(), *words],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(pathlib.Path.cwd())},
        capture_output=True,
        text=True,
        timeout=harness.LIMIT_S,
        check=False,
    )


@pytest.mark.parametrize("more", [(), ("--meanwhile", "cpu")])
def test_the_command(pool, directory, more) -> None:
    done = _command(
        *(pool, directory, "gzip", "+", "aes", "--key-file", "key"),
        *(*more, "FILE"),
    )
    assert done.returncode == 0, done.stderr
    # The CPU may be done before there are slots.
    place = "(node1|this machine's CPU)" if more else "node1"
    assert re.search(f"stage 2: aes on {place}", done.stdout)
    iv = bytes.fromhex((directory / "FILE.gz.enc.iv").read_text())
    output = (directory / "FILE.gz.enc").read_bytes()
    assert gzip.decompress(programs.encrypted(output, iv=iv)) == DATA


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["+".join(["copy "] + [" copy "] * 7 + [" copy"])], "CHAIN_LENGTH"),
        (["copy", "+", "copy", "--param", "x=1"], "INVALID_USAGE"),
        (["copy", "+", "copy", "--param", "sha:x=1"], "INVALID_USAGE"),
        (["gzip", "+", "copy", "--key-file", "key"], "INVALID_USAGE"),
        (["gzip", "+", "copy", "--dry-run"], "INVALID_USAGE"),
    ],
)
def test_refusals_of_the_command(pool, directory, words, code) -> None:
    done = _command(
        pool, directory, *words, "--json", "--in", "FILE", "--out", "OUT"
    )
    assert json.loads(done.stdout)["error"]["code"] == code
    assert not (directory / "OUT").exists()


def test_a_chain_ends_though_all_others_wait_for_its_slots() -> None:
    """gzip returns more than its profile says, so aes exceeds its claim."""
    data = random.Random(3).randbytes(10 * MIB)
    options = "--hosts=1", "--boards=1", "--slots=2", "--unlimited"
    with (
        harness.running_pool(*options) as pool,
        concurrent.futures.ThreadPoolExecutor(4) as others,
    ):
        door = {"front_door": pool.front_door(), "timeout_s": harness.LIMIT_S}
        waiting: list[concurrent.futures.Future[None]] = []

        def single() -> None:
            client.acc_open("copy", MIB, **door).close()

        def pair() -> None:
            client.acc_open_set([("copy", MIB)] * 2, **door).close()

        def progress(_done_bytes: int, _total_bytes: int) -> None:
            if not waiting:
                waiting.extend(map(others.submit, [pair, single, pair]))

        output, report = _chain(pool).run_buffer(
            data, progress=progress, timeout_s=harness.LIMIT_S
        )
        assert _plain(output) == data
        # Neither stage has left its slot for those who wait.
        assert [one.reopens for one in report.stages] == [0, 0]
        assert report.stages[1].input_bytes > 0.9 * len(data)
        for one in waiting:
            one.result(harness.LIMIT_S)


class Killer:
    """Kills workers while chains run, at places that their progress gives.

    :param pool: a pool with more slots than the chain has stages.
    """

    def __init__(self, pool: harness.Pool) -> None:
        self._state = pool.run_dir / "state"
        self._rng = random.Random(2)
        self._told = 0
        self.killed = 0

    def progress(self, _done_bytes: int, _total_bytes: int) -> None:
        """Kill now and then, as long as kills are left."""
        self._told += 1
        if self._told % 5 == 0 and self.killed < KILLS:
            self._kill()

    def _kill(self) -> None:
        workers = [
            one
            for node in self._state.glob("node*")
            for one in processes.find_workers(node)
        ]
        if workers:
            os.kill(self._rng.choice(workers).pid, signal.SIGKILL)
            self.killed += 1


@pytest.mark.alone
def test_thirty_kills_change_no_byte() -> None:
    """Stages on two hosts begin again, and the output stays the same."""
    options = "--hosts=2", "--boards=2", "--slots=4", "--unlimited"
    with harness.running_pool(*options) as pool:
        chain = _chain(pool, "gzip", "aes", "copy")
        data = DATA * 4
        expected, _ = chain.run_buffer(data, timeout_s=harness.LIMIT_S)
        killer, moved = Killer(pool), 0
        while killer.killed < KILLS:
            output, report = chain.run_buffer(
                data, progress=killer.progress, timeout_s=5 * harness.LIMIT_S
            )
            assert output == expected
            moved += sum(one.reopens for one in report.stages)
        assert killer.killed == KILLS
        assert moved
