# SPDX-License-Identifier: Apache-2.0

"""The cache of bitstreams on real files, and where they come from."""

from __future__ import annotations

import errno
import hashlib
import http.server
import os
import pathlib
import threading
import time
from collections.abc import Generator
from collections.abc import Iterator

import pytest
from keystoneauth1 import adapter
from keystoneauth1 import noauth
from keystoneauth1 import session
from oslo_config import cfg

from fpgapool import conf as fpgapool_conf
from fpgapool import objects
from fpgapool.agent.bitstreams import cache
from fpgapool.agent.bitstreams import sources
from fpgapool.bitstreams import files


def reference(data: bytes, number: int = 1) -> objects.BitstreamRef:
    return objects.BitstreamRef(
        bitstream_id=f"7f000000-0000-4000-8000-{number:012d}",
        checksum_sha256=hashlib.sha256(data).hexdigest(),
        size_bytes=len(data),
    )


class Source:
    """Has what it is given; ``script`` is what it does first, in turn."""

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}
        self.script: list[Exception | bytes] = []
        self.asked: list[str] = []

    def put(self, data: bytes, number: int = 1) -> objects.BitstreamRef:
        found = reference(data, number)
        self.data[found.bitstream_id] = data
        return found

    def pieces(
        self, bitstream: objects.BitstreamRef
    ) -> Generator[bytes, None, None]:
        self.asked.append(bitstream.bitstream_id)
        data = self.data[bitstream.bitstream_id]
        if self.script:
            step = self.script.pop(0)
            if isinstance(step, Exception):
                yield data[:1]
                raise step
            data = step
        for start in range(0, len(data), 7):
            yield data[start : start + 7]


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def make_cache(tmp_path: pathlib.Path, source: Source):
    def make(
        max_bytes: int = 1000, timeout_s: float = 30.0
    ) -> cache.BitstreamCache:
        made = cache.BitstreamCache(
            tmp_path / "cache",
            source,
            max_bytes=max_bytes,
            timeout_s=timeout_s,
        )
        made.load()
        return made

    return make


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "FIRST_RETRY_S", 0.0)


def names(tmp_path: pathlib.Path) -> set[str]:
    return {path.name for path in (tmp_path / "cache").iterdir()}


def age(path: str, seconds: float) -> None:
    found = os.stat(path)
    os.utime(path, (found.st_atime, found.st_mtime - seconds))


def test_a_file_is_fetched_once_and_private(make_cache, source, tmp_path):
    made = make_cache()
    bitstream = source.put(b"x" * 100)
    path = made.get(bitstream)
    assert made.get(bitstream) == path
    assert pathlib.Path(path).read_bytes() == b"x" * 100
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert os.stat(tmp_path / "cache").st_mode & 0o777 == 0o700
    counts = made.counts
    assert (counts.hits, counts.misses, counts.failures) == (1, 1, 0)
    assert (counts.fetched_bytes, counts.stored_bytes) == (100, 100)


def test_an_empty_file_is_a_file(make_cache, source):
    assert pathlib.Path(make_cache().get(source.put(b""))).read_bytes() == b""


def test_the_least_recently_used_makes_room(make_cache, source, tmp_path):
    made = make_cache(max_bytes=250)
    first, second, third = (
        source.put(bytes([number]) * 100, number) for number in (1, 2, 3)
    )
    made.get(first)
    made.get(second)
    made.get(first)
    made.get(third)
    assert names(tmp_path) == {first.checksum_sha256, third.checksum_sha256}
    assert (made.counts.evictions, made.counts.stored_bytes) == (1, 200)


def test_what_is_in_use_stays(make_cache, source, tmp_path):
    made = make_cache(max_bytes=250)
    first, second, third = (
        source.put(bytes([number]) * 100, number) for number in (1, 2, 3)
    )
    made.get(first)
    made.get(second)
    made.set_in_use(frozenset({first.checksum_sha256}))
    made.get(third)
    assert names(tmp_path) == {first.checksum_sha256, third.checksum_sha256}
    made.set_in_use(frozenset({first.checksum_sha256, third.checksum_sha256}))
    made.get(second)
    # Nothing could go: sessions come before the limit.
    assert made.counts.stored_bytes == 300


def test_a_file_that_is_larger_than_the_cache_is_kept_while_needed(
    make_cache, source, tmp_path
):
    made = make_cache(max_bytes=50)
    large, small = source.put(b"l" * 100, 1), source.put(b"s" * 10, 2)
    assert os.path.exists(made.get(large))
    made.get(small)
    assert names(tmp_path) == {small.checksum_sha256}


def test_what_an_earlier_agent_left_is_found_in_its_order(
    make_cache, source, tmp_path
):
    made = make_cache()
    first, second = source.put(b"1" * 100, 1), source.put(b"2" * 100, 2)
    paths = [made.get(first), made.get(second)]
    age(paths[1], 1000.0)
    (tmp_path / "cache" / f"{'0' * 64}.1234.part").write_bytes(b"half")
    (tmp_path / "cache" / "README").write_bytes(b"not ours")
    again = make_cache(max_bytes=150)
    assert names(tmp_path) == {first.checksum_sha256, "README"}
    assert again.get(first) == paths[0]
    assert source.asked == [first.bitstream_id, second.bitstream_id]


def test_what_was_damaged_meanwhile_is_fetched_again(make_cache, source):
    bitstream = source.put(b"x" * 100)
    path = make_cache().get(bitstream)
    pathlib.Path(path).write_bytes(b"y" * 100)
    again = make_cache()
    assert again.get(bitstream) == path
    assert pathlib.Path(path).read_bytes() == b"x" * 100
    assert (again.counts.damaged, again.counts.misses) == (1, 1)


def test_what_was_damaged_while_it_runs_is_fetched_again(make_cache, source):
    made = make_cache()
    bitstream = source.put(b"x" * 100)
    path = pathlib.Path(made.get(bitstream))
    path.write_bytes(b"y" * 100)
    made.get(bitstream)
    assert path.read_bytes() == b"x" * 100
    path.unlink()
    made.get(bitstream)
    assert path.read_bytes() == b"x" * 100
    assert len(source.asked) == 3


def test_what_the_driver_refuses_is_fetched_again(make_cache, source):
    made = make_cache()
    bitstream = source.put(b"x" * 100)
    path = made.get(bitstream)
    assert made.get(bitstream, True) == path
    assert (len(source.asked), made.counts.damaged) == (2, 1)


@pytest.mark.parametrize(
    "wrong", [b"y" * 100, b"x" * 99, b"x" * 101, b"", b"x" * 10**6]
)
def test_what_comes_wrong_is_asked_for_again(
    make_cache, source, tmp_path, wrong
):
    made = make_cache()
    bitstream = source.put(b"x" * 100)
    source.script = [wrong, sources.SourceError("reset")]
    path = made.get(bitstream)
    assert pathlib.Path(path).read_bytes() == b"x" * 100
    assert len(source.asked) == 3
    assert names(tmp_path) == {bitstream.checksum_sha256}


def test_what_stays_wrong_is_given_up_in_time(make_cache, source, tmp_path):
    made = make_cache(timeout_s=0.05)
    bitstream = source.put(b"x" * 100)
    source.script = [b"wrong"] * 10**6
    with pytest.raises(cache.Unavailable, match=r"checksum|more than"):
        made.get(bitstream)
    assert names(tmp_path) == set()
    assert (made.counts.failures, made.counts.stored_bytes) == (1, 0)


def test_what_is_final_is_not_asked_for_again(make_cache, source, tmp_path):
    made = make_cache()
    bitstream = source.put(b"x" * 100)
    source.script = [sources.SourceError("404", final=True)]
    with pytest.raises(cache.Unavailable, match="404"):
        made.get(bitstream)
    assert len(source.asked) == 1
    assert names(tmp_path) == set()


@pytest.mark.parametrize("function", ["write", "open", "fsync"])
def test_a_full_disk_is_told_and_leaves_nothing(
    make_cache, source, tmp_path, monkeypatch, function
):
    made = make_cache()
    bitstream = source.put(b"x" * 100)

    def full(*arguments: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(cache.os, function, full)
        with pytest.raises(cache.Unavailable, match="no space"):
            made.get(bitstream)
    assert names(tmp_path) == set()
    assert made.counts.failures == 1
    assert os.path.exists(made.get(bitstream))


def test_a_stopping_agent_waits_for_nothing(make_cache, source):
    made = make_cache()
    bitstream = source.put(b"x" * 100)
    made.stop()
    with pytest.raises(cache.Unavailable, match="stopping"):
        made.get(bitstream)


def test_what_is_overdue_is_not_begun(make_cache, source, tmp_path):
    made = make_cache()
    bitstream = source.put(b"x" * 100)
    path = made.get(bitstream)
    for again in (False, True):
        with pytest.raises(cache.Late, match="another fetch"):
            made.get(bitstream, again, time.monotonic())
    assert len(source.asked) == 1
    assert made.counts.failures == 2
    # Nor is what is here thrown away.
    assert os.path.exists(path)


def test_what_is_known_to_be_right_is_found_at_once(make_cache, source):
    made = make_cache()
    bitstream = source.put(b"x" * 100)
    assert made.peek(bitstream) is None
    path = made.get(bitstream)
    assert made.peek(bitstream) == path
    assert made.counts.hits == 1
    # One that nobody has read since the start must be read first.
    again = make_cache()
    assert again.peek(bitstream) is None
    again.get(bitstream)
    assert again.peek(bitstream) == path
    pathlib.Path(path).write_bytes(b"y" * 100)
    assert again.peek(bitstream) is None
    pathlib.Path(path).unlink()
    assert again.peek(bitstream) is None


@pytest.mark.parametrize("checksum", ["", "../../etc/passwd", "AB" * 32])
def test_nothing_but_a_checksum_becomes_a_path(make_cache, source, checksum):
    bitstream = objects.BitstreamRef(
        bitstream_id="b", checksum_sha256=checksum, size_bytes=1
    )
    with pytest.raises(cache.Unavailable, match="invalid checksum"):
        make_cache().get(bitstream)
    assert source.asked == []


# Sources.


def read(source: sources.Source, bitstream: objects.BitstreamRef) -> bytes:
    return b"".join(source.pieces(bitstream))


def test_the_directory_of_the_file_store(tmp_path):
    bitstream = reference(b"x" * 100)
    source = sources.DirectorySource(tmp_path)
    with pytest.raises(sources.SourceError, match="No such file"):
        read(source, bitstream)
    path = tmp_path / files.relative_path(
        bitstream.checksum_sha256, bitstream.bitstream_id
    )
    path.parent.mkdir()
    path.write_bytes(b"x" * 100)
    assert read(source, bitstream) == b"x" * 100
    outside = objects.BitstreamRef(
        bitstream_id="../x", checksum_sha256="ab" * 32, size_bytes=1
    )
    with pytest.raises(sources.SourceError) as caught:
        read(source, outside)
    assert caught.value.final


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers as the test says: status, length and body."""

    answer: tuple[int, int, bytes] = (200, 0, b"")
    paths: list[str] = []

    def do_GET(self) -> None:
        status, length, body = self.answer
        self.paths.append(self.path)
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def api() -> Iterator[sources.ApiSource]:
    Handler.paths = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/v1"
        yield sources.ApiSource(
            lambda: adapter.Adapter(
                session.Session(auth=noauth.NoAuth(endpoint=url)),
                endpoint_override=url,
            )
        )
        server.shutdown()
        thread.join()


def test_the_api_is_asked_for_the_file(api):
    bitstream = reference(b"x" * 3_000_000)
    Handler.answer = (200, 3_000_000, b"x" * 3_000_000)
    pieces = list(api.pieces(bitstream))
    assert b"".join(pieces) == b"x" * 3_000_000
    assert max(map(len, pieces)) <= sources.PIECE_BYTES
    assert Handler.paths == [f"/v1/bitstreams/{bitstream.bitstream_id}/file"]


@pytest.mark.parametrize(
    ("status", "final"),
    [
        (404, True),
        (403, True),
        (401, True),
        (204, True),
        (429, False),
        (500, False),
        (502, False),
        (503, False),
    ],
)
def test_what_the_api_refuses(api, status, final):
    Handler.answer = (status, 0, b"")
    with pytest.raises(sources.SourceError, match=str(status)) as caught:
        read(api, reference(b"x"))
    assert caught.value.final == final


def test_an_answer_that_is_cut_off_is_no_answer(api):
    Handler.answer = (200, 100, b"x" * 50)
    with pytest.raises(sources.SourceError) as caught:
        read(api, reference(b"x" * 100))
    assert not caught.value.final


def test_an_api_that_is_away_is_worth_another_try():
    source = sources.ApiSource(
        lambda: adapter.Adapter(
            session.Session(auth=noauth.NoAuth()),
            endpoint_override="http://127.0.0.1:9/v1",
        )
    )
    with pytest.raises(sources.SourceError) as caught:
        read(source, reference(b"x"))
    assert not caught.value.final


def configured(text: str, path: pathlib.Path) -> sources.Source:
    file = path / "fpgapool.conf"
    file.write_text(text)
    conf = cfg.ConfigOpts()
    fpgapool_conf.register_opts(conf)
    conf([], default_config_files=[str(file)])
    return sources.from_conf(conf)


def test_the_configured_directory_is_used(tmp_path):
    source = configured(
        "[bitstream_cache]\nsource = file\n"
        f"[bitstreams]\nstore_dir = {tmp_path}\n",
        tmp_path,
    )
    with pytest.raises(sources.SourceError, match=str(tmp_path)):
        read(source, reference(b"x"))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "does not set auth_type"),
        ("auth_type = none\n", "endpoint"),
        ("auth_type = nothing\n", "nothing"),
        ("auth_type = v3password\n", "auth"),
    ],
)
def test_half_a_configuration_is_found_out_when_it_is_needed(
    tmp_path, text, what
):
    source = configured(f"[bitstream_cache]\n{text}", tmp_path)
    with pytest.raises(sources.SourceError, match=what):
        read(source, reference(b"x"))


def test_an_api_without_keystone_can_be_configured(api, tmp_path):
    Handler.answer = (200, 3, b"abc")
    endpoint = api._make_adapter().endpoint_override
    source = configured(
        f"[bitstream_cache]\nauth_type = none\nendpoint = {endpoint}\n",
        tmp_path,
    )
    assert read(source, reference(b"abc")) == b"abc"
