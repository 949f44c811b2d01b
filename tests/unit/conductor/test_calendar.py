# SPDX-License-Identifier: Apache-2.0

"""Reservations by calendar: admitted, begun, used, released, moved, ended."""

import dataclasses
import uuid

import pytest

from fpgapool import objects
from fpgapool.common import exception
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions.calendar import book
from fpgapool.conductor.decisions.calendar import keeping
from fpgapool.core import model
from fpgapool.db import api as db_api
from fpgapool.db import calendar as stored
from fpgapool.objects import identity
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import reservation
from fpgapool.vocabulary import states
from tests.unit.conductor import world

DAY_S = 86400.0
HOST, OTHER = (str(uuid.UUID(int=number)) for number in (1, 2))


def make_pool(*slots: int, **settings: object) -> world.Conductor:
    counts = slots or (4,)
    agents = [
        world.FakeAgent(name, count)
        for name, count in zip((HOST, OTHER), counts, strict=False)
    ]
    pool = world.Conductor(agents, **{"max_hold_s": 3600.0} | settings)
    stateful = world.library("ec").records[0]
    stateful.profile["stateless"] = False
    pool.feed(
        inputs.Library((*world.library("copy", "aes").records, stateful))
    )
    pool.report()
    return pool


def reserve(
    pool: world.Conductor,
    start_in_s: float = 1000.0,
    length_s: float = 600.0,
    *,
    id_: str | None = None,
    project_id: str = "p",
    exempt: bool = True,
    **members: object,
) -> str | None:
    """Reserve slots; return the id, or None and the answer in ``refused``."""
    start_s = pool.now + start_in_s
    wanted = {
        "accelerator": "copy",
        "slots": 2,
        "start_s": start_s,
        "end_s": start_s + length_s,
    }
    found = id_ or str(uuid.uuid4())
    answer = send(pool, found, wanted | members, project_id, exempt=exempt)
    assert answer is None, answer
    return found


def connect(pool: world.Conductor) -> None:
    """Let the clients of all sessions that have a slot connect."""
    pool.deliver_all()
    agent = pool.agents[HOST]
    for number, slot in enumerate(agent.slots):
        prepared = agent.prepared(number)
        if prepared is not None:
            pool.feed(prepared)
            slot.state = states.SLOT_ACTIVE
    pool.report()


def send(
    pool: world.Conductor,
    id_: str,
    wanted: dict[str, object] | None,
    project_id: str = "p",
    *,
    exempt: bool = True,
) -> object:
    before = dict(pool.rows["reservations"])
    item = inputs.SetReservation(
        reservation_id=id_,
        wanted=wanted,
        project_id=project_id,
        user_id="u",
        exempt=exempt,
    )
    answer = pool.answer(item)
    if answer is not None:
        assert pool.rows["reservations"] == before
    return answer


def refused(pool: world.Conductor, **members: object) -> str:
    start_s = pool.now + 1000.0
    wanted = {
        "accelerator": "copy",
        "slots": 2,
        "start_s": start_s,
        "end_s": start_s + 600.0,
    }
    answer = send(pool, str(uuid.uuid4()), wanted | members)
    assert isinstance(answer, Exception)
    return answer.code


def entry(pool: world.Conductor, id_: str | None) -> stored.Reservation:
    (found,) = [
        one
        for row in pool.rows["reservations"].values()
        if (one := stored.read(row)) is not None and one.id == id_
    ]
    return found


def state(pool: world.Conductor, id_: str | None) -> str:
    return entry(pool, id_).state


def request(
    pool: world.Conductor, project_id: str = "p", **members: object
) -> tuple[str, str]:
    """Ask for a session; return the names of the request."""
    found = pool.open(project_id=project_id, host_uuid=HOST, **members)
    return found, project_id


def session_state(pool: world.Conductor, names: tuple[str, str]) -> str:
    return pool.view_or_none(*names).state


def test_its_project_has_the_slots_from_start_to_end() -> None:
    pool = make_pool(2)
    id_ = reserve(pool)
    assert state(pool, id_) == reservation.SCHEDULED
    pool.tick(1000.0)
    pool.tick(1.0)
    assert state(pool, id_) == reservation.ACTIVE
    other = request(pool, project_id="q")
    waiting = request(pool, accelerator="aes")
    mine = [request(pool), request(pool)]
    assert session_state(pool, other) == states.QUEUED
    assert pool.view_or_none(*other).pending_reasons == (codes.SLOTS_RESERVED,)
    assert session_state(pool, waiting) == states.QUEUED
    for one in mine:
        assert session_state(pool, one) == states.PREPARING
    pool.tick(10.0)
    pool.tick(600.0)
    assert state(pool, id_) == reservation.ENDED
    found = entry(pool, id_)
    assert found.used_slot_s > 0
    # Its sessions go on as all others do.
    for one in mine:
        assert session_state(pool, one) == states.PREPARING
    connect(pool)
    pool.end(states.CLOSED, codes.OK, host=HOST)
    assert session_state(pool, other) == states.PREPARING


def test_others_are_taken_back_before_the_start() -> None:
    pool = make_pool(2)
    others = [request(pool, project_id="q") for _ in range(2)]
    pool.deliver_all()
    reserve(pool)
    pool.tick(985.0)
    assert {session_state(pool, one) for one in others} == {states.PREPARING}
    pool.tick(6.0)
    assert {session_state(pool, one) for one in others} == {states.QUEUED}


def test_sessions_that_stay_too_long_do_not_come() -> None:
    pool = make_pool(2)
    reserve(pool, 3000.0)
    # 2 MB at 1 GB/s end in time, 4 TB do not.
    long = request(
        pool, project_id="q", accelerator="ec", claimed_bytes=4 * 10**12
    )
    short = request(
        pool, project_id="q", accelerator="ec", claimed_bytes=2 * 10**6
    )
    assert session_state(pool, long) == states.QUEUED
    assert session_state(pool, short) == states.PREPARING


def test_nobody_who_cannot_move_is_let_in_and_taken_back() -> None:
    """As long as its claim, or ``max_hold_s``, lets it stay."""
    pool = make_pool(2)
    settings = pool.memory.settings
    within_s = settings.max_hold_s + (
        settings.prepare_timeout_s
        + settings.connect_timeout_s
        + settings.resend_interval_s
    )
    long = {"accelerator": "ec", "claimed_bytes": 4 * 10**12}
    reserve(pool, within_s + 15.0)
    early = request(pool, project_id="q", **long)
    assert session_state(pool, early) == states.PREPARING
    pool.tick(6.0)
    late = request(pool, project_id="q", **long)
    assert session_state(pool, late) == states.QUEUED
    # Nor is a reservation admitted that would take it back.
    pool = make_pool(1)
    request(pool, project_id="q", **long)
    connect(pool)
    assert (
        refused(
            pool,
            slots=1,
            start_s=pool.now + within_s + 9.0,
            end_s=pool.now + within_s + 999.0,
        )
        == codes.RESERVATION_CONFLICT
    )
    assert reserve(pool, within_s + 11.0, slots=1)


def test_a_dry_run_says_when_it_would_have_to_end() -> None:
    pool = make_pool(2)
    reserve(pool, 3000.0)

    def ask(claimed_bytes: int, **members: object) -> objects.DryRun:
        wanted = {"accelerator": "ec", "project_id": "q"} | members
        wanted["host_uuid"] = HOST
        return pool.ask.opening.dry_run(
            world.request(claimed_bytes=claimed_bytes, **wanted)
        )()

    long = ask(4 * 10**12)
    assert (long.state, long.reasons) == (
        states.QUEUED,
        (codes.SLOTS_RESERVED,),
    )
    # 10 s before the start, which is 1000 s and 3000 s after 1970.
    assert "before 1970-01-01T01:06:30Z by its claim" in long.message
    assert long.expected_wait_s is None
    short = ask(2 * 10**6)
    assert (short.state, short.message) == (states.PREPARING, "")
    # What can be taken back need not end.
    assert ask(4 * 10**12, accelerator="copy").state == states.PREPARING
    pool.tick(2995.0)
    pool.report()
    begun = ask(2 * 10**6)
    assert begun.reasons == (codes.SLOTS_RESERVED,)
    assert begun.message == ""
    assert ask(2, accelerator="copy", project_id="p").state == (
        states.PREPARING
    )


def test_a_start_farther_away_than_any_session_is_no_hindrance() -> None:
    pool = make_pool(2)
    reserve(pool, 4000.0)
    long = request(
        pool, project_id="q", accelerator="ec", claimed_bytes=4 * 10**12
    )
    assert session_state(pool, long) == states.PREPARING


def test_holders_that_nobody_can_take_back_count() -> None:
    pool = make_pool(2)
    long = request(pool, accelerator="ec", project_id="q")
    connect(pool)
    assert session_state(pool, long) == states.ACTIVE
    assert refused(pool) == codes.RESERVATION_CONFLICT
    assert reserve(pool, slots=1)
    assert reserve(pool, 4000.0, slots=2)


def test_a_refusal_names_the_next_time_that_fits() -> None:
    pool = make_pool(4)
    first = reserve(pool, slots=3)
    wanted = {
        "accelerator": "copy",
        "slots": 2,
        "start_s": pool.now + 1100.0,
        "end_s": pool.now + 1700.0,
    }
    answer = send(pool, "x", wanted)
    assert isinstance(answer, Exception)
    assert answer.code == codes.RESERVATION_CONFLICT
    # The end of the first, 1970-01-01 plus 1000 + 1000 + 600 s.
    assert str(answer).endswith(
        "it fits when it starts at 1970-01-01T00:43:20Z"
    )
    later = {**wanted, "start_s": 2600.0, "end_s": 3200.0}
    assert send(pool, "x", later) is None
    assert send(pool, "x", {"start_s": 2599.0}) is not None
    assert entry(pool, "x").start_s == 2600.0
    assert send(pool, first, None) is None
    assert send(pool, "x", {"start_s": 2599.0}) is None


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"end_s": 1999.0}, codes.INVALID_RESERVATION),
        ({"end_s": 2000.0}, codes.INVALID_RESERVATION),
        ({"end_s": 2010.0}, codes.INVALID_RESERVATION),
        ({"start_s": 900.0}, codes.INVALID_RESERVATION),
        ({"start_s": 1.0, "end_s": 999.0}, codes.INVALID_RESERVATION),
        ({"end_s": 10 * 365 * DAY_S}, codes.INVALID_RESERVATION),
        ({"slots": 0}, codes.INVALID_RESERVATION),
        ({"slots": 1.5}, codes.INVALID_RESERVATION),
        ({"slots": "2"}, codes.INVALID_RESERVATION),
        ({"slots": True}, codes.INVALID_RESERVATION),
        ({"slots": None}, codes.INVALID_RESERVATION),
        ({"slots": 5}, codes.RESERVATION_CONFLICT),
        ({"accelerator": "nothing"}, codes.UNKNOWN_ACCELERATOR),
        ({"accelerator": 7}, codes.INVALID_RESERVATION),
        ({"device_id": "nothing"}, codes.DEVICE_NOT_FOUND),
        ({"host_uuids": ["nothing"]}, codes.HOST_NOT_FOUND),
        ({"host_uuids": "nothing"}, codes.INVALID_RESERVATION),
        ({"start_s": float("nan")}, codes.INVALID_RESERVATION),
        ({"start_s": "now"}, codes.INVALID_RESERVATION),
        # More than a float holds, as JSON may have it.
        ({"start_s": 10**400}, codes.INVALID_RESERVATION),
        ({"end_s": 10**400}, codes.INVALID_RESERVATION),
        ({"grace_s": 10**400}, codes.INVALID_RESERVATION),
        ({"slots": 10**400}, codes.INVALID_RESERVATION),
        ({"times": -(10**400)}, codes.INVALID_RESERVATION),
        ({"repeat": "hourly"}, codes.INVALID_RESERVATION),
        ({"times": 2}, codes.INVALID_RESERVATION),
        ({"repeat": "day"}, codes.INVALID_RESERVATION),
        ({"repeat": "day", "times": 101}, codes.INVALID_RESERVATION),
        ({"repeat": "week", "times": 100}, codes.INVALID_RESERVATION),
        ({"repeat": "day", "end_s": 90000.0}, codes.INVALID_RESERVATION),
        ({"name": "two words"}, codes.INVALID_RESERVATION),
        ({"grace_s": -1.0}, codes.INVALID_RESERVATION),
        ({"project_id": "q"}, codes.INVALID_RESERVATION),
    ],
)
def test_bad_requests_change_nothing(
    members: dict[str, object], code: str
) -> None:
    assert refused(make_pool(4), **members) == code


def test_what_is_not_there_is_not_found() -> None:
    pool = make_pool()
    answer = send(pool, "x", None)
    assert isinstance(answer, exception.ReservationNotFound)
    wanted = {"slots": 1}
    answer = send(pool, "x", wanted, project_id="")
    assert isinstance(answer, exception.ReservationNotFound)


def test_its_own_may_overlap_if_there_are_slots() -> None:
    pool = make_pool(4)
    assert reserve(pool)
    assert reserve(pool)
    assert refused(pool, slots=1) == codes.RESERVATION_CONFLICT


def test_a_project_has_a_quota() -> None:
    pool = make_pool(4)
    wanted = {
        "accelerator": "copy",
        "slots": 2,
        "start_s": pool.now + 1000.0,
        "end_s": pool.now + 1600.0,
    }
    answer = send(pool, "x", wanted, exempt=False)
    assert isinstance(answer, Exception)
    assert answer.code == codes.QUOTA_EXCEEDED
    pool.feed(inputs.SetQuota("p", {"reservation_slots": 3}))
    assert send(pool, "x", wanted, exempt=False) is None
    answer = send(pool, "y", wanted, exempt=False)
    assert isinstance(answer, Exception)
    assert answer.code == codes.QUOTA_EXCEEDED
    assert send(pool, "x", {"slots": 3}, exempt=False) is None
    assert send(pool, "x", {"slots": 4}, exempt=False) is not None
    assert send(pool, "x", {"slots": 4}) is None
    # Above its quota it may still be cut short.
    assert send(pool, "x", {"slots": 1}, exempt=False) is None


def test_a_project_has_so_many_times() -> None:
    """All its times count, and other projects' do not."""
    pool = make_pool(4)
    limits = {"reservation_slots": -1, "reservation_times": 5}
    pool.feed(inputs.SetQuota("p", limits))
    id_ = reserve(pool, exempt=False, repeat="day", times=3, slots=1)
    start_s = pool.now + 1000.0
    wanted = {
        "accelerator": "copy",
        "slots": 1,
        "start_s": start_s,
        "end_s": start_s + 600.0,
        "repeat": "week",
        "times": 3,
    }
    answer = send(pool, "x", wanted, exempt=False)
    assert isinstance(answer, Exception)
    assert answer.code == codes.QUOTA_EXCEEDED
    assert "reserved 3 times, and this reservation has 3" in str(answer)
    assert send(pool, "x", wanted | {"times": 2}, exempt=False) is None
    answer = send(pool, id_, {"times": 4}, exempt=False)
    assert answer.code == codes.QUOTA_EXCEEDED
    pool.feed(inputs.SetQuota("q", {"reservation_slots": -1}))
    assert reserve(pool, project_id="q", exempt=False, slots=1)
    # Above its limit it may still have less; administrators may do more.
    assert send(pool, id_, {"times": 8}) is None
    assert send(pool, id_, {"times": 7}, exempt=False) is None
    assert send(pool, id_, {"times": 8}, exempt=False) is not None


@pytest.mark.parametrize(
    ("change", "is_more"),
    [
        ({"end_s": 200 * DAY_S}, True),
        ({"start_s": 1900.0}, True),
        ({"start_s": 3000.0, "end_s": 3600.0}, True),
        ({"repeat": "day", "times": 1}, True),
        ({"accelerator": "aes"}, True),
        ({"host_uuids": [OTHER]}, True),
        ({"slots": 3}, True),
        ({"start_s": 2100.0}, False),
        ({"end_s": 2500.0}, False),
        ({"slots": 1}, False),
        ({"name": "mine", "grace_s": 0}, False),
        ({}, False),
    ],
)
def test_who_has_more_than_its_quota_gets_no_more(
    change: dict[str, object], is_more: bool
) -> None:
    """What an administrator has reserved for it is all that it has."""
    pool = make_pool(4, 4)
    id_ = reserve(pool)
    answer = send(pool, id_, change, exempt=False)
    if not is_more:
        assert answer is None
        return
    assert isinstance(answer, Exception)
    assert answer.code == codes.QUOTA_EXCEEDED
    assert send(pool, id_, change) is None


def test_a_row_that_databases_do_not_take_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = make_pool(4)
    id_ = reserve(pool, slots=1)
    monkeypatch.setattr(
        stored, "MAX_BYTES", stored.size_bytes(entry(pool, id_)) + 10
    )
    assert refused(pool, slots=2, name="n" * 20) == codes.INVALID_RESERVATION
    # A change that is refused leaves all as it was.
    assert send(pool, id_, {"name": "n" * 20}) is not None
    assert pool.memory.calendar.plan.bound[id_] == entry(pool, id_).bound


def test_the_pool_keeps_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reservation, "MAX_SPANS", 3)
    pool = make_pool()
    assert reserve(pool, repeat="day", times=2)
    assert refused(pool, repeat="day", times=2) == codes.TOO_MANY_RESERVATIONS
    assert reserve(pool, slots=1)


def test_a_recurring_one_begins_again() -> None:
    pool = make_pool(2)
    id_ = reserve(pool, repeat="day", times=3, grace_s=0)
    first_s = entry(pool, id_).start_s
    for times in (3, 2, 1):
        pool.tick(entry(pool, id_).start_s - pool.now + 1.0)
        pool.report()
        found = entry(pool, id_)
        assert (found.state, found.times) == (reservation.ACTIVE, times)
        assert found.start_s == first_s + (3 - times) * DAY_S
        pool.tick(found.end_s - pool.now)
        pool.report()
    assert state(pool, id_) == reservation.ENDED
    assert entry(pool, id_).unused_slot_s > 0


def test_unused_slots_are_released() -> None:
    pool = make_pool(2)
    id_ = reserve(pool, grace_s=100.0)
    pool.tick(1001.0)
    other = request(pool, project_id="q")
    pool.tick(98.0)
    assert session_state(pool, other) == states.QUEUED
    pool.tick(2.0)
    assert state(pool, id_) == reservation.RELEASED
    pool.tick(1.0)
    assert session_state(pool, other) == states.PREPARING
    pool.tick(600.0)
    assert state(pool, id_) == reservation.ENDED


def test_what_is_used_is_not_released() -> None:
    pool = make_pool(2)
    id_ = reserve(pool, grace_s=100.0)
    pool.tick(1001.0)
    mine = request(pool)
    connect(pool)
    for _ in range(5):
        pool.tick(50.0)
        pool.report()
    assert session_state(pool, mine) == states.ACTIVE
    assert state(pool, id_) == reservation.ACTIVE
    found = pool.memory.calendar.entries[id_]
    assert (found.used_slot_s, found.unused_slot_s) == (250.0, 250.0)


def test_time_without_working_slots_is_not_time_without_use() -> None:
    pool = make_pool(2)
    id_ = reserve(pool, grace_s=100.0, length_s=3000.0)
    pool.tick(1001.0)
    pool.report()
    _disable(pool, HOST)
    for _ in range(3):
        pool.tick(100.0)
        pool.report()
    assert state(pool, id_) == reservation.FAILED
    _disable(pool, HOST, back=True)
    pool.tick(1.0)
    assert state(pool, id_) == reservation.ACTIVE
    pool.tick(99.0)
    assert state(pool, id_) == reservation.ACTIVE
    pool.tick(1.0)
    assert state(pool, id_) == reservation.RELEASED


def test_time_without_a_leader_is_not_time_without_use() -> None:
    pool = make_pool(2)
    id_ = reserve(pool, grace_s=100.0, length_s=3000.0)
    pool.tick(1001.0)
    assert state(pool, id_) == reservation.ACTIVE
    pool.now += 500.0
    pool.boot_conductor()
    pool.report()
    assert state(pool, id_) == reservation.ACTIVE
    pool.tick(100.0)
    assert state(pool, id_) == reservation.RELEASED
    # What was released stays so.
    pool.boot_conductor()
    assert state(pool, id_) == reservation.RELEASED


def test_a_grace_that_is_longer_than_it_releases_nothing() -> None:
    pool = make_pool(2)
    id_ = reserve(pool, grace_s=reservation.HORIZON_S)
    pool.tick(1001.0)
    pool.tick(598.0)
    assert state(pool, id_) == reservation.ACTIVE
    pool.tick(2.0)
    assert state(pool, id_) == reservation.ENDED


def test_it_is_extended_cut_short_and_moved() -> None:
    pool = make_pool(2)
    id_ = reserve(pool)
    start_s = entry(pool, id_).start_s
    after = reserve(pool, 1600.0)
    assert send(pool, id_, {"end_s": start_s + 601.0}) is not None
    assert send(pool, after, {"start_s": start_s + 700.0}) is None
    assert send(pool, id_, {"end_s": start_s + 660.0}) is None
    pool.tick(1001.0)
    assert state(pool, id_) == reservation.ACTIVE
    for change in ({"start_s": start_s + 10.0}, {"slots": 1}):
        answer = send(pool, id_, change)
        assert isinstance(answer, Exception)
        assert answer.code == codes.INVALID_RESERVATION
    assert send(pool, id_, {"end_s": start_s + 690.0}) is None
    assert state(pool, id_) == reservation.ACTIVE
    assert send(pool, id_, {"end_s": start_s + 60.0}) is None
    pool.tick(60.0)
    assert state(pool, id_) == reservation.ENDED
    answer = send(pool, id_, {"end_s": start_s + 900.0})
    assert isinstance(answer, Exception)
    assert answer.code == codes.INVALID_RESERVATION


def test_slots_of_a_board_that_fails_are_replaced() -> None:
    pool = make_pool(2, 2)
    id_ = reserve(pool, slots=2)
    bound = entry(pool, id_).bound
    board = pool.memory.registry.slots[bound[0]].device
    _disable(pool, board.host.uuid)
    pool.tick(1.0)
    assert state(pool, id_) == reservation.SCHEDULED
    assert not set(entry(pool, id_).bound) & set(bound)
    # The other one fails, too, and comes back.
    others = ({HOST, OTHER} - {board.host.uuid}).pop()
    _disable(pool, others)
    pool.tick(1.0)
    assert state(pool, id_) == reservation.AT_RISK
    assert entry(pool, id_).working == 0
    pool.tick(1000.0)
    pool.report()
    assert state(pool, id_) == reservation.FAILED
    _disable(pool, others, back=True)
    pool.tick(1.0)
    assert state(pool, id_) == reservation.ACTIVE


def test_those_without_hope_do_not_keep_others_from_slots() -> None:
    most = keeping._MOVED_AT_ONCE
    pool = make_pool(most + 1, 4)
    device_id = identity.device_id(HOST, "board0")
    for _ in range(most):
        reserve(pool, slots=1, device_id=device_id)
    late = reserve(pool, slots=1)
    bound = entry(pool, late).bound
    assert pool.memory.registry.slots[bound[0]].host.uuid == HOST
    filler = reserve(pool, slots=4, host_uuids=[OTHER])
    _disable(pool, HOST)
    for _ in range(3):
        pool.tick(1.0)
        pool.report()
    assert state(pool, late) == reservation.AT_RISK
    # There are slots now, and all take turns in two seconds.
    assert send(pool, filler, None) is None
    for _ in range(2):
        pool.tick(1.0)
        pool.report()
    assert state(pool, late) == reservation.SCHEDULED


def test_who_has_just_lost_slots_comes_first() -> None:
    most = keeping._MOVED_AT_ONCE
    pool = make_pool(3 * most, 4)
    device_id = identity.device_id(HOST, "board0")
    for _ in range(3 * most):
        reserve(pool, slots=1, device_id=device_id)
    late = reserve(pool, slots=1, host_uuids=[OTHER])
    _disable(pool, HOST)
    pool.tick(1.0)
    pool.report()
    (slot_id,) = entry(pool, late).bound
    slot = pool.agents[OTHER].slots[pool.memory.registry.slots[slot_id].number]
    slot.state = states.SLOT_FAULTY
    pool.report()
    pool.tick(1.0)
    assert state(pool, late) == reservation.SCHEDULED
    assert entry(pool, late).bound != (slot_id,)


def test_it_ends_earlier_though_its_slots_do_not_work() -> None:
    pool = make_pool(2)
    id_ = reserve(pool, slots=2, length_s=3000.0)
    assert id_ is not None
    pool.tick(1000.0)
    pool.report()
    bound = entry(pool, id_).bound
    _disable(pool, HOST)
    pool.tick(1.0)
    assert state(pool, id_) == reservation.FAILED
    end_s = pool.now + 100.0
    change = {"end_s": end_s, "name": "short"}
    assert send(pool, id_, change) is None
    found = entry(pool, id_)
    assert (found.end_s, found.name, found.bound) == (end_s, "short", bound)
    # It cannot get more.
    answer = send(pool, id_, {"end_s": end_s + 1.0})
    assert isinstance(answer, Exception)
    assert answer.code == codes.RESERVATION_CONFLICT
    pool.tick(100.0)
    assert state(pool, id_) == reservation.ENDED


def test_a_host_that_is_gone_may_stay_in_a_reservation() -> None:
    pool = make_pool(2, 2)
    id_ = reserve(pool, slots=1, host_uuids=[HOST])
    assert id_ is not None
    del pool.memory.registry.hosts[HOST]
    assert send(pool, id_, {"name": "x"}) is None
    assert send(pool, id_, {"host_uuids": [OTHER]}) is None
    answer = send(pool, id_, {"host_uuids": [HOST]})
    assert isinstance(answer, exception.HostNotFound)


def _disable(
    pool: world.Conductor, host_uuid: str, *, back: bool = False
) -> None:
    wanted = pool_admin(host_uuid, enabled=back)
    assert pool.answer(wanted) is None


def pool_admin(host_uuid: str, *, enabled: bool) -> inputs.Administer:
    admin = model.AdminState.ENABLED if enabled else model.AdminState.DISABLED
    return inputs.Administer(
        host_uuid=host_uuid,
        device=None,
        state=admin,
        reason="",
        drain_within_s=None,
    )


def test_it_survives_a_takeover() -> None:
    pool = make_pool(2)
    id_ = reserve(pool)
    deleted = reserve(pool, 3000.0)
    assert send(pool, deleted, None) is None
    pool.boot_conductor()
    assert state(pool, id_) == reservation.SCHEDULED
    pool.report()
    pool.tick(1000.0)
    # Hosts are silent for a moment after a takeover.
    pool.boot_conductor()
    pool.tick(1.0)
    assert state(pool, id_) == reservation.ACTIVE
    pool.report()
    other = request(pool, project_id="q")
    mine = request(pool)
    assert session_state(pool, other) == states.QUEUED
    assert session_state(pool, mine) == states.PREPARING
    before = len(pool.rows["reservations"])
    assert reserve(pool, 3000.0)
    # Rows are never deleted; they are used again.
    assert len(pool.rows["reservations"]) == before


def test_rows_of_other_releases_do_no_harm() -> None:
    entry_ = stored.Reservation(
        number=-1,
        id="x",
        project_id="p",
        user_id="u",
        created_at=0.0,
        accelerator="copy",
        slots=1,
        start_s=10.0,
        end_s=20.0,
        bound=(1,),
    )
    row = stored.row(entry_)
    # What earlier releases compute of a row.
    assert sum(row.instances.values()) == 0
    assert stored.read(row) == entry_
    (text,) = row.instances
    for changed in (
        text.replace('"scheduled"', '"unheard_of"'),
        text.replace('"slots"', '"slats"'),
        text[:-1],
        "[]",
        "7",
    ):
        broken = dataclasses.replace(row, instances={changed: 0})
        assert stored.read(broken) is None
    newer = text.replace('"slots"', '"colour":"red","slots"')
    assert (
        stored.read(dataclasses.replace(row, instances={newer: 0})) == entry_
    )
    numbers = stored.Numbers(
        [
            row,
            stored.empty_row(-2),
            db_api.ReservationRecord(device_id=5, instances={}),
        ]
    )
    assert [numbers.take(), numbers.take()] == [-2, -3]


def test_reservable_slots_are_left_to_instances() -> None:
    pool = make_pool(4)
    wanted = inputs.SetReservable(host_uuid=HOST, device="board0", slots=1)
    assert pool.answer(wanted) is None
    assert refused(pool, slots=4) == codes.RESERVATION_CONFLICT
    id_ = reserve(pool, slots=3)
    numbers = {
        pool.memory.registry.slots[one].number
        for one in entry(pool, id_).bound
    }
    assert numbers == {0, 1, 2}


def test_it_may_name_a_host_or_a_device() -> None:
    pool = make_pool(2, 2)
    device_id = identity.device_id(OTHER, "board0")
    one = reserve(pool, device_id=device_id)
    two = reserve(pool, host_uuids=[HOST])
    hosts = {
        id_: {
            pool.memory.registry.slots[slot_id].host.uuid
            for slot_id in entry(pool, id_).bound
        }
        for id_ in (one, two)
    }
    assert hosts == {one: {OTHER}, two: {HOST}}
    assert refused(pool, device_id=device_id) == codes.RESERVATION_CONFLICT


def test_those_that_are_over_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(book, "_MOST_OVER", 2)
    pool = make_pool(4)
    ids = [reserve(pool, number * 700.0) for number in range(1, 5)]
    for _ in range(50):
        pool.tick(100.0)
        pool.report()
    pool.tick(1.0)
    left = list(pool.memory.calendar.entries)
    assert left == ids[2:]
    pool.tick(reservation.KEPT_S)
    assert not pool.memory.calendar.entries
    assert pool.ask.calendar.counts() == dict.fromkeys(reservation.STATES, 0)


def test_a_project_does_not_push_out_what_others_have_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(book, "_MOST_OVER", 4)
    pool = make_pool(4)
    others = [
        reserve(pool, -59.0, 60.0, project_id="q", slots=1) for _ in range(2)
    ]
    pool.tick(2.0)
    mine = []
    for _ in range(6):
        mine.append(reserve(pool, -59.0, 60.0, slots=1))
        pool.tick(2.0)
    assert list(pool.memory.calendar.entries) == [*others, *mine[-2:]]
    pool.boot_conductor()
    assert set(pool.memory.calendar.entries) == {*others, *mine[-2:]}


def test_one_that_has_just_begun_may_be_made() -> None:
    pool = make_pool(2)
    id_ = reserve(pool, -1.0)
    assert state(pool, id_) == reservation.ACTIVE
    assert refused(pool, start_s=pool.now - 61.0) == codes.INVALID_RESERVATION
    later = reserve(pool)
    answer = send(pool, later, {"start_s": pool.now - 61.0})
    assert isinstance(answer, Exception)
    assert answer.code == codes.INVALID_RESERVATION


def test_times_may_touch_and_not_overlap() -> None:
    pool = make_pool(1)
    id_ = reserve(pool, 1000.0, DAY_S, slots=1, repeat="day", times=3)
    answer = send(pool, id_, {"end_s": entry(pool, id_).end_s + 1.0})
    assert isinstance(answer, Exception)
    assert answer.code == codes.INVALID_RESERVATION
    pool.tick(1001.0)
    for left in (2, 1):
        pool.tick(DAY_S)
        pool.report()
        found = entry(pool, id_)
        assert (found.state, found.times) == (reservation.ACTIVE, left)


def test_what_is_deleted_does_not_change_any_more() -> None:
    pool = make_pool(2)
    id_ = reserve(pool)
    assert send(pool, id_, None) is None
    for wanted in (None, {"name": "x"}):
        answer = send(pool, id_, wanted, project_id="")
        assert isinstance(answer, exception.ReservationNotFound)
    # Its slots are free for others.
    assert reserve(pool)


def test_slots_that_are_removed_are_replaced() -> None:
    pool = make_pool(2, 2)
    id_ = reserve(pool, slots=2)
    first = pool.memory.registry.slots[entry(pool, id_).bound[0]].host.uuid
    for host_uuid in (first, ({HOST, OTHER} - {first}).pop()):
        bound = entry(pool, id_).bound
        pool.agents[host_uuid].slots.clear()
        pool.report()
        pool.tick(1.0)
        if host_uuid == first:
            assert state(pool, id_) == reservation.SCHEDULED
            assert not set(bound) & set(entry(pool, id_).bound)
    # None are left; what is reserved can still be renamed and deleted.
    assert state(pool, id_) == reservation.AT_RISK
    assert send(pool, id_, {"name": "still"}) is None
    assert send(pool, id_, None) is None
