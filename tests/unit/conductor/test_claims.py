# SPDX-License-Identifier: Apache-2.0

"""Sessions that send more than they claimed."""

import dataclasses

from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import inputs
from fpgapool.db import api as db_api
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import steps
from tests.unit.conductor import world


def send(pool: world.Conductor, sent_bytes: int) -> None:
    agent = pool.agents["a"]
    agent.slots[0].input_bytes = sent_bytes
    pool.feed(agent.report())


def test_a_liar_yields_and_waits_with_a_doubled_claim(single):
    liar = steps.open_until_ready(single)
    steps.activate(single)
    honest = single.open()
    send(single, 1100)
    assert not single.memory.holds[1].revoked, "within the slack"
    send(single, 1101)
    assert single.memory.holds[1].revoked == codes.YIELDED
    agent = single.agents["a"]
    single.deliver_all()
    agent.slots[0].last_result = dataclasses.replace(
        agent.slots[0].last_result, input_bytes=3000
    )
    single.feed(agent.report())
    view = single.view(liar)
    assert view.state == states.QUEUED
    assert view.claimed_bytes == 6000
    assert view.queued_at == 1000.0
    assert single.view(honest).state == states.PREPARING


def test_a_liar_that_closes_in_time_has_closed(single):
    liar = steps.open_until_ready(single)
    steps.activate(single)
    single.open()
    send(single, 2000)
    single.end(states.CLOSED, codes.OK)
    assert single.view(liar).state == states.CLOSED


def test_a_stateful_liar_ends_with_the_offset(single):
    profile = world.PROFILE.to_primitive()["data"] | {"stateless": False}
    record = db_api.AcceleratorRecord(name="copy", profile=profile)
    single.feed(inputs.Library((record,)))
    liar = steps.open_until_ready(single)
    steps.activate(single)
    single.open()
    send(single, 2000)
    single.deliver_all()
    agent = single.agents["a"]
    agent.slots[0].last_result = dataclasses.replace(
        agent.slots[0].last_result, input_bytes=2048
    )
    single.feed(agent.report())
    view = single.view(liar)
    assert (view.state, view.reason) == (states.FAILED, codes.CLAIM_EXCEEDED)
    assert "2048" in view.message


def lie(pool, count=30):
    """Let sessions send ten times their claims while nobody waits."""
    for _ in range(count):
        steps.open_until_ready(pool)
        steps.activate(pool)
        send(pool, 10_000)
        pool.end(states.CLOSED, codes.OK)
        pool.deliver_all()


def test_known_liars_get_the_limits_that_they_will_need(single):
    lie(single)
    liar = single.open()
    [order] = single.sent(effects.AssignSlot)
    assert 5_000 < order.request.claim_limit_bytes <= 11_000
    assert single.view(liar).claimed_bytes == 1000, "what users said"


def test_a_takeover_does_not_lower_a_running_sessions_limit(single):
    lie(single)
    liar = steps.open_until_ready(single)
    steps.activate(single)
    single.open()
    slot = single.agents["a"].slots[0]
    slot.beyond_claim = False
    single.boot_conductor()
    single.deliver_all()
    send(single, 4_000)
    assert single.view(liar).state == states.ACTIVE
    assert not single.memory.holds[1].revoked, (
        "beyond its claim, not its limit"
    )
    slot.beyond_claim = True
    send(single, 4_001)
    assert single.memory.holds[1].revoked == codes.YIELDED
