# SPDX-License-Identifier: Apache-2.0

"""Sets of sessions, which get their slots all at once.

The jobs of a set are submitted one by one. When all are known, the set waits
with one of them in the queue, its *leader*, like any session: the
strategy, shares, limits and priorities decide when it is its turn. When the
strategy gives the leader a slot, the set takes its turn instead and becomes
*due*. In each pass, before the strategy, the due sets come in the order of
their turns: a set that finds slots for all its jobs gets them. Slots are
withheld from everybody else for the first set that does not find enough of
them, and for others only if their accelerators fit no slot that it could have.
While a set would exceed its project's limit, the project's other jobs wait.
A set takes no slot before it has all of them, so no two sets wait for each
other. The first one is complete as soon as the holders of the slots that it
needs have left.

A set that has all its slots is *starting* until all of them are ready; only
then are they granted. If one is lost before, the set gives all of them back
and is due again, before the others. Afterwards each session is on its own.
"""

import collections
import contextlib
import dataclasses
import math
import operator
from collections import abc

from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import ordered
from fpgapool.core import preferences
from fpgapool.core import view as pool_view
from fpgapool.core.calendar import promises
from fpgapool.core.queues import queued
from fpgapool.core.rules import admission
from fpgapool.core.topology import seats
from fpgapool.core.topology import slots
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states

#: Time within which all jobs of a set must be submitted.
GATHER_S = 30.0

# How many due sets a pass considers.
_LOOKED_AT = 8
# Maximum number of cached answers to what could hold a set.
_MOST_KEPT = 1000
_NAME = operator.attrgetter("accelerator")
_ORDER = operator.itemgetter(1)


class SessionSet:
    """The jobs of a set whose slots have not been granted.

    :ivar records: its jobs; the first is the leader.
    :ivar key: its project and name.
    :ivar number: the id of the job that was submitted first.
    :ivar limit_s: when it is rejected if it has not its slots.
    :ivar waits_until_s: the first end of a ``wait_timeout_s`` of its jobs.
    :ivar area: the board or host for which it collected last.
    :ivar able: the areas whose usable slots could hold it.
    :ivar ready: those of its slots that are ready.
    :ivar lacking: how many of its jobs have not been submitted.
    """

    def __init__(self, first: model.Job, together: model.Together) -> None:
        self.together = together
        self.key = first.project, together.set_id
        self.number = first.id
        self.records: list[queued.JobRecord] = []
        # As they were submitted.
        self.jobs: dict[model.JobId, model.Job] = {}
        self.limit_s = self.waits_until_s = math.inf
        self.area: int | None = None
        self.able: abc.Collection[int] = ()
        self.ready: set[model.SlotId] = set()
        self.lacking = together.size

    @property
    def leader(self) -> queued.JobRecord:
        """The job that waits in the queue until it is the set's turn."""
        return self.records[0]

    @property
    def is_starting(self) -> bool:
        """Whether it has its slots."""
        return self.leader.slot_id is not None


class SessionSets:
    """All sets that have not started.

    :ivar of_job: the set of each job.
    :ivar leading: the sets whose leaders are in the queue, by leader.
    :ivar due: the sets whose turn has come, in that order; a dict as an
        ordered set.
    :ivar next_s: when the first set is rejected; infinite if none is.
    :ivar to_come: by project, how many jobs of its sets have not been
        submitted.
    """

    def __init__(
        self,
        view: pool_view.PoolView,
        queue: admission.Admission,
        outcome: instructions.Outcome,
    ) -> None:
        self._view = view
        self._queue = queue
        self._outcome = outcome
        queue.gather = self.gather
        self.of_job: dict[model.JobId, SessionSet] = {}
        self.leading: dict[model.JobId, SessionSet] = {}
        self.due: dict[SessionSet, None] = {}
        self.next_s = math.inf
        self.to_come = collections.Counter[str]()
        self._limits = ordered.Timers()
        self._of_key: dict[tuple[str, str], SessionSet] = {}
        self._of_number: dict[model.JobId, SessionSet] = {}
        self._gathering: dict[tuple[str, str], SessionSet] = {}
        self._withheld: list[slots.Slot] = []
        # Sets that were due and incomplete in the last pass.
        self._lacking: list[SessionSet] = []
        # The areas that could hold what sets need, until the topology changes.
        self._able: dict[tuple[object, ...], set[int]] = {}
        self._seen_change = -1

    # -- coming and going --------------------------------------------------

    def find(self, project: str, set_id: str) -> SessionSet | None:
        """Return a set that has not started."""
        return self._of_key.get((project, set_id))

    def clash(self, project: str, together: model.Together) -> str | None:
        """Return why a set can have no further job; None: it can."""
        one = self.find(project, together.set_id)
        if one is None:
            return None
        if one.together != together:
            return (
                f"the other sessions of set {together.set_id} say that it has"
                f" {_described(one.together)}, not {_described(together)}"
            )
        if not one.lacking:
            return (
                f"set {together.set_id} has all its {together.size} sessions"
                " already"
            )
        return None

    def gather(self, record: queued.JobRecord, *, is_known: bool) -> None:
        """Add a new job to its set; queue the set's leader with the last one.

        :param is_known: see :class:`fpgapool.core.events.JobSubmitted`.
        """
        job, together = record.job, record.job.together
        assert together is not None
        refused = self._queue.refusal(job)
        clash = self.clash(job.project, together)
        if refused is None and clash is not None:
            refused = codes.INVALID_SET, clash
        if refused is not None:
            self._queue.reject(job.id, *refused)
            return
        one = self._join(record, together)
        if job.wait_timeout_s is not None:
            limit_s = job.arrival_s + job.wait_timeout_s
            one.waits_until_s = min(one.waits_until_s, limit_s)
        # The set has its own timer. It gets no reserved slots, and its
        # sessions have no deadlines before they start.
        record.job = dataclasses.replace(
            job, instance_id=None, wait_timeout_s=None, deadline_s=None
        )
        if not one.lacking:
            self._complete(one, is_known=is_known)

    def restore(
        self, record: queued.JobRecord, together: model.Together
    ) -> None:
        """Add a job with a slot to its set, which an earlier leader started.

        The others follow in the same step.
        """
        one = self._join(record, together)
        if not one.lacking:
            del self._gathering[one.key]
            self._limit_to(one, math.inf)

    def _join(
        self, record: queued.JobRecord, together: model.Together
    ) -> SessionSet:
        """Add a job to its set, which may be new."""
        job = record.job
        one = self.find(job.project, together.set_id)
        if one is None:
            one = SessionSet(job, together)
            self._of_key[one.key] = self._gathering[one.key] = one
            self._of_number[one.number] = one
            self._limit_to(one, self._view.now + GATHER_S)
            self.to_come[job.project] += together.size
        one.records.append(record)
        one.jobs[job.id] = job
        self.of_job[job.id] = one
        one.lacking -= 1
        self._expect(one, -1)
        return one

    def _expect(self, one: SessionSet, change: int) -> None:
        """Count more jobs of a set as to come, or fewer."""
        project, _ = one.key
        self.to_come[project] += change
        if not self.to_come[project]:
            del self.to_come[project]

    def _complete(self, one: SessionSet, *, is_known: bool) -> None:
        """Queue the leader of a set whose jobs are all known."""
        del self._gathering[one.key]
        self._limit_to(one, one.waits_until_s)
        reason = None if is_known else self._impossible(one)
        if reason is not None:
            self._reject(one, codes.SET_IMPOSSIBLE, reason)
            return
        self.leading[one.leader.job.id] = one
        if self._queue.enqueue(one.leader):
            self._view.jobs.note_arrival(one.leader)

    def _impossible(self, one: SessionSet) -> str | None:
        """Return why a set can never have all its slots."""
        reason = self._above_limit(one)
        if reason is not None or self._areas(one, is_up=False):
            return reason
        where = {
            states.SAME_BOARD: "no board",
            states.SAME_HOST: "no host",
            states.SPREAD: "no choice of boards, one for each session,",
        }.get(one.together.placement or "", "the pool never")
        count = len(one.records)
        return f"{where} has slots that fit all {count} sessions of the set"

    def _above_limit(self, one: SessionSet) -> str | None:
        """Return why it may not have so many slots; None: it may."""
        count, limit = len(one.records), self._limit(one)
        if limit is not None and count > limit:
            return f"the project may have {limit} slots, the set needs {count}"
        limit = self._user_limit(one)
        for user, own in self._of_users(one).items():
            if limit is not None and own > limit:
                return (
                    f"each user of the project may have {limit} slots, the set"
                    f" needs {own} for user {user}"
                )
        return None

    def _limit(self, one: SessionSet) -> int | None:
        """Return how many slots a set's project may have; None: no limit."""
        accounts = self._view.accounts
        return None if accounts is None else accounts.limit_of(one.key[0])

    def _user_limit(self, one: SessionSet) -> int | None:
        """Return how many slots each user may have; None: no limit."""
        accounts = self._view.accounts
        return (
            None if accounts is None else accounts.user_rule(one.key[0]).slots
        )

    def _of_users(self, one: SessionSet) -> collections.Counter[str]:
        """Return how many sessions of a set each user has."""
        return collections.Counter(
            record.job.user for record in one.records if record.job.user
        )

    def _limit_to(self, one: SessionSet, limit_s: float) -> None:
        """Set when a set is rejected; infinite: never."""
        if one.limit_s < math.inf:
            self._limits.remove(one.limit_s, one.number)
        one.limit_s = limit_s
        if limit_s < math.inf:
            self._limits.add(limit_s, one.number)
        self.next_s = self._limits.first_s()

    def withdraw(self, one: SessionSet) -> None:
        """Take a set that waits out of the queue."""
        for record in one.records:
            if record.group is not None:
                self._queue.withdraw(record)
            self._queue.forget(record.job.id)
        self.let_go(one)

    def started(self, one: SessionSet) -> None:
        """Forget a set whose slots are all ready: its jobs are single ones."""
        for record in one.records:
            record.job = dataclasses.replace(
                one.jobs[record.job.id],
                host_id=record.job.host_id,
                together=None,
            )
        self.let_go(one)

    def let_go(self, one: SessionSet) -> None:
        """Forget a set, whose sessions have started or are no longer."""
        for record in one.records:
            self.of_job.pop(record.job.id, None)
        self.leading.pop(one.number, None)
        self._of_number.pop(one.number, None)
        self._limit_to(one, math.inf)
        if self._of_key.get(one.key) is one:
            del self._of_key[one.key]
        if self._gathering.get(one.key) is one:
            del self._gathering[one.key]
            self._expect(one, -one.lacking)
        if one in self.due:
            del self.due[one]
            self._free_for_others(one)

    def _free_for_others(self, one: SessionSet) -> None:
        """Let the next pass give others what was withheld for a set."""
        view = self._view
        if one in self._lacking:
            self._lacking.remove(one)
        view.touched.update([slot.host.id for slot in self._withheld])
        if (
            not self.due
            and view.accounts is not None
            and view.accounts.hold_back(set(), {})
        ):
            view.touch_idle()
        self._outcome.pass_due = True

    def reject_overdue(self, now: float) -> None:
        """Reject the sets whose ``wait_timeout_s`` has expired."""
        overdue = self._limits.take_due(now)
        self.next_s = self._limits.first_s()
        for number in overdue:
            one = self._of_number[number]
            one.limit_s = math.inf
            if one.waits_until_s <= now:
                self._reject(
                    one,
                    codes.WAIT_TIMEOUT,
                    "not enough slots became free in time",
                )
            else:
                self._reject(
                    one,
                    codes.SET_INCOMPLETE,
                    f"only {len(one.records)} of its {one.together.size}"
                    f" sessions were opened within {GATHER_S:g} s",
                )

    def cancel(self, one: SessionSet, job_id: model.JobId) -> None:
        """Reject the other jobs of a set that waits, after one has left."""
        others = [r.job.id for r in one.records if r.job.id != job_id]
        self.withdraw(one)
        for other in others:
            self.reject_other(other)

    def reject_other(self, job_id: model.JobId) -> None:
        """Reject a job because another one of its set has left."""
        self._queue.reject(
            job_id,
            codes.SET_INCOMPLETE,
            "another session of its set ended before all had started",
        )

    def _reject(self, one: SessionSet, code: str, message: str) -> None:
        jobs = [record.job for record in one.records]
        self.withdraw(one)
        for job in jobs:
            self._queue.reject(job.id, code, message)

    def reject_orphans(self) -> None:
        """Reject the sets of which a job has been rejected in this step."""
        known = self._view.jobs.records
        for order in list(self._outcome.output):
            if isinstance(order, instructions.Reject):
                one = self.of_job.pop(order.job_id, None)
                if one is not None:
                    one.records = [
                        record
                        for record in one.records
                        if record.job.id in known
                    ]
                    self._reject(one, order.code, order.message)

    # -- turns -------------------------------------------------------------

    def take_turn(self, record: queued.JobRecord) -> None:
        """Make a set due, whose leader has given its slot back."""
        record.slot_id = None
        self.due[self.leading.pop(record.job.id)] = None

    def wait_again(self, one: SessionSet) -> None:
        """Make a set due that has given its slots back before it started."""
        for record in one.records:
            record.slot_id = None
        one.ready.clear()
        self.due = {one: None, **self.due}
        if one.waits_until_s < math.inf:
            self._limit_to(one, max(one.waits_until_s, self._view.now))
        self._outcome.pass_due = True

    def start_due(
        self, leaving: abc.Container[model.SlotId]
    ) -> abc.Iterator[preferences.Choice]:
        """Give slots to the due sets that find enough; withhold others.

        :param leaving: the slots whose holders leave soon. They may be
            withheld, so that nobody follows these holders.
        """
        view = self._view
        view.touched.update([slot.host.id for slot in self._withheld])
        self._withheld, self._lacking = [], []
        taken: set[model.SlotId] = set()
        full: set[str] = set()
        full_users: dict[str, set[str]] = {}
        for one in self._looked_at():
            if self._is_void(one):
                continue
            if not self._has_room(one):
                full.add(one.key[0])
                continue
            users = self._without_room(one)
            if users:
                full_users.setdefault(one.key[0], set()).update(users)
                continue
            chosen = self._choose(one, taken)
            found = [slot for slot in chosen if slot is not None]
            if len(found) == len(one.records) and not any(
                slot.id in leaving for slot in found
            ):
                if view.power.allows_all(found):
                    yield from self._start(one, found)
                    continue
                # Any slot that others get may draw the power that is missing.
                found = [
                    slot
                    for slot in view.slots.idle_slots()
                    if slot.id not in taken
                ]
            if one.able and not any(
                self._compete(one, other) for other in self._lacking
            ):
                # Others get no reserved slots anyway.
                found = [slot for slot in found if slot.reserved_for is None]
                taken.update([slot.id for slot in found])
                self._withheld += found
                self._lacking.append(one)
        if view.accounts is not None and view.accounts.hold_back(
            full, full_users
        ):
            view.touch_idle()

    def _looked_at(self) -> list[SessionSet]:
        """Return the due sets that a pass considers, in turn.

        Projects take turns, so that none keeps the sets of others waiting by
        having many that lack slots.
        """
        counts: collections.Counter[str] = collections.Counter()
        found: list[tuple[int, int, SessionSet]] = []
        for one in self.due:
            if not self._is_passed(one):
                project, _ = one.key
                found.append((counts[project], len(found), one))
                counts[project] += 1
        chosen = sorted(found)[:_LOOKED_AT]
        return [one for _, _, one in sorted(chosen, key=_ORDER)]

    def may_serve_last(self) -> bool:
        """Return whether a set is due whose project is served last."""
        accounts = self._view.accounts
        return accounts is not None and any(
            accounts.turns.get(one.key[0]) is model.Turn.LAST
            for one in self.due
        )

    @contextlib.contextmanager
    def withholding(self) -> abc.Iterator[None]:
        """Hide the withheld slots from the strategy."""
        table = self._view.slots
        for slot in self._withheld:
            table.hide(slot)
        try:
            yield
        finally:
            for slot in self._withheld:
                table.show(slot)

    def _start(
        self, one: SessionSet, found: list[slots.Slot]
    ) -> abc.Iterator[preferences.Choice]:
        del self.due[one]
        self._limit_to(one, math.inf)
        for record, slot in zip(one.records, found, strict=True):
            yield self._view.give(record, slot, in_turn=False)

    def _is_passed(self, one: SessionSet) -> bool:
        """Return whether it is not the turn of its project."""
        accounts = self._view.accounts
        return accounts is not None and accounts.is_passed(one.key[0])

    def _is_void(self, one: SessionSet) -> bool:
        """Reject a set that its project's limit, or the library, excludes."""
        reason = self._above_limit(one)
        if reason is not None:
            self._reject(one, codes.SET_IMPOSSIBLE, reason)
            return True
        for record in one.records:
            refused = self._queue.refusal(record.job)
            if refused is not None:
                self._reject(one, *refused)
                return True
        return False

    def _has_room(self, one: SessionSet) -> bool:
        """Return whether its project may have so many more slots."""
        accounts, limit = self._view.accounts, self._limit(one)
        return (
            accounts is None
            or limit is None
            or accounts.sessions(one.key[0]) + len(one.records) <= limit
        )

    def _without_room(self, one: SessionSet) -> list[str]:
        """Return the users of a set who may not have so many more slots."""
        limit = self._user_limit(one)
        if limit is None or self._view.accounts is None:
            return []
        users = self._view.accounts.users_of(one.key[0])
        return [
            user
            for user, count in self._of_users(one).items()
            if users is not None and users.slots_of(user) + count > limit
        ]

    def _compete(self, one: SessionSet, other: SessionSet) -> bool:
        """Return whether some slot is of use to both sets."""
        return any(
            not a.shapes or not b.shapes or a.shapes & b.shapes
            for a in self._needs(one)
            for b in self._needs(other)
        )

    # -- slots -------------------------------------------------------------

    def fits(self, slot_id: model.SlotId, shape: str) -> bool:
        """Return whether a set lacks slots and could have this one."""
        slot = self._view.slots.slots.get(slot_id)
        return slot is not None and any(
            any(need.fits(shape) for need in self._needs(one))
            and any(
                area in one.able if one.area is None else area == one.area
                for area in seats.areas(one.together.placement, [slot])
            )
            for one in self._lacking
            if not self._is_passed(one)
        )

    @property
    def lacks(self) -> bool:
        """Whether a set is due, and lacks slots that others may give back."""
        return any(not self._is_passed(one) for one in self._lacking)

    def _needs(self, one: SessionSet) -> list[seats.Need]:
        view = self._view
        return [
            seats.Need(
                record.job.accelerator,
                view.shapes_for(view.accelerators[record.job.accelerator]),
                promises.owner_of(record.job.project, record.job.accelerator),
            )
            for record in one.records
        ]

    def _areas(self, one: SessionSet, *, is_up: bool) -> set[int]:
        """Return the areas that could hold a set, from a cache.

        :param is_up: whether only usable slots count; if not, all known ones.
        """
        view = self._view
        if self._seen_change != view.changes or len(self._able) > _MOST_KEPT:
            self._able.clear()
            self._seen_change = view.changes
        needs = self._needs(one)
        found: list[slots.Slot] = [*view.slots.slots.values()]
        key = (is_up, one.together.placement, *sorted(needs, key=_NAME))
        if key not in self._able:
            if is_up:
                found = [slot for slot in found if _is_open(slot, needs)]
            else:
                needs = [
                    seats.Need(
                        need.accelerator, slots.shown_shapes(accelerator)
                    )
                    for need in needs
                    for accelerator in [view.accelerators[need.accelerator]]
                ]
            self._able[key] = _able(needs, found, one.together.placement)
        return self._able[key]

    def _choose(
        self, one: SessionSet, taken: abc.Container[model.SlotId]
    ) -> list[slots.Slot | None]:
        """Choose the idle slots that a set gets, or collects."""
        needs, view = self._needs(one), self._view
        placement = one.together.placement
        one.able = self._areas(one, is_up=True)
        shunned = self._queue.shunned
        avoided = frozenset().union(
            *(
                record.avoided
                | shunned.get(record.job.accelerator, frozenset())
                for record in one.records
            )
        )
        # What is reserved for the set's own project comes first.
        idle = [
            slot
            for owner in sorted({need.owner or "" for need in needs})
            for slot in view.slots.reserved_idle.get(owner, {}).values()
        ]
        idle += [s for s in view.slots.idle_slots() if s.id not in taken]
        if self._could_avoid(one, needs, avoided):
            idle = [slot for slot in idle if slot.id not in avoided]
        best: list[slots.Slot | None] = []
        rank = (0, False)
        for area, found in sorted(seats.areas(placement, idle).items()):
            if area not in one.able:
                continue
            chosen = seats.fit(needs, found, placement)
            count = len(chosen) - chosen.count(None)
            if (count, area == one.area) > rank:
                best, rank = chosen, (count, area == one.area)
                best_area = area
        if best:
            one.area = best_area
        return best

    def _could_avoid(
        self,
        one: SessionSet,
        needs: list[seats.Need],
        avoided: frozenset[model.SlotId],
    ) -> bool:
        """Return whether usable slots other than these could hold a set."""
        return bool(avoided) and bool(
            _able(
                needs,
                [
                    slot
                    for slot in self._view.slots.slots.values()
                    if _is_open(slot, needs) and slot.id not in avoided
                ],
                one.together.placement,
            )
        )


def _is_open(slot: slots.Slot, needs: abc.Iterable[seats.Need]) -> bool:
    """Return whether a slot works and is not reserved for somebody else."""
    return slot.up or (
        slot.is_usable
        and slot.reserved_for is not None
        and any(slot.reserved_for == need.owner for need in needs)
    )


def _described(together: model.Together) -> str:
    where = together.placement
    return f"{together.size} sessions" + (f", {where}" if where else "")


def _able(
    needs: list[seats.Need],
    found: abc.Iterable[slots.Slot],
    placement: str | None,
) -> set[int]:
    """Return the areas whose slots could hold all jobs."""
    return {
        area
        for area, own in seats.areas(placement, found).items()
        if len(own) >= len(needs)
        and None not in seats.fit(needs, own, placement)
    }
