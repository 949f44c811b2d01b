# SPDX-License-Identifier: Apache-2.0

"""The threads around the engine, with a database that fails on demand."""

import collections
import concurrent.futures
import contextlib
import dataclasses
import queue
import threading
import time

import oslo_messaging as messaging
import pytest

from fpgapool.common import clock
from fpgapool.common import exception
from fpgapool.conductor import counts
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.runtime import batching
from fpgapool.conductor.runtime import election
from fpgapool.conductor.runtime import persistence
from fpgapool.conductor.runtime import pump
from fpgapool.conductor.runtime import sender
from fpgapool.db import api as db_api
from fpgapool.rpcapi import api as api_rpcapi
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.functional.db import factory
from tests.harness import waiting
from tests.unit.conductor import fake_leases
from tests.unit.conductor import world


class Collector:
    """Waits for what a thread delivers."""

    def __init__(self) -> None:
        self.items: queue.Queue[object] = queue.Queue()

    def __call__(self, delivered: object) -> None:
        self.items.put(delivered)

    def next(self) -> object:
        return self.items.get(timeout=waiting.LIMIT_S)


def host(number: int) -> db_api.HostRecord:
    return db_api.HostRecord(
        id=number, uuid=str(number), name="h", nic_bytes_per_s=1.0
    )


def batch(*rows: db_api.Record, ask: str | None = None) -> effects.Effects:
    after = [effects.AskReport(ask)] if ask else []
    return effects.Effects(changes=db_api.Changes.of(rows), after_commit=after)


@pytest.fixture
def parts():
    database, delivered, unrecorded, deposed, failed = (
        fake_leases.FakeDatabase(),
        Collector(),
        Collector(),
        threading.Event(),
        Collector(),
    )
    committer = persistence.GroupCommitter(
        database,
        7,
        deliver=delivered,
        on_unrecorded=unrecorded,
        on_deposed=deposed.set,
        on_failure=failed,
    )
    database.unrecorded = unrecorded
    committer.start()
    yield committer, database, delivered, deposed, failed
    database.proceed.set()
    committer.stop()


def test_what_piles_up_during_a_commit_is_one_transaction(parts):
    committer, database, delivered, _, _ = parts
    database.proceed.clear()
    committer.put(batch(host(1), ask="first"))
    assert database.entered.wait(waiting.LIMIT_S)
    for number in range(2, 50):
        committer.put(batch(host(number), ask=f"later{number}"))
    database.proceed.set()
    assert delivered.next() == [effects.AskReport("first")]
    assert len(delivered.next()) == 48
    sizes = [len(c.rows(db_api.HostRecord)) for c in database.committed]
    assert sizes == [1, 48]


def test_nothing_is_told_before_its_rows_are_durable(parts):
    committer, database, delivered, _, _ = parts
    database.errors.put(exception.DatabaseUnavailable(reason="gone"))
    database.errors.put(exception.DatabaseUnavailable(reason="gone"))
    database.proceed.clear()
    committer.put(batch(host(1), ask="a"))
    assert database.entered.wait(waiting.LIMIT_S)
    assert delivered.items.empty()
    database.proceed.set()
    assert delivered.next() == [effects.AskReport("a")]
    assert len(database.committed) == 1
    assert not committer.failing


def test_messages_without_rows_keep_their_place(parts):
    committer, database, delivered, _, _ = parts
    database.proceed.clear()
    committer.put(batch(host(1), ask="a"))
    committer.put(batch(ask="b"))
    database.proceed.set()
    told = delivered.next()
    if len(told) == 1:
        told += delivered.next()
    assert told == [effects.AskReport("a"), effects.AskReport("b")]


def test_a_deposed_leader_writes_and_tells_nothing_more(parts):
    committer, database, delivered, deposed, _ = parts
    database.errors.put(exception.NotLeader(reason="epoch 7 is over"))
    committer.put(batch(host(1), ask="a"))
    assert deposed.wait(waiting.LIMIT_S)
    committer.put(batch(host(2), ask="b"))
    committer.stop()
    assert not database.committed
    assert delivered.items.empty()


def test_steps_are_written_with_what_somebody_waits_for(parts, monkeypatch):
    committer, database, delivered, _, _ = parts
    monkeypatch.setattr(batching, "GATHER_S", 10 * waiting.LIMIT_S)
    steps = [fake_leases.news(1, "PREPARING"), fake_leases.news(2, "READY")]
    for number, step in enumerate(steps):
        changes = db_api.Changes.of([host(number)])
        committer.put(effects.Effects(changes, after_commit=[step]))
    # The second step says more.
    assert delivered.next() == steps[1:]
    (written,) = database.committed
    assert len(written.rows(db_api.HostRecord)) == 2


def test_steps_are_written_although_nothing_follows(parts):
    committer, database, delivered, _, _ = parts
    changes = db_api.Changes.of([host(1)])
    committer.put(effects.Effects(changes, after_commit=[fake_leases.news(1)]))
    assert delivered.next() == [fake_leases.news(1)]
    assert len(database.committed) == 1


def test_a_session_whose_name_is_anothers_is_given_back(parts):
    committer, database, delivered, _, _ = parts
    holder = factory.ended(1, 1.0, project_id="p", request_id="r2")
    database.holders = [holder]
    database.proceed.clear()
    for number in (2, 3):
        committer.put(fake_leases.admitted(number))
    database.proceed.set()
    told = database.unrecorded.next()
    assert told == inputs.Unrecorded(
        fake_leases.admitted(2).admissions[0], holder
    )
    assert {one.view.session_id for one in delivered.next()} == {"s3"}
    # What the engine said of it before it knew is not written.
    committer.put(batch(host(1), ask="a"))
    delivered.next()
    committer.put(
        effects.Effects(
            db_api.Changes(),
            after_commit=[effects.AskReport("b")],
            withdrawn=[2],
        )
    )
    delivered.next()
    committer.put(batch(host(2), ask="c"))
    delivered.next()
    assert database.withdrawn[-3:] == [{2}, {2}, set()]
    assert database.unrecorded.items.empty()


@pytest.mark.parametrize("hangs", [True, False])
def test_sessions_that_were_given_up_are_not_recorded(parts, hangs):
    """Whether the database said that it is away, or nothing."""
    committer, database, delivered, _, _ = parts
    committer.put(fake_leases.admitted(1))
    delivered.next()
    assert committer.recorded_id == 1
    if not hangs:
        database.errors.put(exception.DatabaseUnavailable(reason="gone"))
    database.proceed.clear()
    database.entered.clear()
    committer.put(fake_leases.admitted(2))
    assert database.entered.wait(waiting.LIMIT_S)
    committer.put(fake_leases.admitted(3))
    assert committer.give_up(3) == 1
    committer.put(effects.Effects(db_api.Changes(), withdrawn=[2, 3]))
    committer.put(fake_leases.admitted(4))
    database.proceed.set()
    assert {one.view.session_id for one in delivered.next()} == {"s4"}
    assert committer.recorded_id == 4
    # The first one may have been written by the commit that hung.
    assert {2, 3} <= set.union(*database.withdrawn)
    committer.put(batch(host(2), ask="c"))
    delivered.next()
    assert database.withdrawn[-1] == set()


def test_an_error_that_repeating_cannot_help_is_not_hidden(parts):
    committer, database, _, _, failed = parts
    database.errors.put(exception.DatabaseError(reason="a row is refused"))
    committer.put(batch(host(1)))
    assert failed.next() == "group-commit"


class FakeAgents:
    """Collects casts; the broker is away for hosts named "away"."""

    def __init__(self) -> None:
        self.casts = Collector()
        self.batches = Collector()

    @contextlib.contextmanager
    def together(self):
        self._batch = []
        yield
        told = [cast for cast in self._batch if cast[1] != "away"]
        self.batches(told)
        for cast in told:
            self.casts(cast)
        if len(told) < len(self._batch):
            raise messaging.MessageDeliveryFailure("no broker")

    def __getattr__(self, method):
        def cast(host_uuid, epoch, *arguments):
            self._batch.append((method, host_uuid, epoch, *arguments))

        return cast


class FakeApis:
    """Collects news for the REST API among an agent's casts."""

    def __init__(self, agents: FakeAgents) -> None:
        self._agents = agents

    def sessions_changed(self, views):
        self._agents.casts(("sessions_changed", views))


@pytest.fixture
def outbox():
    agents = FakeAgents()
    made = sender.Sender(
        agents, FakeApis(agents), 7, name="test", on_failure=Collector()
    )
    made.start()
    yield made, agents.casts
    made.stop()


def test_every_cast_carries_the_epoch(outbox):
    made, casts = outbox
    made.deliver([effects.AskReport("a")])
    assert casts.next() == ("report_now", "a", 7)
    release = effects.ReleaseSlot("a", "board0", 1, "s", 5, "R")
    made.deliver([release])
    assert casts.next() == ("release", "a", 7, "board0", 1, "s", 5, "R")
    made.deliver([effects.ReissueSecret("a", "board0", 1, 5)])
    assert casts.next() == ("reissue_secret", "a", 7, "board0", 1, 5)


def test_a_host_that_cannot_be_told_does_not_hold_up_the_others(outbox):
    made, casts = outbox
    made.deliver([effects.AskReport("away"), effects.AskReport("b")])
    assert casts.next() == ("report_now", "b", 7)
    made.deliver([effects.AskReport("c")])
    assert casts.next() == ("report_now", "c", 7)


def test_only_the_newest_view_of_a_session_is_sent(outbox):
    made, casts = outbox
    made.deliver([fake_leases.news(revision) for revision in range(100)])
    last = -1
    while last < 99:
        method, _, _, views = casts.next()
        assert method == "session_changed"
        assert views[-1].revision > last
        last = views[-1].revision


def test_steps_are_gathered_and_what_is_waited_for_is_not(outbox, monkeypatch):
    made, casts = outbox
    monkeypatch.setattr(batching, "GATHER_S", 10 * waiting.LIMIT_S)
    made.deliver([fake_leases.news(1, "QUEUED")])
    made.deliver([fake_leases.news(2, "PREPARING")])
    made.deliver([fake_leases.news(3, "READY")])
    _, _, _, (view,) = casts.next()
    assert (view.state, view.revision) == ("READY", 3)
    assert casts.items.empty()


def test_steps_are_told_although_nothing_follows(outbox):
    made, casts = outbox
    made.deliver([fake_leases.news(1, "ACTIVE")])
    _, _, _, (view,) = casts.next()
    assert view.state == "ACTIVE"


def test_the_rest_api_hears_of_sessions_although_no_host_can_be_told(outbox):
    made, casts = outbox
    ready = fake_leases.news(3, states.READY).view
    changes = [
        effects.SessionChanged(
            dataclasses.replace(ready, session_id=f"s{number}")
        )
        for number in range(api_rpcapi.MAX_CHANGES + 1)
    ]
    made.deliver([effects.AskReport("away"), *changes])
    told = list(casts.next()[1])
    while len(told) < len(changes):
        method, views = casts.next()
        assert method == "sessions_changed"
        assert len(views) <= api_rpcapi.MAX_CHANGES
        told += views
    assert told == [one.view for one in changes]


class FakeCommitter:
    """Takes batches; nothing is away."""

    recorded_id = 0

    failing = False

    def __init__(self) -> None:
        self.batches = Collector()

    def put(self, wanted: effects.Effects) -> None:
        for message in wanted.after_commit:
            if isinstance(message, effects.Reply):
                sender._is_answered(message)
        self.batches(wanted)


@pytest.fixture
def pumping():
    pool = world.Conductor(world.hosts(a=1))
    committer, outbox, failed = FakeCommitter(), Collector(), Collector()
    pool.engine.start = lambda now: effects.Effects(db_api.Changes())
    outbox.deliver = outbox
    made = pump.Pump(
        pool.engine,
        clock.WallClock(),
        committer=committer,
        outbox=outbox,
        on_failure=failed,
    )
    made.start()
    yield made, committer, outbox, failed, pool
    made.stop()


def test_the_pump_carries_a_request_to_the_agents(pumping):
    made, committer, outbox, _, _ = pumping
    made.put(world.opening(world.request()))
    (order,) = outbox.next()
    assert isinstance(order, effects.AssignSlot)
    wanted = committer.batches.next()
    assert len(wanted.changes.rows(db_api.SessionRecord)) == 1


def test_the_pump_reckons_by_the_clock_that_it_shows(pumping):
    made, _, outbox, _, _ = pumping
    request = world.request(host_uuid=None)
    made.put(world.opening(request, made.now()))
    made.put(world.opening(request, made.now() + waiting.LIMIT_S))
    (order,) = outbox.next()
    assert isinstance(order, effects.AssignSlot)


def test_the_pump_answers_questions(pumping):
    made, *_ = pumping
    assert made.ask(lambda asked: asked.queued_count, waiting.LIMIT_S) == 0


def test_a_question_that_fails_does_not_end_the_pump(pumping):
    made, _, outbox, _, _ = pumping

    def deliver(messages):
        for message in messages:
            sender._is_answered(message)

    outbox.deliver = deliver
    for durable in (True, False):
        with pytest.raises(ZeroDivisionError):
            made.ask(lambda engine: 1 / 0, waiting.LIMIT_S, durable=durable)
    assert made.ask(lambda asked: asked.queued_count, waiting.LIMIT_S) == 0


def test_the_pump_wakes_for_a_wait_timeout(pumping):
    made, committer, _, _, _ = pumping
    for number, wait_timeout_s in enumerate((None, 0.2)):
        wanted = world.request(
            request_id=f"r{number}", wait_timeout_s=wait_timeout_s
        )
        made.put(world.opening(wanted))
    reasons: list[str] = []
    while codes.WAIT_TIMEOUT not in reasons:
        wanted = committer.batches.next()
        reasons += [
            r.reason for r in wanted.changes.rows(db_api.SessionRecord)
        ]


def test_a_failed_pump_is_noticed(pumping):
    made, _, _, failed, pool = pumping

    def fail(batch, now):
        raise ZeroDivisionError

    pool.engine.process = fail
    made.put(inputs.RenewSecret("s"))
    assert failed.next() == "pump"


@pytest.mark.parametrize(
    ("lease", "epoch"),
    [
        (None, 1),
        (db_api.Lease(holder="", epoch=4, renewals=9), 5),
        (db_api.Lease(holder="me", epoch=4, renewals=9), 5),
    ],
)
def test_a_free_office_is_taken_at_once(lease, epoch):
    leases = fake_leases.FakeLeases(lease)
    won = election.Election(leases, "me", 3600).win(threading.Event())
    assert won == epoch


def test_a_silent_leader_is_succeeded():
    leases = fake_leases.FakeLeases(
        db_api.Lease(holder="it", epoch=4, renewals=9)
    )
    won = election.Election(leases, "me", 0.3).win(threading.Event())
    assert won == 5


def test_nobody_is_succeeded_for_what_was_not_seen():
    """The database was away, or the stand-by stood still: that is no proof."""
    lease = db_api.Lease(holder="it", epoch=4, renewals=9)
    silence = election._Silence()
    assert silence.note(lease, 100.0, 2.0) == 0.0
    assert silence.note(lease, 101.0, 2.0) == 1.0
    assert silence.note(lease, 901.0, 2.0) == 3.0
    renewed = dataclasses.replace(lease, renewals=10)
    assert silence.note(renewed, 902.0, 2.0) == 0.0


def test_after_an_outage_the_leader_has_the_whole_lease_again():
    leases = fake_leases.FakeLeases(
        db_api.Lease(holder="it", epoch=4, renewals=9)
    )
    reads = collections.deque([False] * 4 + [True] + [False] * 4)
    outcomes: list[int] = []
    read_lease = leases.read_lease

    def read():
        leases.failing = reads.popleft() if reads else False
        outcomes.append(len(reads))
        return read_lease()

    leases.read_lease = read
    # A look every sixth of it: six unchanged looks in a row are needed.
    won = election.Election(leases, "me", 0.6).win(threading.Event())
    assert won == 5
    assert len(outcomes) > 9


def test_an_election_looks_at_no_wall_clock(monkeypatch):
    def forbidden() -> float:
        raise AssertionError("the wall clock can be set")

    monkeypatch.setattr(time, "time", forbidden)
    leases = fake_leases.FakeLeases(
        db_api.Lease(holder="it", epoch=4, renewals=9)
    )
    won = election.Election(leases, "me", 0.3).win(threading.Event())
    assert won == 5


def test_the_next_leader_does_not_go_by_a_clock_that_was_set():
    leases = fake_leases.FakeLeases(
        db_api.Lease(holder="it", epoch=4, renewals=9)
    )
    read_lease = leases.read_lease

    def read():
        if leases.read.is_set():
            leases.time_s = 1e9 + 7200
        return read_lease()

    leases.read_lease = read
    candidate = election.Election(leases, "me", 0.3)
    assert candidate.win(threading.Event()) == 5
    assert 1e9 <= candidate.now() < 1e9 + waiting.LIMIT_S


def test_pool_time_goes_on_from_what_the_leader_told_last():
    lease = db_api.Lease(holder="it", epoch=4, renewals=9, pool_time_s=500.0)
    leases = fake_leases.FakeLeases(lease)
    # Set before this stand-by was started.
    leases.time_s = 1e9 + 7200
    candidate = election.Election(leases, "me", 0.3)
    assert candidate.win(threading.Event()) == 5
    assert 500.3 <= candidate.pool_time_s() < 500.3 + waiting.LIMIT_S


def test_pool_time_is_measured_from_what_the_leader_told_last():
    """Not from its first word, and not anew when another one has led."""
    told = {"holder": "it", "epoch": 4}
    candidate = election.Election(fake_leases.FakeLeases(None), "me", 0.3)
    assert candidate.pool_time_s() is None
    candidate._update_pool_time(None)
    assert candidate.pool_time_s() is None
    candidate._update_pool_time(
        db_api.Lease(renewals=9, pool_time_s=500.0, **told)
    )
    candidate._update_pool_time(
        db_api.Lease(renewals=10, pool_time_s=900.0, **told)
    )
    first = candidate.pool_time_s()
    while candidate.pool_time_s() == first:
        pass
    later = candidate.pool_time_s()
    candidate._update_pool_time(
        db_api.Lease(holder="you", epoch=5, renewals=0, pool_time_s=900.0)
    )
    assert (
        900.0
        <= first
        < later
        <= candidate.pool_time_s()
        < 900.0 + waiting.LIMIT_S
    )


def test_a_living_leader_is_not_succeeded():
    leases = fake_leases.FakeLeases(
        db_api.Lease(holder="it", epoch=4, renewals=9)
    )
    stopping, results = threading.Event(), Collector()
    candidate = election.Election(leases, "me", 3600)
    thread = threading.Thread(target=lambda: results(candidate.win(stopping)))
    thread.start()
    assert leases.read.wait(waiting.LIMIT_S)
    stopping.set()
    assert results.next() is None
    thread.join()
    assert leases.lease.holder == "it"


def test_an_election_waits_for_the_database():
    leases = fake_leases.FakeLeases(None)
    leases.failing = True
    results = Collector()
    candidate = election.Election(leases, "me", 0.1)
    thread = threading.Thread(
        target=lambda: results(candidate.win(threading.Event()))
    )
    thread.start()
    assert leases.read.wait(waiting.LIMIT_S)
    leases.failing = False
    assert results.next() == 1
    thread.join()


def test_a_deposed_leader_notices():
    leases = fake_leases.FakeLeases(
        db_api.Lease(holder="it", epoch=9, renewals=0)
    )
    candidate = election.Election(leases, "me", 0.1)
    assert not candidate.hold(4, threading.Event(), lambda: None, lambda: None)


def test_a_leader_stays_in_office_while_the_database_is_away():
    leases = fake_leases.FakeLeases(
        db_api.Lease(holder="me", epoch=4, renewals=0)
    )
    stopping, renewals = threading.Event(), Collector()
    leases.errors = [exception.DatabaseUnavailable(reason="gone")] * 3

    def renewed() -> None:
        if leases.errors:
            raise leases.errors.pop()
        renewals("renewed")
        stopping.set()

    candidate = election.Election(leases, "me", 0.1)
    assert candidate.hold(4, stopping, renewed, lambda: 17.0)
    assert leases.told_s == [17.0] * 4
    assert renewals.next() == "renewed"


def test_the_lease_is_kept_while_a_long_queue_is_taken_over():
    leases = fake_leases.FakeLeases(
        db_api.Lease(holder="me", epoch=4, renewals=0)
    )
    renewals, deposed = Collector(), threading.Event()
    renew = leases.renew_lease

    def renew_lease(holder, epoch, pool_time_s):
        renew(holder, epoch, pool_time_s)
        renewals(epoch)

    leases.renew_lease = renew_lease
    candidate = election.Election(leases, "me", 0.1)
    with candidate.kept(4, deposed):
        assert renewals.next() == 4
        assert renewals.next() == 4
        assert not deposed.is_set()
        leases.lease = db_api.Lease(holder="it", epoch=5, renewals=0)
        assert deposed.wait(waiting.LIMIT_S)


def test_the_lease_is_kept_no_longer_than_needed():
    leases = fake_leases.FakeLeases(
        db_api.Lease(holder="me", epoch=4, renewals=0)
    )
    with (
        pytest.raises(RuntimeError, match="no such table"),
        election.Election(leases, "me", 3600).kept(4, threading.Event()),
    ):
        raise RuntimeError("no such table")
    assert "lease" not in [one.name for one in threading.enumerate()]


def test_a_resigned_office_is_free():
    leases = fake_leases.FakeLeases(
        db_api.Lease(holder="me", epoch=4, renewals=0)
    )
    election.Election(leases, "me", 1).resign(4, None)
    assert leases.lease.holder == ""
    election.Election(leases, "me", 1).resign(4, None)


@pytest.fixture
def stuck():
    """Give a pump that is not started, so that all it gets waits."""
    pool = world.Conductor(world.hosts(a=1))
    committer, outbox = FakeCommitter(), Collector()
    pool.engine.start = lambda now: effects.Effects(db_api.Changes())
    outbox.deliver = outbox
    counted = counts.Counts()
    made = pump.Pump(
        pool.engine,
        clock.WallClock(),
        committer=committer,
        outbox=outbox,
        on_failure=Collector(),
        max_inputs=100,
        counts=counted,
    )
    yield made, counted
    made.start()
    made.stop()


def cancellation(project_id: str) -> inputs.Cancel:
    return inputs.Cancel(project_id, None, "r", "R")


def test_no_project_has_all_the_room_for_inputs(stuck) -> None:
    made, counted = stuck
    flood = [made.offer(cancellation("f"), "f") for _ in range(1000)]
    assert flood == [True] * 25 + [False] * 975
    assert counted.inputs_dropped == 975
    assert made.offer(cancellation("other"), "other")
    # Agents are heard when clients are not.
    for number in range(100):
        made.offer(cancellation(f"p{number}"), f"p{number}")
    assert not made.offer(cancellation("late"), "late")
    assert all(made.offer(inputs.RenewSecret("s")) for _ in range(100))
    assert not made.offer(inputs.RenewSecret("s"))
    assert made.backlog == 200


def test_room_is_given_back(pumping) -> None:
    made, *_ = pumping
    room = made._room
    for _ in range(3):
        for project_id in ("p", "q"):
            assert made.offer(cancellation(project_id), project_id)
        made.ask(lambda engine: None, waiting.LIMIT_S)
    made.ask(lambda engine: None, waiting.LIMIT_S)
    assert room._total == 0
    assert not room._by_project


def test_a_long_outage_takes_no_more_memory_than_the_rows(parts) -> None:
    """Very many batches become one, and the newest of each thing is told."""
    committer, database, delivered, _, _ = parts
    most = persistence.MAX_WAITING_BATCHES
    database.proceed.clear()
    committer.put(batch(host(1)))
    assert database.entered.wait(waiting.LIMIT_S)
    given_up: concurrent.futures.Future[int] = concurrent.futures.Future()
    given_up.cancel()
    asked: concurrent.futures.Future[int] = concurrent.futures.Future()
    for number in range(2 * most):
        committer.put(batch(host(number % 3 + 1), ask=f"a{number % 2}"))
    committer.put(
        effects.Effects(
            changes=db_api.Changes.of([]),
            after_commit=[
                effects.Reply(given_up, 1),
                effects.Reply(asked, 2),
            ],
        )
    )
    for _ in range(2):
        database.errors.put(exception.DatabaseUnavailable(reason="gone"))
    database.proceed.set()
    told = delivered.next()
    assert told == [
        effects.AskReport("a0"),
        effects.AskReport("a1"),
        effects.Reply(asked, 2),
    ]
    (written,) = database.committed
    assert len(written.rows(db_api.HostRecord)) == 3
    assert committer.backlog == 0


def test_the_end_of_a_committer_outlives_an_outage(parts) -> None:
    committer, database, _, _, _ = parts
    database.proceed.clear()
    committer.put(batch(host(1)))
    assert database.entered.wait(waiting.LIMIT_S)
    for number in range(2 * persistence.MAX_WAITING_BATCHES):
        committer.put(batch(host(number % 3 + 1)))
    database.errors.put(exception.DatabaseUnavailable(reason="gone"))
    ending = threading.Thread(target=committer.stop)
    ending.start()
    database.proceed.set()
    ending.join(waiting.LIMIT_S)
    assert not ending.is_alive()
    written = db_api.Changes.merged(database.committed)
    assert len(written.rows(db_api.HostRecord)) == 3
