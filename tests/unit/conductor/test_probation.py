# SPDX-License-Identifier: Apache-2.0

"""What is out of use for its failures, and how tests bring it back."""

import dataclasses

import pytest

from fpgapool import objects
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions.views import audit
from fpgapool.core import health
from fpgapool.core import model
from fpgapool.db import api as db_api
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import administering
from tests.unit.conductor import probation
from tests.unit.conductor import world

AFTER_S = 60.0
SLOT = health.Unit(health.Level.SLOT, 1)
DEVICE = health.Unit(health.Level.DEVICE, 1)
ACCELERATOR = health.Unit(health.Level.ACCELERATOR, 1, "copy", "medium")


@pytest.fixture
def pool() -> world.Conductor:
    """A slot that is out, and a session that waits for it."""
    made = probation.make_world()
    made.open()
    probation.fail(made)
    return made


def wait(pool: world.Conductor, passed_s: float = AFTER_S) -> None:
    """Let time pass in which the agent reports."""
    pool.tick(passed_s)


def begin(
    pool: world.Conductor, passed_s: float = AFTER_S
) -> objects.AssignRequest:
    """Let a test fall due and begin."""
    wait(pool, passed_s)
    (order,) = probation.orders(pool)
    pool.deliver_all()
    pool.report("a")
    return order


def named(*names: str) -> list[objects.AcceleratorProfile]:
    return [dataclasses.replace(world.PROFILE, name=name) for name in names]


def fault(pool: world.Conductor, unit: health.Unit = SLOT) -> health.Fault:
    return pool.memory.probation.faults[unit]


def state(pool: world.Conductor, request_id: str = "r1") -> str:
    return pool.view(request_id).state


def test_a_slot_is_taken_out_tested_and_brought_back(pool) -> None:
    row = pool.rows["slots"][1]
    assert (row.faulty, row.fault_reason) == (True, codes.PROGRAM_FAILED)
    wait(pool, AFTER_S - 1)
    assert not probation.orders(pool)
    order = begin(pool, 1.0)
    assert (order.accelerator, order.self_test) == ("copy", True)
    # Nobody is given it meanwhile.
    assert state(pool) == states.QUEUED
    probation.end(pool, states.CLOSED, codes.OK)
    assert not pool.memory.probation.faults
    assert not pool.rows["slots"][1].faulty
    assert not pool.rows["faults"][1].active
    assert state(pool) == states.PREPARING
    assert pool.view("r1").generation > order.generation
    assert pool.counts.self_tests == {"passed": 1}


def test_what_does_not_pass_is_tested_ever_later(pool) -> None:
    for number, passed_s in enumerate((AFTER_S, 2 * AFTER_S, 4 * AFTER_S)):
        begin(pool, passed_s)
        agent = pool.agents["a"]
        probation.end(pool, states.PREPARE_FAILED, codes.SELF_TEST_FAILED)
        row = pool.rows["faults"][1]
        assert (row.active, row.tests) == (True, number + 1)
        assert row.last_test == f"{codes.SELF_TEST_FAILED}: "
        assert row.next_test_at == pool.now + 2 * passed_s
        assert agent.slots[0].state == states.SLOT_IDLE
    assert state(pool) == states.QUEUED
    assert pool.counts.self_tests == {"failed": 3}


def test_the_next_leader_knows(pool) -> None:
    begin(pool)
    probation.end(pool, states.PREPARE_FAILED, codes.SELF_TEST_FAILED)
    before = fault(pool)
    pool.boot_conductor()
    pool.report("a")
    assert fault(pool) == before
    wait(pool, AFTER_S)
    assert not probation.orders(pool)
    begin(pool, AFTER_S)
    probation.end(pool, states.CLOSED, codes.OK)
    assert state(pool) == states.PREPARING


def test_the_next_leader_calls_off_what_the_last_one_had_begun(pool) -> None:
    order = begin(pool)
    pool.boot_conductor()
    pool.report("a")
    pool.deliver_all()
    result = pool.agents["a"].slots[0].last_result
    assert (result.generation, result.state) == (
        order.generation,
        states.CANCELLED,
    )
    # It is due still.
    pool.report("a")
    begin(pool, 1.0)
    probation.end(pool, states.CLOSED, codes.OK)
    assert state(pool) == states.PREPARING


def test_a_lost_order_is_sent_again(pool) -> None:
    wait(pool)
    pool.wire.clear()
    pool.report("a")
    assert not probation.orders(pool)
    pool.now += 3.0
    pool.report("a")
    assert len(probation.orders(pool)) == 1
    pool.deliver_all()
    probation.end(pool, states.CLOSED, codes.OK)
    assert state(pool) == states.PREPARING


def test_a_test_is_nothing_that_an_audit_would_mend(pool) -> None:
    begin(pool)
    report = pool.agents["a"].report()
    found = audit.remember(pool.ask, pool.epoch, {"a": report})
    assert not found.differences


def test_late_and_doubled_reports_of_a_test_change_nothing(pool) -> None:
    begin(pool)
    probation.end(pool, states.PREPARE_FAILED, codes.SELF_TEST_FAILED)
    pool.report("a", "a")
    assert fault(pool).tests == 1


def hang(pool: world.Conductor) -> None:
    """A test takes too long, and its agent says so."""
    pool.now += pool.settings.prepare_timeout_s + 1
    pool.report("a")
    pool.tick()


def test_a_test_that_hangs_is_called_off(pool) -> None:
    begin(pool)
    hang(pool)
    assert fault(pool).last_test == "PREPARE_TIMEOUT: not finished within 60 s"
    (release,) = pool.wire
    assert isinstance(release, effects.ReleaseSlot)
    pool.deliver_all()
    pool.report("a")
    assert (fault(pool).tests, pool.rows["slots"][1].faulty) == (1, True)


def test_a_slot_that_an_accelerators_test_hung_in_is_nobodys() -> None:
    pool = probation.make_world(accelerator_limit=1, slot_limit=99)
    probation.load(pool, *named("copy", "other"))
    pool.open()
    probation.fail(pool)
    begin_alone(pool)
    hang(pool)
    assert fault(pool, ACCELERATOR).tests == 1
    pool.open(accelerator="other")
    assert state(pool, "r2") == states.QUEUED
    # As soon as it is idle it is used again.
    pool.deliver_all()
    pool.report("a")
    assert state(pool, "r2") == states.PREPARING


def begin_alone(pool: world.Conductor) -> None:
    """Let the test begin in a slot that nobody waits for."""
    pool.cancel("r1")
    pool.deliver_all()
    pool.report("a")
    begin(pool)


def test_a_test_on_a_silent_host_is_not_late(pool) -> None:
    begin(pool)
    wait(pool, 10 * pool.settings.prepare_timeout_s)
    assert pool.memory.probation.tests
    probation.end(pool, states.CLOSED, codes.OK)
    assert not pool.memory.probation.faults


def test_no_test_begins_on_a_silent_host() -> None:
    pool = world.Conductor(
        world.hosts(a=1),
        health=health.HealthOptions(slot_limit=1),
        wait_timeout_s=1e6,
        report_timeout_s=5.0,
    )
    pool.open()
    probation.fail(pool)
    # Half of all hosts are silent: the bus is suspected, and none is lost.
    wait(pool)
    assert pool.memory.registry.hosts["a"].up
    assert not probation.orders(pool)
    pool.report("a")
    begin(pool, 1.0)


def test_an_order_that_was_never_taken_fails_nothing(pool) -> None:
    wait(pool)
    assert len(probation.orders(pool)) == 1
    pool.wire.clear()
    hang(pool)
    assert not pool.memory.probation.tests
    assert (fault(pool).tests, fault(pool).last_test) == (0, "")
    assert pool.counts.self_tests == {"none": 1}


def test_a_worker_that_dies_of_a_test_fails_it(pool) -> None:
    begin(pool)
    probation.end(pool, states.PREPARE_FAILED, codes.WORKER_DIED)
    assert fault(pool).last_test == "WORKER_DIED: "


@pytest.mark.parametrize(
    ("how", "code"),
    [
        # Released by somebody, or taken for a session by an old worker.
        (states.CANCELLED, codes.SUPERSEDED),
        (states.EXPIRED, codes.CONNECT_TIMEOUT),
        # Not for anything that the slot has done.
        (states.PREPARE_FAILED, codes.BITSTREAM_UNAVAILABLE),
    ],
)
def test_a_test_that_did_not_take_place_says_nothing(pool, how, code) -> None:
    begin(pool)
    probation.end(pool, how, code)
    assert (fault(pool).tests, fault(pool).next_test_at) == (
        0,
        pool.now + AFTER_S,
    )
    assert pool.counts.self_tests == {"none": 1}


def test_a_test_that_went_with_its_agent_says_nothing(pool) -> None:
    begin(pool)
    agent = pool.agents["a"]
    seen = agent.slots[0].seen_generation
    agent.restart(workers_too=True)
    # From its own notes it knows that there was something, and not what.
    agent.slots[0].seen_generation = seen
    pool.feed(agent.report())
    assert not pool.memory.probation.tests
    assert (fault(pool).tests, fault(pool).next_test_at) == (
        0,
        pool.now + AFTER_S,
    )
    assert pool.counts.self_tests == {"none": 1}


def test_a_host_that_is_lost_takes_its_test_along(pool) -> None:
    begin(pool)
    pool.memory.registry.hosts["a"].up = False
    wait(pool, 1.0)
    assert fault(pool).tests == 0
    # What is not there is not tested.
    wait(pool, 10 * AFTER_S)
    assert not probation.orders(pool)


def test_what_an_operator_has_taken_is_not_tested(pool) -> None:
    administering.administer(pool, model.AdminState.DISABLED)
    wait(pool, 10 * AFTER_S)
    assert not probation.orders(pool)


def test_an_operator_brings_back_what_is_being_tested(pool) -> None:
    begin(pool)
    administering.administer(pool, model.AdminState.ENABLED)
    assert not pool.rows["slots"][1].faulty
    assert not pool.memory.probation.tests
    # Its agent hears first that the test is over.
    assert isinstance(pool.wire[0], effects.ReleaseSlot)
    assert state(pool) == states.PREPARING
    pool.settle()
    assert state(pool) == states.READY


def test_a_slot_in_use_is_never_tested() -> None:
    pool = probation.make_world(2, slot_limit=99, device_limit=2)
    pool.open()
    pool.open()
    pool.deliver_all()
    pool.feed(pool.agents["a"].prepared(1))
    probation.fail(pool)
    # It waits for the other slot, and a third one has this one.
    pool.open()
    probation.fail(pool)
    assert fault(pool, DEVICE).failures == 2
    assert all(row.faulty for row in pool.rows["slots"].values())
    order = begin(pool)
    assert order.slot == 0
    probation.end(pool, states.PREPARE_FAILED, codes.SELF_TEST_FAILED)
    # The next one would be for the other slot.
    order = begin(pool, 2 * AFTER_S)
    assert order.slot == 0
    probation.end(pool, states.CLOSED, codes.OK)
    assert not any(row.faulty for row in pool.rows["slots"].values())
    assert state(pool, "r2") == states.READY


def test_the_slots_of_a_device_take_turns() -> None:
    pool = probation.make_world(2, slot_limit=99, device_limit=1)
    pool.open()
    probation.fail(pool)
    assert begin(pool).slot == 0
    probation.end(pool, states.PREPARE_FAILED, codes.SELF_TEST_FAILED)
    assert begin(pool, 2 * AFTER_S).slot == 1
    probation.end(pool, states.CLOSED, codes.OK, 1)
    assert state(pool) == states.PREPARING


def test_all_slots_have_their_turn_before_the_next_accelerator() -> None:
    pool = probation.make_world(2, slot_limit=99, device_limit=1)
    pool.open()
    probation.fail(pool)
    probation.load(pool, *named("a", "b"))
    tested = []
    for number in range(5):
        order = begin(pool, AFTER_S * 2**number)
        tested.append((order.slot, order.accelerator))
        code = codes.SELF_TEST_FAILED
        probation.end(pool, states.PREPARE_FAILED, code, order.slot)
    assert tested == [(0, "a"), (1, "a"), (0, "b"), (1, "b"), (0, "a")]


def test_a_device_comes_before_its_slots() -> None:
    pool = probation.make_world(2, slot_limit=2, device_limit=2)
    pool.open()
    probation.fail(pool)
    # Its job goes to the other slot first.
    probation.fail(pool, 1)
    assert list(pool.memory.probation.faults) == [DEVICE]
    agent = pool.agents["a"]
    agent.slots[1].state = states.SLOT_FAULTY
    pool.feed(agent.report())
    assert len(pool.memory.probation.faults) == 2
    assert begin(pool).slot == 0


def make_two_hosts() -> world.Conductor:
    """Both have a slot; on the first one, copy has failed twice."""
    made = world.Conductor(
        world.hosts(a=1, b=1),
        health=health.HealthOptions(slot_limit=99, device_limit=99),
        wait_timeout_s=1e6,
        report_timeout_s=1e6,
    )
    for _ in range(2):
        request_id = made.open()
        assert made.view(request_id).slot_host_name == "a"
        probation.fail(made)
        made.cancel(request_id)
        made.deliver_all()
        made.report()
    return made


def test_an_accelerator_is_kept_off_a_host_until_it_passes_there() -> None:
    pool = make_two_hosts()
    assert list(pool.memory.probation.faults) == [ACCELERATOR]
    assert pool.memory.probation.faulty_accelerators == {
        "a": {("copy", "medium")}
    }
    assert not pool.rows["slots"][1].faulty
    for conductor in ("first", "second"):
        request_id = pool.open()
        assert pool.view(request_id).slot_host_name == "b", conductor
        pool.cancel(request_id)
        pool.deliver_all()
        pool.boot_conductor()
        pool.report()
    order = begin(pool)
    assert (order.host_uuid, order.accelerator) == ("a", "copy")
    # Its slot is nobody's as long as it is tested.
    assert pool.view(pool.open()).slot_host_name == "b"
    assert state(pool, pool.open()) == states.QUEUED
    probation.end(pool, states.CLOSED, codes.OK)
    assert not pool.memory.probation.faults
    assert pool.view(f"r{pool.requests}").slot_host_name == "a"


def test_a_fault_from_before_shapes_were_told_is_of_all_shapes() -> None:
    pool = make_two_hosts()
    (row,) = pool.rows["faults"].values()
    pool.rows["faults"] = {row.id: dataclasses.replace(row, shape="")}
    pool.boot_conductor()
    pool.report()
    assert pool.view(pool.open()).slot_host_name == "b"
    order = begin(pool)
    assert order.host_uuid == "a"
    probation.end(pool, states.CLOSED, codes.OK)
    assert not pool.memory.probation.faults


def run(pool: world.Conductor, code: str, how: str = states.FAILED) -> None:
    """A session is served, and ends."""
    pool.open()
    pool.deliver_all()
    agent = pool.agents["a"]
    pool.feed(agent.prepared(0))
    agent.slots[0].state = states.SLOT_ACTIVE
    pool.feed(agent.report())
    probation.end(pool, how, code)


@pytest.mark.parametrize("code", [codes.CORE_FAILED, codes.WORKER_DIED])
def test_sessions_that_a_slot_fails_are_held_against_it(code) -> None:
    pool = probation.make_world(slot_limit=2)
    run(pool, code)
    run(pool, codes.OK, states.CLOSED)
    run(pool, code)
    assert not pool.memory.probation.faults
    run(pool, code)
    assert (fault(pool).reason, fault(pool).failures) == (code, 2)


@pytest.mark.parametrize(
    "code", [codes.INVALID_INPUT, codes.INVALID_PARAMS, codes.PROTOCOL_ERROR]
)
def test_what_clients_do_wrong_is_not(code) -> None:
    pool = probation.make_world()
    run(pool, code)
    assert not pool.memory.probation.faults


@pytest.fixture
def own_pool() -> world.Conductor:
    """A pool in which copy is a tenant's own."""
    made = probation.make_world(accelerator_limit=1, device_limit=1)
    library = made.memory.catalogue.library
    own = dataclasses.replace(world.PROFILE, projects=("p",))
    library.profiles["copy"] = own
    return made


def test_what_tenants_bring_fails_on_their_own_account(own_pool) -> None:
    run(own_pool, codes.CORE_FAILED)
    assert not own_pool.memory.probation.faults


def test_what_tenants_bring_may_not_get_into_slots(own_pool) -> None:
    own_pool.open()
    probation.fail(own_pool)
    assert not own_pool.memory.probation.faults


def prepare_many(**limits: int) -> world.Conductor:
    """Two slots are being prepared."""
    pool = probation.make_world(2, **limits)
    for _ in range(2):
        pool.open()
    pool.deliver_all()
    pool.report("a")
    return pool


def test_workers_that_go_with_their_agent_fail_nothing() -> None:
    pool = prepare_many(accelerator_limit=1, device_limit=1)
    agent = pool.agents["a"]
    # The agent knows that they were there, and nothing else.
    for slot in agent.slots:
        slot.state = states.SLOT_IDLE
        slot.session_id = slot.generation = None
    pool.feed(agent.report())
    assert pool.counts.reconciled["vanished"] == 2
    assert not pool.memory.probation.faults


def test_workers_that_die_at_once_are_one_failure_of_their_device() -> None:
    pool = prepare_many(slot_limit=99, device_limit=2)
    for times in (1, 2):
        for number in range(2):
            pool.agents["a"].end(
                number, states.PREPARE_FAILED, codes.WORKER_DIED, pool.now
            )
        pool.report("a")
        assert (DEVICE in pool.memory.probation.faults) == (times == 2)
        pool.now += 1.0
        pool.deliver_all()


def test_a_slot_that_its_agent_calls_faulty_is_tested() -> None:
    pool = probation.make_world()
    agent = pool.agents["a"]
    agent.slots[0].state = states.SLOT_FAULTY
    pool.feed(agent.report())
    assert fault(pool).reason == codes.SLOT_FAULTY
    pool.open()
    begin(pool)
    assert agent.slots[0].state == states.SLOT_PREPARING
    # It computes, and cannot be scrubbed.
    agent.end(0, states.CLOSED, codes.OK, pool.now)
    agent.slots[0].state = states.SLOT_FAULTY
    pool.feed(agent.report())
    assert "cannot be scrubbed" in fault(pool).last_test
    begin(pool, 2 * AFTER_S)
    probation.end(pool, states.CLOSED, codes.OK)
    assert state(pool) == states.PREPARING


def test_a_slot_whose_agent_takes_its_word_back_is_in_use_again() -> None:
    pool = probation.make_world()
    agent = pool.agents["a"]
    agent.slots[0].state = states.SLOT_FAULTY
    pool.feed(agent.report())
    begin(pool)
    # There is no worker that could do it.
    agent.end(0, states.PREPARE_FAILED, codes.SLOT_FAULTY, pool.now)
    agent.slots[0].state = states.SLOT_FAULTY
    pool.feed(agent.report())
    assert fault(pool).tests == 1
    agent.slots[0].state = states.SLOT_IDLE
    pool.feed(agent.report())
    assert not pool.memory.probation.faults
    pool.open()
    assert state(pool) == states.PREPARING


def test_without_an_accelerator_nothing_is_tested(pool) -> None:
    pool.feed(inputs.Library([]))
    wait(pool, 10 * AFTER_S)
    assert not probation.orders(pool)
    probation.load(pool, world.PROFILE)
    begin(pool, 1.0)


def test_two_tests_do_not_want_the_same_slot() -> None:
    pool = probation.make_world(accelerator_limit=1, slot_limit=99)
    probation.load(pool, *named("copy", "other"))
    for name in ("copy", "other"):
        request_id = pool.open(accelerator=name)
        probation.fail(pool)
        pool.cancel(request_id)
        pool.deliver_all()
        pool.report("a")
    assert len(pool.memory.probation.faults) == 2
    assert begin(pool).accelerator == "copy"
    probation.end(pool, states.CLOSED, codes.OK)
    # The other one has waited for the slot.
    assert begin(pool, 1.0).accelerator == "other"


@pytest.mark.parametrize(
    ("how", "code"),
    [
        (states.PREPARE_FAILED, codes.BITSTREAM_UNAVAILABLE),
        (states.CANCELLED, codes.SUPERSEDED),
    ],
)
def test_what_cannot_be_tested_in_one_slot_is_in_the_next(how, code) -> None:
    pool = probation.make_world(2, slot_limit=99, device_limit=1)
    pool.open()
    probation.fail(pool)
    tested = []
    for _ in range(3):
        tested.append(begin(pool).slot)
        probation.end(pool, how, code, tested[-1])
    assert tested == [0, 1, 0]


def test_a_new_slot_of_a_device_that_is_out_is_out() -> None:
    pool = probation.make_world(slot_limit=99, device_limit=1)
    pool.open()
    probation.fail(pool)
    pool.agents["a"].slots.append(world.Slot())
    pool.report("a")
    assert [row.faulty for row in pool.rows["slots"].values()] == [True] * 2
    assert state(pool) == states.QUEUED
    # Had the last leader died before it recorded that, the next one would.
    rows = pool.rows["slots"]
    rows[2] = dataclasses.replace(rows[2], faulty=False, fault_reason="")
    pool.boot_conductor()
    assert rows[2].faulty


def test_an_accelerator_comes_back_to_a_host_that_is_never_idle() -> None:
    pool = probation.make_world(accelerator_limit=1, slot_limit=99)
    probation.load(pool, *named("copy", "other"))
    request_id = pool.open()
    pool.open(accelerator="other")
    probation.fail(pool)
    pool.cancel(request_id)
    pool.deliver_all()
    pool.report("a")
    # The other one's session has the only slot, and stays.
    assert state(pool, "r2") == states.PREPARING
    pool.deliver_all()
    pool.feed(pool.agents["a"].prepared(0))
    pool.agents["a"].slots[0].state = states.SLOT_ACTIVE
    pool.report("a")
    wait(pool, 2 * AFTER_S)
    assert ACCELERATOR in pool.memory.probation.faults
    wait(pool, 1.0)
    assert not probation.orders(pool)
    assert not pool.memory.probation.faults
    assert not pool.rows["faults"][1].active


@pytest.mark.parametrize("is_tested", [False, True])
def test_accelerators_that_are_deleted_are_forgotten(is_tested) -> None:
    pool = make_two_hosts()
    wait(pool, AFTER_S if is_tested else 1.0)
    assert bool(pool.memory.probation.tests) == is_tested
    probation.load(pool, *named("other"))
    wait(pool, 1.0)
    assert not pool.memory.probation.faults
    assert not pool.memory.probation.tests
    assert not pool.rows["faults"][1].active
    # If there is one of that name again, it begins anew.
    probation.load(pool, world.PROFILE)
    assert pool.view(pool.open()).slot_host_name == "a"


def test_accelerators_are_forgotten_with_their_hosts() -> None:
    pool = make_two_hosts()
    del pool.memory.registry.hosts_by_id[1]
    probation.load(pool, *named("other"))
    wait(pool, 1.0)
    assert not pool.memory.probation.faults


def test_faults_go_with_their_host() -> None:
    pool = world.Conductor(world.hosts(a=0, b=1))
    pool.rows["faults"] = {
        number: db_api.FaultRecord(
            id=number,
            level=unit.level.value,
            target_id=unit.id,
            accelerator=unit.accelerator,
            shape=unit.shape,
            reason=codes.PROGRAM_FAILED,
            since=pool.now,
            next_test_at=pool.now,
        )
        for number, unit in enumerate(
            # Of the first host, and of what went with an earlier one.
            [
                ACCELERATOR,
                health.Unit(health.Level.ACCELERATOR, 9, "copy"),
                health.Unit(health.Level.SLOT, 9),
                health.Unit(health.Level.DEVICE, 9),
            ],
            start=1,
        )
    }
    pool.boot_conductor()
    assert list(pool.memory.probation.faults) == [ACCELERATOR]
    for agent in pool.agents.values():
        pool.feed(agent.report())
    pool.feed(inputs.ComputeDeleted("a"))
    assert list(pool.memory.probation.faults) == [ACCELERATOR]
    # It is asked before it is given up.
    for _ in range(30):
        pool.tick(1.0)
        pool.report("b")
    assert list(pool.memory.registry.hosts) == ["b"]
    assert not pool.memory.probation.faults
    assert not any(row.active for row in pool.rows["faults"].values())


def take(pool: world.Conductor) -> objects.AssignRequest:
    """Let the only test that is ordered begin."""
    (order,) = probation.orders(pool)
    pool.deliver_all()
    pool.report("a")
    return order


def test_an_operator_need_not_wait_for_a_test(pool) -> None:
    begin(pool)
    probation.end(pool, states.PREPARE_FAILED, codes.SELF_TEST_FAILED)
    assert probation.ask(pool) is None
    assert take(pool).self_test
    probation.end(pool, states.CLOSED, codes.OK)
    assert not pool.memory.probation.faults
    assert not pool.rows["faults"][1].active
    assert state(pool) == states.PREPARING


def test_one_that_was_asked_for_and_fails_counts_as_any(pool) -> None:
    pool.tick(1.0)
    for tests in (1, 2):
        assert probation.ask(pool) is None
        take(pool)
        probation.end(pool, states.PREPARE_FAILED, codes.SELF_TEST_FAILED)
        row = pool.rows["faults"][1]
        assert (row.active, row.tests) == (True, tests)
        assert row.next_test_at == pool.now + AFTER_S * 2**tests
    wait(pool, 4 * AFTER_S - 1)
    assert not probation.orders(pool)
    begin(pool, 1.0)


def test_a_test_under_way_is_enough(pool) -> None:
    begin(pool)
    assert probation.code_of(probation.ask(pool)) == codes.SLOT_IN_USE
    assert not probation.orders(pool)
    probation.end(pool, states.CLOSED, codes.OK)
    assert state(pool) == states.PREPARING


def test_a_slot_in_use_that_does_not_pass_is_out() -> None:
    pool = probation.make_world()
    assert probation.ask(pool) is None
    take(pool)
    # Nobody is given it meanwhile.
    pool.open()
    assert state(pool) == states.QUEUED
    probation.end(pool, states.PREPARE_FAILED, codes.SELF_TEST_FAILED)
    assert state(pool) == states.QUEUED
    row = pool.rows["faults"][1]
    assert (row.reason, row.active) == (codes.SELF_TEST_FAILED, True)
    assert (row.last_test, row.tests) == (f"{codes.SELF_TEST_FAILED}: ", 0)
    assert row.last_test_at == pool.now
    assert pool.rows["slots"][1].faulty
    begin(pool)
    probation.end(pool, states.CLOSED, codes.OK)
    assert state(pool) == states.PREPARING


@pytest.mark.parametrize(
    ("how", "code"),
    [
        (states.CLOSED, codes.OK),
        (states.PREPARE_FAILED, codes.BITSTREAM_UNAVAILABLE),
        (states.CANCELLED, codes.SUPERSEDED),
    ],
)
def test_a_slot_in_use_stays_so_otherwise(how, code) -> None:
    pool = probation.make_world()
    assert probation.ask(pool) is None
    take(pool)
    pool.open()
    probation.end(pool, how, code)
    assert not pool.memory.probation.faults
    assert not pool.rows["faults"]
    assert state(pool) == states.PREPARING


def test_what_is_being_tested_is_drained_before_it_is_disabled() -> None:
    pool = probation.make_world()
    assert probation.ask(pool) is None
    take(pool)
    administering.administer(pool, model.AdminState.DRAINING)
    wait(pool, 1.0)
    assert pool.rows["devices"][1].admin_state == "draining"
    probation.end(pool, states.CLOSED, codes.OK)
    wait(pool, 1.0)
    assert pool.rows["devices"][1].admin_state == "disabled"


@pytest.mark.parametrize("accelerator", ["copy", "other"])
def test_a_check_with_what_is_taken_off_its_host_says_nothing(
    accelerator,
) -> None:
    """It is that accelerator which fails, and not one slot more."""
    pool = probation.make_world(2, accelerator_limit=1, slot_limit=99)
    probation.load(pool, *named("copy", "other"))
    assert probation.ask(pool, accelerator) is None
    assert take(pool).slot == 0
    pool.open()
    probation.fail(pool, 1)
    assert fault(pool, ACCELERATOR)
    probation.end(pool, states.PREPARE_FAILED, codes.SELF_TEST_FAILED)
    assert (SLOT in pool.memory.probation.faults) == (accelerator == "other")


def test_a_test_that_was_asked_for_and_hangs_takes_the_slot_out() -> None:
    pool = probation.make_world()
    assert probation.ask(pool) is None
    take(pool)
    hang(pool)
    assert fault(pool).last_test == "PREPARE_TIMEOUT: not finished within 60 s"


def test_no_session_is_disturbed_by_a_test() -> None:
    pool = probation.make_world(2, slot_limit=99, device_limit=1)
    pool.open()
    pool.deliver_all()
    pool.feed(pool.agents["a"].prepared(0))
    assert probation.code_of(probation.ask(pool)) == codes.SLOT_IN_USE
    pool.open()
    probation.fail(pool, 1)
    assert fault(pool, DEVICE)
    assert probation.code_of(probation.ask(pool)) == codes.SLOT_IN_USE
    assert not probation.orders(pool)
    # In its other slot the device can be tested.
    assert probation.ask(pool, slot=1) is None
    assert take(pool).slot == 1
    assert probation.code_of(probation.ask(pool, slot=1)) == codes.SLOT_IN_USE
    probation.end(pool, states.CLOSED, codes.OK, 1)
    assert not pool.memory.probation.faults
    assert state(pool) == states.READY


def test_a_device_is_tested_in_one_slot_at_a_time() -> None:
    pool = probation.make_world(2, slot_limit=99, device_limit=1)
    pool.open()
    probation.fail(pool)
    assert probation.ask(pool) is None
    assert probation.code_of(probation.ask(pool, slot=1)) == codes.SLOT_IN_USE
    assert take(pool).slot == 0


def test_a_reserved_slot_is_not_tested_unless_it_is_out(pool) -> None:
    slot = pool.memory.registry.slots[1]
    slot.reserved_for = "an instance"
    assert probation.ask(pool) is None
    take(pool)
    probation.end(pool, states.CLOSED, codes.OK)
    pool.cancel("r1")
    pool.deliver_all()
    pool.report("a")
    assert probation.code_of(probation.ask(pool)) == codes.SLOT_IN_USE


def silence(pool: world.Conductor) -> None:
    pool.now += pool.settings.report_timeout_s + 1


def lose(pool: world.Conductor) -> None:
    pool.memory.registry.hosts["a"].up = False


def break_device(pool: world.Conductor) -> None:
    pool.memory.registry.devices[1].healthy = False


def start_slot(pool: world.Conductor) -> None:
    pool.agents["a"].slots[0].state = states.SLOT_STARTING
    pool.report("a")


def empty_library(pool: world.Conductor) -> None:
    pool.feed(inputs.Library([]))


@pytest.mark.parametrize(
    ("happens", "code"),
    [
        (silence, codes.HOST_DOWN),
        (lose, codes.HOST_DOWN),
        (break_device, codes.SLOT_NOT_TESTABLE),
        (start_slot, codes.SLOT_NOT_TESTABLE),
        (empty_library, codes.NO_COMPATIBLE_SLOT),
    ],
)
def test_where_a_test_makes_no_sense(happens, code) -> None:
    pool = probation.make_world()
    happens(pool)
    assert probation.code_of(probation.ask(pool)) == code
    assert not probation.orders(pool)
    assert not pool.memory.probation.tests


@pytest.mark.parametrize("passes", [True, False])
def test_a_slot_is_tested_before_its_device_is_enabled(passes) -> None:
    pool = probation.make_world()
    administering.administer(pool, model.AdminState.DISABLED)
    assert probation.ask(pool) is None
    take(pool)
    pool.open()
    if passes:
        probation.end(pool, states.CLOSED, codes.OK)
    else:
        probation.end(pool, states.PREPARE_FAILED, codes.SELF_TEST_FAILED)
    row = pool.rows["slots"][1]
    assert row.fault_reason == ("" if passes else codes.SELF_TEST_FAILED)
    assert pool.rows["devices"][1].admin_state == "disabled"
    assert state(pool) == states.QUEUED
    # A slot that has failed waits for the operator.
    wait(pool, 10 * AFTER_S)
    assert not probation.orders(pool)


def test_a_slot_is_not_tested_while_its_device_is_drained() -> None:
    pool = probation.make_world(2)
    pool.open()
    pool.deliver_all()
    pool.feed(pool.agents["a"].prepared(0))
    administering.administer(pool, model.AdminState.DRAINING)
    assert (
        probation.code_of(probation.ask(pool, slot=1))
        == codes.SLOT_NOT_TESTABLE
    )
    assert not probation.orders(pool)


def test_there_must_be_such_a_slot_and_accelerator(own_pool) -> None:
    for place in ({"host_uuid": "z"}, {"device": "z"}, {"slot": 9}):
        assert (
            probation.code_of(probation.ask(own_pool, **place))
            == codes.SLOT_NOT_FOUND
        )
    # What a tenant has brought is not for everybody.
    for name in ("z", "copy"):
        assert (
            probation.code_of(probation.ask(own_pool, name))
            == codes.UNKNOWN_ACCELERATOR
        )
    odd = dataclasses.replace(world.PROFILE, name="odd", shapes=("odd",))
    probation.load(own_pool, odd)
    assert (
        probation.code_of(probation.ask(own_pool, "odd"))
        == codes.NO_COMPATIBLE_SLOT
    )
    assert not probation.orders(own_pool)


def test_an_operator_has_an_accelerator_tested() -> None:
    pool = make_two_hosts()
    probation.load(pool, *named("copy", "other"))
    # What fails here says nothing of a slot that is well.
    for _ in range(3):
        assert probation.ask(pool) is None
        assert take(pool).accelerator == "other"
        probation.end(pool, states.CLOSED, codes.OK)
        assert list(pool.memory.probation.faults) == [ACCELERATOR]
    assert probation.ask(pool, "copy") is None
    assert take(pool).accelerator == "copy"
    probation.end(pool, states.PREPARE_FAILED, codes.SELF_TEST_FAILED)
    # It is not the slot's fault.
    assert list(pool.memory.probation.faults) == [ACCELERATOR]
    assert fault(pool, ACCELERATOR).tests == 1
    assert probation.ask(pool, "copy") is None
    take(pool)
    probation.end(pool, states.CLOSED, codes.OK)
    assert not pool.memory.probation.faults
    assert pool.view(pool.open()).slot_host_name == "a"


def test_accelerators_take_turns_in_what_is_asked_for() -> None:
    pool = probation.make_world()
    probation.load(pool, *named("a", "b"))
    tested = []
    for _ in range(3):
        assert probation.ask(pool) is None
        tested.append(take(pool).accelerator)
        probation.end(pool, states.CLOSED, codes.OK)
    assert tested == ["a", "b", "a"]


def test_the_next_leader_knows_what_was_asked_for_and_failed() -> None:
    pool = probation.make_world()
    assert probation.ask(pool) is None
    take(pool)
    probation.end(pool, states.PREPARE_FAILED, codes.SELF_TEST_FAILED)
    before = fault(pool)
    pool.boot_conductor()
    pool.report("a")
    assert fault(pool) == before
