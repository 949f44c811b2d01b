# SPDX-License-Identifier: Apache-2.0

"""Affinity by small examples; ``tests/property`` has its rules in full."""

import typing

import pytest

from fpgapool import strategies
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core.queues import sharing
from fpgapool.strategies import shared
from fpgapool.vocabulary import codes
from tests.unit.core import pools

LR, KM = (
    model.Accelerator(name=name, peak_bytes_per_s=1e9) for name in ("lr", "km")
)


def make_pool(
    hosts: int = 1,
    slot_count: int = 3,
    strategy: str = "affinity",
    **options: typing.Any,
) -> pools.Pool:
    """Make hosts 1, 2, … whose slots are programmed in 1.5 s.

    Unless the options say else, jobs lose patience in 10 s.
    """
    pool = pools.make_pool(
        *(
            pools.make_host(host, slot_count, programming_time_s=1.5)
            for host in range(1, hosts + 1)
        ),
        strategy=strategy,
        options={"affinity_wait_s": 10.0} | options,
    )
    pool.step(events.AcceleratorsChanged((LR, KM)))
    return pool


def make_job(
    job_id: int, accelerator: str, **members: typing.Any
) -> model.Job:
    return pools.make_job(job_id, accelerator=accelerator, **members)


def hold(pool: pools.Pool, accelerator: str, *slot_ids: int) -> None:
    """Have a job of an accelerator in each of these slots."""
    for slot_id in slot_ids:
        host_id = slot_id // 10
        pool.step(
            events.AssignmentRestored(
                slot_id=slot_id,
                job=make_job(1000 + slot_id, accelerator),
                generation=1000 + slot_id,
                phase=model.Phase.ACTIVE,
                host_id=host_id,
                device_id=host_id,
            )
        )


def release(
    pool: pools.Pool, slot_id: int, now: float
) -> list[instructions.Instruction]:
    return pool.step(
        events.SlotReleased(slot_id, pool.generation(slot_id)), now=now
    )


def wakes(output: list[instructions.Instruction]) -> list[float]:
    return [
        pytest.approx(order.time_s)  # type: ignore[misc]
        for order in output
        if isinstance(order, instructions.WakeAt)
    ]


def test_an_empty_device_is_taken_at_once() -> None:
    pool = make_pool()
    assert pools.taken(pool.submit(make_job(1, "km"))) == [(1, 10)]


def test_a_device_of_the_same_kind_comes_before_the_queue() -> None:
    """The first job declines; the second one's accelerator runs there."""
    pool = make_pool()
    hold(pool, "lr", 10, 11)
    output = pool.submit(make_job(1, "km"), make_job(2, "lr"))
    assert pools.taken(output) == [(2, 12)]
    assert pool.state.status(1).reasons == (codes.NO_IDLE_SLOT,)


def test_affinity_is_of_the_device_and_not_of_the_pool() -> None:
    """Of two hosts one runs LR and one runs KM: the pool runs both alike."""
    pool = make_pool(hosts=2)
    hold(pool, "lr", 10, 11)
    hold(pool, "km", 20, 21)
    output = pool.submit(make_job(1, "km"), make_job(2, "lr"))
    assert sorted(pools.taken(output)) == [(1, 22), (2, 12)]


def test_two_boards_of_a_host_are_two_devices() -> None:
    host = pools.make_host(1, 4, programming_time_s=1.5)
    slots = host.devices[0].slots
    boards = tuple(
        model.DeviceSpec(
            id=board,
            host_id=1,
            name=f"board{board}",
            dma_bytes_per_s=1e9,
            slots=tuple(
                model.SlotSpec(
                    slot.id, board, 1, slot.number, "small", None, 1.5
                )
                for slot in slots[2 * board : 2 * board + 2]
            ),
        )
        for board in (0, 1)
    )
    pool = pools.make_pool(
        model.HostSpec(1, "host1", 1e9, boards), strategy="affinity"
    )
    pool.step(events.AcceleratorsChanged((LR, KM)))
    hold(pool, "lr", 10)
    hold(pool, "km", 12)
    assert pools.taken(pool.submit(make_job(1, "km"))) == [(1, 13)]


def test_the_only_job_of_its_kind_gets_a_slot_after_waiting() -> None:
    """LR jobs keep coming and going; KM is woken when its time has come."""
    pool = make_pool()
    hold(pool, "lr", 10, 11, 12)
    pool.submit(make_job(1, "km"), now=1.0)
    for second in range(1, 10):
        pool.submit(
            make_job(100 + second, "lr", arrival_s=float(second)),
            now=float(second),
        )
        output = release(pool, 10 + second % 3, float(second) + 0.5)
        assert [job for job, _ in pools.taken(output)] == [100 + second]
    output = release(pool, 10, 9.75)
    assert pools.taken(output) == []
    assert pool.state.status(1).reasons == (codes.WAITING_FOR_AFFINITY,)
    assert wakes(output) == [10.0]
    assert pools.taken(pool.step(events.Wake(), now=9.99)) == []
    output = pool.step(events.Wake(), now=10.0)
    assert pools.taken(output) == [(1, 10)]


def test_a_burst_of_ends_does_not_wear_the_threshold_down() -> None:
    pool = make_pool()
    hold(pool, "lr", 10, 11, 12)
    pool.submit(make_job(1, "km"))
    for number in range(1000):
        now = number / 1000
        pool.submit(make_job(2 + number, "lr", arrival_s=now), now=now)
        assert pools.taken(release(pool, 10 + number % 3, now)) == [
            (2 + number, 10 + number % 3)
        ]
    assert pools.taken(release(pool, 10, 1.0)) == []
    assert pools.taken(pool.step(events.Wake(), now=10.0)) == [(1, 10)]


def test_misses_count_in_simulations() -> None:
    """The same burst; KM takes the slot that is offered after four."""
    pool = make_pool(affinity_misses=4)
    hold(pool, "lr", 10, 11, 12)
    pool.submit(make_job(1, "km"))
    got = []
    for number in range(5):
        pool.submit(make_job(2 + number, "lr", arrival_s=1.0), now=1.0)
        output = release(pool, 10 + number % 3, 1.0)
        got += [job for job, _ in pools.taken(output)]
    assert got == [2, 3, 4, 5, 1]


def test_an_application_waits_since_its_last_grant() -> None:
    pool = make_pool()
    hold(pool, "lr", 10, 11)
    of_application = {"accelerator": "km", "project": "p", "affinity_key": "a"}
    pool.submit(
        pools.make_job(1, **of_application),
        pools.make_job(2, **of_application),
    )
    assert pools.taken(pool.step(events.Wake(), now=10.0)) == [(1, 12)]
    # A third of the device runs KM now.
    output = release(pool, 10, 12.0)
    assert pools.taken(output) == []
    # One of two jobs is left after the release: half of the time is enough.
    assert wakes(output) == [15.0]
    assert pools.taken(pool.step(events.Wake(), now=15.0)) == [(2, 10)]


def test_applications_of_other_projects_are_others() -> None:
    pool = make_pool()
    hold(pool, "lr", 10, 11)
    pool.submit(
        *(
            pools.make_job(
                number, accelerator="km", project=project, affinity_key="a"
            )
            for number, project in ((1, "p"), (2, "q"))
        )
    )
    assert pools.taken(pool.step(events.Wake(), now=10.0)) == [(1, 12)]
    # The other project's job has waited from its arrival.
    assert pools.taken(release(pool, 10, 10.0)) == [(2, 10)]


def test_a_slot_that_needs_no_programming_is_taken_from_any_device() -> None:
    pool = pools.make_pool(
        pools.make_host(1, 2, programmed="km", programming_time_s=1.5),
        pools.make_host(2, 2),
        strategy="affinity",
    )
    pool.step(events.AcceleratorsChanged((LR, KM)))
    hold(pool, "lr", 10, 20)
    output = pool.submit(make_job(1, "km"), make_job(2, "km"))
    assert pools.taken(output) == [(1, 11), (2, 21)]


def test_declined_slots_are_offered_again_when_their_device_fits_better() -> (
    None
):
    host = pools.make_host(1, 4, programming_time_s=1.5)
    device = host.devices[0]
    slots = [
        model.SlotSpec(
            slot.id,
            1,
            1,
            slot.number,
            slot.shape,
            "km" if slot.number == 3 else None,
            1.5,
        )
        for slot in device.slots
    ]
    board = model.DeviceSpec(1, 1, "board0", 1e9, tuple(slots))
    pool = pools.make_pool(
        model.HostSpec(1, "host1", 1e9, (board,)), strategy="affinity"
    )
    pool.step(events.AcceleratorsChanged((LR, KM)))
    hold(pool, "lr", 10, 11)
    jobs = [make_job(number, "km", arrival_s=-7.0) for number in (1, 2)]
    # Slot 12 is declined, until a third of the jobs are KM.
    assert pools.taken(pool.submit(*jobs)) == [(1, 13), (2, 12)]


def test_the_largest_job_comes_first_by_option() -> None:
    pool = make_pool(slot_count=1, largest_first=True)
    hold(pool, "lr", 10)
    pool.submit(
        *(
            make_job(number, "lr", claimed_bytes=size * 1e6)
            for number, size in enumerate((10, 30, 20, 30), 1)
        )
    )
    order = []
    for _ in range(4):
        order += [job for job, _ in pools.taken(release(pool, 10, 1.0))]
    assert order == [2, 4, 3, 1]


@pytest.mark.parametrize("name", ["ra", "wra"])
def test_jobs_of_the_slots_own_host_take_it_in_any_case(name: str) -> None:
    pool = make_pool(hosts=2, strategy=name, affinity=True, remote_limit=3)
    hold(pool, "lr", 10, 11, 20, 21)
    output = pool.submit(make_job(1, "km", host_id=1), make_job(2, "km"))
    assert pools.taken(output) == [(1, 12)]
    # A job from outside the pool does not take that of the other host.
    assert pool.state.status(2).reasons == (codes.WAITING_FOR_AFFINITY,)
    assert pools.taken(pool.step(events.Wake(), now=10.0)) == [(2, 22)]


def test_the_fallback_of_wra_needs_affinity_too() -> None:
    pool = make_pool(
        hosts=2,
        strategy="wra",
        affinity=True,
        fallback=True,
        wait_s_per_byte=1.0,
    )
    hold(pool, "lr", 10, 11, 12, 20, 21)
    output = pool.submit(make_job(1, "km", host_id=1))
    assert pools.taken(output) == []
    assert wakes(output) == [10.0]
    assert pools.taken(pool.step(events.Wake(), now=10.0)) == [(1, 22)]


def test_ra_reaches_its_remote_limit_with_affinity() -> None:
    pool = make_pool(strategy="ra", affinity=True, remote_limit=0)
    hold(pool, "lr", 10)
    pool.submit(make_job(1, "lr"))
    assert pool.state.status(1).reasons == (codes.REMOTE_LIMIT,)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("affinity", {"affinity_misses": -1}),
        ("affinity", {"affinity_misses": 1.5}),
        ("affinity", {"affinity_misses": True}),
        ("affinity", {"largest_first": 1}),
        ("affinity", {"affinity_wait_s": -1.0}),
        ("affinity", {"affinity_wait_s": float("nan")}),
        ("ra", {"affinity": "yes"}),
        ("ra", {"affinity_misses": 3}),
        ("wra", {"largest_first": True}),
    ],
)
def test_wrong_options_are_refused(
    name: str, options: dict[str, object]
) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        getattr(strategies, name)(options, 0)


def test_without_wakeups_a_job_gets_the_device_that_became_empty() -> None:
    pool = pools.make_pool(
        pools.make_host(1, 2, programming_time_s=1.5),
        strategy="affinity",
        options={"affinity_wait_s": 10.0},
        wakeups=False,
    )
    pool.step(events.AcceleratorsChanged((LR, KM)))
    hold(pool, "lr", 10)
    output = pool.submit(make_job(1, "km"))
    assert (pools.taken(output), wakes(output)) == ([], [])
    assert pools.taken(release(pool, 10, 1.0)) == [(1, 10)]


# -- patience that grows with the queue ----------------------------------


def make_learning(
    programmed: str = "lr", strategy: str = "affinity", **options: typing.Any
) -> pools.Pool:
    """Make a host with two slots that hold an accelerator."""
    pool = pools.make_pool(
        pools.make_host(1, 2, programmed=programmed, programming_time_s=1.5),
        strategy=strategy,
        options=options,
    )
    pool.step(events.AcceleratorsChanged((LR, KM)))
    hold(pool, programmed, 10, 11)
    return pool


def test_a_slot_takes_a_job_of_its_accelerator_from_behind_the_head() -> None:
    pool = make_learning()
    pool.submit(make_job(1, "km"), *(make_job(n, "lr") for n in (2, 3)))
    assert pools.taken(release(pool, 10, 29.9)) == [(2, 10)]


def test_a_head_without_patience_takes_any_slot() -> None:
    """Nobody waited before it: its patience is 20 × 1.5 s."""
    pool = make_learning()
    pool.submit(make_job(1, "km"), *(make_job(n, "lr") for n in (2, 3)))
    assert pools.taken(release(pool, 10, 30.0)) == [(1, 10)]


def test_patience_grows_with_the_jobs_before_it_per_slot() -> None:
    """Six jobs on two slots: 20 × 1.5 s × (1 + 3)."""
    for now, expected in ((119.9, 8), (120.0, 7)):
        pool = make_learning()
        pool.submit(*(make_job(n, "lr") for n in range(1, 7)))
        pool.submit(make_job(7, "km"), *(make_job(n, "lr") for n in (8, 9)))
        for n in range(1, 7):
            assert pools.taken(release(pool, 10, 1.0)) == [(n, 10)]
        assert pools.taken(release(pool, 10, now)) == [(expected, 10)]


def test_those_who_come_later_do_not_make_a_job_more_patient() -> None:
    pool = make_learning()
    pool.submit(make_job(1, "km"))
    pool.submit(*(make_job(n, "lr", arrival_s=1.0) for n in range(2, 99)))
    assert pools.taken(release(pool, 10, 30.0)) == [(1, 10)]


def test_a_slot_that_nobody_can_start_in_at_once_goes_to_the_first() -> None:
    pool = make_learning("fft")
    output = pool.submit(make_job(1, "km"), make_job(2, "lr"))
    assert pools.taken(output) == []
    output = release(pool, 11, 0.0)
    assert (pools.taken(output), wakes(output)) == ([(1, 11)], [])


@pytest.mark.parametrize("order", ["index", "random", "least_busy"])
def test_jobs_choose_before_slots_are_forced_on_them(order: str) -> None:
    pool = pools.make_pool(
        pools.make_host(1, 2, programmed="km", programming_time_s=1.5),
        pools.make_host(2, 2, programmed="lr", programming_time_s=1.5),
        strategy="affinity",
        options={"offer_order": order},
    )
    pool.step(events.AcceleratorsChanged((LR, KM)))
    hold(pool, "km", 10)
    hold(pool, "lr", 20)
    output = pool.submit(
        make_job(1, "lr"), make_job(2, "lr"), make_job(3, "lr")
    )
    assert pools.taken(output) == [(1, 21), (2, 11)]


@pytest.mark.parametrize("name", ["ra", "wra"])
def test_patience_grows_for_remote_jobs_of_other_strategies(
    name: str,
) -> None:
    pool = make_learning(strategy=name, affinity=True, remote_limit=2)
    pool.submit(make_job(1, "km"), *(make_job(n, "lr") for n in (2, 3)))
    assert pools.taken(release(pool, 10, 29.9)) == [(2, 10)]
    assert pools.taken(release(pool, 11, 30.0)) == [(1, 11)]


def test_an_application_that_is_served_waits_twice_at_most() -> None:
    """Its other jobs get slots all the time."""
    pool = make_learning()
    pool.submit(
        *(
            make_job(n, name, affinity_key="a")
            for n, name in ((1, "km"), (2, "lr"))
        )
    )
    for n, now in enumerate((20.0, 30.0, 45.0, 59.9), 3):
        fresh = make_job(n, "lr", affinity_key="a", arrival_s=now)
        pool.submit(fresh, now=now)
        assert pools.taken(release(pool, 10, now)) == [(n - 1, 10)]
    assert pools.taken(release(pool, 10, 60.0)) == [(1, 10)]


@pytest.mark.parametrize(
    "first",
    [
        {"priority": 1},
        # The other project has used up its round.
        {"project": "q"},
        {"project": "q", "arrival_s": -50.0},
    ],
)
def test_priorities_shares_and_urgency_come_before_affinity(
    first: dict[str, typing.Any],
) -> None:
    made = shared.SharedStrategy(
        strategies.affinity({}, 0),
        sharing.ShareOptions(fair="arrival_s" not in first),
        max_wait_s=50.0,
    )
    board = pools.make_host(1, 2, programmed="lr", programming_time_s=1.5)
    pool = pools.make_pool_of(made, board)
    pool.step(events.AcceleratorsChanged((LR, KM)))
    hold(pool, "lr", 11)
    large = make_job(3, "lr", claimed_bytes=1e13)
    assert pools.taken(pool.submit(large)) == [(3, 10)]
    pool.hear(events.SlotReady, 10)
    pool.submit(make_job(1, "lr"), make_job(2, "km", **first))
    assert pools.taken(release(pool, 10, 1.0)) == [(2, 10)]


def test_a_wait_that_is_given_is_the_patience_of_all() -> None:
    pool = make_learning(affinity_wait_s=5.0)
    pool.submit(make_job(1, "km"), *(make_job(n, "lr") for n in (2, 3)))
    assert pools.taken(release(pool, 10, 4.9)) == [(2, 10)]
    assert pools.taken(release(pool, 11, 5.0)) == [(1, 11)]
