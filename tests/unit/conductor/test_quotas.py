# SPDX-License-Identifier: Apache-2.0

"""Limits of projects: set, kept, followed."""

import pytest

from fpgapool.clients import keystone
from fpgapool.common import exception
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions.requests import admission
from fpgapool.conductor.decisions.requests import quotas
from fpgapool.conductor.outside import keystone_limits
from fpgapool.db import api as db_api
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import world

DEFAULT = admission.ProjectQuota(
    sessions=1, queued=2, queued_bytes=5000, bitstream_bytes=10
)


@pytest.fixture
def pool() -> world.Conductor:
    return world.Conductor(world.hosts(a=3), default_quota=DEFAULT)


def states_of(pool: world.Conductor, requests: list[str]) -> list[str]:
    found = [pool.view_or_none(request) for request in requests]
    return [view.state for view in found if view is not None]


def limits(pool: world.Conductor, project_id: str = "p") -> dict[str, int]:
    quota = pool.memory.quotas.of(project_id)
    return {name: quota.limit(name) for name in admission.RESOURCES}


def test_defaults_hold_for_everybody(pool):
    assert limits(pool) == {
        "sessions": 1,
        "queued": 2,
        "queued_bytes": 5000,
        "live_per_user": -1,
        "sessions_per_user": -1,
        "user_turns": 0,
        "bitstream_bytes": 10,
        "groups": -1,
        "group_slots": -1,
        "group_clients": -1,
        "max_priority": 0,
        "reservation_slots": 0,
        "reservation_times": -1,
    }
    for project_id in ("p", None):
        told = quotas.document(pool.memory.quotas.of(project_id))
        assert told["sessions"] == {"limit": 1, "source": "default"}
    assert set(pool.in_use("p").values()) == {0}


def test_a_limit_takes_effect_at_once(pool):
    requests = [pool.open(), pool.open()]
    assert states_of(pool, requests) == [states.PREPARING, states.QUEUED]
    pool.feed(inputs.SetQuota("p", {"sessions": 2}))
    assert states_of(pool, requests) == [states.PREPARING] * 2
    assert pool.memory.quotas.of("p").source("sessions") == "project"
    assert pool.memory.quotas.of("p").source("queued") == "default"
    assert pool.memory.quotas.of("other").limit("sessions") == 1
    assert pool.in_use("p")["sessions"] == 2


def test_a_user_is_limited_within_the_project(pool):
    pool.feed(inputs.SetQuota("p", {"live_per_user": 2, "queued": -1}))
    pool.feed(inputs.SetQuota("p", {"queued_bytes": -1}))
    own = [pool.open(user_id="eve") for _ in range(3)]
    assert states_of(pool, own) == [states.PREPARING, states.QUEUED]
    others = [pool.open(user_id="bob") for _ in range(3)]
    assert states_of(pool, others) == [states.QUEUED] * 2
    elsewhere = pool.open(user_id="eve", project_id="q")
    assert pool.view_or_none(elsewhere, "q") is not None
    assert pool.in_use("p")["live_per_user"] == 2
    # After a restart as before, until one has ended.
    pool.boot_conductor()
    assert states_of(pool, [pool.open(user_id="eve")]) == []
    pool.cancel(own[1])
    last = [pool.open(user_id="eve") for _ in range(2)]
    assert states_of(pool, last) == [states.QUEUED]
    assert pool.in_use("p")["live_per_user"] == 2


def test_a_user_waits_at_its_limit_of_slots(pool):
    pool.feed(inputs.SetQuota("p", {"sessions": 3, "sessions_per_user": 1}))
    own = [pool.open(user_id="eve"), pool.open(user_id="eve")]
    assert states_of(pool, own) == [states.PREPARING, states.QUEUED]
    waiting = pool.view_or_none(own[1])
    assert waiting.pending_reasons == (codes.USER_SESSION_LIMIT,)
    other = pool.open(user_id="bob")
    assert states_of(pool, [other]) == [states.PREPARING]
    # After a restart as before; a higher limit takes effect at once.
    pool.boot_conductor()
    pool.report("a")
    assert states_of(pool, own) == [states.PREPARING, states.QUEUED]
    pool.feed(inputs.SetQuota("p", {"sessions_per_user": 2}))
    assert states_of(pool, own) == [states.PREPARING] * 2


def test_who_is_beyond_the_limit_is_told():
    with pytest.raises(admission.Rejected) as caught:
        admission.check_quota("p", "sessions", 2, 2, 1, user_id="eve")
    assert caught.value.code == codes.QUOTA_EXCEEDED
    assert str(caught.value).startswith("user eve of project p may have 2")


def test_a_lower_limit_takes_nothing_away(pool):
    pool.feed(inputs.SetQuota("p", {"sessions": 3}))
    requests = [pool.open() for _ in range(3)]
    pool.feed(inputs.SetQuota("p", {"sessions": 0}))
    assert states_of(pool, requests) == [states.PREPARING] * 3
    late = pool.open()
    pool.cancel(requests[0])
    pool.deliver_all()
    pool.report("a")
    assert pool.in_use("p")["sessions"] == 2
    assert states_of(pool, [late]) == [states.QUEUED]
    pool.feed(inputs.SetQuota("p", {"sessions": -1}))
    assert states_of(pool, [late]) == [states.PREPARING]


def test_none_is_back_to_the_default(pool):
    pool.feed(inputs.SetQuota("p", {"sessions": 3, "queued": 0}))
    assert limits(pool)["queued"] == 0
    pool.feed(inputs.SetQuota("p", {"queued": None}))
    assert (limits(pool)["sessions"], limits(pool)["queued"]) == (3, 2)
    pool.feed(inputs.SetQuota("p", dict.fromkeys(admission.RESOURCES)))
    assert limits(pool) == limits(pool, "other")


def test_limits_survive_a_restart(pool):
    pool.feed(inputs.SetQuota("p", {"sessions": 3, "queued_bytes": -1}))
    pool.feed(inputs.SetQuota("q", {"queued": 7}))
    pool.feed(inputs.SetQuota("p", {"sessions": None}))
    before = limits(pool), limits(pool, "q")
    pool.boot_conductor()
    assert (limits(pool), limits(pool, "q")) == before
    pool.feed(inputs.SetQuota("q", {"sessions": 2}))
    ids = [row.id for row in pool.rows["quotas"].values()]
    assert sorted(ids) == [1, 2, 3, 4]


def test_a_limit_that_is_as_it_was_is_not_written(pool):
    pool.feed(inputs.SetQuota("p", {"sessions": 3}))
    for limit in ({"sessions": 3}, {"queued": None}):
        changes = pool.engine.process(
            [inputs.SetQuota("p", limit)], pool.now
        ).changes
        assert changes.rows(db_api.QuotaRecord) == []


def test_resources_that_are_not_known_are_left_alone():
    row = db_api.QuotaRecord(
        id=3, project_id="p", resource="novelties", hard_limit=1
    )
    book = quotas.QuotaBook(DEFAULT, [row], 3)
    assert book.of("p") == DEFAULT


def test_use_is_counted(pool):
    for _ in range(3):
        pool.open(claimed_bytes=700)
    assert pool.in_use("p") == {
        "sessions": 1,
        "queued": 2,
        "queued_bytes": 1400,
        "live_per_user": 3,
        "bitstream_bytes": 0,
        "groups": 0,
        "group_slots": 0,
        "group_clients": 0,
    }
    assert set(pool.in_use("nobody").values()) == {0}


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        [],
        {},
        {"sessions": -2},
        {"sessions": "1"},
        {"sessions": True},
        {"sessions": 1.0},
        {"sessions": 2**63},
        {"sources": 1},
        {"cores": 1},
        {7: 1},
        {"sessions": {"sessions": {}}},
    ],
)
def test_what_is_no_limit(wrong):
    with pytest.raises(ValueError):
        quotas.check_limits(wrong)


# -- Keystone ---------------------------------------------------------------


class FakeReader:
    """Answers what it is told to, or fails."""

    def __init__(self) -> None:
        self.limits = keystone.UnifiedLimits()
        self.away = False

    def read(self) -> keystone.UnifiedLimits:
        if self.away:
            raise exception.KeystoneUnavailable(reason="it is away")
        return self.limits


@pytest.fixture
def reader() -> FakeReader:
    return FakeReader()


@pytest.fixture
def taken() -> list[admission.Quotas]:
    return []


@pytest.fixture
def follower(reader, taken) -> keystone_limits.LimitsFollower:
    return keystone_limits.LimitsFollower(
        reader, DEFAULT, taken.append, 60.0, pytest.fail
    )


def test_keystone_wins_over_the_configuration(reader, taken, follower):
    reader.limits = keystone.UnifiedLimits(
        {"sessions": 5, "novelties": 1, "queued_bytes": -1},
        {"p": {"sessions": 7, "novelties": 1}, "q": {}},
    )
    follower.follow()
    (found,) = taken
    assert (found.of("x").sessions, found.of("p").sessions) == (5, 7)
    assert found.of("p").queued_bytes is None
    assert found.of("p").queued == DEFAULT.queued
    sources = {
        name: found.of("p").source(name) for name in admission.RESOURCES
    }
    kept = {name for name in sources if sources[name] == "keystone"}
    assert kept == {"sessions", "queued_bytes"}
    assert set(sources.values()) == {"keystone", "default"}


def test_what_was_known_stays_while_keystone_is_away(
    reader, taken, follower, caplog
):
    reader.limits = keystone.UnifiedLimits({"sessions": 5})
    follower.follow()
    reader.away = True
    caplog.clear()
    for _ in range(3):
        follower.follow()
    assert len(taken) == 1
    (line,) = caplog.records
    assert "the previous ones still apply" in line.getMessage()
    reader.away = False
    follower.follow()
    assert len(taken) == 1
    reader.limits = keystone.UnifiedLimits({"sessions": 6})
    follower.follow()
    assert [one.default.sessions for one in taken] == [5, 6]


def test_the_configured_ones_hold_until_keystone_answers(
    reader, taken, follower, caplog
):
    reader.away = True
    follower.follow()
    assert taken == []
    assert "the configured ones still apply" in caplog.text


def test_the_thread_reads_and_ends(reader, taken, follower):
    follower.start()
    follower.stop()
    assert len(taken) == 1
