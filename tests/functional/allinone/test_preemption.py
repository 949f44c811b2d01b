# SPDX-License-Identifier: Apache-2.0

"""Sessions that leave their slots to others, in a pool of real processes."""

import json
import random
import threading
import typing
import urllib.request
from collections.abc import Iterator

import pytest

from fpgapool import client
from fpgapool.vocabulary import codes
from tests.functional.allinone import harness
from tests.harness import waiting

QUANTUM_BYTES = 2**20
CONFIG = f"""\
[conductor]
fair_share = true
[scheduler]
preempt = fine
preempt_quantum_bytes = {QUANTUM_BYTES}
"""
CLAIM_BYTES = 2**30


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[harness.Site]:
    """Give a pool of one slot, with an API, whose sessions preempt."""
    path = tmp_path_factory.mktemp("preempt") / "pool.conf"
    path.write_text(CONFIG)
    with harness.short_directory() as run_dir:
        pool = harness.Pool(
            run_dir,
            *("--hosts=1", "--boards=1", "--slots=1", "--unlimited"),
            *("--api-port=0", f"--config-file={path}"),
        )
        try:
            yield harness.Site(pool, pool.wait_until_ready()["api_url"])
        finally:
            pool.close()


@pytest.fixture(params=["socket", "api"])
def front_door(
    site: harness.Site, request: pytest.FixtureRequest
) -> str | client.PoolApi:
    """Give both ways into the pool."""
    if request.param == "api":
        return site.api
    return site.pool.front_door()


class User(threading.Thread):
    """Uses a session until it is told to stop, and checks each byte.

    :ivar session_id: None until it has a slot.
    """

    def __init__(
        self, door: str | client.PoolApi, seed: int, **options: typing.Any
    ) -> None:
        super().__init__()
        self._door = door
        self._options = options
        self._rng = random.Random(seed)
        self.enough = threading.Event()
        self.begun = threading.Event()
        self.session_id = ""
        self.sent_bytes = self.reopens = 0
        self.seen: list[client.SessionView] = []
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            with client.acc_open(
                "copy",
                size_bytes=CLAIM_BYTES,
                front_door=self._door,
                timeout_s=harness.LIMIT_S,
                on_state=self.seen.append,
                **self._options,
            ) as session:
                self.session_id = session.session_id
                while not self.enough.is_set():
                    self._run_piece(session)
                    self.begun.set()
                self.reopens = session.reopens
        except Exception as error:
            self.error = error
        self.begun.set()

    def _run_piece(self, session: client.Session) -> None:
        size_bytes = self._rng.randint(1, min(QUANTUM_BYTES, len(session.pin)))
        data = self._rng.randbytes(size_bytes)
        session.pin[:size_bytes] = data
        assert client.acc_run(session, size_bytes) == data
        self.sent_bytes += size_bytes

    def stop(self) -> None:
        """Let it end."""
        self.enough.set()
        self.join(harness.LIMIT_S)
        assert self.error is None
        assert not self.is_alive()


def asked(url: str) -> dict[str, typing.Any]:
    """Return what the API says."""
    request = urllib.request.Request(
        url, headers={"OpenStack-API-Version": "fpgapool latest"}
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def used_bytes(site: harness.Site) -> tuple[int, int]:
    """Return the bytes in the usage of all projects."""
    rows = asked(f"{site.url}/v1/usage")["usage"]
    return (
        sum(row["input_bytes"] for row in rows),
        sum(row["output_bytes"] for row in rows),
    )


def test_a_higher_priority_gets_the_slot_at_the_next_border(
    site: harness.Site, front_door: str | client.PoolApi
) -> None:
    before = used_bytes(site)
    low = User(front_door, 1)
    low.start()
    assert low.begun.wait(harness.LIMIT_S)
    high = User(front_door, 2, priority=5)
    high.start()
    assert high.begun.wait(harness.LIMIT_S)
    shown = asked(f"{site.url}/v1/sessions/{low.session_id}")["session"]
    assert shown["state"] == "QUEUED"
    assert shown["reason"] == codes.PREEMPTED
    assert "priority" in shown["message"]
    assert shown["claimed_bytes"] == CLAIM_BYTES
    assert shown["input_bytes"] == shown["output_bytes"] > 0
    high.stop()
    low.stop()
    assert low.reopens == 1
    assert high.reopens == 0
    for user in (low, high):
        path = f"{site.url}/v1/sessions/{user.session_id}"
        waiting.wait_until(
            lambda path=path: asked(path)["session"]["state"] == "CLOSED",
            "the session has ended",
            harness.LIMIT_S,
        )
        ended = asked(path)["session"]
        assert ended["input_bytes"] == user.sent_bytes
        assert ended["output_bytes"] == user.sent_bytes
        assert ended["claimed_bytes"] == CLAIM_BYTES
        assert ended["reason"] == codes.OK
    total = low.sent_bytes + high.sent_bytes
    waiting.wait_until(
        lambda: used_bytes(site) == (before[0] + total, before[1] + total),
        "the accounts equal the bytes",
        harness.LIMIT_S,
    )
