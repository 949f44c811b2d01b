# SPDX-License-Identifier: Apache-2.0

"""The slot table against a well-behaved and against a hostile world."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpgapool import objects
from fpgapool.agent.slots import orders
from fpgapool.agent.slots import slot as slots
from fpgapool.agent.slots import table
from fpgapool.rpcapi import agent as agent_api
from fpgapool.vocabulary import codes
from tests.unit.agent import factories
from tests.unit.agent.slots import steps


def test_a_slots_line_is_the_same_object_until_it_changes():
    tab = steps.ready()
    drawn_j = {steps.KEY: 1.0, ("board0", 1): None}

    def line(now: float) -> objects.SlotReport:
        return tab.device_reports(drawn_j.__getitem__, now)[0].slots[0]

    first = line(0.0)
    assert first.to_primitive() is first.to_primitive()
    drawn_j[steps.KEY] = 2.0
    assert line(0.5) is first
    # A holder's energy alone can wait.
    assert line(slots.ENERGY_S).energy_j == 2.0
    drawn_j[steps.KEY] = 3.0
    tab.worker_status(steps.KEY, factories.status("active", 7), 0.0)
    changed = line(slots.ENERGY_S)
    assert (changed.state, changed.energy_j) == ("active", 3.0)
    assert steps.report(tab) == dataclasses.replace(changed, energy_j=None)


def test_a_slot_without_a_worker_is_starting():
    tab = factories.make_table()
    assert steps.report(tab).state == "starting"
    steps.up(tab)
    assert steps.report(tab).state == "idle"


def test_assign_goes_to_the_worker_and_shows_at_once():
    tab = factories.make_table()
    steps.up(tab)
    effects = tab.assign(steps.EPOCH, factories.assign_request(7), 0.0)
    assert steps.to_worker(effects) == [("assign", 7)]
    assert orders.Changed() in effects
    slot = steps.report(tab)
    assert (slot.state, slot.session_id, slot.generation) == (
        "preparing",
        "session-7",
        7,
    )
    assert slot.seen_generation == 7
    assert tab.leader_epoch == steps.EPOCH


def test_assign_before_the_worker_is_up_waits_for_it():
    tab = factories.make_table()
    assert (
        steps.to_worker(tab.assign(1, factories.assign_request(7), 0.0)) == []
    )
    tab.worker_connected(steps.KEY)
    effects = tab.worker_status(steps.KEY, factories.status(), 0.0)
    assert steps.to_worker(effects) == [("assign", 7)]


def test_assign_is_sent_again_over_a_new_connection_only_if_unknown():
    tab = factories.make_table()
    steps.up(tab)
    tab.assign(1, factories.assign_request(7), 0.0)
    tab.worker_disconnected(steps.KEY)
    tab.worker_connected(steps.KEY)
    effects = tab.worker_status(steps.KEY, factories.status(), 0.0)
    assert steps.to_worker(effects) == [("assign", 7)]
    tab.worker_disconnected(steps.KEY)
    tab.worker_connected(steps.KEY)
    effects = tab.worker_status(
        steps.KEY, factories.status("preparing", 7), 0.0
    )
    assert steps.to_worker(effects) == []


def test_prepared_carries_local_and_data_endpoints():
    tab = steps.assigned()
    (prepared,) = tab.worker_prepared(steps.KEY, 7, "ab" * 32)
    assert [
        (one.network, one.address, one.port) for one in prepared.endpoints
    ] == [("local", "", 0), ("data", "192.0.2.7", 4711)]
    assert (prepared.secret, prepared.certificate_sha256) == (
        "ab" * 32,
        "cd" * 32,
    )
    assert (prepared.session_id, prepared.generation) == ("session-7", 7)


def test_prepared_without_a_data_address_is_local_only():
    tab = factories.make_table(data_address=None)
    steps.up(tab)
    tab.assign(1, factories.assign_request(7), 0.0)
    (effect,) = tab.worker_prepared(steps.KEY, 7, "ab" * 32)
    assert [one.network for one in effect.endpoints] == ["local"]


def told_line(tab: table.SlotTable) -> objects.SlotReport:
    """What the conductor hears of the slot."""
    return tab.device_reports(lambda _key: None)[0].slots[0]


IN_USE = {
    "last_project_id": factories.PROJECT,
    "certificate_sha256": "cd" * 32,
}


def test_an_idle_slot_says_where_a_client_can_come():
    tab = factories.make_table()
    assert told_line(tab).offer is None
    tab.worker_connected(steps.KEY)
    tab.worker_status(steps.KEY, factories.status(**IN_USE), 0.0)
    offer = told_line(tab).offer
    assert [one.network for one in offer.endpoints] == ["local", "data"]
    assert offer.endpoints[1].port == 4711
    assert offer.project_id == factories.PROJECT
    assert offer.certificate_sha256 == "cd" * 32
    tab.worker_status(
        steps.KEY, factories.status(is_stale=True, **IN_USE), 0.0
    )
    assert told_line(tab).offer is None
    tab.worker_status(steps.KEY, factories.status(**IN_USE), 0.0)
    assert told_line(tab).offer == offer
    tab.worker_disconnected(steps.KEY)
    assert told_line(tab).offer is None


@pytest.mark.parametrize(
    ("state", "is_member", "offers"),
    [
        ("preparing", False, False),
        ("ready", False, True),
        ("active", False, True),
        ("active", True, False),
        ("detached", False, False),
    ],
)
def test_a_slot_in_use_says_where_the_next_client_can_come(
    state, is_member, offers
):
    tab = factories.make_table()
    steps.up(tab)
    tab.assign(steps.EPOCH, factories.assign_request(7), 0.0)
    assert told_line(tab).offer is None
    tab.worker_status(
        steps.KEY, factories.status(state, 7, is_member=is_member), 0.0
    )
    assert bool(told_line(tab).offer) == offers


def offered(**changes: object) -> table.SlotTable:
    """A slot whose client was told to come while the order was under way."""
    tab = factories.make_table()
    tab.worker_connected(steps.KEY)
    tab.worker_status(steps.KEY, factories.status(**IN_USE), 0.0)
    offer = told_line(tab).offer
    assert offer is not None
    wish = {"offer": offer, "secret_sha256": "ef" * 32} | changes
    tab.assign(steps.EPOCH, factories.assign_request(7, **wish), 0.0)
    told_line(tab)
    tab.worker_status(
        steps.KEY, factories.status("preparing", 7, **IN_USE), 0.0
    )
    return tab


def test_the_conductor_is_not_told_what_its_client_knows():
    assert offered().worker_prepared(steps.KEY, 7, "") == []


@pytest.mark.parametrize(
    ("changes", "secret", "certificate_sha256"),
    [
        pytest.param({"offer": None}, "", "cd" * 32, id="not offered"),
        pytest.param(
            {"offer": objects.Offer(endpoints=())},
            "",
            "cd" * 32,
            id="offered with a former worker",
        ),
        pytest.param({}, "ab" * 32, "cd" * 32, id="a new secret"),
        pytest.param({}, "", "00" * 32, id="another worker"),
    ],
)
def test_the_conductor_is_told_what_its_client_does_not_know(
    changes, secret, certificate_sha256
):
    tab = offered(**changes)
    worker = {**IN_USE, "certificate_sha256": certificate_sha256}
    tab.worker_status(
        steps.KEY, factories.status("preparing", 7, **worker), 0.0
    )
    (told,) = tab.worker_prepared(steps.KEY, 7, secret)
    assert (told.secret, told.certificate_sha256) == (
        secret,
        certificate_sha256,
    )


def test_prepared_of_another_generation_is_dropped():
    assert steps.assigned().worker_prepared(steps.KEY, 6, "ab" * 32) == []


def test_lower_epochs_are_refused():
    tab = steps.ready()
    before = tab.device_reports()
    assert tab.assign(4, factories.assign_request(9, slot=1), 0.0) == []
    assert tab.release(4, steps.KEY, "session-7", 7, "HOST_LOST", 0.0) == []
    assert tab.reissue_secret(4, steps.KEY, 7) == []
    assert tab.device_reports() == before
    assert tab.refusals["epoch"] == 3
    assert tab.leader_epoch == steps.EPOCH


def test_lower_generations_are_refused():
    tab = steps.ready()
    before = tab.device_reports()
    effects = tab.assign(steps.EPOCH, factories.assign_request(6), 0.0)
    effects += tab.release(
        steps.EPOCH, steps.KEY, "session-6", 6, "HOST_LOST", 0.0
    )
    effects += tab.reissue_secret(steps.EPOCH, steps.KEY, 6)
    assert effects == [orders.Changed()] * 3
    assert tab.device_reports() == before
    assert tab.refusals["generation"] == 3


def test_what_a_leader_that_never_was_assigned_is_taken_back():
    """The agent has been started again, and so forgot that leader."""
    stray = (steps.EPOCH + 1 << agent_api.GENERATION_BITS) + 7
    tab = factories.make_table()
    tab.worker_connected(steps.KEY)
    tab.worker_status(steps.KEY, factories.status("ready", stray), 0.0)
    effects = tab.reissue_secret(steps.EPOCH, steps.KEY, stray)
    effects += tab.release(
        steps.EPOCH, steps.KEY, "x", stray, "HOST_LOST", 0.0
    )
    assert steps.to_worker(effects) == [
        ("reissue_secret", stray),
        ("release", stray),
    ]
    assert not tab.refusals


def test_releases_raise_generations_to_those_of_leaders_only():
    tab = factories.make_table()
    steps.up(tab)
    stray = steps.EPOCH + 1 << agent_api.GENERATION_BITS
    tab.release(steps.EPOCH, steps.KEY, "x", stray, "HOST_LOST", 0.0)
    assert tab.refusals == {"generation": 1}
    assert steps.report(tab).seen_generation == 0
    tab.release(steps.EPOCH, steps.KEY, "x", stray - 1, "HOST_LOST", 0.0)
    assert steps.report(tab).seen_generation == stray - 1


@pytest.mark.parametrize(
    "changes", [{"slot": 9}, {"device": "other"}, {"host_uuid": "other"}]
)
def test_unknown_slots_are_refused(changes):
    tab = factories.make_table()
    request = dataclasses.replace(factories.assign_request(1), **changes)
    assert tab.assign(1, request, 0.0) == [orders.Changed()]
    assert tab.refusals["slot"] == 1


def test_a_held_slot_is_not_given_away():
    tab = steps.ready()
    assert tab.assign(steps.EPOCH, factories.assign_request(8), 0.0) == [
        orders.Changed()
    ]
    assert tab.refusals["busy"] == 1
    # Nothing was noted, so that the repeat works once the slot is free.
    assert steps.report(tab).seen_generation == 7


def test_a_repeated_assign_sends_prepared_again_until_the_client_comes():
    tab = steps.ready()
    effects = tab.assign(steps.EPOCH, factories.assign_request(7), 0.0)
    assert [type(one) for one in effects] == [
        objects.Prepared,
        orders.Changed,
    ]
    tab.worker_status(steps.KEY, factories.status("active", 7), 0.0)
    effects = tab.assign(steps.EPOCH, factories.assign_request(7), 0.0)
    assert effects == [orders.Changed()]


def test_a_secret_that_an_earlier_agent_got_is_minted_anew():
    tab = factories.make_table()
    tab.worker_connected(steps.KEY)
    tab.worker_status(steps.KEY, factories.status("ready", 7), 0.0)
    effects = tab.assign(steps.EPOCH, factories.assign_request(7), 0.0)
    assert steps.to_worker(effects) == [("reissue_secret", 7)]


def test_reissue_only_for_a_ready_session():
    tab = steps.ready()
    assert steps.to_worker(tab.reissue_secret(steps.EPOCH, steps.KEY, 7)) == [
        ("reissue_secret", 7)
    ]
    tab.worker_status(steps.KEY, factories.status("active", 7), 0.0)
    assert steps.to_worker(tab.reissue_secret(steps.EPOCH, steps.KEY, 7)) == []


def test_release_goes_to_the_worker_and_its_result_is_reported():
    tab = steps.ready()
    effects = tab.release(
        steps.EPOCH, steps.KEY, "session-7", 7, "HOST_LOST", 0.0
    )
    assert steps.to_worker(effects) == [("release", 7)]
    done = factories.result(7, "CANCELLED", "HOST_LOST")
    tab.worker_status(
        steps.KEY, factories.status(seen_generation=7, last_result=done), 0.0
    )
    slot = steps.report(tab)
    assert (slot.state, slot.session_id) == ("idle", None)
    assert slot.last_result == done


def test_release_before_the_worker_is_up_ends_at_once():
    tab = factories.make_table()
    tab.assign(1, factories.assign_request(7), 0.0)
    tab.release(1, steps.KEY, "session-7", 7, "CLIENT_GONE", 3.0)
    slot = steps.report(tab)
    assert slot.session_id is None
    assert (slot.last_result.state, slot.last_result.code) == (
        "CANCELLED",
        "CLIENT_GONE",
    )
    tab.worker_connected(steps.KEY)
    assert (
        steps.to_worker(tab.worker_status(steps.KEY, factories.status(), 0.0))
        == []
    )


def test_release_that_overtakes_its_assign_makes_it_void():
    tab = factories.make_table()
    steps.up(tab)
    tab.release(1, steps.KEY, "session-7", 7, "CLIENT_GONE", 3.0)
    assert steps.report(tab).last_result.state == "CANCELLED"
    effects = tab.assign(1, factories.assign_request(7), 4.0)
    assert effects == [orders.Changed()]
    assert steps.report(tab).state == "idle"


def test_release_of_the_next_holder_leaves_the_present_one_alone():
    tab = steps.ready()
    tab.release(steps.EPOCH, steps.KEY, "session-8", 8, "CLIENT_GONE", 0.0)
    assert steps.report(tab).session_id == "session-7"
    effects = tab.release(
        steps.EPOCH, steps.KEY, "session-7", 7, "CLIENT_GONE", 0.0
    )
    assert steps.to_worker(effects) == [("release", 7)]


def test_a_worker_that_does_not_release_is_ended():
    tab = steps.ready()
    tab.release(steps.EPOCH, steps.KEY, "session-7", 7, "CLIENT_GONE", 100.0)
    assert tab.tick(109.9) == []
    (effect,) = tab.tick(110.0)
    assert isinstance(effect, orders.EndWorker)
    assert effect.key == steps.KEY
    tab.worker_died(steps.KEY, 111.0)
    last = steps.report(tab).last_result
    assert (last.state, last.code) == ("CANCELLED", "CLIENT_GONE")
    assert tab.tick(200.0) == []


def test_repeating_a_release_does_not_put_off_its_deadline():
    tab = steps.ready()
    tab.release(steps.EPOCH, steps.KEY, "session-7", 7, "CLIENT_GONE", 100.0)
    tab.release(steps.EPOCH, steps.KEY, "session-7", 7, "CLIENT_GONE", 109.0)
    assert len(tab.tick(110.0)) == 1


@pytest.mark.parametrize("state", ["active", "detached"])
def test_the_death_of_a_worker_ends_its_session(state):
    tab = steps.ready()
    tab.worker_status(
        steps.KEY,
        factories.status(state, 7, input_bytes=30, output_bytes=20),
        0.0,
    )
    assert tab.worker_died(steps.KEY, 9.0) == [orders.Changed()]
    slot = steps.report(tab)
    last = slot.last_result
    assert (slot.state, slot.session_id) == ("starting", None)
    assert (last.state, last.code, last.generation) == (
        "FAILED",
        "WORKER_DIED",
        7,
    )
    assert (last.input_bytes, last.output_bytes) == (30, 20)
    assert slot.seen_generation == 7
    # Its successor knows nothing of the session, and that changes nothing.
    steps.up(tab)
    assert steps.report(tab).last_result == last


@pytest.mark.parametrize("make", [steps.assigned, steps.ready])
def test_a_worker_that_dies_before_the_client_comes_lets_the_job_go_elsewhere(
    make,
):
    tab = make()
    tab.worker_died(steps.KEY, 9.0)
    last = steps.report(tab).last_result
    assert (last.state, last.code) == ("PREPARE_FAILED", "WORKER_DIED")


@pytest.mark.parametrize("make", [steps.assigned, steps.ready])
def test_a_session_that_uses_up_a_workers_memory_gets_no_other_slot(make):
    tab = make()
    table.worker_ran_out(tab, steps.KEY, 9.0)
    last = steps.report(tab).last_result
    assert (last.state, last.code) == ("FAILED", "OUT_OF_MEMORY")
    # Nor is it reopened, to do the same again.
    assert last.code not in codes.REOPENABLE | codes.SLOT_FAULTS


def test_the_death_of_an_idle_worker_keeps_the_last_result():
    tab = steps.ready()
    done = factories.result(7)
    tab.worker_status(
        steps.KEY, factories.status(seen_generation=7, last_result=done), 0.0
    )
    tab.worker_died(steps.KEY, 9.0)
    assert steps.report(tab).last_result == done


def test_a_lost_control_connection_changes_nothing_for_the_holder():
    tab = steps.ready()
    before = dataclasses.replace(steps.report(tab), offer=None)
    tab.worker_disconnected(steps.KEY)
    assert steps.report(tab) == before


def test_a_recycled_worker_hands_the_assignment_to_its_successor():
    tab = factories.make_table()
    steps.up(tab)
    tab.assign(1, factories.assign_request(7), 0.0)
    tab.worker_refused(steps.KEY, 7, codes.RECYCLE, "", 0.0)
    assert (
        steps.to_worker(tab.worker_status(steps.KEY, factories.status(), 0.0))
        == []
    )
    assert steps.report(tab).state == "preparing"
    tab.worker_disconnected(steps.KEY)
    tab.worker_died(steps.KEY, 0.0)
    tab.worker_connected(steps.KEY)
    effects = tab.worker_status(steps.KEY, factories.status(), 0.0)
    assert steps.to_worker(effects) == [("assign", 7)]


def test_a_refused_assign_is_a_failed_preparation():
    tab = factories.make_table()
    steps.up(tab)
    tab.assign(1, factories.assign_request(7), 0.0)
    tab.worker_refused(steps.KEY, 7, "SLOT_FAULTY", "it is broken", 1.0)
    slot = steps.report(tab)
    assert slot.session_id is None
    assert (slot.last_result.state, slot.last_result.code) == (
        "PREPARE_FAILED",
        "SLOT_FAULTY",
    )


def test_an_unstartable_worker_makes_the_slot_faulty_until_one_starts():
    tab = factories.make_table()
    tab.assign(1, factories.assign_request(7), 0.0)
    tab.worker_unstartable(steps.KEY, "no memory", 1.0)
    assert steps.report(tab).state == "faulty"
    assert steps.report(tab).last_result.state == "PREPARE_FAILED"
    assert tab.worker_unstartable(steps.KEY, "no memory", 2.0) == []
    steps.up(tab)
    assert steps.report(tab).state == "idle"


def test_a_sick_device_takes_nobody():
    tab = factories.make_table()
    steps.up(tab)
    assert tab.device_health("board0", "too hot") == [orders.Changed()]
    assert tab.device_health("board0", "too hot") == []
    device = tab.device_reports()[0]
    assert (device.healthy, device.message) == (False, "too hot")
    tab.assign(1, factories.assign_request(7), 1.0)
    last = steps.report(tab).last_result
    assert (last.state, last.code) == ("PREPARE_FAILED", "DEVICE_FAILED")
    assert tab.device_health("board0", None) == [orders.Changed()]
    assert tab.device_reports()[0].healthy


def test_a_slot_that_only_seemed_free_keeps_its_holder():
    tab = factories.make_table()
    tab.assign(1, factories.assign_request(9), 0.0)
    tab.worker_connected(steps.KEY)
    effects = tab.worker_status(steps.KEY, factories.status("active", 7), 1.0)
    assert steps.to_worker(effects) == []
    slot = steps.report(tab)
    assert (slot.session_id, slot.state) == ("session-7", "active")
    assert slot.last_result.generation == 9
    assert slot.last_result.state == "PREPARE_FAILED"


def test_holders_are_found():
    tab = steps.ready()
    ((key, holder),) = tab.holders().items()
    assert (key, holder.session_id) == (steps.KEY, "session-7")
    assert (holder.project_id, holder.generation) == (factories.PROJECT, 7)


class Table:
    """A worker behind a table: does what it is told, and may die."""

    def __init__(self) -> None:
        self.table = factories.make_table(slots=1)
        self.started: list[int] = []
        self.spawn()

    def spawn(self) -> None:
        self.holder: int | None = None
        self.seen = 0
        self.last = None
        self.table.worker_connected(steps.KEY)
        self.tell()

    def tell(self) -> None:
        state = "idle" if self.holder is None else "active"
        self.execute(
            self.table.worker_status(
                steps.KEY,
                factories.status(
                    state, self.holder, self.seen, last_result=self.last
                ),
                0.0,
            )
        )

    def execute(self, effects: list[orders.Effect]) -> None:
        for operation, generation in steps.to_worker(effects):
            if operation == "assign" and generation > self.seen:
                assert self.holder is None
                self.holder = self.seen = generation
                self.last = None
                self.started.append(generation)
                self.tell()
            elif operation == "release" and generation == self.holder:
                self.holder = None
                self.last = factories.result(generation, "CANCELLED")
                self.tell()

    def command(self, kind: str, epoch: int, generation: int) -> None:
        if kind in ("assign", "next"):
            after = (self.holder or 0) if kind == "next" else 0
            request = factories.assign_request(
                generation, after_generation=after
            )
            self.execute(self.table.assign(epoch, request, 0.0))
        elif kind == "give_back":
            self.execute(self.table.tick(table.NEXT_S))
        elif kind == "release":
            self.execute(
                self.table.release(
                    epoch,
                    steps.KEY,
                    f"session-{generation}",
                    generation,
                    "CLIENT_GONE",
                    0.0,
                )
            )
        elif kind == "die":
            self.execute(self.table.worker_died(steps.KEY, 0.0))
            self.spawn()


def commands_of(*kinds: str) -> st.SearchStrategy:
    return st.lists(
        st.tuples(
            st.sampled_from(kinds), st.integers(1, 3), st.integers(1, 6)
        ),
        max_size=40,
    )


COMMANDS = commands_of("assign", "release", "die")


@given(commands_of("assign", "next", "release", "die", "give_back"))
def test_no_generation_runs_twice_and_none_goes_back(commands):
    world = Table()
    highest_epoch = 0
    for kind, epoch, generation in commands:
        before = world.table.device_reports()
        world.command(kind, epoch, generation)
        slot = steps.report(world.table)
        is_command = kind not in ("die", "give_back")
        if is_command and epoch < highest_epoch:
            assert world.table.device_reports() == before
        elif is_command:
            highest_epoch = epoch
        assert slot.seen_generation >= before[0].slots[0].seen_generation
        assert slot.generation == world.holder
        assert (slot.state == "idle") == (world.holder is None)
    assert world.started == sorted(set(world.started))


@given(COMMANDS, st.data())
def test_repeating_commands_changes_nothing(commands, data):
    """Every command may come again later, as long as the newest one is."""
    once, doubled = Table(), Table()
    sent: list[tuple[str, int, int]] = []
    for generation, (kind, _epoch, _generation) in enumerate(commands, 1):
        if kind == "die":
            continue
        # A leader that does things in order, each with its repeats.
        command = (kind, 1, generation if kind == "assign" else generation - 1)
        sent.append(command)
        once.command(*command)
        doubled.command(*command)
        assert steps.report(once.table) == steps.report(doubled.table)
        if steps.report(doubled.table).state == "idle":
            repeat = data.draw(st.sampled_from(sent))
            if repeat[2] <= steps.report(doubled.table).seen_generation:
                doubled.command(*repeat)
        else:
            doubled.command(*command)
        assert steps.report(once.table) == steps.report(doubled.table)
    assert once.started == doubled.started


@pytest.mark.parametrize("beyond", [False, True])
def test_reports_tell_that_a_session_exceeds_the_limit_of_its_order(beyond):
    tab = steps.ready()
    status = factories.status("active", 7, beyond_claim=beyond)
    tab.worker_status(steps.KEY, status, 0.0)
    assert steps.report(tab).beyond_claim is beyond


def next_order(generation: int = 8, after: int = 7) -> objects.AssignRequest:
    return factories.assign_request(generation, after_generation=after)


def test_the_next_order_begins_when_the_holder_has_left():
    tab = steps.ready()
    assert tab.assign(steps.EPOCH, next_order(), 0.0) == []
    line = steps.report(tab)
    assert (line.generation, line.seen_generation) == (7, 7)
    gone = factories.status("idle", None, 7, last_result=factories.result(7))
    effects = tab.worker_status(steps.KEY, gone, 0.2)
    assert steps.to_worker(effects) == [("assign", 8)]
    assert orders.Changed(at_once=True) in effects
    line = steps.report(tab)
    assert (line.generation, line.seen_generation) == (8, 8)
    assert line.previous_result == factories.result(7)


def test_the_next_order_begins_on_another_worker():
    tab = steps.ready()
    tab.assign(steps.EPOCH, next_order(), 0.0)
    tab.worker_died(steps.KEY, 0.1)
    assert steps.report(tab).generation == 8
    tab.worker_connected(steps.KEY)
    effects = tab.worker_status(steps.KEY, factories.status(), 0.2)
    assert steps.to_worker(effects) == [("assign", 8)]


def test_the_next_order_is_given_back_if_the_holder_stays():
    tab = steps.ready()
    tab.assign(steps.EPOCH, next_order(), 0.0)
    assert tab.tick(table.NEXT_S / 2) == []
    assert tab.tick(table.NEXT_S) == [orders.Changed(at_once=True)]
    line = steps.report(tab)
    assert (line.generation, line.seen_generation) == (7, 8)
    # It does not begin any more, even if it is repeated.
    gone = factories.status("idle", None, 7, last_result=factories.result(7))
    assert steps.to_worker(tab.worker_status(steps.KEY, gone, 1.0)) == []
    assert steps.to_worker(tab.assign(steps.EPOCH, next_order(), 1.0)) == []


def test_the_next_order_is_released():
    tab = steps.ready()
    tab.assign(steps.EPOCH, next_order(), 0.0)
    tab.release(steps.EPOCH, steps.KEY, "session-8", 8, "WHY", 0.1)
    line = steps.report(tab)
    assert (line.state, line.generation, line.seen_generation) == (
        "ready",
        7,
        8,
    )


@pytest.mark.parametrize("stays", [False, True])
def test_a_release_of_a_later_order_ends_the_next_one(stays):
    """The next one's own release was lost, and the later order, too."""
    tab = steps.ready()
    tab.assign(steps.EPOCH, next_order(), 0.0)
    tab.release(steps.EPOCH, steps.KEY, "session-9", 9, "WHY", 0.1)
    if stays:
        tab.tick(table.NEXT_S)
    gone = factories.status("idle", None, 7, last_result=factories.result(7))
    assert steps.to_worker(tab.worker_status(steps.KEY, gone, 1.0)) == []
    line = steps.report(tab)
    assert (line.generation, line.seen_generation) == (None, 9)
    assert line.last_result == factories.result(7)


@pytest.mark.parametrize(
    "end",
    [
        lambda tab: tab.release(
            steps.EPOCH, steps.KEY, "session-7", 7, "WHY", 0.1
        ),
        lambda tab: tab.bitstream_failed(steps.KEY, 7, "WHY", "", 0.1),
    ],
)
def test_the_next_order_begins_if_the_holder_never_did(end):
    tab = factories.make_table()
    steps.up(tab)
    reference = objects.BitstreamRef(
        bitstream_id="b-1", checksum_sha256="1f" * 32, size_bytes=1
    )
    first = factories.assign_request(7, bitstream_ref=reference)
    tab.assign(steps.EPOCH, first, 0.0)
    tab.assign(steps.EPOCH, next_order(), 0.0)
    assert steps.to_worker(end(tab)) == [("assign", 8)]
    line = steps.report(tab)
    assert line.generation == 8
    assert (line.previous_result.generation, line.previous_result.code) == (
        7,
        "WHY",
    )


def test_a_release_that_comes_before_the_next_order_keeps_the_last_result():
    tab = steps.ready()
    gone = factories.status("idle", None, 7, last_result=factories.result(7))
    tab.worker_status(steps.KEY, gone, 0.1)
    tab.release(steps.EPOCH, steps.KEY, "session-8", 8, "WHY", 0.1)
    line = steps.report(tab)
    assert line.last_result.generation == 8
    assert line.previous_result == factories.result(7)


@pytest.mark.parametrize("end", ["CANCELLED", "EXPIRED", "PREPARE_FAILED"])
def test_the_result_of_the_last_client_is_kept_until_another_comes(end):
    """A leader that cannot write gives a slot away again and again."""
    served = dataclasses.replace(factories.result(7), started_at=0.5)
    tab = steps.ready()
    gone = factories.status("idle", None, 7, last_result=served)
    tab.worker_status(steps.KEY, gone, 0.1)
    for generation in (8, 9):
        request = factories.assign_request(generation)
        tab.assign(steps.EPOCH, request, 0.2)
        unused = factories.result(generation, end, "WHY")
        gone = factories.status("idle", None, generation, last_result=unused)
        tab.worker_status(steps.KEY, gone, 0.3)
        assert steps.report(tab).last_result == unused
        assert steps.report(tab).previous_result == served
    tab.release(steps.EPOCH, steps.KEY, "session-10", 10, "WHY", 0.4)
    assert steps.report(tab).previous_result == served
    # Those of others are of use again once one has had a client.
    used = dataclasses.replace(factories.result(11), started_at=0.5)
    tab.assign(steps.EPOCH, factories.assign_request(11), 0.5)
    gone = factories.status("idle", None, 11, last_result=used)
    tab.worker_status(steps.KEY, gone, 0.6)
    tab.assign(steps.EPOCH, factories.assign_request(12), 0.7)
    assert steps.report(tab).previous_result == used


def test_the_last_result_counts_if_no_client_has_come_before():
    tab = steps.ready()
    unused = factories.result(7, "CANCELLED", "WHY")
    gone = factories.status("idle", None, 7, last_result=unused)
    tab.worker_status(steps.KEY, gone, 0.1)
    tab.assign(steps.EPOCH, factories.assign_request(8), 0.2)
    assert steps.report(tab).previous_result == unused


@pytest.mark.parametrize("after", [0, 6])
def test_an_order_for_after_another_holder_is_refused(after):
    tab = steps.ready()
    tab.assign(steps.EPOCH, next_order(after=after), 0.0)
    assert tab.refusals["busy"] == 1


def test_the_next_order_fails_if_the_slot_does():
    tab = steps.ready()
    tab.assign(steps.EPOCH, next_order(), 0.0)
    gone = factories.status("faulty", None, 7, last_result=factories.result(7))
    tab.worker_status(steps.KEY, gone, 0.1)
    line = steps.report(tab)
    assert (line.last_result.generation, line.last_result.code) == (
        8,
        codes.SLOT_FAULTY,
    )
    assert line.previous_result == factories.result(7)


def test_a_new_agent_tells_the_result_before_the_holder():
    tab = factories.make_table()
    tab.worker_connected(steps.KEY)
    status = factories.status("active", 8, previous_result=factories.result(7))
    tab.worker_status(steps.KEY, status, 0.0)
    assert steps.report(tab).previous_result == factories.result(7)
