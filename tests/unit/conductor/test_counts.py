# SPDX-License-Identifier: Apache-2.0

"""The pool in numbers."""

import pytest

from fpgapool.conductor.decisions.views import census
from fpgapool.core import model
from fpgapool.vocabulary import states
from tests.unit.conductor import administering
from tests.unit.conductor import world

HARDWARE = ("hosts", "hosts_up", "devices", "devices_healthy", "slots")


def counted(pool: world.Conductor) -> dict[str, object]:
    """Return what the leader counts."""
    found = pool.ask.counts()
    return {name: found[name] for name in HARDWARE}


def recorded(pool: world.Conductor) -> dict[str, object]:
    """Return the same from the rows of the database."""
    now = pool.ask.hosts_now(pool.agents)
    unusable = [one for host in now.values() for one in host["unusable_slots"]]
    return pool.hardware().counts(unusable)


@pytest.fixture
def pool() -> world.Conductor:
    return world.Conductor(world.hosts(a=2, b=3, c=1), report_timeout_s=8.0)


def test_the_leader_counts_what_rows_say(pool: world.Conductor) -> None:
    assert counted(pool) == recorded(pool)
    assert counted(pool)["slots"] == {"medium": {"idle": 6}}
    pool.open()
    assert counted(pool) == recorded(pool)
    pool.settle()
    pool.agents["b"].slots[2].state = states.SLOT_FAULTY
    pool.report()
    assert counted(pool) == recorded(pool)
    assert counted(pool)["slots"]["medium"]["faulty"] == 1
    assert administering.administer(pool, model.AdminState.DISABLED)
    assert counted(pool) == recorded(pool)
    assert counted(pool)["slots"]["medium"]["disabled"] == 1
    for _ in range(15):
        pool.report("a", "c")
        pool.tick(1.0)
    assert counted(pool)["hosts_up"] == 2
    assert counted(pool) == recorded(pool)


def test_a_change_is_a_new_generation(pool: world.Conductor) -> None:
    first = pool.ask.counts()["generation"]
    assert pool.ask.counts()["generation"] == first
    pool.open()
    assert pool.ask.counts()["generation"] == first + 1


def test_a_large_pool_is_counted_once_for_all_who_ask(
    pool: world.Conductor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though whoever asks later is told of what has changed."""
    monkeypatch.setattr(census, "_FEW_SLOTS", 0)
    monkeypatch.setattr(census, "_AGE_S_PER_SLOT", 1.0)
    before = counted(pool)
    pool.open()
    pool.tick(5.0)
    assert counted(pool) == before
    pool.tick(1.0)
    assert counted(pool) != before
