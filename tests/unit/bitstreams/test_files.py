# SPDX-License-Identifier: Apache-2.0

"""A directory as the store."""

import itertools
import os
import pathlib

import pytest

from fpgapool.bitstreams import base
from fpgapool.bitstreams import files
from fpgapool.bitstreams import stores
from fpgapool.common import exception
from fpgapool.vocabulary import codes
from tests.unit.bitstreams import samples

DATA = bytes(range(256)) * 9000
RECORD = samples.record(name="../../etc/passwd")


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def store(directory):
    return files.FileStore(directory)


def contents(directory: pathlib.Path) -> list[str]:
    return sorted(
        str(path.relative_to(directory))
        for path in directory.rglob("*")
        if path.is_file()
    )


def test_what_was_written_is_read(store, directory):
    location = store.write(RECORD, samples.incoming(DATA))
    parts = list(store.read(location))
    assert b"".join(parts) == DATA
    assert max(map(len, parts)) <= base.CHUNK_BYTES
    path = files.relative_path(samples.sha256(DATA), RECORD.bitstream_id)
    assert contents(directory) == [path]
    assert (directory / path).stat().st_mode & 0o777 == 0o640
    # Another process finds it, too.
    again = files.FileStore(directory)
    assert b"".join(again.read(location)) == DATA


def test_a_file_of_which_nothing_is_read_is_closed(store):
    location = store.write(RECORD, samples.incoming(DATA))
    chunks = store.read(location)
    chunks.close()
    with pytest.raises(exception.StoreFailed, match="closed file"):
        next(chunks)


def test_a_file_can_be_deleted_again_and_again(store, directory):
    location = store.write(RECORD, samples.incoming(DATA))
    store.delete(location)
    store.delete(location)
    assert contents(directory) == []
    with pytest.raises(exception.StoreFailed, match="missing"):
        store.read(location)


def test_two_bitstreams_of_the_same_content_have_two_files(store):
    first = store.write(RECORD, samples.incoming(DATA))
    second = store.write(samples.record(2), samples.incoming(DATA))
    store.delete(first)
    assert b"".join(store.read(second)) == DATA


@pytest.mark.parametrize(
    ("incoming", "code"),
    [
        (lambda: samples.incoming(DATA, max_bytes=1000), "TOO_LARGE"),
        # It says that there is less, or more, than there is.
        (lambda: samples.incoming(DATA, length_bytes=5), "INCOMPLETE"),
        (lambda: samples.incoming(DATA, length_bytes=10**7), "INCOMPLETE"),
        (lambda: samples.incoming(b""), "INCOMPLETE"),
    ],
)
def test_nothing_is_left_of_what_is_wrong(store, directory, incoming, code):
    with pytest.raises(exception.BitstreamRefused) as caught:
        store.write(RECORD, incoming())
    assert caught.value.code.endswith(code)
    assert contents(directory) == []


def test_nothing_is_left_when_the_sender_goes(store, directory):
    incoming = samples.incoming(b"")
    incoming._stream = samples.Broken(DATA)
    with pytest.raises(exception.BitstreamRefused) as caught:
        store.write(RECORD, incoming)
    assert caught.value.code == codes.UPLOAD_INCOMPLETE
    assert contents(directory) == []


@pytest.mark.parametrize(("timeout_s", "in_time"), [(9.5, False), (1e6, True)])
def test_a_sender_that_takes_its_time(store, directory, timeout_s, in_time):
    # It is looked at once at the start, then after each part.
    ticks = itertools.count(1000.0, 5.0)
    incoming = samples.incoming(
        DATA, timeout_s=timeout_s, clock=lambda: next(ticks)
    )
    if in_time:
        assert b"".join(store.read(store.write(RECORD, incoming))) == DATA
        return
    with pytest.raises(exception.BitstreamRefused) as caught:
        store.write(RECORD, incoming)
    assert caught.value.code == codes.UPLOAD_INCOMPLETE
    assert contents(directory) == []


def test_a_store_that_cannot_be_written_is_told_without_its_path(tmp_path):
    (tmp_path / "store").write_text("a file")
    store = files.FileStore(tmp_path / "store")
    with pytest.raises(exception.StoreUnavailable) as caught:
        store.write(RECORD, samples.incoming(DATA))
    assert str(tmp_path) not in str(caught.value)


@pytest.mark.parametrize(
    "location",
    ["", "..", "../x", f"{'a' * 64}./../../x", f"{'a' * 64}.x", "/etc/x.y"],
)
def test_no_path_is_made_of_what_somebody_says(store, location):
    with pytest.raises((exception.StoreFailed, exception.StoreUnavailable)):
        list(store.read(location))


def age(path: pathlib.Path, age_s: float) -> None:
    then = path.stat().st_mtime - age_s
    os.utime(path, (then, then))


def test_sweeping_removes_what_belongs_to_nobody(store, directory):
    kept, orphan, fresh = (
        store.write(samples.record(number), samples.incoming(DATA))
        for number in (1, 2, 3)
    )
    part = directory / "incoming" / "tmpabc"
    part.write_bytes(b"half")
    for path in directory.rglob("*"):
        if path.is_file() and path.name != fresh:
            age(path, 1000)
    removed = stores.sweep(
        store, lambda: [samples.record(1, location=kept)], 500
    )
    assert removed == 2
    assert [path.partition("/")[2] for path in contents(directory)] == sorted(
        [kept, fresh]
    )
    assert orphan not in str(contents(directory))
