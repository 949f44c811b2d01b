# SPDX-License-Identifier: Apache-2.0

"""Sessions that leave their slots to others at chunk borders."""

from __future__ import annotations

from collections.abc import Sequence

from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.harness import cloud as clouds
from tests.harness import users

LIMIT_S = 60
OPTIONS = {
    "conductor": {"fair_share": True},
    "scheduler": {"preempt": "fine", "preempt_quantum_bytes": 2**16},
}


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
