# SPDX-License-Identifier: Apache-2.0

"""The snapshot: how it is read, and for how long it counts."""

from __future__ import annotations

import http.server
import json
import threading
import typing
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nova.conf import CONF

from fpgapool_nova_filters import snapshot
from tests.nova_filters import pools

TTL_S = 5
MAX_AGE_S = 60
LIMIT_S = 30
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                "snapshot hosts up slots total usable nic_load".split()
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


class Setting:
    """A cache with its clock and what it asks."""

    def __init__(self) -> None:
        self.clock = pools.Clock()
        self.source = pools.Source(pools.document(a=pools.host_document()))
        self.cache = self.make(self.source)

    def make(self, fetch: typing.Any) -> snapshot.Cache:
        """Return a cache that asks something else."""
        return snapshot.Cache(
            fetch, self.clock, ttl_s=TTL_S, max_age_s=MAX_AGE_S, wait_s=LIMIT_S
        )


@pytest.fixture
def world() -> Setting:
    """Give a cache that has asked nothing yet."""
    return Setting()


# Reading.


def test_host_is_read() -> None:
    document = pools.document(
        a=pools.host_document(aes=(4, 3), fft=(2, 0), nic_load=0.25, queued=2)
    )
    assert snapshot.parse(document) == {
        "a": snapshot.Host(
            up=True,
            has_boards=True,
            all=snapshot.Slots(4, 3),
            accelerators={
                "aes": snapshot.Slots(4, 3),
                "fft": snapshot.Slots(2, 0),
            },
            queued=2,
            nic_load=0.25,
        )
    }


def test_host_that_is_down_has_boards_and_no_slots() -> None:
    host = pools.host(aes=(4, 4), up=False)
    assert host.has_boards
    assert host.all == host.slots("aes") == snapshot.NO_SLOTS


def test_more_than_is_needed_is_left_alone() -> None:
    document = pools.document(a=pools.host_document(aes=(1, 1)))
    document["snapshot"]["more"] = document["more"] = 1
    document["snapshot"]["hosts"]["a"]["more"] = None
    assert snapshot.parse(document)["a"].slots("aes").free == 1


@pytest.mark.parametrize("load", [-1.0, 0.5, 7.0])
def test_load_is_a_share(load: float) -> None:
    assert 0 <= pools.host(nic_load=load).nic_load <= 1


@given(document=JSON)
def test_anything_else_is_malformed(document: typing.Any) -> None:
    with pytest.raises(snapshot.MalformedError):
        snapshot.parse({"snapshot": {"hosts": {"a": document}}})


@pytest.mark.parametrize(
    "document", [None, [], {}, {"snapshot": {}}, {"snapshot": {"hosts": []}}]
)
def test_what_has_no_hosts_is_malformed(document: typing.Any) -> None:
    with pytest.raises(snapshot.MalformedError):
        snapshot.parse(document)


# Age.


def test_it_is_asked_for_again_when_it_is_old(world: Setting) -> None:
    first = world.cache.hosts()
    world.clock.now_s += TTL_S - 0.1
    assert world.cache.hosts() is first
    assert world.source.count == 1
    world.clock.now_s += 0.1
    assert world.cache.hosts() is not first
    assert world.source.count == 2


def test_old_one_counts_while_it_cannot_be_asked_for(
    world: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    first = world.cache.hosts()
    world.source.answer = OSError("nobody listens")
    # No instance was asked for meanwhile: that the API is away is news.
    world.clock.now_s += 100 * MAX_AGE_S
    assert world.cache.hosts() is first
    assert "is still used" in caplog.text
    assert "nobody listens" in caplog.text
    world.clock.now_s += MAX_AGE_S
    assert world.cache.hosts() is first


def test_old_one_does_not_count_for_ever(world: Setting) -> None:
    world.cache.hosts()
    world.source.answer = OSError("nobody listens")
    for _ in range(2):
        world.clock.now_s += MAX_AGE_S
        world.cache.hosts()
    world.clock.now_s += 0.1
    with pytest.raises(snapshot.UnknownError, match="nobody listens"):
        world.cache.hosts()


def test_time_counts_from_the_first_failure_after_an_answer(
    world: Setting,
) -> None:
    world.cache.hosts()
    problem, answer = OSError("nobody listens"), world.source.answer
    for said in (problem, answer, problem):
        world.source.answer = said
        world.clock.now_s += MAX_AGE_S
        world.cache.hosts()
    world.clock.now_s += MAX_AGE_S
    world.cache.hosts()


def test_others_wait_rather_than_go_by_a_very_old_one(world: Setting) -> None:
    slow = Slow()
    slow.released.set()
    cache = world.make(slow)
    first = cache.hosts()
    world.clock.now_s += MAX_AGE_S + 0.1
    slow.asked.clear()
    slow.released.clear()
    results: list[object] = []
    threads = [in_thread(cache.hosts, results)]
    assert slow.asked.wait(LIMIT_S)
    threads.append(in_thread(cache.hosts, results))
    slow.released.set()
    for thread in threads:
        thread.join()
    assert results[0] is results[1] is not first


def test_api_that_is_away_is_not_asked_by_each_request(world: Setting) -> None:
    world.source.answer = OSError("nobody listens")
    for _ in range(3):
        with pytest.raises(snapshot.UnknownError):
            world.cache.hosts()
    assert world.source.count == 1
    world.clock.now_s += TTL_S
    world.source.answer = pools.document(a=pools.host_document())
    assert set(world.cache.hosts()) == {"a"}


def test_malformed_answer_is_a_failure(world: Setting) -> None:
    world.source.answer = {"snapshot": "soon"}
    with pytest.raises(snapshot.UnknownError, match="MalformedError"):
        world.cache.hosts()


def test_time_to_live_may_be_longer_than_the_greatest_age() -> None:
    clock = pools.Clock()
    source = pools.Source(pools.document())
    cache = snapshot.Cache(source, clock, ttl_s=10, max_age_s=5, wait_s=1)
    cache.hosts()
    clock.now_s += 9
    assert cache.hosts() == {}


class Slow:
    """An API that answers when it is told to."""

    def __init__(self) -> None:
        self.count = 0
        self.asked = threading.Event()
        self.released = threading.Event()

    def __call__(self) -> dict[str, snapshot.Host]:
        """Answer some time."""
        self.count += 1
        self.asked.set()
        assert self.released.wait(LIMIT_S)
        return {}


def in_thread(action: typing.Any, results: list[object]) -> threading.Thread:
    """Start something in a thread that notes what it returns."""
    thread = threading.Thread(target=lambda: results.append(action()))
    thread.start()
    return thread


def test_others_go_by_the_old_one_while_one_asks(world: Setting) -> None:
    slow = Slow()
    slow.released.set()
    cache = world.make(slow)
    first = cache.hosts()
    world.clock.now_s += TTL_S
    slow.asked.clear()
    slow.released.clear()
    results: list[object] = []
    thread = in_thread(cache.hosts, results)
    assert slow.asked.wait(LIMIT_S)
    assert cache.hosts() is first
    slow.released.set()
    thread.join()
    assert results[0] is not first
    assert slow.count == 2


def test_who_knows_nothing_waits_for_the_one_that_asks(world: Setting) -> None:
    slow = Slow()
    cache = world.make(slow)
    results: list[object] = []
    first = in_thread(cache.hosts, results)
    assert slow.asked.wait(LIMIT_S)
    others = [in_thread(cache.hosts, results) for _ in range(8)]
    slow.released.set()
    for thread in (first, *others):
        thread.join()
    assert results == [{}] * 9
    assert slow.count == 1


def test_interrupted_question_may_be_asked_again(world: Setting) -> None:
    world.source.answer = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        world.cache.hosts()
    world.clock.now_s += TTL_S
    world.source.answer = pools.document()
    assert world.cache.hosts() == {}


# The API.


class Api(http.server.ThreadingHTTPServer):
    """An API that answers as it is told."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = 200
        self.body = json.dumps(
            pools.document(a=pools.host_document(aes=(1, 1)))
        )
        self.paths: list[str] = []
        self.versions: list[str | None] = []

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Answer."""
        assert isinstance(self.server, Api)
        self.server.paths.append(self.path)
        self.server.versions.append(self.headers["OpenStack-API-Version"])
        body = self.server.body.encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def api() -> Iterator[Api]:
    """Give an API, which nova.conf knows."""
    with Api() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        CONF.set_override("auth_type", "none", "fpgapool")
        CONF.set_override("endpoint_override", server.url, "fpgapool")
        try:
            yield server
        finally:
            CONF.clear_override("auth_type", "fpgapool")
            CONF.clear_override("endpoint_override", "fpgapool")
            server.shutdown()
            thread.join()


def test_api_is_asked_where_it_is(api: Api) -> None:
    assert snapshot.Source()()["a"].slots("aes") == snapshot.Slots(1, 1)
    assert api.paths == ["/v1/pool/snapshot"]
    assert api.versions == ["fpgapool 1.0"]


def test_catalog_may_name_the_version(api: Api) -> None:
    CONF.set_override("endpoint_override", f"{api.url}/v1/", "fpgapool")
    snapshot.Source()()
    assert api.paths == ["/v1/pool/snapshot"]


@pytest.mark.parametrize(
    ("status", "body"),
    [(403, "{}"), (503, "{}"), (200, "soon"), (200, "{}"), (200, "")],
)
def test_refusals_and_nonsense_are_failures(
    api: Api, world: Setting, status: int, body: str
) -> None:
    api.status, api.body = status, body
    cache = world.make(snapshot.Source())
    with pytest.raises(snapshot.UnknownError, match=r"\w+: "):
        cache.hosts()


def test_nobody_listens(api: Api, world: Setting) -> None:
    CONF.set_override("endpoint_override", "http://127.0.0.1:1", "fpgapool")
    with pytest.raises(snapshot.UnknownError, match="ConnectFailure"):
        world.make(snapshot.Source()).hosts()


def test_section_may_be_missing(world: Setting) -> None:
    with pytest.raises(snapshot.UnknownError):
        world.make(snapshot.Source()).hosts()


def test_section_may_be_wrong(world: Setting, api: Api) -> None:
    CONF.set_override("auth_type", "nonsense", "fpgapool")
    with pytest.raises(snapshot.UnknownError, match="nonsense"):
        world.make(snapshot.Source()).hosts()
