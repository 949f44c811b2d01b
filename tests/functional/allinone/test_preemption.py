# SPDX-License-Identifier: Apache-2.0

"""A session that leaves its slot to another one, by both ways in."""

import itertools
from collections.abc import Iterator

import pytest

from fpgapool import client
from fpgapool.vocabulary import codes
from tests.functional.allinone import harness
from tests.harness import users
from tests.harness import waiting

# A quantum is worth the programming of the emulated boards: 1 GB.
pytestmark = pytest.mark.long

# They also name the requests.
_SEEDS = itertools.count(1)
CONFIG = """\
[conductor]
fair_share = true
[scheduler]
preempt = fine
"""


@pytest.fixture(scope="module")
def site() -> Iterator[harness.Site]:
    """Give a pool of one slot, with an API, whose sessions preempt."""
    with harness.short_directory() as run_dir:
        path = run_dir / "pool.conf"
        path.write_text(CONFIG)
        with harness.Pool(
            run_dir,
            *("--hosts=1", "--boards=1", "--slots=1", "--unlimited"),
            *("--api-port=0", f"--config-file={path}"),
        ) as pool:
            yield harness.Site(pool, pool.wait_until_ready()["api_url"])


def test_the_owner_sees_why_and_loses_nothing(
    site: harness.Site, front_door: str | client.PoolApi
) -> None:
    low = users.User(front_door, next(_SEEDS))
    low.start()
    assert low.begun.wait(harness.LIMIT_S)
    high = users.User(front_door, next(_SEEDS), priority=5)
    high.start()
    assert high.begun.wait(harness.LIMIT_S)
    waiting_one = site.shown(low.session_id)
    assert waiting_one["state"] == "QUEUED"
    assert waiting_one["reason"] == codes.PREEMPTED
    assert "priority" in waiting_one["message"]
    assert waiting_one["claimed_bytes"] == users.CLAIM_BYTES
    for user in (high, low):
        user.enough.set()
        user.wait()
    assert (low.reopens, high.reopens) == (1, 0)
    for user in (high, low):
        waiting.wait_until(
            lambda user=user: site.shown(user.session_id)["state"] == "CLOSED",
            "the session has ended",
            harness.LIMIT_S,
        )
        ended = site.shown(user.session_id)
        assert ended["input_bytes"] == user.sent_bytes
        assert ended["claimed_bytes"] == users.CLAIM_BYTES
        assert (ended["reason"], ended["message"]) == (codes.OK, "")
