# SPDX-License-Identifier: Apache-2.0

"""Requests of owners and clients of groups."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from collections.abc import Mapping

from oslo_log import log as logging

from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions import pool as pools
from fpgapool.conductor.decisions.assignments import members
from fpgapool.conductor.decisions.requests import admission
from fpgapool.conductor.decisions.requests import group_book
from fpgapool.conductor.decisions.requests import opening
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core.sizing import goals
from fpgapool.db import api as db_api
from fpgapool.vocabulary import group as description
from fpgapool.vocabulary import states

LOG = logging.getLogger(__name__)


class Groups:
    """Creates, changes and deletes groups; attaches and revokes clients."""

    def __init__(
        self, pool: pools.Pool, group_members: members.Members
    ) -> None:
        self._pool = pool
        self._members = group_members

    @property
    def handled(self) -> Mapping[type, pools.Handler]:
        """The inputs that are handled here."""
        return {inputs.ChangeGroup: self._change}

    @property
    def instructed(self) -> Mapping[type, pools.Handler]:
        """The handlers of the core's instructions about groups."""
        return {
            instructions.Resize: self._resized,
            instructions.RejectGroup: self._rejected,
            instructions.GoalReached: self._goal_reached,
        }

    def restore(self, rows: Iterable[db_api.AssignmentRecord]) -> None:
        """Take over the groups in the database, and their slots.

        :param rows: of all assignments.
        """
        pool = self._pool
        groups = list(pool.groups.groups.values())
        for group in groups:
            pool.tell(
                events.GroupRestored(
                    _as_wanted(group), group.size, _goal_before(group)
                ),
                self._clients_of(group),
            )
            pool.stirred_groups.add(group.group_id)
        for row in rows:
            group = pool.groups.by_row.get(row.holder_id)
            if row.holder_kind != states.HELD_BY_GROUP:
                continue
            if group is not None and row.slot_id not in pool.holds:
                self._members.restore(group, row)
            else:
                # A slot that still works for it shows up as a stray.
                pool.counts.reconciled["slot_without_session"] += 1
                if row.slot_id not in pool.holds:
                    pool.outbox.write_assignment(row.slot_id, None)
        for group in groups:
            if group.state == states.GROUP_DRAINING:
                pool.tell(events.GroupDeleted(group.id))

    def _change(self, item: inputs.ChangeGroup) -> None:
        pool = self._pool
        if pool.database_failing:
            refused = effects.EarlyAnswer(
                item.future, opening.not_recordable()
            )
            pool.outbox.send(refused)
            return
        refusal = None
        try:
            self._keep(pool.groups.planned(item.change, self._around()))
        except admission.Rejected as error:
            LOG.info("%s refused: %s", type(item.change).__name__, error.code)
            refusal = error
        # A refusal waits for the commit, too: the row that caused it may not
        # be recorded yet, and the client will look for it.
        pool.outbox.send(effects.Answer(item.future, refusal))

    def _around(self) -> group_book.Surroundings:
        pool = self._pool
        return group_book.Surroundings(
            now=pool.now,
            quota_of=pool.quotas.of,
            find_accelerator=self._accelerator,
            is_stateless=pool.is_stateless,
        )

    def _accelerator(self, name: str, project_id: str) -> str:
        pool = self._pool
        known, key = pool.catalogue.resolve(name, project_id)
        admission.check_accelerator(key, pool.registry, known)
        admission.check_in_use(
            key, pool.registry, known, pool.probation.faults
        )
        return key

    def _keep(self, rows: Iterable[group_book.Row]) -> None:
        """Tell the core of a change, and keep it.

        :raises Rejected: if the core refuses it; nothing has changed then.
        """
        pool = self._pool
        for row in rows:
            if isinstance(row, db_api.GroupClientRecord):
                self._write(row)
                self._client_changed(row)
                continue
            known = pool.groups.groups.get(row.group_id)
            if known is None:
                self._created(row)
            elif row.state != states.GROUP_DRAINING:
                self._changed(known, row)
            self._write(row)
            if row.state == states.GROUP_DRAINING:
                pool.tell(events.GroupDeleted(row.id))

    def _write(self, row: group_book.Row) -> None:
        pool = self._pool
        if isinstance(row, db_api.GroupRecord):
            former = pool.groups.groups.get(row.group_id, row)
            if row.size != former.size:
                way = "grow" if row.size > former.size else "shrink"
                pool.counts.group_resizes[way] += 1
        pool.stirred_groups.add(row.group_id)
        pool.groups.put([row])
        pool.outbox.write(row)

    # -- the core ----------------------------------------------------------

    def _created(self, group: db_api.GroupRecord) -> None:
        """Tell the core of a new group.

        :raises Rejected: if its goal cannot be reached.
        """
        self._pool.tell(events.GroupCreated(_as_wanted(group), _goal(group)))

    def _changed(
        self, old: db_api.GroupRecord, new: db_api.GroupRecord
    ) -> None:
        """Tell the core of other sizes, or of another goal.

        :raises Rejected: if the goal cannot be reached.
        """
        if _as_wanted(old) != _as_wanted(new):
            self._pool.tell(events.GroupChanged(_as_wanted(new)))
        if _goal(old) != _goal(new) or (
            description.is_reached(old) > description.is_reached(new)
        ):
            self._pool.tell(events.GoalChanged(new.id, _goal(new)))

    def _rejected(self, order: instructions.RejectGroup) -> None:
        """Refuse a request, before anything of it is kept.

        :raises Rejected: always.
        """
        message = order.message
        if order.earliest_s is not None:
            earliest_s = math.ceil(order.earliest_s - self._pool.now)
            message += f"; the earliest deadline is in {earliest_s} s"
        raise admission.Rejected(order.code, message)

    def _resized(self, order: instructions.Resize) -> None:
        """Record a size or state that the core has decided."""
        old = self._pool.groups.by_row.get(order.group_id)
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
            new = dataclasses.replace(new, updated_at=self._pool.now)
            self._write(new)

    def _goal_reached(self, order: instructions.GoalReached) -> None:
        """Record that all tasks of a goal have ended."""
        old = self._pool.groups.by_row.get(order.group_id)
        if old is not None:
            LOG.info("Group %s has reached its goal", old.group_id)
            self._write(dataclasses.replace(old, actions_done=old.actions))

    def end_clients(self, clients: Iterable[db_api.GroupClientRecord]) -> None:
        """End clients whose programs are gone."""
        for client in clients:
            LOG.info(
                "Client %s of group %s ends: it has no connection",
                client.client_id,
                client.group_id,
            )
            self._keep([group_book.ended(client)])

    def record_progress(self) -> None:
        """Record the tasks that have ended for goals, after reports."""
        pool = self._pool
        for old in list(pool.groups.groups.values()):
            going = old.goal_kind and pool.core.goal_progress(old.id)
            if going and going.done != old.actions_done:
                self._write(dataclasses.replace(old, actions_done=going.done))

    def _client_changed(self, client: db_api.GroupClientRecord) -> None:
        """Tell the core and the desks of a client, after it is kept."""
        group = self._pool.groups.groups[client.group_id]
        self._pool.stirred_groups.add(group.group_id)
        self._pool.tell(self._clients_of(group))

    def _clients_of(
        self, group: db_api.GroupRecord
    ) -> events.GroupClientsChanged:
        return events.GroupClientsChanged(
            group.id,
            tuple(
                (one.client_id, one.project_id)
                for one in self._pool.groups.clients_of(group.group_id)
                if one.project_id != group.project_id
            ),
        )


def _as_wanted(group: db_api.GroupRecord) -> model.Group:
    """Return the core's view of a group."""
    return model.Group(
        id=group.id,
        accelerator=group.accelerator,
        size=group.size,
        min_size=group.min_size,
        max_size=group.max_size,
        project=group.project_id,
        elastic=group.elastic,
    )


def _goal(group: db_api.GroupRecord) -> goals.Goal | None:
    """Return the core's view of a group's goal; None: it has none."""
    if not group.goal_kind:
        return None
    return goals.Goal(
        deadline_s=group.deadline_at,
        rate_per_s=group.rate_per_s,
        actions=group.actions,
    )


def _goal_before(group: db_api.GroupRecord) -> goals.State | None:
    """Return what is left of a goal from before a restart."""
    goal = _goal(group)
    # The core has forgotten a goal that is reached.
    if goal is None or description.is_reached(group):
        return None
    return goals.State(
        goal=goal,
        registered_s=group.created_at,
        started=group.actions_done > 0,
        done=group.actions_done,
    )
