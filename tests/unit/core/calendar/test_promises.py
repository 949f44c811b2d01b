# SPDX-License-Identifier: Apache-2.0

"""Slots that are reserved by calendar."""

import dataclasses
import math

from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core.calendar import promises
from fpgapool.vocabulary import codes
from tests.unit.core import pools
from tests.unit.core import test_reservations

OWNER = promises.owner_of("p", "aes")


def make_pool(slot_count: int = 2, **settings: object) -> pools.Pool:
    return test_reservations.make_pool(slot_count, **settings)


def calendar(
    owners: dict[int, str] | None = None,
    until_s: dict[int, float] | None = None,
) -> events.CalendarChanged:
    return events.CalendarChanged(
        tuple((owners or {}).items()), tuple((until_s or {}).items())
    )


def own(job_id: int, **members: object) -> model.Job:
    return pools.make_job(job_id, project="p", **members)


def test_a_reserved_slot_is_for_its_project_and_accelerator() -> None:
    pool = make_pool()
    pool.step(calendar({11: OWNER}))
    output = pool.submit(
        own(1, accelerator="copy"),
        pools.make_job(2),
        pools.make_job(3),
    )
    assert pools.taken(output) == [(1, 10)]
    assert pool.state.status(2).reasons == (codes.SLOTS_RESERVED,)
    assert pools.taken(pool.submit(own(4))) == [(4, 11)]
    # Beyond it his jobs wait as all others do.
    assert pools.taken(pool.submit(own(5))) == []
    assert pool.state.status(5).reasons == (codes.NO_IDLE_SLOT,)
    assert pools.taken(pool.hear(events.SlotReleased, 10)) == [(2, 10)]
    assert pools.taken(pool.hear(events.SlotReleased, 11)) == [(5, 11)]
    # Without a reservation the slot is for all, and its holder stays.
    assert pool.step(calendar()) == []
    assert pools.taken(pool.hear(events.SlotReleased, 11)) == [(3, 11)]


def test_who_waits_already_gets_the_slot_at_the_start() -> None:
    pool = make_pool(1)
    pool.submit(pools.make_job(1), own(2), pools.make_job(3))
    assert pools.taken(pool.step(calendar({10: OWNER}))) == [(2, 10)]


def test_others_leave_at_the_start() -> None:
    pool = make_pool(3)
    pool.submit(
        own(1), pools.make_job(2), pools.make_job(3, accelerator="copy")
    )
    for slot_id in (10, 11, 12):
        pool.hear(events.SlotReady, slot_id)
        pool.hear(events.HolderAttached, slot_id)
    output = pool.step(calendar(dict.fromkeys((10, 11, 12), OWNER)))
    revoked = {
        (one.slot_id, one.reason)
        for one in output
        if isinstance(one, instructions.Revoke)
    }
    assert revoked == {(11, codes.RESERVED), (12, codes.RESERVED)}


def test_before_the_start_only_those_come_who_can_leave_or_end() -> None:
    pool = make_pool(1)
    pool.step(calendar(until_s={10: 1.0}))
    # 100 MB take 0.1 s at 1 GB/s, and twice that is counted.
    output = pool.submit(
        pools.make_job(1, claimed_bytes=6e8),
        pools.make_job(2, claimed_bytes=4e8),
    )
    assert pools.taken(output) == [(2, 10)]
    pool.submit(pools.make_job(3, accelerator="copy", claimed_bytes=1e12))
    output = pool.hear(events.SlotReleased, 10)
    assert pools.taken(output) == [(3, 10)]
    pool.hear(events.SlotReleased, 10)
    assert pool.state.status(1).reasons == (codes.SLOTS_RESERVED,)
    # When nothing is reserved any more, it comes.
    assert pools.taken(pool.step(calendar())) == [(1, 10)]


def test_the_owner_does_not_overrun_the_next_reservation() -> None:
    pool = make_pool(1)
    pool.step(calendar({10: OWNER}, {10: 1.0}))
    output = pool.submit(own(1, claimed_bytes=6e8), own(2, claimed_bytes=1e8))
    assert pools.taken(output) == [(2, 10)]


def test_it_stays_reserved_when_its_host_comes_back() -> None:
    pool = make_pool(1)
    pool.step(calendar({10: OWNER}))
    pool.step(events.HostLost(1))
    pool.submit(pools.make_job(1), own(2))
    output = pool.step(events.HostUp(pools.make_host(1, 1)))
    assert pools.taken(output) == [(2, 10)]


def test_it_ends_while_its_board_is_away() -> None:
    pool = make_pool(1)
    here = pools.make_host(1, 1)
    pool.step(calendar({10: OWNER}))
    pool.step(events.HostUp(dataclasses.replace(here, devices=())))
    pool.step(calendar())
    pool.submit(pools.make_job(1))
    assert pools.taken(pool.step(events.HostUp(here))) == [(1, 10)]


def test_slots_of_an_unknown_host_are_reserved_when_it_comes() -> None:
    pool = make_pool(1)
    pool.step(calendar({20: OWNER}, {21: math.inf}))
    pool.submit(pools.make_job(1), pools.make_job(2), own(3))
    output = pool.step(events.HostUp(pools.make_host(2, 2)))
    assert dict(pools.taken(output)) == {3: 20, 2: 21}


def test_instances_reserve_other_slots() -> None:
    pool = make_pool(2)
    pool.step(calendar({11: OWNER}))
    reserved = pool.step(test_reservations.reserve(a=1))
    assert test_reservations.reserved(reserved) == {10: "a"}
    assert pools.taken(pool.submit(own(1))) == [(1, 11)]
    instance = test_reservations.of("a", 2)
    assert pools.taken(pool.submit(instance)) == [(2, 10)]


def test_who_is_restored_into_the_slot_of_another_leaves() -> None:
    pool = make_pool(1)
    pool.step(calendar({10: OWNER}))
    output = pool.step(
        events.AssignmentRestored(
            pools.make_job(1), 10, 7, model.Phase.PREPARING
        )
    )
    (revoked,) = [
        one for one in output if isinstance(one, instructions.Requeue)
    ]
    assert revoked.reason == codes.RESERVED
