# SPDX-License-Identifier: Apache-2.0

"""Every slot works before the first one is given back; failures end it."""

import threading
import types
import typing
from collections.abc import Mapping

import pytest

from demo import warming
from fpgapool import client
from tests.harness import threads

SLOTS = 3
#: Only reached where something is wrong.
LIMIT_S = 10.0


class Session:
    """Has a slot until it is left."""

    def __init__(self, pool: "Pool", accelerator: str) -> None:
        self._pool = pool
        self._accelerator = accelerator

    def __enter__(self) -> typing.Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> None:
        self._pool.note("left", self._accelerator)

    def run(self, n_bytes: int, timeout_s: float) -> None:
        assert timeout_s == LIMIT_S
        self._pool.note("ran", self._accelerator, n_bytes)


class Pool:
    """Stands for the client library.

    :ivar broken: the accelerator that the third who asks does not get.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.broken = ""
        self.events: list[tuple[object, ...]] = []
        self._lock = threading.Lock()
        monkeypatch.setattr(client, "acc_open", self._open)

    def note(self, *event: object) -> None:
        with self._lock:
            self.events.append(event)

    def names(self) -> list[object]:
        return [event[0] for event in self.events]

    def _open(
        self,
        accelerator: str,
        size_bytes: int,
        params: Mapping[str, object],
        **options: object,
    ) -> Session:
        assert options["front_door"] == "/door"
        with self._lock:
            asked = [event[1] for event in self.events if event[0] == "opened"]
            self.events.append(
                ("opened", accelerator, size_bytes, dict(params))
            )
        if accelerator == self.broken and asked.count(accelerator) == 2:
            raise client.RequestRejected("NO_SLOT", "it is refused")
        return Session(self, accelerator)


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Pool:
    return Pool(monkeypatch)


def warm_up(*works: warming.Work) -> None:
    warming.warm_up(works, SLOTS, "/door", LIMIT_S)


def test_each_slot_works_before_one_is_given_back(pool: Pool) -> None:
    warm_up(warming.Work("fft", {"frame_samples": 4}, 32))
    opened, rest = pool.events[:SLOTS], pool.events[SLOTS : 3 * SLOTS]
    assert opened == [("opened", "fft", 32, {"frame_samples": 4})] * SLOTS
    assert sorted(rest, key=str) == [
        *[("left", "fft")] * SLOTS,
        *[("ran", "fft", 32)] * SLOTS,
    ]


def test_in_the_end_no_slot_has_what_jobs_ask_for(pool: Pool) -> None:
    warm_up(warming.Work("aes"), warming.Work("sha"))
    asked = [event[1] for event in pool.events if event[0] == "opened"]
    assert asked == [
        name for name in ("aes", "sha", "copy") for _ in range(SLOTS)
    ]


def test_a_refusal_ends_it(pool: Pool) -> None:
    """Those that have their slots wait for nobody any more."""
    pool.broken = "sha"
    begun = threads.NewThreads()
    with pytest.raises(client.RequestRejected, match="it is refused"):
        warm_up(warming.Work("aes"), warming.Work("sha"))
    assert begun.count() == 0
    assert pool.names().count("left") == SLOTS + SLOTS - 1
    assert ("ran", "sha", 1) not in pool.events
    assert not any("copy" in event for event in pool.events)
