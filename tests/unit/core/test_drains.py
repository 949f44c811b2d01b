# SPDX-License-Identifier: Apache-2.0
"""Devices that operators disable and drain."""

import pytest

from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.vocabulary import codes
from tests.unit.core import pools


def test_a_device_that_is_disabled_is_given_to_nobody() -> None:
    pool = pools.make_pool(pools.make_host(1), pools.make_host(2))
    pool.submit(pools.make_job(1, host_id=1))
    assert pool.step(events.DeviceDisabled(1)) == []
    assert sorted(pool.state.assignments()) == [10]
    output = pool.submit(*(pools.make_job(n, host_id=1) for n in (2, 3, 4)))
    assert pools.taken(output) == [(2, 20), (3, 21)]
    # Who has a slot keeps it, and gives it back to nobody.
    assert pool.hear(events.SlotReady, 10) == [instructions.Grant(10, 1, 1)]
    assert pools.taken(pool.hear(events.SlotReleased, 10)) == []
    assert pools.taken(pool.step(events.DeviceEnabled(1))) == [(4, 10)]


def test_why_a_job_waits() -> None:
    pool = pools.make_pool(pools.make_host(1, slot_count=1))
    pool.step(events.DeviceDisabled(1))
    pool.submit(pools.make_job(1))
    assert pool.state.status(1).reasons == (codes.NO_ENABLED_SLOT,)
    pool.step(events.SlotFaulty(10, codes.SLOT_FAULTY))
    assert pool.state.status(1).reasons == (codes.NO_HEALTHY_SLOT,)
    pool.step(events.SlotRestored(10))
    pool.step(events.HostUp(pools.make_host(2, slot_count=1)))
    assert pool.state.status(1).reasons == ()


def test_a_disabled_home_is_not_waited_for() -> None:
    pool = pools.make_pool(
        pools.make_host(1, slot_count=1),
        pools.make_host(2, slot_count=1),
        strategy="ra",
        options={"wait_s_per_byte": float("inf")},
    )
    pool.submit(pools.make_job(1, host_id=1), pools.make_job(2, host_id=1))
    assert pool.state.waiting_count == 1
    assert pools.taken(pool.step(events.DeviceDisabled(1))) == [(2, 20)]


def test_it_outlives_news_of_the_host_and_may_come_before() -> None:
    pool = pools.make_pool()
    pool.step(events.DeviceDisabled(1))
    pool.step(events.HostUp(pools.make_host(1)))
    pool.step(events.HostLost(1))
    pool.step(events.HostUp(pools.make_host(1, slot_count=3)))
    assert pools.taken(pool.submit(pools.make_job(1))) == []
    assert pools.taken(pool.step(events.DeviceEnabled(1))) == [(1, 10)]


def test_a_drain_is_done_when_the_last_has_gone() -> None:
    pool = pools.make_pool(pools.make_host(1))
    pool.submit(pools.make_job(1), pools.make_job(2))
    assert pool.step(events.DrainRequested(1)) == []
    assert pool.step(events.DrainRequested(1)) == []
    assert pool.hear(events.SlotReleased, 10) == []
    assert pool.step(now=1e9) == []
    assert pool.hear(events.SlotReleased, 11) == [instructions.Drained(1)]
    assert pool.step(now=2e9) == []
    assert pool.step(events.DrainRequested(1)) == [instructions.Drained(1)]


@pytest.mark.parametrize("wish", [events.DeviceEnabled, events.DeviceDisabled])
def test_a_drain_can_be_called_off(wish) -> None:
    pool = pools.make_pool(pools.make_host(1, slot_count=1))
    pool.submit(pools.make_job(1))
    pool.hear(events.HolderAttached, 10)
    assert pool.step(events.DrainRequested(1, 5.0)) == [
        instructions.WakeAt(5.0)
    ]
    pool.step(wish(1))
    assert pool.step(events.Wake(), now=5.0) == []
    assert pool.hear(events.SlotReleased, 10) == []


def test_at_its_deadline_a_device_is_taken_back() -> None:
    pool = pools.make_pool(
        pools.make_host(1, slot_count=4), pools.make_host(2, slot_count=1)
    )
    pool.step(events.DeviceDisabled(2))
    pool.submit(*(pools.make_job(n) for n in range(1, 6)))
    pool.hear(events.SlotReady, 11)
    pool.hear(events.HolderAttached, 12)
    pool.hear(events.HolderAttached, 13)
    pool.hear(events.HolderDetached, 13)
    assert pool.step(events.DrainRequested(1, 5.0)) == [
        instructions.WakeAt(5.0)
    ]
    assert pool.step(events.Wake(), now=4.0) == [instructions.WakeAt(5.0)]
    output = pool.step(events.Wake(), now=5.0)
    assert output[:4] == [
        instructions.Requeue(1, 1, codes.DRAINED),
        instructions.Requeue(2, 2, codes.DRAINED),
        instructions.Revoke(12, 3, 3, codes.DRAINED),
        instructions.Revoke(13, 4, 4, codes.DRAINED),
    ]
    assert [job.id for job in pool.state.waiting()] == [1, 2, 5]
    assert pools.taken(pool.step(events.DeviceEnabled(2))) == [(1, 20)]
    # Asked once; and still taken until that is reported.
    assert pool.step(now=6.0) == []
    assert pool.hear(events.SlotReleased, 12) == []
    assert pool.hear(events.SlotReleased, 13) == [instructions.Drained(1)]


def test_a_deadline_in_the_past_counts_at_once() -> None:
    pool = pools.make_pool(pools.make_host(1))
    pool.submit(pools.make_job(1), now=10.0)
    assert pool.step(events.DrainRequested(1, 9.0)) == [
        instructions.Requeue(1, 1, codes.DRAINED),
        instructions.Drained(1),
    ]


def test_who_leaves_anyway_is_not_asked_again() -> None:
    pool = pools.make_pool(pools.make_host(1))
    pool.submit(pools.make_job(1))
    pool.hear(events.HolderAttached, 10)
    pool.step(events.JobCancelled(1, codes.CANCELLED_BY_CLIENT))
    assert pool.step(events.DrainRequested(1, 0.0)) == []
    assert pool.hear(events.SlotReleased, 10) == [instructions.Drained(1)]


def test_of_a_silent_host_nobody_is_taken_back() -> None:
    """The data may be flowing, and no order would arrive."""
    pool = pools.make_pool(pools.make_host(1, slot_count=1))
    pool.submit(pools.make_job(1))
    pool.hear(events.HolderAttached, 10)
    pool.step(events.HostLost(1))
    assert pool.step(events.DrainRequested(1, 0.0)) == []
    assert pool.step(events.HostUp(pools.make_host(1, slot_count=1))) == [
        instructions.Revoke(10, 1, 1, codes.DRAINED)
    ]


@pytest.mark.parametrize("known", [True, False])
def test_after_a_restart(known: bool) -> None:
    """Assignments are there before their devices."""
    pool = pools.make_pool()
    device_id = 1 if known else None
    output = pool.step(
        events.DrainRequested(1, 0.0),
        events.AssignmentRestored(
            pools.make_job(1),
            10,
            7,
            pools.model.Phase.ACTIVE,
            host_id=1,
            device_id=device_id,
        ),
    )
    assert output == ([] if known else [instructions.Drained(1)])
    output = pool.step(events.HostUp(pools.make_host(1)))
    assert output == (
        [instructions.Revoke(10, 1, 7, codes.DRAINED)] if known else []
    )
    gone = [instructions.Drained(1)] if known else []
    assert pool.hear(events.SlotReleased, 10) == gone


def test_a_device_that_is_gone_is_drained_when_its_holders_are() -> None:
    pool = pools.make_pool(pools.make_host(1, slot_count=1))
    pool.submit(pools.make_job(1))
    pool.hear(events.HolderAttached, 10)
    pool.step(events.HostUp(pools.make_host(1, slot_count=0)))
    assert pool.step(events.DrainRequested(1)) == []
    assert pool.hear(events.SlotReleased, 10) == [instructions.Drained(1)]
