# SPDX-License-Identifier: Apache-2.0

"""The REST API under gunicorn: guests that come all at once, and reads."""

from __future__ import annotations

import contextlib
import http.client
import json
import sys
import threading
import time
from collections.abc import Callable
from collections.abc import Iterator

from tests.benchmarks import bare_rpc
from tests.benchmarks import measure
from tests.benchmarks import opener
from tests.benchmarks import servers
from tests.functional.api import harness
from tests.harness import cloud as clouds
from tests.harness import processes
from tests.services import process

TITLE = "REST API: guests that open sessions at once, and reads, MariaDB"
SERVICES = True

_SLOTS_PER_HOST = 4
_HOSTS = 3
_GUESTS = 200
_FEW_GUESTS = 5
_READERS = 8
_TIMEOUT_S = 120.0
_WAIT_S = 30
_HEADERS = {"Content-Type": "application/json"}
_WANTED = json.dumps(
    {"session": {"accelerator": "copy", "claimed_bytes": 1000}}
)

HELLO = "hello"


def hello(_environ: object, start_response: Callable[..., object]) -> list:
    """The floor of a read: an application that knows its answer."""
    start_response("200 OK", [("Content-Type", "application/json")])
    return [b"{}"]


class BareServer(processes.Daemon):
    """gunicorn with :func:`hello`, as the API is served.

    :param workspace: where it lives and who cleans up after it.
    """

    def __init__(self, workspace: process.Workspace) -> None:
        super().__init__("hello", workspace, "gunicorn")
        self.port = process.free_port()
        self.address = f"{process.LOOPBACK}:{self.port}"

    def command(self) -> list[str]:
        """Return the command line."""
        return [
            sys.executable,
            "-m",
            "gunicorn",
            f"--bind={self.address}",
            "--workers=1",
            f"--threads={harness.THREADS}",
            f"{__name__}:hello",
        ]

    def ports(self) -> tuple[int, ...]:
        """Return the TCP ports that it listens on."""
        return (self.port,)

    def is_ready(self) -> bool:
        """Tell whether it serves."""
        try:
            return Guest(self.address).get("/") == {}
        except OSError:
            return False


class Guest:
    """A program with one connection."""

    def __init__(self, address: str, token: str = harness.TOKEN) -> None:
        self._connection = http.client.HTTPConnection(
            address, timeout=_TIMEOUT_S
        )
        self._headers = {**_HEADERS, "X-Auth-Token": token}

    def ask(self, method: str, path: str, body: str | None = None) -> bytes:
        self._connection.request(method, path, body, self._headers)
        response = self._connection.getresponse()
        content = response.read()
        if response.status >= 400:
            raise RuntimeError(f"{method} {path}: {content!r:.300}")
        return content

    def get(self, path: str) -> dict:
        document: dict = json.loads(self.ask("GET", path))
        return document

    def close(self) -> None:
        self._connection.close()


def rows(plan: measure.Plan) -> Iterator[measure.Row]:
    """Measure guests, then reads, of the same pool."""
    hosts = [
        clouds.HostPlan(f"board{number}", slots=_SLOTS_PER_HOST)
        for number in range(1 if plan.tiny else _HOSTS)
    ]
    with contextlib.ExitStack() as stack:
        cloud = stack.enter_context(servers.running_cloud(*hosts))
        workspace = servers.workspace()
        # With the defaults of [api].
        api = harness.Server(
            "api-benchmark", cloud, workspace, inventory_cache_s=1.0
        )
        bare = BareServer(workspace)
        for server in (api, bare):
            server.start()
            stack.callback(server.kill)
        rpc = stack.enter_context(bare_rpc.running(cloud.transport_url))
        yield from _guest_rows(plan, api.address, rpc)
        yield from _read_rows(plan, api.address, bare.address)


def _guest_rows(
    plan: measure.Plan, address: str, rpc: bare_rpc.Client
) -> Iterator[measure.Row]:
    guests = _FEW_GUESTS if plan.tiny else _GUESTS
    posts, waits, calls = [], [], []
    for _ in range(plan.repetitions):
        calls.append(_at_once(guests, lambda: [_timed_ms(rpc.call)])[0])
        post, wait = _at_once(guests, lambda: _visit_once(address))
        posts.append(post)
        waits.append(wait)
    for name, pick in (
        ("p50", opener.Times.median),
        ("p99", opener.Times.percentile_99),
    ):
        yield measure.Row(
            name=f"{guests} guests: POST until it is recorded, {name}",
            unit=opener.UNIT,
            samples=[pick(one) for one in posts],
            floor=f"a bare call of {guests}, {name}",
            floor_samples=[pick(one) for one in calls],
        )
        yield measure.Row(
            name=f"{guests} guests: from POST until READY, {name}",
            unit=opener.UNIT,
            samples=[pick(one) for one in waits],
        )


def _visit_once(address: str) -> list[float]:
    guest = Guest(address)
    try:
        return visit(guest)
    finally:
        guest.close()


def visit(guest: Guest) -> list[float]:
    """Open a session, wait for its slot and give it back.

    :returns: ms until it was recorded, and until it was READY.
    """
    start_s = time.perf_counter()
    session = json.loads(guest.ask("POST", "/v1/sessions", _WANTED))["session"]
    recorded_s = time.perf_counter()
    path = f"/v1/sessions/{session['id']}"
    while session["state"] != "READY":
        known = session["revision"]
        session = guest.get(f"{path}?wait_s={_WAIT_S}&revision={known}")[
            "session"
        ]
        if session["revision"] == known:
            # Enough others wait there already.
            time.sleep(0.2)
    ready_s = time.perf_counter()
    guest.ask("DELETE", path)
    return [1e3 * (recorded_s - start_s), 1e3 * (ready_s - start_s)]


def _timed_ms(action: Callable[[], object]) -> float:
    start_s = time.perf_counter()
    action()
    return 1e3 * (time.perf_counter() - start_s)


def _at_once(
    count: int, action: Callable[[], list[float]]
) -> list[opener.Times]:
    """Do something in many threads at once.

    :returns: for each of the action's results, that of all threads.
    """
    begin = threading.Barrier(count)
    results: list[list[float]] = []

    def work() -> None:
        begin.wait(_TIMEOUT_S)
        results.append(action())

    with measure.stopwatch() as watch:
        threads = [threading.Thread(target=work) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if len(results) < count:
        raise RuntimeError(f"only {len(results)} of {count} came through")
    return [
        opener.Times(each, watch.wall_s, watch.cpu_s)
        for each in zip(*results, strict=True)
    ]


def _read_rows(
    plan: measure.Plan, address: str, bare_address: str
) -> Iterator[measure.Row]:
    count = 2 if plan.tiny else 200
    guest = Guest(address)
    ended = json.loads(guest.ask("POST", "/v1/sessions", _WANTED))["session"]
    session = f"/v1/sessions/{ended['id']}"
    guest.ask("DELETE", session)
    guest.close()
    paths = {"/v1/slots": "/v1/slots", "a session that has ended": session}
    samples: dict[str, list[measure.Sample]] = {name: [] for name in paths}
    floor_samples = []
    for _ in range(plan.repetitions):
        floor_samples.append(_reads(bare_address, "/", count))
        for name, path in paths.items():
            samples[name].append(_reads(address, path, count))
    for name, taken in samples.items():
        yield measure.Row(
            name=f"GET {name}, {_READERS} readers",
            unit="1/s",
            samples=taken,
            floor=f"{HELLO}, bare WSGI",
            floor_samples=floor_samples,
        )


def _reads(address: str, path: str, count: int) -> measure.Sample:
    """Read again and again over some connections."""

    def read() -> list[float]:
        # Only operators see slots.
        guest = Guest(address, harness.ADMIN_TOKEN)
        for _ in range(count):
            guest.ask("GET", path)
        guest.close()
        return [0.0]

    (times,) = _at_once(_READERS, read)
    return measure.Sample(
        _READERS * count / times.wall_s, times.wall_s, times.cpu_s
    )
