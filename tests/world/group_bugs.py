# SPDX-License-Identifier: Apache-2.0

"""Bugs that :mod:`tests.world.group_invariants` and groups' clients find."""

from __future__ import annotations

import dataclasses
import typing

from fpgapool.agent.groupdesk import ports
from fpgapool.agent.groupdesk import service as desk_service
from fpgapool.agent.groupdesk.decisions import locks
from fpgapool.agent.groupdesk.decisions import members as desk_members
from fpgapool.agent.groupdesk.decisions import model as desk_model
from fpgapool.agent.groupdesk.decisions import queues
from fpgapool.agent.worker import tasks
from fpgapool.conductor.decisions.assignments import desk_accounts
from fpgapool.conductor.decisions.assignments import desks
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.conductor.decisions.requests import group_book
from fpgapool.core.rules import members as core_members
from tests.world import planting

_bug = planting.of_part("groups")


@_bug("more tasks are counted than have ended")
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


@_bug("not the time that slots were held")
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


@_bug("clients are not charged for their tasks and locks")
def lock_that_costs_nothing() -> None:
    locks.Locks.charge = (  # type: ignore[method-assign]
        lambda *_args: None
    )


@_bug("members: ")
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


@_bug("no member is called back for a session")
def no_member_for_a_session() -> None:
    core_members.Members.call_back = (  # type: ignore[method-assign]
        lambda _room: None
    )


@_bug("a revoked client gets a result")
def revoked_client_served() -> None:
    def careless(desk: desk_service.Desk, client_id: str) -> None:
        desk._connections.revoke(client_id)

    desk_service.Desk._revoke = careless  # type: ignore[method-assign]


@_bug("was not cleared after")
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


@_bug("is changed twice at the same time")
def member_programmed_while_its_task_runs() -> None:
    clear = tasks.Member.clear

    def hasty(member: tasks.Member, *ending: str) -> tuple[int, int]:
        member._done = None
        return clear(member, *ending)

    tasks.Member.clear = hasty  # type: ignore[method-assign]


@_bug("a member leaves its task")
def member_leaves_while_its_task_runs() -> None:
    leave = desk_members.Members.leave

    def hasty(desk: desk_members.Members, member: int) -> None:
        place = desk.all.get(member)
        if place is None or place.task is None or place.lock is not None:
            leave(desk, member)
        else:
            desk._leave(place)

    desk_members.Members.leave = hasty  # type: ignore[method-assign]


@_bug("a member has two tasks")
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


@_bug("a lock outlives its client")
def lock_of_a_lost_client_kept() -> None:
    detach = queues.Queues.detach

    def patient(
        desk: queues.Queues, client: desk_model.Client, now: float
    ) -> None:
        detach(desk, client, now)
        client.grace_due_s += 1000.0

    queues.Queues.detach = patient  # type: ignore


@_bug("more slots of groups than allowed")
def quota_of_slots_of_groups_ignored() -> None:
    group_book.GroupBook._check_slots = (  # type: ignore[method-assign]
        lambda *_args: None
    )


@_bug("an owner has not paid")
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
