# SPDX-License-Identifier: Apache-2.0

"""Handles requests about groups from their owners and clients."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

from oslo_log import log as logging

from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions import limits
from fpgapool.conductor.decisions import parts
from fpgapool.conductor.decisions.assignments import holds
from fpgapool.conductor.decisions.assignments import serving
from fpgapool.conductor.decisions.budgets import keeping
from fpgapool.conductor.decisions.hardware import bitstreams
from fpgapool.conductor.decisions.hardware import probation
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.conductor.decisions.requests import admission
from fpgapool.conductor.decisions.requests import first_slots
from fpgapool.conductor.decisions.requests import group_book
from fpgapool.conductor.decisions.requests import member_sets
from fpgapool.conductor.decisions.requests import quotas
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core.sizing import goals
from fpgapool.db import api as db_api
from fpgapool.vocabulary import group as description
from fpgapool.vocabulary import states

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(eq=False, repr=False)
class Groups(parts.Room):
    """Creates, changes and deletes groups; attaches and revokes clients."""

    _registry: registry.Registry
    _catalogue: bitstreams.Catalogue
    _probation: probation.Probation
    _quotas: quotas.QuotaBook
    _groups: group_book.GroupBook
    _first_slots: first_slots.FirstSlotsBook
    _holds: holds.Holds
    _serving: serving.Serving
    _keeping: keeping.Keeping

    def restore(self, rows: Iterable[db_api.AssignmentRecord]) -> None:
        """Restore the groups and their slots from the database."""
        groups = [
            group
            for group in self._groups.groups.values()
            if group.state != states.GROUP_FAILED
        ]
        held: dict[int, list[db_api.AssignmentRecord]] = {}
        for row in rows:
            if row.holder_kind == states.HELD_BY_GROUP:
                held.setdefault(row.holder_id, []).append(row)
        # By row id of the group; None: it has no first slots to wait for.
        starting: dict[int, first_slots.FirstSlots | None] = {}
        for group in groups:
            first = self._first_slots.of(group.group_id)
            slots = held.get(group.id, [])
            waits = first_slots.waits(group, first, slots)
            starting[group.id] = first if waits else None
            self._link.tell(
                events.GroupRestored(
                    first_slots.as_wanted(group, first),
                    group.size,
                    _goal_before(group),
                    first.since if first is not None and waits else None,
                ),
                self._clients_of(group),
            )
            self._holds.changed_groups.add(group.group_id)
        for row in (row for slots in held.values() for row in slots):
            group = self._groups.by_row.get(row.holder_id)
            first = starting.get(row.holder_id)
            if (
                group is not None
                and row.holder_id in starting
                and row.slot_id not in self._holds
                # Some of its first slots are as good as none.
                and (first is None or len(held[group.id]) == group.min_size)
            ):
                phase = limits.read_enum(model.Phase, row, "phase")
                self._serving.restore_group(
                    group, row, phase or model.Phase.ACTIVE, first
                )
            else:
                # A report shows a slot that still serves the group as a stray.
                self._counts.reconciled["slot_without_session"] += 1
                if row.slot_id not in self._holds:
                    self._outbox.write_assignment(row.slot_id, None)
        for group in groups:
            if group.state == states.GROUP_DRAINING:
                self._link.tell(events.GroupDeleted(group.id))

    @parts.handles(inputs.ChangeGroup)
    def _change(self, item: inputs.ChangeGroup) -> None:
        self._answer_change(
            item.future,
            lambda: self._keep(
                self._groups.planned(item.change, self._context())
            ),
        )

    def _context(self) -> group_book.GroupContext:
        return group_book.GroupContext(
            now=self._clock.now,
            quota_of=self._quotas.of,
            find_accelerator=self._accelerator,
            is_stateless=self._catalogue.is_stateless,
            check_budget=self._keeping.check,
            check_first=self._check_first,
        )

    def _check_first(
        self, group: db_api.GroupRecord, first: first_slots.FirstSlots
    ) -> None:
        member_sets.check_size(
            group.project_id,
            first_slots.as_wanted(group, first).together,
            self._registry,
            self._quotas.of(group.project_id).sessions,
            "a group whose first {} slots come at once",
        )

    def _accelerator(self, name: str, project_id: str) -> str:
        known, key = self._catalogue.resolve(name, project_id)
        admission.check_accelerator(key, self._registry, known)
        admission.check_in_use(
            key, self._registry, known, self._probation.faults
        )
        return key

    def _keep(self, rows: Iterable[group_book.Planned]) -> None:
        """Send a change to the core, and store it."""
        first = None
        for row in rows:
            if isinstance(row, first_slots.FirstSlots):
                first = row
                continue
            if isinstance(row, db_api.GroupClientRecord):
                self._write(row)
                self._client_changed(row)
                continue
            known = self._groups.groups.get(row.group_id)
            if known is None:
                self._created(row, first)
            elif row.state != states.GROUP_DRAINING:
                self._changed(known, row)
            self._write(row)
            if row.state == states.GROUP_DRAINING:
                self._link.tell(events.GroupDeleted(row.id))

    def _write(self, row: group_book.Row) -> None:
        if isinstance(row, db_api.GroupRecord):
            former = self._groups.groups.get(row.group_id, row)
            if row.size != former.size:
                way = "grow" if row.size > former.size else "shrink"
                self._counts.group_resizes[way] += 1
        self._holds.changed_groups.add(row.group_id)
        self._groups.put([row])
        self._outbox.write(row)

    # -- the core ----------------------------------------------------------

    def _created(
        self, group: db_api.GroupRecord, first: first_slots.FirstSlots | None
    ) -> None:
        """Send the core a new group."""
        self._link.tell(
            events.GroupCreated(
                first_slots.as_wanted(group, first),
                _goal(group),
                is_known=not self._registry.is_whole,
            )
        )
        if first is not None:
            self._first_slots.put(first)

    def _changed(
        self, old: db_api.GroupRecord, new: db_api.GroupRecord
    ) -> None:
        """Send the core a group's changed sizes or goal."""
        first = self._first_slots.of(old.group_id)
        wanted = first_slots.as_wanted(new, first)
        if wanted != first_slots.as_wanted(old, first):
            self._link.tell(events.GroupChanged(wanted))
        if _goal(old) != _goal(new) or (
            description.is_reached(old) > description.is_reached(new)
        ):
            self._link.tell(events.GoalChanged(new.id, _goal(new)))

    @parts.handles(instructions.RejectGroup)
    def _rejected(self, order: instructions.RejectGroup) -> None:
        """Reject a request before anything is stored, or end a group.

        :raises Rejected: unless a group that is known does not get its first
            slots.
        """
        known = self._groups.by_row.get(order.group_id)
        if order.ends and known is not None:
            self._fail(known, order)
            return
        message = order.message
        if order.earliest_s is not None:
            earliest_s = math.ceil(order.earliest_s - self._clock.now)
            message += f"; the earliest possible deadline is in {earliest_s} s"
        raise admission.Rejected(order.code, message)

    def _fail(
        self, group: db_api.GroupRecord, order: instructions.RejectGroup
    ) -> None:
        LOG.info(
            "Group %s (%s) does not get its first slots: %s: %s",
            group.name,
            group.group_id,
            order.code,
            order.message,
        )
        first = self._first_slots.of(group.group_id)
        if first is not None:
            self._first_slots.put(
                dataclasses.replace(first, reason=order.code)
            )
        clients = self._groups.clients_of(group.group_id)
        self._keep(map(group_book.revoked, clients))
        state = states.GROUP_MOVES[states.GROUP_CREATING][states.REJECT]
        self._write(
            dataclasses.replace(group, state=state, updated_at=self._clock.now)
        )

    @parts.handles(instructions.Resize)
    def _resized(self, order: instructions.Resize) -> None:
        old = self._groups.by_row.get(order.group_id)
        if old is None:
            return
        new = dataclasses.replace(old, state=order.state)
        if old.elastic and order.wanted:
            new = dataclasses.replace(new, size=order.wanted)
        if new != old:
            LOG.info(
                "Group %s (%s) is %s, %d slots",
                new.name,
                new.group_id,
                new.state,
                order.wanted,
            )
            new = dataclasses.replace(new, updated_at=self._clock.now)
            self._write(new)

    @parts.handles(instructions.GoalReached)
    def _goal_reached(self, order: instructions.GoalReached) -> None:
        old = self._groups.by_row.get(order.group_id)
        if old is not None:
            LOG.info("Group %s has reached its goal", old.group_id)
            self._write(dataclasses.replace(old, actions_done=old.actions))

    def end_clients(self, clients: Iterable[db_api.GroupClientRecord]) -> None:
        """End clients that have been disconnected for too long."""
        for client in clients:
            LOG.info(
                "Client %s of group %s ended: disconnected for too long",
                client.client_id,
                client.group_id,
            )
            self._keep([group_book.revoked(client, states.CLIENT_ENDED)])

    def record_progress(self) -> None:
        """Record how many tasks of each goal have been completed."""
        for old in list(self._groups.groups.values()):
            going = old.goal_kind and self._core.goal_progress(old.id)
            if going and going.done != old.actions_done:
                self._write(dataclasses.replace(old, actions_done=going.done))

    def _client_changed(self, client: db_api.GroupClientRecord) -> None:
        group = self._groups.groups[client.group_id]
        self._holds.changed_groups.add(group.group_id)
        self._link.tell(self._clients_of(group))

    def _clients_of(
        self, group: db_api.GroupRecord
    ) -> events.GroupClientsChanged:
        return events.GroupClientsChanged(
            group.id,
            tuple(
                (one.client_id, one.project_id)
                for one in self._groups.clients_of(group.group_id)
                if one.project_id != group.project_id
            ),
        )


def _goal(group: db_api.GroupRecord) -> goals.Goal | None:
    """Return a group's goal as the core represents it; None if it has none."""
    if not group.goal_kind:
        return None
    return goals.Goal(
        deadline_s=group.deadline_at,
        rate_per_s=group.rate_per_s,
        actions=group.actions,
    )


def _goal_before(group: db_api.GroupRecord) -> goals.GoalState | None:
    """Return the state of a group's goal before a restart."""
    goal = _goal(group)
    # The core forgets a goal once it is reached.
    if goal is None or description.is_reached(group):
        return None
    return goals.GoalState(
        goal=goal,
        registered_s=group.created_at,
        started=group.actions_done > 0,
        done=group.actions_done,
    )
