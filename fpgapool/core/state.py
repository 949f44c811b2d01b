# SPDX-License-Identifier: Apache-2.0

"""The pool's state: events in, instructions out.

The same events at the same times give the same instructions.

A step has two halves. First, :meth:`PoolState.apply` handles the events of one
instant: events of topology and completion, then arrivals, then cancellations.
Each kind of event has one handler, in a rule (see ``_all_handlers``). A
handler changes queues and topology, and appends instructions. If a waiting job
may get a slot because of the event, the handler sets ``Outcome.pass_due``. No
handler assigns a slot to a waiting job.

Then :meth:`PoolState.step` decides, in this order:

1. Holders leave if their deadlines have passed, their devices are being
   drained, or their slots are reserved for instances.
2. Groups get their new sizes: they queue jobs for slots that they lack, and
   members leave.
3. Jobs that have waited too long leave the queue.
4. One pass runs: reserved and promised slots first, then due sets, then the
   strategy, then slots that are reserved later, for jobs that end before. If
   sets are due, sessions that lost their slots come before them. Jobs that
   yielded their slots are queued again after it.
5. Holders leave if they exceeded their claims, reached a chunk border, or
   serve a group while a session waits. Only after the pass is it known which
   jobs still wait.
6. Further passes run as long as step 5 frees anything that a job can use.
7. A wake-up is requested for the next time at which steps 1 to 4 have
   something to do without an event.

A step whose events only changed phases does none of this, because nothing
follows from such events.

A slot is assigned from the pass that chose its job until its release is
reported; :mod:`fpgapool.core.rules.holders` describes the phases in between.
After a restart, the conductor rebuilds the state with these events:
``ClaimsRestored``, ``AssignmentRestored``, ``GroupRestored``,
``JobSubmitted``, and a ``HostUp`` for each host.
"""

import math
import operator
import typing
from collections import abc

from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import native
from fpgapool.core import ordered
from fpgapool.core import passes
from fpgapool.core import strategy as strategy_api
from fpgapool.core import view as pool_view
from fpgapool.core.queues import queued
from fpgapool.core.rules import admission
from fpgapool.core.rules import hardware
from fpgapool.core.rules import holders
from fpgapool.core.rules import members
from fpgapool.core.rules import owners
from fpgapool.core.rules import preemption
from fpgapool.core.rules import session_sets
from fpgapool.core.rules import settings
from fpgapool.core.rules import shunning
from fpgapool.core.rules import turns
from fpgapool.core.sizing import elasticity
from fpgapool.core.sizing import groups as group_sizes
from fpgapool.core.topology import slots
from fpgapool.vocabulary import codes

# The order of events within an instant.
_BATCH_ORDER = operator.attrgetter("batch_order")
_PHASE_MOVES = events.PHASE_MOVES


@native.mypyc_attr(allow_interpreted_subclasses=True)
class PoolState:
    """All hosts, slots, jobs and assignments, and the rules that change them.

    Only :meth:`apply` and :meth:`step` change it.

    :param strategy: chooses the job of each slot; it serves this pool only.
    :param first_generation: the generation of the first assignment; later ones
        have higher generations.
    :param groups: decides how many slots groups should have; None: as many as
        their owners want.
    :param wakeups: whether time alone causes passes: when a job has waited
        long enough for its own host, or when the strategy wants another pass.
    """

    def __init__(
        self,
        strategy: strategy_api.Strategy,
        *,
        first_generation: int = 1,
        groups: group_sizes.Groups | None = None,
        wakeups: bool = True,
    ) -> None:
        self._strategy = strategy
        self._view = pool_view.PoolView(strategy, first_generation)
        self._view.wakes = wakeups
        self._slots = self._view.slots
        self._jobs = self._view.jobs
        self._reservations = self._view.reservations
        self._outcome = instructions.Outcome()
        self._admission = admission.Admission(
            strategy, self._view, self._outcome
        )
        self._sizes = groups or group_sizes.Groups(elasticity.Fixed())
        self._sets = session_sets.SessionSets(
            self._view, self._admission, self._outcome
        )
        self._members = members.Members(
            self._view,
            self._admission,
            self._outcome,
            self._sizes,
            self._sets,
        )
        self._owners = owners.Owners(
            self._view, self._members, self._sizes, self._outcome
        )
        # Most pools have no sets; their steps should not do extra work.
        self._in_sets = self._sets.of_job
        self._holders = holders.Holders(
            self._view,
            self._admission,
            self._members,
            self._sets,
            self._outcome,
        )
        self._make_rules(strategy)
        self._deadlines = self._admission.deadlines
        self._overdrawn = self._holders.overdrawn
        self._wake_s = math.inf
        # When the strategy wants another pass.
        self._look_s = math.inf
        self._handlers = self._all_handlers()

    def _make_rules(self, strategy: strategy_api.Strategy) -> None:
        """Make the rules that take slots from holders, and those on top."""
        self._turns = turns.Turns(
            self._view, self._admission, self._holders, self._outcome
        )
        self._preemption = preemption.Preemption(
            strategy,
            self._view,
            self._holders,
            self._turns,
            self._sets.leading,
        )
        self._passes = passes.Passes(
            strategy,
            self._view,
            self._admission,
            self._members,
            self._sets,
            self._holders,
            self._turns,
            self._preemption,
            self._outcome,
        )
        self._settings = settings.Settings(
            self._view,
            self._admission,
            self._members,
            self._sets,
            self._outcome,
        )
        self._shunning = shunning.Shunning(self._view, self._admission)
        self._hardware = hardware.Hardware(
            self._view,
            self._admission,
            self._holders,
            self._members,
            self._shunning,
            self._outcome,
        )
        self._drains = self._hardware.drains

    # -- reading ---------------------------------------------------------

    @property
    def waiting_count(self) -> int:
        return len(self._jobs)

    @property
    def idle_count(self) -> int:
        return self._slots.idle_count(frozenset())

    @property
    def wants_rates(self) -> bool:
        """Whether the strategy uses :class:`.events.Progress`."""
        return self._view.loads is not None

    @property
    def view(self) -> pool_view.PoolView:
        """The pool as strategies see it; read only."""
        return self._view

    def assignments(self) -> abc.Mapping[model.SlotId, model.Assignment]:
        return {
            slot_id: hold.assignment()
            for slot_id, hold in self._slots.assignments.items()
        }

    def hold(self, slot_id: model.SlotId) -> slots.Hold | None:
        """Return a slot's assignment; read only.

        It stays up to date until the slot is released.
        """
        return self._slots.assignments.get(slot_id)

    def leaving(self, slot_id: model.SlotId) -> slots.Hold | None:
        """Return the holder that has a successor; None: there is none."""
        return self._holders.leaving.get(slot_id)

    def waiting(self) -> list[model.Job]:
        """Return the jobs without slots: the queue, then those of sets."""
        return list(self._jobs) + [
            record.job
            for record in map(self._jobs.records.get, self._in_sets)
            if record is not None
            and record.group is None
            and record.slot_id is None
        ]

    def skips(self, job_id: model.JobId) -> int:
        """Return how often slots of other hosts passed a job over.

        :raises KeyError: if the job is not known.
        """
        return self._jobs.records[job_id].skips

    def take_skips(self) -> abc.Mapping[model.JobId, int]:
        """Return the jobs passed over since the last call, with their skips.

        Counting starts with the first call, so it costs nothing if it is not
        used.
        """
        skipped, self._jobs.skipped = self._jobs.skipped, set()
        return {
            job_id: self.skips(job_id)
            for job_id in skipped or ()
            if job_id in self._jobs.records
        }

    def order_key(self, job: model.Job) -> ordered.Key:
        """Return a job's place in the strategy's order; see
        :meth:`.Preferences.key`.
        """
        return self._strategy.key(job)

    @property
    def sets(self) -> session_sets.SessionSets:
        """The sets of jobs that have not started."""
        return self._sets

    def queue_position(self, job_id: model.JobId) -> int:
        """Return the number of waiting jobs before this one.

        A job of a set has the place of its set.

        :raises KeyError: if the job does not wait.
        """
        record = self._jobs.records[job_id]
        one = self._sets.of_job.get(job_id)
        if one is not None and not one.is_starting:
            if one in self._sets.turns.waiting:
                return list(self._sets.turns.waiting).index(one)
            record = one.leader
            if record.group is None:
                return self._jobs.count
        if record.group is None:
            raise KeyError(job_id)
        return self._jobs.position(record)

    def status(self, job_id: model.JobId) -> model.Status:
        """Return whether a job has a slot, and if not, why."""
        record = self._jobs.records.get(job_id)
        if record is None:
            return model.Status(model.Verdict.NEVER, (codes.UNKNOWN_JOB,))
        one = self._sets.of_job.get(job_id)
        if one is not None and not one.is_starting:
            record = one.leader
            if record.group is None:
                return model.Status(model.Verdict.NOT_NOW, (codes.SET_WAITS,))
        if record.group is None:
            return model.Status(model.Verdict.OK)
        return model.Status(
            model.Verdict.NOT_NOW, self._reasons(record.job.id, record.group)
        )

    def _reasons(
        self, job_id: model.JobId, group: queued.JobGroup
    ) -> tuple[str, ...]:
        view = self._view
        job = self._jobs.records[job_id].job
        accelerator = view.accelerators[job.accelerator]
        withholds = self._reservations.withholds
        if not any(host.up for host in self._slots.hosts.values()):
            return (codes.NO_HOST_UP,)
        if not any(map(accelerator.fits, self._slots.known_shapes())):
            return (codes.NO_COMPATIBLE_SLOT,)
        if not self._slots.up_count(group.shapes):
            if withholds(job, idle=False):
                return (codes.SLOTS_RESERVED,)
            if self._slots.barred_count(slots.shown_shapes(accelerator)):
                return (codes.NO_ENABLED_SLOT,)
            return (codes.NO_HEALTHY_SLOT,)
        accounts = self._view.accounts
        if accounts is not None and accounts.is_passed(group.lane.project):
            return (codes.BUDGET_EXHAUSTED,)
        if self._view.is_held(group.lane.project):
            return (codes.PROJECT_SESSION_LIMIT,)
        if group.lane.is_full:
            return (codes.USER_SESSION_LIMIT,)
        if not self._view.has_idle(group):
            if withholds(job, idle=True):
                return (codes.SLOTS_RESERVED,)
            return (codes.NO_IDLE_SLOT,)
        if view.power.withholds(
            slot
            for slot in view.slots.idle_slots()
            if group.fits(slot.id, slot.shape)
        ):
            return (codes.POWER_CAP,)
        return self._strategy.reasons(self._view, job_id)

    def goal_progress(
        self, group_id: model.GroupId
    ) -> group_sizes.GoalProgress | None:
        """Return the progress of a group's goal; None: it has none."""
        return self._sizes.progress(group_id, self._view.now)

    # -- stepping --------------------------------------------------------

    def apply(
        self, batch: abc.Sequence[events.Event], now: float
    ) -> list[instructions.Instruction]:
        """Apply events of one instant, before :meth:`step` decides."""
        view, outcome, handlers = self._view, self._outcome, self._handlers
        if not now >= view.now:
            raise ValueError(f"time went backwards from {view.now} to {now}")
        view.now = now
        if view.accounts is not None:
            view.accounts.now_s = now
        outcome.output = []
        self._reservations.withheld.clear()
        if len(batch) > 1:
            batch = sorted(batch, key=_BATCH_ORDER)
        for event in batch:
            kind = type(event)
            if kind not in _PHASE_MOVES:
                outcome.is_quiet = False
            handlers[kind](event)
        return outcome.output

    def step(
        self, batch: abc.Sequence[events.Event], now: float
    ) -> list[instructions.Instruction]:
        """Apply the events of one instant and decide.

        :param now: the time in seconds; it must not be below that of an
            earlier step.
        :raises ValueError: if it is, or if an event contradicts the topology
            or the assignments.
        """
        self.apply(batch, now)
        jobs, outcome = self._jobs, self._outcome
        if outcome.is_quiet and now < self._wake_s:
            return outcome.output
        outcome.is_quiet = True
        if self._drains:
            self._hardware.drain(now)
        if self._deadlines.next_s <= now:
            self._holders.end_lost()
        if self._reservations.unsettled:
            self._settle_reservations()
        # Most pools have no groups; their steps should not do extra work.
        groups = None if self._members.is_idle else self._members
        if groups is not None:
            self._settle_groups()
        if jobs.quiet_until_s <= now:
            self._end_waits(now)
        if self._in_sets:
            self._sets.reject_orphans()
            if self._sets.next_s <= now:
                self._sets.reject_overdue(now)
        if outcome.pass_due or self._look_s <= now:
            self._run_pass()
        if self._holders.leaving:
            self._holders.keep_without_successor()
        if self._admission.yielding:
            self._admission.let_yielding_wait()
            if outcome.pass_due:
                self._run_pass()
        if self._overdrawn:
            self._holders.call_in_overdrawn()
        if self._preemption.borders:
            self._preemption.decide()
        if groups is not None:
            self._take_from_groups(groups)
        while outcome.pass_due or self._reservations.unsettled:
            # Since the pass, groups may have requested slots, or released
            # slots that reservations take first.
            if self._reservations.unsettled:
                self._settle_reservations()
            self._run_pass()
            self._settle_groups()
        if self._drains:
            # The last holders may have left in the meantime.
            self._hardware.drain(now)
        if self._wake_s <= now or self._is_wake_late(groups):
            self._set_wake()
        return outcome.output

    def _end_waits(self, now: float) -> None:
        """End the waits whose times have come."""
        jobs = self._jobs
        self._admission.reject_overdue(now)
        released = jobs.release_due(now)
        if (self._admission.hurry(now) or released) and self._view.wakes:
            self._outcome.pass_due = True
        jobs.update_quiet()

    def _take_from_groups(self, groups: members.Members) -> None:
        """Take a slot from a group, for jobs that the pass left waiting."""
        called = None
        if self._sets.turns.lacks:
            called = groups.call_back([self._sets.turns])
        elif self._jobs.count:
            called = groups.call_back()
        if called is None:
            called = self._turns.call_back()
        if called is not None:
            self._holders.call_back(called, codes.RESIZED)
        self._settle_groups()

    def _is_wake_late(self, groups: members.Members | None) -> bool:
        """Return whether something is due before the next wake-up."""
        wake_s, jobs = self._wake_s, self._jobs
        if jobs.quiet_until_s < wake_s and (
            self._view.wakes or jobs.limits.front
        ):
            return True
        if self._drains and self._hardware.next_drain_s < wake_s:
            return True
        return (
            self._look_s < wake_s
            or self._deadlines.next_s < wake_s
            or self._sets.next_s < wake_s
            or (groups is not None and groups.wake_s < wake_s)
        )

    def _run_pass(self) -> None:
        self._passes.run()
        self._look_s = self._next_look_s()
        self._jobs.look_s = math.inf

    def _next_look_s(self) -> float:
        if not self._view.wakes:
            return math.inf
        after_s = self._strategy.look_again_s(self._view)
        if after_s is None:
            return self._jobs.look_s
        if not self._jobs.count or not self._slots.idle_total:
            return math.inf
        return self._view.now + after_s

    def _set_wake(self) -> None:
        """Request a wake-up, unless one is due sooner."""
        if self._wake_s <= self._view.now:
            self._wake_s = math.inf
        due_s = min(
            self._jobs.next_due_s(with_patience=self._view.wakes),
            self._look_s,
            self._members.wake_s,
            self._hardware.next_drain_s,
            self._deadlines.next_s,
            self._sets.next_s,
        )
        if due_s < self._wake_s:
            self._wake_s = due_s
            self._outcome.output.append(instructions.WakeAt(due_s))

    def _settle_reservations(self) -> None:
        while self._reservations.unsettled:
            changes, leaving = self._reservations.settle()
            for slot_id, instance_id in changes:
                self._outcome.output.append(
                    instructions.Reserve(slot_id, instance_id)
                )
            for hold in leaving:
                self._holders.call_back(hold, codes.RESERVED)
        self._outcome.pass_due = True

    def _settle_groups(self) -> None:
        while self._members.is_due():
            for hold in self._members.settle():
                self._holders.call_back(hold, codes.RESIZED)

    def _on_wake(self, event: events.Wake) -> None:
        # Each step handles whatever is due. After an early wake-up, _set_wake
        # requests another one.
        self._wake_s = math.inf

    def _all_handlers(
        self,
    ) -> dict[type, abc.Callable[[typing.Any], None]]:
        return {
            events.AcceleratorsChanged: self._settings.on_accelerators,
            events.SessionLimitsChanged: self._settings.on_session_limits,
            events.PowerCapsChanged: self._settings.on_power_caps,
            events.ShareTreeChanged: self._settings.on_share_tree,
            events.TurnChanged: self._turns.on_changed,
            events.HostUp: self._hardware.on_host_up,
            events.HostLost: self._hardware.on_host_lost,
            events.DeviceFailed: self._hardware.on_device_marked,
            events.DeviceRestored: self._hardware.on_device_marked,
            events.DeviceEnabled: self._hardware.on_device_set,
            events.DeviceDisabled: self._hardware.on_device_set,
            events.DrainRequested: self._hardware.on_drain_requested,
            events.ReservableSlotsChanged: self._settings.on_reservable,
            events.ReservationsChanged: self._reservations.set_wanted,
            events.CalendarChanged: self._settings.on_calendar,
            events.SlotFaulty: self._hardware.on_slot_marked,
            events.SlotRestored: self._hardware.on_slot_marked,
            events.TestRequested: self._holders.on_test_requested,
            events.AcceleratorFaulty: self._shunning.on_faulty,
            events.AcceleratorRestored: self._shunning.on_restored,
            events.AssignmentRestored: self._holders.on_restored,
            events.SlotReady: self._holders.on_moved,
            events.HolderAttached: self._holders.on_moved,
            events.HolderDetached: self._holders.on_moved,
            events.Progress: self._holders.on_progress,
            events.QuantumDone: self._preemption.on_quantum_done,
            events.JobProgress: self._preemption.on_job_progress,
            events.ClaimExceeded: self._holders.on_claim_exceeded,
            events.SlotReleased: self._holders.on_released,
            events.HolderLeaves: self._holders.on_leaves,
            events.HolderStays: self._holders.on_stays,
            events.PrepareFailed: self._holders.on_prepare_failed,
            events.GroupCreated: self._owners.on_created,
            events.GroupRestored: self._owners.on_restored,
            events.GroupChanged: self._owners.on_changed,
            events.GoalChanged: self._owners.on_goal,
            events.GroupDeleted: self._owners.on_deleted,
            events.GroupClientsChanged: self._owners.on_clients,
            events.TaskStats: self._owners.on_stats,
            events.JobCancelled: self._holders.on_cancelled,
            events.ClaimsRestored: self._admission.on_claims_restored,
            events.JobSubmitted: self._admission.on_submitted,
            events.JobMoved: self._holders.on_job_moved,
            events.Wake: self._on_wake,
        }
