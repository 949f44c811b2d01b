# SPDX-License-Identifier: Apache-2.0

"""Sets of sessions: all slots or none."""

import dataclasses
import typing

import pytest

from fpgapool import strategies
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import what_if
from fpgapool.core.calendar import promises
from fpgapool.core.queues import sharing
from fpgapool.core.rules import session_sets
from fpgapool.strategies import shared
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.core import pools


def submit_set(
    pool: pools.Pool,
    *job_ids: int,
    placement: str | None = None,
    now: float | None = None,
    **members: typing.Any,
) -> list[instructions.Instruction]:
    """Submit a set of aes jobs."""
    return submit(
        pool,
        *(pools.make_job(i, **members) for i in job_ids),
        placement=placement,
        now=now,
    )


def submit(
    pool: pools.Pool,
    *jobs: model.Job,
    placement: str | None = None,
    now: float | None = None,
) -> list[instructions.Instruction]:
    """Submit jobs as one set."""
    together = model.Together(f"set{jobs[0].id}", len(jobs), placement)
    return pool.submit(
        *(dataclasses.replace(job, together=together) for job in jobs),
        now=now,
    )


def release(
    pool: pools.Pool, *slot_ids: int
) -> list[instructions.Instruction]:
    """Release slots at once."""
    return pool.step(
        *(
            events.SlotReleased(slot_id, pool.generation(slot_id))
            for slot_id in slot_ids
        )
    )


def use(pool: pools.Pool, *slot_ids: int) -> None:
    """Connect the clients of slots."""
    for slot_id in slot_ids:
        pool.hear(events.SlotReady, slot_id)
        pool.hear(events.HolderAttached, slot_id)


def job_ids(output: list[instructions.Instruction]) -> list[int]:
    """Which jobs got slots, in order."""
    return [job_id for job_id, _ in pools.taken(output)]


def revoked(output: list[instructions.Instruction]) -> list[int]:
    """Which slots were revoked."""
    return [o.slot_id for o in output if isinstance(o, instructions.Revoke)]


def granted(output: list[instructions.Instruction]) -> list[int]:
    """Which jobs were granted their slots."""
    return [o.job_id for o in output if isinstance(o, instructions.Grant)]


def test_idle_slots() -> None:
    pool = pools.make_pool(pools.make_host(1), pools.make_host(2))
    assert sorted(pools.taken(submit_set(pool, 1, 2, 3))) == [
        (1, 10),
        (2, 11),
        (3, 20),
    ]


def test_waits_for_all() -> None:
    pool = pools.make_pool(pools.make_host(1, 3), strategy="fifo")
    pool.submit(pools.make_job(1), pools.make_job(2))
    assert not pools.taken(submit_set(pool, 3, 4, 5))
    assert pool.state.status(5).verdict is model.Verdict.NOT_NOW
    assert pool.state.queue_position(5) == 0
    # The slot that is idle, and the next one, are kept for the set.
    assert not pools.taken(pool.submit(pools.make_job(6)))
    assert not pools.taken(release(pool, 10))
    assert job_ids(release(pool, 11)) == [3, 4, 5]
    assert job_ids(release(pool, 10)) == [6]


def test_its_turn_comes_first() -> None:
    """A set withholds no slot before the strategy gives it one."""
    pool = pools.make_pool(pools.make_host(1, 2), strategy="fifo")
    pool.submit(*map(pools.make_job, (1, 2, 3)))
    submit_set(pool, 4, 5)
    pool.submit(pools.make_job(6))
    assert job_ids(release(pool, 10)) == [3]
    assert pool.state.queue_position(5) == 0
    assert not pools.taken(release(pool, 11))
    assert job_ids(release(pool, 10)) == [4, 5]
    assert job_ids(release(pool, 10)) == [6]


def test_two_sets_take_turns() -> None:
    pool = pools.make_pool(pools.make_host(1, 4), strategy="fifo")
    pool.submit(*map(pools.make_job, (1, 2, 3, 4)))
    submit_set(pool, 11, 12, 13)
    submit_set(pool, 21, 22, 23)
    assert not pools.taken(release(pool, 10))
    assert not pools.taken(release(pool, 11))
    assert job_ids(release(pool, 12)) == [11, 12, 13]
    use(pool, 10, 11, 12)
    assert not pools.taken(release(pool, 10, 11))
    assert job_ids(release(pool, 12)) == [21, 22, 23]


def test_granted_together() -> None:
    pool = pools.make_pool(pools.make_host(1))
    submit_set(pool, 1, 2)
    assert not granted(pool.hear(events.SlotReady, 10))
    assert granted(pool.hear(events.SlotReady, 11)) == [1, 2]
    # From now on, each is on its own.
    pool.hear(events.HolderAttached, 10)
    output = pool.hear(events.PrepareFailed, 11, "X")
    assert [type(order) for order in output] == [instructions.Requeue]
    assert sorted(pool.state.assignments()) == [10]


@pytest.mark.parametrize("ready", [False, True])
def test_one_fails_to_start(ready: bool) -> None:
    pool = pools.make_pool(pools.make_host(1), pools.make_host(2, 1))
    submit_set(pool, 1, 2)
    if ready:
        pool.hear(events.SlotReady, 10)
    output = pool.hear(events.PrepareFailed, 11, "X")
    assert [
        (o.job_id, o.reason)
        for o in output
        if isinstance(o, instructions.Requeue)
    ] == [(1, codes.SET_INCOMPLETE), (2, "X")]
    # Together again, without the slot that failed.
    assert sorted(pools.taken(output)) == [(1, 10), (2, 20)]


def test_host_lost_before_start() -> None:
    pool = pools.make_pool(pools.make_host(1, 1), pools.make_host(2, 1))
    submit_set(pool, 1, 2)
    assert not pools.taken(pool.step(events.HostLost(2)))
    assert not pool.state.assignments()
    # The idle slot is of no use to the set now.
    assert job_ids(pool.submit(pools.make_job(3))) == [3]
    release(pool, 10)
    back = pool.step(events.HostUp(pools.make_host(2, 1)))
    assert sorted(job_ids(back)) == [1, 2]


def test_who_gave_slots_back_comes_first() -> None:
    pool = pools.make_pool(
        pools.make_host(1), pools.make_host(2, 1), strategy="fifo"
    )
    assert job_ids(submit_set(pool, 1, 2)) == [1, 2]
    submit_set(pool, 3, 4)
    pool.step(events.HostLost(1))
    output = pool.step(events.HostUp(pools.make_host(1)))
    assert job_ids(output) == [1, 2]
    assert pool.state.queue_position(4) == 0


@pytest.mark.parametrize(
    "loss",
    [
        events.HostLost(1),
        events.DrainRequested(1, 0.0),
        events.ReservationsChanged(((1, (("vm", 2),)),)),
    ],
)
def test_loses_several_slots_before_start(loss: events.Event) -> None:
    pool = pools.make_pool(
        pools.make_host(1), pools.make_host(2, 1), pools.make_host(3, 3)
    )
    pool.step(events.DeviceDisabled(3))
    submit_set(pool, 1, 2, 3)
    output = pool.step(loss)
    lost = [o.job_id for o in output if isinstance(o, instructions.Requeue)]
    assert lost == [1, 2, 3]
    assert not pools.taken(output)
    assert job_ids(pool.step(events.DeviceEnabled(3))) == [1, 2, 3]


def two_boards() -> pools.Pool:
    return pools.make_pool(
        pools.make_host(1), pools.make_host(2), strategy="fifo"
    )


def test_same_board() -> None:
    pool = two_boards()
    pool.submit(*map(pools.make_job, (1, 2, 3, 4)))
    submit_set(pool, 5, 6, placement=states.SAME_BOARD)
    assert not pools.taken(release(pool, 20))
    # Slots of the other board are for others.
    pool.submit(pools.make_job(7))
    assert job_ids(release(pool, 10)) == [7]
    assert pools.taken(release(pool, 21)) == [(5, 20), (6, 21)]


def test_one_set_collects_at_a_time() -> None:
    pool = two_boards()
    pool.submit(*map(pools.make_job, (1, 2, 3, 4)))
    submit_set(pool, 5, 6, placement=states.SAME_BOARD)
    submit_set(pool, 7, 8, placement=states.SAME_BOARD)
    pool.submit(pools.make_job(9))
    assert not pools.taken(release(pool, 20))
    assert job_ids(release(pool, 10)) == [9]
    assert pool.state.queue_position(8) == 1
    assert pools.taken(release(pool, 21)) == [(5, 20), (6, 21)]
    assert not pools.taken(release(pool, 10))
    assert pools.taken(release(pool, 11)) == [(7, 10), (8, 11)]


def test_no_slot_of_a_board_that_is_too_small() -> None:
    pool = pools.make_pool(
        pools.make_host(1, 1), pools.make_host(2), strategy="fifo"
    )
    pool.submit(*map(pools.make_job, (1, 2, 3)))
    submit_set(pool, 5, 6, placement=states.SAME_BOARD)
    pool.submit(pools.make_job(9))
    assert job_ids(release(pool, 10)) == [9]
    assert not pools.taken(release(pool, 20))
    assert job_ids(release(pool, 21)) == [5, 6]


def test_spread() -> None:
    pool = two_boards()
    pool.submit(pools.make_job(1), pools.make_job(2))
    assert not pools.taken(submit_set(pool, 5, 6, placement=states.SPREAD))
    assert pools.taken(release(pool, 10)) == [(5, 10), (6, 20)]


@pytest.mark.parametrize(
    ("names", "placement", "can"),
    [
        (["aes", "aes", "aes"], states.SAME_BOARD, False),
        (["aes", "aes"], states.SAME_BOARD, True),
        (["aes", "fft"], states.SAME_HOST, True),
        (["aes", "fft"], states.SPREAD, True),
        (["fft", "fft"], states.SPREAD, False),
        (["fft", "fft", "aes", "aes"], None, True),
        (["fft", "fft", "fft"], None, False),
        (["aes"] * 5, None, False),
    ],
)
def test_could_hold(names: list[str], placement: str, can: bool) -> None:
    pool = pools.make_pool(
        pools.make_host(1, 2), pools.make_host(2, 2, "large")
    )
    output = submit(
        pool,
        *(pools.make_job(n, accelerator=one) for n, one in enumerate(names)),
        placement=placement,
    )
    assert len(pools.taken(output)) == (len(names) if can else 0)
    rejected = [o for o in output if isinstance(o, instructions.Reject)]
    assert len(rejected) == (0 if can else len(names))
    assert {o.code for o in rejected} <= {codes.SET_IMPOSSIBLE}


def test_mixed_accelerators() -> None:
    """The set leaves the large slot to the job that needs it."""
    pool = pools.make_pool(
        pools.make_host(1, 1, "large"), pools.make_host(2, 1)
    )
    jobs = (pools.make_job(1), pools.make_job(2, accelerator="fft"))
    output = submit(pool, *jobs)
    assert sorted(pools.taken(output)) == [(1, 20), (2, 10)]


def rejections(
    output: list[instructions.Instruction],
) -> list[tuple[int, str]]:
    """Which jobs were rejected, and why."""
    return [
        (order.job_id, order.code)
        for order in output
        if isinstance(order, instructions.Reject)
    ]


@pytest.mark.parametrize("strategy", ["fifo", "ra", "wra", "era", "auto"])
def test_cancel_one_waiting(strategy: str) -> None:
    factory = getattr(strategies, strategy)
    pool = pools.make_pool_of(factory({}, 0), pools.make_host(1))
    pool.submit(pools.make_job(1, 1))
    submit_set(pool, 2, 3, host_id=1)
    pool.submit(pools.make_job(4, 1))
    output = pool.step(events.JobCancelled(3, "X"))
    assert rejections(output) == [(2, codes.SET_INCOMPLETE)]
    assert job_ids(output) == [4]
    assert pool.state.status(2).verdict is model.Verdict.NEVER


@pytest.mark.parametrize("ready", [False, True])
def test_cancel_one_starting(ready: bool) -> None:
    pool = pools.make_pool(pools.make_host(1))
    submit_set(pool, 1, 2)
    if ready:
        pool.hear(events.SlotReady, 10)
    output = pool.step(events.JobCancelled(2, "X"))
    assert revoked(output) == [11]
    assert rejections(output) == [(1, codes.SET_INCOMPLETE)]
    assert sorted(pool.state.assignments()) == [11]


def test_incomplete() -> None:
    """A set whose sessions are not all opened in time is rejected."""
    pool = pools.make_pool(pools.make_host(1))
    together = model.Together("one", 2)
    output = pool.submit(pools.make_job(1, together=together))
    assert output == [instructions.WakeAt(session_sets.GATHER_S)]
    assert pool.state.status(1).reasons == (codes.SET_WAITS,)
    assert pool.state.queue_position(1) == 0
    output = pool.step(events.Wake(), now=session_sets.GATHER_S)
    assert rejections(output) == [(1, codes.SET_INCOMPLETE)]


def test_other_size() -> None:
    pool = pools.make_pool(pools.make_host(1))
    pool.submit(pools.make_job(1, together=model.Together("one", 2)))
    output = pool.submit(
        pools.make_job(2, together=model.Together("one", 3)),
        pools.make_job(3, project="b", together=model.Together("one", 2)),
    )
    assert rejections(output) == [(2, codes.INVALID_SET)]
    assert pool.state.sets.to_come == {"": 1, "b": 1}
    output = pool.submit(pools.make_job(4, together=model.Together("one", 2)))
    assert job_ids(output) == [1, 4]
    # It has all its sessions, until it has started.
    output = pool.submit(pools.make_job(5, together=model.Together("one", 2)))
    assert rejections(output) == [(5, codes.INVALID_SET)]
    assert pool.state.sets.to_come == {"b": 1}


def test_restored_while_it_starts() -> None:
    """A new leader grants the slots of a set together, or none."""
    pool = pools.make_pool(pools.make_host(1), pools.make_host(2, 1))
    together = model.Together("one", 2)
    pool.step(
        *(
            events.AssignmentRestored(
                pools.make_job(job_id, together=together),
                slot_id,
                generation,
                model.Phase.PREPARING,
                host_id=1,
                device_id=1,
            )
            for job_id, slot_id, generation in ((1, 10, 7), (2, 11, 8))
        )
    )
    assert not granted(pool.hear(events.SlotReady, 10))
    output = pool.hear(events.PrepareFailed, 11, "X")
    assert sorted(pools.taken(output)) == [(1, 10), (2, 20)]
    pool.hear(events.SlotReady, 10)
    assert granted(pool.hear(events.SlotReady, 20)) == [1, 2]
    assert not pool.state.sets.to_come


def test_deadline_counts_from_the_start() -> None:
    """A set waits for its slots whatever its sessions' deadlines are."""
    pool = pools.make_pool(pools.make_host(1))
    submit_set(pool, 1, 2, deadline_s=50.0)
    assert pool.state.view.record(1).job.deadline_s is None
    pool.hear(events.SlotReady, 10)
    pool.hear(events.SlotReady, 11)
    job = pool.state.view.record(1).job
    assert (job.deadline_s, job.together) == (50.0, None)


def lowered(pool: pools.Pool, limit: int) -> list[instructions.Instruction]:
    return pool.step(events.SessionLimitsChanged(None, (("a", limit),)))


def shared_pool() -> pools.Pool:
    inner = strategies.fifo({}, 0)
    return pools.make_pool_of(
        shared.SharedStrategy(inner, sharing.ShareOptions(fair=False), 50.0),
        pools.make_host(1, 3),
    )


def test_limit_is_lowered_below_its_size() -> None:
    pool = shared_pool()
    lowered(pool, 3)
    pool.submit(pools.make_job(1, project="a"))
    assert not pools.taken(submit_set(pool, 2, 3, 4, project="a"))
    output = lowered(pool, 2)
    assert rejections(output) == [
        (job_id, codes.SET_IMPOSSIBLE) for job_id in (2, 3, 4)
    ]
    assert job_ids(pool.submit(pools.make_job(5, project="a"))) == [5]


@pytest.mark.parametrize("turn", [model.Turn.LAST, model.Turn.NEVER])
def test_a_set_waits_for_its_projects_turn(turn: model.Turn) -> None:
    pool = shared_pool()
    pool.submit(pools.make_job(1, project="b"), pools.make_job(2, project="b"))
    submit_set(pool, 3, 4, project="a")
    pool.step(events.TurnChanged("a", turn))
    # It is due, but withholds nothing from projects whose turn it is.
    assert job_ids(pool.submit(pools.make_job(5, project="b"))) == [5]
    output = release(pool, 10, 11)
    if turn is model.Turn.LAST:
        assert job_ids(output) == [3, 4]
        return
    assert not pools.taken(output)
    output = pool.step(events.TurnChanged("a", model.Turn.NORMAL))
    assert job_ids(output) == [3, 4]


def test_sets_come_before_others_that_are_served_last() -> None:
    pool = shared_pool()
    pool.step(events.TurnChanged("a", model.Turn.LAST))
    pool.submit(pools.make_job(1, project="b"), pools.make_job(2, project="b"))
    assert not pools.taken(submit_set(pool, 3, 4, project="a"))
    assert not pools.taken(pool.submit(pools.make_job(5, project="a")))
    assert job_ids(release(pool, 10)) == [3, 4]


def test_restored_before_hosts() -> None:
    """A new leader does not check the pool while no host is up."""
    pool = pools.make_pool()
    together = model.Together("one", 2)
    for job_id in (1, 2):
        job = pools.make_job(job_id, together=together)
        assert not rejections(
            pool.step(events.JobSubmitted(job, is_known=True))
        )
    output = pool.step(events.HostUp(pools.make_host(1)))
    assert job_ids(output) == [1, 2]


@pytest.mark.parametrize("due", [False, True])
def test_wait_timeout(due: bool) -> None:
    pool = pools.make_pool(pools.make_host(1), strategy="fifo")
    pool.submit(pools.make_job(1), *[pools.make_job(2)][due:])
    output = submit_set(pool, 3, 4, wait_timeout_s=9.0)
    assert instructions.WakeAt(9.0) in output or due
    pool.submit(pools.make_job(5))
    output = pool.step(events.Wake(), now=9.0)
    rejected = [o for o in output if isinstance(o, instructions.Reject)]
    assert [(o.job_id, o.code) for o in rejected] == [
        (3, codes.WAIT_TIMEOUT),
        (4, codes.WAIT_TIMEOUT),
    ]
    # What was withheld is free at once.
    assert job_ids(output) == ([5] if due else [])


@pytest.mark.parametrize(
    "bad", [{"accelerator": "none"}, {"claimed_bytes": 0.0}]
)
def test_bad_job(bad: dict[str, typing.Any]) -> None:
    pool = pools.make_pool(pools.make_host(1))
    jobs = (pools.make_job(1), pools.make_job(2, **bad))
    output = submit(pool, *jobs)
    assert [job_id for job_id, _ in rejections(output)] == [2]
    assert not pools.taken(output)
    output = pool.step(events.JobCancelled(1, "X"))
    assert not pool.state._sets.of_job


def test_accelerator_vanishes() -> None:
    pool = pools.make_pool(pools.make_host(1))
    pool.submit(pools.make_job(1))
    submit_set(pool, 2, 3)
    output = pool.step(events.AcceleratorsChanged((pools.FFT,)))
    assert sorted(
        o.job_id for o in output if isinstance(o, instructions.Reject)
    ) == [2, 3]


def test_project_limit() -> None:
    inner = strategies.fifo({}, 0)
    pool = pools.make_pool_of(
        shared.SharedStrategy(inner, sharing.ShareOptions(fair=False), 50.0),
        pools.make_host(1, 4),
    )
    pool.step(events.SessionLimitsChanged(None, (("a", 2),)))
    pool.submit(pools.make_job(1, project="a"))
    assert not pools.taken(submit_set(pool, 2, 3, project="a"))
    # It withholds nothing that it may not have.
    assert job_ids(pool.submit(pools.make_job(4, project="b"))) == [4]
    # Its project's other jobs wait for it.
    assert not pools.taken(pool.submit(pools.make_job(8, project="a")))
    assert job_ids(release(pool, 10)) == [2, 3]
    use(pool, 10, 12)
    assert job_ids(release(pool, 10)) == [8]
    # After the end of a set that waits, they go on.
    release(pool, 10)
    submit_set(pool, 11, 12, project="a")
    assert not pools.taken(pool.submit(pools.make_job(13, project="a")))
    output = pool.step(events.JobCancelled(12, "X"))
    assert job_ids(output) == [13]
    output = submit_set(pool, 5, 6, 7, project="a")
    assert {code for _, code in rejections(output)} == {codes.SET_IMPOSSIBLE}


def test_a_project_with_many_sets_does_not_delay_those_of_others() -> None:
    """One of another project is considered, however many wait before it."""
    pool = pools.make_pool_of(
        shared.SharedStrategy(
            strategies.fifo({}, 0), sharing.ShareOptions(fair=False), 50.0
        ),
        *(pools.make_host(number, 3) for number in range(1, 5)),
    )
    submit_set(pool, 1, 2, 3, 4, placement=states.SPREAD, project="a")
    use(pool, *pool.state.assignments())
    # All boards have two idle slots, and a holder that stays.
    for first in range(10, 100, 3):
        submit_set(
            pool,
            *range(first, first + 3),
            placement=states.SAME_BOARD,
            project="a",
        )
    assert job_ids(submit_set(pool, 100, 101, project="b")) == [100, 101]


def test_no_follower_takes_its_slot() -> None:
    """A holder that leaves soon gets no successor while a set collects."""
    pool = pools.make_pool(pools.make_host(1), strategy="fifo")
    pool.submit(pools.make_job(1), pools.make_job(2))
    use(pool, 10, 11)
    submit_set(pool, 3, 4)
    pool.submit(pools.make_job(5))
    assert not pools.taken(pool.hear(events.HolderLeaves, 10))
    assert not pools.taken(release(pool, 10))
    assert not pools.taken(pool.hear(events.HolderLeaves, 11))
    assert job_ids(release(pool, 11)) == [3, 4]


def test_group_gives_slots_to_set() -> None:
    pool = pools.make_pool(pools.make_host(1, 2))
    pool.step(
        events.GroupCreated(
            model.Group(
                id=1,
                accelerator="aes",
                size=2,
                min_size=0,
                max_size=2,
                elastic=True,
            )
        )
    )
    pool.hear(events.SlotReady, 10)
    pool.hear(events.SlotReady, 11)
    output = submit_set(pool, 1, 2)
    assert revoked(output) == [10]
    assert not pools.taken(release(pool, 10))
    # The next slot follows in the next period. The group wants the first one
    # again, and does not get it.
    output = pool.step(events.Wake(), now=10.0)
    assert not pools.taken(output)
    assert revoked(output) == [11]
    assert pools.taken(release(pool, 11)) == [(1, 10), (2, 11)]


def test_singles_do_not_starve_it() -> None:
    """Small jobs that never end to come hold up a set of large ones for
    ``max_wait_s``, and then as long as four slots are held.
    """
    max_wait_s, hold_s = 50.0, 8
    pool = pools.make_pool_of(
        shared.SharedStrategy(
            strategies.sjf({}, 0), sharing.ShareOptions(), max_wait_s
        ),
        pools.make_host(1, 4),
    )
    ends: dict[int, list[events.Event]] = {}
    began_s: dict[int, int] = {}
    for now in range(100):
        done = ends.pop(now, [])
        output = pool.step(*done, *_two_singles(now), now=float(now))
        for order in output:
            if isinstance(order, instructions.Program):
                began_s[order.job_id] = now
                end = events.SlotReleased(order.slot_id, order.generation)
                ends.setdefault(now + hold_s, []).append(end)
            if isinstance(order, instructions.Program) and order.job_id < 5:
                pool.hear(events.SlotReady, order.slot_id)
        if now == 2:
            submit_set(pool, 1, 2, 3, 4, claimed_bytes=5e9)
    assert {began_s[job_id] for job_id in (2, 3, 4)} == {began_s[1]}
    assert max_wait_s <= began_s[1] <= max_wait_s + hold_s


def _two_singles(now: int) -> list[events.Event]:
    """Small jobs: twice as many as the slots can serve."""
    return [
        events.JobSubmitted(
            pools.make_job(
                100 + 2 * now + n, claimed_bytes=1e6, arrival_s=float(now)
            )
        )
        for n in range(2)
    ]


def test_dry_run() -> None:
    pool = pools.make_pool(pools.make_host(1), pools.make_host(2, 1))
    snapshot = what_if.Snapshot(pool.state)

    def ask(size: int, placement: str | None = None) -> what_if.Prediction:
        together = model.Together("one", size, placement)
        return snapshot.ask(pools.make_job(1, together=together))

    assert ask(3).status.verdict is model.Verdict.OK
    assert ask(2, states.SPREAD).status.verdict is model.Verdict.OK
    refused = ask(3, states.SAME_BOARD)
    assert refused.status == model.Status(
        model.Verdict.NEVER, (codes.SET_IMPOSSIBLE,)
    )
    assert refused.message == (
        "no board has slots that fit all 3 sessions of the set"
    )
    assert not pool.state._sets.of_job
    pool.submit(pools.make_job(7))
    snapshot = what_if.Snapshot(pool.state)
    assert ask(3).status == model.Status(
        model.Verdict.NOT_NOW, (codes.SET_WAITS,)
    )
    assert ask(3).position == 0


# -- slots that are reserved by calendar -------------------------------------


def reserve(pool: pools.Pool, project: str, *slot_ids: int) -> None:
    """Reserve slots for aes jobs of a project, from now on."""
    owner = promises.owner_of(project, "aes")
    pool.step(
        events.CalendarChanged(
            owners=tuple((slot_id, owner) for slot_id in slot_ids)
        )
    )


def test_a_set_gets_what_is_reserved_for_its_project() -> None:
    pool = pools.make_pool(pools.make_host(1, 3), strategy="fifo")
    reserve(pool, "p", 11, 12)
    assert not pools.taken(submit_set(pool, 1, 2, 3, project="q"))
    got = dict(pools.taken(submit_set(pool, 4, 5, project="p")))
    assert got.keys() == {4, 5}
    assert set(got.values()) == {11, 12}


def test_a_set_gets_reserved_slots_and_others() -> None:
    pool = pools.make_pool(pools.make_host(1, 3), strategy="fifo")
    reserve(pool, "p", 12)
    assert job_ids(submit_set(pool, 1, 2, 3, project="p")) == [1, 2, 3]


def test_a_set_has_no_part_of_what_is_reserved() -> None:
    """The set's first job fits the only reserved slot, the others none."""
    pool = pools.make_pool(pools.make_host(1, 2), strategy="fifo")
    reserve(pool, "p", 11)
    pool.submit(pools.make_job(9, project="q"))
    assert not pools.taken(submit_set(pool, 1, 2, project="p"))
    # A single one gets it meanwhile.
    assert pools.taken(pool.submit(pools.make_job(3, project="p"))) == [
        (3, 11)
    ]
    assert not pools.taken(release(pool, 11))
    assert job_ids(release(pool, 10)) == [1, 2]
