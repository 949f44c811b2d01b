# SPDX-License-Identifier: Apache-2.0

"""Handles events that change the library, limits, shares and promises."""

from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import view as pool_view
from fpgapool.core.rules import admission
from fpgapool.core.rules import members
from fpgapool.core.rules import session_sets


class Settings:
    """What operators and the library set for all jobs."""

    def __init__(
        self,
        view: pool_view.PoolView,
        queue: admission.Admission,
        group_members: members.Members,
        sets: session_sets.SessionSets,
        outcome: instructions.Outcome,
    ) -> None:
        self._view = view
        self._queue = queue
        self._members = group_members
        self._sets = sets
        self._outcome = outcome

    def on_accelerators(self, event: events.AcceleratorsChanged) -> None:
        """Take in another library."""
        old = self._view.accelerators
        new = {
            accelerator.name: accelerator for accelerator in event.accelerators
        }
        self._view.accelerators = new
        self._view.library_changed()
        self._view.reservations.library_changed()
        self._members.touch()
        changed = {
            name
            for name, accelerator in old.items()
            if name not in new
            or self._view.shapes_for(new[name])
            != self._view.shapes_for(accelerator)
        }
        if changed:
            self._queue.move(lambda record: record.job.accelerator in changed)
        if self._sets.turns.waiting:
            self._outcome.pass_due = True

    def on_session_limits(self, event: events.SessionLimitsChanged) -> None:
        """Set the limits and priorities of projects."""
        accounts = self._view.accounts
        if accounts is None:
            return
        accounts.set_limits(event.default, event.of_projects)
        accounts.set_priorities(event.default_priority, event.priorities)
        apart = accounts.set_user_rules(event.default_users, event.of_users)
        self._queue.move(
            lambda record: (
                record.group is not None
                and record.group.lane.project
                != accounts.lane_of(record.job.project)
            )
        )
        if apart:
            self._queue.move_at_once(
                lambda record: (
                    record.group is not None
                    and record.group.lane.users
                    is not accounts.users_of(record.job.project)
                )
            )
        self._view.touch_idle()
        self._outcome.pass_due = True

    def on_share_tree(self, event: events.ShareTreeChanged) -> None:
        """Set where projects are in the tree of shares."""
        if self._view.accounts is not None:
            self._view.accounts.set_tree(event.places)

    def on_power_caps(self, event: events.PowerCapsChanged) -> None:
        """Set the caps on the power of slots."""
        self._view.power.set_caps(event.caps)
        self._view.touch_idle()
        self._outcome.pass_due = True

    def on_reservable(self, event: events.ReservableSlotsChanged) -> None:
        """Set how many slots of a board may be reserved."""
        self._view.reservations.set_reservable(event.device_id, event.count)
        self._queue.see_shapes()

    def on_calendar(self, event: events.CalendarChanged) -> None:
        """Set the slots that are reserved by calendar."""
        self._view.reservations.set_promised(event)
        self._queue.see_shapes()
