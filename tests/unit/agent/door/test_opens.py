# SPDX-License-Identifier: Apache-2.0

"""What a front door does about sessions that its clients opened."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpgapool.agent.door import opens
from fpgapool.vocabulary import states
from tests.unit.agent import factories

CLIENT = 1


def make() -> opens.Opens:
    return opens.Opens(open_timeout_s=10.0, poll_interval_s=5.0)


def heard(**members: object) -> opens.Opens:
    tracked = make()
    tracked.open(CLIENT, factories.open_request(), 0.0)
    tracked.heard(factories.view(**members), 0.5)
    return tracked


def poll_of(revision: int) -> opens.Poll:
    return opens.Poll(((factories.PROJECT, "session-of-r1", revision),))


def kinds(effects: list[opens.Effect]) -> list[type]:
    return [type(effect) for effect in effects]


def test_an_open_is_repeated_until_it_is_answered():
    tracked = make()
    request = factories.open_request()
    (wish,) = tracked.open(CLIENT, request, 0.0)
    assert wish == request
    # As long as a call is under way there is no other one.
    assert tracked.tick(2.0) == []
    tracked.call_ended(wish, 2.0)
    assert tracked.tick(2.9) == []
    assert tracked.tick(3.0) == [wish]
    tracked.call_ended(wish, 3.1)
    assert tracked.tick(5.0) == []
    assert tracked.tick(5.1) == [wish]
    view = factories.view()
    assert tracked.heard(view, 5.5) == [opens.Push(CLIENT, view)]
    tracked.call_ended(wish, 5.5)
    assert tracked.tick(10.0) == []


def test_what_has_been_heard_otherwise_is_not_asked_for_again():
    """The news may come before the answer, or without it."""
    tracked = make()
    (wish,) = tracked.open(CLIENT, factories.open_request(), 0.0)
    tracked.heard(factories.view(), 0.5)
    tracked.call_ended(wish, 1.0)
    assert tracked.tick(4.0) == []
    assert tracked.heard(factories.view(), 4.1) == []


OWN = {"state": "READY", "secret_sha256": "ab" * 32}


WITH_SECRET = dataclasses.replace(
    factories.open_request(), secret_sha256="ab" * 32
)


def opened_with_secret() -> opens.Opens:
    tracked = make()
    tracked.open(CLIENT, WITH_SECRET, 0.0, "s3")
    return tracked


def test_the_secret_joins_the_news_at_the_front_door():
    tracked = opened_with_secret()
    view = factories.view(**OWN)
    (push,) = tracked.heard(view, 0.5)
    assert push == opens.Push(CLIENT, dataclasses.replace(view, secret="s3"))
    # Questions of other clients are answered without it.
    assert tracked.view(factories.PROJECT, "session-of-r1") == view


def test_a_secret_of_the_worker_goes_before_that_of_the_front_door():
    tracked = opened_with_secret()
    view = factories.view(state="READY", secret="5ec7e7")
    assert tracked.heard(view, 0.5) == [opens.Push(CLIENT, view)]


def test_the_secret_of_another_front_door_is_waited_for():
    """That of the agent before this one: it is gone."""
    tracked = opened_with_secret()
    view = factories.view(**OWN | {"secret_sha256": "00" * 32})
    assert tracked.heard(view, 0.5) == []
    view = factories.view(state="READY", secret="5ec7e7", revision=2)
    assert tracked.heard(view, 0.6) == [opens.Push(CLIENT, view)]


FOREIGN = factories.view(**OWN | {"secret_sha256": "00" * 32}, revision=2)


def test_the_conductor_must_know_the_secret_of_this_front_door():
    """News of the agent before this one may come without the answer."""
    tracked = make()
    (wish,) = tracked.open(CLIENT, WITH_SECRET, 0.0, "s3")
    assert tracked.heard(FOREIGN, 0.5) == []
    # The call has failed, and the request was not taken in.
    tracked.call_ended(wish, 1.0)
    assert wish in tracked.tick(4.0)
    tracked.call_ended(wish, 4.1)
    again = dataclasses.replace(FOREIGN, revision=3)
    assert tracked.heard(again, 4.2) == [wish]
    tracked.heard(dataclasses.replace(again, revision=4, secret="5e"), 4.3)
    tracked.call_ended(wish, 4.4)
    assert wish not in tracked.tick(60.0)


def test_a_client_that_comes_back_has_its_secret_asked_for():
    tracked = make()
    (wish,) = tracked.open(CLIENT, WITH_SECRET, 0.0, "s3")
    tracked.heard(factories.view(state="QUEUED"), 0.1)
    tracked.call_ended(wish, 0.2)
    tracked.client_gone(CLIENT, 0.3)
    assert tracked.heard(FOREIGN, 0.4) == []
    assert tracked.open(CLIENT, WITH_SECRET, 0.5, "s3") == [wish]


def test_a_refusal_is_an_answer():
    tracked = make()
    (wish,) = tracked.open(CLIENT, factories.open_request(), 0.0)
    refusal = factories.view(state="REJECTED", session_id="", revision=0)
    assert tracked.heard(refusal, 0.1) == [opens.Push(CLIENT, refusal)]
    tracked.call_ended(wish, 0.1)
    assert len(tracked) == 0


TAKEN_BACK = opens.Cancel(
    factories.PROJECT, None, "r1", "CONDUCTOR_UNAVAILABLE"
)


def unanswered() -> opens.Opens:
    """Return what is left when a client was told so, at 10 s."""
    tracked = make()
    (wish,) = tracked.open(CLIENT, factories.open_request(), 0.0)
    (push,) = tracked.tick(10.0)
    tracked.call_ended(wish, 10.0)
    assert push.client == CLIENT
    assert (push.view.state, push.view.reason) == (
        "REJECTED",
        "CONDUCTOR_UNAVAILABLE",
    )
    assert tracked.count(CLIENT) == 0
    return tracked


def test_an_unanswered_open_fails_and_is_taken_back():
    tracked = unanswered()
    due_s = 10.0 + opens.TAKES_BACK_AFTER_S
    assert tracked.tick(due_s - 0.1) == []
    assert tracked.tick(due_s) == [TAKEN_BACK]
    # The first one may have been lost.
    assert tracked.tick(due_s + 1.0) == [TAKEN_BACK]
    tracked.tick(10.0 + opens.CANCEL_REPEAT_S)
    assert len(tracked) == 0


def test_a_late_answer_leaves_the_client_its_time_to_ask_again():
    tracked = unanswered()
    due_s = 10.0 + opens.TAKES_BACK_AFTER_S
    assert tracked.heard(factories.view(), 10.5) == []
    assert TAKEN_BACK not in tracked.tick(due_s - 0.1)
    assert TAKEN_BACK in tracked.tick(due_s)


def test_an_unanswered_open_is_not_taken_back_from_who_goes_on():
    """Its request may have been taken in before the agent was restarted."""
    tracked = unanswered()
    again = dataclasses.replace(factories.open_request(), priority=1)
    (wish,) = tracked.open(CLIENT, again, 12.0)
    # It is as good as a new one: repeated soon, and refused after as long.
    tracked.call_ended(wish, 12.0)
    assert tracked.tick(13.0) == [again]
    assert TAKEN_BACK not in tracked.tick(21.9)
    assert kinds(tracked.tick(22.0)) == [opens.Push]
    tracked.open(2, again, 24.0)
    view = factories.view()
    assert tracked.heard(view, 25.0) == [opens.Push(2, view)]
    for seconds in range(25, 120):
        assert TAKEN_BACK not in tracked.tick(float(seconds))


def test_who_comes_back_is_counted_already():
    tracked = unanswered()
    assert tracked.count_of_project(factories.PROJECT) == 1
    assert tracked.is_counted(factories.PROJECT, request_id="r1")
    assert not tracked.is_counted("other", request_id="r1")
    assert not tracked.is_counted(factories.PROJECT, request_id="r2")
    tracked.heard(factories.view(), 11.0)
    view = factories.view()
    assert tracked.is_counted(factories.PROJECT, session_id=view.session_id)
    assert not tracked.is_counted("other", session_id=view.session_id)


def test_an_unanswered_open_that_its_client_gives_up_is_cancelled_at_once():
    tracked = unanswered()
    effects = tracked.cancel(
        factories.PROJECT, None, "r1", "CANCELLED_BY_CLIENT", 10.1
    )
    reason = "CANCELLED_BY_CLIENT"
    assert effects == [dataclasses.replace(TAKEN_BACK, reason=reason)]
    cancelled = factories.view(state="CANCELLED", revision=2)
    assert tracked.heard(cancelled, 11.0) == []
    assert len(tracked) == 0


def test_older_views_are_dropped():
    tracked = heard(revision=5, state="PREPARING")
    assert tracked.heard(factories.view(revision=4), 1.0) == []
    assert tracked.heard(factories.view(revision=5), 1.0) == []
    assert tracked.stale_views == 2
    newer = factories.view(revision=6, state="ACTIVE")
    assert tracked.heard(newer, 1.0) == [opens.Push(CLIENT, newer)]


def test_ready_is_passed_on_when_its_secret_has_come():
    tracked = heard()
    bare = factories.view(state="READY", revision=2)
    assert tracked.heard(bare, 1.0) == []
    whole = dataclasses.replace(bare, revision=3, secret="ab")
    assert tracked.heard(whole, 2.1) == [opens.Push(CLIENT, whole)]
    assert tracked.tick(4.0) == []


def test_reports_name_silent_sessions_once_in_an_interval():
    tracked = heard(revision=3)
    assert tracked.to_report(5.4) == {}
    assert tracked.to_report(5.5) == {"session-of-r1": 3}
    assert tracked.to_report(10.4) == {}
    assert tracked.to_report(10.5) == {"session-of-r1": 3}
    tracked.heard(factories.view(revision=4), 11.0)
    assert tracked.to_report(15.9) == {}
    assert tracked.to_report(16.0) == {"session-of-r1": 4}


def test_a_report_names_no_more_sessions_than_a_poll(monkeypatch):
    monkeypatch.setattr(opens, "MAX_POLLED_SESSIONS", 1)
    tracked = make()
    for name in ("r1", "r2"):
        tracked.open(CLIENT, factories.open_request(request_id=name), 0.0)
        tracked.heard(factories.view(name), 0.0)
    assert tracked.to_report(5.0).keys() == {"session-of-r1"}
    assert tracked.to_report(5.0).keys() == {"session-of-r2"}


def test_sessions_that_stay_silent_are_asked_for():
    tracked = heard()
    assert tracked.to_report(59.0)
    assert tracked.tick(60.4) == []
    revision = factories.view().revision
    assert tracked.tick(60.5) == [poll_of(revision)]
    tracked.heard(factories.view(), 61.0)
    assert tracked.tick(120.9) == []


def test_a_session_that_has_not_changed_is_asked_for_again_later():
    tracked = heard(revision=3)
    poll = poll_of(3)
    assert tracked.tick(60.5) == [poll]
    assert tracked.polled(poll, [], ["another"], 61.0) == []
    assert tracked.tick(120.9) == []
    assert tracked.tick(121.0) == [poll]
    news = factories.view(state="PREPARING", revision=4)
    pushes = [opens.Push(CLIENT, news)]
    assert tracked.polled(poll, [news], [], 122.0) == pushes


def test_sessions_opened_at_different_times_are_soon_asked_for_together():
    tracked, count = make(), 20
    for number in range(count):
        now = 3 * number
        request = factories.open_request(request_id=f"r{number}")
        tracked.open(CLIENT, request, now)
        tracked.heard(factories.view(f"r{number}"), now)
    polls = []
    for now in range(60, 360):
        for effect in tracked.tick(now):
            polls.append((now, len(effect.sessions)))
            tracked.polled(effect, [], [], now)
    assert polls[-2:] == [(polls[-2][0], count), (polls[-2][0] + 60, count)]
    assert len(polls) <= 7


def test_those_that_are_silent_for_longer_are_asked_for_first(monkeypatch):
    monkeypatch.setattr(opens, "MAX_POLLED_SESSIONS", 1)
    tracked = make()
    for name, heard_at in (("r1", 2.0), ("r2", 0.0)):
        tracked.open(CLIENT, factories.open_request(request_id=name), 0.0)
        tracked.heard(factories.view(name), heard_at)
    (poll,) = tracked.tick(60.0)
    assert poll.sessions == ((factories.PROJECT, "session-of-r2", 1),)


def test_a_session_that_the_conductor_lost_ends():
    tracked = heard(revision=3)
    unknown = ["session-of-r1", "other"]
    (push,) = tracked.polled(poll_of(3), [], unknown, 11.0)
    assert (push.view.state, push.view.reason) == ("LOST", "SESSION_NOT_FOUND")
    assert len(tracked) == 0


@pytest.mark.parametrize("state", ["QUEUED", "PREPARING"])
def test_a_client_that_goes_takes_its_waiting_session_along(state):
    tracked = heard(state=state, slot_host_uuid=factories.HOST)
    cancel = opens.Cancel(factories.PROJECT, None, "r1", "CLIENT_GONE")
    assert tracked.client_gone(CLIENT, 1.0) == [cancel]
    # Casts may be lost, so it is repeated until it had its effect.
    assert cancel in tracked.tick(2.0)
    gone = factories.view(state="CANCELLED", revision=9)
    assert tracked.heard(gone, 3.0) == []
    assert len(tracked) == 0


@pytest.mark.parametrize("host_uuid", [factories.HOST, "elsewhere"])
def test_a_client_that_closed_in_order_is_not_cancelled(host_uuid):
    tracked = heard(state="READY", secret="ab", slot_host_uuid=host_uuid)
    assert tracked.client_gone(CLIENT, 1.0) == []
    assert tracked.heard(factories.view(state="CLOSED", revision=9), 1.5) == []
    assert len(tracked) == 0


@pytest.mark.parametrize("host_uuid", [factories.HOST, "elsewhere"])
def test_a_client_that_died_before_it_used_its_slot_is_cancelled(host_uuid):
    tracked = heard(state="READY", secret="ab", slot_host_uuid=host_uuid)
    assert tracked.client_gone(CLIENT, 1.0) == []
    cancel = opens.Cancel(factories.PROJECT, None, "r1", "CLIENT_GONE")
    assert cancel in tracked.tick(2.0)


def test_a_client_that_has_disconnected_may_still_cancel():
    """It uses another connection, as its own may wait for an answer."""
    tracked = heard(state="READY", secret="ab", slot_host_uuid=factories.HOST)
    assert tracked.client_gone(CLIENT, 1.0) == []
    wanted = (factories.PROJECT, "session-of-r1", None, "CANCELLED_BY_CLIENT")
    cancel = opens.Cancel(factories.PROJECT, None, "r1", wanted[-1])
    assert tracked.cancel(*wanted, 1.5) == [cancel]
    # It is that which is repeated.
    assert cancel in tracked.tick(2.5)


def test_a_client_that_goes_before_any_answer_cancels_too():
    tracked = make()
    tracked.open(CLIENT, factories.open_request(), 0.0)
    assert kinds(tracked.client_gone(CLIENT, 1.0)) == [opens.Cancel]


@pytest.mark.parametrize("state", ["ACTIVE", "DETACHED"])
def test_a_running_session_outlives_the_connection(state):
    tracked = heard(state=state)
    assert tracked.client_gone(CLIENT, 1.0) == []
    assert len(tracked) == 0


def test_a_session_that_the_host_knows_to_run_is_not_cancelled():
    tracked = heard(state="READY", secret="ab")
    assert tracked.client_gone(CLIENT, 1.0, ["session-of-r1"]) == []


def test_a_cancellation_ends_when_the_session_runs_after_all():
    tracked = heard(state="READY", secret="ab")
    tracked.client_gone(CLIENT, 1.0)
    tracked.heard(factories.view(state="ACTIVE", revision=2), 2.0)
    assert len(tracked) == 0


def test_cancellations_are_not_repeated_for_ever():
    tracked = heard()
    tracked.client_gone(CLIENT, 1.0)
    tracked.tick(1.0 + opens.CANCEL_REPEAT_S)
    assert len(tracked) == 0


def test_a_client_may_cancel_and_hears_of_the_end():
    tracked = heard()
    effects = tracked.cancel(
        factories.PROJECT, "session-of-r1", None, "CANCELLED_BY_CLIENT", 1.0
    )
    assert effects == [
        opens.Cancel(factories.PROJECT, None, "r1", "CANCELLED_BY_CLIENT")
    ]
    gone = factories.view(state="CANCELLED", revision=9)
    assert tracked.heard(gone, 2.0) == [opens.Push(CLIENT, gone)]


def test_a_session_of_somebody_else_is_cancelled_by_the_conductor_only():
    tracked = heard()
    effects = tracked.cancel(
        "project-b", "session-of-r1", None, "CANCELLED_BY_CLIENT", 1.0
    )
    assert effects == [
        opens.Cancel("project-b", "session-of-r1", None, "CANCELLED_BY_CLIENT")
    ]
    assert tracked.view("project-b", "session-of-r1") is None
    assert tracked.tick(1.5) == []


def test_a_client_that_comes_back_takes_its_request_over():
    tracked = heard()
    (push,) = tracked.open(2, factories.open_request(), 1.0)
    assert push == opens.Push(2, factories.view())
    assert tracked.client_gone(CLIENT, 2.0) == []
    newer = factories.view(state="PREPARING", revision=2)
    assert tracked.heard(newer, 3.0) == [opens.Push(2, newer)]


def test_a_client_that_comes_back_in_time_is_not_cancelled_again():
    tracked = heard()
    tracked.client_gone(CLIENT, 1.0)
    assert kinds(tracked.open(2, factories.open_request(), 1.5)) == [
        opens.Push
    ]
    assert opens.Cancel not in kinds(tracked.tick(4.0))
    tracked.tick(2 * opens.CANCEL_REPEAT_S)
    assert len(tracked) == 1


def test_views_of_unknown_sessions_change_nothing():
    tracked = make()
    assert tracked.heard(factories.view(), 0.0) == []
    assert len(tracked) == 0


LOST = opens.Reopen(factories.HOST, factories.PROJECT, "session-of-r1", 5)


def reopened(tracked: opens.Opens, now: float = 1.0) -> list[opens.Effect]:
    return tracked.reopen(CLIENT, LOST, now)


def active(**members: object) -> opens.Opens:
    return heard(
        **{"state": "ACTIVE", "revision": 4, "generation": 5, **members}
    )


@pytest.mark.parametrize("make_tracked", [make, active])
def test_a_reopening_is_repeated_until_the_session_gets_on(make_tracked):
    tracked = make_tracked()
    (wish,) = reopened(tracked)
    assert wish == LOST
    tracked.call_ended(wish, 1.0)
    assert tracked.tick(1.9) == []
    assert tracked.tick(2.0) == [LOST]
    assert tracked.tick(4.0) == []
    view = factories.view(state="PREPARING", revision=5, generation=6)
    assert tracked.heard(view, 4.5) == [opens.Push(CLIENT, view)]
    tracked.call_ended(wish, 4.5)
    assert tracked.tick(9.0) == []
    assert tracked.count(CLIENT) == 1


@pytest.mark.parametrize("make_tracked", [make, active])
def test_a_reopened_session_is_tracked_as_an_opened_one(make_tracked):
    tracked = make_tracked()
    reopened(tracked)
    queued = factories.view(revision=5, generation=5)
    assert tracked.heard(queued, 2.0) == [opens.Push(CLIENT, queued)]
    assert tracked.to_report(20.0) == {queued.session_id: 5}
    bare = factories.view(state="READY", revision=6, generation=6)
    assert tracked.heard(bare, 20.0) == []
    whole = dataclasses.replace(
        bare, revision=7, secret="ab", slot_host_uuid=factories.HOST
    )
    assert tracked.heard(whole, 22.0) == [opens.Push(CLIENT, whole)]
    cancel = opens.Cancel(factories.PROJECT, None, "r1", "CLIENT_GONE")
    assert tracked.client_gone(CLIENT, 23.0) == []
    assert tracked.tick(24.0) == [cancel]
    tracked.heard(factories.view(state="CANCELLED", revision=9), 24.0)
    assert len(tracked) == 0


def test_a_client_may_report_its_own_work_once_a_second():
    tracked = heard()
    own = (CLIENT, factories.PROJECT, "session-of-r1")
    assert tracked.may_report(*own, 2.0)
    assert not tracked.may_report(*own, 2.9)
    assert tracked.may_report(*own, 3.0)
    for others in (
        (CLIENT + 1, *own[1:]),
        (CLIENT, "other", own[2]),
        (*own[:2], "other"),
    ):
        assert not tracked.may_report(*others, 9.0)


def test_news_of_the_lost_slot_is_no_answer():
    tracked = active()
    (wish,) = reopened(tracked)
    late = factories.view(state="DETACHED", revision=5, generation=5)
    assert tracked.heard(late, 1.5) == [opens.Push(CLIENT, late)]
    # Also as an answer: it came before what the client knows already.
    tracked.call_ended(wish, 1.5)
    assert LOST in tracked.tick(2.5)
    # The same that was known before the client asked.
    again = factories.view(state="DETACHED", revision=5, generation=5)
    assert tracked.heard(again, 2.5) == []


@pytest.mark.parametrize("make_tracked", [make, active])
def test_a_session_that_cannot_be_reopened_ends(make_tracked):
    tracked = make_tracked()
    reopened(tracked)
    ended = factories.view(state="FAILED", revision=5, generation=5)
    assert tracked.heard(ended, 2.0) == [opens.Push(CLIENT, ended)]
    assert len(tracked) == 0
    assert tracked.count(CLIENT) == 0


@pytest.mark.parametrize(
    "members",
    [
        {"state": "PREPARING", "generation": 6},
        {"state": "READY", "generation": 6, "secret": "ab"},
        {"state": "QUEUED", "generation": 5},
    ],
)
def test_a_session_that_moved_already_is_not_moved_again(members):
    tracked = active()
    view = factories.view(revision=7, **members)
    tracked.heard(view, 0.8)
    assert reopened(tracked) == [opens.Push(CLIENT, view)]
    assert LOST not in tracked.tick(4.0)


def test_a_queued_session_of_long_ago_is_asked_for():
    tracked = heard(state="QUEUED", generation=0)
    assert reopened(tracked) == [LOST]


@pytest.mark.parametrize("make_tracked", [make, active])
def test_an_unanswered_reopening_is_lost_but_not_taken_back(make_tracked):
    tracked = make_tracked()
    reopened(tracked)
    (push,) = [
        effect
        for effect in tracked.tick(11.0)
        if not isinstance(effect, opens.Poll)
    ]
    assert (push.client, push.view.session_id) == (CLIENT, "session-of-r1")
    assert (push.view.state, push.view.reason) == (
        "LOST",
        "CONDUCTOR_UNAVAILABLE",
    )
    assert push.view.generation == 5
    assert len(tracked) == 0


@pytest.mark.parametrize(
    ("make_tracked", "name"),
    [(make, ("session-of-r1", None)), (active, (None, "r1"))],
)
def test_a_client_that_goes_while_it_waits_again_cancels(make_tracked, name):
    tracked = make_tracked()
    reopened(tracked)
    # The lost slot may still be busy on this very host.
    effects = tracked.client_gone(CLIENT, 2.0, ["session-of-r1"])
    cancel = opens.Cancel(factories.PROJECT, *name, "CLIENT_GONE")
    assert effects == [cancel]
    assert cancel in tracked.tick(4.0)
    late = factories.view(state="ACTIVE", revision=5, generation=5)
    tracked.heard(late, 5.0)
    assert opens.Cancel in kinds(tracked.tick(20.0))
    tracked.tick(2.0 + opens.CANCEL_REPEAT_S)
    assert len(tracked) == 0


def test_a_waiting_session_without_a_view_can_be_cancelled():
    tracked = make()
    reopened(tracked)
    (cast,) = tracked.cancel(
        factories.PROJECT, "session-of-r1", None, "CANCELLED_BY_CLIENT", 2.0
    )
    assert cast == opens.Cancel(
        factories.PROJECT, "session-of-r1", None, "CANCELLED_BY_CLIENT"
    )
    assert LOST not in tracked.tick(9.0)


def test_another_connection_takes_a_reopened_session_over():
    tracked = active()
    reopened(tracked)
    assert tracked.reopen(2, LOST, 1.5) == []
    assert tracked.client_gone(CLIENT, 2.0) == []
    view = factories.view(state="PREPARING", revision=5, generation=6)
    assert tracked.heard(view, 3.0) == [opens.Push(2, view)]
    assert (tracked.count(CLIENT), tracked.count(2)) == (0, 1)


def test_sessions_of_one_name_in_two_projects_do_not_mix():
    tracked = active()
    lost = dataclasses.replace(LOST, project_id="project-b")
    assert tracked.reopen(2, lost, 1.0) == [lost]
    assert len(tracked) == 2
    view = factories.view(state="DETACHED", revision=5, generation=5)
    assert tracked.heard(view, 2.0) == [opens.Push(CLIENT, view)]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("open"), st.integers(1, 3), st.integers(1, 3)),
        st.tuples(st.just("reopen"), st.integers(1, 3), st.integers(1, 3)),
        st.tuples(
            st.just("view"),
            st.integers(1, 3),
            st.tuples(
                st.integers(0, 9),
                st.sampled_from(
                    ["QUEUED", "READY", "ACTIVE", "CLOSED", "CANCELLED"]
                ),
                st.booleans(),
            ),
        ),
        st.tuples(st.just("gone"), st.integers(1, 3), st.none()),
        st.tuples(st.just("tick"), st.integers(0, 30), st.none()),
    ),
    max_size=60,
)


@given(STEPS)
def test_clients_see_revisions_grow_and_nothing_is_kept_for_ever(steps):
    tracked = make()
    now = 0.0
    seen: dict[tuple[int, str], int] = {}
    for kind, number, more in steps:
        effects: list[opens.Effect] = []
        if kind == "open":
            request = factories.open_request(f"r{more}")
            # A client that asks again hears the present state again.
            seen.pop((number, request.request_id), None)
            effects = tracked.open(number, request, now)
        elif kind == "reopen":
            lost = opens.Reopen(
                factories.HOST,
                factories.PROJECT,
                f"session-of-r{more}",
                more,
            )
            seen.pop((number, f"r{more}"), None)
            effects = tracked.reopen(number, lost, now)
        elif kind == "view":
            revision, state, secret = more
            effects = tracked.heard(
                factories.view(
                    f"r{number}",
                    state,
                    revision,
                    secret="ab" if secret else "",
                ),
                now,
            )
        elif kind == "gone":
            effects = tracked.client_gone(number, now)
        else:
            now += number
            effects = tracked.tick(now)
        for push in effects:
            if not isinstance(push, opens.Push):
                continue
            key = (push.client, push.view.request_id)
            assert push.view.state != "READY" or push.view.secret
            assert push.view.revision >= seen.get(key, 0)
            seen[key] = push.view.revision
            if push.view.state in states.TERMINAL:
                del seen[key]
    for client in (1, 2, 3):
        tracked.client_gone(client, now)
    tracked.tick(now + 2 * opens.CANCEL_REPEAT_S)
    assert len(tracked) == 0


def test_sessions_are_counted_by_project_until_they_are_forgotten():
    tracked = make()
    count = 5
    for number in range(count):
        request = factories.open_request(request_id=f"r{number}")
        tracked.open(CLIENT, request, 0.0)
        # Repeated, it is none more.
        tracked.open(CLIENT, request, 0.1)
    lost = opens.Reopen("host", factories.PROJECT, "another", 1)
    tracked.reopen(CLIENT, lost, 0.2)
    assert tracked.count_of_project(factories.PROJECT) == count + 1
    assert tracked.count_of_project("other") == 0
    # They are taken back, which has to be heard of first.
    tracked.client_gone(CLIENT, 1.0)
    assert tracked.count_of_project(factories.PROJECT) == count + 1
    for number in range(count):
        ended = factories.view(
            request_id=f"r{number}", session_id=f"s{number}", state="CANCELLED"
        )
        tracked.heard(ended, 2.0)
    assert tracked.count_of_project(factories.PROJECT) == 1
    tracked.tick(1.0 + opens.CANCEL_REPEAT_S)
    assert tracked.count_of_project(factories.PROJECT) == len(tracked) == 0


def test_a_session_of_another_project_is_not_found_by_its_name():
    tracked = heard()
    assert tracked.view(factories.PROJECT, "session-of-r1") is not None
    assert tracked.view("other", "session-of-r1") is None
    tracked.heard(factories.view(revision=9, state="CLOSED"), 1.0)
    assert tracked.view(factories.PROJECT, "session-of-r1") is None


def close(*, confirmed: bool = True) -> opens.Close:
    return opens.Close(
        factories.PROJECT, "session-of-r1", 1, 700, 1400, confirmed
    )


def test_a_close_that_the_conductor_hears_of_otherwise_is_not_sent():
    tracked = heard(state="READY", secret="ab")
    assert tracked.close(close(), 1.0) == []
    assert tracked.client_gone(CLIENT, 1.0) == []
    tracked.heard(factories.view(state="ACTIVE", revision=2), 1.1)
    assert tracked.heard(factories.view(state="CLOSED", revision=9), 1.5) == []
    assert len(tracked) == 0


@pytest.mark.parametrize("state", ["READY", "ACTIVE", "DETACHED"])
def test_a_close_is_sent_until_the_session_has_ended_as_served(state):
    tracked = heard(state=state, secret="ab")
    tracked.close(close(), 1.0)
    tracked.client_gone(CLIENT, 1.0)
    assert close() in tracked.tick(2.0)
    # Its agent and worker are lost, and the conductor did not hear of it.
    lost = factories.view(state="FAILED", reason="WORKER_LOST", revision=5)
    assert tracked.heard(lost, 2.5) == [close()]
    assert close() in tracked.tick(10.0)
    tracked.heard(factories.view(state="CLOSED", revision=9), 11.0)
    assert len(tracked) == 0


def test_an_end_of_another_cause_ends_the_close():
    tracked = heard(state="ACTIVE")
    tracked.close(close(), 1.0)
    failed = factories.view(
        state="FAILED", reason="CLAIM_EXCEEDED", revision=5
    )
    assert tracked.heard(failed, 2.5) == []
    assert len(tracked) == 0


def test_a_close_is_not_sent_for_ever():
    tracked = heard(state="ACTIVE")
    tracked.close(close(), 1.0)
    tracked.tick(1.0 + opens.CANCEL_REPEAT_S)
    assert len(tracked) == 0


def test_a_close_of_a_session_whose_client_was_gone_is_repeated():
    """The leader that hears it first may die before it has recorded it."""
    tracked = active()
    assert tracked.client_gone(CLIENT, 1.0) == []
    assert len(tracked) == 0
    unconfirmed = close(confirmed=False)
    assert tracked.close(unconfirmed, 1.0) == [unconfirmed]
    assert tracked.tick(2.0) == [unconfirmed]
    again = factories.view(state="QUEUED", revision=6, generation=6)
    assert tracked.heard(again, 2.5) == []
    assert tracked.tick(4.0) == [unconfirmed]
    assert tracked.heard(factories.view(state="CLOSED", revision=7), 5.0) == []
    assert len(tracked) == 0


@pytest.mark.parametrize("is_heard_of", [True, False])
def test_such_a_close_is_not_repeated_for_ever(is_heard_of):
    tracked = make()
    tracked.close(close(confirmed=False), 1.0)
    if is_heard_of:
        tracked.heard(factories.view(state="ACTIVE", revision=6), 2.0)
    tracked.tick(61.0)
    assert len(tracked) == 0


def test_a_close_that_no_worker_confirmed_is_sent_at_once():
    unconfirmed = close(confirmed=False)
    tracked = heard(state="ACTIVE")
    assert tracked.close(unconfirmed, 1.0) == [unconfirmed]
    # An agent that was started anew does not know the session.
    assert make().close(unconfirmed, 1.0) == [unconfirmed]
    assert make().close(close(), 1.0) == []


@pytest.mark.parametrize("has_gone", [True, False])
def test_a_close_that_no_worker_confirmed_is_repeated(has_gone):
    unconfirmed = close(confirmed=False)
    tracked = heard(state="ACTIVE") if has_gone else make()
    # The news of the end of its connection may come before its close.
    tracked.client_gone(CLIENT, 1.0)
    assert tracked.close(unconfirmed, 1.0) == [unconfirmed]
    assert unconfirmed in tracked.tick(2.0)
    # It was preempted meanwhile, and would wait for a client.
    tracked.heard(factories.view(state="QUEUED", revision=5), 2.5)
    assert unconfirmed in tracked.tick(4.5)
    tracked.heard(factories.view(state="CLOSED", revision=9), 5.0)
    assert len(tracked) == 0


def test_a_close_without_room_is_sent_once():
    tracked, unconfirmed = make(), close(confirmed=False)
    assert tracked.close(unconfirmed, 1.0, has_room=False) == [unconfirmed]
    assert len(tracked) == 0
