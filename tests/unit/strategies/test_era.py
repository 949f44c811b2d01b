# SPDX-License-Identifier: Apache-2.0

"""Pairs of jobs and boards by the rate that they would have."""

import math
import typing

import pytest

from fpgapool import strategies
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core.topology import loads as pipe_loads
from fpgapool.strategies.joint import era
from fpgapool.vocabulary import codes
from tests.unit.core import pools

GB = 1e9
OPTIONS = {"long_from": 1.0}


def make_pool(*hosts: model.HostSpec, **options: float) -> pools.Pool:
    return pools.make_pool(*hosts, strategy="era", options=OPTIONS | options)


def loads_of(pool: pools.Pool) -> pipe_loads.Loads:
    return typing.cast(pipe_loads.Loads, pool.state.view.loads)


def test_a_job_stays_at_home_while_there_is_room() -> None:
    pool = make_pool(pools.make_host(1), pools.make_host(2))
    output = pool.submit(pools.make_job(1, host_id=2))
    assert pools.taken(output) == [(1, 20)]


def test_a_job_without_a_board_goes_to_the_emptiest_board() -> None:
    pool = make_pool(*map(pools.make_host, (1, 2)), pools.make_host(3, 0))
    first = pool.submit(pools.make_job(1, host_id=1))
    assert pools.taken(first) == [(1, 10)]
    second = pool.submit(pools.make_job(2, host_id=3))
    assert pools.taken(second) == [(2, 20)]


def test_the_rate_on_the_platform_decides() -> None:
    """Boards of the same load: the one on which the core is faster wins."""
    for fast in ("small", "large"):
        pool = make_pool(
            pools.make_host(1, shape="small"),
            pools.make_host(2, shape="large"),
            pools.make_host(3, 0),
        )
        aes = model.Accelerator(
            name="aes",
            peak_bytes_per_s=1e8,
            peaks_bytes_per_s={fast: 9e8},
        )
        pool.step(events.AcceleratorsChanged((aes,)))
        output = pool.submit(pools.make_job(1, host_id=3))
        expected = {"small": 10, "large": 20}[fast]
        assert pools.taken(output) == [(1, expected)]


def test_a_crowded_nic_is_waited_for() -> None:
    pool = make_pool(
        *map(pools.make_host, (1, 2)),
        pools.make_host(3, 0),
        idle_share=2.0,
        patience=0.0,
    )
    pool.submit(pools.make_job(1, host_id=3))
    (slot_id,) = pool.state.assignments()
    pool.hear(events.Progress, slot_id, 0, 1.25 * GB)
    waits = pool.submit(pools.make_job(2, host_id=3))
    assert waits == [instructions.WakeAt(1.0)]
    assert pool.state.status(2).reasons == (codes.REMOTE_LIMIT,)
    # That causes no pass by itself.
    assert pool.hear(events.Progress, slot_id, 0, 0.1 * GB) == []
    output = pool.submit(pools.make_job(3, accelerator="fft"))
    assert [job for job, _ in pools.taken(output)] == [2]


def test_patience_ends() -> None:
    pool = make_pool(
        *map(pools.make_host, (1, 2)), pools.make_host(3, 0), idle_share=2.0
    )
    pool.submit(pools.make_job(1, host_id=3))
    (slot_id,) = pool.state.assignments()
    pool.hear(events.Progress, slot_id, 0, 1.25 * GB)
    waits = pool.submit(pools.make_job(2, host_id=3))
    assert waits == [instructions.WakeAt(1.0)]
    # It looks again each second, by itself.
    later = pool.step(events.Wake(), now=1.0)
    assert [job for job, _ in pools.taken(later)] == [2]


def test_a_job_leaves_its_host_after_a_while() -> None:
    pool = make_pool(
        pools.make_host(1, slot_count=1),
        pools.make_host(2, slot_count=4),
        idle_share=2.0,
    )
    pool.submit(pools.make_job(1, host_id=1))
    output = pool.submit(pools.make_job(2, host_id=1))
    assert pools.taken(output) == []
    assert pool.state.status(2).reasons == (codes.WAITING_FOR_LOCAL,)
    # The wake-up is for 1e-9 s per byte.
    output = pool.step(events.Wake(), now=0.1)
    assert pools.taken(output) == [(2, 20)]


def test_it_leaves_at_once_while_many_slots_are_idle() -> None:
    pool = make_pool(
        pools.make_host(1, slot_count=1), pools.make_host(2, slot_count=4)
    )
    pool.submit(pools.make_job(1, host_id=1))
    output = pool.submit(pools.make_job(2, host_id=1))
    assert pools.taken(output) == [(2, 20)]


def test_short_jobs_come_first_until_long_ones_waited() -> None:
    pool = make_pool(pools.make_host(1, slot_count=1))
    pool.submit(pools.make_job(1, host_id=1))
    pool.submit(pools.make_job(2, host_id=1, claimed_bytes=3e8))
    pool.submit(pools.make_job(3, host_id=1), now=1.0)
    assert pools.taken(pool.hear(events.SlotReleased, 10)) == [(3, 10)]
    pool.submit(pools.make_job(4, host_id=1, arrival_s=60.0), now=60.0)
    assert pools.taken(pool.hear(events.SlotReleased, 10)) == [(2, 10)]


def test_the_longest_of_many_are_put_back() -> None:
    sizes = [1e8 + number for number in range(40)]

    def order(**options: float) -> list[int]:
        pool = make_pool(pools.make_host(1, slot_count=1), **options)
        pool.submit(pools.make_job(99, host_id=1))
        pool.submit(
            *(
                pools.make_job(number, host_id=1, claimed_bytes=size)
                for number, size in enumerate(sizes)
            )
        )
        # The last one waits for much longer than the others.
        pool.submit(
            pools.make_job(50, host_id=1, claimed_bytes=2e8, arrival_s=-20.0)
        )
        found = []
        while pool.state.waiting_count:
            found += pools.taken(pool.hear(events.SlotReleased, 10))
        return [job for job, _ in found]

    assert order()[0] == 50
    assert order(long_from=0.97, long_factor=10.0)[-1] == 50


def test_slots_that_need_no_programming_are_preferred() -> None:
    host = pools.make_host(1, slot_count=3, programming_time_s=1.0)
    (device,) = host.devices
    slots = list(device.slots)
    slots[1] = model.SlotSpec(11, 1, 1, 1, "small", "aes", 1.0)
    spec = model.HostSpec(
        1,
        "host1",
        1.25 * GB,
        (model.DeviceSpec(1, 1, "board0", 2.1 * GB, tuple(slots)),),
    )
    pool = make_pool(spec)
    output = pool.submit(pools.make_job(1, host_id=1))
    assert pools.taken(output) == [(1, 11)]


def test_jobs_from_outside_use_the_board_hosts_nic_only() -> None:
    pool = make_pool(pools.make_host(1))
    pool.submit(pools.make_job(1))
    loads = loads_of(pool)
    assert loads.counts[loads.ingress(1)] == 1
    assert loads.counts[loads.dma(1)] == 1
    assert loads.counts.sum() == 2
    assert loads.loads[loads.ingress(1)] == 1 * GB


def test_rates_that_cannot_be_change_nothing() -> None:
    pool = make_pool(pools.make_host(1))
    pool.submit(pools.make_job(1, host_id=1))
    loads = loads_of(pool)
    for rate in (-1.0, math.inf, math.nan):
        pool.hear(events.Progress, 10, 0, rate)
        assert loads.loads[loads.dma(1)] == 1 * GB
    pool.step(events.Progress(10, pool.generation(10) - 1, 0, 5.0))
    assert loads.loads[loads.dma(1)] == 1 * GB
    pool.hear(events.Progress, 10, 0, 5.0)
    assert loads.loads[loads.dma(1)] == 5.0


def test_a_host_that_comes_back_with_another_board() -> None:
    pool = make_pool(pools.make_host(1))
    pool.submit(pools.make_job(1, host_id=1))
    pool.hear(events.HolderAttached, 10)
    pool.step(events.HostUp(pools.make_host(1, slot_count=0)))
    loads = loads_of(pool)
    assert not loads.flows
    pool.step(events.HostUp(pools.make_host(1)))
    assert set(loads.flows) == {10}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sprad": 1.0}, "unknown options sprad; known options:"),
        ({"spread": -1.0}, "spread must be finite"),
        ({"spread": float("nan")}, "spread must be finite"),
        ({"spread": "1"}, "must be a number"),
    ],
)
def test_bad_options_are_refused(options: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        strategies.era(options, 0)


def test_defaults() -> None:
    made = strategies.era({"spread": None, "slot_choice": "index"}, 0)
    assert isinstance(made, era.EraStrategy)
    assert made.options == era.EraOptions()
    assert made.options != era.AS_WRITTEN
