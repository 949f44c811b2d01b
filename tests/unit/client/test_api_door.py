# SPDX-License-Identifier: Apache-2.0

"""Requests to the API that hangs, or has too much to do."""

from __future__ import annotations

import collections
import queue
import threading
import time
import types
import typing

import pytest
from keystoneauth1 import exceptions

from fpgapool.client import cancel
from fpgapool.client import errors
from fpgapool.client.doors import apidoor
from fpgapool.client.doors import instance
from fpgapool.client.doors import poolapi
from fpgapool.client.doors import view
from fpgapool.client.links import waiting
from fpgapool.common.channels import channel
from fpgapool.vocabulary import codes

TIMEOUT_S = 30.0
WANTED = {
    "request_id": "r",
    "accelerator": "copy",
    "size_bytes": 1,
    "priority": 0,
    "wait_timeout_s": None,
}
SESSION = {
    "state": "QUEUED",
    "reason": "",
    "message": "",
    "generation": 0,
    "revision": 1,
    "queued_at": None,
    "ready_at": None,
    "placement": None,
    "connection": None,
    "queue_position": 1,
    "expected_wait_s": None,
    "expected_wait_low_s": None,
    "expected_wait_high_s": None,
    "pending_reasons": [],
    "chunk_bytes": None,
}


class Adapter:
    """The API; answers that it has too much to do, if it is busy."""

    def __init__(self) -> None:
        self.busy = False
        self.asked: queue.SimpleQueue[tuple[str, float]] = queue.SimpleQueue()

    def request(
        self, path: str, method: str, *, timeout: float, **_: object
    ) -> typing.Any:
        self.asked.put((method, timeout))
        if not self.busy:
            return types.SimpleNamespace(ok=True, content=b"", headers={})
        error = {"code": "RATE_LIMITED", "detail": "later"}
        return types.SimpleNamespace(
            ok=False,
            status_code=429,
            content=b"x",
            headers={"Retry-After": "0"},
            json=lambda: {"errors": [error]},
        )


@pytest.fixture
def adapter() -> Adapter:
    return Adapter()


def test_an_api_that_hangs_is_asked_again_before_the_deadline(adapter) -> None:
    hour = channel.deadline_after(3600.0)
    apidoor.ApiDoor(adapter, cancel.CancelToken(), hour)
    _method, timeout_s = adapter.asked.get(timeout=TIMEOUT_S)
    assert timeout_s <= 120


def test_whoever_has_cancelled_asks_no_more(adapter) -> None:
    """A late request would open a session that nobody comes to."""
    token = cancel.CancelToken()
    hour = channel.deadline_after(3600.0)
    door = apidoor.ApiDoor(adapter, token, hour)
    adapter.asked.get(timeout=TIMEOUT_S)
    adapter.busy = True
    before = set(threading.enumerate())
    asking = threading.Thread(target=_ask, args=(door, hour))
    asking.start()
    adapter.asked.get(timeout=TIMEOUT_S)
    adapter.asked.get(timeout=TIMEOUT_S)
    token.cancel()
    asking.join(TIMEOUT_S)
    for thread in set(threading.enumerate()) - before:
        thread.join(TIMEOUT_S)
        assert not thread.is_alive()


class Limited:
    """An API that allows one session at a time.

    :ivar running: the session that it has not heard the end of.
    :ivar hears_after: how often it is asked for it until it has.
    """

    def __init__(self, hears_after: int | None) -> None:
        self.running = "first"
        self.hears_after = hears_after
        self.asked: list[str] = []

    def request(self, path: str, method: str, **_: object) -> typing.Any:
        if path.startswith("/accelerators"):
            return _answer(200, {"accelerators": []})
        self.asked.append(f"{method} {path}")
        if method == "GET":
            return _answer(200, {"session": self._session(path)})
        if self.running:
            error = {"code": "INSTANCE_SESSION_LIMIT", "detail": "1 at a time"}
            return _answer(429, {"errors": [error]})
        return _answer(202, {"session": {**SESSION, "id": "second"}})

    def _session(self, path: str) -> dict[str, typing.Any]:
        assert path == "/sessions/first"
        if self.hears_after == 0:
            self.running = ""
        elif self.hears_after is not None:
            self.hears_after -= 1
        state = "ACTIVE" if self.running else "CLOSED"
        return {**SESSION, "id": "first", "state": state}


def _answer(status: int, document: dict) -> types.SimpleNamespace:
    return types.SimpleNamespace(
        ok=status < 400,
        status_code=status,
        content=b"x",
        headers={},
        json=lambda: document,
    )


def _open_by(api: Limited) -> None:
    door = apidoor.ApiDoor(api, cancel.CancelToken())
    door.request("open", channel.deadline_after(TIMEOUT_S), **WANTED)


@pytest.fixture
def just_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this process just closed its session."""
    ended = collections.deque([("first", time.monotonic())])
    monkeypatch.setattr(apidoor, "_ended", ended)
    monkeypatch.setattr(apidoor, "_END_LAG_S", TIMEOUT_S)


@pytest.mark.parametrize("hears_after", [0, 2])
def test_a_place_that_was_just_given_back_is_free(
    just_ended, hears_after
) -> None:
    """Though the pool may hear of it after the next request."""
    api = Limited(hears_after)
    _open_by(api)
    asks = ["GET /sessions/first"] * (hears_after + 1)
    assert api.asked == ["POST /sessions", *asks, "POST /sessions"]


def test_a_place_that_is_taken_is_asked_for_once(monkeypatch) -> None:
    long_ago = ("first", time.monotonic() - 3600)
    monkeypatch.setattr(apidoor, "_ended", collections.deque([long_ago]))
    api = Limited(0)
    with pytest.raises(errors.RequestRejected) as caught:
        _open_by(api)
    assert caught.value.code == "INSTANCE_SESSION_LIMIT"
    assert api.asked == ["POST /sessions"]


def test_an_end_that_is_never_heard_of_is_not_waited_for_ever(
    just_ended, monkeypatch
) -> None:
    monkeypatch.setattr(apidoor, "_END_LAG_S", 0.5)
    api = Limited(None)
    with pytest.raises(errors.RequestRejected):
        _open_by(api)
    assert api.asked.count("POST /sessions") <= 2


def test_what_is_closed_is_remembered(monkeypatch) -> None:
    ended: collections.deque[tuple[str, float]] = collections.deque()
    monkeypatch.setattr(apidoor, "_ended", ended)
    api = Limited(0)
    api.running = ""
    unused = apidoor.ApiDoor(api, cancel.CancelToken())
    door = apidoor.ApiDoor(api, cancel.CancelToken())
    door.request("open", channel.deadline_after(TIMEOUT_S), **WANTED)
    unused.close()
    door.close()
    assert [session_id for session_id, _ in ended] == ["second"]


def _ask(door: apidoor.ApiDoor, deadline_s: float) -> None:
    with pytest.raises(errors.Cancelled):
        door.request("accelerator", deadline_s, name="copy")


def test_what_nobody_wants_is_not_connected_again(adapter) -> None:
    door = apidoor.ApiDoor(adapter, cancel.CancelToken())
    answered = threading.Event()
    adapter.request = lambda *_, **__: answered.wait(TIMEOUT_S)
    door.shutdown()
    with pytest.raises(errors.FrontDoorUnavailable):
        door.reconnect()
    answered.set()


def test_a_session_of_the_api_is_read_into_the_clients_view() -> None:
    ready = {
        **SESSION,
        "id": "first",
        "state": "READY",
        "queued_at": "1970-01-01T00:00:02Z",
        "pending_reasons": [{"code": "NO_IDLE_SLOT", "message": "m"}],
        "placement": {"host_name": "n", "device": "d", "slot": 1},
        "connection": {
            "endpoints": [{"network": "n", "address": "a", "port": 2}],
            "secret": "beef",
        },
    }
    read = view.SessionView.from_api(ready)
    assert (read.session_id, read.state, read.secret) == (
        "first",
        "READY",
        "beef",
    )
    assert (read.queued_at, read.ready_at) == (2.0, None)
    assert (read.host_name, read.device, read.slot) == ("n", "d", 1)
    assert read.endpoints == (view.Endpoint("n", "a", 2),)
    assert read.pending_reasons == ("NO_IDLE_SLOT",)
    assert view.SessionView.from_message(read) is read


def test_a_session_of_the_api_of_release_1_0_0_is_read() -> None:
    later = {"expected_wait_low_s", "expected_wait_high_s"}
    shown = {name: SESSION[name] for name in SESSION.keys() - later}
    read = view.SessionView.from_api({**shown, "id": "first"})
    assert (read.session_id, read.expected_wait_low_s) == ("first", None)
    del shown["revision"]
    with pytest.raises(KeyError):
        view.SessionView.from_api({**shown, "id": "first"})


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ({"queued_at": "soon"}, errors.RequestRejected),
        ({"pending_reasons": [{}]}, errors.RequestRejected),
        ({"placement": 1}, errors.RequestRejected),
        ({"state": 1}, errors.SessionFailed),
        ({"connection": {"secret": 1}}, errors.SessionFailed),
    ],
)
def test_a_bad_session_of_the_api_is_an_error(
    wrong: dict[str, typing.Any], kind: type[errors.FpgapoolError]
) -> None:
    api = Limited(hears_after=0)
    door = apidoor.ApiDoor(api, cancel.CancelToken())
    with pytest.raises(kind) as caught:
        door._add_event({**SESSION, "id": "first", **wrong})
    assert caught.value.code == codes.PROTOCOL_ERROR


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("http://127.0.0.1:80", "http://127.0.0.1:80/v1"),
        ("https://api/fpga/", "https://api/fpga/v1"),
        ("https://api/fpga/v1/", "https://api/fpga/v1"),
        ("http://[::1]:80/v1", "http://[::1]:80/v1"),
    ],
)
def test_urls_with_and_without_the_version(url: str, endpoint: str) -> None:
    assert instance.versioned(url) == endpoint
    assert poolapi.PoolApi.at(url)._adapter.endpoint_override == endpoint


@pytest.mark.parametrize(
    "url", ["", "api:80", "127.0.0.1:80", "ftp://api", "http://", "http://a:b"]
)
def test_what_is_no_url(url: str) -> None:
    with pytest.raises(errors.InvalidRequest, match="is not the URL of an A"):
        poolapi.PoolApi.at(url)


@pytest.mark.parametrize(
    ("failure", "kind", "code"),
    [
        (exceptions.NotFound("gone"), errors.RequestRejected, "UNAUTHORIZED"),
        (exceptions.Unauthorized(), errors.RequestRejected, "UNAUTHORIZED"),
        (exceptions.Forbidden(), errors.RequestRejected, "UNAUTHORIZED"),
        (
            exceptions.HttpError(http_status=429),
            errors.FrontDoorUnavailable,
            "FRONT_DOOR_UNAVAILABLE",
        ),
        (
            exceptions.InternalServerError(),
            errors.FrontDoorUnavailable,
            "FRONT_DOOR_UNAVAILABLE",
        ),
    ],
)
def test_refusals_of_keystone(
    failure: Exception, kind: type[errors.FpgapoolError], code: str
) -> None:
    """A deleted credential is not an API that is away."""

    class Refused:
        def request(self, *_: object, **__: object) -> typing.Any:
            raise failure

    with pytest.raises(kind) as caught:
        apidoor.ApiDoor(Refused(), cancel.CancelToken())
    assert caught.value.code == code


@pytest.mark.parametrize("host", ["a..b", "a" * 70])
def test_a_host_name_that_is_wrong(host: str) -> None:
    """Neither a failure of the pool nor one of this library."""
    api = poolapi.PoolApi.at(f"http://{host}")
    with pytest.raises(errors.InvalidRequest) as caught:
        api.enter(cancel.CancelToken(), None)
    assert host in caught.value.message


class Hosts:
    """An API with three hosts, one on each page.

    :ivar newest: the newest version that it knows.
    """

    def __init__(self, newest: str) -> None:
        self.newest = newest
        self.asked: list[str] = []

    def request(
        self, path: str, method: str, *, microversion: str, **_: object
    ) -> typing.Any:
        if path.startswith("/accelerators"):
            return _answer(200, {"accelerators": []})
        self.asked.append(f"{microversion} {path}")
        if microversion > self.newest:
            error = {"code": "VERSION_NOT_ACCEPTABLE", "detail": "too new"}
            return _answer(406, {"errors": [error]})
        hosts = [{"uuid": name} for name in "abc"]
        if path == "/pool":
            counted = {"counts": {"slots": {}}}
            everything = {"hosts": hosts}
            pool = counted if microversion == "1.1" else everything
            return _answer(200, {"pool": pool})
        after = path.partition("&marker=")[2]
        first, *left = [one for one in hosts if one["uuid"] > after]
        links = {"hosts_links": [{"rel": "next", "href": "-"}]}
        page = {"hosts": [first], "total": 3}
        return _answer(200, page | links if left else page)


def _pool_of(api: Hosts, **members: object) -> dict[str, typing.Any]:
    door = apidoor.ApiDoor(api, cancel.CancelToken())
    return door.request("pool", channel.deadline_after(TIMEOUT_S), **members)


def test_the_pool_comes_in_numbers_and_its_hosts_in_pages() -> None:
    api = Hosts("1.1")
    assert _pool_of(api)["summary"] == {"counts": {"slots": {}}}
    found, after = [], ""
    while after is not None:
        page = _pool_of(api, after=after)
        found += [one["uuid"] for one in page["summary"]["hosts"]]
        after = page.get("next")
    assert found == ["a", "b", "c"]
    assert api.asked[-1] == "1.1 /pool/hosts?sort_key=uuid&marker=b"


@pytest.mark.parametrize("members", [{}, {"after": ""}])
def test_an_older_api_has_all_hosts_at_once(members) -> None:
    api = Hosts("1.0")
    page = _pool_of(api, **members)
    assert [one["uuid"] for one in page["summary"]["hosts"]] == [*"abc"]
    assert "next" not in page
    assert api.asked[-1] == "1.0 /pool"


class Sessions:
    """An API that opens a session, and knows versions up to one."""

    def __init__(self, newest: str) -> None:
        self.newest = newest
        self.served: list[str] = []

    def request(
        self, path: str, method: str, *, microversion: str, **_: object
    ) -> typing.Any:
        if microversion > self.newest:
            error = {"code": "VERSION_NOT_ACCEPTABLE", "detail": "too new"}
            return _answer(406, {"errors": [error]})
        self.served.append(f"{microversion} {path}")
        wait = {"expected_wait_s": 2.0}
        if microversion != "1.0":
            wait |= {"expected_wait_low_s": 1.0, "expected_wait_high_s": 9.0}
        found = {"state": "QUEUED", "reasons": [], **wait}
        return _answer(200, {"dry_run": found})


@pytest.mark.parametrize("newest", ["1.0", "1.3"])
def test_a_range_is_asked_of_apis_that_know_it(newest) -> None:
    api = Sessions(newest)
    door = apidoor.ApiDoor(api, cancel.CancelToken())
    wanted = {"accelerator": "copy", "size_bytes": 1}
    deadline_s = channel.deadline_after(TIMEOUT_S)
    found = door.request("dry_run", deadline_s, **wanted)
    assert found.get("expected_wait_high_s") == (
        9.0 if newest == "1.3" else None
    )
    assert api.served[-1] == f"{newest} /sessions?dry_run=true"


class Successors:
    """An API that has a slot whose holder is about to leave."""

    def __init__(self, newest: str) -> None:
        self.newest = newest

    def request(
        self, path: str, method: str, *, microversion: str, **_: object
    ) -> typing.Any:
        if microversion > self.newest:
            error = {"code": "VERSION_NOT_ACCEPTABLE", "detail": "too new"}
            return _answer(406, {"errors": [error]})
        if method == "GET":
            return _answer(200, {"accelerators": []})
        told = {
            "endpoints": [{"network": "n", "address": "a", "port": 2}],
            "secret": "beef",
        }
        session = {
            **SESSION,
            "id": "first",
            "state": "PREPARING",
            "connection": told if microversion == "1.3" else None,
        }
        return _answer(202, {"session": session})


@pytest.mark.parametrize("newest", ["1.0", "1.3"])
def test_a_client_connects_early_if_the_api_says_how(newest) -> None:
    door = apidoor.ApiDoor(Successors(newest), cancel.CancelToken())
    deadline_s = channel.deadline_after(TIMEOUT_S)
    door.request("open", deadline_s, **WANTED)
    found = door.next_event(deadline_s)["session"]
    assert isinstance(found, view.SessionView)
    assert found.state == "PREPARING"
    assert waiting._is_next(found) is (newest == "1.3")


class Ended:
    """An API whose session has ended while its client had no slot."""

    def __init__(self, state: str, reason: str) -> None:
        self.session = {
            **SESSION,
            "id": "first",
            "state": state,
            "reason": reason,
            "message": "its end",
        }

    def request(self, path: str, method: str, **_: object) -> typing.Any:
        if method == "GET":
            return _answer(200, {"session": self.session})
        error = {"code": codes.SESSION_CLOSED, "detail": "it cannot"}
        return _answer(409, {"errors": [error]})


def _reopen_by(api: Ended) -> None:
    door = apidoor.ApiDoor(api, cancel.CancelToken())
    seeker = waiting.SlotSeeker(door, {}, cancel.CancelToken(), None)
    lost = view.SessionView("first", "ACTIVE", generation=3)
    seeker.reopen(lost, 0, 0, channel.deadline_after(TIMEOUT_S))


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("REJECTED", codes.BUDGET_EXHAUSTED),
        ("EXPIRED", codes.DEADLINE_PASSED),
        ("CANCELLED", codes.CANCELLED_BY_CLIENT),
    ],
)
def test_a_session_that_ended_without_a_slot_says_why(state, reason) -> None:
    with pytest.raises(waiting.Ended) as caught:
        _reopen_by(Ended(state, reason))
    assert caught.value.view.ending == (reason, "its end")


@pytest.mark.parametrize(
    ("state", "reason"), [("ACTIVE", ""), ("FAILED", codes.WORKER_LOST)]
)
def test_a_session_that_lost_its_slot_for_good_says_so(state, reason) -> None:
    with pytest.raises(errors.RequestRejected) as caught:
        _reopen_by(Ended(state, reason))
    assert caught.value.code == codes.SESSION_CLOSED
