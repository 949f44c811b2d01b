# SPDX-License-Identifier: Apache-2.0

"""Sessions of applications, and affinity, in the conductor."""

import pytest

from fpgapool import strategies
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import world


def make_pool() -> world.Conductor:
    """Make a host with three slots that are programmed in 2 s."""
    agent = world.FakeAgent("a", 3)
    for slot in agent.slots:
        slot.programming_time_s = 2.0
    return world.Conductor(
        [agent],
        make_strategy=lambda: strategies.affinity(
            {"affinity_wait_s": 10.0}, 0
        ),
    )


@pytest.fixture
def pool() -> world.Conductor:
    return make_pool()


def job_of(pool: world.Conductor, request_id: str):
    session_id = pool.view(request_id).session_id
    job_id = pool.memory.sessions.by_id[session_id].job_id
    return pool.memory.core.view.record(job_id).job


def test_the_application_is_kept_and_goes_to_the_scheduler(pool) -> None:
    request_id = pool.open(application="app-1")
    assert pool.view(request_id).application == "app-1"
    assert job_of(pool, request_id).affinity_key == "app-1"
    (row,) = pool.rows["sessions"].values()
    assert row.application == "app-1"
    pool.boot_conductor()
    assert job_of(pool, request_id).affinity_key == "app-1"


def test_a_session_without_one_is_by_itself(pool) -> None:
    assert job_of(pool, pool.open()).affinity_key is None


@pytest.mark.parametrize("wrong", ["", "a b", "a" * 65, 7])
def test_wrong_names_are_refused(pool, wrong) -> None:
    pool.open(application=wrong)
    (answer,) = pool.wire
    assert answer.view.reason == codes.INVALID_REQUEST
    assert not pool.rows["sessions"]


def test_a_session_is_woken_when_it_takes_the_slot_of_another_board(
    pool,
) -> None:
    pool.feed(world.library("copy", "other"))
    first = pool.open()
    pool.deliver_all()
    assert pool.view(first).state == states.PREPARING
    pool.now += 1.0
    waiting = pool.open(accelerator="other")
    assert pool.view(waiting).state == states.QUEUED
    assert pool.view(waiting).pending_reasons == (codes.WAITING_FOR_AFFINITY,)
    wake_at = pool.memory.link.wake_at
    assert wake_at == pytest.approx(pool.now + 10.0)
    pool.now = wake_at
    pool.feed()
    assert pool.view(waiting).state == states.PREPARING
