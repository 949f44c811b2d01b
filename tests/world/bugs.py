# SPDX-License-Identifier: Apache-2.0

"""Bugs that are planted, one at a time, to prove that the world sees them."""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Callable

import sqlalchemy as sa

from fpgapool import objects
from fpgapool.agent.groupdesk import ports
from fpgapool.agent.groupdesk import service as desk_service
from fpgapool.agent.groupdesk.decisions import locks
from fpgapool.agent.groupdesk.decisions import members as desk_members
from fpgapool.agent.groupdesk.decisions import model as desk_model
from fpgapool.agent.groupdesk.decisions import queues
from fpgapool.agent.slots import table
from fpgapool.agent.worker import hello
from fpgapool.agent.worker import service as worker_service
from fpgapool.agent.worker import tasks
from fpgapool.conductor.calls import sessions as session_calls
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions.assignments import desk_accounts
from fpgapool.conductor.decisions.assignments import desks
from fpgapool.conductor.decisions.assignments import holds
from fpgapool.conductor.decisions.assignments import reconcile
from fpgapool.conductor.decisions.assignments import reports
from fpgapool.conductor.decisions.assignments import serving
from fpgapool.conductor.decisions.hardware import operators
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.conductor.decisions.requests import group_book
from fpgapool.conductor.decisions.requests import opening
from fpgapool.conductor.decisions.requests import sessions
from fpgapool.conductor.runtime import sender
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core.queues import share_tree
from fpgapool.core.queues import sharing
from fpgapool.core.rules import admission
from fpgapool.core.rules import holders
from fpgapool.core.rules import members as core_members
from fpgapool.core.rules import preemption
from fpgapool.db import api as db_api
from fpgapool.db import leadership
from fpgapool.protocol import stream
from fpgapool.vocabulary import codes
from tests.world import parts
from tests.world import planting

# Those of parts are planted where their invariants are.
assert parts.ALL
BUGS = planting.BUGS

_bug = planting.bug
_group_bug = planting.of_part("groups")
_preemption_bug = planting.of_part("preemption")


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


@_bug("active below one")
def the_part_of_who_left_is_kept() -> None:
    share_tree.Node.exit = (  # type: ignore[method-assign]
        lambda _node, _units: None
    )


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


# Of sessions that take slots from others.


@_preemption_bug("has lost its place")
def place_lost_with_the_slot() -> None:
    resubmit = serving.Serving.resubmit

    def forgetful(
        room: serving.Serving,
        session: sessions.Session,
        reason: str,
        *args: str,
        **kwargs: bool,
    ) -> None:
        if reason == codes.PREEMPTED:
            session.arrival_s = room._clock.pool_time
        resubmit(room, session, reason, *args, **kwargs)

    serving.Serving.resubmit = forgetful  # type: ignore[method-assign]


@_preemption_bug("a claim is charged twice")
def claim_charged_again_with_the_next_slot() -> None:
    wait = admission.Admission.let_yielding_wait

    def forgetful(queue: admission.Admission) -> None:
        for job_id, event in queue.yielding.items():
            queue.yielding[job_id] = events.JobSubmitted(event.job)
        wait(queue)

    admission.Admission.let_yielding_wait = forgetful  # type: ignore


@_preemption_bug("leaves its slot before a border")
def slot_taken_before_its_quantum() -> None:
    note = reports.Reports._report_border

    def hasty(
        room: reports.Reports, hold: sessions.SessionHold, line: typing.Any
    ) -> None:
        hold.quantum_bytes = 1
        note(room, hold, line)

    reports.Reports._report_border = hasty  # type: ignore[method-assign]


@_preemption_bug(" bytes in Outcome")
def bytes_of_the_former_slot_forgotten() -> None:
    sessions.Session.give_way = (  # type: ignore[method-assign]
        lambda _session: None
    )


@_preemption_bug("takes what another one has a right to")
def slot_taken_from_a_project_within_its_share() -> None:
    is_above = sharing.Accounts.is_above_share
    # Those that want the slot wait.
    sharing.Accounts.is_above_share = (  # type: ignore[method-assign]
        lambda accounts, project: (
            not accounts._accounts[project].waits
            or is_above(accounts, project)
        )
    )


@_preemption_bug("lost though stateless")
def unread_output_cleared_for_the_next_project() -> None:
    worker_service.Worker._hand_over = (  # type: ignore[method-assign]
        lambda worker: worker._discard_unread()
    )


@_preemption_bug("a slot is taken for a session that needs none")
def slots_taken_twice_for_one_session() -> None:
    preemption.Preemption._spoken_for = (  # type: ignore[method-assign]
        lambda _room: set()
    )


@_preemption_bug("borders of a session are too near to each other")
def programming_time_not_worth_it() -> None:
    preemption.quantum_bytes = lambda least_bytes, *_args: least_bytes


# Of groups.


@_group_bug("more tasks are counted than have ended")
def task_counted_twice() -> None:
    new_tasks = desk_accounts.DeskAccount.new_tasks

    def again(
        account: desk_accounts.DeskAccount, *args: typing.Any
    ) -> typing.Any:
        account._set(counts={})
        return new_tasks(account, *args)

    desk_accounts.DeskAccount.new_tasks = again  # type: ignore[method-assign]


@_bug("pays for tasks that have not ended")
def task_counted_again_by_a_new_leader() -> None:
    load = desk_accounts.DeskAccounts.__init__

    def forgetful(
        accounts: desk_accounts.DeskAccounts,
        rows: typing.Iterable[typing.Any],
        last_id: int,
    ) -> None:
        load(
            accounts,
            [dataclasses.replace(row, counts={}) for row in rows],
            last_id,
        )

    desk_accounts.DeskAccounts.__init__ = forgetful  # type: ignore


@_bug("clients pay for more bytes than there were")
def bytes_of_tasks_counted_again_by_a_new_leader() -> None:
    load = desk_accounts.DeskAccounts.__init__
    none = {"input_bytes": 0, "output_bytes": 0}

    def forgetful(
        accounts: desk_accounts.DeskAccounts,
        rows: typing.Iterable[typing.Any],
        last_id: int,
    ) -> None:
        known = [
            dataclasses.replace(
                row,
                counts={name: one | none for name, one in row.counts.items()},
            )
            for row in rows
            if row.host_id
        ]
        load(accounts, known, last_id)

    desk_accounts.DeskAccounts.__init__ = forgetful  # type: ignore


@_bug("not the time that slots were held")
def time_charged_again_by_a_new_leader() -> None:
    desk_accounts.DeskAccounts.charged_at = (  # type: ignore[method-assign]
        lambda *_args: 0.0
    )


@_group_bug("not the time that slots were held")
def busy_time_paid_by_the_owner_too() -> None:
    count = desks.Desks._count_tasks

    def twice(
        room: desks.Desks,
        host: registry.HostEntry,
        group: typing.Any,
        line: typing.Any,
    ) -> None:
        account = room._desk_accounts.of(
            group.group_id, host.id, room._clock.now
        )
        before_s = account.record.unpaid_s
        count(room, host, group, line)
        account._set(unpaid_s=before_s)

    desks.Desks._count_tasks = twice  # type: ignore[method-assign]


@_group_bug("clients are not charged for their tasks and locks")
def lock_that_costs_nothing() -> None:
    locks.Locks.charge = (  # type: ignore[method-assign]
        lambda *_args: None
    )


@_group_bug("members: ")
def resize_executed_twice_after_a_new_leader() -> None:
    take_over = core_members.Members.take_over

    def forgetful(
        room: core_members.Members, hold: typing.Any, group_id: int
    ) -> None:
        group = room._sizes._groups.get(group_id)
        before = dict(vars(group)) if group is not None else {}
        take_over(room, hold, group_id)
        if group is not None:
            vars(group).update(before)

    core_members.Members.take_over = forgetful  # type: ignore[method-assign]


@_group_bug("no member is called back for a session")
def no_member_for_a_session() -> None:
    core_members.Members.call_back = (  # type: ignore[method-assign]
        lambda _room: None
    )


@_group_bug("a revoked client gets a result")
def revoked_client_served() -> None:
    def careless(desk: desk_service.Desk, client_id: str) -> None:
        desk._connections.revoke(client_id)

    desk_service.Desk._revoke = careless  # type: ignore[method-assign]


@_group_bug("was not cleared after")
def member_not_cleared_for_another_client() -> None:
    start = ports.MemberPort.start

    def careless(
        port: ports.MemberPort,
        payload: ports.Payload,
        has_blocks: bool,
        _clear: bool,
        scope: tuple[str, str],
        now: float,
    ) -> bool:
        return start(port, payload, has_blocks, False, scope, now)

    ports.MemberPort.start = careless  # type: ignore[method-assign]


@_group_bug("is changed twice at the same time")
def member_programmed_while_its_task_runs() -> None:
    clear = tasks.Member.clear

    def hasty(member: tasks.Member, *ending: str) -> tuple[int, int]:
        member._done = None
        return clear(member, *ending)

    tasks.Member.clear = hasty  # type: ignore[method-assign]


@_group_bug("a member leaves its task")
def member_leaves_while_its_task_runs() -> None:
    leave = desk_members.Members.leave

    def hasty(desk: desk_members.Members, member: int) -> None:
        place = desk.all.get(member)
        if place is None or place.task is None or place.lock is not None:
            leave(desk, member)
        else:
            desk._leave(place)

    desk_members.Members.leave = hasty  # type: ignore[method-assign]


@_group_bug("a member has two tasks")
def member_freed_before_its_task_ends() -> None:
    submit = queues.Queues.submit

    def hasty(
        desk: queues.Queues, *args: typing.Any, **kwargs: typing.Any
    ) -> typing.Any:
        task = submit(desk, *args, **kwargs)
        busy = [one for one in desk.members.all.values() if one.task]
        for one in busy:
            if not one.lock and one.number not in desk.members.free:
                desk.members.free.append(one.number)
        return task

    queues.Queues.submit = hasty  # type: ignore[method-assign]


@_group_bug("a lock outlives its client")
def lock_of_a_lost_client_kept() -> None:
    detach = queues.Queues.detach

    def patient(
        desk: queues.Queues, client: desk_model.Client, now: float
    ) -> None:
        detach(desk, client, now)
        client.grace_due_s += 1000.0

    queues.Queues.detach = patient  # type: ignore


@_group_bug("more slots of groups than allowed")
def quota_of_slots_of_groups_ignored() -> None:
    group_book.GroupBook._check_slots = (  # type: ignore[method-assign]
        lambda *_args: None
    )


@_group_bug("an owner has not paid")
def time_of_a_task_lost_with_its_desk_not_paid() -> None:
    expire = desk_accounts.DeskAccounts.expire_missing

    def careless(
        accounts: desk_accounts.DeskAccounts,
        host_id: int,
        _reported: typing.Any,
        wanted: typing.Any,
        now: float,
    ) -> None:
        expire(accounts, host_id, wanted, wanted, now)

    desk_accounts.DeskAccounts.expire_missing = careless  # type: ignore
