# SPDX-License-Identifier: Apache-2.0

"""What holds of groups after every step, whatever has happened.

As in :mod:`tests.world.invariants`, the product's own classes are watched from
outside.
"""

from __future__ import annotations

import collections
import functools
import typing
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator

from fpgapool.agent.groupdesk import ports
from fpgapool.agent.groupdesk import service as desk_service
from fpgapool.agent.groupdesk.decisions import locks
from fpgapool.agent.groupdesk.decisions import model as desk_model
from fpgapool.agent.groupdesk.decisions import queues
from fpgapool.agent.worker import tasks
from fpgapool.client.groups import grouplink
from fpgapool.conductor.decisions import engine
from fpgapool.conductor.decisions import usage
from fpgapool.conductor.decisions.assignments import charging
from fpgapool.conductor.decisions.assignments import desk_accounts
from fpgapool.conductor.decisions.assignments import desks
from fpgapool.conductor.decisions.assignments import holds
from fpgapool.conductor.decisions.assignments import serving
from fpgapool.conductor.decisions.requests import group_book
from fpgapool.conductor.decisions.requests import groups
from fpgapool.core import events
from fpgapool.core.rules import members as core_members
from fpgapool.core.rules import owners
from fpgapool.db import api as db_api
from fpgapool.protocol import records
from fpgapool.vocabulary import states
from tests.world import driver
from tests.world import invariants
from tests.world import kernel as kernels
from tests.world import pool as pools

#: A session that fits no idle slot has one of a group by then, if one can
#: leave: groups give one in each period.
_CALL_BACK_S = 12.0
#: A leader that does nothing for longer stood still.
_PAUSE_S = 3.0
#: Changes that are being written were decided by then.
_WRITING_S = 30.0
#: Sums of seconds are as exact as that.
_ROUNDING_S = 1e-3
#: A desk that looks at its locks is late by as much.
_LATE_S = 0.5

check = invariants.check


class Watcher:
    """Watches the groups of a world."""

    def __init__(
        self,
        kernel: kernels.Kernel,
        pool: pools.Pool,
        watcher: invariants.Watcher,
    ) -> None:
        self._kernel = kernel
        self._pool = pool
        self._watcher = watcher
        #: The group of each generation that a leader has given to one.
        self._generations: dict[int, str] = {}
        #: As it is durable: those of them that were so once, and the groups'
        #: slots.
        self._known: set[int] = set()
        self._past_clients: set[str] = set()
        self._slots: dict[int, int] = {}
        self._writes: dict[kernels.Task, db_api.Changes] = {}
        #: Most slots that a group may have, and when that was decided.
        self._most: dict[int, dict[float, int]] = collections.defaultdict(dict)
        #: Tasks that members have ended, by client.
        self._ended: collections.Counter[str] = collections.Counter()
        #: Input and output of those with a result; what leaders have charged
        #: for sessions; and what is charged, by row, as it is durable.
        self._task_bytes = self._session_bytes = 0
        self._paid_bytes: dict[int, int] = {}
        #: What clients have to pay: for tasks without a lock, and for locks.
        self._busy_s = 0.0
        #: What it is of a desk since it was asked, since when its locks have
        #: members, and when the last lock on a member ended.
        self._owed_s: collections.Counter[queues.Queues] = (
            collections.Counter()
        )
        self._locked_s: dict[queues.Queues, dict[tuple[str, int], float]] = (
            collections.defaultdict(dict)
        )
        self._unlocked_s: dict[tuple[queues.Queues, int], float] = {}
        #: The same as leaders have counted it.
        self._counted: dict[owners.Owners, collections.Counter[str]] = (
            collections.defaultdict(collections.Counter)
        )
        self._accounts: dict[desk_accounts.DeskAccounts, _Account] = {}
        #: What clients have paid for, by row, as it is durable.
        self._paid_busy_s: dict[int, float] = {}
        self._is_of_session = False
        #: Clients that a desk has revoked.
        self._revoked: set[tuple[kernels.Process, str]] = set()
        #: What runs where, as the desks have decided.
        self._started: dict[queues.Queues, dict[int, object]] = (
            collections.defaultdict(dict)
        )
        #: When clients that have locks were lost.
        self._gone_s: dict[desk_model.Client, float] = {}
        #: Since when sessions wait for members, the slots that are in use, and
        #: when that was looked at last.
        self._hungry: dict[engine.Engine, tuple[float, int, float]] = {}

    def install(self) -> None:
        """Watch from now on, for good."""
        driver.COMPLAIN = self._kernel.fail
        for owner, name, watch in (
            (db_api, "_write", self._write),
            (group_book.GroupBook, "put", self._put),
            (owners.Owners, "on_stats", self._stats),
            (serving.Serving, "hold_for_group", self._begun),
            (serving.Serving, "restore_group", self._restored),
            (desk_accounts.DeskAccounts, "__init__", self._loaded),
            (desks.Desks, "count_time", self._time_counted),
            (desks.Desks, "heard", self._heard),
            (desk_service.Desk, "_revoke", self._revoke),
            (desk_service.Desk, "_admit", self._admit),
            (desk_service.Desk, "_decide", self._decided),
            (tasks.Member, "arm", self._armed),
            (queues.Queues, "decide", self._decisions),
            (queues.Queues, "lost", self._lost),
            (locks.Locks, "end", self._lock_ended),
            (queues.Queues, "take_counts", self._counts_taken),
            (queues.Queues, "attach", self._attached),
            (queues.Queues, "detach", self._detached),
            (engine.Engine, "process", self._look),
            (engine.Engine, "tick", self._look),
        ):
            self._watcher.wrap(owner, name, watch)
        self._before(queues.Queues, "ended", self._end)
        self._before(grouplink.GroupTask, "finish", self._finish)
        self._before(ports.ClientPort, "send", self._send)
        self._before(ports.ClientPort, "_send_all", self._send_all)
        self._before(tasks.Runner, "run", self._run)
        self._before(usage.Ledger, "add", self._paid)
        self._before(serving.Serving, "free", self._freed)
        self._around_keep()
        self._around_sessions()
        self._around_commits()

    def _before(
        self, owner: typing.Any, name: str, watch: Callable[..., None]
    ) -> None:
        original = getattr(owner, name)

        @functools.wraps(original)
        def watched(*args: typing.Any, **kwargs: typing.Any) -> typing.Any:
            try:
                watch(*args, **kwargs)
            except invariants.Broken as error:
                where = f"{owner.__name__}.{name}"
                self._kernel.fail(f"{where}: {error}", error)
            return original(*args, **kwargs)

        setattr(owner, name, watched)

    # The leader: sizes.

    def _look(
        self, _effects: object, brain: engine.Engine, *_args: object
    ) -> None:
        """Compare the leader's groups with what their owners want."""
        room = brain.pool.core._members
        for row_id, known in room.groups.items():
            status = room._sizes.get(row_id)
            assert status is not None
            self._check_size(known, status)
        self._check_call_back(brain, room)

    def _check_size(
        self, known: core_members.GroupSlots, status: typing.Any
    ) -> None:
        wanted, size = known.group, status.members + status.under_way
        if status.state == states.GROUP_DRAINING:
            check(status.wanted == 0, "a deleted group wants slots", status)
            return
        check(
            wanted.min_size <= status.wanted,
            "a group has to give up what it must have",
            wanted,
            status,
        )
        check(
            not known.waiting
            or size + len(known.waiting) <= max(wanted.max_size, wanted.size),
            "a group asks for more than its owner",
            wanted,
            status,
        )
        if status.state == states.GROUP_ACTIVE:
            check(
                size == status.wanted and status.members >= wanted.min_size,
                "a group is not ACTIVE",
                wanted,
                status,
            )

    def _check_call_back(
        self, brain: engine.Engine, room: core_members.Members
    ) -> None:
        """See that sessions get members that are not needed."""
        able = room.groups and _able(room)
        if not able:
            self._hungry.pop(brain, None)
            return
        now_s, count = self._kernel.now_s, len(room._view.slots.assignments)
        since_s, before, seen_s = self._hungry.get(brain, (now_s, -1, now_s))
        if count != before or now_s - seen_s > _PAUSE_S:
            since_s = now_s
        self._hungry[brain] = since_s, count, now_s
        check(
            now_s - since_s < _CALL_BACK_S,
            "no member is called back for a session",
            able,
        )

    def _around_keep(self) -> None:
        """See that no project gets more than its limit."""
        keep = groups.Groups._keep
        kernel = self._kernel

        def watched(
            room: groups.Groups, rows: Iterable[group_book.Row]
        ) -> None:
            rows = list(rows)
            projects = {
                one.project_id
                for one in rows
                if isinstance(one, db_api.GroupRecord)
            }
            before = {one: _slots_of(room, one) for one in projects}
            keep(room, rows)
            for project in projects:
                after = _slots_of(room, project)
                limit = room._quotas.of(project).group_slots
                if limit is not None and after > max(limit, before[project]):
                    kernel.fail(
                        f"more slots of groups than allowed: {project},"
                        f" {after}, {limit}"
                    )

        groups.Groups._keep = watched  # type: ignore[method-assign]

    # The leader: tasks and their time.

    def _stats(
        self,
        _none: None,
        room: owners.Owners,
        event: events.TaskStats,
    ) -> None:
        counted = self._counted[room]
        for one in event.clients:
            counted[one.client] += one.ended
            check(
                counted[one.client] <= self._ended[one.client],
                "more tasks are counted than have ended",
                one,
                counted[one.client],
                self._ended[one.client],
            )

    def _account(self, room: serving.Serving | desks.Desks) -> _Account:
        return self._accounts[room._desk_accounts]

    def _loaded(
        self,
        _none: None,
        accounts: desk_accounts.DeskAccounts,
        *_args: object,
    ) -> None:
        found = _Account()
        for host_id in list(accounts._accounts):
            found.note(accounts.on(host_id))
        found.unpaid_before_s = found.unpaid_s
        found.charged_at = found.read_charged_at()
        self._accounts[accounts] = found

    def _begun(
        self, hold: holds.Member, room: serving.Serving, *_args: object
    ) -> None:
        self._account(room).since[id(hold)] = room._clock.now
        self._generations[hold.generation] = hold.public_id

    def _restored(
        self,
        _none: None,
        room: serving.Serving,
        group: db_api.GroupRecord,
        row: db_api.AssignmentRecord,
        *_args: object,
    ) -> None:
        """Expect that a leader goes on where the last one has ended."""
        hold = room._holds[row.slot_id]
        key = group.group_id, hold.slot.host.id
        account = self._account(room)
        account.since[id(hold)] = max(
            row.assigned_at, account.charged_at.get(key, 0.0)
        )

    def _time_counted(
        self,
        _none: None,
        room: desks.Desks,
        host: typing.Any,
    ) -> None:
        account, now = self._account(room), room._clock.now
        for hold in room._members_on(host):
            account.held_s += max(now - account.since[id(hold)], 0.0)
            account.since[id(hold)] = max(account.since[id(hold)], now)
        account.note(room._desk_accounts.on(host.id))

    def _paid(
        self,
        ledger: usage.Ledger,
        *_args: object,
        slot_s: float = 0.0,
        group_busy_s: float | None = None,
        group_idle_s: float = 0.0,
        input_bytes: int = 0,
        output_bytes: int = 0,
        **_kw: object,
    ) -> None:
        if group_busy_s is None:
            self._session_bytes += input_bytes + output_bytes
        if not self._is_of_session:
            ledger.world_s = (  # type: ignore[attr-defined]
                getattr(ledger, "world_s", 0.0)
                + slot_s
                + (group_busy_s or 0.0)
                + group_idle_s
            )

    def _freed(
        self,
        room: serving.Serving,
        hold: holds.Hold,
        ended_at: float,
        *_args: object,
    ) -> None:
        if isinstance(hold, holds.Member):
            account = self._account(room)
            since = account.since[id(hold)]
            account.held_s += max(ended_at - since, 0.0)

    def _around_sessions(self) -> None:
        for name in ("charge", "charge_late"):
            charge = getattr(charging.Charging, name)

            def watched(
                *args: typing.Any, _charge: typing.Any = charge
            ) -> None:
                self._is_of_session = True
                _charge(*args)
                self._is_of_session = False

            setattr(charging.Charging, name, watched)

    def _heard(
        self, _none: None, room: desks.Desks, host: typing.Any, *_a: object
    ) -> None:
        account = self._account(room)
        present = room._desk_accounts.on(host.id)
        account.note(present)
        unpaid_s = account.unpaid_s - account.unpaid_before_s
        paid_s = getattr(room._ledger, "world_s", 0.0)
        check(
            abs(paid_s + unpaid_s - account.held_s) < _ROUNDING_S,
            "busy and idle time are not the time that slots were held",
            paid_s,
            unpaid_s,
            account.held_s,
        )
        for one in present:
            group_id = one.record.group_id
            desk = room._desks[host.uuid].get(group_id)
            report = desk.report if desk else None
            # Running tasks are paid for when they end.
            runs = report and any(line.running for line in report.clients)
            check(
                (one.idle_s if runs else one.record.unpaid_s) <= _ROUNDING_S
                or group_id not in room._groups.groups,
                "an owner has not paid",
                group_id,
                one,
            )

    # The rows.

    def _put(
        self,
        _none: None,
        book: group_book.GroupBook,
        rows: Iterable[group_book.Row],
    ) -> None:
        for row in rows:
            if isinstance(row, db_api.GroupRecord):
                self._most[row.id][self._kernel.now_s] = group_book.charge_of(
                    row
                )

    def _write(
        self,
        _none: None,
        _connection: object,
        changes: db_api.Changes,
        left_out: set[int],
    ) -> None:
        task = self._kernel.task()
        self._writes[task] = changes.without_sessions(left_out)

    def _around_commits(self) -> None:
        database, kernel = self._pool.database, self._kernel
        others = database.on_commit

        def committed(epoch: int) -> None:
            others(epoch)
            try:
                self._committed(kernel.task())
            except invariants.Broken as error:
                kernel.fail(f"the database: {error}", error)

        database.on_commit = committed

    def _committed(self, task: kernels.Task) -> None:
        """Note what is durable now."""
        changes = self._writes.pop(task, None)
        if changes is None:
            return
        for client in changes.rows(db_api.GroupClientRecord):
            check(
                client.state != states.CLIENT_ATTACHED
                or client.client_id not in self._past_clients,
                "a client that was revoked is attached again",
                client,
            )
        self._past_clients.update(
            one.client_id for one in changes.deleted(db_api.GroupClientRecord)
        )
        self._check_paid(changes)
        for slot_id in changes.released_slots:
            self._slots.pop(slot_id, None)
        grown = set()
        for row in changes.rows(db_api.AssignmentRecord):
            if row.holder_kind != states.HELD_BY_GROUP:
                self._slots.pop(row.slot_id, None)
                continue
            self._slots[row.slot_id] = row.holder_id
            if row.generation not in self._known:
                self._known.add(row.generation)
                grown.add(row.holder_id)
        # One commit may take a slot from a group and give it another one.
        for row_id in grown:
            self._check_slots(row_id)

    def _check_paid(self, changes: db_api.Changes) -> None:
        """See that all leaders together charge no task twice."""
        for client in changes.rows(db_api.GroupClientRecord):
            check(
                client.tasks <= self._ended[client.client_id],
                "a client pays for tasks that have not ended",
                client,
                self._ended[client.client_id],
            )
        for row in changes.rows(db_api.UsageRecord):
            self._paid_busy_s[row.id] = row.group_busy_s
            self._paid_bytes[row.id] = row.input_bytes + row.output_bytes
        paid_bytes = sum(self._paid_bytes.values())
        check(
            paid_bytes <= self._session_bytes + self._task_bytes,
            "clients pay for more bytes than there were",
            paid_bytes,
            self._session_bytes,
            self._task_bytes,
        )
        paid_s = sum(self._paid_busy_s.values())
        check(
            paid_s <= self._busy_s + _ROUNDING_S,
            "clients pay for more than their tasks",
            paid_s,
            self._busy_s,
        )

    def _check_slots(self, row_id: int) -> None:
        most = self._most[row_id]
        latest_s = max(most)
        allowed = max(
            count
            for at_s, count in most.items()
            if at_s == latest_s or at_s > self._kernel.now_s - _WRITING_S
        )
        slots = [s for s, holder in self._slots.items() if holder == row_id]
        check(
            len(slots) <= allowed,
            "a group gets more slots than it may have",
            row_id,
            slots,
            allowed,
        )

    # Desks.

    def _revoke(
        self, _none: None, _desk: desk_service.Desk, client_id: str
    ) -> None:
        self._revoked.add((self._kernel.task().process, client_id))

    def _admit(
        self, _none: None, _desk: desk_service.Desk, clients: typing.Any
    ) -> None:
        process = self._kernel.task().process
        self._revoked -= {(process, one.client_id) for one in clients}

    def _send(self, port: ports.ClientPort, *parts: typing.Any) -> None:
        if not self._revoked:
            return
        _, kind, _, _ = records.head(parts[0])
        key = self._kernel.task().process, port.client_id
        check(
            kind != records.DONE or key not in self._revoked,
            "a revoked client gets a result",
            port.client_id,
        )

    def _send_all(
        self, port: ports.ClientPort, results: list[typing.Any]
    ) -> None:
        for one in results:
            self._send(port, one)

    def _decisions(
        self,
        decisions: list[desk_model.Decision],
        desk: queues.Queues,
        now: float,
    ) -> None:
        started = self._started[desk]
        for one in decisions:
            if isinstance(one, desk_model.Start):
                check(one.member not in started, "a member has two tasks", one)
                started[one.member] = one.task
            elif isinstance(one, desk_model.Left):
                check(
                    one.member not in started, "a member leaves its task", one
                )
            elif isinstance(one, desk_model.Locked):
                key = one.client.client_id, one.lock_id
                self._locked_s[desk].setdefault(key, now)

    def _end(
        self,
        desk: queues.Queues,
        member: int,
        busy_s: float,
        now: float,
        ran: bool,
        output_bytes: int | None,
    ) -> None:
        task: typing.Any = self._started[desk].pop(member, None)
        if task is None:
            return
        self._ended[task.client.client_id] += ran
        if output_bytes is not None:
            self._task_bytes += task.input_bytes + output_bytes
        if desk.members.all[member].lock is None:
            if task.lock_id:
                # Its lock has ended meanwhile.
                busy_s = min(busy_s, now - self._unlocked_s[desk, member])
            self._owe(desk, busy_s)

    def _owe(self, desk: queues.Queues, time_s: float) -> None:
        self._owed_s[desk] += time_s
        self._busy_s += time_s

    def _lock_ended(
        self,
        _none: None,
        room: locks.Locks,
        client: desk_model.Client,
        lock: desk_model.Lock,
        _code: str,
        now: float,
    ) -> None:
        desk = next(
            one._queues
            for one in self._pool.desks.values()
            if one._queues.locks is room
        )
        since_s = self._locked_s[desk].pop((client.client_id, lock.lock_id))
        self._owe(desk, now - since_s)
        if lock.member is not None:
            self._unlocked_s[desk, lock.member.number] = now

    def _counts_taken(
        self,
        taken: dict[str, desk_model.Usage],
        desk: queues.Queues,
        now: float,
    ) -> None:
        """See that clients are charged for their locks, and once."""
        locked_s = self._locked_s[desk]
        for key, since_s in locked_s.items():
            self._owe(desk, now - since_s)
            locked_s[key] = now
        charged_s = sum(one.busy_s for one in taken.values())
        check(
            abs(charged_s - self._owed_s.pop(desk, 0.0)) < _ROUNDING_S,
            "clients are not charged for their tasks and locks",
            taken,
            charged_s,
        )

    def _attached(
        self, client: desk_model.Client, *_args: object, **_kw: object
    ) -> None:
        self._gone_s.pop(client, None)

    def _detached(
        self,
        _none: None,
        _desk: queues.Queues,
        client: desk_model.Client,
        now: float,
    ) -> None:
        if client.locks:
            self._gone_s[client] = now

    def _lost(
        self, _none: None, desk: queues.Queues, member: int, _now: float
    ) -> None:
        self._started[desk].pop(member, None)

    def _decided(
        self, _none: None, desk: desk_service.Desk, now: float
    ) -> None:
        """See that locks have members, and end."""
        room = desk._queues
        if not room.locks.count and not room.locks.held:
            return
        locked = [one.lock for one in room.members.all.values() if one.lock]
        known = [
            lock
            for client in room.clients.values()
            for lock in client.locks.values()
        ]
        granted = [lock for lock in known if lock.member is not None]
        check(
            len(known) == room.locks.count,
            "locks are lost",
            known,
            room.locks.count,
        )
        check(
            set(locked) == set(granted) and len(locked) == room.locks.held,
            "a member is locked for nobody",
            locked,
            granted,
        )
        for client in room.clients.values():
            gone_s = self._gone_s.get(client)
            check(
                gone_s is None
                or not client.locks
                or now <= gone_s + room._resume_grace_s + _LATE_S,
                "a lock outlives its client",
                client.client_id,
            )

    # Members.

    def _armed(
        self, _none: None, member: tasks.Member, order: typing.Any, *_a: object
    ) -> None:
        member._runner.world_order = order  # type: ignore[union-attr]

    def _run(
        self, runner: tasks.Runner, record: typing.Any, _most: int
    ) -> None:
        order = runner.world_order  # type: ignore[attr-defined]
        process = self._kernel.task().process
        worker = self._pool.workers[process]
        present = worker._machine.order
        check(
            present is not None and present.generation == order.generation,
            "a task runs in a slot that has another holder",
            order,
            present,
        )
        tag = bytes(record.rest[: driver.TAG_BYTES])
        group_id, client_id = driver.SENT.get(tag, ("", ""))
        holder = self._generations.get(order.generation)
        check(
            group_id == order.session_id == holder,
            "a task runs in a slot of another group",
            client_id,
            order,
            holder,
        )

    # Clients.

    def _finish(self, task: grouplink.GroupTask, *_args: object) -> None:
        check(not task.done, "a task ends twice", task.number, task.error)


class _Account:
    """What a leader's projects have to pay for members.

    :ivar since: up to when their time was added up, by the id of the hold.
    :ivar held_s: the time that they were held.
    :ivar unpaid_before_s: what was to be paid when the leader began, …
    :ivar charged_at: … and up to when others were, by group and host.
    """

    def __init__(self) -> None:
        self.since: dict[int, float] = {}
        self.held_s = 0.0
        self.unpaid_before_s = 0.0
        self.charged_at: dict[tuple[str, int], float] = {}
        # All that there were.
        self._desks: dict[int, desk_accounts.DeskAccount] = {}

    def note(self, desks_now: Iterable[desk_accounts.DeskAccount]) -> None:
        self._desks.update((id(one), one) for one in desks_now)

    def read_charged_at(self) -> dict[tuple[str, int], float]:
        rows = [one.record for one in self._desks.values()]
        return {(one.group_id, one.host_id): one.charged_at for one in rows}

    @property
    def unpaid_s(self) -> float:
        """What is to be paid now."""
        return sum(one.record.unpaid_s for one in self._desks.values())


def _slots_of(room: groups.Groups, project: str) -> int:
    return room._groups.in_use(project)["group_slots"]


def _able(room: core_members.Members) -> list[object]:
    """Return the members that could leave for sessions that wait."""
    waiting: list[typing.Any] = []
    found: list[object] = []
    for row_id, known in room.groups.items():
        status = room._sizes.get(row_id)
        if (
            status is None
            or status.state == states.GROUP_DRAINING
            or any(hold.revoked for hold in known.holds.values())
            or min(status.members + status.under_way, status.wanted)
            <= known.group.min_size
        ):
            continue
        waiting = waiting or list(room._hindered())
        if not waiting:
            return []
        found += _leaving(known, waiting)
    return found


def _leaving(
    known: core_members.GroupSlots, waiting: list[typing.Any]
) -> Iterator[object]:
    for hold in known.able_to_leave():
        slot = hold.slot
        if slot and any(
            slot.up and one.fits(slot.id, slot.shape) for one in waiting
        ):
            yield hold
