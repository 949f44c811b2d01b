# SPDX-License-Identifier: Apache-2.0

"""First answers to waiting sessions come true, whatever the strategy."""

from __future__ import annotations

import dataclasses
import functools

import pytest

from fpgapool import strategies
from fpgapool.conductor.decisions.requests import expected_waits
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import state
from fpgapool.core.calendar import promises
from fpgapool.sim.inputs import generating
from fpgapool.sim.inputs import scenario as scenarios
from tests.harness import cases
from tests.harness import wait_replay
from tests.unit.core import pools


@functools.cache
def rush(scale: float = 1.0, load: float = 1.0) -> scenarios.Scenario:
    """Return a rush: for a while, 1.1 times the work that 8 slots can do.

    :param scale: multiplies sizes and times.
    :param load: multiplies the number of arrivals.
    """
    return generating.make_scenario(
        [
            *("--hosts=4", "--boards=4", "--slots-per-device=2"),
            *("--peak-bytes-per-s=copyx=1e8", "--accelerator=copyx"),
            *("--jobs=1500", f"--arrivals-per-s={2.2 * load / scale}"),
            f"--mean-size-bytes={4e8 * scale}",
            f"--min-size-bytes={1e6 * scale}",
            "--wakeups",
        ],
        1,
        "test",
    )


@functools.cache
def scored(
    strategy: str, scale: float = 1.0, load: float = 1.0
) -> wait_replay.Score:
    told = wait_replay.replay(rush(scale, load), strategy)
    return wait_replay.Score.of(told)


@pytest.mark.parametrize(
    "strategy",
    cases.some(
        ("fifo", "sjf", "wa", "wra", "era"),
        # Its order is that of wra, its slots are those of fifo. It takes
        # three times as long as all others together.
        lambda strategy: strategy != "wa",
    ),
)
def test_first_answers_come_true(strategy: str) -> None:
    score = scored(strategy)
    assert score.count > 1000
    assert 0.8 <= score.mean_ratio <= 1.3
    assert score.too_short <= 0.08
    assert score.inside >= 0.85


@pytest.mark.parametrize("strategy", ["wra", "era", "auto"])
def test_first_answers_come_true_while_a_queue_grows(strategy: str) -> None:
    # Most of the sessions that have ended were short ones, which overtook.
    score = scored(strategy, load=2.0)
    assert 0.8 <= score.mean_ratio <= 1.3
    assert score.too_short <= 0.08
    assert score.inside >= 0.85


def test_answers_do_not_depend_on_the_scale() -> None:
    small, large = scored("sjf"), scored("sjf", 475.0)
    assert large.mean_ratio == pytest.approx(small.mean_ratio, rel=0.05)
    assert large.too_short == pytest.approx(small.too_short, abs=0.01)


# -- one slot ------------------------------------------------------------


class _Pool:
    """A pool of one board, and what it expects."""

    def __init__(self, slots: int = 1) -> None:
        self.core = state.PoolState(strategies.fifo({}, 0))
        self.waits = expected_waits.ExpectedWaits(self.core)
        self.now = 0.0
        specs = tuple(
            model.SlotSpec(number, 1, 1, number - 1, "any")
            for number in range(1, slots + 1)
        )
        device = model.DeviceSpec(1, 1, "board0", 1e9, specs)
        host = model.HostSpec(1, "host1", 1e9, (device,))
        accelerator = model.Accelerator("copyx", 100.0)
        self.happen(
            events.AcceleratorsChanged((accelerator,)), events.HostUp(host)
        )

    def happen(self, *happened: events.Event) -> None:
        """Let events happen, and the pool decide."""
        orders = self.core.apply(happened, self.now)
        self.waits.hear(happened, self.now)
        self.waits.obey(orders, self.now)
        self.waits.obey(self.core.step((), self.now), self.now)

    def submit(self, *job_ids: int) -> None:
        """Submit jobs of 10 s."""
        for job_id in job_ids:
            job = model.Job(job_id, None, "copyx", 1000.0, self.now)
            self.happen(events.JobSubmitted(job))

    def serve(self, times: int, each_s: float = 10.0) -> None:
        """Let the job in the slot end after a while, and the next ones."""
        for _ in range(times):
            self.now += each_s
            for slot_id, held in sorted(self.core.assignments().items()):
                self.happen(events.SlotReleased(slot_id, held.generation))

    def remaining(self, job_id: int) -> expected_waits.Wait | None:
        return self.waits.remaining(job_id, self.now)


def _job(
    job_id: int, host_id: int | None = None, accelerator: str = "copyx"
) -> model.Job:
    return model.Job(job_id, host_id, accelerator, 1000.0, 0.0)


@pytest.fixture
def served() -> _Pool:
    """Give a pool that has served 10 jobs, while 10 others wait."""
    pool = _Pool()
    pool.submit(*range(1, 22))
    pool.serve(10)
    return pool


def test_too_little_is_known() -> None:
    pool = _Pool()
    pool.submit(1, 2, 3)
    assert pool.remaining(3) is None
    pool.serve(1)
    assert pool.remaining(3) is None
    assert pool.remaining(99) is None


def test_a_wait_is_the_work_before_it_and_has_a_range(served) -> None:
    for job_id, work_s in ((13, 20.0), (21, 100.0)):
        wait = served.remaining(job_id)
        assert wait is not None
        assert work_s / 2 <= wait.expected_s <= 2 * work_s
        assert wait.low_s < wait.expected_s < wait.high_s
        assert wait.low_s <= work_s <= wait.high_s


def test_a_job_that_is_not_there_waits_as_long_as_one_that_is(served) -> None:
    job = model.Job(50, None, "copyx", 1000.0, served.now)
    predicted = served.waits.of_new(job, served.now)
    served.submit(50)
    assert predicted == served.remaining(50)
    unknown = model.Job(51, None, "nothing", 1000.0, served.now)
    assert served.waits.of_new(unknown, served.now) is None


def test_the_rest_of_a_wait_gets_shorter(served) -> None:
    before = served.remaining(21)
    served.serve(1)
    after = served.remaining(21)
    assert before is not None
    assert after is not None
    assert after.expected_s == pytest.approx(before.expected_s - 10, rel=0.1)


def test_answers_have_two_digits() -> None:
    wait = expected_waits.Wait(123.0, 0.0123, 12345.0)
    assert wait.after(0.0) == expected_waits.Wait(120.0, 0.012, 13000.0)
    assert wait.after(1000.0).expected_s == 0.0


def test_who_leaves_is_no_longer_waited_for(served) -> None:
    before = served.remaining(21)
    for job_id in range(13, 20):
        served.happen(events.JobCancelled(job_id, "CANCELLED_BY_CLIENT"))
    served.submit(22)
    after = served.remaining(22)
    assert before is not None
    assert after is not None
    assert after.expected_s < before.expected_s / 2
    assert served.remaining(13) is None


def test_a_job_whose_slot_failed_waits_again() -> None:
    pool = _Pool()
    pool.submit(1, 2)
    order = instructions.Requeue(1, 1, "PREPARE_FAILED")
    pool.waits.obey([order], pool.now)
    assert pool.waits._waiting.get(1) is not None
    assert not pool.waits._running


def test_a_lost_host_works_no_longer(served) -> None:
    served.happen(events.HostLost(1))
    assert not served.waits._running
    assert served.waits._known(_job(50, host_id=1)).is_local is False


def test_a_slots_first_session_does_not_teach_how_long_others_take() -> None:
    pool = _Pool()
    pool.submit(*range(1, 22))
    pool.serve(1, each_s=1000.0)
    assert pool.waits._held_s == 0.0
    pool.serve(1, each_s=10.0)
    assert pool.waits._held_s == 10.0


def test_slots_of_a_sessions_own_host_are_local(served) -> None:
    known = served.waits._known
    assert known(_job(50, host_id=1)).is_local
    assert not known(_job(51, host_id=2)).is_local
    assert not known(_job(52, host_id=None)).is_local


def test_a_slot_has_the_accelerator_of_its_latest_session(served) -> None:
    other = model.Accelerator("other", 100.0)
    first = model.Accelerator("copyx", 100.0)
    served.happen(events.AcceleratorsChanged((first, other)))
    assert served.waits._ready == {"copyx": 1}
    served.serve(10)
    served.happen(events.JobSubmitted(_job(50, accelerator="other")))
    served.serve(2)
    assert +served.waits._ready == {"other": 1}
    served.happen(events.HostLost(1))
    assert not +served.waits._ready


@pytest.mark.parametrize(
    "event",
    [
        events.SlotFaulty(1, "broken"),
        events.DeviceFailed(1, "broken"),
        events.DeviceDisabled(1),
    ],
    ids=lambda event: type(event).__name__,
)
def test_a_slot_out_of_use_has_no_accelerator(served, event) -> None:
    assert +served.waits._ready == {"copyx": 1}
    served.happen(event)
    assert not +served.waits._ready


def test_slots_from_before_a_takeover_work_but_do_not_teach() -> None:
    pool = _Pool()
    job = model.Job(1, None, "copyx", 1000.0, 0.0)
    restored = events.AssignmentRestored(
        job=job,
        slot_id=1,
        generation=1,
        phase=model.Phase.ACTIVE,
        host_id=1,
        device_id=1,
    )
    pool.waits.hear([restored], 0.0)
    assert 1 in pool.waits._running
    pool.waits.hear([events.SlotReleased(1, 1)], 5.0)
    assert pool.waits._held_s == 0.0


def test_sessions_that_start_in_one_instant_say_nothing_of_waits() -> None:
    """As many can start in one batch."""
    pool = _Pool()
    for job_id in (1, 2):
        pool.submit(job_id)
        pool.serve(1)
    pool.submit(*range(3, 22))
    pool.serve(10, each_s=0.0)
    assert pool.remaining(21) is None
    pool.now += 10.0
    assert pool.remaining(21) is not None


def test_all_jobs_of_a_set_wait_and_run() -> None:
    pool = pools.make_pool(pools.make_host(1))
    waits = expected_waits.ExpectedWaits(pool.state)
    together = model.Together("one", 2)
    for job_id, waiting in ((1, [1]), (2, [])):
        event = events.JobSubmitted(pools.make_job(job_id, together=together))
        pool.state.apply([event], 0.0)
        waits.hear([event], 0.0)
        assert waits._waiting.get(job_id)
        waits.obey(pool.step(), 0.0)
        assert [i for i in (1, 2) if waits._waiting.get(i)] == waiting
    assert len(waits._running) == 2


# -- reservations by calendar --------------------------------------------


def test_work_takes_longer_once_slots_are_reserved() -> None:
    pool = _Pool(slots=2)
    pool.submit(*range(1, 42))
    pool.serve(10)
    again = pool.waits.of_new(_job(99), pool.now)
    assert again is not None
    # One of two slots from the moment on, then: half of it is done before.
    for start_in_s, factor in ((0.0, 2.0), (again.expected_s / 2, 1.5)):
        start_s = pool.now + start_in_s
        pool.happen(events.CalendarChanged((), ((2, start_s),)))
        found = pool.waits.of_new(_job(99), pool.now)
        assert found is not None
        assert found.expected_s == pytest.approx(
            factor * again.expected_s, rel=0.1
        )
    # With no slot left, nobody knows.
    pool.happen(events.CalendarChanged((), ((1, pool.now), (2, pool.now))))
    assert pool.waits.of_new(_job(99), pool.now) is None


def test_who_waits_for_the_end_of_a_reservation_knows_no_wait(
    served: _Pool,
) -> None:
    owner = promises.owner_of("p", "copyx")
    served.happen(events.CalendarChanged(((1, owner),)))
    other = _job(99)
    assert served.waits.of_new(other, served.now) is None
    own = dataclasses.replace(other, project="p")
    assert served.waits.of_new(own, served.now) is not None
    served.happen(events.CalendarChanged())
    assert served.waits.of_new(other, served.now) is not None
