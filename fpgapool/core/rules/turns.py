# SPDX-License-Identifier: Apache-2.0

"""Projects that get slots after all others, or none."""

from collections import abc

from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import ordered
from fpgapool.core import view as pool_view
from fpgapool.core.queues import queued
from fpgapool.core.rules import admission
from fpgapool.core.rules import holders
from fpgapool.core.topology import slots
from fpgapool.vocabulary import codes


class Turns:
    """Changes the turns of projects, and takes slots back for others.

    Sessions keep their slots when the turn of their project changes. Groups,
    which have no end, give theirs back.
    """

    def __init__(
        self,
        view: pool_view.PoolView,
        queue: admission.Admission,
        slot_holders: holders.Holders,
        outcome: instructions.Outcome,
    ) -> None:
        self._view = view
        self._queue = queue
        self._holders = slot_holders
        self._outcome = outcome

    def on_changed(self, event: events.TurnChanged) -> None:
        """Set a project's turn."""
        accounts, project = self._view.accounts, event.project
        if accounts is None:
            return
        before = accounts.lane_of(project)
        accounts.set_turn(project, event.turn)
        lane = accounts.lane_of(project)
        if lane != before:
            self._queue.move(
                lambda record: (
                    record.job.project == project
                    and record.group is not None
                    and record.group.lane.project != lane
                )
            )
        if event.turn is not model.Turn.NORMAL:
            for hold in accounts.holds_of(project):
                if hold.group_id is not None:
                    self._holders.call_back(hold, codes.RESIZED)
        self._view.touch_idle()
        self._outcome.pass_due = True

    def may_serve_last(self) -> bool:
        """Return whether slots are left for projects whose turn is LAST."""
        view = self._view
        return (
            view.accounts is not None
            and bool(view.slots.idle_total)
            and any(
                turn is model.Turn.LAST
                and (project in view.jobs.lanes or project in view.jobs.urgent)
                for project, turn in view.accounts.turns.items()
            )
        )

    def challenger(
        self, hold: slots.Hold, spoken_for: abc.Set[model.JobId]
    ) -> model.JobId | None:
        """Return the job that takes a slot from a project served last.

        :param spoken_for: jobs that are promised a slot already.
        """
        slot, record = hold.slot, hold.record
        if slot is None or record is None or not self._is_last(record):
            return None
        keys = [
            key
            for group in self._in_need(slot)
            if (key := _first(group, spoken_for)) is not None
        ]
        return min(keys)[-1] if keys else None

    def call_back(self) -> slots.Hold | None:
        """Choose a slot of a group served last that others wait for.

        Only one at a time gives its slot back.
        """
        accounts = self._view.accounts
        if accounts is None or not self._view.jobs.count:
            return None
        held = [
            hold
            for project, turn in accounts.turns.items()
            if turn is model.Turn.LAST
            for hold in accounts.holds_of(project)
            if hold.group_id is not None
        ]
        if any(hold.revoked for hold in held):
            return None
        for hold in held:
            if hold.slot is not None and any(self._in_need(hold.slot)):
                return hold
        return None

    def _is_last(self, record: queued.JobRecord) -> bool:
        accounts = self._view.accounts
        return (
            accounts is not None
            and accounts.turns.get(record.job.project) is model.Turn.LAST
        )

    def _in_need(self, slot: slots.Slot) -> abc.Iterator[queued.JobGroup]:
        """Yield the jobs that fit this slot and no idle one."""
        view = self._view
        if not slot.up or slot.reserved_for is not None:
            return
        for lane in view.jobs.all_lanes():
            if view.is_lane_held(lane):
                continue
            for group in lane.groups_for(slot.shape):
                if (
                    group.count
                    and group.fits(slot.id, slot.shape)
                    and not view.has_idle(group)
                ):
                    yield group


def _first(
    group: queued.JobGroup, spoken_for: abc.Set[model.JobId]
) -> ordered.Key | None:
    """Return the key of the first job that is promised no slot."""
    for key in group.jobs:
        if key[-1] not in spoken_for:
            return key
    return None
