# SPDX-License-Identifier: Apache-2.0

import collections
import dataclasses
import datetime
import threading
import time
import uuid

import pytest
from hypothesis import HealthCheck
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from fpgapool.common import exception
from fpgapool.db import api
from fpgapool.db import rows
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.functional.db import factory

LARGEST = 2**63 - 1


def _write(database, epoch, *records, released=()) -> None:
    database.commit(epoch, api.Changes.of(records, released))


# The lease.


@pytest.mark.dialect
def test_the_clock_is_that_of_the_server(database, monkeypatch):
    """In seconds since the epoch, and parts of them; of a file it is ours."""
    true = time.time
    monkeypatch.setattr(time, "time", lambda: true() - 3600)
    is_file = database.engine.dialect.name == "sqlite"
    before = true()
    told = database.now() + (3600 if is_file else 0)
    assert before - 1 < told < true() + 1
    assert told % 1


def test_nobody_leads_at_first(database):
    assert database.read_lease() is None


def test_taking_the_lease_makes_a_new_epoch(database):
    first = database.take_lease("c1", None)
    assert first == api.Lease(holder="c1", epoch=1, renewals=0)
    assert database.read_lease() == first
    second = database.take_lease("c2", first)
    assert second == api.Lease(holder="c2", epoch=2, renewals=0)
    assert database.read_lease() == second


def test_renewals_are_counted(database, epoch):
    database.renew_lease("c1", epoch)
    database.renew_lease("c1", epoch)
    assert database.read_lease() == api.Lease(
        holder="c1", epoch=epoch, renewals=2
    )


def test_the_last_renewal_has_a_time(database):
    """By the clock of the leader, which is ahead of pool time."""
    assert database.lease_renewed_at() is None
    epoch = database.take_lease("c1", None).epoch
    assert database.lease_renewed_at() is None
    database.begin_term(epoch, 30.0, 1000.0)
    assert database.lease_renewed_at() == 1030.0
    database.renew_lease("c1", epoch, 31.5)
    assert database.lease_renewed_at() == 1031.5
    # Who takes it has not yet renewed it.
    database.take_lease("c2", database.read_lease())
    assert database.lease_renewed_at() == 1031.5


def test_a_renewed_lease_is_not_taken(database, epoch):
    seen = database.read_lease()
    database.renew_lease("c1", epoch)
    with pytest.raises(exception.NotLeader):
        database.take_lease("c2", seen)
    assert database.read_lease().holder == "c1"


def test_a_deposed_leader_cannot_renew(database, epoch):
    database.take_lease("c2", database.read_lease())
    with pytest.raises(exception.NotLeader):
        database.renew_lease("c1", epoch)
    with pytest.raises(exception.NotLeader):
        database.release_lease("c1", epoch)
    assert database.read_lease().holder == "c2"


def test_an_earlier_self_cannot_renew(database, epoch):
    database.take_lease("c1", database.read_lease())
    with pytest.raises(exception.NotLeader):
        database.renew_lease("c1", epoch)


def test_a_released_lease_keeps_its_epoch(database, epoch):
    database.release_lease("c1", epoch)
    released = database.read_lease()
    assert (released.holder, released.epoch) == ("", epoch)
    assert database.take_lease("c2", released).epoch == epoch + 1


def test_pool_time_stays_as_it_was_told_last(database, epoch):
    assert database.read_lease().pool_time_s is None
    database.renew_lease("c1", epoch, 1000.25)
    database.renew_lease("c1", epoch)
    lease = database.take_lease("c2", database.read_lease())
    assert lease == database.read_lease()
    assert lease.pool_time_s == 1000.25
    database.release_lease("c2", lease.epoch, 1001.5)
    assert database.read_lease().pool_time_s == 1001.5


@pytest.mark.dialect
def test_what_is_to_happen_moves_with_the_leaders_clock(database, epoch):
    host, device, *rest = factory.hardware()
    fault = api.FaultRecord(
        id=1,
        level="slot",
        target_id=1,
        reason="x",
        since=5.0,
        next_test_at=70.0,
    )
    given = factory.assignment(slot_id=1, holder_id=1, assigned_at=40.0)
    host = dataclasses.replace(host, drain_deadline_at=50.0)
    changes = api.Changes.of(
        [host, device, *rest, factory.session(1, state="ACTIVE"), given, fault]
    )
    database.commit(epoch, changes)
    before = database.load()
    assert database.begin_term(epoch, 30.0, 10.0) == 0.0
    assert database.load() == before
    lease = database.take_lease("c2", database.read_lease())
    assert database.begin_term(lease.epoch, 31.0, 7210.0) == 7200.0
    assert database.read_lease().pool_time_s == 31.0
    after = database.load()
    assert after == before.moved(7200.0)
    assert [one.drain_deadline_at for one in after.hosts] == [7250.0]
    assert [one.drain_deadline_at for one in after.devices] == [None]
    assert [one.assigned_at for one in after.assignments] == [7240.0]
    assert [one.next_test_at for one in after.faults] == [7270.0]
    with pytest.raises(exception.NotLeader):
        database.begin_term(epoch, 32.0, 0.0)
    assert database.load() == after


@pytest.mark.dialect
@pytest.mark.parametrize("first", [True, False])
def test_one_of_many_wins_the_election(database, first):
    expected = None if first else database.take_lease("c0", None)
    barrier = threading.Barrier(8)
    results: dict[str, object] = {}

    def stand(name: str) -> None:
        barrier.wait()
        try:
            results[name] = database.take_lease(name, expected)
        except exception.FpgapoolException as error:
            results[name] = error

    threads = [
        threading.Thread(target=stand, args=(f"c{i}",)) for i in range(1, 9)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [r for r in results.values() if isinstance(r, api.Lease)]
    losers = [
        r for r in results.values() if isinstance(r, exception.NotLeader)
    ]
    assert (len(winners), len(losers)) == (1, 7)
    assert database.read_lease() == winners[0]


# Writing and loading.


def test_an_empty_database_loads(database):
    assert database.load() == api.Snapshot()


@pytest.mark.dialect
def test_what_was_written_is_loaded(database, epoch):
    host, device, slot1, slot2 = factory.hardware()
    session = factory.session(7, host_id=1, state="PREPARING", slot_id=1)
    assignment = factory.assignment(1, 7)
    library = api.AcceleratorRecord(
        name="aes", profile={"data": {"shapes": ["m"], "peak": 1.2e9}}
    )
    reservation = api.ReservationRecord(device_id=1, instances={factory.VM: 1})
    _write(
        database,
        epoch,
        assignment,
        session,
        library,
        reservation,
        slot2,
        slot1,
        device,
        host,
    )
    assert database.load() == api.Snapshot(
        hosts=[host],
        devices=[device],
        slots=[slot1, slot2],
        accelerators=[library],
        live_sessions=[session],
        recent_claims=[(1, session.claimed_bytes)],
        assignments=[assignment],
        reservations=[reservation],
        max_ids=collections.Counter(
            {
                api.HostRecord: 1,
                api.DeviceRecord: 1,
                api.SlotRecord: 2,
                api.SessionRecord: 7,
            }
        ),
    )
    # What nobody has reserved any more.
    none = api.ReservationRecord(device_id=1, instances={})
    _write(database, epoch, none)
    assert database.load().reservations == [none]


def test_faults_that_are_over_are_for_the_conductor_only(database, epoch):
    fault = api.FaultRecord(
        id=1,
        level="slot",
        target_id=2,
        reason="PROGRAM_FAILED",
        failures=3,
        since=1.5,
        tests=2,
        tries=4,
        last_test="PROGRAM_FAILED: é",
        last_test_at=2.5,
        next_test_at=3.5,
    )
    other = api.FaultRecord(
        id=2,
        level="accelerator",
        target_id=1,
        accelerator="aes",
        reason="CORE_FAILED",
        since=1.0,
        next_test_at=2.0,
    )
    _write(database, epoch, *factory.hardware(), fault, other)
    assert database.load().faults == [fault, other]
    over = dataclasses.replace(other, active=False, reason="")
    _write(database, epoch, over)
    assert database.load().faults == [fault, over]
    assert database.inventory().faults == [fault]


def test_rows_are_replaced(database, epoch):
    _write(database, epoch, *factory.hardware(), factory.session(1))
    changed = factory.session(1, state="ACTIVE", started_at=2.5, local=False)
    slot = api.SlotRecord(
        id=1, device_id=1, number=0, shape="m", faulty=True, fault_reason="hot"
    )
    _write(database, epoch, changed, slot)
    snapshot = database.load()
    assert snapshot.live_sessions == [changed]
    assert snapshot.slots[0] == slot


def test_live_sessions_have_not_ended(database, epoch):
    """What a row says of the end is not read where there is none yet."""
    stale = {"reason": "R", "message": "m", "finished_at": 3.0}
    _write(database, epoch, factory.session(1, **stale))
    assert database.load().live_sessions == [factory.session(1)]
    assert database.sessions_by_ids([factory.session(1).session_id]) == [
        factory.session(1, **stale)
    ]


@pytest.mark.dialect
def test_live_sessions_say_which_set_has_not_started(database, epoch):
    told = {"reason": codes.SET_WAITS, "message": "set one of 2 sessions"}
    waits = factory.session(1, **told)
    starts = factory.session(2, state="PREPARING", generation=7, **told)
    ended = factory.ended(3, 1.7e9, **told)
    _write(database, epoch, waits, starts, ended, factory.session(4))
    found = database.load().live_sessions
    assert found == [waits, starts, factory.session(4)]


@pytest.mark.dialect
def test_sessions_of_an_unknown_state_are_loaded_apart(database, epoch):
    live, unknown = factory.session(1), factory.session(2, state="FROZEN")
    _write(database, epoch, live, unknown, factory.ended(3, 1.7e9))
    snapshot = database.load()
    assert snapshot.live_sessions == [live]
    assert snapshot.unknown_sessions == [unknown]


@pytest.mark.dialect
def test_ended_sessions_that_may_have_a_slot_yet_are_loaded(database, epoch):
    ending = factory.ended(2, 1.7e9, slot_id=1, generation=(1 << 32) + 1)
    _write(
        database,
        epoch,
        *factory.hardware(),
        *(factory.session(1), ending, factory.ended(3, 1.7e9)),
        *(factory.assignment(1, 2), factory.assignment(2, 1)),
    )
    snapshot = database.load()
    assert snapshot.ending_sessions == [ending]
    assert snapshot.live_sessions == [factory.session(1)]


@pytest.mark.dialect
def test_sessions_that_failed_a_short_time_ago_are_loaded(database, epoch):
    def failed(
        id_: int, finished_at: float, code: str, state: str = "FAILED"
    ) -> api.SessionRecord:
        return factory.session(
            id_, state=state, reason=code, finished_at=finished_at
        )

    late = failed(2, 1.7e9 - 100, codes.WORKER_LOST)
    # Its client may come back after its worker has given it up.
    expired = failed(6, 1.7e9 - 50, codes.RESUME_TIMEOUT, "EXPIRED")
    # Its client may not have heard of the end.
    refused = failed(4, 1.7e9, codes.WAIT_TIMEOUT, "REJECTED")
    _write(
        database,
        epoch,
        factory.session(1),
        *(late, expired, failed(3, 1.7e9 - 200, codes.WORKER_LOST)),
        *(refused, factory.ended(5, 1.7e9)),
    )
    found = database.load().failed_sessions
    assert found == [late, refused, expired]


@pytest.mark.dialect
def test_live_sessions_are_loaded_in_order_with_or_without_a_slot(
    database, epoch
):
    had = factory.session(
        2, generation=1 << 32, input_bytes=5, former_input_bytes=5
    )
    held = factory.session(
        4, state="ACTIVE", slot_id=1, generation=(1 << 32) + 1, local=True
    )
    known = [factory.session(1), had, factory.session(3), held]
    _write(
        database,
        epoch,
        *factory.hardware(),
        *known,
        factory.assignment(1, 4),
    )
    assert database.load().live_sessions == known


def test_ended_sessions_are_not_loaded_but_their_ids_count(database, epoch):
    _write(
        database, epoch, factory.session(1), factory.ended(2, finished_at=5.0)
    )
    snapshot = database.load()
    assert [one.id for one in snapshot.live_sessions] == [1]
    assert snapshot.max_ids[api.SessionRecord] == 2


def test_live_sessions_come_in_order_of_arrival(database, epoch):
    ids = [3, 12, 1, 2, 11]
    _write(database, epoch, *(factory.session(id_) for id_ in ids))
    loaded = [one.id for one in database.load().live_sessions]
    assert loaded == sorted(ids)


def test_assignments_come_and_go(database, epoch):
    _write(
        database,
        epoch,
        *factory.hardware(),
        factory.session(1),
        factory.session(2),
        factory.assignment(1, 1),
        factory.assignment(2, 2),
    )
    moved = factory.assignment(2, 1)
    _write(database, epoch, moved, released=[1, 2])
    assert database.load().assignments == [moved]
    _write(database, epoch, released=[1, 2, 3])
    assert database.load().assignments == []


@pytest.mark.dialect
def test_an_old_epoch_writes_nothing(database, epoch):
    newer = database.take_lease("c2", database.read_lease()).epoch
    with pytest.raises(exception.NotLeader):
        _write(database, epoch, factory.session(1))
    assert database.load().live_sessions == []
    _write(database, newer, factory.session(1))
    assert len(database.load().live_sessions) == 1


def test_nothing_is_written_without_a_leader(database):
    with pytest.raises(exception.NotLeader):
        _write(database, 1, factory.session(1))
    assert database.load().live_sessions == []


@pytest.mark.dialect
def test_a_transaction_is_written_whole_or_not_at_all(database, epoch):
    _write(database, epoch, factory.session(1))
    with pytest.raises(exception.DatabaseError) as error:
        _write(
            database,
            epoch,
            factory.session(2),
            factory.assignment(slot_id=99, holder_id=2),
        )
    assert error.value.code == "DATABASE_ERROR"
    assert [one.id for one in database.load().live_sessions] == [1]


@pytest.mark.dialect
@pytest.mark.parametrize("member", ["session_id", "request_id"])
def test_another_sessions_row_is_never_overwritten(database, epoch, member):
    first = factory.session(1)
    _write(database, epoch, first)
    thief = factory.session(2, **{member: getattr(first, member)})
    with pytest.raises(exception.DatabaseError) as error:
        _write(database, epoch, thief)
    assert not isinstance(error.value, exception.DatabaseUnavailable)
    assert database.load().live_sessions == [first]


@pytest.mark.dialect
def test_sessions_with_the_names_of_others_are_left_out(
    database, epoch, caplog
):
    _write(database, epoch, *factory.hardware())
    old = [
        factory.ended(i, 5.0, request_id=f"old{i}", project_id=f"p{i % 2}")
        for i in (1, 2, 3)
    ]
    _write(database, epoch, *old)
    new = [
        factory.session(4, request_id="old1", project_id="p1"),
        # The same name in another project is another name.
        factory.session(5, request_id="old1", project_id="p0"),
        factory.session(6, request_id="old2", project_id="p0"),
        *(factory.session(i) for i in range(7, 1200)),
    ]
    changes = api.Changes.of(
        [
            *new,
            dataclasses.replace(old[2], message="purged?"),
            factory.assignment(slot_id=1, holder_id=4),
            factory.assignment(slot_id=2, holder_id=5),
        ]
    )
    ids = {record.id for record in new}
    for _ in range(2):
        holders = database.commit(epoch, changes, admitted=ids)
        assert sorted(holders, key=lambda one: one.id) == old[:2]
        snapshot = database.load()
        assert [one.id for one in snapshot.live_sessions] == sorted(
            ids - {4, 6}
        )
        assert [row.holder_id for row in snapshot.assignments] == [5]
        assert database.get_session(old[2].session_id).message == "purged?"
    # That is usual, because clients repeat requests without an answer: it is
    # no error for the log.
    assert not [one for one in caplog.records if one.exc_info]


def test_a_new_session_is_written_twice_without_harm(database, epoch):
    changes = api.Changes.of([factory.session(1)])
    for _ in range(2):
        assert database.commit(epoch, changes, admitted={1}) == []
    assert database.load().live_sessions == [factory.session(1)]


def test_withdrawn_sessions_do_not_exist(database, epoch):
    _write(
        database,
        epoch,
        *factory.hardware(),
        *(factory.session(i) for i in (1, 2)),
        factory.assignment(slot_id=1, holder_id=1),
        factory.assignment(slot_id=2, holder_id=2),
    )
    late = api.Changes.of(
        [factory.session(1), factory.assignment(slot_id=1, holder_id=1)]
    )
    database.commit(epoch, late, withdrawn={1, 99})
    snapshot = database.load()
    assert snapshot.live_sessions == [factory.session(2)]
    assert [row.holder_id for row in snapshot.assignments] == [2]


@pytest.mark.dialect
def test_the_largest_numbers_fit(database, epoch):
    session = factory.session(
        LARGEST,
        claimed_bytes=LARGEST,
        input_bytes=LARGEST,
        output_bytes=LARGEST,
        generation=LARGEST,
        revision=LARGEST,
        skips=LARGEST,
    )
    _write(database, epoch, session)
    assert database.load().live_sessions == [session]


@pytest.mark.dialect
def test_larger_numbers_are_refused(database, epoch):
    with pytest.raises(exception.DatabaseError):
        _write(database, epoch, factory.session(1, input_bytes=LARGEST + 1))
    assert database.load().live_sessions == []


@pytest.mark.dialect
def test_identifiers_that_differ_by_case_are_different(database, epoch):
    _write(
        database,
        epoch,
        factory.session(1, request_id="Job"),
        factory.session(2, request_id="job"),
        factory.session(3, request_id="jöb"),
    )
    assert database.find_session("p1", "job").id == 2
    assert database.find_session("p1", "jöb").id == 3
    assert database.find_session("P1", "job") is None


@pytest.mark.dialect
def test_long_texts_are_cut(database, epoch):
    text = "é🙂" * rows.MAX_TEXT_LENGTH
    _write(database, epoch, factory.session(1, message=text))
    loaded = database.find_session("p1", "request-1")
    assert loaded is not None
    assert loaded.message == text[: rows.MAX_TEXT_LENGTH]


any_text = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"),
    max_size=50,
)
any_count = st.integers(0, LARGEST)
any_time = st.floats(0, 1e12, allow_nan=False)
any_session = st.builds(
    dataclasses.replace,
    st.builds(factory.session, st.integers(1, 5)),
    claimed_bytes=any_count,
    input_bytes=any_count,
    priority=st.integers(-(2**31), 2**31 - 1),
    state=st.sampled_from(sorted(states.LIVE)),
    message=any_text,
    accelerator=any_text,
    local=st.none() | st.booleans(),
    queued_at=any_time,
    finished_at=st.none() | any_time,
    wait_timeout_s=st.none() | any_time,
)


@pytest.mark.dialect
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(batch=st.lists(any_session, max_size=6))
def test_writing_twice_is_writing_once(database, batch):
    epoch = database.take_lease("c1", database.read_lease()).epoch
    _write(database, epoch, *batch)
    expected = {one.id: one for one in batch}

    def loaded():
        ids = [one.session_id for one in batch]
        return {one.id: one for one in database.sessions_by_ids(ids)}

    assert loaded() == expected
    _write(database, epoch, *batch)
    assert loaded() == expected


# Reading sessions.


def test_sessions_are_found(database, epoch):
    live, done = factory.session(1), factory.ended(2, finished_at=5.0)
    _write(database, epoch, live, done)
    assert database.get_session(done.session_id) == done
    assert database.get_session("unknown") is None
    head = database.session_head(done.session_id)
    assert head is not None
    for one in dataclasses.fields(head):
        assert getattr(head, one.name) == getattr(done, one.name)
    assert database.session_head("unknown") is None
    assert database.find_session("p1", live.request_id) == live
    assert database.find_session("p2", live.request_id) is None


def test_many_sessions_are_read_at_once(database, epoch):
    written = [factory.session(i) for i in range(1, 1202)]
    _write(database, epoch, *written)
    ids = [one.session_id for one in written]
    found = database.sessions_by_ids([*ids, *ids, "unknown"])
    assert sorted(found, key=lambda one: one.id) == written
    assert database.sessions_by_ids([]) == []


def test_revisions_of_many_sessions_are_read_at_once(database, epoch):
    written = [factory.session(i, revision=i) for i in range(1, 1202)]
    _write(database, epoch, *written)
    ids = [one.session_id for one in written]
    assert database.session_revisions([*ids, *ids, "unknown"]) == {
        one.session_id: (one.state, one.revision) for one in written
    }
    assert database.session_revisions([]) == {}


@pytest.mark.dialect
def test_slots_are_counted_until_they_are_given_back(database, epoch):
    """A session that has ended may have its slot yet."""
    ending = factory.ended(2, 1.7e9, slot_id=1, generation=(1 << 32) + 1)
    _write(
        database,
        epoch,
        *factory.hardware(),
        *(factory.session(1), ending, factory.session(3)),
        *(factory.assignment(1, 2), factory.assignment(2, 1)),
    )
    project_id = factory.session(1).project_id
    use = database.project_use(project_id)
    assert use.slots == 2
    assert sum(one.sessions for one in use.sessions) == 2
    assert database.project_use("other").slots == 0


def test_sessions_are_listed_in_pages(database, epoch):
    _write(database, epoch, *(factory.session(i) for i in range(1, 8)))
    pages, marker = [], None
    while page := database.list_sessions(marker=marker, limit=3):
        pages.append([one.id for one in page])
        marker = page[-1].session_id
    assert pages == [[7, 6, 5], [4, 3, 2], [1]]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ([("id", True)], [1, 2, 3, 4, 5, 6, 7]),
        ([("claimed_bytes", True)], [3, 6, 1, 4, 7, 2, 5]),
        ([("claimed_bytes", False)], [5, 2, 7, 4, 1, 6, 3]),
        ([("accelerator", True)], [2, 4, 6, 1, 3, 5, 7]),
        ([("state", False)], [7, 6, 5, 4, 3, 2, 1]),
        (
            [("claimed_bytes", True), ("accelerator", False)],
            [3, 6, 7, 1, 4, 5, 2],
        ),
        (
            [("accelerator", True), ("claimed_bytes", False), ("id", True)],
            [2, 4, 6, 5, 1, 7, 3],
        ),
        ([("state", True), ("id", False)], [7, 6, 5, 4, 3, 2, 1]),
    ],
)
def test_sessions_are_sorted_over_pages(database, epoch, order, expected):
    _write(
        database,
        epoch,
        *(
            factory.session(
                i,
                claimed_bytes=i % 3 + 1,
                accelerator="fft" if i % 2 else "aes",
            )
            for i in range(1, 8)
        ),
    )
    found, marker = [], None
    while page := database.list_sessions(marker=marker, limit=2, order=order):
        found += [one.id for one in page]
        marker = page[-1].session_id
    assert found == expected


def test_inventory_has_the_hardware_and_who_holds_it(database, epoch):
    hardware = factory.hardware()
    _write(
        database,
        epoch,
        *hardware,
        factory.session(1, project_id="p2"),
        factory.session(2),
        factory.assignment(2, holder_id=1, phase="READY"),
    )
    inventory = database.inventory()
    found = [*inventory.hosts, *inventory.devices, *inventory.slots]
    assert found == hardware
    assert inventory.holders == [
        api.SlotHolder(
            slot_id=2,
            accelerator="aes",
            phase="READY",
            session_id=factory.session(1).session_id,
            project_id="p2",
            user_id=factory.session(1).user_id,
        )
    ]
    assert inventory.projects == {}


@pytest.mark.dialect
def test_parts_of_the_inventory_follow_each_other(database, epoch):
    host, device, slot, _ = factory.hardware()
    copies = [
        dataclasses.replace(one, id=number, **members)
        for number in (3, 1, 2)
        for one, members in (
            (host, {"uuid": str(uuid.UUID(int=number))}),
            (device, {"host_id": number}),
            (slot, {"device_id": number}),
        )
    ]
    _write(
        database,
        epoch,
        *copies,
        factory.session(1),
        factory.assignment(3, holder_id=1, phase="READY"),
    )
    found, after = [], ""
    while (part := database.part_of_inventory(after, 1)).hosts:
        (host,), (device,), (slot,) = part.hosts, part.devices, part.slots
        assert host.id == device.host_id == slot.device_id
        assert [one.slot_id for one in part.holders] == [3] * (host.id == 3)
        found.append(host.id)
        after = host.uuid
    assert found == [1, 2, 3]


def test_inventory_says_whose_instances_have_reserved(database, epoch):
    instances = [
        api.InstanceRecord(
            id=number,
            instance_id=instance_id,
            project_id=f"p{number}",
            token_nonce="n",
            token_hash="h",
            created_at=1.0,
        )
        for number, instance_id in enumerate((factory.VM, "another"), 1)
    ]
    reserved = api.ReservationRecord(device_id=1, instances={factory.VM: 1})
    _write(database, epoch, *factory.hardware(), reserved, *instances)
    inventory = database.inventory()
    assert inventory.projects == {factory.VM: "p1"}
    assert inventory.reservations == [reserved]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, [4, 3, 2, 1]),
        ({"project_id": "p2"}, [2]),
        ({"user_id": "u2"}, [3]),
        ({"accelerator": "fft"}, [4]),
        ({"host_id": 9}, [4]),
        ({"states": ["CLOSED", "QUEUED"]}, [4, 3, 2]),
        ({"states": ["CLOSED"], "project_id": "p2"}, []),
        ({"changed_since": 70.0}, [4, 3]),
        ({"changed_since": 70.5}, [4]),
    ],
)
def test_sessions_are_filtered(database, epoch, filters, expected):
    _write(
        database,
        epoch,
        factory.session(1, state="READY"),
        factory.session(2, project_id="p2"),
        factory.ended(3, 5.0, user_id="u2", updated_at=70.0),
        factory.session(4, accelerator="fft", host_id=9, updated_at=71.0),
    )
    found = database.list_sessions(api.SessionFilter(**filters), limit=10)
    assert [one.id for one in found] == expected


def test_an_unknown_marker_is_an_error(database):
    with pytest.raises(exception.SessionNotFound, match="nobody"):
        database.list_sessions(marker="nobody", limit=1)


@pytest.mark.dialect
def test_purging_takes_the_oldest_that_have_ended(database, epoch):
    _write(
        database,
        epoch,
        *factory.hardware(),
        factory.session(1),
        *(factory.ended(i, finished_at=100.0 - i) for i in range(2, 6)),
        factory.ended(6, finished_at=1.0),
        factory.ended(7, finished_at=100.0),
        factory.assignment(1, holder_id=6),
    )
    assert database.purge_sessions(100.0, limit=3) == 3
    left = database.list_sessions(limit=10)
    assert [one.id for one in left] == [7, 6, 2, 1]
    assert database.purge_sessions(100.0, limit=3) == 1
    assert database.purge_sessions(100.0, limit=3) == 0
    assert len(database.list_sessions(limit=10)) == 3


# Usage.


def test_usage_is_added_up_by_project_and_day(database, epoch):
    days = [datetime.date(2026, 5, day) for day in (1, 2, 3)]
    rows = [
        api.UsageRecord(
            id=number,
            project_id=project,
            accelerator="aes",
            day=day,
            sessions=number,
            slot_s=0.5 * number,
            input_bytes=2**60 + number,
        )
        for number, (project, day) in enumerate(
            [(p, d) for d in days for p in ("a", "b")], start=1
        )
    ]
    _write(database, epoch, *rows)
    sums = [_as_sum(row) for row in rows]
    assert database.sum_usage(limit=9) == sums
    assert database.sum_usage("a", limit=9) == sums[::2]
    found = database.sum_usage(
        "b", first_day=days[1], last_day=days[1], limit=9
    )
    assert found == [sums[3]]
    assert database.sum_usage("nobody", limit=9) == []
    snapshot = database.load()
    assert snapshot.usage == rows[4:]
    assert snapshot.max_ids[api.UsageRecord] == 6


@pytest.mark.dialect
def test_usage_that_lacks_what_ended_sessions_have(database, epoch):
    day = datetime.date(2026, 5, 2)
    began_at = datetime.datetime(2026, 5, 2, tzinfo=datetime.UTC).timestamp()

    def ended(id_: int, **members: object) -> api.SessionRecord:
        values = {"queued_at": began_at, "generation": 7, "input_bytes": 100}
        return factory.ended(id_, began_at + 5.0, **values | members)

    _write(
        database,
        epoch,
        *factory.hardware(),
        ended(1),
        ended(2, output_bytes=30),
        ended(3, project_id="p2"),
        # Not to be compared: of the day before, never served, with a slot.
        ended(4, queued_at=began_at - 1.0),
        ended(5, generation=0),
        ended(6),
        factory.session(7, input_bytes=100, generation=7, queued_at=began_at),
        factory.assignment(1, holder_id=6),
        factory.assignment(2, holder_id=1, holder_kind="group"),
    )
    both = [
        api.UsageGap(
            project_id=project_id,
            accelerator="aes",
            sessions=sessions,
            input_bytes=100 * sessions,
            output_bytes=output_bytes,
        )
        for project_id, sessions, output_bytes in (("p1", 2, 30), ("p2", 1, 0))
    ]
    assert database.usage_gaps(day) == both
    # More than that is no gap; what is of another day is not in it.
    used = api.UsageRecord(
        id=1,
        project_id="p1",
        accelerator="aes",
        day=day,
        sessions=9,
        input_bytes=150,
        output_bytes=30,
    )
    before = dataclasses.replace(
        used, id=2, project_id="p2", day=day - datetime.timedelta(1)
    )
    _write(database, epoch, used, before)
    assert database.usage_gaps(day) == [
        dataclasses.replace(
            both[0], sessions=0, input_bytes=50, output_bytes=0
        ),
        both[1],
    ]


def test_usage_outlives_the_sessions(database, epoch):
    row = api.UsageRecord(
        id=1,
        project_id="p1",
        accelerator="aes",
        day=datetime.date(2026, 5, 1),
        sessions=1,
    )
    _write(database, epoch, factory.ended(1, finished_at=100.0), row)
    more = dataclasses.replace(row, sessions=2, output_bytes=7)
    _write(database, epoch, factory.ended(2, finished_at=100.0), more)
    assert database.purge_sessions(200.0, limit=10) == 2
    assert database.load().usage == [more]


def _as_sum(row: api.UsageRecord) -> api.UsageSum:
    members = dataclasses.asdict(row)
    del members["id"]
    return api.UsageSum(**members)


# The library.


def test_accelerators_are_replaced(database):
    aes, copy = (
        api.AcceleratorRecord(name=name, profile={"version": 1})
        for name in ("aes", "copy")
    )
    database.upsert_accelerators([copy, aes])
    database.upsert_accelerators([])
    assert database.accelerators() == [aes, copy]
    newer = api.AcceleratorRecord(name="aes", profile={"version": 2})
    database.upsert_accelerators([newer])
    assert database.accelerators() == [newer, copy]
