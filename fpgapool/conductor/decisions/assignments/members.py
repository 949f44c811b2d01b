# SPDX-License-Identifier: Apache-2.0

"""Slots of groups, from start to release."""

from __future__ import annotations

from collections.abc import Mapping

from oslo_log import log as logging

from fpgapool import objects
from fpgapool.conductor.decisions import pool as pools
from fpgapool.conductor.decisions import stored_enums
from fpgapool.conductor.decisions.assignments import agent_orders
from fpgapool.conductor.decisions.assignments import holds
from fpgapool.conductor.decisions.assignments import serving as servings
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.db import api as db_api
from fpgapool.vocabulary import codes

LOG = logging.getLogger(__name__)


class Members:
    """Carries out the core's instructions about slots of groups."""

    def __init__(self, pool: pools.Pool, serving: servings.Serving) -> None:
        self._pool = pool
        self._serving = serving

    @property
    def instructed(self) -> Mapping[type, pools.Handler]:
        """The handlers of the core's instructions about members' jobs."""
        return {
            instructions.Program: self._program,
            instructions.Grant: self._grant,
            instructions.Reject: self._reject,
            instructions.Requeue: self._requeue,
            instructions.Revoke: self._serving.revoke,
        }

    # -- instructions of the core ------------------------------------------

    def _program(self, order: instructions.Program) -> None:
        pool = self._pool
        slot = pool.registry.slots[order.slot_id]
        group = pool.groups.by_row[pool.assignment(slot.id).group_id]
        hold = self._hold(
            group,
            slot.id,
            pool.now,
            pool.catalogue.library.choose(group.accelerator, slot.shape),
        )
        hold.told_at = pool.now
        pool.save(hold)
        pool.outbox.send(agent_orders.assign(hold, pool.settings))

    def _hold(
        self,
        group: db_api.GroupRecord,
        slot_id: int,
        assigned_at: float,
        bitstream: objects.BitstreamRef | None,
    ) -> holds.Member:
        """Give a group the slot that the core has assigned to it."""
        pool = self._pool
        hold = pool.holds[slot_id] = holds.Member(
            group=group,
            slot=pool.registry.slots[slot_id],
            core=pool.assignment(slot_id),
            assigned_at=assigned_at,
            charged_at=assigned_at,
            bitstream=bitstream,
        )
        pool.stirred_groups.add(group.group_id)
        return hold

    def _grant(self, order: instructions.Grant) -> None:
        self._pool.save(self._pool.holds[order.slot_id])

    def _reject(self, order: instructions.Reject) -> None:
        self._lose(order.job_id, order.code, tells_agent=True)

    def _requeue(self, order: instructions.Requeue) -> None:
        # For other reasons the agent knows it, or is silent.
        self._lose(
            order.job_id,
            order.reason,
            tells_agent=order.reason in codes.ROOM_IS_MADE,
        )

    def _lose(self, job_id: int, reason: str, *, tells_agent: bool) -> None:
        """Forget the slot of a job, if it has one."""
        for hold in self._pool.members():
            record = hold.core.record
            if record is not None and record.job.id == job_id:
                LOG.info(
                    "Group %s loses slot %s: %s",
                    hold.public_id,
                    hold.slot,
                    reason,
                )
                if tells_agent:
                    self._pool.outbox.send(agent_orders.release(hold, reason))
                self._serving.forget(hold)
                return

    # -- reports of agents -------------------------------------------------

    def ready(self, hold: holds.Member, *, joined: bool) -> None:
        """Note that a slot is programmed.

        :param joined: whether it takes tasks already.
        """
        hold.prepared = True
        if hold.phase is model.Phase.PREPARING:
            event = events.HolderAttached if joined else events.SlotReady
            self._pool.tell(event(hold.slot.id, hold.generation))
            self._pool.save(hold)

    def tick(self) -> None:
        """Give back the slots of groups whose accelerator is gone.

        The core takes a slot that is not used yet from such a group without
        an instruction, since no job waits for another one.
        """
        pool = self._pool
        for hold in list(pool.members()):
            if pool.core.hold(hold.slot.id) is not hold.core:
                pool.outbox.send(agent_orders.release(hold, codes.RESIZED))
                self._serving.forget(hold)

    # -- a new leader ------------------------------------------------------

    def restore(
        self, group: db_api.GroupRecord, row: db_api.AssignmentRecord
    ) -> None:
        """Take over a slot of a group that has been restored."""
        pool = self._pool
        phase = stored_enums.read(model.Phase, row, "phase")
        slot = pool.registry.slots[row.slot_id]
        pool.tell(
            events.AssignmentRestored(
                job=model.Job(
                    # The core takes the ids of members' jobs from the same
                    # numbers as generations.
                    id=-row.generation,
                    host_id=None,
                    accelerator=group.accelerator,
                    claimed_bytes=1.0,
                    arrival_s=pool.pool_time,
                    project=group.project_id,
                    group_id=group.id,
                ),
                slot_id=slot.id,
                generation=row.generation,
                phase=phase or model.Phase.ACTIVE,
                host_id=slot.host.id,
                device_id=slot.device.id,
            )
        )
        hold = self._hold(
            group,
            slot.id,
            row.assigned_at,
            pool.catalogue.reference(row.bitstream_id),
        )
        hold.charged_at = max(
            row.assigned_at,
            pool.desk_accounts.charged_at(group.group_id, slot.host.id),
        )
