# SPDX-License-Identifier: Apache-2.0

"""The state machine of a worker whose slot is a member of a group."""

import dataclasses

import pytest

from fpgapool.agent.worker import state
from fpgapool.agent.worker import watch


def order(**members):
    return state.Order(
        "g1",
        1,
        "p",
        "copy",
        "builtin:copy",
        connect_timeout_s=30.0,
        resume_grace_s=10.0,
        group_id="g1",
        **members,
    )


def kinds(effects):
    return [type(effect).__name__ for effect in effects]


def join(machine, **members):
    machine.handle(state.Assign(order(**members)), 1.0)
    effects = machine.handle(state.Programmed(1, "copy"), 2.0)
    machine.handle(state.Attached(1, 77.0), 3.0)
    return effects


def test_a_member_joins_and_has_no_secret(machine):
    assert kinds(join(machine)) == ["Changed", "Join"]
    assert machine.state == "active"
    # It stays, so its agent hears of it at once.
    machine.handle(state.Detached(1), 4.0)
    assert machine.handle(state.Attached(1, 78.0), 5.0) == [state.Changed()]


def test_a_member_joins_without_an_agent(machine):
    machine.handle(state.Assign(order()), 1.0)
    machine.handle(state.AgentLost(), 1.5)
    effects = machine.handle(state.Programmed(1, "copy"), 2.0)
    assert kinds(effects) == ["Changed", "Join"]
    assert kinds(machine.handle(state.AgentConnected(), 2.5)) == ["Changed"]


@pytest.mark.security
@pytest.mark.parametrize("group_id", ["", "g1"])
def test_after_a_group_the_process_is_replaced(machine, group_id):
    """Clients of other projects may have been served, too."""
    join(machine)
    machine.handle(state.Release(1, "X"), 4.0)
    machine.handle(state.Scrubbed(1, 10, 20, 99.0), 5.0)
    assert machine.was_member
    later = dataclasses.replace(order(), generation=2, group_id=group_id)
    effects = machine.handle(state.Assign(later), 7.0)
    assert kinds(effects) == ["Refuse", "Changed", "Quit"]
    assert effects[0].code == "RECYCLE"


def test_a_slot_that_never_joined_needs_no_new_process(machine):
    machine.handle(state.Assign(order()), 1.0)
    machine.handle(state.Programmed(1, "copy"), 2.0)
    assert not machine.was_member


def test_there_is_no_secret_to_reissue(machine):
    machine.handle(state.Assign(order()), 1.0)
    machine.handle(state.Programmed(1, "copy"), 2.0)
    (refusal,) = machine.handle(state.ReissueSecret(1), 2.5)
    assert refusal.code == "SESSION_NOT_READY"


def test_a_desk_that_does_not_come(machine):
    machine.handle(state.Assign(order()), 1.0)
    machine.handle(state.Programmed(1, "copy"), 2.0)
    (effect,) = machine.handle(state.Tick(), 32.0)
    assert effect.code == "CONNECT_TIMEOUT"


def test_a_desk_may_come_back_within_the_grace(machine):
    join(machine)
    machine.handle(state.Detached(1), 4.0)
    assert (machine.state, machine.deadline_s) == ("detached", 14.0)
    machine.handle(state.Attached(1, 78.0), 5.0)
    assert machine.state == "active"
    machine.handle(state.Detached(1), 6.0)
    (effect,) = machine.handle(state.Tick(), 16.0)
    assert effect.code == "RESUME_TIMEOUT"


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        (watch.Limits(idle_timeout_s=5.0), "IDLE_TIMEOUT"),
        (
            watch.Limits(min_progress_bytes_per_s=10.0, progress_period_s=5.0),
            "TOO_SLOW",
        ),
    ],
)
def test_only_a_task_can_be_too_slow(machine, limits, code):
    join(machine, limits=limits)
    now = 3.0
    # Without a task for a minute, then with one that does not end.
    while now < 63.0:
        now += watch.INTERVAL_S
        assert (
            machine.handle(state.Tick(watch.Progress(7), is_waiting=True), now)
            == []
        )
    while now < 63.0 + 5.0 - watch.INTERVAL_S:
        now += watch.INTERVAL_S
        assert machine.handle(state.Tick(watch.Progress(7)), now) == []
    (effect,) = machine.handle(
        state.Tick(watch.Progress(7)), now + watch.INTERVAL_S
    )
    assert effect.code == code


def test_a_member_that_leaves_is_scrubbed(machine):
    join(machine)
    left = state.Ended(1, "CLOSED", "OK", "left")
    assert kinds(machine.handle(left, 4.0)) == ["Clear"]
    machine.handle(state.Scrubbed(1, 5, 6, 99.0), 5.0)
    assert machine.state == "idle"
    assert machine.last_result.code == "OK"
