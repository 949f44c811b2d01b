# SPDX-License-Identifier: Apache-2.0

"""Programs that reach a desk through the API, and ``fpgapool-run --group``."""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import threading
import typing

import numpy
import pytest

from fpgapool import client
from fpgapool.client.transfers import grouped
from fpgapool.cmd import run
from fpgapool.vocabulary import codes
from tests.functional.groupdesk import harness
from tests.harness import group_api

TIMEOUT_S = 60.0


class Pool:
    """A desk with two members, and an API that knows it."""

    def __init__(self, desk: harness.DeskProcess) -> None:
        self.desk = desk
        self.api = group_api.Api(group_id=harness.GROUP)
        self.api.hosts, self.api.revision = [self.host()], 1
        self.door = client.PoolApi(self.api)

    def host(self) -> dict[str, typing.Any]:
        """Describe the desk's host, as the API does."""
        document = self.desk.host(tcp=True).document()
        return {"host_uuid": document.pop("host_id"), **document}

    def open(self, **options: typing.Any) -> client.Group:
        return client.group_open(
            "render",
            **{"front_door": self.door, "timeout_s": TIMEOUT_S, **options},
        )


@pytest.fixture
def pool(tmp_path: pathlib.Path) -> typing.Iterator[Pool]:
    with harness.DeskProcess(tmp_path / "h", data_address="127.0.0.1") as desk:
        desk.admit("c1", "c2", "c3")
        desk.join(0, 1)
        yield Pool(desk)


def test_a_program_uses_a_group_by_its_name(pool) -> None:
    with pool.open(accelerator="copy", require_tls=False) as opened:
        pieces = [b"%d" % number for number in range(100)]
        assert list(opened.map(pieces)) == pieces
        array = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
        assert (opened.run(array) == array).all()
        with opened.lock(timeout_s=TIMEOUT_S):
            first = int(opened.run(b"count"))
            assert int(opened.run(b"count")) == first + 1
        assert (opened.members, opened.profile["name"]) == (2, "copy")
    assert pool.api.clients == []


def test_tasks_are_awaited(pool) -> None:
    async def work(opened: client.Group) -> list[bytes]:
        futures = [opened.submit(b"%d" % number) for number in range(20)]
        return await asyncio.gather(*map(asyncio.wrap_future, futures))

    with pool.open() as opened:
        results = asyncio.run(work(opened))
    assert results == [b"%d" % number for number in range(20)]


def test_a_program_waits_until_the_group_has_members(pool) -> None:
    hosts, pool.api.hosts = pool.api.hosts, []
    asked = threading.Event()

    def before(request: str) -> None:
        if "/clients/" in request and not asked.is_set():
            asked.set()
            pool.api.hosts = hosts

    pool.api.before = before
    with pool.open() as opened:
        assert asked.is_set()
        assert opened.run(b"x", timeout_s=TIMEOUT_S) == b"x"


def test_a_desk_that_moved_is_found_through_the_api(pool) -> None:
    with pool.open() as opened:
        assert opened.run(b"x", timeout_s=TIMEOUT_S) == b"x"
        # Another port, which only the API tells.
        pool.desk.restart()
        pool.desk.admit()
        pool.desk.join(0, 1)
        pool.api.hosts, pool.api.revision = [pool.host()], 2
        assert opened.run(b"y", timeout_s=TIMEOUT_S) == b"y"


def test_cancelling_ends_what_runs(pool) -> None:
    token = client.CancelToken()
    opened = pool.open(cancel=token)
    future = opened.submit(b"sleep 5")
    opened.run(b"x", timeout_s=TIMEOUT_S)
    token.cancel()
    with pytest.raises(client.Cancelled):
        future.result(TIMEOUT_S)
    opened.close()
    assert pool.api.clients == []


# Files.


@pytest.fixture
def source(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "in"
    path.write_bytes(numpy.random.default_rng(1).bytes(3_000_001))
    return path


@pytest.fixture
def command(
    pool: Pool, source: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> typing.Callable[..., int]:
    monkeypatch.setattr(client.PoolApi, "at", lambda _url: pool.door)

    def start(*options: str, accelerator: str = "copy") -> int:
        return run.main(
            [
                *(accelerator, "--in", str(source)),
                *("--out", str(source.with_name("out"))),
                *("--group", "render", "--api-url", "http://api"),
                *("--timeout", str(TIMEOUT_S), *options),
            ]
        )

    return start


def test_a_file_goes_through_a_group(pool, source, command, capsys) -> None:
    assert command("--json") == run.SUCCESS
    report = json.loads(capsys.readouterr().out)
    assert report["tasks"] == 3
    assert report["members"] == 2
    assert report["input_bytes"] == report["output_bytes"] == 3_000_001
    assert source.with_name("out").read_bytes() == source.read_bytes()
    assert command() == run.SUCCESS
    assert "with 3 tasks on 2 members" in capsys.readouterr().out
    assert pool.api.clients == []


@pytest.mark.parametrize(
    ("profile", "tasks"),
    [
        # Pieces of 1,048,500, of 262,100, and of one multiple.
        ({"chunk_multiple_bytes": 100}, 3),
        ({"chunk_multiple_bytes": 100, "return_ratio": 4.0}, 12),
        ({"chunk_multiple_bytes": 1_500_000, "return_ratio": 0.1}, 3),
    ],
)
def test_pieces_are_as_the_accelerator_needs_them(
    pool, source, profile, tasks
) -> None:
    pool.api.accelerators["copy"] |= profile
    target = source.with_name("out")
    shown = []
    with pool.open() as opened:
        report = client.run_group_file(
            opened,
            source,
            target,
            progress=lambda done, total: shown.append((done, total)),
        )
    assert report.tasks == tasks == len(shown)
    assert shown[-1] == (3_000_001, 3_000_001)
    assert all(
        done % profile["chunk_multiple_bytes"] == 0 for done, _ in shown[:-1]
    )
    assert target.read_bytes() == source.read_bytes()


def test_each_task_has_the_offset_of_its_piece() -> None:
    class Fake:
        group_id, members = "g", 1
        profile: typing.ClassVar[dict[str, object]] = {
            "stateless": True,
            "chunk_multiple_bytes": 1,
            "return_ratio": 1.0,
        }

    with open("/dev/zero", "rb") as zeros:
        size_bytes = 2 * grouped.PIECE_BYTES + 5
        found = [
            (offset, len(piece))
            for offset, piece in grouped._pieces(
                zeros, size_bytes, grouped._piece_bytes(Fake.profile)
            )
        ]
    assert found == [
        (0, grouped.PIECE_BYTES),
        (grouped.PIECE_BYTES, grouped.PIECE_BYTES),
        (2 * grouped.PIECE_BYTES, 5),
    ]


def test_a_pipe_without_data_holds_nothing_up(pool, source) -> None:
    """Neither the time limit nor the end of the group waits for it."""
    reading, writing = os.pipe()
    os.write(writing, b"abc")
    target = source.with_name("out")
    with open(reading, "rb", buffering=0) as pipe:
        with pool.open() as opened:
            with pytest.raises(client.OperationTimeout):
                client.run_group_file(
                    opened, pipe, target, size_bytes=5, timeout_s=0.1
                )
        with pytest.raises(client.SessionClosed):
            client.run_group_file(opened, pipe, target, size_bytes=5)
        os.close(writing)
    assert not target.exists()


def _fails(
    command: typing.Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    source: pathlib.Path,
    *options: str,
    **more: str,
) -> str:
    """Return the command's message, which leaves no output."""
    assert command(*options, **more) != run.SUCCESS
    assert not list(source.parent.glob("*out*"))
    return capsys.readouterr().err


def test_bad_wishes_of_the_command(pool, source, command, capsys) -> None:
    pool.api.accelerators["aes"] = {"name": "aes"}
    pool.api.accelerators["sha"] = {"name": "sha", "stateless": False}

    def fails(*options: str, **more: str) -> str:
        return _fails(command, capsys, source, *options, **more)

    assert codes.GROUP_NOT_FOUND in fails("--group", "other")
    assert codes.UNKNOWN_ACCELERATOR in fails(accelerator="none")
    assert codes.WRONG_ACCELERATOR in fails(accelerator="sha")
    for options in (
        ("--priority", "3"),
        ("--wait-timeout", "3"),
        ("--fallback", "cpu"),
        ("--checksum",),
        ("--request-id", "r"),
    ):
        message = fails(*options)
        assert f"INVALID_USAGE: {options[0]} cannot be used with" in message
    pool.api.groups[0]["accelerator"] = "sha"
    message = fails(accelerator="sha")
    assert codes.ACCELERATOR_NOT_STATELESS in message
    assert pool.api.clients == []


def test_an_empty_file_is_a_task(pool, source, command, capsys) -> None:
    """Some accelerators have output for it."""
    source.write_bytes(b"")
    assert command() == run.SUCCESS
    assert "with 1 task on 2 members" in capsys.readouterr().out
    assert source.with_name("out").read_bytes() == b""
    assert pool.api.clients == []


def test_a_failed_task_ends_the_command(pool, source, command, capsys) -> None:
    source.write_bytes(b"fail".ljust(2_000_000))
    # The echo fails a task of which the first word says so.
    message = _fails(command, capsys, source)
    assert "CORE_FAILED" in message
    assert pool.api.clients == []


def test_members_that_do_not_come(pool, source, command, capsys) -> None:
    pool.api.hosts = []
    message = _fails(command, capsys, source, "--timeout", "0.5")
    assert f"{codes.TIMEOUT}: the group render has no members yet" in message


@pytest.mark.parametrize("size_bytes", [3_000_002, 5])
def test_a_source_of_another_size(pool, source, size_bytes) -> None:
    with pool.open() as opened, pytest.raises(client.InvalidRequest) as caught:
        client.run_group_file(
            opened, source, source.with_name("out"), size_bytes=size_bytes
        )
    assert caught.value.code == codes.SIZE_MISMATCH
    assert not list(source.parent.glob("*out*"))
