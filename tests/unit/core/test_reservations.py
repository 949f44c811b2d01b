# SPDX-License-Identifier: Apache-2.0
"""Slots that instances have reserved."""

import pytest

from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import view
from fpgapool.core.queues import sharing
from fpgapool.strategies import shared
from fpgapool.vocabulary import codes
from tests.unit.core import pools

# aes of the pools is stateful, as all accelerators are that do not say so.
STATELESS = model.Accelerator(
    name="copy", peak_bytes_per_s=1e9, stateless=True
)


def reserve(**counts: int) -> events.ReservationsChanged:
    """All that is reserved, of device 1."""
    return events.ReservationsChanged(((1, tuple(sorted(counts.items()))),))


def make_pool(slot_count: int = 2, **settings: object) -> pools.Pool:
    pool = pools.make_pool(
        pools.make_host(1, slot_count=slot_count), **settings
    )
    pool.step(events.AcceleratorsChanged((pools.AES, pools.FFT, STATELESS)))
    return pool


def reserved(
    output: list[instructions.Instruction],
) -> dict[int, str | None]:
    return {
        order.slot_id: order.instance_id
        for order in output
        if isinstance(order, instructions.Reserve)
    }


def of(instance_id: str, job_id: int, **members: object) -> model.Job:
    return pools.make_job(job_id, instance_id=instance_id, **members)


def pending(pool: pools.Pool) -> int:
    return pool.state.view.reservations.pending(1)


def test_a_reserved_slot_is_for_its_instance_alone() -> None:
    pool = make_pool()
    assert reserved(pool.step(reserve(a=1))) == {11: "a"}
    output = pool.submit(
        of("b", 1), pools.make_job(2), pools.make_job(3), of("b", 4)
    )
    assert pools.taken(output) == [(1, 10)]
    assert pools.taken(pool.submit(of("a", 5))) == [(5, 11)]
    # It is his own again and again, whatever else waits.
    assert pools.taken(pool.hear(events.SlotReleased, 11)) == []
    assert pools.taken(pool.submit(of("a", 6))) == [(6, 11)]
    # Beyond it his jobs wait as all others do.
    assert pools.taken(pool.submit(of("a", 7))) == []
    assert pools.taken(pool.hear(events.SlotReleased, 10)) == [(2, 10)]
    assert pools.taken(pool.hear(events.SlotReleased, 11)) == [(7, 11)]


def test_the_queue_does_not_count_but_the_limit_does() -> None:
    strategy = shared.SharedStrategy(
        pools.strategies.fifo({"slot_choice": "index"}, 0),
        sharing.ShareOptions(fair=True),
    )
    pool = pools.make_pool_of(strategy, pools.make_host(1, slot_count=3))
    pool.step(events.SessionLimitsChanged(default=1), reserve(a=2))
    output = pool.submit(
        *(pools.make_job(n, project=f"q{n}") for n in range(3)),
        of("a", 10, project="p"),
        of("a", 11, project="p"),
    )
    assert pools.taken(output) == [(10, 11), (0, 10)]
    # The second one may go as soon as the limit allows it.
    assert pools.taken(pool.step(events.SessionLimitsChanged(default=2))) == [
        (11, 12)
    ]


def test_a_slot_stays_with_its_reservation() -> None:
    pool = make_pool(4)
    assert reserved(pool.step(reserve(b=1))) == {13: "b"}
    assert reserved(pool.step(reserve(a=1, b=1, c=1))) == {12: "a", 11: "c"}
    assert reserved(pool.step(reserve(a=1, b=1, c=1))) == {}
    assert reserved(pool.step(reserve(b=1, c=1))) == {12: None}
    assert reserved(pool.step(events.HostLost(1))) == {}
    assert reserved(pool.step(events.HostUp(pools.make_host(1, 4)))) == {}
    assert reserved(pool.step(reserve())) == {13: None, 11: None}


def test_who_can_be_moved_is_moved() -> None:
    pool = make_pool()
    pool.submit(*(pools.make_job(n, accelerator="copy") for n in (1, 2)))
    pool.hear(events.SlotReady, 11)
    pool.hear(events.HolderAttached, 11)
    generation = pool.generation(11)
    output = pool.step(reserve(a=1))
    assert reserved(output) == {11: "a"}
    assert instructions.Revoke(11, 2, generation, codes.RESERVED) in output
    assert pending(pool) == 1
    # It has time to leave, and is told once.
    assert pool.step(reserve(a=1)) == []
    pool.submit(of("a", 3))
    assert pools.taken(pool.hear(events.SlotReleased, 11)) == [(3, 11)]
    assert pending(pool) == 0


def test_who_has_not_begun_waits_again_at_his_place() -> None:
    pool = make_pool()
    pool.submit(pools.make_job(1), pools.make_job(2))
    pool.submit(of("a", 3), pools.make_job(4))
    generation = pool.generation(11)
    output = pool.step(reserve(a=1))
    assert instructions.Requeue(2, generation, codes.RESERVED) in output
    assert pools.taken(output) == [(3, 11)]
    assert [job.id for job in pool.state.waiting()] == [2, 4]


def test_a_session_that_cannot_be_moved_is_not_cut() -> None:
    pool = make_pool()
    pool.submit(pools.make_job(1), pools.make_job(2))
    for slot_id in (10, 11):
        pool.hear(events.SlotReady, slot_id)
    # A client may be about to connect to a slot that is ready.
    assert pool.step(reserve(a=1)) == []
    assert pending(pool) == 1
    pool.submit(pools.make_job(3), of("a", 4))
    output = pool.hear(events.SlotReleased, 10)
    assert reserved(output) == {10: "a"}
    assert pools.taken(output) == [(4, 10)]
    assert pending(pool) == 0


def test_idle_slots_are_reserved_rather_than_busy_ones() -> None:
    pool = make_pool(3)
    pool.submit(*(pools.make_job(n, accelerator="copy") for n in (1, 2, 3)))
    pool.hear(events.SlotReleased, 10)
    assert reserved(pool.step(reserve(a=1))) == {10: "a"}
    pool = make_pool()
    pool.submit(of("a", 1))
    pool.submit(pools.make_job(2, accelerator="copy"))
    # His own session is as good as none.
    assert reserved(pool.step(reserve(a=1))) == {10: "a"}
    assert pending(pool) == 0


def test_slots_that_nothing_fits_come_last() -> None:
    pool = pools.make_pool(pools.make_host(1))
    pool.step(
        events.HostUp(
            model.HostSpec(
                id=1,
                name="host1",
                nic_bytes_per_s=1e9,
                devices=(
                    model.DeviceSpec(
                        id=1,
                        host_id=1,
                        name="board0",
                        dma_bytes_per_s=1e9,
                        slots=tuple(
                            model.SlotSpec(10 + n, 1, 1, n, shape)
                            for n, shape in enumerate(("large", "odd"))
                        ),
                    ),
                ),
            )
        ),
        events.AcceleratorsChanged((pools.FFT,)),
    )
    assert reserved(pool.step(reserve(a=1))) == {10: "a"}
    assert reserved(pool.step(reserve(a=2))) == {11: "a"}


def test_a_faulty_slot_is_replaced_and_a_lost_host_awaited() -> None:
    pool = make_pool()
    pool.step(reserve(a=1))
    output = pool.step(events.SlotFaulty(11, codes.SLOT_FAULTY))
    assert reserved(output) == {11: None, 10: "a"}
    assert reserved(pool.step(events.SlotFaulty(10, codes.SLOT_FAULTY))) == {}
    assert pending(pool) == 1
    assert reserved(pool.step(events.SlotRestored(11))) == {10: None, 11: "a"}
    pool.submit(of("a", 1))
    pool.hear(events.SlotReady, 11)
    pool.step(events.HostLost(1))
    assert pending(pool) == 1
    pool.step(events.HostUp(pools.make_host(1)), events.SlotRestored(10))
    assert pools.taken(pool.submit(pools.make_job(2))) == [(2, 10)]
    assert pending(pool) == 0


def test_a_disabled_device_serves_no_reservation() -> None:
    pool = make_pool()
    pool.step(reserve(a=1), events.DeviceDisabled(1))
    assert pools.taken(pool.submit(of("a", 1))) == []
    assert pending(pool) == 1
    assert pool.state.status(1).reasons == (codes.NO_ENABLED_SLOT,)
    assert pools.taken(pool.step(events.DeviceEnabled(1))) == [(1, 11)]


def test_who_has_a_slot_keeps_it_after_the_reservation() -> None:
    pool = make_pool(1)
    pool.step(reserve(a=1))
    pool.submit(of("a", 1), pools.make_job(2))
    assert pool.step(reserve()) == [instructions.Reserve(10, None)]
    assert sorted(pool.state.assignments()) == [10]
    assert pools.taken(pool.hear(events.SlotReleased, 10)) == [(2, 10)]


def test_the_slots_of_before_a_restart_are_kept() -> None:
    pool = pools.make_pool()
    pool.step(
        events.AcceleratorsChanged((pools.AES,)),
        events.ReservationsChanged(
            ((1, (("a", 1), ("b", 1))),), ((10, "a"), (12, "gone"))
        ),
    )
    # Nothing is given away before the host is heard.
    pool.submit(*(pools.make_job(n) for n in (1, 2, 3)))
    output = pool.step(events.HostUp(pools.make_host(1, slot_count=3)))
    assert reserved(output) == {10: "a", 12: "b"}
    assert pools.taken(output) == [(1, 11)]


@pytest.mark.parametrize(
    "strategy", ["fifo", "sjf", "wa", "ra", "wra", "era", "auto"]
)
def test_reservable_slots_are_kept_from_sessions_that_stay(
    strategy: str,
) -> None:
    options: dict[str, object] = {}
    if strategy == "era":
        pool = pools.make_pool_of(
            pools.strategies.era({}, 0), pools.make_host(1, slot_count=3)
        )
        pool.step(
            events.AcceleratorsChanged((pools.AES, pools.FFT, STATELESS))
        )
    else:
        pool = make_pool(3, strategy=strategy, options=options)
    pool.step(events.ReservableSlotsChanged(1, 2))
    jobs = [pools.make_job(n, host_id=1) for n in range(3)]
    assert pools.taken(pool.submit(*jobs)) == [(0, 10)]
    assert pool.state.status(2).reasons == (codes.SLOTS_RESERVED,)
    output = pool.submit(pools.make_job(9, host_id=1, accelerator="copy"))
    ((_, slot_id),) = pools.taken(output)
    assert slot_id in (11, 12)
    # What is reserved need not be kept.
    output = pool.step(reserve(a=1))
    assert set(reserved(output).values()) == {"a"}
    assert pools.taken(output) == []
    output = pool.step(events.ReservableSlotsChanged(1, 0), reserve())
    assert pools.taken(output) == [(1, ({11, 12} - {slot_id}).pop())]


def test_kept_slots_are_others_than_those_that_never_come_free() -> None:
    pool = make_pool(3)
    pool.step(events.DeviceDisabled(1))
    job = pools.make_job(1)
    pool.step(
        events.AssignmentRestored(job, 12, 1, model.Phase.ACTIVE, 1, 1),
        events.DeviceEnabled(1),
        events.ReservableSlotsChanged(1, 1),
    )
    output = pool.submit(pools.make_job(2), pools.make_job(3))
    assert pools.taken(output) == [(2, 10)]


def test_jobs_of_any_shape_are_kept_out_of_new_shapes_too() -> None:
    pool = make_pool(1)
    pool.step(events.ReservableSlotsChanged(1, 1))
    pool.submit(pools.make_job(1))
    assert pool.state.status(1).reasons == (codes.SLOTS_RESERVED,)
    output = pool.step(events.HostUp(pools.make_host(2, 1, shape="large")))
    assert pools.taken(output) == [(1, 20)]
    pool.submit(pools.make_job(2))
    pool.step(events.HostLost(1))
    pool.step(events.HostLost(2))
    assert pool.state.status(2).reasons == (codes.NO_HOST_UP,)


def test_an_accelerator_that_becomes_stateless_may_go_anywhere() -> None:
    pool = make_pool(1)
    pool.step(events.ReservableSlotsChanged(1, 1))
    pool.submit(pools.make_job(1))
    movable = model.Accelerator(
        name="aes", peak_bytes_per_s=1e9, stateless=True
    )
    output = pool.step(events.AcceleratorsChanged((movable,)))
    assert pools.taken(output) == [(1, 10)]


def test_a_slot_on_which_a_job_failed_is_not_tried_again() -> None:
    pool = make_pool(2)
    pool.step(reserve(a=1))
    pool.submit(of("a", 1))
    output = pool.step(
        events.PrepareFailed(11, pool.generation(11), codes.PROGRAM_FAILED)
    )
    assert pools.taken(output) == [(1, 10)]


def test_a_holder_beyond_his_claim_leaves_for_his_own_instance() -> None:
    pool = make_pool(1)
    pool.step(reserve(a=1))
    pool.submit(of("a", 1, accelerator="copy"), pools.make_job(2))
    assert pool.hear(events.ClaimExceeded, 10) == []
    generation = pool.generation(10)
    assert pool.submit(of("a", 3)) == [
        instructions.Yield(10, 1, generation, codes.YIELDED)
    ]


def test_why_a_job_waits() -> None:
    pool = make_pool(1)
    pool.step(reserve(a=1))
    pool.submit(pools.make_job(1))
    assert pool.state.status(1).reasons == (codes.SLOTS_RESERVED,)
    pool.step(events.HostUp(pools.make_host(2, slot_count=1)))
    pool.submit(pools.make_job(2))
    assert pool.state.status(2).reasons == (codes.SLOTS_RESERVED,)
    pool.submit(of("a", 3))
    assert pool.state.status(2).reasons == (codes.NO_IDLE_SLOT,)


def test_more_than_there_is() -> None:
    pool = make_pool(2)
    pool.step(reserve(a=5, b=1), events.ReservableSlotsChanged(1, 99))
    assert pending(pool) == 4
    pool.step(reserve(a=-1, b=0), events.ReservableSlotsChanged(1, -3))
    assert pending(pool) == 0
    # Devices that nobody has heard of change nothing.
    pool.step(
        events.ReservationsChanged(((77, (("a", 1),)),)),
        events.ReservableSlotsChanged(78, 2),
    )
    output = pool.submit(pools.make_job(1), pools.make_job(2))
    assert pools.taken(output) == [(1, 10), (2, 11)]


def test_a_queue_that_the_limit_holds_is_not_walked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str | None] = []
    is_held = view.PoolView.is_held

    def note(pool_view: view.PoolView, project: str | None) -> bool:
        asked.append(project)
        return is_held(pool_view, project)

    def count(waiting: int) -> int:
        """:returns: how often one more job has the limit looked at."""
        strategy = shared.SharedStrategy(
            pools.strategies.fifo({"slot_choice": "index"}, 0),
            sharing.ShareOptions(fair=True),
        )
        pool = pools.make_pool_of(strategy, pools.make_host(1, slot_count=3))
        pool.step(events.SessionLimitsChanged(default=1), reserve(a=2))
        pool.submit(pools.make_job(1, project="p"))
        pool.submit(*(of("a", 10 + n, project="p") for n in range(waiting)))
        assert pool.state.waiting_count == waiting
        asked.clear()
        # Without the invariants, which look at all.
        output = pool.state.step(
            (events.JobSubmitted(of("a", 9, project="p")),), pool.now
        )
        assert pools.taken(output) == []
        return len(asked)

    monkeypatch.setattr(view.PoolView, "is_held", note)
    few = count(2)
    assert few > 0
    assert count(200) == few


def test_the_only_slot_is_tried_again_after_a_failure() -> None:
    pool = make_pool(1)
    pool.step(reserve(a=1))
    pool.submit(of("a", 1))
    output = pool.step(
        events.PrepareFailed(10, pool.generation(10), codes.PROGRAM_FAILED)
    )
    assert pools.taken(output) == [(1, 10)]
    # Of two, the one on which it has not failed.
    pool = make_pool(2)
    pool.step(reserve(a=2))
    pool.submit(of("a", 1))
    (first,) = pool.state.assignments()
    output = pool.step(
        events.PrepareFailed(
            first, pool.generation(first), codes.PROGRAM_FAILED
        )
    )
    assert pools.taken(output) == [(1, 21 - first)]


def test_a_revoked_session_of_a_lost_host_keeps_its_slot() -> None:
    pool = make_pool(1)
    pool.submit(pools.make_job(1, accelerator="copy"))
    pool.hear(events.SlotReady, 10)
    pool.hear(events.HolderAttached, 10)
    pool.step(reserve(a=1))
    pool.submit(of("a", 2))
    assert pool.state.assignments()[10].revoked
    pool.step(events.HostLost(1))
    output = pool.step(events.HostUp(pools.make_host(1, slot_count=1)))
    assert pools.taken(output) == []
    assert pool.state.assignments()[10].holder.id == 1
    assert pools.taken(pool.hear(events.SlotReleased, 10)) == [(2, 10)]


def test_it_is_tried_again_when_the_others_are_lost() -> None:
    pool = make_pool(1)
    pool.step(events.HostUp(pools.make_host(2, slot_count=1)), reserve(a=1))
    (other,) = pools.taken(pool.submit(pools.make_job(9)))
    assert other == (9, 20)
    assert pools.taken(pool.submit(of("a", 1))) == [(1, 10)]
    output = pool.step(
        events.PrepareFailed(10, pool.generation(10), codes.PROGRAM_FAILED)
    )
    assert pools.taken(output) == []
    assert pools.taken(pool.step(events.HostLost(2))) == [(1, 10)]
