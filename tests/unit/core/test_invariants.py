# SPDX-License-Identifier: Apache-2.0

"""The invariants notice what is wrong."""

import typing
from collections import abc

import pytest

from fpgapool.core import events
from fpgapool.core import state
from tests.harness import pool_invariants
from tests.unit.core import pools


def busy_pool() -> state.PoolState:
    pool = pools.make_pool(pools.make_host(1), pools.make_host(2))
    pool.submit(*(pools.make_job(n, host_id=1 + n % 2) for n in range(9)))
    return pool.state


@pytest.mark.parametrize(
    "spoil",
    [
        lambda view: view.slots.assignments.pop(10),
        lambda view: view.slots.up_by_shape.update({"small": 1}),
        lambda view: view.slots.idle_by_shape.update({"small": 1}),
        lambda view: setattr(view.slots.hosts[1], "busy_count", 9),
        lambda view: setattr(view.slots.hosts[1], "remote_count", 9),
        lambda view: setattr(view.slots.slots[10], "up", False),
        lambda view: setattr(view, "next_generation", 1),
        lambda view: setattr(view.record(8), "slot_id", 10),
        lambda view: setattr(view.record(8), "group", None),
        lambda view: next(iter(view.jobs.groups())).by_host.clear(),
        lambda view: next(iter(view.jobs.groups())).jobs.remove(
            view.record(8).key
        ),
    ],
)
def test_a_spoilt_pool_is_noticed(
    spoil: abc.Callable[[typing.Any], object],
) -> None:
    pool = busy_pool()
    pool_invariants.check(pool)
    spoil(pool.view)
    with pytest.raises(pool_invariants.InvariantError):
        pool_invariants.check(pool)


def a_kind(view: typing.Any) -> typing.Any:
    return view.kinds.all()[0]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda view: setattr(a_kind(view), "fresh", 0.0),
        lambda view: setattr(a_kind(view), "due_s", 1e9),
        lambda view: setattr(a_kind(view), "has_home", False),
        lambda view: setattr(a_kind(view), "egress", 99),
        lambda view: setattr(a_kind(view), "peak_max", 0.0),
        lambda view: setattr(a_kind(view), "first", None),
        lambda view: setattr(a_kind(view).pack, "may", 0),
        lambda view: a_kind(view).pack.egress.fill(0),
        lambda view: a_kind(view).pack.longest.set(0.0, -1.0, 0.0),
        lambda view: a_kind(view).pack._urgent.set(0.0, 0.0, 0.0),
        lambda view: a_kind(view).pack._programmed.set(0.0, 0.0, 0.0),
        lambda view: a_kind(view).pack.kinds.reverse(),
        lambda view: view.kinds.packs.clear(),
        lambda view: view.kinds.on_host.clear(),
        lambda view: view.kinds.of_group.clear(),
        lambda view: a_kind(view).jobs.remove(a_kind(view).first),
        lambda view: next(
            target for target in view.boards.targets if target.slots
        ).slots.clear(),
    ],
)
def test_a_spoilt_index_of_kinds_is_noticed(
    spoil: abc.Callable[[typing.Any], object],
) -> None:
    pool = pools.make_pool(
        pools.make_host(1),
        pools.make_host(2),
        pools.make_host(
            3, shape="large", programmed="aes", programming_time_s=1.0
        ),
        strategy="auto",
    )
    # All of them decline slots of other hosts.
    pool.step(events.ReservableSlotsChanged(3, 2))
    pool.submit(*(pools.make_job(n, host_id=1 + n % 2) for n in range(9)))
    pool.step(events.ReservableSlotsChanged(3, 0))
    pool_invariants.check(pool.state)
    spoil(pool.state.view)
    with pytest.raises(pool_invariants.InvariantError):
        pool_invariants.check(pool.state)
