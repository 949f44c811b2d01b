# SPDX-License-Identifier: Apache-2.0

"""The leader's knowledge of the pool, and the effects of a batch.

The rooms of the engine share one :class:`Pool`. They send events to the core,
change sessions and hosts, and put rows and messages into the outbox.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from oslo_log import log as logging

from fpgapool import objects
from fpgapool.common.monitoring import tallies
from fpgapool.conductor import counts as conductor_counts
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import usage
from fpgapool.conductor.decisions.assignments import desk_accounts
from fpgapool.conductor.decisions.assignments import holds
from fpgapool.conductor.decisions.assignments import rates
from fpgapool.conductor.decisions.hardware import bitstreams
from fpgapool.conductor.decisions.hardware import power_caps
from fpgapool.conductor.decisions.hardware import probation
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.conductor.decisions.requests import admission
from fpgapool.conductor.decisions.requests import expected_waits
from fpgapool.conductor.decisions.requests import group_book
from fpgapool.conductor.decisions.requests import instances
from fpgapool.conductor.decisions.requests import quotas
from fpgapool.conductor.decisions.requests import sessions
from fpgapool.core import events
from fpgapool.core import model
from fpgapool.core import state as core_state
from fpgapool.core.topology import power
from fpgapool.core.topology import slots
from fpgapool.db import api as db_api
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states

LOG = logging.getLogger(__name__)

#: Handles one input, or one instruction of the core.
Handler = Callable[[Any], None]


class Outbox:
    """Collects the rows and messages of a batch.

    A message's class says whether it waits for the rows, see
    :mod:`.effects`.
    """

    def __init__(self) -> None:
        self._rows: list[db_api.Record] = []
        self._assignments: dict[int, db_api.AssignmentRecord | None] = {}
        self._messages: list[effects.Message] = []
        self._admissions: list[effects.Admission] = []
        self._withdrawn: list[int] = []

    def write(self, *rows: db_api.Record) -> None:
        """Add rows."""
        self._rows += rows

    def write_assignment(
        self, slot_id: int, row: db_api.AssignmentRecord | None
    ) -> None:
        """Set the row of a slot's assignment; None: delete it."""
        self._assignments[slot_id] = row

    def send(self, *messages: effects.Message) -> None:
        """Add messages."""
        self._messages += messages

    def admit(self, new: effects.Admission) -> None:
        """Add a new session, to be recorded unless its request id is taken."""
        self._admissions.append(new)

    def withdraw(self, row_id: int) -> None:
        """Delete a session that was not recorded."""
        self._withdrawn.append(row_id)

    def take(self) -> effects.Effects:
        """Return and clear the collected effects."""
        given = [row for row in self._assignments.values() if row is not None]
        released = [id_ for id_, row in self._assignments.items() if not row]
        taken = effects.Effects(
            changes=db_api.Changes.of([*self._rows, *given], released),
            at_once=[m for m in self._messages if not m.after_commit],
            after_commit=[m for m in self._messages if m.after_commit],
            admissions=self._admissions,
            withdrawn=self._withdrawn,
        )
        Outbox.__init__(self)
        return taken


class Pool:
    """Core, hosts, sessions and limits; see the module's docstring.

    :ivar now: the time of the batch, in seconds; never less than before.
    :ivar core: the scheduling core.
    :ivar sessions: all sessions in memory.
    :ivar groups: all groups and their clients.
    :ivar desk_accounts: what desks have counted that is in the usage.
    :ivar holds: the slots of sessions and groups, by id.
    :ivar stirred_groups: the groups about which desks may have to be told.
    :ivar unreachable_until: up to then the conductor could not receive
        reports, so that silence of a host proves nothing.
    :ivar failing_at: when the database last failed, so that messages waited.
    :ivar instructed: the handlers of the core's instructions.
    :param core: empty.
    :param settings: limits.
    :param snapshot: the rows of the database.
    :param own_quotas: projects' limits until others come from Keystone; None:
        the database keeps them, with defaults in the settings.
    :param thresholds_bytes: between priority queues, if there are any.
    :param counts: for metrics.
    :param ahead_s: by how much ``now`` is ahead of pool time.
    """

    def __init__(
        self,
        core: core_state.PoolState,
        settings: admission.Limits,
        snapshot: db_api.Snapshot,
        *,
        own_quotas: admission.Quotas | None,
        thresholds_bytes: Sequence[float],
        counts: conductor_counts.Counts,
        ahead_s: float,
    ) -> None:
        self.now = -math.inf
        self.core = core
        # Counting of skips begins with this call.
        core.take_skips()
        self.settings = settings
        self.counts = counts
        self._ahead_s = ahead_s
        self.quotas = quotas.Current(
            quotas.Book(
                settings.default_quota,
                snapshot.quotas,
                snapshot.max_ids.quota,
            ),
            own_quotas,
        )
        self.ledger = usage.Ledger(snapshot.usage, snapshot.max_ids.usage)
        self.registry = registry.Registry()
        self.catalogue = bitstreams.Catalogue(
            (), snapshot.bitstreams, snapshot.max_ids.bitstream
        )
        self.instances = instances.Directory(
            snapshot.instances, snapshot.max_ids.instance
        )
        self.sessions = sessions.Book(thresholds_bytes)
        self.groups = group_book.Book(
            snapshot.groups,
            snapshot.group_clients,
            snapshot.max_ids.group,
            snapshot.max_ids.group_client,
        )
        self.desk_accounts = desk_accounts.Accounts(
            snapshot.group_desks, snapshot.max_ids.group_desk
        )
        self.holds: dict[int, holds.Hold] = {}
        self.stirred_groups: set[str] = set()
        self.outbox = Outbox()
        self.probation = probation.Probation(
            settings,
            self.registry,
            self.catalogue,
            core,
            self.holds,
            snapshot.faults,
            counts,
            tell=self.tell,
            write=self.outbox.write,
            send=self.outbox.send,
        )
        self.pace = expected_waits.Pace()
        self.traffic = rates.Traffic()
        self._power_caps = power.Caps()
        self.wake_at: float | None = None
        self.database_failing = False
        self.unreachable_until = self.failing_at = -math.inf
        self.instructed: dict[type, Handler] = {}
        self._last_job_id = snapshot.max_ids.session
        self._touched: dict[int, sessions.Session] = {}
        # By row id and front door: the calls that wait for a session.
        self._asked: dict[
            tuple[int, str | None],
            tuple[sessions.Session, list[effects.ViewFuture]],
        ] = {}

    # -- the core ----------------------------------------------------------

    def tell(self, *happened: events.Event) -> None:
        """Send events to the core, and carry out its instructions.

        Waiting sessions get slots later, see :meth:`decide`.
        """
        self._carry_out(self.core.apply(happened, self.now))

    def tell_power_caps(self) -> None:
        """Send the caps on the power of slots to the core, if they changed."""
        caps = power_caps.caps(
            self.settings, self.registry, self.profiles.values()
        )
        if caps != self._power_caps:
            self._power_caps = caps
            if caps.is_set:
                for line in power_caps.doubts(caps, self.registry):
                    LOG.warning("%s", line)
            self.tell(events.PowerCapsChanged(caps))

    def decide(self) -> None:
        """Have the core give slots to waiting sessions."""
        happened: tuple[events.Event, ...] = ()
        if self.wake_at is not None and self.now >= self.wake_at:
            self.wake_at = None
            happened = (events.Wake(),)
        self._carry_out(self.core.step(happened, self.now))
        for job_id, skips in self.core.take_skips().items():
            # Recorded for the next leader, but not published. Groups have no
            # rows of their jobs.
            session = self.sessions.by_job.get(job_id)
            if session is not None:
                session.skips = skips
                self.outbox.write(session.record())

    def _carry_out(self, instructions: Iterable[object]) -> None:
        for instruction in instructions:
            self.attempt(self.instructed, instruction)

    def attempt(self, handlers: Mapping[type, Handler], item: object) -> None:
        """Handle an item; log and skip it if a session may not move so.

        :param handlers: by the item's class.
        """
        try:
            handlers[type(item)](item)
        except sessions.WrongMove as error:
            LOG.error("%s: %s is left out", error, type(item).__name__)
            self.counts.reconciled["wrong_move"] += 1

    # -- slots -------------------------------------------------------------

    def assignment(self, slot_id: int) -> slots.Hold:
        """Return the assignment that the core has made.

        :raises RuntimeError: if it has made none.
        """
        core = self.core.hold(slot_id)
        if core is None:
            raise RuntimeError(f"the core gives slot {slot_id} to no holder")
        return core

    def members(self) -> Iterator[holds.Member]:
        """Yield the slots of groups."""
        for hold in self.holds.values():
            if isinstance(hold, holds.Member):
                yield hold

    def save(self, hold: holds.Hold) -> None:
        """Record an assignment."""
        self._stir(hold)
        row = hold.record() if hold.is_recorded else None
        self.outbox.write_assignment(hold.slot.id, row)

    def drop(self, hold: holds.Hold) -> None:
        """Remove an assignment from memory and from the database."""
        self._stir(hold)
        del self.holds[hold.slot.id]
        self.outbox.write_assignment(hold.slot.id, None)

    def _stir(self, hold: holds.Hold) -> None:
        if isinstance(hold, holds.Member):
            self.stirred_groups.add(hold.group.group_id)

    def job(self, session: sessions.Session) -> model.Job:
        """Return the core's view of a session."""
        return session.job(self._ahead_s)

    def next_job_id(self) -> int:
        """Return an id that no job and no session's row has had."""
        self._last_job_id += 1
        return self._last_job_id

    @property
    def last_row_id(self) -> int:
        """The highest row id of a session."""
        return self._last_job_id

    @property
    def pool_time(self) -> float:
        """The time of the batch, in pool time."""
        return self.now - self._ahead_s

    # -- sessions ----------------------------------------------------------

    @property
    def profiles(self) -> Mapping[str, objects.AcceleratorProfile]:
        """The accelerators of the library, by name."""
        return self.catalogue.library.profiles

    def is_stateless(self, accelerator: str) -> bool:
        """Whether the library says that an accelerator keeps no state."""
        profile = self.profiles.get(accelerator)
        return profile is not None and profile.stateless

    def touch(self, session: sessions.Session) -> None:
        """Record and publish a changed session at the end of the batch."""
        if session.withdrawn:
            return
        session.revision += 1
        self._touched[session.row_id] = session

    def forget_changes(self, session: sessions.Session) -> None:
        """Neither record nor publish the changes of a session."""
        self._touched.pop(session.row_id, None)

    def answer(
        self,
        session: sessions.Session,
        host_uuid: str | None,
        future: effects.ViewFuture,
    ) -> None:
        """Answer a call with how a session stands after this batch.

        :param host_uuid: of the front door that calls, if it is one.
        """
        key = session.row_id, host_uuid
        self._asked.setdefault(key, (session, []))[1].append(future)

    def view(
        self, session: sessions.Session, host_uuid: str | None = None
    ) -> objects.SessionView:
        """Return how a session stands.

        :param host_uuid: of the front door that hears of it, with the secret
            if the session was opened there.
        """
        if host_uuid and host_uuid in session.front_doors:
            return session.view(with_secret=True)
        chunk_bytes = self.registry.chunk_bytes
        if session.state != states.QUEUED:
            return session.view(chunk_bytes=chunk_bytes)
        position = self.core.queue_position(session.job_id)
        return session.view(
            queue_position=position,
            pending_reasons=self.core.status(session.job_id).reasons,
            expected_wait_s=self.pace.expected_wait_s(position, self.now),
            chunk_bytes=chunk_bytes,
        )

    def _publish(
        self,
        session: sessions.Session,
        host_uuid: str | None,
        *waiting: effects.ViewFuture,
    ) -> None:
        """Tell a front door, or a caller that waits, of a session."""
        if not session.withdrawn:
            view = self.view(session, host_uuid)
            self.outbox.send(effects.PublishSession(host_uuid, view, waiting))

    def end(
        self, session: sessions.Session, state: str, code: str, message: str
    ) -> None:
        """End a session, before its slot is released.

        :raises WrongMove: if its state does not allow this end.
        """
        was_queued = session.hold is None and session.live
        session.finish(state, code, message, self.now, self.pool_time)
        if was_queued:
            self.sessions.uncount_queued(session)
        self.counts.ended[state, tallies.known(code)] += 1
        met = None if session.judged else session.deadline_met
        session.judged = session.judged or met is not None
        counts = bool(session.generation) and not session.counted
        session.counted = session.counted or counts
        if counts or met is not None:
            self.ledger.add(
                session.project_id,
                session.accelerator,
                self.now,
                sessions=int(counts),
                sessions_met=int(met is True),
                sessions_missed=int(met is False),
            )
        if met is not None:
            result = "met" if met else "missed"
            self.counts.deadlines[session.project_id, result] += 1
        self.touch(session)
        self.sessions.note_end(session)

    def close(self, session: sessions.Session) -> None:
        """Let a session that has ended otherwise end as served."""
        session.finish(states.CLOSED, codes.OK, "", self.now, self.pool_time)
        self.touch(session)

    def cancel(
        self,
        session: sessions.Session,
        code: str,
        message: str = "",
    ) -> None:
        """Cancel a session, and take its slot back."""
        self.end(session, states.CANCELLED, code, message)
        self.tell(events.JobCancelled(session.job_id, code))

    def of_record(self, record: db_api.SessionRecord) -> sessions.Session:
        """Make a session of its row."""
        host = self.registry.hosts_by_id.get(record.host_id or 0)
        return sessions.Session.from_record(
            record, host.uuid if host else None
        )

    # -- the end of a batch ------------------------------------------------

    def take_effects(self) -> effects.Effects:
        """Return the effects of the batch."""
        asked, self._asked = self._asked, {}
        for session in self._touched.values():
            session.updated_at = self.now
            self.outbox.write(session.record())
            for host_uuid in session.front_doors:
                _, waiting = asked.pop((session.row_id, host_uuid), (None, ()))
                self._publish(session, host_uuid, *waiting)
        self._touched.clear()
        for (_, host_uuid), (session, waiting) in asked.items():
            self._publish(session, host_uuid, *waiting)
        self.outbox.write(
            *self.ledger.take(),
            *self.desk_accounts.take(),
            *self.instances.take(),
        )
        return self.outbox.take()
