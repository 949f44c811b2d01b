# SPDX-License-Identifier: Apache-2.0

"""Handles requests of group owners and reports of desks.

A request that cannot be met is rejected and changes nothing.
"""

from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import view as pool_view
from fpgapool.core.rules import members
from fpgapool.core.sizing import goals
from fpgapool.core.sizing import groups as group_sizes
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states


class Owners:
    """Handles events of groups, except those of their slots."""

    def __init__(
        self,
        view: pool_view.PoolView,
        group_members: members.Members,
        sizes: group_sizes.Groups,
        outcome: instructions.Outcome,
    ) -> None:
        self._view = view
        self._members = group_members
        self._sizes = sizes
        self._outcome = outcome

    def on_created(self, event: events.GroupCreated) -> None:
        """Add a group, or reject it."""
        group = event.group
        if self._is_bad(group) or group.id in self._members.groups:
            return
        if group.all_or_none and not group.min_size:
            self._reject(
                group.id,
                codes.INVALID_GROUP_SIZE,
                "a group whose first slots come all or none has min_size of at"
                " least 1",
            )
            return
        try:
            self._sizes.create(
                group, self._view.now, event.goal, self._shapes(group)
            )
        except goals.Infeasible as error:
            self._reject_goal(group.id, error)
            return
        self._members.add(group)
        if group.all_or_none:
            self._members.gather(group.id, is_known=event.is_known)

    def on_restored(self, event: events.GroupRestored) -> None:
        """Restore a group from before a restart."""
        group = event.group
        if group.id not in self._members.groups:
            self._sizes.restore(
                group,
                event.wanted,
                self._view.now,
                event.goal,
                self._shapes(group),
                gathers=event.waits_since_s is not None,
            )
            self._members.add(group, event.waits_since_s)

    def on_changed(self, event: events.GroupChanged) -> None:
        """Apply the sizes that an owner requests, or reject them.

        :raises ValueError: if the group has a different accelerator.
        """
        group = event.group
        known = self._live(group.id)
        if known is None:
            return
        if known.group.accelerator != group.accelerator:
            raise ValueError(
                f"the accelerator of group {group.id} cannot be changed"
            )
        status = self._sizes.get(group.id)
        if status and status.gathers and known.group.sizes != group.sizes:
            self._reject(
                group.id,
                codes.GROUP_WAITS,
                f"the group waits for its first {known.group.min_size} slots;"
                " its sizes can change when it has them",
            )
            return
        if not self._is_bad(group):
            known.group = group
            self._sizes.change(group, self._view.now, self._shapes(group))
            self._members.changed = True

    def on_goal(self, event: events.GoalChanged) -> None:
        """Replace a group's goal, or reject the new one."""
        if self._live(event.group_id) is None:
            return
        try:
            self._sizes.set_goal(event.group_id, event.goal, self._view.now)
        except goals.Infeasible as error:
            self._reject_goal(event.group_id, error)
        except ValueError as error:
            self._reject(event.group_id, codes.INVALID_GOAL, str(error))
        else:
            self._members.changed = True

    def on_deleted(self, event: events.GroupDeleted) -> None:
        """Delete a group: its members leave."""
        if event.group_id in self._members.groups:
            self._sizes.delete(event.group_id, self._view.now)
            self._members.changed = True

    def on_clients(self, event: events.GroupClientsChanged) -> None:
        """Record the projects of a group's clients."""
        known = self._members.groups.get(event.group_id)
        if known is not None:
            known.projects = dict(event.projects)

    def on_stats(self, event: events.TaskStats) -> None:
        """Process a desk's report."""
        known = self._members.groups.get(event.group_id)
        if known is None:
            return
        known.busy[event.host_id] = event.busy_members
        self._charge_clients(known, event)
        if self._sizes.observe(event, self._view.now):
            self._outcome.output.append(
                instructions.GoalReached(event.group_id)
            )
        self._members.changed = True

    def _live(self, group_id: model.GroupId) -> members.GroupSlots | None:
        """Return a group; reject the request if the group is ending."""
        status = self._sizes.get(group_id)
        if status is None or status.state == states.GROUP_DRAINING:
            self._reject(
                group_id,
                codes.GROUP_NOT_FOUND,
                f"there is no group {group_id}",
            )
            return None
        return self._members.groups[group_id]

    def _is_bad(self, group: model.Group) -> bool:
        """Return whether no pool could meet a request; if so, reject it."""
        if group.accelerator not in self._view.accelerators:
            self._reject(
                group.id,
                codes.UNKNOWN_ACCELERATOR,
                f"there is no accelerator {group.accelerator!r}",
            )
            return True
        try:
            group.check_sizes()
        except ValueError as error:
            self._reject(group.id, codes.INVALID_GROUP_SIZE, str(error))
            return True
        return False

    def _shapes(self, group: model.Group) -> model.Shapes:
        accelerator = self._view.accelerators.get(group.accelerator)
        return accelerator.shapes if accelerator else frozenset()

    def _reject_goal(
        self, group_id: model.GroupId, error: goals.Infeasible
    ) -> None:
        self._reject(
            group_id, codes.GOAL_INFEASIBLE, str(error), error.earliest_s
        )

    def _reject(
        self,
        group_id: model.GroupId,
        code: str,
        message: str,
        earliest_s: float | None = None,
    ) -> None:
        self._outcome.output.append(
            instructions.RejectGroup(group_id, code, message, earliest_s)
        )

    def _charge_clients(
        self, known: members.GroupSlots, stats: events.TaskStats
    ) -> None:
        """Charge other projects, not the owner, for their clients' tasks."""
        accounts = self._view.accounts
        members = [
            (slot, hold)
            for slot, hold in known.serving()
            if slot.host.id == stats.host_id
        ]
        if accounts is None or not members:
            return
        for one in stats.clients:
            project = known.projects.get(one.client, known.group.project)
            if project == known.group.project:
                continue
            for slot, hold in members:
                cost_bytes = one.busy_s / len(members) * slot.bytes_per_s
                hold.paid_bytes += cost_bytes
                accounts.charge_other(project, cost_bytes)
