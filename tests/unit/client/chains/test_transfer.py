# SPDX-License-Identifier: Apache-2.0

"""The stages of a chain are opened as a set."""

from __future__ import annotations

import collections
import threading
from unittest import mock

import pytest

from fpgapool.client import cancel
from fpgapool.client import errors
from fpgapool.client.chains import checking
from fpgapool.client.chains import transfer
from fpgapool.client.sessions import opening
from fpgapool.vocabulary import codes

_STAGES = [
    checking.Stage(1, "gzip", {}, 0.5),
    checking.Stage(2, "aes", {"iv": "00"}, 1.0),
]


def make_job(**options: object) -> transfer.Job:
    return transfer.Job(
        _STAGES, mock.Mock(), mock.Mock(), 1000, None, None, options
    )


class Pool:
    """A pool that opens all stages, but the one that it refuses."""

    def __init__(self, refused: str = "", code: str = "") -> None:
        self._refused, self._code = refused, code
        self.asked: dict[str, tuple[int, dict[str, object]]] = {}
        self.sessions: dict[str, mock.Mock] = collections.defaultdict(
            mock.Mock
        )
        self._all = threading.Barrier(2)

    def open_stage(
        self, accelerator, size_bytes, timeout_s, options, *_: object, **__
    ) -> mock.Mock:
        self.asked[accelerator] = size_bytes, options
        self._all.wait(10)
        if accelerator == self._refused:
            raise errors.RequestRejected(self._code, "refused")
        if self._refused:
            # The others of its set end, too.
            options["cancel"].wait(10)
        return self.sessions[accelerator]


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Pool:
    made = Pool()
    monkeypatch.setattr(opening, "open_stage", made.open_stage)
    return made


def test_all_stages_are_one_set(pool: Pool) -> None:
    job = make_job(request_id="mine", set_placement="same_host", priority=3)
    opened = job._open(cancel.LinkedToken())
    assert opened == [pool.sessions["gzip"], pool.sessions["aes"]]
    (first_bytes, first), (last_bytes, last) = pool.asked.values()
    assert {first_bytes, last_bytes} == {1000, 500}
    assert {first["request_id"], last["request_id"]} == {"mine.1", "mine.2"}
    for options in (first, last):
        assert options["set_id"] == "mine"
        assert options["set_size"] == 2
        assert options["set_placement"] == "same_host"
        assert options["priority"] == 3
    assert pool.asked["aes"][1]["params"] == {"iv": "00"}


def test_each_attempt_has_a_set_of_its_own(pool: Pool) -> None:
    job, sets, requests = make_job(request_id="x" * 64), set(), set()
    for restarts in range(3):
        job._restarts = restarts
        job._open(cancel.LinkedToken())
        for _, options in pool.asked.values():
            sets.add(options["set_id"])
            requests.add(options["request_id"])
    assert (len(sets), len(requests)) == (3, 6)
    assert max(map(len, sets | requests)) <= 64
    assert len(make_job()._open(cancel.LinkedToken())) == 2


def test_an_error_names_its_stage_and_leaves_no_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = Pool("aes", codes.QUOTA_EXCEEDED)
    monkeypatch.setattr(opening, "open_stage", pool.open_stage)
    with pytest.raises(errors.RequestRejected, match=r"stage 2 \(aes\)") as e:
        make_job()._open(cancel.LinkedToken())
    assert (e.value.code, e.value.stage) == (codes.QUOTA_EXCEEDED, 2)


def test_a_cancelled_chain_cancels_all_stages(pool: Pool) -> None:
    callers = cancel.CancelToken()
    job = make_job(cancel=callers)
    callers.cancel()
    with pytest.raises(errors.Cancelled):
        job.run()
    assert not pool.asked


@pytest.mark.parametrize("name", ["set_id", "set_size"])
def test_the_chain_names_its_set(name: str) -> None:
    with pytest.raises(errors.InvalidRequest) as caught:
        checking.stages(["gzip", "aes"], {name: 2})
    assert caught.value.code == codes.CHAIN_OPTION
