# SPDX-License-Identifier: Apache-2.0

"""The pool's state, rule by rule."""

import dataclasses

import pytest

from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.vocabulary import codes
from tests.unit.core import pools


def test_a_session_from_beginning_to_end() -> None:
    pool = pools.make_pool(pools.make_host(1), first_generation=7)
    assert pool.submit(pools.make_job(5, host_id=1)) == [
        instructions.Program(10, 5, 7)
    ]
    assert pool.hear(events.SlotReady, 10) == [instructions.Grant(10, 5, 7)]
    assert pool.hear(events.HolderAttached, 10) == []
    assert pool.state.assignments()[10].phase is model.Phase.ACTIVE
    assert pool.hear(events.HolderDetached, 10) == []
    assert pool.state.assignments()[10].phase is model.Phase.DETACHED
    assert pool.hear(events.Progress, 10, 100, 1e6) == []
    assert pool.hear(events.SlotReleased, 10) == []
    assert pool.state.assignments() == {}
    assert pool.state.status(5).reasons == (codes.UNKNOWN_JOB,)
    assert pool.state.idle_count == 2


def test_time_does_not_go_back() -> None:
    pool = pools.make_pool(pools.make_host(1))
    pool.step(now=5.0)
    with pytest.raises(ValueError, match="time went back"):
        pool.step(now=4.9)
    with pytest.raises(ValueError, match="time went back"):
        pool.step(now=float("nan"))


def test_stale_events_change_nothing() -> None:
    pool = pools.make_pool(pools.make_host(1))
    pool.submit(pools.make_job(1))
    stale = pool.generation(10) - 1
    for event in (
        events.SlotReady(10, stale),
        events.HolderAttached(10, stale),
        events.HolderDetached(10, stale),
        events.SlotReleased(10, stale),
        events.PrepareFailed(10, stale, codes.PROGRAM_FAILED),
        events.SlotReleased(99, 1),
    ):
        before = pool.state.assignments()
        assert pool.step(event) == []
        assert pool.state.assignments() == before


def test_repeated_events_change_nothing() -> None:
    pool = pools.make_pool(pools.make_host(1, slot_count=1))
    pool.submit(pools.make_job(1))
    pool.submit(pools.make_job(2))
    assert pool.submit(pools.make_job(1), pools.make_job(2)) == []
    assert pool.state.waiting_count == 1
    pool.hear(events.SlotReady, 10)
    assert pool.hear(events.SlotReady, 10) == []
    assert pool.step(events.HostUp(pools.make_host(1, slot_count=1))) == []


def test_arrivals_see_the_slots_of_the_same_instant() -> None:
    pool = pools.make_pool(pools.make_host(1, slot_count=1))
    pool.submit(pools.make_job(1))
    output = pool.step(
        events.JobSubmitted(pools.make_job(2)),
        events.SlotReleased(10, pool.generation(10)),
    )
    assert pools.taken(output) == [(2, 10)]


def test_a_full_pool_does_not_ask_its_strategy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = pools.make_pool(pools.make_host(1, slot_count=1))
    pool.submit(pools.make_job(1))
    with monkeypatch.context() as patch:
        patch.delattr(type(pool.state._strategy), "assign")
        assert pool.submit(pools.make_job(2), now=1.0) == []
    output = pool.hear(events.SlotReleased, 10)
    assert pools.taken(output) == [(2, 10)]


def test_submitted_and_cancelled_in_one_instant() -> None:
    pool = pools.make_pool(pools.make_host(1))
    output = pool.step(
        events.JobCancelled(1, codes.CANCELLED_BY_CLIENT),
        events.JobSubmitted(pools.make_job(1)),
    )
    assert output == []
    assert pool.state.waiting_count == 0


@pytest.mark.parametrize(
    ("job", "code"),
    [
        (pools.make_job(1, accelerator="xyz"), codes.UNKNOWN_ACCELERATOR),
        (pools.make_job(1, claimed_bytes=0), codes.INVALID_SIZE),
        (pools.make_job(1, claimed_bytes=-1), codes.INVALID_SIZE),
        (pools.make_job(1, claimed_bytes=float("nan")), codes.INVALID_SIZE),
        (pools.make_job(1, claimed_bytes=float("inf")), codes.INVALID_SIZE),
    ],
)
def test_bad_jobs_are_rejected(job: model.Job, code: str) -> None:
    pool = pools.make_pool(pools.make_host(1))
    (order,) = pool.submit(job)
    assert isinstance(order, instructions.Reject)
    assert (order.job_id, order.code) == (1, code)
    assert pool.state.waiting_count == 0


# -- cancelling and time limits ----------------------------------------


def test_cancelling_a_job_that_waits() -> None:
    pool = pools.make_pool()
    pool.submit(pools.make_job(1))
    assert pool.step(events.JobCancelled(1, codes.CLIENT_GONE)) == []
    assert pool.state.waiting_count == 0
    assert pool.step(events.JobCancelled(1, codes.CLIENT_GONE)) == []


def test_a_cancelled_holder_keeps_its_slot_until_it_is_released() -> None:
    pool = pools.make_pool(pools.make_host(1, slot_count=1))
    pool.submit(pools.make_job(1))
    cancel = events.JobCancelled(1, codes.CLIENT_GONE)
    assert pool.step(cancel) == [
        instructions.Revoke(10, 1, 1, codes.CLIENT_GONE)
    ]
    assert pool.step(cancel) == []
    assert pools.taken(pool.submit(pools.make_job(2))) == []
    assert pool.hear(events.SlotReady, 10) == []
    assert pools.taken(pool.hear(events.SlotReleased, 10)) == [(2, 10)]


def test_a_cancelled_holder_is_not_requeued() -> None:
    pool = pools.make_pool(pools.make_host(1), pools.make_host(2))
    pool.submit(pools.make_job(1, host_id=1), pools.make_job(2, host_id=2))
    for job_id in (1, 2):
        pool.step(events.JobCancelled(job_id, codes.CLIENT_GONE))
    assert pool.hear(events.PrepareFailed, 10, codes.PROGRAM_FAILED) == []
    assert pool.step(events.HostLost(2)) == []
    assert pool.state.assignments() == {}
    assert pool.state.waiting_count == 0


def test_waiting_too_long() -> None:
    pool = pools.make_pool()
    job = pools.make_job(1, arrival_s=10.0, wait_timeout_s=5.0)
    assert pool.submit(job, now=12.0) == [instructions.WakeAt(15.0)]
    (order,) = pool.step(events.Wake(), now=15.0)
    assert isinstance(order, instructions.Reject)
    assert order.code == codes.WAIT_TIMEOUT
    assert pool.state.waiting_count == 0


def test_woken_too_early_it_asks_again() -> None:
    pool = pools.make_pool()
    pool.submit(pools.make_job(1, wait_timeout_s=5.0))
    assert pool.step(events.Wake(), now=4.0) == [instructions.WakeAt(5.0)]


def test_the_time_limit_ends_with_the_waiting() -> None:
    pool = pools.make_pool(pools.make_host(1))
    pool.submit(pools.make_job(1, wait_timeout_s=5.0))
    assert pool.step(events.Wake(), now=6.0) == []
    assert 10 in pool.state.assignments()


# -- faults --------------------------------------------------------------


def test_a_failed_preparation_goes_to_another_slot() -> None:
    pool = pools.make_pool(pools.make_host(1))
    pool.submit(pools.make_job(1, host_id=1))
    assert pool.hear(events.PrepareFailed, 10, codes.PROGRAM_FAILED) == [
        instructions.Requeue(1, 1, codes.PROGRAM_FAILED),
        instructions.Program(11, 1, 2),
    ]


def test_the_only_slot_left_is_tried_again() -> None:
    pool = pools.make_pool(pools.make_host(1, slot_count=1))
    pool.submit(pools.make_job(1))
    output = pool.hear(events.PrepareFailed, 10, codes.PROGRAM_FAILED)
    assert pools.taken(output) == [(1, 10)]


def test_a_requeued_job_has_its_old_place() -> None:
    pool = pools.make_pool(pools.make_host(1, slot_count=1))
    pool.submit(pools.make_job(1))
    pool.submit(pools.make_job(2), pools.make_job(3))
    pool.step(events.HostLost(1))
    assert [job.id for job in pool.state.waiting()] == [1, 2, 3]
    assert pool.state.queue_position(3) == 2


def test_a_slot_that_is_out_is_given_to_nobody_and_comes_back() -> None:
    pool = pools.make_pool(pools.make_host(1, slot_count=1))
    pool.step(events.SlotFaulty(10, codes.PROGRAM_FAILED))
    pool.submit(pools.make_job(1))
    assert pool.state.status(1).reasons == (codes.NO_HEALTHY_SLOT,)
    assert pools.taken(pool.step(events.SlotRestored(10))) == [(1, 10)]


def test_a_slot_that_is_taken_out_as_it_fails_gets_no_other_job() -> None:
    pool = pools.make_pool(pools.make_host(1, slot_count=1))
    pool.submit(pools.make_job(1), pools.make_job(2))
    generation = pool.state.assignments()[10].generation
    output = pool.step(
        events.PrepareFailed(10, generation, codes.PROGRAM_FAILED),
        events.SlotFaulty(10, codes.PROGRAM_FAILED),
    )
    assert output == [instructions.Requeue(1, 1, codes.PROGRAM_FAILED)]


def two_hosts() -> pools.Pool:
    return pools.make_pool(
        pools.make_host(1, slot_count=1), pools.make_host(2, slot_count=1)
    )


def test_an_accelerator_is_kept_off_a_host() -> None:
    pool = two_hosts()
    pool.step(events.AcceleratorFaulty(1, "aes"))
    assert pools.taken(pool.submit(pools.make_job(1))) == [(1, 20)]
    # It rather waits for the other one.
    assert pools.taken(pool.submit(pools.make_job(2))) == []


def test_an_accelerator_is_kept_off_a_hosts_slots_of_one_shape() -> None:
    small, large = (
        pools.make_host(host_id, slot_count=1, shape=shape).devices[0].slots[0]
        for host_id, shape in ((1, "small"), (2, "large"))
    )
    host = model.HostSpec(
        1,
        "host1",
        1e9,
        tuple(
            model.DeviceSpec(number, 1, f"board{number}", 1e9, (slot,))
            for number, slot in enumerate(
                (
                    dataclasses.replace(small, device_id=0, host_id=1),
                    dataclasses.replace(
                        large, device_id=1, host_id=1, number=1
                    ),
                )
            )
        ),
    )
    pool = pools.make_pool(host)
    pool.step(events.AcceleratorFaulty(1, "aes", "small"))
    pool.step(events.AcceleratorRestored(1, "aes", "large"))
    pool.submit(pools.make_job(1), pools.make_job(2))
    assert pools.taken(pool.hear(events.SlotReleased, 20)) == [(2, 20)]
    output = pool.step(events.AcceleratorRestored(1, "aes", "small"))
    assert pools.taken(output) == []
    assert pools.taken(pool.submit(pools.make_job(3))) == [(3, 10)]


def test_who_waits_hears_of_it_and_that_it_is_over() -> None:
    pool = two_hosts()
    pool.submit(*(pools.make_job(number) for number in (1, 2, 3)))
    pool.step(events.AcceleratorFaulty(1, "aes"))
    assert pools.taken(pool.hear(events.SlotReleased, 10)) == []
    output = pool.step(events.AcceleratorRestored(1, "aes"))
    assert pools.taken(output) == [(3, 10)]


def test_a_host_that_comes_up_later_is_avoided_too() -> None:
    pool = pools.make_pool(pools.make_host(2, slot_count=1))
    pool.step(events.AcceleratorFaulty(1, "aes"))
    pool.submit(pools.make_job(1), pools.make_job(2))
    assert pools.taken(pool.step(events.HostUp(pools.make_host(1)))) == []
    assert pools.taken(pool.hear(events.SlotReleased, 20)) == [(2, 20)]


def test_the_only_host_is_better_than_none() -> None:
    pool = pools.make_pool(pools.make_host(1, slot_count=1))
    pool.step(events.AcceleratorFaulty(1, "aes"))
    assert pools.taken(pool.submit(pools.make_job(1))) == [(1, 10)]


def avoided_sets(pool: pools.Pool) -> list[frozenset[int]]:
    """What waiting jobs avoid: every object once."""
    view = pool.state.view
    found = {
        id(one): one
        for job in pool.state.waiting()
        if (one := view.record(job.id).avoided)
    }
    return list(found.values())


def test_all_who_avoid_the_same_share_one_set() -> None:
    pool = two_hosts()
    pool.submit(*(pools.make_job(number) for number in (1, 2, 3)))
    pool.step(events.AcceleratorFaulty(1, "aes"))
    pool.step(events.AcceleratorFaulty(2, "aes"))
    pool.submit(pools.make_job(4), pools.make_job(5))
    assert avoided_sets(pool) == [{10, 20}]
    pool.step(events.HostUp(pools.make_host(1, slot_count=2)))
    pool.submit(pools.make_job(6), pools.make_job(7))
    assert avoided_sets(pool) == [{10, 11, 20}]
    pool.step(events.AcceleratorRestored(1, "aes"))
    pool.submit(*(pools.make_job(number) for number in (8, 9)))
    assert avoided_sets(pool) == [{20}]


def test_news_of_the_same_slots_change_nothing_for_who_waits() -> None:
    pool = two_hosts()
    pool.submit(*(pools.make_job(number) for number in (1, 2, 3)))
    pool.step(events.AcceleratorFaulty(1, "aes"))
    (before,) = avoided_sets(pool)
    pool.step(events.HostUp(pools.make_host(1, slot_count=1)))
    pool.step(events.AcceleratorFaulty(1, "aes"))
    pool.submit(pools.make_job(4))
    assert [id(one) for one in avoided_sets(pool)] == [id(before)]


def self_test(pool: pools.Pool, slot_id: int = 10) -> instructions.Test:
    """Have a slot tested, and return the order."""
    (order,) = pool.step(events.TestRequested(slot_id, "aes"))
    return order


def test_a_self_test_has_its_slot_for_itself() -> None:
    pool = pools.make_pool(pools.make_host(1, slot_count=1))
    order = self_test(pool)
    assert order == instructions.Test(10, "aes", order.generation)
    assert pool.state.assignments()[10].holder == model.Holder(
        model.HolderKind.SELF_TEST, order.generation
    )
    assert pools.taken(pool.submit(pools.make_job(1))) == []
    assert pool.state.status(1).reasons == (codes.NO_IDLE_SLOT,)
    done = pool.step(events.SlotReleased(10, order.generation))
    assert pools.taken(done) == [(1, 10)]
    assert pool.state.assignments()[10].generation == order.generation + 1


def test_a_failed_self_test_gives_its_slot_back() -> None:
    pool = pools.make_pool(pools.make_host(1, slot_count=1))
    order = self_test(pool)
    pool.step(events.SlotReady(10, order.generation))
    assert (
        pool.step(
            events.PrepareFailed(10, order.generation, codes.SELF_TEST_FAILED)
        )
        == []
    )
    assert pools.taken(pool.submit(pools.make_job(1))) == [(1, 10)]


def test_slots_out_of_use_can_be_tested() -> None:
    pool = pools.make_pool(pools.make_host(1, slot_count=1))
    pool.step(events.SlotFaulty(10, codes.PROGRAM_FAILED))
    order = self_test(pool)
    pool.submit(pools.make_job(1))
    assert pool.step(events.SlotReleased(10, order.generation)) == []
    assert pools.taken(pool.step(events.SlotRestored(10))) == [(1, 10)]


def test_only_a_free_slot_of_a_host_that_is_up_can_be_tested() -> None:
    pool = pools.make_pool(pools.make_host(1, slot_count=1))
    for slot_id, why in ((10, "has a holder"), (99, "is not up")):
        pool.submit(pools.make_job(1))
        with pytest.raises(ValueError, match=why):
            self_test(pool, slot_id)
    pool.step(events.HostLost(1))
    with pytest.raises(ValueError, match="is not up"):
        self_test(pool)


def test_a_self_test_ends_with_its_host() -> None:
    pool = pools.make_pool(pools.make_host(1, slot_count=1))
    order = self_test(pool)
    pool.submit(pools.make_job(1))
    assert pool.step(events.HostLost(1)) == []
    assert pool.state.assignments() == {}
    up = pool.step(events.HostUp(pools.make_host(1, slot_count=1)))
    assert pools.taken(up) == [(1, 10)]
    pool.step(events.SlotReleased(10, order.generation))
    assert pool.state.assignments()[10].holder.id == 1


def test_a_drain_waits_for_a_self_test() -> None:
    pool = pools.make_pool(pools.make_host(1, slot_count=1))
    order = self_test(pool)
    assert pool.step(events.DrainRequested(1, deadline_s=0.0)) == []
    done = pool.step(events.SlotReleased(10, order.generation))
    assert done == [instructions.Drained(1)]


def test_a_reservation_waits_for_a_self_test() -> None:
    pool = pools.make_pool(pools.make_host(1, slot_count=1))
    order = self_test(pool)
    wanted = events.ReservationsChanged(((1, (("vm", 1),)),))
    assert pool.step(wanted) == []
    pool.submit(pools.make_job(1, instance_id="vm"))
    done = pool.step(events.SlotReleased(10, order.generation))
    assert done[0] == instructions.Reserve(10, "vm")
    assert pools.taken(done) == [(1, 10)]


def test_claims_and_progress_of_a_self_test_mean_nothing() -> None:
    pool = pools.make_pool(pools.make_host(1, slot_count=1))
    order = self_test(pool)
    pool.submit(pools.make_job(1))
    assert pool.step(events.ClaimExceeded(10, order.generation)) == []
    assert pool.step(events.Progress(10, order.generation, 1, 1.0)) == []
    assert pool.step(events.HolderAttached(10, order.generation)) == []
    assert pool.step(events.HostLost(1)) == []
    assert list(pool.state.assignments()) == [10]


def test_a_fault_outlives_news_of_the_host() -> None:
    pool = pools.make_pool(pools.make_host(1, slot_count=1))
    pool.step(events.DeviceFailed(1, codes.DEVICE_FAILED))
    pool.step(events.HostUp(pools.make_host(1, slot_count=2)))
    assert pools.taken(pool.submit(pools.make_job(1))) == []
    assert pools.taken(pool.step(events.DeviceRestored(1))) == [(1, 10)]


def test_a_lost_host_requeues_only_who_has_not_begun() -> None:
    pool = pools.make_pool(pools.make_host(1, slot_count=4))
    pool.submit(*(pools.make_job(n, host_id=1) for n in range(1, 5)))
    pool.hear(events.SlotReady, 11)
    pool.hear(events.HolderAttached, 12)
    pool.hear(events.HolderAttached, 13)
    pool.hear(events.HolderDetached, 13)
    assert pool.step(events.HostLost(1))[:2] == [
        instructions.Requeue(1, 1, codes.HOST_LOST),
        instructions.Requeue(2, 2, codes.HOST_LOST),
    ]
    assert sorted(pool.state.assignments()) == [12, 13]
    assert pool.state.status(1).reasons == (codes.NO_HOST_UP,)
    output = pool.step(events.HostUp(pools.make_host(1, slot_count=4)))
    assert pools.taken(output) == [(1, 10), (2, 11)]


def test_what_half_programmed_slots_hold_is_not_known() -> None:
    pool = pools.make_pool(pools.make_host(1, programmed="fft"))
    pool.submit(pools.make_job(1), pools.make_job(2), pools.make_job(3))
    pool.hear(events.SlotReleased, 10)
    pool.hear(events.SlotReady, 11)
    pool.hear(events.SlotReleased, 11)
    slots = pool.state.view.slots.slots
    assert (slots[10].programmed, slots[11].programmed) == (None, "aes")


def test_news_of_a_slot_in_use_is_older_than_what_is_known() -> None:
    pool = pools.make_pool(pools.make_host(1, programmed="fft"))
    pool.submit(pools.make_job(1))
    pool.hear(events.SlotReady, 10)
    pool.step(events.HostUp(pools.make_host(1, programmed="sha")))
    slots = pool.state.view.slots.slots
    assert (slots[10].programmed, slots[11].programmed) == ("aes", "sha")


def test_groups_of_jobs_that_failed_do_not_pile_up() -> None:
    pool = pools.make_pool(pools.make_host(1, slot_count=2))
    for job_id in range(5):
        pool.submit(pools.make_job(job_id))
        pool.hear(events.PrepareFailed, 10, codes.PROGRAM_FAILED)
        pool.hear(events.SlotReleased, 11)
        pool.step(events.DeviceRestored(1))
    assert len(list(pool.state.view.jobs.groups())) == 1


# -- restarts ------------------------------------------------------------


def restored(phase: model.Phase = model.Phase.ACTIVE) -> events.Event:
    return events.AssignmentRestored(
        pools.make_job(1, host_id=1), 10, 41, phase, host_id=1
    )


def test_a_restored_assignment_holds_its_slot() -> None:
    pool = pools.make_pool()
    assert pool.step(restored()) == []
    output = pool.step(
        events.HostUp(pools.make_host(1)),
        events.JobSubmitted(pools.make_job(2)),
    )
    assert output == [instructions.Program(11, 2, 42)]
    assert pool.state.assignments()[10].local
    assert pool.step(restored()) == []


def test_whether_a_holder_is_local_shows_with_its_host() -> None:
    pool = pools.make_pool()
    job = pools.make_job(1, host_id=1)
    pool.step(events.AssignmentRestored(job, 10, 41, model.Phase.ACTIVE))
    assert not pool.state.assignments()[10].local
    pool.step(events.HostUp(pools.make_host(1)))
    assert pool.state.assignments()[10].local


def test_a_host_that_does_not_come_back_is_lost() -> None:
    pool = pools.make_pool()
    pool.step(restored(model.Phase.PREPARING))
    assert pool.step(events.HostLost(1)) == [
        instructions.Requeue(1, 41, codes.HOST_LOST)
    ]


def test_two_jobs_cannot_have_one_slot() -> None:
    pool = pools.make_pool()
    pool.step(restored())
    other = events.AssignmentRestored(
        pools.make_job(2), 10, 42, model.Phase.READY
    )
    with pytest.raises(ValueError, match="job 2 cannot be assigned slot 10"):
        pool.step(other)


def test_a_slot_has_one_host() -> None:
    pool = pools.make_pool(pools.make_host(1))
    stolen = pools.make_host(1).slots()[0]
    with pytest.raises(ValueError, match="belongs to another host"):
        model.HostSpec(
            2,
            "host2",
            1e9,
            (model.DeviceSpec(2, 2, "board0", 1e9, (stolen,)),),
        )
    moved = model.SlotSpec(10, 2, 2, 0, "small")
    host = model.HostSpec(
        2, "host2", 1e9, (model.DeviceSpec(2, 2, "board0", 1e9, (moved,)),)
    )
    with pytest.raises(ValueError, match="slot 10 belongs to host 1"):
        pool.step(events.HostUp(host))


# -- when a pass is made, and when it is not -----------------------------


def test_reports_cause_no_pass() -> None:
    """A pass would be seen: it counts skips."""
    pool = pools.make_pool(
        pools.make_host(1, slot_count=1),
        pools.make_host(2, slot_count=1),
        strategy="ra",
        options={"skip_limit": 9},
    )
    pool.submit(pools.make_job(1, host_id=1))
    pool.submit(pools.make_job(2, host_id=1))
    assert pool.state.skips(2) == 1
    pool.hear(events.Progress, 10, 1, 1.0)
    pool.hear(events.SlotReady, 10)
    pool.step(events.HostUp(pools.make_host(2, slot_count=1)))
    pool.step(events.HostUp(pools.make_host(2, 1, programmed="fft")))
    pool.step(events.Wake())
    pool.step(events.JobCancelled(99, codes.CLIENT_GONE))
    assert pool.state.skips(2) == 1
    pool.submit(pools.make_job(3, host_id=1))
    assert pool.state.skips(2) == 2


@pytest.mark.parametrize("wakeups", [True, False])
def test_waiting_for_the_own_host_long_enough(wakeups: bool) -> None:
    pool = pools.make_pool(
        pools.make_host(1, slot_count=1),
        pools.make_host(2, slot_count=1),
        strategy="ra",
        wakeups=wakeups,
    )
    pool.submit(pools.make_job(1, host_id=1))
    output = pool.submit(pools.make_job(2, host_id=1))
    wakes = [o.time_s for o in output if isinstance(o, instructions.WakeAt)]
    assert wakes == pytest.approx([1.0] if wakeups else [])
    assert pool.state.status(2).reasons == (codes.WAITING_FOR_LOCAL,)
    output = pool.step(events.Wake(), now=1.0)
    assert pools.taken(output) == ([(2, 20)] if wakeups else [])


def test_patience_ends_for_a_job_that_was_passed_over_often_enough() -> None:
    """It would take the idle slot, but only a pass offers it that again."""
    pool = pools.make_pool(
        pools.make_host(1, slot_count=1),
        pools.make_host(2, slot_count=1),
        strategy="ra",
        options={"remote_limit": 1, "skip_limit": 1, "wait_s_per_byte": 1e-9},
    )
    pool.submit(pools.make_job(1, host_id=1))
    job = pools.make_job(2, host_id=1, arrival_s=1.0)
    output = pool.step(events.JobSubmitted(job), now=1.0)
    assert pool.state.skips(2) == 1
    wakes = [o.time_s for o in output if isinstance(o, instructions.WakeAt)]
    assert wakes == pytest.approx([1.1])
    output = pool.step(events.Wake(), now=wakes[0])
    assert pools.taken(output) == [(2, 20)]


# -- reasons -------------------------------------------------------------


def test_why_a_job_waits() -> None:
    pool = pools.make_pool(
        strategy="ra", options={"remote_limit": 1, "wait_s_per_byte": 1.0}
    )
    pool.submit(pools.make_job(1), pools.make_job(2, accelerator="fft"))
    assert pool.state.status(1).reasons == (codes.NO_HOST_UP,)
    pool.step(events.HostUp(pools.make_host(1)))
    assert pool.state.status(1) == model.Status(model.Verdict.OK)
    assert pool.state.status(2).reasons == (codes.NO_COMPATIBLE_SLOT,)
    pool.submit(pools.make_job(3))
    assert pool.state.status(3).reasons == (codes.REMOTE_LIMIT,)
    pool.submit(pools.make_job(4, host_id=1), pools.make_job(5, host_id=1))
    assert pool.state.status(5).reasons == (codes.NO_IDLE_SLOT,)
    assert pool.state.status(5).verdict is model.Verdict.NOT_NOW


def test_an_accelerator_that_goes_away_takes_its_jobs_along() -> None:
    pool = pools.make_pool()
    pool.submit(pools.make_job(1), pools.make_job(2, accelerator="fft"))
    (order,) = pool.step(events.AcceleratorsChanged((pools.AES,)))
    assert isinstance(order, instructions.Reject)
    assert (order.job_id, order.code) == (2, codes.UNKNOWN_ACCELERATOR)


def test_an_accelerator_gets_another_shape() -> None:
    pool = pools.make_pool(pools.make_host(1))
    pool.submit(pools.make_job(1, accelerator="fft"))
    fft = model.Accelerator("fft", 1e9, shapes=frozenset({"small"}))
    output = pool.step(events.AcceleratorsChanged((fft,)))
    assert pools.taken(output) == [(1, 10)]
