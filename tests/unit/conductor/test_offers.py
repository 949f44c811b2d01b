# SPDX-License-Identifier: Apache-2.0

"""Clients that may come to a slot before its agent has prepared it."""

import dataclasses

import pytest

from fpgapool import objects
from fpgapool.conductor.decisions import effects
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import world

HASH = "ab" * 32
OFFER = objects.Offer(
    endpoints=(objects.Endpoint("data", "127.0.0.1", 4007),),
    certificate_sha256="cd" * 32,
    keeps_order=True,
)


@pytest.fixture
def pool() -> world.Conductor:
    """Host a with one slot, which has an offer."""
    return make_pool()


def make_pool(
    offer: objects.Offer | None = OFFER, slots: int = 1, **options: int
) -> world.Conductor:
    agent = world.FakeAgent("a", slots)
    agent.offer = offer
    for slot in agent.slots:
        slot.programmed = "copy"
    agents = [agent, world.FakeAgent("b", 0, board=False)]
    return world.Conductor(agents, **options)


def assigns(pool: world.Conductor) -> list[objects.AssignRequest]:
    return [one.request for one in pool.sent(effects.AssignSlot)]


def told(
    pool: world.Conductor, request_id: str, host: str = "a"
) -> objects.SessionView:
    pool.deliver_all()
    return pool.agents[host].views[request_id]


def test_the_first_news_says_where_to_come(pool):
    request_id = pool.open("b", secret_sha256=HASH)
    (order,) = assigns(pool)
    assert (order.offer, order.secret_sha256) == (OFFER, HASH)
    view = told(pool, request_id, "b")
    assert view.state == states.READY
    assert view.endpoints == OFFER.endpoints
    assert view.certificate_sha256 == OFFER.certificate_sha256
    assert (view.secret, view.secret_sha256) == ("", HASH)
    assert view.ready_at == pool.now
    # All others learn neither hash nor secret.
    assert pool.view(request_id).secret_sha256 == ""


def test_the_news_waits_for_its_rows_and_the_order_does_not(pool):
    made = world.request(secret_sha256=HASH)
    wanted = pool.engine.process((world.opening(made),), pool.now)
    (order,) = wanted.at_once
    assert isinstance(order, effects.AssignSlot)
    (news,) = wanted.after_commit
    assert news.view.state == states.READY
    (row,) = wanted.changes.rows(world._RECORDS["assignments"])
    assert row.phase == states.READY


@pytest.mark.parametrize(
    ("offer", "slot", "changes"),
    [
        (None, {}, {}),
        (OFFER, {}, {"secret_sha256": ""}),
        (dataclasses.replace(OFFER, project_id="q"), {}, {}),
        (OFFER, {"programmed": None}, {}),
        (OFFER, {"programmed": "aes"}, {}),
    ],
)
def test_other_slots_are_waited_for(offer, slot, changes):
    pool = make_pool(offer)
    agent = pool.agents["a"]
    for name, value in slot.items():
        setattr(agent.slots[0], name, value)
    pool.feed(agent.report())
    request_id = pool.open(**{"secret_sha256": HASH} | changes)
    (order,) = assigns(pool)
    assert order.offer is None
    assert told(pool, request_id).state == states.PREPARING
    pool.feed(agent.prepared(0))
    assert told(pool, request_id).endpoints[0].port == 4000


@pytest.mark.parametrize(
    ("offer", "slot"),
    [
        (dataclasses.replace(OFFER, project_id="p"), {}),
        (OFFER, {"programming_time_s": 4.0}),
    ],
)
def test_slots_that_are_as_good_as_ready_are_offered(offer, slot):
    pool = make_pool(offer)
    for name, value in slot.items():
        setattr(pool.agents["a"].slots[0], name, value)
    pool.report("a")
    request_id = pool.open(secret_sha256=HASH)
    assert told(pool, request_id).state == states.READY


def test_a_report_before_the_order_repeats_it(pool):
    request_id = pool.open(secret_sha256=HASH)
    pool.wire = [
        one for one in pool.wire if not isinstance(one, effects.AssignSlot)
    ]
    pool.tick(pool.settings.resend_interval_s)
    pool.report("a")
    (order,) = assigns(pool)
    assert order.offer == OFFER
    assert pool.view(request_id).state == states.READY
    pool.deliver_all()
    assert pool.agents["a"].slots[0].state == states.SLOT_PREPARING


@pytest.mark.parametrize(
    "state", [states.SLOT_PREPARING, states.SLOT_READY, states.SLOT_ACTIVE]
)
def test_reports_need_no_message_about_the_slot(pool, state):
    request_id = pool.open(secret_sha256=HASH)
    pool.deliver_all()
    agent = pool.agents["a"]
    agent.slots[0].state = state
    pool.feed(agent.report())
    assert not pool.wire or state == states.SLOT_ACTIVE
    expected = states.ACTIVE if state == states.SLOT_ACTIVE else states.READY
    assert pool.view(request_id).state == expected


def test_a_session_that_is_over_before_the_first_report(pool):
    request_id = pool.open(secret_sha256=HASH)
    pool.deliver_all()
    pool.end(states.CLOSED, codes.OK)
    assert pool.view(request_id).state == states.CLOSED
    assert not pool.memory.holds


def test_a_failed_preparation_leads_to_a_secret_of_the_next_worker(pool):
    request_id = pool.open(secret_sha256=HASH)
    pool.deliver_all()
    pool.end(states.PREPARE_FAILED, codes.PROGRAM_FAILED)
    (order,) = assigns(pool)
    assert (order.offer, order.secret_sha256) == (None, "")
    pool.deliver_all()
    pool.feed(pool.agents["a"].prepared(0))
    view = told(pool, request_id)
    assert (view.state, view.secret) == (states.READY, "5ec7e7")
    assert view.secret_sha256 == ""


def test_a_preparation_that_hangs_costs_the_slot_and_not_the_session(pool):
    request_id = pool.open(secret_sha256=HASH)
    pool.deliver_all()
    pool.tick(pool.settings.prepare_timeout_s + 1)
    pool.report("a")
    pool.tick()
    assert pool.view(request_id).state == states.QUEUED
    assert not pool.memory.registry.slots[1].usable


def test_a_worker_that_was_replaced_says_where_it_is(pool):
    request_id = pool.open(secret_sha256=HASH)
    pool.deliver_all()
    pool.feed(pool.agents["a"].prepared(0))
    view = told(pool, request_id)
    assert (view.secret, view.secret_sha256) == ("", HASH)
    assert view.endpoints[0].port == 4000


def test_a_worker_without_a_clients_secret_makes_one(pool):
    """It is of an older release, and ignores the hash."""
    request_id = pool.open(secret_sha256=HASH)
    pool.deliver_all()
    pool.feed(pool.agents["a"].prepared(0, anew=True))
    view = told(pool, request_id)
    assert (view.secret, view.secret_sha256) == ("5ec7e7", "")


def test_a_front_door_that_was_started_anew_gets_a_new_secret(pool):
    request_id = pool.open(secret_sha256=HASH)
    pool.deliver_all()
    pool.agents["a"].prepared(0)
    pool.report("a")
    pool.tick(pool.settings.resend_interval_s)
    again = world.request(request_id=request_id, secret_sha256="ef" * 32)
    pool.feed(world.opening(again))
    view = told(pool, request_id)
    assert (view.state, view.secret) == (states.READY, "5ec7e7")
    assert view.secret_sha256 == ""


def test_a_message_of_a_ready_slot_is_lost():
    pool = make_pool(offer=None)
    request_id = pool.open(secret_sha256=HASH)
    pool.deliver_all()
    pool.agents["a"].prepared(0)
    pool.tick(pool.settings.resend_interval_s)
    pool.report("a")
    view = told(pool, request_id)
    assert (view.state, view.secret) == (states.READY, "5ec7e7")


def test_a_front_door_is_started_anew_while_the_slot_is_programmed():
    pool = make_pool(offer=None)
    request_id = pool.open(secret_sha256=HASH)
    pool.deliver_all()
    again = world.request(request_id=request_id, secret_sha256="ef" * 32)
    pool.feed(world.opening(again))
    pool.wire.clear()
    pool.feed(pool.agents["a"].prepared(0))
    # Its worker knows only the former front door's secret.
    view = told(pool, request_id)
    assert (view.state, view.secret) == (states.READY, "5ec7e7")


def test_a_front_door_that_was_started_anew_has_the_next_secret(pool):
    # It needs its slot for so long that nobody is told to come after it.
    pool.open(secret_sha256=HASH, claimed_bytes=10**9)
    request_id = pool.open(secret_sha256=HASH)
    assert told(pool, request_id).state == states.QUEUED
    new = "ef" * 32
    again = world.request(request_id=request_id, secret_sha256=new)
    pool.feed(world.opening(again))
    pool.deliver_all()
    pool.end(states.CLOSED, codes.OK)
    view = told(pool, request_id)
    assert (view.state, view.secret_sha256) == (states.READY, new)


def test_a_repeated_request_changes_nothing(pool):
    request_id = pool.open(secret_sha256=HASH)
    pool.deliver_all()
    before = pool.view(request_id).revision
    again = world.request(request_id=request_id, secret_sha256=HASH)
    pool.feed(world.opening(again))
    pool.deliver_all()
    assert pool.view(request_id).revision == before


def test_the_next_leader_has_a_new_secret_made(pool):
    request_id = pool.open(secret_sha256=HASH)
    pool.deliver_all()
    pool.agents["a"].prepared(0)
    pool.boot_conductor()
    pool.report()
    pool.tick(pool.settings.resend_interval_s)
    pool.report("a")
    view = told(pool, request_id)
    assert (view.state, view.secret) == (states.READY, "5ec7e7")
