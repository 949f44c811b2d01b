# SPDX-License-Identifier: Apache-2.0

"""Limits of a connected session."""

import pytest

from fpgapool.agent.worker import state
from fpgapool.agent.worker import watch
from fpgapool.vocabulary import codes


def make(**limits: float) -> watch.Watch:
    return watch.Watch(watch.Limits(**limits), 0.0)


def done(input_bytes: int) -> watch.Progress:
    return watch.Progress(input_bytes)


def test_without_limits_anything_goes():
    assert make().look(done(0), 1e9) is None
    assert not make().beyond_claim()


@pytest.mark.parametrize(
    ("follows", "most"), [(False, 10), (True, 10 * watch.FOLLOWER_FACTOR)]
)
def test_who_follows_may_exceed_its_claim_but_not_for_ever(follows, most):
    """Any client may say that its input comes over a link."""
    watching = make(claim_limit_bytes=10)
    watching.look(watch.Progress(most, follows=follows), 1.0)
    assert not watching.beyond_claim()
    watching.look(watch.Progress(most + 1, follows=follows), 2.0)
    assert watching.beyond_claim()


def test_who_follows_may_be_slower_but_not_as_slow_as_it_likes():
    """A stage before that shrinks its data sends little of it."""
    least = 160.0 / watch.FOLLOWER_FACTOR
    for rate, code in ((least, None), (least - 1, codes.TOO_SLOW)):
        watching = make(min_progress_bytes_per_s=160.0)
        progress = watch.Progress(int(60 * rate), follows=True)
        found = watching.look(progress, 60.0)
        assert (found and found[0]) == code
        assert found is None or found[1].startswith("the stage before sent")


def test_idleness_is_counted_from_the_last_input():
    watching = make(idle_timeout_s=10.0)
    assert watching.look(done(5), 8.0) is None
    assert watching.look(done(5), 17.9) is None
    code, message = watching.look(done(5), 18.0)
    assert code == codes.IDLE_TIMEOUT
    assert message == "the client has sent no input for 10 s"


def test_output_that_moves_is_no_idleness():
    watching = make(idle_timeout_s=10.0)
    assert watching.look(watch.Progress(5, 100), 8.0) is None
    assert watching.look(watch.Progress(5, 101), 17.9) is None
    assert watching.look(watch.Progress(5, 101), 27.8) is None
    assert watching.look(watch.Progress(5, 101), 27.9) is not None


def test_a_core_is_given_its_time_from_the_input_on():
    watching = make(idle_timeout_s=10.0)
    assert watching.look(done(0), 9.9) is None
    computing = watch.Progress(0, is_computing=True)
    assert watching.look(computing, 9.95) is None
    assert watching.look(computing, 19.9) is None
    assert watching.look(computing, 19.95)[0] == codes.CORE_FAILED


def test_a_core_that_hangs_is_no_fault_of_the_client():
    watching = make(idle_timeout_s=10.0)
    hanging = watch.Progress(5, 0, "the core had {} for it", True)
    assert watching.look(hanging, 1.0) is None
    assert watching.look(hanging, 11.0) == (
        codes.CORE_FAILED,
        "the core had 10 s for it",
    )


def test_a_lost_connection_is_not_idleness():
    watching = make(idle_timeout_s=10.0)
    watching.resumed(9.0)
    assert watching.look(done(0), 18.9) is None


def test_a_slot_is_not_held_for_ever():
    watching = make(max_hold_s=100.0)
    assert watching.look(done(10**12), 99.0) is None
    assert watching.look(done(10**13), 100.0)[0] == codes.HOLD_TIMEOUT


def test_a_trickle_is_too_slow():
    watching = make(min_progress_bytes_per_s=100.0, progress_period_s=10.0)
    assert watching.look(done(1), 9.0) is None
    assert watching.look(done(1000), 10.0) is None
    assert watching.look(done(1999), 19.0) is None
    code, message = watching.look(done(1999), 20.0)
    assert code == codes.TOO_SLOW
    assert "100" in message


def test_the_claim_is_exceeded_by_the_first_byte_beyond():
    watching = make(claim_limit_bytes=100)
    watching.look(done(100), 1.0)
    assert not watching.beyond_claim()
    watching.look(done(101), 2.0)
    assert watching.beyond_claim()


def test_each_quantum_ends_at_one_border():
    borders = watch.Borders(100)
    reached = [borders.reached(done) for done in (0, 99, 100, 199, 450, 499)]
    assert reached == [False, False, True, False, True, False]
    assert borders.reached(500)
    assert not watch.Borders(0).reached(2**63)


@pytest.fixture
def active():
    machine = state.Machine(0.0, orphan_s=1000.0)
    machine.handle(state.AgentConnected(), 0.0)
    order = state.Order(
        session_id="s",
        generation=1,
        project_id="p",
        accelerator="copy",
        bitstream="builtin:copy",
        connect_timeout_s=30.0,
        resume_grace_s=10.0,
        limits=watch.Limits(idle_timeout_s=1.0, claim_limit_bytes=100),
    )
    machine.handle(state.Assign(order), 0.0)
    machine.handle(state.Programmed(1, "copy"), 0.0)
    machine.handle(state.Attached(1, 0.0), 0.0)
    return machine


def kinds(effects):
    return [type(effect).__name__ for effect in effects]


def test_an_idle_session_expires(active):
    assert active.handle(state.Tick(done(10)), 0.5) == []
    assert active.deadline_s == 0.75
    assert active.handle(state.Tick(done(10)), 1.4) == []
    assert kinds(active.handle(state.Tick(done(10)), 1.65)) == ["Clear"]
    active.handle(state.Scrubbed(1, 10, 10, 5.0, None), 2.0)
    assert active.last_result.state == "EXPIRED"
    assert active.last_result.code == codes.IDLE_TIMEOUT


def test_a_core_that_hangs_fails_the_session(active):
    hanging = watch.Progress(10, is_computing=True)
    active.handle(state.Tick(hanging), 0.5)
    active.handle(state.Tick(hanging), 1.4)
    assert kinds(active.handle(state.Tick(hanging), 1.65)) == ["Clear"]
    active.handle(state.Scrubbed(1, 10, 10, 5.0, None), 2.0)
    assert active.last_result.state == "FAILED"
    assert active.last_result.code == codes.CORE_FAILED


def test_a_claim_exceeded_is_told_once(active):
    assert kinds(active.handle(state.Tick(done(101)), 0.5)) == ["Changed"]
    assert active.beyond_claim
    assert active.handle(state.Tick(done(102)), 1.0) == []
    active.handle(state.Ended(1, "CLOSED", "OK", ""), 1.1)
    active.handle(state.Scrubbed(1, 10, 10, 5.0, None), 1.2)
    assert not active.beyond_claim


def test_a_tick_after_the_end_changes_nothing(active):
    active.handle(state.Ended(1, "CLOSED", "OK", ""), 0.1)
    assert active.handle(state.Tick(done(0)), 50.0) == []
