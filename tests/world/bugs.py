# SPDX-License-Identifier: Apache-2.0

"""Bugs of what all worlds have; planted, one at a time, they must be seen."""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Callable

import sqlalchemy as sa

from fpgapool import objects
from fpgapool.agent.slots import table
from fpgapool.agent.worker import hello
from fpgapool.conductor.calls import sessions as session_calls
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions.assignments import holds
from fpgapool.conductor.decisions.assignments import reconcile
from fpgapool.conductor.decisions.assignments import reports
from fpgapool.conductor.decisions.assignments import serving
from fpgapool.conductor.decisions.hardware import operators
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.conductor.decisions.requests import opening
from fpgapool.conductor.decisions.requests import sessions
from fpgapool.conductor.runtime import sender
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core.queues import sharing
from fpgapool.core.rules import holders
from fpgapool.db import api as db_api
from fpgapool.db import leadership
from fpgapool.protocol import stream
from tests.world import group_bugs
from tests.world import parts
from tests.world import planting

#: Those of parts are beside their invariants.
OF_PARTS = (parts, group_bugs)
BUGS = planting.BUGS

_bug = planting.bug


@_bug("a drained device has a holder")
def drain_forgets_ready_sessions() -> None:
    taken = operators.Operators.taken

    def forgetful(
        room: operators.Operators,
    ) -> typing.Iterator[typing.Any]:
        ready = {
            hold.slot.id
            for hold in room._holds.values()
            if hold.phase is model.Phase.READY
        }
        return (slot for slot in taken(room) if slot.id not in ready)

    operators.Operators.taken = forgetful  # type: ignore[method-assign]


@_bug("an assignment is not recorded as it is")
def successor_recorded_in_place_of_the_holder() -> None:
    save = holds.Holds.save

    def hasty(all_holds: holds.Holds, hold: holds.Hold) -> None:
        former, hold.former = hold.former, None
        save(all_holds, hold)
        hold.former = former

    holds.Holds.save = hasty  # type: ignore[method-assign]


@_bug("an agent obeys a former leader")
def epoch_not_checked() -> None:
    table.SlotTable.accept_epoch = (  # type: ignore[method-assign]
        lambda _table, _epoch: True
    )


@_bug("told before it was durable")
def told_before_the_commit() -> None:
    effects.PublishSession.after_commit = False


@_bug("released twice")
def release_counted_twice() -> None:
    free = serving.Serving.free

    @functools.wraps(free)
    def twice(
        room: serving.Serving, hold: typing.Any, *args: typing.Any
    ) -> None:
        free(room, hold, *args)
        room._link.tell(events.SlotReleased(hold.slot.id, hold.generation))

    serving.Serving.free = twice  # type: ignore[method-assign]


@_bug("a slot is not given back")
def revoke_lost() -> None:
    send = sender.Sender._send

    def lose(sending: sender.Sender, message: effects.Message) -> None:
        if not isinstance(message, effects.ReleaseSlot):
            send(sending, message)

    sender.Sender._send = lose  # type: ignore[method-assign]


@_bug("lost though stateless")
def worker_without_room_asks_for_nothing() -> None:
    stream.Outbound.may_ask = (  # type: ignore[method-assign]
        lambda _outbound, _is_short: False
    )


@_bug("a former leader wrote")
def lease_renewed_by_a_stopped_leader() -> None:
    update = leadership.update

    def careless(
        connection: sa.Connection,
        values: dict[str, typing.Any],
        pool_time_s: float | None = None,
        **expected: typing.Any,
    ) -> None:
        if "holder" not in values:
            expected.clear()
        update(connection, values, pool_time_s, **expected)

    leadership.update = careless


@_bug("an old report is believed")
def stale_report_believed() -> None:
    registry.HostEntry.accepts = (  # type: ignore[method-assign]
        lambda _host, _boot_id, _sequence: True
    )


@_bug("lost its place in time")
def queue_position_lost_on_requeue() -> None:
    resubmit = serving.Serving.resubmit

    def forgetful(
        room: serving.Serving,
        session: typing.Any,
        *args: str,
        **kwargs: bool,
    ) -> None:
        session.queued_at = room._clock.now
        resubmit(room, session, *args, **kwargs)

    serving.Serving.resubmit = forgetful  # type: ignore[method-assign]


@_bug("expired before its time")
def waits_counted_by_a_clock_that_is_set() -> None:
    job = sessions.Session.job

    def by_the_wall(session: sessions.Session, ahead_s: float) -> model.Job:
        arrived = dataclasses.replace(session, arrival_s=session.queued_at)
        return job(arrived, 0.0)

    sessions.Session.job = by_the_wall  # type: ignore[method-assign]


@_bug("slots of tests")
def test_given_a_slot_that_others_get() -> None:
    begin = holders.Holders.on_test_requested

    def careless(
        holding: holders.Holders, event: events.TestRequested
    ) -> None:
        begin(holding, event)
        holding._end(holding._slots.assignments[event.slot_id])

    holders.Holders.on_test_requested = careless  # type: ignore[method-assign]


@_bug("charged as")
def claim_charged_twice() -> None:
    give = sharing.Accounts.give

    def twice(
        accounts: sharing.Accounts,
        project: str,
        hold: typing.Any,
        claimed_bytes: float,
        *,
        in_round: bool,
    ) -> None:
        give(accounts, project, hold, claimed_bytes, in_round=in_round)
        give(accounts, project, hold, claimed_bytes, in_round=False)

    sharing.Accounts.give = twice  # type: ignore[method-assign]


@_bug("a secret came twice")
def secret_reused() -> None:
    mint = hello.Keyring.mint
    made: list[str] = []

    def reuse(keyring: hello.Keyring) -> str:
        made.append(mint(keyring))
        keyring._first.append(hello._digest(made[0]))
        return made[0]

    hello.Keyring.mint = reuse  # type: ignore[method-assign]


@_bug("a secret let in twice")
def one_secret_for_all_sessions_of_the_api() -> None:
    def make(request: objects.OpenRequest) -> str:
        return "" if request.secret_sha256 else "5e" * 32

    session_calls._secret_for = make


@_bug("lost while it waited")
def secret_of_the_former_front_door_awaited() -> None:
    repeat = opening.Opening._repeat

    def careless(
        room: opening.Opening,
        session: sessions.Session,
        request: objects.OpenRequest,
        future: effects.ViewFuture,
    ) -> None:
        same = dataclasses.replace(
            request, secret_sha256=session.secret_sha256
        )
        repeat(room, session, same, future)

    opening.Opening._repeat = careless  # type: ignore[method-assign]


def _resume_wrongly(
    change: Callable[[stream.Outbound[typing.Any]], None],
) -> None:
    """Have both ends do something to what they send again."""
    resume = stream.Outbound.resume

    def wrong(
        out: stream.Outbound[typing.Any], offset_bytes: int
    ) -> list[typing.Any]:
        there = resume(out, offset_bytes)
        # A single piece does not show what is left out.
        if len([piece for piece in out.unsent if piece.data]) > 1:
            change(out)
        return there

    stream.Outbound.resume = wrong  # type: ignore[method-assign]


@_bug("BAD_OFFSET")
def chunk_skipped_when_resent() -> None:
    def skip(out: stream.Outbound[typing.Any]) -> None:
        del out.unsent[1]

    _resume_wrongly(skip)


@_bug("something else is sent again")
def chunk_zeroed_when_resent() -> None:
    def zero(out: stream.Outbound[typing.Any]) -> None:
        piece = out.unsent[1]
        piece.data = memoryview(bytearray(len(piece.data)))

    _resume_wrongly(zero)


@_bug("more is sent than the credit")
def chunk_doubled_when_resent() -> None:
    _resume_wrongly(lambda out: out.unsent.insert(1, out.unsent[1]))


@_bug("more is let go than was acknowledged")
def acknowledgement_believed_too_early() -> None:
    acknowledge = stream.Outbound.acknowledge

    def early(
        out: stream.Outbound[typing.Any], *args: typing.Any
    ) -> list[typing.Any]:
        pieces = acknowledge(out, *args)
        if len(out.kept) > len(out.unsent):
            pieces.append(out.kept.popleft())
        return pieces

    stream.Outbound.acknowledge = early  # type: ignore[method-assign]


@_bug("let go twice")
def credit_given_twice() -> None:
    acknowledge = stream.Outbound.acknowledge

    def twice(
        out: stream.Outbound[typing.Any], *args: typing.Any
    ) -> list[typing.Any]:
        # Each end frees the buffers of these pieces.
        return 2 * acknowledge(out, *args)

    stream.Outbound.acknowledge = twice  # type: ignore[method-assign]


@_bug("a session that was closed ends otherwise")
def previous_result_dropped() -> None:
    reports.Reports._end_unrecorded = (  # type: ignore[method-assign]
        lambda *_args: None
    )


@_bug("a slot is ended by the result of another generation")
def result_of_another_generation_believed() -> None:
    compare = reconcile.compare

    def careless(
        hold: holds.Hold | None, line: objects.SlotReport
    ) -> reconcile.Finding:
        if hold is None or line.last_result is None or reconcile.busy(line):
            return compare(hold, line)
        return reconcile.Finding.FINISHED

    reconcile.compare = careless


@_bug("an assignment is not recorded as it is")
def detached_not_recorded() -> None:
    entered = serving.Serving.entered

    def careless(room: serving.Serving, hold: sessions.SessionHold) -> None:
        if hold.phase is not model.Phase.DETACHED:
            entered(room, hold)

    serving.Serving.entered = careless  # type: ignore[method-assign]


@_bug("waiting sessions are not counted once")
def counted_again_at_a_requeue() -> None:
    requeue = serving.Serving._requeue

    def leaky(room: serving.Serving, order: instructions.Requeue) -> None:
        requeue(room, order)
        book = room._sessions
        book.count_queued(book.by_job[order.job_id])

    serving.Serving._requeue = leaky  # type: ignore[method-assign]


@_bug("told before it was durable")
def older_rows_win_when_commits_are_merged() -> None:
    merged = db_api.Changes.merged
    db_api.Changes.merged = (  # type: ignore[method-assign]
        lambda parts: merged(list(parts)[::-1])
    )


@_bug("written without the epoch")
def second_write_path_without_the_epoch() -> None:
    commit = db_api.Database.commit

    def careless(
        database: db_api.Database,
        epoch: int,
        changes: db_api.Changes,
        **sessions_of_it: typing.Any,
    ) -> list[db_api.SessionRecord]:
        if changes.rows(db_api.SessionRecord):
            return commit(database, epoch, changes, **sessions_of_it)
        with database._transaction() as connection:
            db_api._write(connection, changes, set())
        return []

    db_api.Database.commit = careless  # type: ignore[method-assign]
