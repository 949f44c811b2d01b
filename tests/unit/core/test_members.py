# SPDX-License-Identifier: Apache-2.0

"""The slots of groups: how they come, serve, move and leave."""

import dataclasses
import typing

import pytest

from fpgapool import strategies
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core.queues import sharing
from fpgapool.core.sizing import elasticity
from fpgapool.core.sizing import goals
from fpgapool.core.sizing import groups as group_sizes
from fpgapool.strategies import shared
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.core import pools

GROUP = model.Holder(model.HolderKind.GROUP, 1)


class Wish(elasticity.Policy):
    """Gives groups the sizes that a test wants."""

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}
        self.refusal: goals.Infeasible | None = None

    def resize(self, view: elasticity.View, now: float) -> elasticity.Sizes:
        return self.sizes

    def admit(
        self, view: elasticity.View, group_id: int, now: float
    ) -> elasticity.Sizes:
        if self.refusal is not None:
            raise self.refusal
        return {}


def make_pool(
    slot_count: int = 4, hosts: int = 1, **settings: typing.Any
) -> tuple[pools.Pool, Wish]:
    """Return a pool of hosts with groups, and the policy of its groups."""
    wish = Wish()
    pool = pools.make_pool(
        *(
            pools.make_host(number, slot_count=slot_count)
            for number in range(1, hosts + 1)
        ),
        groups=group_sizes.Groups(wish),
        **settings,
    )
    return pool, wish


def group(
    size: int = 2, group_id: int = 1, **members: typing.Any
) -> model.Group:
    values = {"accelerator": "aes", "min_size": 1, "max_size": 8}
    values |= {"elastic": True, "project": "owner"}
    return model.Group(id=group_id, size=size, **(values | members))


def create(pool: pools.Pool, wanted: model.Group) -> list[int]:
    """Make a group whose slots are all ready; return these."""
    found = [
        order.slot_id
        for order in pool.step(events.GroupCreated(wanted))
        if isinstance(order, instructions.Program)
    ]
    for slot_id in found:
        pool.hear(events.SlotReady, slot_id)
    return found


def held_by(pool: pools.Pool, group_id: int) -> set[int]:
    holder = model.Holder(model.HolderKind.GROUP, group_id)
    return {
        slot_id
        for slot_id, one in pool.state.assignments().items()
        if one.holder == holder
    }


def revoked(output: list[instructions.Instruction]) -> list[int]:
    return [
        order.slot_id
        for order in output
        if isinstance(order, instructions.Revoke)
    ]


def told(output: list[instructions.Instruction]) -> list[tuple[int, str]]:
    return [
        (order.wanted, order.state)
        for order in output
        if isinstance(order, instructions.Resize)
    ]


def stats(
    group_id: int = 1,
    *clients: events.ClientStats,
    host_id: int = 1,
    busy_members: int = 0,
) -> events.TaskStats:
    return events.TaskStats(
        group_id=group_id,
        host_id=host_id,
        clients=clients,
        busy_s=sum(one.busy_s for one in clients),
        busy_members=busy_members,
    )


def client(name: str = "c", **members: typing.Any) -> events.ClientStats:
    values = {"ended": 0, "arrived": 0, "waiting": 0, "busy_s": 0.0}
    return events.ClientStats(client=name, **(values | members))


def test_a_group_from_beginning_to_end() -> None:
    pool, _ = make_pool(first_generation=7)
    output = pool.step(events.GroupCreated(group()))
    programs = [o for o in output if isinstance(o, instructions.Program)]
    assert [order.slot_id for order in programs] == [10, 11]
    assert all(order.job_id < 0 for order in programs)
    assert told(output) == [(2, states.GROUP_CREATING)]
    first = pool.hear(events.SlotReady, 10)
    assert first[0] == instructions.Grant(
        10, programs[0].job_id, programs[0].generation
    )
    assert told(first) == [(2, states.GROUP_RESIZING)]
    assert told(pool.hear(events.SlotReady, 11)) == [(2, states.GROUP_ACTIVE)]
    one = pool.state.assignments()[10]
    assert (one.holder, one.phase, one.local) == (
        GROUP,
        model.Phase.ACTIVE,
        True,
    )
    output = pool.step(events.GroupDeleted(1))
    assert revoked(output) == [10, 11]
    assert told(output) == [(0, states.GROUP_DRAINING)]
    assert pool.hear(events.SlotReleased, 10) == []
    output = pool.hear(events.SlotReleased, 11)
    assert told(output) == [(0, states.GROUP_DELETED)]
    assert pool.state.assignments() == {}
    assert pool.state.waiting() == []


def test_the_jobs_of_a_group_wait_their_turn() -> None:
    pool, _ = make_pool(2)
    pool.submit(*map(pools.make_job, (1, 2)))
    output = pool.step(events.GroupCreated(group()))
    assert pools.taken(output) == []
    assert len(pool.state.waiting()) == 2
    pool.submit(pools.make_job(3, claimed_bytes=1e3))
    (mine,) = pools.taken(pool.hear(events.SlotReleased, 10))
    assert mine == (3, 10)
    ((job_id, slot_id),) = pools.taken(pool.hear(events.SlotReleased, 11))
    assert (job_id < 0, slot_id) == (True, 11)
    assert held_by(pool, 1) == {11}


def test_a_group_that_is_deleted_early_waits_no_more() -> None:
    pool, _ = make_pool(2)
    pool.submit(pools.make_job(1))
    pool.step(events.GroupCreated(group()))
    output = pool.step(events.GroupDeleted(1))
    (requeued,) = [o for o in output if isinstance(o, instructions.Requeue)]
    assert requeued.reason == codes.RESIZED
    assert told(output)[-1] == (0, states.GROUP_DELETED)
    assert set(pool.state.assignments()) == {10}
    assert pool.state.waiting() == []


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"size": 0}, codes.INVALID_GROUP_SIZE),
        ({"min_size": 3}, codes.INVALID_GROUP_SIZE),
        ({"min_size": -1}, codes.INVALID_GROUP_SIZE),
        ({"min_size": 5, "max_size": 4}, codes.INVALID_GROUP_SIZE),
        ({"max_size": 1}, codes.INVALID_GROUP_SIZE),
        ({"accelerator": "unknown"}, codes.UNKNOWN_ACCELERATOR),
    ],
)
def test_a_group_that_cannot_be_is_rejected(
    members: dict[str, typing.Any], code: str
) -> None:
    pool, _ = make_pool()
    bad = dataclasses.replace(group(), **members)
    (order,) = pool.step(events.GroupCreated(bad))
    assert (order.group_id, order.code) == (1, code)
    assert pool.state.assignments() == {}
    if code == codes.INVALID_GROUP_SIZE:
        create(pool, group())
        (order,) = pool.step(events.GroupChanged(bad))
        assert order.code == code
        assert held_by(pool, 1) == {10, 11}


def test_events_of_unknown_groups_change_nothing() -> None:
    pool, _ = make_pool()
    for event in (
        events.GroupChanged(group()),
        events.GoalChanged(1, None),
    ):
        (order,) = pool.step(event)
        assert order.code == codes.GROUP_NOT_FOUND
    for event in (
        events.GroupDeleted(1),
        events.GroupClientsChanged(1, (("c", "p"),)),
        stats(),
    ):
        assert pool.step(event) == []
    create(pool, group())
    assert pool.step(events.GroupCreated(group(3))) == []
    assert held_by(pool, 1) == {10, 11}
    with pytest.raises(ValueError, match="cannot be changed"):
        pool.step(events.GroupChanged(group(accelerator="fft")))


def test_an_owner_resizes_a_group() -> None:
    pool, _ = make_pool()
    create(pool, group(elastic=False))
    output = pool.step(events.GroupChanged(group(3, elastic=False)))
    assert told(output) == [(3, states.GROUP_RESIZING)]
    assert held_by(pool, 1) == {10, 11, 12}
    pool.hear(events.SlotReady, 12)
    output = pool.step(events.GroupChanged(group(1, elastic=False)))
    assert revoked(output) == [10, 11]
    # A member whose task runs still counts until it has left.
    assert held_by(pool, 1) == {10, 11, 12}
    pool.hear(events.SlotReleased, 11)
    assert pool.step() == []
    assert told(pool.hear(events.SlotReleased, 10)) == [
        (1, states.GROUP_ACTIVE)
    ]
    assert pool.state.idle_count == 3


def test_idle_members_leave_first() -> None:
    pool, _ = make_pool(2, hosts=2)
    create(pool, group(4))
    pool.step(stats(busy_members=2), stats(host_id=2, busy_members=1))
    output = pool.step(events.GroupChanged(group(2)))
    # The first member of host 2, where one is idle; then by position.
    assert revoked(output) == [20, 10]


def test_a_slot_moves_within_its_set_past_the_queue() -> None:
    pool, wish = make_pool(4)
    create(pool, group())
    create(pool, group(group_id=2, project="other"))
    pool.submit(pools.make_job(1, accelerator="fft"))
    wish.sizes = {1: 1, 2: 3}
    assert revoked(pool.step(now=10.0)) == [10]
    before = pool.generation(10)
    output = pool.hear(events.SlotReleased, 10)
    (program,) = [o for o in output if isinstance(o, instructions.Program)]
    assert program.slot_id == 10
    assert program.generation > before
    assert held_by(pool, 2) == {10, 12, 13}
    assert pool.state.status(1).verdict is model.Verdict.NOT_NOW
    # The order to leave is old now.
    assert pool.step(events.SlotReleased(10, before)) == []
    done = pool.hear(events.SlotReady, 10)
    assert told(done)[-1] == (3, states.GROUP_ACTIVE)


def test_a_move_that_cannot_be_programmed_ends_in_the_queue() -> None:
    pool, wish = make_pool(4)
    create(pool, group())
    create(pool, group(group_id=2))
    wish.sizes = {1: 1, 2: 3}
    pool.step(now=10.0)
    pool.hear(events.SlotReleased, 10)
    output = pool.hear(events.PrepareFailed, 10, codes.PROGRAM_FAILED)
    (requeued,) = [o for o in output if isinstance(o, instructions.Requeue)]
    assert requeued.reason == codes.PROGRAM_FAILED
    # It avoids the slot only while others fit.
    assert held_by(pool, 2) in ({12, 13}, {10, 12, 13})
    assert held_by(pool, 1) == {11}


def test_a_void_move_brings_the_slot_back() -> None:
    pool, wish = make_pool(4)
    create(pool, group())
    create(pool, group(group_id=2))
    wish.sizes = {1: 1, 2: 3}
    pool.step(now=10.0)
    wish.sizes = {1: 2, 2: 2}
    pool.step(now=20.0)
    output = pool.hear(events.SlotReleased, 10)
    assert [slot_id for _, slot_id in pools.taken(output)] == [10]
    assert held_by(pool, 1) == {10, 11}


def test_a_slot_out_of_use_does_not_move() -> None:
    pool, wish = make_pool(4)
    create(pool, group())
    create(pool, group(group_id=2))
    wish.sizes = {1: 1, 2: 3}
    pool.step(now=10.0)
    pool.step(events.SlotFaulty(10, codes.SLOT_FAULTY))
    output = pool.hear(events.SlotReleased, 10)
    assert pools.taken(output) == []
    (job,) = pool.state.waiting()
    assert job.group_id == 2


def test_members_above_the_minimum_make_room_for_sessions() -> None:
    pool, wish = make_pool(4)
    create(pool, group(2))
    create(pool, group(2, group_id=2))
    pool.step(
        stats(1, client(ended=1, busy_s=1.0, waiting=9)),
        stats(2, client(ended=1, busy_s=1.0, waiting=1)),
    )
    pool.step(now=10.0)
    # Group 2 has less work for its size.
    output = pool.submit(*(pools.make_job(number) for number in (1, 2)))
    assert revoked(output) == [12]
    # One per period, and none below the minimum.
    assert revoked(pool.submit(pools.make_job(3))) == []
    assert pools.taken(pool.hear(events.SlotReleased, 12)) == [(1, 12)]
    wish.sizes = {2: 1}
    assert revoked(pool.step(now=20.0)) == [10]
    assert pools.taken(pool.hear(events.SlotReleased, 10)) == [(2, 10)]
    assert revoked(pool.step(now=30.0)) == []
    assert [len(held_by(pool, one)) for one in (1, 2)] == [1, 1]


def test_a_waiting_group_calls_no_other_group_back() -> None:
    pool, _ = make_pool(2)
    create(pool, group(2))
    assert revoked(pool.step(events.GroupCreated(group(1, 2)))) == []
    assert held_by(pool, 1) == {10, 11}


def test_a_drain_moves_a_group_to_other_slots() -> None:
    pool, _ = make_pool(1, hosts=2)
    assert create(pool, group(1)) == [10]
    output = pool.step(events.DrainRequested(1, deadline_s=0.0))
    assert revoked(output) == [10]
    output = pool.hear(events.SlotReleased, 10)
    assert [slot_id for _, slot_id in pools.taken(output)] == [20]
    assert instructions.Drained(1) in output


def test_a_reservation_takes_a_member() -> None:
    pool, _ = make_pool(2)
    create(pool, group(2))
    wanted = events.ReservationsChanged(((1, (("vm", 1),)),))
    output = pool.step(wanted)
    (slot_id,) = revoked(output)
    assert instructions.Reserve(slot_id, "vm") in output
    output = pool.hear(events.SlotReleased, slot_id)
    assert pools.taken(output) == []
    assert len(pool.state.waiting()) == 1


def test_members_on_a_silent_host_serve_on() -> None:
    pool, _ = make_pool(1, hosts=2)
    assert create(pool, group(1)) == [10]
    pool.step(events.GroupChanged(group(2)))
    output = pool.step(events.HostLost(1), events.HostLost(2))
    # The one that was being programmed is lost.
    assert [o.reason for o in output if isinstance(o, instructions.Requeue)]
    assert held_by(pool, 1) == {10}
    generation = pool.generation(10)
    pool.step(events.HostUp(pools.make_host(1, slot_count=1)))
    assert pool.generation(10) == generation
    output = pool.step(events.HostUp(pools.make_host(2, slot_count=1)))
    assert [slot_id for _, slot_id in pools.taken(output)] == [20]


def test_a_lost_member_is_replaced() -> None:
    pool, _ = make_pool(3)
    create(pool, group(2, min_size=2))
    pool.step(events.SlotFaulty(10, codes.WORKER_DIED))
    output = pool.hear(events.SlotReleased, 10)
    assert [slot_id for _, slot_id in pools.taken(output)] == [12]
    assert told(output) == [(2, states.GROUP_DEGRADED)]
    assert told(pool.hear(events.SlotReady, 12)) == [(2, states.GROUP_ACTIVE)]


def test_a_restart_finds_the_members_again() -> None:
    pool, _ = make_pool()
    pool.step(events.HostLost(1))

    def restored(
        slot_id: int, group_id: int, phase: model.Phase
    ) -> events.AssignmentRestored:
        return events.AssignmentRestored(
            pools.make_job(-slot_id, group_id=group_id),
            slot_id,
            slot_id,
            phase,
            host_id=1,
        )

    pool.step(events.GroupRestored(group(3, max_size=3), wanted=3))
    output = pool.step(
        restored(11, 1, model.Phase.PREPARING),
        restored(10, 1, model.Phase.ACTIVE),
        restored(12, 99, model.Phase.ACTIVE),
    )
    assert pool.state.assignments()[10].holder == GROUP
    assert len(pool.state.waiting()) == 1
    output = pool.step(events.HostUp(pools.make_host(1, slot_count=4)))
    # The group of the last one is gone.
    assert revoked(output) == [12]
    assert [slot_id for _, slot_id in pools.taken(output)] == [13]
    pool.hear(events.SlotReleased, 12)
    pool.hear(events.SlotReady, 11)
    assert told(pool.hear(events.SlotReady, 13)) == [(3, states.GROUP_ACTIVE)]
    again = events.GroupRestored(group(3, max_size=3), wanted=1)
    assert pool.step(again) == []


def test_a_slot_of_a_lost_group_counts_for_no_later_group() -> None:
    pool, _ = make_pool()
    pool.step(events.HostLost(1))
    pool.step(
        events.AssignmentRestored(
            pools.make_job(-10, group_id=1),
            10,
            10,
            model.Phase.PREPARING,
            host_id=1,
        )
    )
    create(pool, group(1))
    assert told(pool.hear(events.SlotReady, 10)) == []
    assert len(pool.state.waiting()) == 1


def test_a_group_waits_while_its_accelerator_is_unknown() -> None:
    pool, _ = make_pool(2)
    pool.submit(*map(pools.make_job, (1, 2)))
    pool.step(events.GroupCreated(group(1, accelerator="fft")))
    assert pool.step(events.AcceleratorsChanged((pools.AES,))) == []
    assert pool.state.waiting() == []
    pool.step(events.AcceleratorsChanged((pools.AES, pools.FFT)))
    assert len(pool.state.waiting()) == 1


def test_goals_are_admitted_reached_and_refused() -> None:
    pool, wish = make_pool()
    create(pool, group())
    goal = goals.Goal(deadline_s=100.0, actions=3)
    assert pool.step(events.GoalChanged(1, goal)) == []
    wish.refusal = goals.Infeasible("too soon", 70.0)
    (order,) = pool.step(
        events.GoalChanged(1, goals.Goal(deadline_s=50.0, actions=3))
    )
    assert order == instructions.RejectGroup(
        1, codes.GOAL_INFEASIBLE, "too soon", 70.0
    )
    (order,) = pool.step(events.GroupCreated(group(group_id=2), goal))
    assert (order.group_id, order.code) == (2, codes.GOAL_INFEASIBLE)
    assert held_by(pool, 2) == set()
    output = pool.step(stats(1, client(ended=2, busy_s=1.0)))
    assert output == []
    (order,) = pool.step(
        events.GoalChanged(1, goals.Goal(deadline_s=100.0, actions=2))
    )
    assert order.code == codes.INVALID_GOAL
    assert pool.step(stats(1, client(ended=1, busy_s=1.0))) == [
        instructions.GoalReached(1)
    ]


def test_the_pool_wakes_up_each_period() -> None:
    pool, wish = make_pool()
    output = pool.step(events.GroupCreated(group()), now=5.0)
    assert instructions.WakeAt(15.0) in output
    wish.sizes = {1: 1}
    output = pool.step(events.Wake(), now=15.0)
    assert instructions.WakeAt(25.0) in output
    assert told(output) == [(1, states.GROUP_CREATING)]


def make_shared_pool(slot_count: int) -> pools.Pool:
    """Return a pool that projects share, in rounds of 1 GB."""
    options = sharing.ShareOptions(quantum_bytes=1e9)
    inner = strategies.fifo({}, 0)
    return pools.make_pool_of(
        shared.SharedStrategy(inner, options),
        pools.make_host(1, slot_count=slot_count),
    )


def test_limits_of_projects_hold_for_groups() -> None:
    pool = make_shared_pool(3)
    create(pool, group(1))
    pool.step(events.SessionLimitsChanged(1))
    output = pool.step(events.GroupChanged(group(2)))
    assert pools.taken(output) == []
    (job,) = pool.state.waiting()
    assert pool.state.status(job.id).reasons == (codes.PROJECT_SESSION_LIMIT,)
    output = pool.step(events.SessionLimitsChanged(2))
    assert len(pools.taken(output)) == 1


def test_members_have_no_claim_to_exceed() -> None:
    pool, _ = make_pool(1)
    create(pool, group(1))
    pool.submit(pools.make_job(1))
    assert pool.hear(events.ClaimExceeded, 10) == []


def test_busy_time_is_the_clients_and_idle_time_the_owners() -> None:
    pool = make_shared_pool(1)
    create(pool, group(1))
    pool.step(events.GroupClientsChanged(1, (("c", "guest"),)))
    for project in ("owner", "guest"):
        pool.submit(
            pools.make_job(len(project) + ord(project[0]), project=project)
        )

    def rounds() -> dict[str, int]:
        accounts = pool.state.view.accounts
        assert accounts is not None
        return {one.project: one.round for one in accounts.all()}

    # The guest's task runs for three shares.
    busy_s = 3e9 / pool.state.view.slots.slots[10].bytes_per_s
    task = client("c", ended=1, busy_s=busy_s)
    pool.step(stats(1, task), now=busy_s)
    pool.step(now=busy_s + 10.0)
    assert rounds()["guest"] == 3
    idle_rounds = rounds()["owner"]
    pool.step(now=busy_s + 20.0)
    assert rounds()["guest"] == 3
    assert rounds()["owner"] > idle_rounds
