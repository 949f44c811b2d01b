# SPDX-License-Identifier: Apache-2.0

"""Groups whose first slots come all at once, or not at all."""

import typing

import pytest

from fpgapool import strategies
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core.queues import sharing
from fpgapool.strategies import shared
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import rules
from fpgapool.vocabulary import states
from tests.unit.core import pools
from tests.unit.core import test_members
from tests.unit.core import test_session_sets as steps

CREATING = states.GROUP_CREATING
ACTIVE = states.GROUP_ACTIVE


def group(
    size: int = 2, group_id: int = 1, **members: typing.Any
) -> model.Group:
    values = {"min_size": size, "elastic": False, "all_or_none": True}
    return test_members.group(size, group_id, **(values | members))


def make_pool(slot_count: int = 4, **settings: typing.Any) -> pools.Pool:
    return test_members.make_pool(slot_count, **settings)[0]


def create(
    pool: pools.Pool, wanted: model.Group, **members: typing.Any
) -> list[instructions.Instruction]:
    return pool.step(events.GroupCreated(wanted, **members))


def slots(output: list[instructions.Instruction]) -> list[int]:
    return [
        order.slot_id
        for order in output
        if isinstance(order, instructions.Program)
    ]


def refusals(
    output: list[instructions.Instruction],
) -> list[tuple[int, str, bool]]:
    return [
        (order.group_id, order.code, order.ends)
        for order in output
        if isinstance(order, instructions.RejectGroup)
    ]


def status(pool: pools.Pool, group_id: int = 1) -> typing.Any:
    found = pool.state._sizes.get(group_id)
    assert found is not None
    return found.state, found.members


def start(pool: pools.Pool, *slot_ids: int) -> None:
    for slot_id in slot_ids:
        pool.hear(events.SlotReady, slot_id)


def test_ready_together() -> None:
    pool = make_pool()
    assert slots(create(pool, group(3))) == [10, 11, 12]
    start(pool, 10, 11)
    assert status(pool) == (CREATING, 0)
    assert steps.granted(pool.hear(events.SlotReady, 12))
    assert status(pool) == (ACTIVE, 3)


def test_waits_for_all_and_holds_none() -> None:
    pool = make_pool(3, strategy="fifo")
    pool.submit(pools.make_job(1), pools.make_job(2))
    assert not slots(create(pool, group(3)))
    assert sorted(pool.state.assignments()) == [10, 11]
    # The idle slot and the next one are kept for it.
    assert not pools.taken(pool.submit(pools.make_job(3)))
    assert not pools.taken(steps.release(pool, 10))
    assert sorted(slots(steps.release(pool, 11))) == [10, 11, 12]
    start(pool, 10, 11, 12)
    assert status(pool) == (ACTIVE, 3)


def test_the_rest_comes_one_by_one() -> None:
    """Only the minimum comes at once; then it is a group like others."""
    pool = make_pool(3)
    pool.submit(pools.make_job(1))
    create(pool, group(3, min_size=2))
    start(pool, 11)
    assert status(pool) == (CREATING, 0)
    start(pool, 12)
    assert status(pool) == (states.GROUP_RESIZING, 2)
    assert slots(steps.release(pool, 10)) == [10]
    start(pool, 10)
    assert status(pool) == (ACTIVE, 3)


def test_one_member() -> None:
    pool = make_pool(1)
    pool.submit(pools.make_job(1))
    create(pool, group(1))
    assert slots(steps.release(pool, 10)) == [10]
    start(pool, 10)
    assert status(pool) == (ACTIVE, 1)


def test_two_groups_and_a_set_take_turns() -> None:
    pool = make_pool(4, strategy="fifo")
    pool.submit(*map(pools.make_job, (1, 2, 3, 4)))
    create(pool, group(3))
    create(pool, group(3, 2))
    steps.submit_set(pool, 11, 12, 13)
    assert not slots(steps.release(pool, 10, 11))
    assert slots(steps.release(pool, 12)) == [10, 11, 12]
    start(pool, 10, 11, 12)
    pool.step(events.GroupDeleted(1))
    assert sorted(slots(steps.release(pool, 10, 11, 12))) == [10, 11, 12]
    assert test_members.held_by(pool, 2) == {10, 11, 12}
    start(pool, 10, 11, 12)
    pool.step(events.GroupDeleted(2))
    assert steps.job_ids(steps.release(pool, 10, 11, 12)) == [11, 12, 13]


def test_singles_do_not_starve_it() -> None:
    pool = make_pool(2, strategy="fifo")
    pool.submit(pools.make_job(1), pools.make_job(2))
    create(pool, group(2))
    for job_id in range(3, 20):
        assert not pools.taken(pool.submit(pools.make_job(job_id)))
    assert not slots(steps.release(pool, 10))
    assert slots(steps.release(pool, 11)) == [10, 11]


@pytest.mark.parametrize("placement", [None, *states.PLACEMENTS])
def test_placement(placement: str | None) -> None:
    pool = pools.make_pool(
        pools.make_host(1), pools.make_host(2), pools.make_host(3)
    )
    pool.submit(pools.make_job(1))
    found = slots(create(pool, group(2, placement=placement)))
    hosts = {slot_id // 10 for slot_id in found}
    wanted = {states.SPREAD: 2, states.SAME_BOARD: 1, states.SAME_HOST: 1}
    assert len(hosts) == wanted.get(placement or "", len(hosts))


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"size": 5}, codes.SET_IMPOSSIBLE),
        ({"size": 3, "placement": states.SAME_BOARD}, codes.SET_IMPOSSIBLE),
        ({"size": 3, "placement": states.SPREAD}, codes.SET_IMPOSSIBLE),
        ({"size": 2, "accelerator": "fft"}, codes.SET_IMPOSSIBLE),
        ({"size": 2, "min_size": 0}, codes.INVALID_GROUP_SIZE),
        ({"size": 2, "accelerator": "none"}, codes.UNKNOWN_ACCELERATOR),
    ],
)
def test_refused_at_once(members: typing.Any, code: str) -> None:
    pool = make_pool(2, hosts=2)
    output = create(pool, group(**members))
    ((group_id, found, _),) = refusals(output)
    assert (group_id, found) == (1, code)
    assert not pool.state._sizes.get(1)
    assert not pool.state.sets.of_job
    assert not pool.state.waiting()


@pytest.mark.parametrize("placement", [None, "same_board"])
@pytest.mark.parametrize("is_session_set", [False, True])
def test_nothing_is_withheld_for_what_a_group_keeps(
    placement: str | None, is_session_set: bool
) -> None:
    """It would be withheld from all for as long as the group lives."""
    pool = make_pool(4)
    ordinary = group(1, 9, all_or_none=False)
    (slot_id,) = slots(create(pool, ordinary))
    start(pool, slot_id)
    if is_session_set:
        together = model.Together("s", 4, placement)
        jobs = [pools.make_job(n, together=together) for n in range(4)]
        assert not slots(pool.submit(*jobs))
    else:
        assert not slots(create(pool, group(4, placement=placement)))
    assert len(pools.taken(pool.submit(pools.make_job(7)))) == 1
    # Now it can be complete, and the rest is kept for it.
    pool.step(events.GroupDeleted(9))
    steps.release(pool, slot_id)
    assert not pools.taken(pool.submit(pools.make_job(8)))
    (left,) = pool.state.assignments()
    assert len(slots(steps.release(pool, left))) == 4


def test_what_an_elastic_group_can_spare_is_collected() -> None:
    pool = make_pool(4, strategy="fifo")
    elastic = group(3, 9, min_size=1, all_or_none=False, elastic=True)
    start(pool, *slots(create(pool, elastic)))
    assert not slots(create(pool, group(3)))
    assert not pools.taken(pool.submit(pools.make_job(7)))
    other = make_pool(4, strategy="fifo")
    elastic = group(3, 9, min_size=2, all_or_none=False, elastic=True)
    start(other, *slots(create(other, elastic)))
    assert not slots(create(other, group(3)))
    assert pools.taken(other.submit(pools.make_job(7)))


def test_known_slots_may_be_missing() -> None:
    """A pool whose hosts have not all reported refuses nothing."""
    pool = make_pool(1)
    assert not refusals(create(pool, group(2), is_known=True))
    assert slots(pool.step(events.HostUp(pools.make_host(2, 1)))) == [10, 20]


def test_limit_of_the_project() -> None:
    strategy = shared.SharedStrategy(
        strategies.fifo({}, 1), sharing.ShareOptions(), 50.0
    )
    pool = pools.make_pool_of(strategy, pools.make_host(1, 4))
    pool.step(events.SessionLimitsChanged(None, (("owner", 2),)))
    assert refusals(create(pool, group(3))) == [
        (1, codes.SET_IMPOSSIBLE, True)
    ]
    pool.submit(pools.make_job(1, project="owner"))
    assert not slots(create(pool, group(2, 2)))
    # A lower limit ends what waits.
    output = pool.step(events.SessionLimitsChanged(None, (("owner", 1),)))
    assert refusals(output) == [(2, codes.SET_IMPOSSIBLE, True)]
    assert not pool.state.sets.of_job


def test_wait_limit() -> None:
    pool = make_pool(2, strategy="fifo")
    pool.submit(pools.make_job(1))
    output = create(pool, group(2, wait_timeout_s=5.0))
    wakes = [
        one.time_s for one in output if isinstance(one, instructions.WakeAt)
    ]
    assert min(wakes) == 5.0
    assert not pools.taken(pool.submit(pools.make_job(2)))
    output = pool.step(events.Wake(), now=5.0)
    assert refusals(output) == [(1, codes.WAIT_TIMEOUT, True)]
    # What was kept for it is for others.
    assert steps.job_ids(output) == [2]
    assert not pool.state.sets.of_job
    assert pool.state._sizes.get(1) is None


def test_limit_ends_with_the_first_slots() -> None:
    pool = make_pool(2)
    create(pool, group(2, wait_timeout_s=5.0))
    start(pool, 10, 11)
    assert not refusals(pool.step(events.Wake(), now=6.0))
    # It lost a slot, and asks for another, however long that takes.
    pool.step(events.SlotReleased(11, pool.generation(11)))
    assert not refusals(pool.step(events.Wake(), now=60.0))
    assert status(pool)[0] == states.GROUP_DEGRADED


def test_deleted_while_it_waits() -> None:
    pool = make_pool(2, strategy="fifo")
    pool.submit(pools.make_job(1))
    create(pool, group(2))
    pool.submit(pools.make_job(2))
    output = pool.step(events.GroupDeleted(1))
    assert test_members.told(output)[-1] == (0, states.GROUP_DELETED)
    assert steps.job_ids(output) == [2]
    assert not pool.state.sets.of_job
    assert not pool.state.waiting()


def test_deleted_while_it_starts() -> None:
    pool = make_pool(2)
    create(pool, group(2))
    start(pool, 10)
    output = pool.step(events.GroupDeleted(1))
    assert test_members.told(output)[-1] == (0, states.GROUP_DELETED)
    assert not pool.state.assignments()
    assert not pool.state.sets.of_job
    assert not pool.state.waiting()


@pytest.mark.parametrize("ready", [False, True])
def test_one_cannot_be_prepared(ready: bool) -> None:
    pool = pools.make_pool(pools.make_host(1), pools.make_host(2, 1))
    create(pool, group(2))
    if ready:
        start(pool, 10)
    output = pool.hear(events.PrepareFailed, 11, "X")
    assert [
        one.reason for one in output if isinstance(one, instructions.Requeue)
    ] == [codes.SET_INCOMPLETE, "X"]
    assert slots(output) == [10, 20]
    start(pool, 10)
    assert status(pool) == (CREATING, 0)
    start(pool, 20)
    assert status(pool) == (ACTIVE, 2)


def test_it_pauses_if_no_slot_serves_it() -> None:
    """As other groups do; meanwhile others get the slots."""
    pool = make_pool(2)
    create(pool, group(2))
    wakes: list[float] = []
    for _ in range(3):
        output = pool.hear(events.PrepareFailed, 10, "X")
        wakes = [
            one.time_s
            for one in output
            if isinstance(one, instructions.WakeAt)
        ]
    assert not pool.state.assignments()
    assert wakes == [1.0]
    assert not pool.state.sets.of_job
    output = pool.step(events.Wake(), now=1.0)
    assert slots(output) == [10, 11]
    start(pool, 10, 11)
    assert status(pool) == (ACTIVE, 2)


def test_one_is_released_before_the_start() -> None:
    pool = make_pool(3)
    create(pool, group(2))
    start(pool, 10)
    output = steps.release(pool, 11)
    assert len(slots(output)) == 2
    assert status(pool) == (CREATING, 0)


def test_host_lost_before_the_start() -> None:
    pool = make_pool(1, hosts=2)
    create(pool, group(2))
    start(pool, 10)
    pool.step(events.HostLost(2))
    assert not pool.state.assignments()
    assert sorted(slots(pool.step(events.HostUp(pools.make_host(2, 1))))) == [
        10,
        20,
    ]


def test_sizes_stay_until_the_start() -> None:
    pool = make_pool(3)
    pool.submit(pools.make_job(1), pools.make_job(2))
    create(pool, group(2))
    output = pool.step(events.GroupChanged(group(3)))
    assert refusals(output) == [(1, codes.GROUP_WAITS, False)]
    assert not refusals(pool.step(events.GroupChanged(group(2, elastic=True))))
    slots_now = slots(steps.release(pool, 10))
    start(pool, *slots_now)
    assert not refusals(pool.step(events.GroupChanged(group(3))))
    assert slots(steps.release(pool, 11)) == [11]


def test_accelerator_deleted() -> None:
    pool = make_pool(2)
    pool.submit(pools.make_job(1))
    create(pool, group(2))
    output = pool.step(events.AcceleratorsChanged((pools.FFT,)))
    assert refusals(output) == [(1, codes.UNKNOWN_ACCELERATOR, True)]
    assert not pool.state.sets.of_job


def test_elastic_slots_are_not_handed_to_it() -> None:
    """Others of its scaling set keep their slots; it waits for a turn."""
    pool, wish = test_members.make_pool(4)
    test_members.create(pool, test_members.group(4))
    create(pool, group(2, 2, elastic=True))
    wish.sizes = {1: 4, 2: 4}
    pool.step(events.Wake(), now=pool.state._sizes.wake_s())
    assert test_members.held_by(pool, 2) == set()
    # As for a session, the other gives a member back in each period.
    for _ in range(3):
        pool.step(events.Wake(), now=pool.state._sizes.wake_s())
    assert pool.state._sizes.get(2).wanted == 2


def restored(
    *phases: model.Phase, together: bool = True, **members: typing.Any
) -> tuple[pools.Pool, list[instructions.Instruction]]:
    """A pool whose former leader knew a group of two."""
    fresh = pools.make_pool()
    wanted = group(2, **members)
    batch: list[events.Event] = [
        events.GroupRestored(wanted, 2, waits_since_s=-3.0)
    ]
    for number, phase in enumerate(phases):
        job = pools.make_job(
            -5 - number,
            project="owner",
            group_id=1,
            together=wanted.together if together else None,
            wait_timeout_s=members.get("wait_timeout_s"),
            arrival_s=-3.0,
        )
        batch.append(
            events.AssignmentRestored(job, 10 + number, 5 + number, phase, 1)
        )
    output = fresh.step(*batch)
    output += fresh.step(events.HostUp(pools.make_host(1)))
    return fresh, output


def test_a_new_leader_while_it_waits() -> None:
    pool, output = restored()
    assert slots(output) == [10, 11]
    start(pool, 10)
    assert status(pool) == (CREATING, 0)
    start(pool, 11)
    assert status(pool) == (ACTIVE, 2)


def test_its_wait_goes_on() -> None:
    pool = pools.make_pool(pools.make_host(1, 1))
    pool.step(
        events.GroupRestored(
            group(2, wait_timeout_s=5.0), 2, waits_since_s=-3.0
        )
    )
    assert not refusals(pool.step(events.Wake(), now=1.5))
    assert refusals(pool.step(events.Wake(), now=2.0)) == [
        (1, codes.WAIT_TIMEOUT, True)
    ]


def test_a_new_leader_while_it_starts() -> None:
    prepares = model.Phase.PREPARING
    pool, output = restored(prepares, prepares)
    assert not slots(output)
    start(pool, 10)
    assert status(pool) == (CREATING, 0)
    start(pool, 11)
    assert status(pool) == (ACTIVE, 2)


def test_a_new_leader_and_a_loss_while_it_starts() -> None:
    """All slots go back, and the limit of its wait holds."""
    prepares = model.Phase.PREPARING
    pool, _ = restored(prepares, prepares, wait_timeout_s=5.0)
    pool.hear(events.PrepareFailed, 10, "X")
    pool.step(events.HostLost(1))
    assert not pool.state.assignments()
    assert refusals(pool.step(events.Wake(), now=2.0)) == [
        (1, codes.WAIT_TIMEOUT, True)
    ]


def test_a_new_leader_after_the_start() -> None:
    """What an earlier release began one by one goes on as it is."""
    pool, _ = restored(
        model.Phase.ACTIVE, model.Phase.PREPARING, together=False
    )
    assert status(pool)[1] == 1
    start(pool, 11)
    assert status(pool) == (ACTIVE, 2)


def test_a_due_group_that_cannot_be_held() -> None:
    """It withholds nothing while its hosts are gone."""
    pool = make_pool(1, hosts=2)
    pool.submit(pools.make_job(1))
    create(pool, group(2))
    steps.release(pool, 10)
    pool.step(events.HostLost(2))
    assert steps.job_ids(pool.submit(pools.make_job(3)))


def test_sets_of_projects_cannot_name_it() -> None:
    with pytest.raises(rules.RequestError):
        rules.check_set_id(group().together.set_id)


def test_groups_without_it_are_as_before() -> None:
    pool = make_pool(3)
    pool.submit(pools.make_job(1), pools.make_job(2))
    assert slots(create(pool, group(2, all_or_none=False))) == [12]
    assert not pool.state.sets.of_job
