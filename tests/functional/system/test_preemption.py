# SPDX-License-Identifier: Apache-2.0

"""Sessions that leave their slots to others at chunk borders."""

from __future__ import annotations

import functools
from collections.abc import Callable
from collections.abc import Sequence

import pytest

from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.harness import cloud as clouds
from tests.harness import users
from tests.harness import waiting

LIMIT_S = 60
OPTIONS = {
    "conductor": {"fair_share": True},
    "scheduler": {"preempt": "fine", "preempt_quantum_bytes": 2**16},
}


def _reached(count: Callable[[], int], least: int) -> bool:
    return count() >= least


def check_accounts(cloud: clouds.Cloud, used: Sequence[users.User]) -> None:
    """Claims, sessions and usage equal the bytes."""
    cloud.check_consistent()
    total_bytes = 0
    for user in used:
        record = cloud.session_record(user.request_id)
        # Its worker may just have told it to leave when it closes.
        assert (record.state, record.reason) in (
            (states.CLOSED, codes.OK),
            (states.CANCELLED, codes.CLIENT_GONE),
            # The CPU has done the rest of its work.
            (states.CANCELLED, codes.CANCELLED_BY_CLIENT),
        )
        here_bytes = user.sent_bytes - user.cpu_bytes
        assert record.input_bytes == record.output_bytes == here_bytes
        assert record.claimed_bytes == users.CLAIM_BYTES
        total_bytes += here_bytes
    rows = cloud.usage()
    assert sum(row.input_bytes for row in rows) == total_bytes
    assert sum(row.output_bytes for row in rows) == total_bytes


def test_a_higher_priority_gets_the_slot_at_the_next_border(
    make_cloud,
) -> None:
    cloud = make_cloud(clouds.HostPlan("board", slots=1), options=OPTIONS)
    door = cloud.hosts["board"].socket_path()
    low = users.User(door, 1)
    low.start()
    assert low.begun.wait(LIMIT_S)
    high = users.User(door, 2, priority=5)
    high.start()
    assert high.begun.wait(LIMIT_S)
    view = cloud.wait_session(low.session_id, states.QUEUED)
    assert view["reason"] == codes.PREEMPTED
    assert view["claimed_bytes"] == users.CLAIM_BYTES
    assert view["input_bytes"] == view["output_bytes"] > 0
    for user in (high, low):
        user.enough.set()
        user.wait()
    assert (low.reopens, high.reopens) == (1, 0)
    check_accounts(cloud, [low, high])


@pytest.mark.long
def test_200_sessions_of_three_priorities_have_all_their_bytes(
    make_cloud,
) -> None:
    cloud = make_cloud(clouds.HostPlan("board", slots=4), options=OPTIONS)
    door = cloud.hosts["board"].socket_path()
    lowest, middle, highest = (
        [
            users.User(door, 1000 * priority + n, pieces, priority=priority)
            for n in range(count)
        ]
        for priority, count, pieces in (
            (-1, 70, 300),
            (0, 70, 60),
            (5, 60, 20),
        )
    )
    for user in lowest:
        user.start()
    waiting.wait_until(
        lambda: sum(user.begun.is_set() for user in lowest) >= 4,
        "all slots are taken",
        LIMIT_S,
    )
    for user in middle[60:]:
        user.start()
    for one, other in zip(middle, highest, strict=False):
        one.start()
        other.start()
        # The next one finds slots that others have.
        other.wait()
    everyone = [*lowest, *middle, *highest]
    for user in everyone:
        user.wait()
    check_accounts(cloud, everyone)
    assert sum(user.reopens for user in everyone) >= 30
    assert not any(user.reopens for user in highest), "none is above them"


@pytest.mark.long
def test_work_goes_to_and_fro_between_the_cpu_and_slots(make_cloud) -> None:
    cloud = make_cloud(clouds.HostPlan("board", slots=2), options=OPTIONS)
    door = cloud.hosts["board"].socket_path()
    workers = [
        users.User(door, seed, meanwhile="cpu", priority=-1)
        for seed in range(6)
    ]
    for user in workers:
        user.start()
    takers: list[users.User] = []

    def moves() -> int:
        return sum(user.moves for user in workers)

    waiting.wait_until(
        lambda: sum(user.begun.is_set() for user in workers) == len(workers),
        "all have begun",
        LIMIT_S,
    )
    while (before := moves()) < 50:
        taker = users.User(door, 1000 + len(takers), 5, priority=5)
        takers.append(taker)
        taker.start()
        taker.wait()
        # The slot goes back to one of them.
        least = before + 2
        waiting.wait_until(functools.partial(_reached, moves, least), "moves")
    for user in workers:
        user.enough.set()
    for user in workers:
        user.wait()
    check_accounts(cloud, [*workers, *takers])
