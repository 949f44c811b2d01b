# SPDX-License-Identifier: Apache-2.0

"""The size of an input, announced and real."""

from __future__ import annotations

import gzip
import io
import os
import pathlib
import socket
import typing
from collections.abc import Iterator

import pytest

from fpgapool import client
from fpgapool.client.transfers import files

_HUGE_BYTES = (4 << 30) + 10


def _sparse(path: pathlib.Path) -> typing.BinaryIO:
    with path.open("wb") as stream:
        stream.truncate(_HUGE_BYTES)
    return path.open("rb")


def _moved(path: pathlib.Path) -> typing.BinaryIO:
    stream = io.BytesIO(bytes(15))
    stream.seek(5)
    return stream


def _file(path: pathlib.Path) -> typing.BinaryIO:
    path.write_bytes(bytes(10))
    return typing.cast(typing.BinaryIO, files.Input(path))


def _compressed(path: pathlib.Path) -> typing.BinaryIO:
    path.write_bytes(gzip.compress(bytes(10)))
    return typing.cast(typing.BinaryIO, gzip.open(path))


def _pipe(_path: pathlib.Path) -> typing.BinaryIO:
    reading, writing = os.pipe()
    os.write(writing, bytes(10))
    os.close(writing)
    return typing.cast(typing.BinaryIO, files.Input(reading, "a pipe"))


_KINDS = {
    "file": (_file, 10),
    "memory": (_moved, 10),
    "sparse": (_sparse, _HUGE_BYTES),
    "compressed": (_compressed, 10),
    "pipe": (_pipe, 10),
}


@pytest.fixture(params=_KINDS)
def source(
    request: pytest.FixtureRequest, tmp_path: pathlib.Path
) -> Iterator[tuple[typing.BinaryIO, int]]:
    """Give an input, and its size."""
    make, size_bytes = _KINDS[request.param]
    with make(tmp_path / "in") as stream:
        yield stream, size_bytes


def _take(stream: typing.BinaryIO, size_bytes: int) -> str | None:
    """Read an input as transfers do; return the code of its refusal."""
    try:
        files.check_size(stream, size_bytes)
        if stream.seekable():
            stream.seek(size_bytes, os.SEEK_CUR)
        else:
            stream.read(size_bytes)
        files.check_end(stream, lambda: pytest.fail("there is nothing left"))
    except client.InvalidRequest as exc:
        return exc.code
    return None


def test_the_announced_size(source: tuple[typing.BinaryIO, int]) -> None:
    assert _take(*source) is None
    assert not source[0].read(1)


@pytest.mark.parametrize("announced_bytes", [0, 1, 9])
def test_less_than_there_is(
    source: tuple[typing.BinaryIO, int], announced_bytes: int
) -> None:
    assert _take(source[0], announced_bytes) == "SIZE_MISMATCH"


@pytest.mark.parametrize("kind", ["file", "memory", "sparse"])
def test_more_than_there_is(kind: str, tmp_path: pathlib.Path) -> None:
    """Is refused before anything is read, where a look shows it."""
    make, size_bytes = _KINDS[kind]
    with make(tmp_path / "in") as stream:
        start = stream.tell()
        with pytest.raises(client.InvalidRequest, match="were specified"):
            files.check_size(stream, size_bytes + 1)
        assert stream.tell() == start


def test_a_file_that_grows(tmp_path: pathlib.Path) -> None:
    with _file(tmp_path / "in") as stream:
        files.check_size(stream, 10)
        stream.read(10)
        with (tmp_path / "in").open("ab") as more:
            more.write(b"x")
        with pytest.raises(client.InvalidRequest, match="grown"):
            files.check_end(stream, lambda: None)


@pytest.mark.parametrize("path", ["/proc/version", "/proc/self/status"])
def test_files_that_do_not_know_their_size(path: str) -> None:
    with files.Input(path) as stream:
        source = typing.cast(typing.BinaryIO, stream)
        with pytest.raises(client.InvalidRequest, match="unknown"):
            files.size_of(source)
        assert _take(source, 5) == "SIZE_MISMATCH"


def test_a_file_that_has_less_than_it_says(tmp_path: pathlib.Path) -> None:
    """As those of /sys do, which say that they have a page."""

    class Page(files.Input):
        def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
            position = super().seek(offset, whence)
            return 4096 if whence == os.SEEK_END else position

    (tmp_path / "in").write_bytes(bytes(10))
    with Page(tmp_path / "in") as stream:
        source = typing.cast(typing.BinaryIO, stream)
        with pytest.raises(client.InvalidRequest, match="unknown"):
            files.size_of(source)
        assert _take(source, 10) is None


def test_devices_and_streams_of_the_caller_may_go_on() -> None:
    with files.Input("/dev/zero") as zeros:
        assert _take(typing.cast(typing.BinaryIO, zeros), 5) is None
    ours, theirs = socket.socketpair()
    with ours, theirs, ours.makefile("rb") as stream:
        theirs.send(b"first second")
        assert _take(stream, 5) is None
        assert stream.read(7) == b" second"


def test_a_pipe_that_does_not_end() -> None:
    """Is awaited as long as the caller wants."""
    reading, writing = os.pipe()
    with files.Input(reading) as stream:
        with pytest.raises(ZeroDivisionError):
            files.check_end(
                typing.cast(typing.BinaryIO, stream), lambda: 1 / 0
            )
    os.close(writing)


def test_a_stream_that_only_tells_its_position() -> None:
    """As answers of HTTP libraries do: its rest is the caller's."""

    class Answer:
        def tell(self) -> int:
            return 5

    answer = typing.cast(typing.BinaryIO, Answer())
    files.check_size(answer, 5)
    files.check_end(answer, lambda: None)


@pytest.mark.parametrize("letter", ["a", "ü"])
def test_names_as_long_as_file_systems_allow(
    letter: str, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / (letter * (255 // len(os.fsencode(letter))))
    with files.replacing(path) as stream:
        stream.write(b"data")
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("name", ["", "none/"])
def test_paths_without_a_name_are_refused_at_once(
    name: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OSError) as caught, files.replacing(name):
        pytest.fail("it was opened")
    assert caught.value.filename == name
    assert not [*tmp_path.iterdir()]


def test_a_working_directory_that_was_deleted(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted = tmp_path / "deleted"
    deleted.mkdir()
    monkeypatch.chdir(deleted)
    deleted.rmdir()
    with pytest.raises(FileNotFoundError) as caught, files.replacing("out"):
        pytest.fail("it was opened")
    assert caught.value.filename == "out"
