# SPDX-License-Identifier: Apache-2.0

"""The operator's caps on the power of slots."""

import dataclasses
import uuid

import pytest

from fpgapool.common import exception
from fpgapool.conductor.runtime import settings
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import world


@pytest.fixture
def make(monkeypatch):
    """Return what makes hosts a and b with two slots each."""

    def made(
        active_w: float | None = 20.0, **settings: object
    ) -> world.Conductor:
        shape = world.FakeAgent("a", 1).report().devices[0].slots[0].shape
        platform = {"peak_bytes_per_s": 1e9}
        if active_w is not None:
            platform["active_w"] = active_w
        profile = dataclasses.replace(
            world.PROFILE, platforms={shape: platform}
        )
        monkeypatch.setattr(world, "PROFILE", profile)
        agents = world.hosts(a=2, b=2)
        return world.Conductor(agents, **settings)

    return made


def test_the_pool_has_a_cap(make):
    pool = make(power_cap_w=60.0)
    names = [pool.open() for _ in range(4)]
    waits = pool.view(names[3])
    assert waits.state == states.QUEUED
    assert waits.pending_reasons == (codes.POWER_CAP,)
    for name in names[:3]:
        assert pool.view(name).state == states.PREPARING
    found = pool.ask.opening.dry_run(world.request(request_id="dry"))()
    assert found.reasons == (codes.POWER_CAP,)
    pool.cancel(names[0])
    pool.settle()
    assert pool.view(names[3]).state != states.QUEUED


def test_a_host_has_a_cap(make):
    pool = make(host_power_caps_w={"a": 20.0, "unknown": 1.0})
    names = [pool.open() for _ in range(4)]
    assert pool.view(names[3]).pending_reasons == (codes.POWER_CAP,)
    hosts = [hold.slot.host.uuid for hold in pool.memory.holds.values()]
    assert sorted(hosts) == ["a", "b", "b"]


def test_a_host_reports_a_cap_of_its_own(make):
    pool = make()
    agent = pool.agents["a"]
    agent.power_cap_w = 20.0
    pool.feed(agent.report())
    names = [pool.open() for _ in range(4)]
    assert pool.view(names[3]).pending_reasons == (codes.POWER_CAP,)
    pool.boot_conductor()
    for each in pool.agents.values():
        pool.feed(each.report())
    assert pool.view(names[3]).pending_reasons == (codes.POWER_CAP,)
    agent.power_cap_w = 40.0
    pool.feed(agent.report())
    assert pool.view(names[3]).state == states.PREPARING


@pytest.mark.parametrize(
    ("said_w", "set_w", "given"),
    [(20.0, 40.0, 1), (40.0, 20.0, 1), (None, 20.0, 1), (-5.0, 40.0, 0)],
)
def test_the_lower_cap_holds(make, said_w, set_w, given):
    pool = make(host_power_caps_w={"a": set_w})
    pool.agents["a"].power_cap_w = said_w
    pool.report("a")
    for _ in range(4):
        pool.open()
    hosts = [hold.slot.host.uuid for hold in pool.memory.holds.values()]
    assert hosts.count("a") == given
    assert hosts.count("b") == 2


def test_a_cap_that_is_withdrawn_holds_no_more(make):
    pool = make()
    agent = pool.agents["a"]
    agent.power_cap_w = 0.0
    pool.feed(agent.report())
    for _ in range(4):
        pool.open()
    assert len(pool.memory.holds) == 2
    agent.power_cap_w = None
    pool.feed(agent.report())
    assert len(pool.memory.holds) == 4
    assert pool.memory.core.view.power.is_set is False


def test_the_next_leader_keeps_the_caps(make):
    pool = make(power_cap_w=40.0)
    for _ in range(2):
        pool.open()
    pool.boot_conductor()
    for agent in pool.agents.values():
        pool.feed(agent.report())
    assert pool.view(pool.open()).pending_reasons == (codes.POWER_CAP,)


@pytest.mark.parametrize(
    ("active_w", "settings", "said"),
    [
        (20.0, {"power_cap_w": 19.0}, "more than [conductor] power_cap_w"),
        (
            20.0,
            {"host_power_caps_w": {"a": 19.0}},
            "more than the power cap of host a",
        ),
        (None, {"power_cap_w": 19.0}, "has an active_w"),
    ],
)
def test_caps_that_cannot_be_meant_are_logged(
    make, caplog, active_w, settings, said
):
    pool = make(active_w, **settings)
    assert any(said in line for line in caplog.messages)
    if "power_cap_w" in settings and active_w:
        assert pool.view(pool.open()).pending_reasons == (codes.POWER_CAP,)


def test_without_caps_nothing_is_logged(make, caplog):
    pool = make(None)
    assert not [one for one in caplog.records if one.levelno > 20]
    assert pool.memory.core.view.power.is_set is False


@pytest.mark.parametrize(
    "option", ["a:3", f"{uuid.UUID(int=1)}:x", f"{uuid.UUID(int=1)}:-1"]
)
def test_a_wrong_cap_is_refused(option):
    name, _, watts = option.partition(":")
    with pytest.raises(exception.ConfigurationError, match="host_power_caps"):
        settings.host_power_caps_w({name: watts})


def test_caps_of_hosts_are_read():
    name = str(uuid.UUID(int=1))
    assert settings.host_power_caps_w({name.upper(): "7.5"}) == {name: 7.5}
