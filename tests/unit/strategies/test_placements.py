# SPDX-License-Identifier: Apache-2.0

"""The rules of the placements, one by one."""

import dataclasses

import pytest

from fpgapool.core import events
from fpgapool.core import model
from tests.unit.core import pools


def test_a_job_without_a_slot_blocks_nobody() -> None:
    pool = pools.make_pool(pools.make_host(1, 1), strategy="fifo")
    output = pool.submit(
        pools.make_job(1, accelerator="fft"), pools.make_job(2)
    )
    assert pools.taken(output) == [(2, 10)]


@pytest.mark.parametrize(
    ("order", "slots"),
    [("index", [10, 11, 20, 21]), ("least_busy", [10, 20, 11, 21])],
)
@pytest.mark.parametrize("strategy", ["fifo", "wra"])
def test_orders_of_slots(order: str, slots: list[int], strategy: str) -> None:
    pool = pools.make_pool(
        pools.make_host(1),
        pools.make_host(2),
        strategy=strategy,
        options={"slot_choice": order, "offer_order": order},
    )
    output = pool.submit(*(pools.make_job(n) for n in range(4)))
    assert [slot for _, slot in pools.taken(output)] == slots


@pytest.mark.parametrize("strategy", ["fifo", "wra"])
def test_random_order_depends_on_the_seed_alone(strategy: str) -> None:
    def run() -> list[tuple[int, int]]:
        pool = pools.make_pool(
            *(pools.make_host(n) for n in range(1, 9)),
            strategy=strategy,
            options={"slot_choice": "random", "offer_order": "random"},
        )
        return pools.taken(pool.submit(*(pools.make_job(n) for n in range(8))))

    assert run() == run()
    slots = [slot for _, slot in run()]
    assert slots != sorted(slots)


@pytest.mark.parametrize("strategy", ["fifo", "wra"])
@pytest.mark.parametrize(
    ("order", "time_s", "expected"),
    [("least_busy", 0.5, 11), ("least_busy", 0.0, 10), ("index", 0.5, 10)],
)
@pytest.mark.parametrize("host_id", [None, 1])
def test_a_slot_programmed_already_is_preferred(
    strategy: str, order: str, time_s: float, expected: int, host_id: int
) -> None:
    pool = pools.make_pool(
        pools.make_host(1, 3, programming_time_s=time_s),
        strategy=strategy,
        options={"slot_choice": order, "offer_order": order},
    )
    pool.submit(pools.make_job(1, host_id=1), pools.make_job(2, host_id=1))
    pool.hear(events.SlotReady, 11)
    pool.hear(events.SlotReleased, 11)
    pool.hear(events.SlotReleased, 10)
    output = pool.submit(pools.make_job(3, host_id=host_id))
    assert pools.taken(output) == [(3, expected)]


def test_arrivals_take_slots_of_their_own_host_first() -> None:
    pool = pools.make_pool(pools.make_host(1, 1), pools.make_host(2, 1))
    output = pool.submit(
        pools.make_job(1, host_id=None), pools.make_job(2, host_id=1)
    )
    assert pools.taken(output) == [(2, 10), (1, 20)]


def ra_pool(**options: object) -> pools.Pool:
    """Two hosts with two slots each; only what options say lets jobs go."""
    defaults: dict[str, object] = {
        "remote_limit": 1,
        "wait_s_per_byte": float("inf"),
    }
    return pools.make_pool(
        pools.make_host(1),
        pools.make_host(2),
        strategy="ra",
        options=defaults | options,
    )


def test_only_so_many_remote_jobs_per_host() -> None:
    pool = ra_pool()
    output = pool.submit(*(pools.make_job(n, host_id=3) for n in range(4)))
    assert pools.taken(output) == [(0, 10), (1, 20)]
    # One that is local now is no remote job.
    output = pool.hear(events.SlotReleased, 10)
    assert pools.taken(output) == [(2, 10)]


def test_the_fallback_ignores_the_limit() -> None:
    pool = ra_pool(fallback=True)
    output = pool.submit(*(pools.make_job(n, host_id=3) for n in range(4)))
    assert [slot for _, slot in pools.taken(output)] == [10, 11, 20, 21]


def test_a_job_leaves_its_host_after_so_many_skips() -> None:
    pool = ra_pool(skip_limit=2)
    local = [pools.make_job(n, host_id=1) for n in range(3)]
    assert pools.taken(pool.submit(*local)) == [(0, 10), (1, 11)]
    # Both slots of host 2 passed it over in that pass.
    assert pool.state.skips(2) == 2
    output = pool.submit(pools.make_job(9, host_id=1))
    assert pools.taken(output) == [(2, 20)]
    assert pool.state.skips(9) == 0


def test_a_slot_passes_over_a_job_once_in_a_pass() -> None:
    """Also if another slot of its host is taken after that."""
    pool = ra_pool(skip_limit=9, remote_limit=3)
    mixed = pools.make_host(3, 3)
    (board,) = mixed.devices
    shapes = ("large", "small", "small")
    slots = [
        dataclasses.replace(slot, shape=shape)
        for slot, shape in zip(board.slots, shapes, strict=True)
    ]
    board = dataclasses.replace(board, slots=tuple(slots))
    only_small = model.Accelerator("sha", 1e9, shapes=frozenset({"small"}))
    pool.step(
        events.AcceleratorsChanged((pools.AES, pools.FFT, only_small)),
        events.HostLost(2),
        events.HostUp(dataclasses.replace(mixed, devices=(board,))),
        *(
            events.JobSubmitted(pools.make_job(n, host_id=1, arrival_s=-1.0))
            for n in range(2)
        ),
        events.JobSubmitted(pools.make_job(3, host_id=1)),
        events.JobSubmitted(
            pools.make_job(4, accelerator="sha", arrival_s=-0.5)
        ),
    )
    assert pool.state.assignments()[31].holder.id == 4
    # By slots 30 and 32; by 31 not: that one was taken.
    assert pool.state.skips(3) == 2


def test_a_full_host_counts_no_skips() -> None:
    pool = ra_pool(skip_limit=9, remote_limit=0)
    pool.submit(*(pools.make_job(n, host_id=1) for n in range(3)))
    assert pool.state.skips(2) == 0


def test_a_job_whose_host_has_no_usable_slot_may_go_anywhere() -> None:
    pool = ra_pool()
    pool.step(events.DeviceFailed(1, "DEVICE_FAILED"))
    assert pools.taken(pool.submit(pools.make_job(1, host_id=1))) == [(1, 20)]


def test_a_job_whose_host_has_only_other_shapes_may_go_anywhere() -> None:
    pool = pools.make_pool(
        pools.make_host(1),
        pools.make_host(2, shape="large"),
        strategy="ra",
        options={"wait_s_per_byte": float("inf")},
    )
    job = pools.make_job(1, host_id=1, accelerator="fft")
    assert pools.taken(pool.submit(job)) == [(1, 20)]


def test_a_job_leaves_its_host_when_its_slots_fail() -> None:
    pool = ra_pool()
    pool.submit(*(pools.make_job(n, host_id=1) for n in range(3)))
    assert pool.state.waiting_count == 1
    pool.hear(events.HolderAttached, 10)
    output = pool.step(events.DeviceFailed(1, "DEVICE_FAILED"))
    assert pools.taken(output) == [(2, 20)]


def test_a_remote_job_being_prepared_counts() -> None:
    pool = ra_pool()
    pool.submit(pools.make_job(1, host_id=3))
    assert pool.state.assignments()[10].phase is model.Phase.PREPARING
    pool.submit(pools.make_job(2, host_id=3))
    assert pools.taken(pool.submit(pools.make_job(3, host_id=3))) == []


def test_a_host_that_comes_back_serves_its_own_jobs() -> None:
    pool = ra_pool(remote_limit=0)
    pool.step(events.HostLost(1))
    pool.submit(pools.make_job(1, host_id=1))
    output = pool.step(events.HostUp(pools.make_host(1)))
    assert pools.taken(output) == [(1, 10)]


def test_a_slot_that_failed_a_job_serves_it_when_no_other_is_left() -> None:
    pool = ra_pool(remote_limit=0)
    pool.step(events.SlotFaulty(11, "SLOT_FAULTY"))
    pool.submit(pools.make_job(1, host_id=1))
    output = pool.hear(events.PrepareFailed, 10, "PROGRAM_FAILED")
    assert pools.taken(output) == []
    output = pool.step(events.HostLost(2))
    assert pools.taken(output) == [(1, 10)]
