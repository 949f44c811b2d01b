# SPDX-License-Identifier: Apache-2.0

"""Operators see where hosts open their slots to others' sessions."""

import logging

from fpgapool import strategies
from tests.unit.conductor import world


def make_pool() -> world.Conductor:
    return world.Conductor(
        world.hosts(a=4, b=4), make_strategy=lambda: strategies.wra({}, 0)
    )


def open_many(pool: world.Conductor, size: int, *hosts: str | None) -> None:
    for _ in range(40):
        for host in hosts:
            pool.open(host, claimed_bytes=size)


def test_the_reserve_is_in_the_metrics_and_its_changes_in_the_log(
    caplog,
) -> None:
    caplog.set_level(logging.INFO)
    pool = make_pool()
    assert pool.ask.figures(0, 0).local_reserve == {"kept": 4, "open": 0}
    pool.tick(1)
    assert "local sessions" not in caplog.text.lower()
    open_many(pool, 1000, None)
    pool.tick(2)
    assert pool.ask.figures(0, 0).local_reserve == {"kept": 0, "open": 4}
    assert caplog.text.count("hosts keep 0 instead of 4 slots for them") == 1
    open_many(pool, 10**6, "a", "b")
    pool.tick(2)
    assert pool.ask.figures(0, 0).local_reserve == {"kept": 4, "open": 0}
    assert (
        caplog.text.count("Hosts keep 4 slots for local sessions again") == 1
    )


def test_a_new_leader_knows_the_reserve() -> None:
    pool = make_pool()
    open_many(pool, 1000, None)
    before = pool.ask.figures(0, 0).local_reserve
    pool.boot_conductor()
    for name in ("a", "b"):
        pool.report(name)
    assert (
        pool.ask.figures(0, 0).local_reserve
        == before
        == {
            "kept": 0,
            "open": 4,
        }
    )
