# SPDX-License-Identifier: Apache-2.0

"""Jobs that end with their deadlines."""

import pytest

from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.core import pools

# 100 MB at 1 GB/s.
LEAST_S = 0.1


@pytest.fixture
def pool() -> pools.Pool:
    """A pool with one slot."""
    return pools.make_pool(pools.make_host(1, slot_count=1))


def ends(
    output: list[instructions.Instruction],
) -> list[tuple[type, int, str]]:
    """The jobs that end with their deadlines, in or without a slot."""
    found: list[tuple[type, int, str]] = []
    for one in output:
        if isinstance(one, instructions.Revoke):
            found.append((instructions.Revoke, one.job_id, one.reason))
        elif isinstance(one, instructions.Reject):
            found.append((instructions.Reject, one.job_id, one.code))
    return found


def serve(pool: pools.Pool, job_id: int, **members: object) -> None:
    """Give the slot to a job, whose client connects."""
    pool.submit(pools.make_job(job_id, **members))
    pool.hear(events.SlotReady, 10)
    pool.hear(events.HolderAttached, 10)


REJECTED = (instructions.Reject, 2, codes.DEADLINE_PASSED)
REVOKED = (instructions.Revoke, 1, codes.DEADLINE_PASSED)


@pytest.mark.parametrize(
    ("action", "lost_at_s"),
    [(states.KILL, 5.0), (states.EARLY, 5.0 - LEAST_S)],
)
def test_a_waiting_job_ends(
    pool: pools.Pool, action: str, lost_at_s: float
) -> None:
    serve(pool, 1)
    output = pool.submit(
        pools.make_job(2, deadline_s=5.0, deadline_action=action)
    )
    (wake,) = (one for one in output if type(one) is instructions.WakeAt)
    assert wake.time_s == pytest.approx(lost_at_s, abs=1e-5)
    assert not ends(pool.step(events.Wake(), now=wake.time_s - 1e-3))
    assert ends(pool.step(events.Wake(), now=wake.time_s)) == [REJECTED]
    assert not pool.state.waiting()


def test_a_job_goes_on_if_it_may(pool: pools.Pool) -> None:
    serve(pool, 1, deadline_s=5.0)
    pool.submit(pools.make_job(2, deadline_s=5.0))
    assert not ends(pool.step(events.Wake(), now=10.0))
    assert [job.id for job in pool.state.waiting()] == [2]


def test_a_job_loses_its_slot_inside_a_chunk(pool: pools.Pool) -> None:
    serve(pool, 1, deadline_s=5.0, deadline_action=states.KILL)
    assert not ends(pool.step(events.Wake(), now=4.999))
    assert ends(pool.step(events.Wake(), now=5.0)) == [REVOKED]
    assert not ends(pool.step(events.Wake(), now=6.0)), "told once"
    pool.submit(pools.make_job(2))
    assert pools.taken(pool.hear(events.SlotReleased, 10)) == [(2, 10)]


def test_a_job_whose_slot_is_not_used_yet_ends_at_once(
    pool: pools.Pool,
) -> None:
    pool.submit(
        pools.make_job(2, deadline_s=5.0, deadline_action=states.KILL),
        pools.make_job(3),
    )
    output = pool.step(events.Wake(), now=5.0)
    assert ends(output) == [REJECTED]
    assert pools.taken(output) == [(3, 10)]


@pytest.mark.parametrize(
    ("done_bytes", "is_lost"), [(50_000_000, False), (49_000_000, True)]
)
def test_progress_tells_early_whether_a_deadline_can_be_kept(
    pool: pools.Pool, done_bytes: int, is_lost: bool
) -> None:
    serve(pool, 1, deadline_s=5.0, deadline_action=states.EARLY)
    # Up to then it may have been as fast as it can.
    assert not ends(pool.step(events.Wake(), now=4.95))
    output = pool.hear(events.Progress, 10, done_bytes, 1e9)
    assert ends(output) == ([REVOKED] if is_lost else [])
    assert ends(pool.step(events.Wake(), now=5.0)) == (
        [] if is_lost else [REVOKED]
    )


def test_the_fastest_shape_decides_how_early_it_is_lost() -> None:
    aes = pools.model.Accelerator(
        name="aes", peak_bytes_per_s=1e9, peaks_bytes_per_s={"large": 2e9}
    )
    pool = pools.make_pool(pools.make_host(1, slot_count=1, shape="large"))
    pool.step(events.AcceleratorsChanged((aes, pools.FFT)))
    serve(pool, 1)
    pool.submit(
        pools.make_job(2, deadline_s=5.0, deadline_action=states.EARLY)
    )
    assert not ends(pool.step(events.Wake(), now=5.0 - LEAST_S / 2))
    assert ends(pool.step(events.Wake(), now=5.0 - LEAST_S / 2 + 1e-3)) == [
        REJECTED
    ]


def test_a_job_that_ended_or_was_cancelled_is_forgotten(
    pool: pools.Pool,
) -> None:
    serve(pool, 1, deadline_s=5.0, deadline_action=states.KILL)
    pool.submit(pools.make_job(2, deadline_s=6.0, deadline_action=states.KILL))
    pool.step(events.JobCancelled(2, codes.CANCELLED_BY_CLIENT))
    pool.hear(events.SlotReleased, 10)
    assert not ends(pool.step(events.Wake(), now=10.0))


def test_a_restored_job_ends_with_its_deadline() -> None:
    pool = pools.make_pool()
    job = pools.make_job(1, deadline_s=5.0, deadline_action=states.KILL)
    pool.step(
        events.AssignmentRestored(job, 10, 7, pools.model.Phase.ACTIVE),
        events.HostUp(pools.make_host(1)),
    )
    assert ends(pool.step(events.Wake(), now=5.0)) == [REVOKED]


@pytest.fixture
def slow_pool() -> pools.Pool:
    """A pool with two slots, each of which takes 2 s to program."""
    return pools.make_pool(
        pools.make_host(1, shape="large", programming_time_s=2.0)
    )


def early(
    job_id: int, deadline_s: float, **members: object
) -> pools.model.Job:
    return pools.make_job(
        job_id,
        deadline_s=deadline_s,
        deadline_action=states.EARLY,
        **members,
    )


def test_a_waiting_job_is_lost_earlier_if_a_slot_must_be_programmed(
    slow_pool: pools.Pool,
) -> None:
    slow_pool.submit(pools.make_job(11), pools.make_job(12))
    slow_pool.submit(early(2, 5.0), early(3, 5.0, accelerator="fft"))
    lost = (instructions.Reject, 3, codes.DEADLINE_PASSED)
    assert not ends(slow_pool.step(events.Wake(), now=2.9 - 1e-3))
    assert ends(slow_pool.step(events.Wake(), now=2.9 + 1e-3)) == [lost]
    assert not ends(slow_pool.step(events.Wake(), now=4.9 - 1e-3))
    assert ends(slow_pool.step(events.Wake(), now=4.9 + 1e-3)) == [REJECTED]


def test_a_slot_that_is_still_programmed_does_not_keep_a_deadline(
    slow_pool: pools.Pool,
) -> None:
    slow_pool.submit(pools.make_job(11), pools.make_job(12, accelerator="fft"))
    slow_pool.submit(early(2, 5.0))
    slow_pool.step(events.Wake(), now=4.0)
    assert pools.taken(slow_pool.hear(events.SlotReleased, 11)) == [(2, 11)]
    assert ends(slow_pool.step(events.Wake(), now=4.9 + 1e-3)) == [REJECTED]


def test_a_job_whose_slot_is_ready_too_late_ends_at_once(
    slow_pool: pools.Pool,
) -> None:
    slow_pool.submit(early(2, 5.0))
    assert not ends(slow_pool.step(events.Wake(), now=4.95))
    assert ends(slow_pool.hear(events.SlotReady, 10)) == [REJECTED]
