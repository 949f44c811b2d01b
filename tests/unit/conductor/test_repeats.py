# SPDX-License-Identifier: Apache-2.0

"""Repeated requests, and names of requests."""

import dataclasses

import pytest

from fpgapool.vocabulary import codes
from fpgapool.vocabulary import session as description
from fpgapool.vocabulary import states
from tests.unit.conductor import steps
from tests.unit.conductor import world

#: A value of each option that is not what the pool takes without it.
_OTHERS = {
    "priority": 7,
    "wait_timeout_s": 900.0,
    "connect_timeout_s": 9.0,
    "resume_grace_s": 9.0,
    "deadline_s": 900.0,
    "deadline_action": states.KILL,
    "application": "other",
}


def test_a_repeated_request_opens_once(single):
    request_id = single.open()
    session_id = single.view(request_id).session_id
    single.open(request_id=request_id)
    assert single.view(request_id).session_id == session_id
    assert len(single.rows["sessions"]) == 1


def test_a_repeat_after_the_end_learns_the_end(single):
    request_id = single.open()
    single.cancel(request_id)
    single.wire.clear()
    single.open(request_id=request_id)
    (news,) = single.wire
    assert news.view.state == states.CANCELLED


def test_a_repeat_after_a_restart_learns_the_end(single):
    request_id = single.open()
    single.cancel(request_id)
    single.settle()
    (row,) = single.rows["sessions"].values()
    single.now += world.REMEMBERED_S
    single.boot_conductor()
    single.settle()
    single.open(request_id=request_id)
    # Only the database remembers, and it takes its time.
    assert steps.news_of(single) == []
    single.tell_unrecorded()
    (news,) = steps.news_of(single)
    assert news.session_id == row.session_id
    assert news.state == states.CANCELLED
    assert list(single.rows["sessions"].values()) == [row]
    single.settle()
    assert not single.memory.holds


def test_a_name_of_long_ago_cannot_be_used_for_something_else(single):
    request_id = single.open()
    single.cancel(request_id)
    single.settle()
    single.now += world.REMEMBERED_S
    single.boot_conductor()
    single.settle()
    single.open(request_id=request_id, claimed_bytes=5)
    single.tell_unrecorded()
    (news,) = steps.news_of(single)
    assert news.reason == codes.REQUEST_ID_REUSED
    single.settle()
    assert not single.memory.holds


def test_without_a_front_door_the_answer_is_all_that_is_told(single):
    (view,) = steps.outcome(single, "first")
    assert (view.state, view.secret) == (states.PREPARING, "")
    single.deliver_all()
    steps.ready_up(single)
    # The API gets the secret for the project, now and later.
    assert steps.news_of(single) == []
    for _ in range(2):
        (again,) = steps.outcome(single, "first")
        assert (again.state, again.secret) == (states.READY, "5ec7e7")
        asked = single.ask.session(again.session_id, again.project_id)
        assert asked == again
        shown = dataclasses.replace(again, secret="")
        for project_id in ("", "other"):
            assert single.ask.session(again.session_id, project_id) == shown
        single.settle()
    (refused,) = steps.outcome(single, "second", claimed_bytes=0)
    assert refused.reason == codes.INVALID_SIZE
    assert refused.message
    (reused,) = steps.outcome(single, "first", claimed_bytes=5)
    assert reused.reason == codes.REQUEST_ID_REUSED
    assert steps.outcome(single, "third", awaited_until=single.now - 1) == []


def test_who_repeats_at_the_same_front_door_gets_the_secret(single):
    """The answer may have been lost."""
    request_id = steps.open_until_ready(single)
    (view,) = steps.outcome(single, request_id, host_uuid="a")
    assert (view.state, view.secret) == (states.READY, "5ec7e7")


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(
    "option",
    # A set ends while the test waits; see test_sets.py.
    [one for one in description.FIELDS.options if one.in_record],
    ids=lambda one: one.name,
)
def test_a_repeated_request_has_the_same_options(single, option, restarted):
    name, other = option.name, {option.name: _OTHERS[option.name]}
    plain, special = single.open(), single.open(**other)
    if restarted:
        single.settle()
        single.boot_conductor()
    kept = single.memory.sessions.by_request["p", special]
    before = getattr(kept, name)

    def is_refused(request_id, **options):
        single.settle()
        return any(
            news.reason == codes.REQUEST_ID_REUSED
            for news in steps.outcome(
                single, request_id, host_uuid="a", **options
            )
        )

    assert not is_refused(plain)
    assert not is_refused(special, **other)
    assert is_refused(plain, **other) is not option.limits_only, name
    assert is_refused(special) is not option.limits_only, name
    assert getattr(kept, name) == before


def test_a_request_whose_session_has_yielded_may_be_repeated(single):
    request_id = single.open()
    session = single.memory.sessions.by_request["p", request_id]
    session.former_input_bytes, session.claimed_bytes = 900, 1800
    assert not any(
        news.reason == codes.REQUEST_ID_REUSED
        for news in steps.outcome(single, request_id, host_uuid="a")
    )


@pytest.mark.parametrize("host_uuid", [None, "a"])
def test_what_answers_a_name_of_long_ago_is_known_after_the_commit(
    single, host_uuid
):
    request_id = single.open()
    single.cancel(request_id)
    single.settle()
    single.now += world.REMEMBERED_S
    single.boot_conductor()
    single.settle()
    for changes, expected in (
        ({}, (states.CANCELLED, codes.CANCELLED_BY_CLIENT)),
        ({"claimed_bytes": 5}, (states.REJECTED, codes.REQUEST_ID_REUSED)),
    ):
        # Only the database remembers, and it takes its time.
        news = steps.outcome(
            single, request_id, host_uuid=host_uuid, **changes
        )
        assert news == []
        single.tell_unrecorded()
        (news,) = steps.news_of(single)
        assert (news.state, news.reason) == expected
        single.settle()
    assert not single.memory.holds


def test_what_cannot_be_recorded_is_taken_back(single):
    single.database_away = True
    served, waiting = single.open(), single.open()
    assert len(single.memory.holds) == single.ask.queued_count == 1
    single.tell_unrecorded()
    refused = {news.request_id: news.reason for news in steps.news_of(single)}
    assert refused == dict.fromkeys(
        (served, waiting), codes.DATABASE_UNAVAILABLE
    )
    single.settle()
    assert not single.rows["sessions"]
    assert not single.memory.holds
    assert single.ask.queued_count == 0
    single.open(request_id=served)
    assert single.view(served).state == states.PREPARING


def test_what_ended_before_its_name_was_refused_gets_no_row(single):
    """Its slot is free only later; the row would be one of that name, too."""
    request_id = single.open()
    single.cancel(request_id)
    single.settle()
    single.now += world.REMEMBERED_S
    single.boot_conductor()
    single.settle()
    before = dict(single.rows["sessions"])
    single.open(request_id=request_id, claimed_bytes=5)
    single.deliver_all()
    single.cancel(request_id)
    single.tell_unrecorded()
    assert single.memory.holds
    single.end(states.CANCELLED, codes.CANCELLED_BY_CLIENT)
    single.settle()
    assert not single.memory.holds
    assert single.rows["sessions"] == before
    assert not single.rows["assignments"]


def test_what_ended_before_it_was_recorded_stays_ended(single):
    single.database_away = True
    request_id = single.open()
    single.cancel(request_id)
    single.tell_unrecorded()
    single.settle()
    assert single.view_or_none(request_id) is None
    assert not single.memory.holds


def test_a_request_id_cannot_be_used_for_something_else(single):
    request_id = single.open()
    single.wire.clear()
    single.open(request_id=request_id, claimed_bytes=5)
    (news,) = single.wire
    assert news.view.reason == codes.REQUEST_ID_REUSED
    assert news.view.session_id == ""
    assert single.view(request_id).claimed_bytes == 1000
