# SPDX-License-Identifier: Apache-2.0

"""When the API says how to connect to a session's slot."""

import dataclasses

import oslo_messaging as messaging
import pytest

from fpgapool import objects
from fpgapool.vocabulary import states
from tests.unit.api import fakes
from tests.unit.api.test_sessions import ONE
from tests.unit.api.test_sessions import PATH
from tests.unit.api.test_sessions import WANTED

OLD = {"OpenStack-API-Version": "fpgapool 1.2"}
NEW = {"OpenStack-API-Version": "fpgapool 1.3"}
#: It has the slot when the holder has left.
NEXT = fakes.view(state=states.PREPARING, revision=2)
READY = fakes.view(revision=3)


def opened(
    world: fakes.Api,
    view: objects.SessionView,
    headers: dict[str, str] | None = None,
    token: str = fakes.MEMBER,
) -> dict:
    """Open a session that the conductor answers with a view."""
    world.conductor.views[view.session_id] = view
    world.conductor._submit = lambda request: dataclasses.replace(
        view, request_id=request.request_id, user_id=request.user_id
    )
    body = {"session": WANTED}
    return world.ask("POST", PATH, token, body=body, headers=headers).json[
        "session"
    ]


def news(world: fakes.Api, *views: objects.SessionView) -> None:
    """Let news arrive when a request waits."""
    left = list(views)

    class Source:
        def start(self, changed):
            if left:
                world.conductor.views[left[0].session_id] = left[0]
                changed([left.pop(0)])

        def stop(self):
            pass

    world.waiting._source = Source()
    world.waiting._interval_s = 60


def waited(
    world: fakes.Api, headers: dict[str, str], token: str = fakes.MEMBER
) -> dict:
    return world.ask("GET", f"{ONE}?wait_s=30", token, headers=headers).json[
        "session"
    ]


def test_who_gets_a_slot_at_once_is_answered_with_the_secret(world):
    def refuse(*_question):
        raise AssertionError("the answer has all of it")

    world.conductor.session_now = world.database.session_head = refuse
    session = opened(world, READY)
    assert session["state"] == states.READY
    assert session["connection"]["secret"] == fakes.SECRET


def test_a_secret_that_the_answer_lacks_is_asked_for(world):
    """The conductor is of release 1.0.0, or the secret is being renewed."""
    world.conductor.views[READY.session_id] = READY
    world.conductor._submit = lambda request: READY.public()
    answer = world.ask("POST", PATH, body={"session": WANTED}).json
    assert answer["session"]["connection"]["secret"] == fakes.SECRET


@pytest.mark.security
@pytest.mark.parametrize("view", [READY, NEXT], ids=lambda one: one.state)
def test_who_may_only_open_gets_no_secret(world, monkeypatch, view):
    allows = world.backends.enforcer.allows

    def allowed(caller, rule, target):
        return not rule.endswith(":connect") and allows(caller, rule, target)

    monkeypatch.setattr(world.backends.enforcer, "allows", allowed)
    assert opened(world, view)["connection"] is None


@pytest.mark.parametrize(("headers", "told"), [(OLD, False), (NEW, True)])
def test_a_successor_connects_since_version_1_3(make_world, headers, told):
    world = make_world(NEXT)
    found = world.ask("GET", ONE, headers=headers).json["session"]
    for session in (opened(world, NEXT, headers), found):
        assert session["state"] == states.PREPARING
        assert (session["connection"] is not None) is told
        if told:
            assert session["connection"]["secret"] == fakes.SECRET


def test_a_session_whose_slot_is_programmed_does_not(make_world):
    world = make_world(dataclasses.replace(NEXT, endpoints=(), secret=""))
    assert world.ask("GET", ONE).json["session"]["connection"] is None
    world.conductor.failure = messaging.MessagingTimeout()
    assert world.ask("GET", ONE).json["session"]["connection"] is None


def test_news_says_how_to_connect_to_the_next_slot(make_world):
    world = make_world(fakes.queued(), max_wait_s=60)
    news(world, NEXT)
    session = waited(world, NEW)
    assert session["state"] == states.PREPARING
    assert session["connection"]["secret"] == fakes.SECRET


def test_who_cannot_connect_early_waits_on(make_world):
    world = make_world(fakes.queued(), max_wait_s=60)
    news(world, NEXT, READY)
    session = waited(world, OLD)
    assert (session["state"], session["revision"]) == (states.READY, 3)
    assert session["connection"]["secret"] == fakes.SECRET


def test_who_waits_on_does_so_no_longer_than_wanted(make_world):
    world = make_world(fakes.queued(), max_wait_s=0.1)
    news(world, NEXT)
    session = waited(world, OLD)
    assert (session["state"], session["revision"]) == (states.PREPARING, 2)
    assert session["connection"] is None


@pytest.mark.security
@pytest.mark.parametrize("token", [fakes.READER, fakes.ADMIN])
def test_who_may_not_connect_gets_no_secret_of_a_successor(make_world, token):
    world = make_world(NEXT)
    answer = world.ask("GET", ONE, token)
    assert fakes.SECRET not in answer.text
    world = make_world(fakes.queued(), max_wait_s=60)
    news(world, NEXT)
    assert waited(world, NEW, token)["connection"] is None
