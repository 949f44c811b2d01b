# SPDX-License-Identifier: Apache-2.0

"""The pool as a scheduling strategy sees it during a pass."""

import math
from collections import abc

from fpgapool.core import model
from fpgapool.core import native
from fpgapool.core import preferences
from fpgapool.core.queues import applications
from fpgapool.core.queues import kinds
from fpgapool.core.queues import queued
from fpgapool.core.queues import sharing
from fpgapool.core.queues import waiting
from fpgapool.core.topology import boards
from fpgapool.core.topology import loads as pipe_loads
from fpgapool.core.topology import power as pool_power
from fpgapool.core.topology import reservations
from fpgapool.core.topology import slot_table
from fpgapool.core.topology import slots

_PREPARING = model.Phase.PREPARING

# No slot has this shape.
_NO_SHAPE = frozenset({"\0\0"})


@native.mypyc_attr(allow_interpreted_subclasses=True)
class PoolView:
    """Waiting jobs and idle slots, and the only way to assign slots.

    Strategies read it and call :meth:`take` and :meth:`skip`. All other
    changes happen between passes.

    :ivar accounts: how projects share the pool; None: the strategy does not
        share it.
    :ivar touched: hosts with a new idle slot or waiting job since the last
        pass. On other hosts, no job has become able to use a local slot.
    :ivar kinds: the waiting jobs by kind; None: the strategy has no index of
        them.
    :ivar boards: the boards with idle slots as vectors; None: the strategy
        does not estimate rates.
    :ivar wakes: whether a pass follows when the strategy wants one without an
        event.
    :ivar changes: how often the usable slots of a host have changed.
    :ivar reservations: reservations of slots for instances. To strategies, a
        reserved slot is not up.
    """

    def __init__(
        self, strategy: preferences.Preferences, first_generation: int
    ) -> None:
        self.loads: pipe_loads.Loads | None = None
        self.kinds: kinds.Kinds | None = None
        self.boards: boards.Boards | None = None
        loads = pipe_loads.Loads()
        if strategy.wants_rates:
            self.loads = loads
            self.boards = boards.Boards(loads)
        if strategy.wants_rates or strategy.wants_kinds:
            self.kinds = strategy.make_kinds(loads)
        self.slots = slot_table.SlotTable(strategy, self.boards)
        self.accounts: sharing.Accounts | None = None
        if strategy.shares is not None:
            self.accounts = sharing.Accounts(strategy.shares)
        make_jobs = waiting.WaitingJobs
        if strategy.wants_affinity:
            make_jobs = applications.AffineJobs
        self.jobs = make_jobs(
            strategy, self.is_home, self.kinds, self.accounts
        )
        self.power = pool_power.Power(self.slots)
        self.accelerators: dict[str, model.Accelerator] = {}
        self.reservations = reservations.Reservations(
            self, self.slots, self.jobs
        )
        # Whether slots are kept for reservations, and the shapes known at that
        # time.
        self._keeps = False
        self._known_shapes: model.Shapes = frozenset()
        self.touched: set[model.HostId] = set()
        self.wakes: bool = True
        self.changes = 0
        self.now = -math.inf
        self.next_generation = first_generation

    # -- for strategies --------------------------------------------------

    @property
    def waiting_count(self) -> int:
        return self.jobs.shown.count

    @property
    def arrived(self) -> abc.Mapping[model.JobId, queued.JobRecord]:
        """The shown jobs that were submitted with this event, by id."""
        return self.jobs.shown.arrived

    def record(self, job_id: model.JobId) -> queued.JobRecord:
        return self.jobs.records[job_id]

    def take(
        self, job_id: model.JobId, slot_id: model.SlotId
    ) -> preferences.Choice:
        """Give an idle slot to a waiting job, at once."""
        record = self.jobs.records[job_id]
        slot = self.slots.slots[slot_id]
        if record.group is None or not self.slots.is_idle(slot_id):
            raise ValueError(
                f"job {job_id} cannot take slot {slot_id}: the job is not "
                "waiting, or the slot is not idle"
            )
        return self.give(record, slot)

    def give(
        self,
        record: queued.JobRecord,
        slot: slots.Slot,
        *,
        in_turn: bool = True,
    ) -> preferences.Choice:
        """Like :meth:`take`, without checking that both are free.

        :param in_turn: whether the slot is given in the projects' rounds.
        """
        job, slot_id = record.job, slot.id
        generation = self.next_generation
        self.next_generation = generation + 1
        hold = slots.Hold(
            slot_id,
            record,
            job.accelerator,
            generation,
            _PREPARING,
            job.is_local_to(slot.host.id),
            self.now,
            slot,
            record.paid_bytes or 0.0,
        )
        self.charge_claim(record, hold, in_turn and not record.urgent)
        if record.group is not None:
            self.jobs.grant(record, self.now)
        record.slot_id = slot_id
        self.slots.hold(hold)
        if self.loads is not None:
            self.put_flow(job, slot)
        return preferences.Choice(job.id, slot_id)

    def skip(self, job_id: model.JobId) -> None:
        """Record that a slot of another host passed over a homed job."""
        self.jobs.skip(self.jobs.records[job_id])

    def fitting_idle(
        self, group: queued.JobGroup, host: slots.Host
    ) -> list[slots.Slot]:
        """Return a host's idle slots that fit a group's jobs, lowest first."""
        shapes, avoiding = group.shapes, group.avoiding
        return [
            slot
            for slot in host.idle
            if (not shapes or slot.shape in shapes) and slot.id not in avoiding
        ]

    def has_idle(self, group: queued.JobGroup) -> bool:
        """Return whether an idle slot fits a group's jobs."""
        count = self.slots.idle_count(group.shapes)
        if count and group.avoiding:
            count -= sum(
                self.slots.is_idle(slot_id)
                and group.fits_shape(self.slots.slots[slot_id].shape)
                for slot_id in group.avoiding
            )
        return count > 0

    def is_held(self, project: str | None) -> bool:
        """Return whether a project may get no slot: it has reached its limit,
        or it is not its turn.
        """
        return self.accounts is not None and self.accounts.is_full(project)

    def is_lane_held(self, lane: queued.Lane) -> bool:
        """Return whether the jobs of a lane may get no slot, because of their
        project or user.
        """
        return lane.is_full or self.is_held(lane.project)

    def may_follow(self, lane: queued.Lane, job: model.Job) -> bool:
        """Return whether the jobs of a lane may get the slot that a job gives
        back.
        """
        is_own = lane.project == job.project
        return (is_own or not self.is_held(lane.project)) and (
            not lane.is_full or (is_own and lane.user == job.user)
        )

    def is_job_held(self, job: model.Job) -> bool:
        """Return whether a job may get no slot, because of its project or
        user.
        """
        accounts = self.accounts
        if accounts is None:
            return False
        project = job.project
        return accounts.is_full(project) or (
            bool(accounts.users) and accounts.is_user_full(project, job.user)
        )

    # -- for the pool ----------------------------------------------------

    def take_generation(self) -> int:
        """Return the generation of a new assignment."""
        self.next_generation += 1
        return self.next_generation - 1

    def charge_claim(
        self, record: queued.JobRecord, hold: slots.Hold, in_round: bool
    ) -> None:
        """Add a slot to a project's account, and charge the job's claim."""
        if self.accounts is None:
            return
        job, claimed_bytes = record.job, 0.0
        if record.paid_bytes is None:
            claimed_bytes = hold.paid_bytes = job.claimed_bytes
        self.accounts.give(job.project, hold, claimed_bytes, in_round=in_round)

    def take_back(self, record: queued.JobRecord, hold: slots.Hold) -> None:
        """Remove a slot from a project's account."""
        if self.accounts is None:
            return
        project = record.job.project
        was_held = self.is_job_held(record.job)
        self.accounts.take_back(project, hold)
        record.paid_bytes = hold.paid_bytes
        if was_held:
            self.touch_idle()

    def touch_idle(self) -> None:
        """Make the next pass consider all idle slots."""
        self.touched.update(self.slots.idle_hosts)
        self.reservations.stir_all()

    def enqueue(self, record: queued.JobRecord) -> bool:
        """Queue a job.

        :returns: False if its accelerator is unknown; nothing changes then.
        """
        accelerator = self.accelerators.get(record.job.accelerator)
        if accelerator is None:
            return False
        record.slot_id = None
        group, is_new = self.jobs.group_for(
            record, self.shapes_for(accelerator), self.now
        )
        if is_new and group.avoided:
            self.jobs.avoiding[group] = None
            group.avoiding = self._avoiding(group)
        self.jobs.add(record, group, self.now)
        if record.job.host_id is not None:
            self.touched.add(record.job.host_id)
        return True

    def best_peak_bytes_per_s(self, accelerator: model.Accelerator) -> float:
        """Return an accelerator's highest input rate in slots of the pool."""
        return max(
            (
                accelerator.peak_in(shape)
                for shape in self.slots.known_shapes()
                if accelerator.fits(shape)
            ),
            default=accelerator.peak_bytes_per_s,
        )

    def least_programming_s(self, accelerator: model.Accelerator) -> float:
        """Return how long a slot must at least be programmed for a new job.

        It is 0 if a slot, idle or not, has the accelerator or is getting it.
        """
        name, least_s = accelerator.name, math.inf
        for slot in self.slots.slots.values():
            if accelerator.fits(slot.spec.shape):
                if slot.starts_at_once(name):
                    return 0.0
                least_s = min(least_s, slot.spec.programming_time_s)
        for hold in self.slots.assignments.values():
            if hold.accelerator == name:
                return 0.0
        return least_s if least_s < math.inf else 0.0

    def contender(
        self, record: queued.JobRecord, attach_s: float = 0.0
    ) -> preferences.Contender:
        """Describe a job; one chunk is one second in the fastest slot.

        :param attach_s: the time until the slot can start computing.
        """
        job = record.job
        left_bytes = max(job.claimed_bytes - record.done_bytes, 0.0)
        left_s = left_bytes / self.best_peak_bytes_per_s(
            self.accelerators[job.accelerator]
        )
        return preferences.Contender(job, left_s, left_s, attach_s=attach_s)

    def is_stateless(self, name: str) -> bool:
        """Return whether an accelerator's sessions can change slots."""
        accelerator = self.accelerators.get(name)
        return accelerator is not None and accelerator.stateless

    def shapes_for(self, accelerator: model.Accelerator) -> model.Shapes:
        """Return the slot shapes that an accelerator's jobs may have."""
        shapes = accelerator.shapes
        if not self._keeps:
            return shapes
        if accelerator.stateless:
            return slots.shown_shapes(accelerator)
        return shapes or self._known_shapes or _NO_SHAPE

    def update_shapes(self) -> bool:
        """Update whether slots are kept, and the known shapes.

        :returns: whether either has changed, so that jobs may need other
            groups.
        """
        reservations = self.reservations
        keeps = bool(reservations.reservable or reservations.promises.until_s)
        known = self.slots.known_shapes() if keeps else frozenset[str]()
        changed = (keeps, known) != (self._keeps, self._known_shapes)
        self._keeps, self._known_shapes = keeps, known
        return changed

    def is_home(self, group: queued.JobGroup, host_id: model.HostId) -> bool:
        """Return whether a host has a usable slot for a group's jobs."""
        host = self.slots.hosts.get(host_id)
        if host is None:
            return False
        if group.avoiding:
            return any(
                slot.up and group.fits(slot.id, slot.shape)
                for slot in host.slots
            )
        for shape, count in host.up_shapes.items():
            if count > 0 and group.fits_shape(shape):
                return True
        return False

    def put_flow(self, job: model.Job, slot: slots.Slot) -> None:
        """Set the pipes that the holder of a slot uses."""
        if self.loads is not None:
            accelerator = self.accelerators.get(job.accelerator)
            self.loads.put(
                job,
                slot.spec,
                0.0 if accelerator is None else accelerator.return_ratio,
            )

    def drop_flow(self, slot_id: model.SlotId) -> None:
        if self.loads is not None:
            self.loads.drop(slot_id)

    def library_changed(self) -> None:
        if self.kinds is not None:
            self.kinds.set_library(self.accelerators)

    def topology_changed(self, host_id: model.HostId) -> None:
        """Update the queues after a host's slots changed."""
        self.changes += 1
        self.touched.add(host_id)
        for group in list(self.jobs.avoiding):
            self._reconsider(group)
        # Only these: there may be many projects and hosts, each with groups.
        for group in list(self.jobs.of_hosts.get(host_id, ())):
            self.jobs.rehome(group, host_id, self.now)

    def _reconsider(self, group: queued.JobGroup) -> None:
        avoiding = self._avoiding(group)
        if avoiding == group.avoiding:
            return
        group.avoiding = avoiding
        self.reservations.stir_all()
        for host_id in list(group.by_host):
            self.touched.add(host_id)
            self.jobs.rehome(group, host_id, self.now)

    def _avoiding(self, group: queued.JobGroup) -> frozenset[model.SlotId]:
        """Return the slots to avoid; none if no other usable slot fits."""
        avoided_up = sum(
            slot.up and group.fits_shape(slot.shape)
            for slot in map(self.slots.slots.get, group.avoided)
            if slot is not None
        )
        if self.slots.up_count(group.shapes) > avoided_up:
            return group.avoided
        return frozenset()
