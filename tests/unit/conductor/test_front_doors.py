# SPDX-License-Identifier: Apache-2.0

"""What front doors are told, and secrets."""

import dataclasses

import pytest

from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import inputs
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import fake_leases
from tests.unit.conductor import steps
from tests.unit.conductor import world


@pytest.mark.security
def test_answers_have_no_secret(single):
    request_id = steps.open_until_ready(single)
    view = single.agents["a"].views[request_id]
    assert view.secret == "5ec7e7"
    engine = single.engine
    changed, _ = engine.questions.changed({view.session_id: -1})
    others, _ = engine.questions.changed({view.session_id: -1}, "b")
    answers = [*changed, *others]
    answers += steps.outcome(single, request_id)
    assert [one.secret for one in answers] == [""] * 3


def test_a_front_door_that_asks_what_has_changed_gets_the_secret(single):
    """The news may have been lost that had it."""
    request_id = steps.open_until_ready(single)
    view = single.view(request_id)
    ((news,), _) = single.ask.changed({view.session_id: -1}, "a")
    assert news.secret == "5ec7e7"


def test_a_front_door_hears_again_of_what_its_report_shows_it_missed(pool):
    request_id, waits = steps.open_until_ready(pool), pool.open()
    pool.settle()
    view, other = pool.view(request_id), pool.view(waits)
    agent = pool.agents["a"]
    agent.views.clear()
    agent.sessions = {
        view.session_id: view.revision,
        other.session_id: other.revision,
        "no-such": 1,
    }
    pool.feed(agent.report())
    pool.deliver_all()
    assert not agent.views
    agent.sessions[view.session_id] -= 1
    pool.feed(agent.report())
    pool.deliver_all()
    assert agent.views.keys() == {request_id}
    assert agent.views[request_id].secret == "5ec7e7"


@pytest.mark.security
def test_a_report_of_another_host_gets_no_secret(pool):
    view = pool.view(steps.open_until_ready(pool))
    agent = pool.agents["b"]
    agent.sessions = {view.session_id: -1}
    pool.feed(agent.report())
    pool.deliver_all()
    (news,) = agent.views.values()
    assert news.session_id == view.session_id
    assert news.secret == ""


def test_a_new_leader_tells_of_an_end_that_the_old_one_did_not(pool):
    request_id = pool.open()
    view = pool.view(request_id)
    pool.cancel(request_id)
    agent = pool.agents["a"]
    agent.views.clear()
    pool.boot_conductor()
    agent.sessions = {view.session_id: view.revision}
    pool.feed(agent.report())
    pool.deliver_all()
    assert agent.views[request_id].state == states.CANCELLED


@pytest.mark.security
def test_a_secret_is_for_its_project_while_it_is_ready_only(single):
    request_id = steps.open_until_ready(single)
    name = single.view(request_id).session_id
    assert single.ask.session(name, "p").secret == "5ec7e7"
    assert single.ask.session(name, "q").secret == ""
    assert single.ask.session(name, "").secret == ""
    assert single.ask.session("other", "p") is None
    steps.activate(single)
    assert single.ask.session(name, "p").secret == ""


@pytest.mark.security
@pytest.mark.parametrize("reopens", [True, False])
def test_no_other_host_becomes_a_front_door_of_a_session(pool, reopens):
    request_id = steps.open_until_ready(pool)
    view = pool.view(request_id)
    if reopens:
        pool.feed(
            world.reopening(view, "b"),
            inputs.RenewSecret(view.session_id),
        )
    else:
        pool.open("b", request_id=request_id)
    pool.settle()
    told = pool.agents["b"].views.values()
    assert [one.reason for one in told] == (
        [] if reopens else [codes.REQUEST_ID_REUSED]
    )
    assert not any(one.secret for one in told)
    assert pool.view(request_id).state == states.READY


@pytest.mark.security
def test_a_front_door_ends_sessions_of_its_own_only(single):
    request_id = steps.open_until_ready(single)
    view = single.view(request_id)
    single.wire.clear()
    single.feed(
        inputs.Cancel("p", view.session_id, None, "X", "b"),
        inputs.Cancel("p", None, request_id, "X", "b"),
    )
    assert (list(single.wire), single.view(request_id)) == ([], view)
    single.feed(inputs.Cancel("p", view.session_id, None, "X", "a"))
    assert single.view(request_id).state == states.CANCELLED


@pytest.mark.security
def test_a_host_that_closes_a_session_without_an_id_has_no_effect(single):
    request_id = steps.open_until_ready(single)
    view = single.view(request_id)
    single.feed(inputs.Close("p", "", 1, 0, 0, confirmed=False, sender="a"))
    assert single.view(request_id) == view


def test_the_rest_api_hears_of_changes_of_sessions_without_front_doors(single):
    """Not of new ones, for which nobody waits, and of no others."""
    holder = steps.open_until_ready(single)
    single.wire.clear()
    request_id = single.open(None)
    assert single.sent(effects.SessionChanged) == []
    single.feed(inputs.Cancel("p", None, request_id, "X", None))
    view = single.view(request_id)
    assert single.sent(effects.SessionChanged) == [
        effects.SessionChanged(view)
    ]
    assert (view.revision, view.state) == (2, states.CANCELLED)
    single.wire.clear()
    single.feed(inputs.Cancel("p", None, holder, "X", "a"))
    assert single.view(holder).state == states.CANCELLED
    assert single.sent(effects.SessionChanged) == []


@pytest.mark.parametrize("state", sorted(states.ALL))
def test_news_that_clients_act_on_does_not_wait_for_more(state):
    """As it is with news for front doors."""
    view = fake_leases.news(2, state)
    news = effects.SessionChanged(view.view)
    assert effects.can_wait(news) is effects.can_wait(view)
    later = effects.SessionChanged(fake_leases.news(3, state).view)
    assert effects.newest([news, view, later]) == [view, later]


@pytest.mark.parametrize(
    ("code", "waits"),
    [(codes.CANCELLED_BY_CLIENT, True), (codes.WAIT_TIMEOUT, False)],
)
def test_news_waits_of_what_a_client_has_cancelled_itself(code, waits):
    view = fake_leases.news(2, states.CANCELLED).view
    news = effects.SessionChanged(dataclasses.replace(view, reason=code))
    assert effects.can_wait(news) is waits
