# SPDX-License-Identifier: Apache-2.0

"""All slots of a chain, or none."""

from __future__ import annotations

from unittest import mock

import pytest

from fpgapool.client import cancel
from fpgapool.client import errors
from fpgapool.client.chains import opening


class Pool:
    """A pool that gives slots, or lets programs wait in vain.

    :param waits: for which requests there is no slot, by their order.
    """

    def __init__(self, *waits: int) -> None:
        self._waits = waits
        self.asked: list[tuple[int, int, float | None]] = []
        self.held: list[mock.Mock] = []

    def open_one(
        self, index: int, attempt: int, wait_timeout_s: float | None
    ) -> mock.Mock:
        self.asked.append((index, attempt, wait_timeout_s))
        if len(self.asked) in self._waits:
            raise errors.WaitTimeout("no slot")
        session = mock.Mock(index=index)
        session.abort.side_effect = lambda: self.held.remove(session)
        self.held.append(session)
        return session


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_PAUSES_S", (0.0, 0.0))


def _open(pool: Pool, wait_timeout_s: float | None = None) -> list[mock.Mock]:
    return opening.open_all(
        [1, 2, 0], pool.open_one, cancel.CancelToken(), wait_timeout_s
    )


def test_slots_come_in_one_order_and_sessions_in_another() -> None:
    pool = Pool()
    assert [one.index for one in _open(pool)] == [0, 1, 2]
    # Nothing is held by the first one, so it waits as long as it takes.
    assert pool.asked == [(1, 0, None), (2, 0, 5.0), (0, 0, 5.0)]


def test_slots_are_given_back_while_another_one_does_not_come() -> None:
    pool = Pool(2, 5)
    _open(pool)
    assert [(index, attempt) for index, attempt, _ in pool.asked] == [
        *[(1, 0), (2, 0)],
        *[(1, 1), (2, 1), (0, 1)],
        *[(1, 2), (2, 2), (0, 2)],
    ]
    assert [wait_s for *_, wait_s in pool.asked] == [
        *[None, 5.0],
        *[None, 10.0, 10.0],
        *[None, 20.0, 20.0],
    ]
    assert len(pool.held) == 3


def test_the_first_one_may_wait_in_vain() -> None:
    pool = Pool(1)
    with pytest.raises(errors.WaitTimeout):
        _open(pool)
    assert len(pool.asked) == 1


def test_the_limit_is_that_of_all_waits() -> None:
    pool = Pool(2)
    with pytest.raises(errors.WaitTimeout):
        _open(pool, 1e-9)
    assert len(pool.asked) == 2
    assert pool.held == []


def test_an_error_gives_all_back() -> None:
    pool = Pool()
    pool.open_one = mock.Mock(
        side_effect=[mock.Mock(), errors.RequestRejected("QUOTA_EXCEEDED", "")]
    )
    with pytest.raises(errors.RequestRejected):
        _open(pool)


def test_a_cancelled_program_stops_asking() -> None:
    pool, token = Pool(2), cancel.CancelToken()

    def open_one(*arguments):
        if len(pool.asked) == 1:
            token.cancel()
        return pool.open_one(*arguments)

    with pytest.raises(errors.Cancelled):
        opening.open_all([0, 1], open_one, token, None)
    assert pool.held == []
