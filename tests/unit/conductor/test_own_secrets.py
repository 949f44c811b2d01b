# SPDX-License-Identifier: Apache-2.0

"""Sessions whose secret the conductor makes: those of the REST API."""

import dataclasses
import hashlib

import pytest

from fpgapool import objects
from fpgapool.conductor.calls import sessions as calls
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import inputs
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import test_offers
from tests.unit.conductor import world

SECRET = "5e" * 32
HASH = hashlib.sha256(SECRET.encode()).hexdigest()
OFFER = test_offers.OFFER
#: What workers make here.
WORKERS = "5ec7e7"


@pytest.fixture
def pool() -> world.Conductor:
    """Host a with one slot, which has an offer."""
    return test_offers.make_pool()


def opened(pool: world.Conductor, **changes: object) -> str:
    """A session of the REST API."""
    return pool.open(None, **{"secret": SECRET} | changes)


def told(pool: world.Conductor, request_id: str) -> objects.SessionView:
    """The session as the API shows it to its project."""
    view = pool.ask.session(pool.view(request_id).session_id, "p")
    assert view is not None
    return view


def answered(
    pool: world.Conductor, request: objects.OpenRequest, secret: str
) -> objects.SessionView:
    """What a call is answered that makes a request."""
    wanted = world.opening(request, secret=secret)
    pool.feed(wanted)
    (found,) = [
        one.view
        for one in pool.sent(effects.PublishSession)
        if wanted.future in one.waiting
    ]
    return found


def test_the_answer_says_where_to_come_and_nothing_follows_it(pool):
    request = world.request(host_uuid=None)
    view = answered(pool, request, SECRET)
    assert (view.state, view.endpoints) == (states.READY, OFFER.endpoints)
    # Who has the secret needs no hash.
    assert (view.secret, view.secret_sha256) == (SECRET, "")
    assert not pool.sent(effects.SessionChanged)
    (order,) = test_offers.assigns(pool)
    assert (order.offer, order.secret_sha256) == (OFFER, HASH)
    pool.deliver_all()
    agent = pool.agents["a"]
    agent.prepared(0)
    pool.feed(agent.report())
    assert not pool.wire
    assert told(pool, request.request_id) == view


@pytest.mark.security
def test_nobody_else_learns_the_secret(pool):
    request_id = opened(pool)
    session_id = pool.view(request_id).session_id
    for project_id in ("q", ""):
        view = pool.ask.session(session_id, project_id)
        assert (view.secret, view.secret_sha256) == ("", "")
    for host in ("", "a", "b"):
        (view,), _ = pool.ask.changed({session_id: -1}, host)
        assert (view.secret, view.secret_sha256) == ("", "")
    for table in pool.rows.values():
        assert SECRET not in repr(table)
        assert HASH not in repr(table)
    item = world.opening(world.request(), secret=SECRET)
    assert SECRET not in repr([item, pool.wire, pool.memory.sessions.by_id])


@pytest.mark.parametrize("request_hash", ["", "ab" * 32])
def test_only_who_has_no_secret_gets_one(request_hash):
    request = world.request(secret_sha256=request_hash)
    made = calls._secret_for(request)
    assert len(made) == (0 if request_hash else 64)
    assert made == "" or made != calls._secret_for(request)


def test_a_clients_own_secret_is_used(pool):
    request_id = pool.open(secret=SECRET, secret_sha256="ab" * 32)
    view = test_offers.told(pool, request_id)
    assert (view.secret, view.secret_sha256) == ("", "ab" * 32)


def test_a_repeated_request_changes_nothing(pool):
    request = world.request(host_uuid=None)
    first = answered(pool, request, SECRET)
    pool.deliver_all()
    assert answered(pool, request, "ef" * 32) == first
    assert len(pool.wire) == 1
    pool.agents["a"].slots[0].state = states.SLOT_ACTIVE
    pool.report("a")
    assert answered(pool, request, "ef" * 32).secret == ""


def test_a_slot_that_has_to_be_programmed_is_waited_for():
    pool = test_offers.make_pool(offer=None)
    request_id = opened(pool)
    pool.deliver_all()
    assert told(pool, request_id).state == states.PREPARING
    assert told(pool, request_id).secret == ""
    pool.feed(pool.agents["a"].prepared(0))
    assert told(pool, request_id).secret == SECRET
    (news,) = pool.sent(effects.SessionChanged)
    assert news.view == told(pool, request_id)


def test_a_worker_that_was_replaced_says_where_it_is(pool):
    request_id = opened(pool)
    pool.deliver_all()
    pool.feed(pool.agents["a"].prepared(0))
    view = told(pool, request_id)
    assert (view.secret, view.endpoints[0].port) == (SECRET, 4000)


def test_a_worker_of_an_older_release_makes_a_secret(pool):
    request_id = opened(pool)
    pool.deliver_all()
    pool.feed(pool.agents["a"].prepared(0, anew=True))
    assert told(pool, request_id).secret == WORKERS


def test_a_secret_is_renewed(pool):
    request_id = opened(pool)
    pool.deliver_all()
    pool.agents["a"].prepared(0)
    pool.report("a")
    before = told(pool, request_id)
    pool.tick(pool.settings.resend_interval_s)
    pool.feed(inputs.RenewSecret(before.session_id))
    pool.deliver_all()
    view = told(pool, request_id)
    assert (view.state, view.secret) == (states.READY, WORKERS)
    assert view.revision > before.revision
    # What the worker said before may come later.
    late = dataclasses.replace(pool.agents["a"].prepared(0), secret="")
    pool.feed(late)
    assert told(pool, request_id).secret == WORKERS


def test_an_agent_that_was_started_anew_makes_no_other(pool):
    request_id = opened(pool)
    pool.deliver_all()
    agent = pool.agents["a"]
    agent.prepared(0)
    agent.restart()
    pool.report("a")
    pool.feed(agent.prepared(0))
    assert told(pool, request_id).secret == SECRET
    assert not pool.sent(effects.ReissueSecret)


def test_the_next_leader_has_a_new_secret_made(pool):
    request_id = opened(pool)
    pool.deliver_all()
    agent = pool.agents["a"]
    agent.prepared(0)
    pool.boot_conductor()
    assert told(pool, request_id).secret == ""
    pool.tick(pool.settings.resend_interval_s)
    pool.report("a")
    pool.deliver_all()
    assert told(pool, request_id).secret == WORKERS


def test_what_a_worker_says_to_the_next_leader_is_not_the_secret():
    pool = test_offers.make_pool(offer=None)
    request_id = opened(pool)
    pool.deliver_all()
    pool.boot_conductor()
    pool.feed(pool.agents["a"].prepared(0))
    pool.deliver_all()
    assert told(pool, request_id).secret == WORKERS


def test_the_next_slot_has_a_secret_of_its_own(pool):
    request_id = opened(pool)
    pool.deliver_all()
    pool.end(states.PREPARE_FAILED, codes.WORKER_DIED)
    (order,) = test_offers.assigns(pool)
    assert (order.offer, order.secret_sha256) == (None, "")
    pool.deliver_all()
    pool.feed(pool.agents["a"].prepared(0))
    assert told(pool, request_id).secret == WORKERS


# Successors.


def two(pool: world.Conductor) -> tuple[str, str]:
    """A session with the slot, and the next one."""
    first = opened(pool)
    pool.deliver_all()
    pool.agents["a"].prepared(0)
    return first, opened(pool)


def test_a_successor_learns_early_where_to_come(pool):
    first, second = two(pool)
    # All of it is in the answer.
    assert not pool.sent(effects.SessionChanged)
    pool.deliver_all()
    view = told(pool, second)
    assert (view.state, view.endpoints) == (states.PREPARING, OFFER.endpoints)
    assert view.secret == SECRET
    assert pool.view(second).endpoints == ()
    order = pool.agents["a"].next[0]
    assert order.after_generation == pool.view(first).generation
    assert order.secret_sha256 == HASH
    pool.end(states.CLOSED, codes.OK)
    (news,) = [
        one
        for one in pool.sent(effects.SessionChanged)
        if one.view.request_id == second
    ]
    assert (news.view.state, news.view.secret) == (states.READY, SECRET)
    assert not pool.sent(effects.AssignSlot)


def test_news_of_a_successor_does_not_wait(pool):
    _, second = two(pool)
    third = opened(pool)
    pool.deliver_all()
    pool.cancel(second)
    pool.deliver_all()
    pool.report("a")
    (news,) = [
        one
        for one in pool.sent(effects.SessionChanged)
        if one.view.request_id == third
    ]
    assert (news.view.state, news.view.secret) == (states.PREPARING, SECRET)
    assert not effects.can_wait(news)


def test_a_successor_that_waits_again_keeps_its_secret(pool):
    _, second = two(pool)
    pool.deliver_all()
    pool.agents["a"].give_back(0)
    pool.report("a")
    view = told(pool, second)
    assert (view.state, view.secret, view.endpoints) == ("QUEUED", "", ())
    pool.deliver_all()
    pool.end(states.CLOSED, codes.OK)
    view = told(pool, second)
    assert (view.state, view.secret) == (states.READY, SECRET)


def test_a_successor_of_another_door_gets_the_slot(pool):
    pool.open(secret_sha256="ab" * 32)
    pool.deliver_all()
    pool.agents["a"].prepared(0)
    second = opened(pool)
    assert told(pool, second).secret == SECRET


def test_an_older_agent_gets_no_order_for_later():
    offer = dataclasses.replace(OFFER, keeps_order=False)
    pool = test_offers.make_pool(offer)
    _, second = two(pool)
    assert told(pool, second).state == states.QUEUED
    pool.deliver_all()
    pool.end(states.CLOSED, codes.OK)
    assert told(pool, second).secret == SECRET
