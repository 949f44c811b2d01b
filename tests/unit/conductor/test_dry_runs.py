# SPDX-License-Identifier: Apache-2.0

"""Dry runs: what would become of a request, and nothing changes."""

import contextlib
import pickle
import threading

import oslo_messaging as messaging
import pytest

from fpgapool import objects
from fpgapool import strategies
from fpgapool.common import exception
from fpgapool.conductor import rpc as conductor_rpc
from fpgapool.conductor.decisions.requests import admission
from fpgapool.conductor.runtime import dry_runs
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import pumps
from tests.unit.conductor import world


def ask(pool: world.Conductor, **wanted: object) -> objects.DryRun:
    """Ask what would become of a request; nothing changes."""
    before = _known(pool)
    found = pool.ask.opening.dry_run(
        world.request(request_id="dry", **wanted)
    )()
    assert _known(pool) == before
    left = pool.memory.take_effects()
    for part in (left.at_once, left.after_commit, left.admissions):
        assert not part
    assert not left.changes
    return found


def _known(pool: world.Conductor) -> tuple[object, ...]:
    memory = pool.memory
    return (
        pickle.dumps(memory.core),
        memory.sessions.last_row_id,
        memory.link.wake_at,
        dict(memory.sessions.by_id),
        dict(memory.sessions.queued),
        memory.counts.opened,
        dict(memory.counts.refused),
        {name: dict(rows) for name, rows in pool.rows.items()},
        list(pool.wire),
    )


def test_it_would_have_a_slot_at_once(single):
    found = ask(single)
    assert found == objects.DryRun(
        state=states.PREPARING,
        expected_wait_s=0.0,
        expected_wait_low_s=0.0,
        expected_wait_high_s=0.0,
    )
    assert single.view(single.open()).state == states.PREPARING


def test_it_would_wait_and_says_why(single):
    single.open()
    found = ask(single)
    assert found == objects.DryRun(
        state=states.QUEUED, reasons=(codes.NO_IDLE_SLOT,)
    )
    assert single.view(single.open()).pending_reasons == found.reasons


def test_the_expected_wait_is_that_of_a_session(single):
    for _ in range(8):
        single.open()
    for _ in range(6):
        single.now += 10.0
        single.deliver_all()
        single.feed(single.agents["a"].prepared(0))
        single.end(states.CLOSED, codes.OK)
    found = ask(single)
    assert found.expected_wait_s is not None
    view = single.view(single.open())
    assert view.queue_position == 1
    for part in ("", "_low", "_high"):
        name = f"expected_wait{part}_s"
        assert getattr(found, name) == getattr(view, name)


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ({"accelerator": "none"}, codes.UNKNOWN_ACCELERATOR),
        ({"claimed_bytes": 0}, codes.INVALID_SIZE),
        ({"claimed_bytes": 2**60}, codes.SIZE_TOO_LARGE),
        ({"host_uuid": "nowhere"}, codes.UNKNOWN_HOST),
        ({"deadline_s": 1e-9}, codes.DEADLINE_IMPOSSIBLE),
    ],
)
def test_it_would_be_refused_with_the_same_code(single, wanted, code):
    found = ask(single, **wanted)
    assert (found.state, found.reasons) == (states.REJECTED, (code,))
    assert found.expected_wait_s is None
    view = single.view_or_none(single.open(**wanted))
    assert view is None or view.reason == code
    assert single.counts.refused[code] == 1


def test_quotas_and_a_full_queue_count(single):
    single.settings = admission.PoolLimits(
        default_quota=admission.ProjectQuota(queued=1), max_queued_sessions=2
    )
    single.boot_conductor()
    single.report("a")
    _, waits, _ = (single.open(project_id=one) for one in ("p", "p", "q"))
    assert ask(single, project_id="p").reasons == (codes.QUEUE_FULL,)
    single.cancel(waits)
    assert ask(single, project_id="q").reasons == (codes.QUOTA_EXCEEDED,)


def test_it_is_refused_while_requests_cannot_be_recorded(single):
    single.memory.outages.database_failing = True
    assert ask(single).reasons == (codes.DATABASE_UNAVAILABLE,)


def test_a_strategy_that_cannot_be_copied_has_a_code(single):
    def make() -> object:
        made = strategies.fifo({}, 0)
        made.lock = threading.Lock()
        return made

    single.make_strategy = make
    single.boot_conductor()
    with pytest.raises(exception.DryRunUnsupported, match="lock") as caught:
        single.ask.opening.dry_run(world.request())
    assert caught.value.code == codes.DRY_RUN_UNSUPPORTED


# -- the call ----------------------------------------------------------------


@pytest.fixture
def endpoint(single):
    pump = pumps.AnsweringPump(single.ask)
    return conductor_rpc.ConductorManager(pump, pumps.FakeDatabase(), 40)


def test_the_call_answers(endpoint):
    found = endpoint.dry_run(None, world.request().to_primitive())
    assert objects.DryRun.from_primitive(found).state == states.PREPARING


@pytest.mark.parametrize("junk", [None, 7, [], {}, {"a": 1}])
def test_a_malformed_call_is_refused(endpoint, junk):
    with pytest.raises(messaging.ExpectedException) as caught:
        endpoint.dry_run(None, junk)
    assert isinstance(caught.value.exc_info[1], exception.InvalidRequest)


# -- limits ------------------------------------------------------------------


class _Clocks:
    """Time, and the processor's time, in seconds."""

    def __init__(self) -> None:
        self.now_s = self.busy_s = 0.0
        self.limits = dry_runs.DryRuns(lambda: self.now_s, lambda: self.busy_s)

    def run(self, project_id: str, busy_s: float) -> None:
        with self.limits.turn(project_id) as count:
            # Waiting is not counted.
            self.busy_s += 100.0
            with count():
                self.busy_s += busy_s / 2
            with count():
                self.busy_s += busy_s / 2


def test_dry_runs_take_a_small_share_of_the_time():
    clocks, done = _Clocks(), 0
    # Four projects that ask all the time, for 1000 s.
    for tick in range(10_000):
        clocks.now_s = tick / 10
        for project_id in "abcd":
            with contextlib.suppress(exception.Overloaded):
                clocks.run(project_id, 0.25)
                done += 1
    limit_s = 1000 * dry_runs.SHARE + dry_runs.BURST_S
    assert limit_s - 1 <= done * 0.25 <= limit_s + 0.25


def test_a_project_leaves_half_of_the_time_to_others():
    clocks = _Clocks()
    clocks.run("a", dry_runs.BURST_S / 2)
    with pytest.raises(exception.Overloaded, match="too many dry runs") as e:
        clocks.run("a", 0.0)
    assert e.value.code == codes.RATE_LIMITED
    clocks.run("b", dry_runs.BURST_S / 2)
    with pytest.raises(exception.Overloaded):
        clocks.run("c", 0.0)
    clocks.now_s += 1.0
    for project_id in "abc":
        clocks.run(project_id, 0.0)


def test_projects_are_forgotten_when_their_time_has_come_back():
    clocks = _Clocks()
    for number in range(100):
        clocks.run(f"p{number}", 0.001)
        clocks.now_s += 1.0
    assert len(clocks.limits._of_projects) < 3


def test_an_expensive_dry_run_is_paid_for_afterwards():
    clocks = _Clocks()
    clocks.run("a", 5.0)
    clocks.now_s += 0.9 * (5.0 - dry_runs.BURST_S) / dry_runs.SHARE
    with pytest.raises(exception.Overloaded):
        clocks.run("b", 0.0)
    clocks.now_s += 0.11 * (5.0 - dry_runs.BURST_S) / dry_runs.SHARE
    clocks.run("b", 0.0)


def test_a_failure_is_counted_and_frees_the_turn():
    clocks = _Clocks()
    with contextlib.suppress(KeyError), clocks.limits.turn("a") as count:
        with count():
            clocks.busy_s += 5.0
            raise KeyError
    with pytest.raises(exception.Overloaded, match="too many"):
        clocks.run("a", 0.0)


def test_one_works_at_a_time(monkeypatch):
    monkeypatch.setattr(dry_runs, "_PATIENCE_S", 0.0)
    clocks = _Clocks()
    with (
        clocks.limits.turn("a"),
        pytest.raises(exception.Overloaded, match="in progress"),
    ):
        clocks.run("b", 0.0)
    clocks.run("b", 0.0)
