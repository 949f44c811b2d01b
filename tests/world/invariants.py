# SPDX-License-Identifier: Apache-2.0

"""What holds after every step, whatever has happened.

The product's own classes are watched from outside: what they return and what
they keep is compared with what the world has seen.
"""

from __future__ import annotations

import collections
import functools
import itertools
import typing
from collections.abc import Callable

from fpgapool import objects
from fpgapool.agent.door import opens
from fpgapool.agent.slots import slot as slot_table
from fpgapool.agent.slots import table
from fpgapool.agent.supervision import children
from fpgapool.agent.worker import hello
from fpgapool.agent.worker import state as worker_state
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import engine
from fpgapool.conductor.decisions import pool as pools
from fpgapool.conductor.decisions.assignments import holds
from fpgapool.conductor.decisions.assignments import reports
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.conductor.decisions.requests import lives
from fpgapool.conductor.decisions.requests import sessions
from fpgapool.core import events
from fpgapool.core import model
from fpgapool.core import state as core_state
from fpgapool.core.queues import sharing
from fpgapool.core.topology import slots
from fpgapool.db import api as db_api
from fpgapool.db import leadership
from fpgapool.db import rows as db_rows
from fpgapool.protocol import frames
from fpgapool.protocol import stream
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.harness import holders
from tests.harness import machines
from tests.harness import pool_invariants
from tests.world import database as databases
from tests.world import kernel as kernels

#: A drain whose deadline has passed has taken its slots back by then.
_DRAIN_S = 5.0


#: A slot is given back by then, unless something keeps it from that; one of a
#: group when its tasks, or the client that has locked it, let it go.
_REVOKE_S = 6.0
_LEAVE_S = 25.0


#: A clock is read by then before what is decided by it.
_READING_S = 0.1


class Broken(Exception):
    """Something does not hold that always must."""


def check(holds: object, what: str, *details: object) -> None:
    """See that something holds.

    :raises Broken: if it does not.
    """
    if not holds:
        raise Broken(f"{what}: {', '.join(map(repr, details))}")


class Watcher:
    """Watches a world.

    :param calm_s: tells for how long nothing has gone wrong.
    """

    def __init__(
        self,
        kernel: kernels.Kernel,
        database: databases.Server,
        calm_s: Callable[[], float],
    ) -> None:
        self._kernel = kernel
        self._database = database
        self._calm_s = calm_s
        #: When sessions came, by their ids.
        self._came_s: dict[str, float] = {}
        #: When slots were first seen to be taken back, by generation.
        self._revoked_s: dict[int, float] = {}
        #: What each task is writing: epoch, rows of sessions, and the kind of
        #: the last rows that a leader decides about.
        self._epochs: dict[kernels.Task, int] = {}
        self._written: dict[kernels.Task, type] = {}
        self._rows: dict[kernels.Task, list[db_api.SessionRecord]] = {}
        #: Revision and arrival of each session as they are durable.
        self._durable: dict[str, tuple[int, float]] = {}
        #: Sessions and generations of all slots that they ever had durably.
        self.durable_slots: set[tuple[str, int]] = set()
        #: Orders that agents gave back, as their slots' holders stayed.
        self._given_back: set[tuple[int, int]] = set()
        self._secrets: set[str] = set()
        self._used: set[bytes] = set()
        #: The worker that let each session's client in, by generation, too.
        self.homes: dict[tuple[str, int], kernels.Process | None] = {}
        self._released: set[tuple[object, int, int]] = set()
        self._given: collections.Counter[object] = collections.Counter()
        self._charged: set[tuple[object, int]] = set()
        self._sequences: dict[tuple[int, str], int] = {}
        #: Ends by clients, as agents have told each leader of them.
        self._closed: set[tuple[registry.Registry, str, int]] = set()
        #: Generation and phase of each assignment, as each leader has
        #: recorded it.
        self._recorded: dict[pools.Pool, dict[int, tuple[int, str]]] = (
            collections.defaultdict(dict)
        )
        #: States of the core that have changed since they were checked.
        self._stepped: set[core_state.PoolState] = set()

    def install(self) -> None:
        """Watch from now on, for good."""
        for owner, name, watch in (
            (engine.Engine, "process", self._engine),
            (engine.Engine, "tick", self._engine),
            (engine.Engine, "start", self._engine),
            (lives.Lives, "end", self._ended),
            (core_state.PoolState, "apply", self._told_core),
            (core_state.PoolState, "step", self._core),
            (sharing.Accounts, "take_back", self._take_back),
            (registry.HostEntry, "note_report", self._report),
            (registry.Registry, "update", self._told),
            (reports.Reports, "_finished", self._finished),
            (table.SlotTable, "accept_epoch", self._epoch),
            (slot_table.Slot, "give_next_back", self._give_back),
            (slot_table.Slot, "accept", self._accept),
            (children.Keeper, "_lied", self._lied),
            (opens.Opens, "heard", self._heard),
            (worker_state.Machine, "handle", self._machine),
            (hello.Keyring, "mint", self._mint),
            (hello.Keyring, "admit", self._admit),
            (leadership, "lock_epoch", self._lock_epoch),
            (db_rows, "upsert", self._upsert),
            (db_api, "_write", self._write),
            (stream.Outbound, "__init__", self._begin_stream),
            (stream.Outbound, "take", self._sent),
            (stream.Outbound, "acknowledge", self._acknowledged),
        ):
            self.wrap(owner, name, watch)
        self._watch_accounts()
        self._watch_renewals()
        self._watch_complaints()
        self._database.on_commit = self._committed

    def wrap(
        self, owner: typing.Any, name: str, watch: Callable[..., None]
    ) -> None:
        """Call something after each call of a method.

        :param watch: takes its result and arguments.
        """
        original = getattr(owner, name)
        kernel = self._kernel

        @functools.wraps(original)
        def wrapper(*args: typing.Any, **kwargs: typing.Any) -> typing.Any:
            result = original(*args, **kwargs)
            try:
                watch(result, *args, **kwargs)
            except (Broken, AssertionError) as error:
                kernel.fail(f"{owner.__name__}.{name}: {error}", error)
            return result

        setattr(owner, name, wrapper)

    # The leader.

    def _engine(
        self, wanted: effects.Effects, brain: engine.Engine, *args: object
    ) -> None:
        self._assignments(wanted.changes, brain.pool)
        stepped = brain.pool.core in self._stepped
        if stepped or wanted.at_once or wanted.after_commit or wanted.changes:
            if stepped:
                self._stepped.clear()
                pool_invariants.check(brain.pool.core)
            holders.check(brain.pool)
            self._sessions(brain)
        self._drains(brain, typing.cast(float, args[-1]))
        self._revoked(brain)

    def _sessions(self, brain: engine.Engine) -> None:
        held: dict[int, int] = {}
        for hold in brain.pool.holds.with_successors():
            if isinstance(hold, sessions.SessionHold) and hold.wanted:
                row_id = hold.session.row_id
                held[row_id] = held.get(row_id, 0) + 1
        queued_bytes = collections.Counter[str]()
        queued = collections.Counter[str]()
        came_s, now_s = self._came_s, self._kernel.now_s
        wrong = brain.pool.counts.reconciled["wrong_move"]
        check(not wrong, "a session cannot go on as it was about to", wrong)
        check(
            all(count == 1 for count in held.values()),
            "a session has two slots",
            held,
        )
        for session in brain.pool.sessions.by_id.values():
            if session.end:
                continue
            came_s.setdefault(session.session_id, now_s)
            # Its state says QUEUED as long as it has no hold. Mostly that is
            # so, and a call takes longer than to see it.
            if (session.hold is None) != (session.row_id not in held):
                raise Broken(
                    f"queued with a slot, or assigned without one: {session!r}"
                )
            if session.hold is None:
                queued[session.project_id] += 1
                queued_bytes[session.project_id] += session.claimed_bytes
        book = brain.pool.sessions
        check(
            book.queued == queued and book.queued_bytes == queued_bytes,
            "waiting sessions are not counted once",
            book.queued,
            queued,
        )

    def _assignments(self, changes: db_api.Changes, pool: pools.Pool) -> None:
        """See that the next leader would find the slots as they are."""
        recorded = self._recorded[pool]
        for row in changes.rows(db_api.AssignmentRecord):
            recorded[row.slot_id] = row.generation, row.phase
        for slot_id, hold in pool.holds.items():
            # What a leader takes over is recorded.
            known = recorded.setdefault(
                slot_id, (hold.generation, hold.phase.value)
            )
            check(
                known == (hold.generation, hold.phase.value)
                or not hold.is_recorded,
                "an assignment is not recorded as it is",
                hold,
                known,
            )

    def _ended(
        self,
        _none: None,
        room: lives.Lives,
        session: sessions.Session,
        state: str,
        code: str,
        *_args: object,
    ) -> None:
        end = room._registry, session.session_id, session.generation
        check(
            state != states.FAILED or end not in self._closed,
            "a session that was closed ends otherwise",
            session,
        )
        if code != codes.WAIT_TIMEOUT:
            return
        waited_s = self._kernel.now_s - self._came_s[session.session_id]
        check(
            session.wait_timeout_s is None
            or waited_s >= session.wait_timeout_s - _READING_S,
            "expired before its time",
            waited_s,
            session,
        )

    def _revoked(self, brain: engine.Engine) -> None:
        now_s = self._kernel.now_s
        for hold in brain.pool.holds.values():
            if not hold.revoked:
                continue
            since_s = self._revoked_s.setdefault(hold.generation, now_s)
            is_member = isinstance(hold, holds.Member)
            limit_s = _LEAVE_S if is_member else _REVOKE_S
            check(
                now_s - since_s < limit_s or self._calm_s() < limit_s,
                "a slot is not given back",
                hold,
            )

    def _drains(self, brain: engine.Engine, now: float) -> None:
        for hold in brain.pool.holds.values():
            device = hold.slot.device
            for entry in (device, device.host):
                admin = entry.admin
                if admin.state is not model.AdminState.DRAINING:
                    continue
                late = (
                    admin.deadline_at is not None
                    and now - admin.deadline_at > _DRAIN_S
                    and device.host.up
                )
                check(
                    not late or hold.revoked or not _is_needed(hold),
                    "a slot outlives its drain",
                    hold,
                )
            disabled = (
                device.admin.state is model.AdminState.DISABLED
                and device.admin.reason == "world"
                and hold.wanted
            )
            check(not disabled, "a drained device has a holder", hold)

    def _core(
        self,
        wanted: object,
        state: core_state.PoolState,
        batch: typing.Any,
        _now: float,
    ) -> None:
        if batch or wanted:
            self._stepped.add(state)

    def _told_core(
        self,
        _wanted: object,
        state: core_state.PoolState,
        batch: typing.Any,
        _now: float,
    ) -> None:
        if batch:
            self._stepped.add(state)
        for event in batch:
            if isinstance(event, events.SlotReleased):
                key = id(state), event.slot_id, event.generation
                check(key not in self._released, "released twice", event)
                self._released.add(key)

    def _watch_accounts(self) -> None:
        """See that each claim is charged, and once."""
        give = sharing.Accounts.give

        def watched(
            accounts: sharing.Accounts,
            project: str,
            hold: slots.Hold,
            claimed_bytes: float,
            *,
            in_round: bool,
        ) -> None:
            account = accounts._accounts.get(project)
            before = account.left_bytes if account else None
            give(accounts, project, hold, claimed_bytes, in_round=in_round)
            self._given[accounts] += 1
            if claimed_bytes:
                key = accounts, hold.holder.id
                if key in self._charged:
                    self._kernel.fail(f"a claim is charged twice: {hold}")
                self._charged.add(key)
            if accounts.options.fair:
                account = accounts._accounts[project]
                share = account.share_bytes
                # A share may have become smaller. Shares of later rounds were
                # added to pay debts.
                charged = min(before or share, share) - account.left_bytes
                rounds = (claimed_bytes - charged) / share
                if abs(rounds - round(rounds)) > 1e-6:
                    self._kernel.fail(f"{claimed_bytes} charged as {charged}")

        sharing.Accounts.give = watched  # type: ignore[method-assign]

    def _give_back(self, _effects: object, slot: slot_table.Slot) -> None:
        self._given_back.add((id(slot), slot.seen_generation))

    def _accept(
        self,
        _effects: object,
        slot: slot_table.Slot,
        request: objects.AssignRequest,
    ) -> None:
        check(
            (id(slot), request.generation) not in self._given_back,
            "an order that was given back begins",
            request,
        )

    def _take_back(
        self, _none: None, accounts: sharing.Accounts, *_args: object
    ) -> None:
        self._given[accounts] -= 1
        held = sum(len(one.holds) for one in accounts.all())
        check(
            self._given[accounts] == held,
            "claims are not counted once",
            held,
        )

    def _report(
        self,
        _none: None,
        host: registry.HostEntry,
        boot_id: str,
        sequence: int,
        _now: float,
    ) -> None:
        key = id(host), boot_id
        check(
            sequence > self._sequences.get(key, -1),
            "an old report is believed",
            boot_id,
            sequence,
        )
        self._sequences[key] = sequence

    def _told(
        self,
        _result: object,
        known: registry.Registry,
        report: objects.AgentReport,
    ) -> None:
        for device in report.devices:
            for line in device.slots:
                self._closed.update(
                    (known, result.session_id, result.generation)
                    for result in (line.last_result, line.previous_result)
                    if result is not None and result.state == states.CLOSED
                )

    def _finished(
        self,
        _none: None,
        _room: reports.Reports,
        hold: holds.Hold,
        result: objects.SessionResult | None,
    ) -> None:
        check(
            result is None or result.generation == hold.generation,
            "a slot is ended by the result of another generation",
            hold,
            result,
        )

    # The lease and the rows.

    def _upsert(
        self, _none: None, _connection: object, kind: type, _rows: object
    ) -> None:
        # The library is the operators'.
        if kind is not db_api.AcceleratorRecord:
            self._written[self._kernel.task()] = kind

    def _lock_epoch(
        self, _none: None, _connection: object, epoch: int
    ) -> None:
        self._epochs[self._kernel.task()] = epoch

    def _write(
        self,
        _none: None,
        _connection: object,
        changes: db_api.Changes,
        left_out: set[int],
    ) -> None:
        self._rows[self._kernel.task()] = [
            row
            for row in changes.rows(db_api.SessionRecord)
            if row.id not in left_out
        ]

    def _watch_renewals(self) -> None:
        """See that only who leads renews the lease."""
        renew = db_api.Database.renew_lease

        def watched(
            database: db_api.Database, holder: str, epoch: int, *told: float
        ) -> None:
            task = self._kernel.task()
            self._epochs[task] = epoch
            try:
                renew(database, holder, epoch, *told)
            finally:
                self._epochs.pop(task, None)

        db_api.Database.renew_lease = watched  # type: ignore[method-assign]

    def _committed(self, leading_epoch: int) -> None:
        """A transaction is durable; its process may never hear of it."""
        task = self._kernel.task()
        epoch = self._epochs.pop(task, None)
        rows = self._rows.pop(task, [])
        written = self._written.pop(task, None)
        try:
            check(
                epoch is not None or not written,
                "written without the epoch",
                written,
            )
            check(
                epoch in (None, leading_epoch),
                "a former leader wrote",
                epoch,
                leading_epoch,
            )
            for row in rows:
                known = self._durable.get(row.session_id)
                check(
                    known is None or row.queued_at == known[1],
                    "lost its place in time",
                    row,
                )
                self._durable[row.session_id] = row.revision, row.queued_at
                self.durable_slots.add((row.session_id, row.generation))
        except Broken as error:
            self._kernel.fail(f"the database: {error}", error)

    def _heard(
        self,
        _effects: object,
        _opens: opens.Opens,
        view: typing.Any,
        _now: float,
    ) -> None:
        if not view.session_id:
            return
        revision, _ = self._durable.get(view.session_id, (-1, 0.0))
        check(
            view.revision <= revision,
            "told before it was durable",
            view.session_id,
            view.state,
            view.revision,
            revision,
        )

    # Agents and workers.

    def _epoch(
        self, accepted: bool, slots: table.SlotTable, epoch: int
    ) -> None:
        highest = max(
            typing.cast(int, getattr(slots, "world_epoch", 0)), epoch
        )
        slots.world_epoch = highest  # type: ignore[attr-defined]
        check(
            not accepted or epoch == highest,
            "an agent obeys a former leader",
            epoch,
            highest,
        )

    @staticmethod
    def _lied(_: None, _agent: object, child: object, error: object) -> None:
        check(False, "an honest process is killed as a liar", child, error)

    def _machine(
        self, _effects: object, machine: worker_state.Machine, *_a: object
    ) -> None:
        machines.check(machine)

    def _mint(self, secret: str, _keyring: hello.Keyring) -> None:
        check(secret not in self._secrets, "a secret came twice")
        self._secrets.add(secret)

    def _admit(
        self, first: bool, keyring: hello.Keyring, said: hello.Hello
    ) -> None:
        if not first:
            return
        digest = hello._digest(said.secret or "")
        check(digest not in self._used, "a secret let in twice", said)
        self._used.add(digest)
        task = self._kernel.current
        home = task.process if task else None
        key = said.session_id, said.generation
        known = self.homes.setdefault(key, home)
        check(known is home, "a session in two slots", said, known, home)
        check(
            key in self.durable_slots,
            "a client is let in before that is durable",
            said,
        )

    # Streams.

    def _watch_complaints(self) -> None:
        """See that no end says that the other one breaks the protocol."""
        kernel = self._kernel

        def watch(owner: typing.Any, name: str) -> None:
            original = getattr(owner, name)

            @functools.wraps(original)
            def watched(*args: typing.Any) -> typing.Any:
                try:
                    return original(*args)
                except frames.ProtocolError as error:
                    kernel.fail(f"{owner.__name__}.{name}: {error}", error)
                    raise

            setattr(owner, name, watched)

        watch(stream.Outbound, "acknowledge")
        watch(stream.Outbound, "resume")
        watch(stream.Inbound, "accept")
        watch(stream.Inbound, "resume")

    def _begin_stream(
        self,
        _none: None,
        out: typing.Any,
        _side: stream.Side,
        _start_bytes: int,
        window_bytes: int,
        cuts: bool = False,
    ) -> None:
        #: What was agreed, and all that was ever sent.
        out.world_window_bytes = window_bytes
        out.world_sent = bytearray()

    def _sent(self, piece: stream.Piece, out: typing.Any) -> None:
        in_flight_bytes = out.sent_bytes - out.acknowledged_bytes
        check(
            in_flight_bytes <= out.world_window_bytes,
            "more is sent than the credit",
            in_flight_bytes,
        )
        sent: bytearray = out.world_sent
        start = piece.offset_bytes - out.start_bytes
        check(start <= len(sent), "a gap in what is sent", piece.offset_bytes)
        before = sent[start : start + len(piece.data)]
        check(
            before == piece.data[: len(before)],
            "something else is sent again",
            piece.offset_bytes,
        )
        sent += piece.data[len(before) :]

    def _acknowledged(
        self,
        pieces: list[stream.Piece],
        out: typing.Any,
        offset_bytes: int,
        *_args: object,
    ) -> None:
        check(
            all(one.end_offset_bytes <= offset_bytes for one in pieces),
            "more is let go than was acknowledged",
            offset_bytes,
        )
        ends = [one.end_offset_bytes for one in pieces if one.data]
        check(
            all(one < other for one, other in itertools.pairwise(ends)),
            "let go twice",
            ends,
        )


def _is_needed(hold: holds.Hold) -> bool:
    """Whether the holder of a slot has no other one instead."""
    return not isinstance(hold, sessions.SessionHold) or not hold.abandoned
