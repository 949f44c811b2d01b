# SPDX-License-Identifier: Apache-2.0

"""Highest job first: by the ratio of work left to time left.

This order changes with time, so it cannot be the key of an ordering.
"""

import dataclasses
import heapq
import math
import typing
from collections import abc

from fpgapool.core import model
from fpgapool.core import ordered
from fpgapool.core import strategy
from fpgapool.core import view as pool_view
from fpgapool.core.queues import ageing
from fpgapool.core.queues import kinds
from fpgapool.core.queues import queued
from fpgapool.core.rules import deadlines
from fpgapool.core.topology import loads as pipe_loads
from fpgapool.core.topology import slots
from fpgapool.strategies.placements import any as any_placement

RULES = ("hjf", "need")

# First elements of keys.
_IN_TIME, _NO_DEADLINE, _LATE = range(3)
_ONLY_A_SLOT, _CORE_WILL_DO, _LOST = range(3)


def stress(contender: strategy.Contender, now: float) -> float:
    """Return the ratio of work left to time left.

    It is 0 without a deadline, and minus infinity from the deadline on.
    """
    if now >= contender.deadline_s:
        return -math.inf
    return contender.chunks / (contender.deadline_s - now)


def hjf_key(contender: strategy.Contender, now: float) -> ordered.Key:
    """Return a key that sorts the highest stress first.

    Jobs without a deadline come after those with one, by arrival. Late jobs
    come last.
    """
    job, deadline_s = contender.job, contender.deadline_s
    if deadline_s == math.inf:
        return (_NO_DEADLINE, job.arrival_s, deadline_s, job.id)
    if now >= deadline_s:
        return (_LATE, 0.0, deadline_s, job.id)
    return (_IN_TIME, -stress(contender, now), deadline_s, job.id)


def is_lost(contender: strategy.Contender, now: float) -> bool:
    """Return whether a job misses its deadline even with the slot."""
    end_s = now + contender.attach_s + contender.slot_s
    return end_s > contender.deadline_s + deadlines.TOLERANCE_S


def need_key(contender: strategy.Contender, now: float) -> ordered.Key:
    """Return a key that sorts first the jobs that only a slot can save.

    Of these, the job with the least slack is first; the time to attach the
    slot is no part of it. Next come the jobs that their CPU core finishes in
    time. Last come those that are late in any case.
    """
    slack_s = 0.0
    if is_lost(contender, now):
        group = _LOST
    elif now + contender.cpu_s <= contender.deadline_s + deadlines.TOLERANCE_S:
        group = _CORE_WILL_DO
    else:
        group = _ONLY_A_SLOT
        slack_s = contender.deadline_s - now - contender.slot_s
    return (group, slack_s, *hjf_key(contender, now))


def may_displace(
    challenger: strategy.Contender,
    holder: strategy.Contender,
    now: float,
    gain: float,
) -> bool:
    """Return whether a challenger's stress suffices to take a holder's slot.

    :param gain: the stress must be at least 1 + gain times the holder's. A
        holder that is lost always gives way.
    """
    return is_lost(holder, now) or (
        stress(challenger, now) >= (1 + gain) * stress(holder, now)
    )


class _Kind:
    """Waiting jobs of a group that have the same accelerator.

    :param rule: see :class:`HjfOptions`.
    """

    def __init__(self, accelerator: str, rule: str) -> None:
        self._accelerator = accelerator
        self._needs = rule == "need"
        self._new: dict[model.JobId, queued.JobRecord] = {}
        # Jobs that only a slot saves, by the latest time to start; only with
        # the rule ``need``.
        self._needy = ordered.KeyQueue()
        self._without_deadline = ordered.KeyQueue()
        # One by the stress grows linearly with time.
        self._stressed = ageing.AgeingQueue()
        self._late = ordered.KeyQueue()
        # Where jobs are, except new and stressed ones.
        self._places: dict[
            model.JobId, tuple[ordered.KeyQueue, ordered.Key]
        ] = {}
        self._peak = 0.0

    def add(self, record: queued.JobRecord) -> None:
        self._new[record.job.id] = record

    def remove(self, record: queued.JobRecord) -> None:
        job_id = record.job.id
        if self._new.pop(job_id, None) is not None:
            return
        place = self._places.pop(job_id, None)
        if place is None:
            self._stressed.remove(record)
        else:
            place[0].remove(place[1])

    @property
    def is_empty(self) -> bool:
        return not (self._new or self._places) and self._stressed.leader < 0

    def first(self, view: pool_view.PoolView) -> queued.JobRecord | None:
        """Return the most urgent job; equally stressed ones go by arrival."""
        if self._needs:
            self._see_peak(view)
        for record in self._new.values():
            self._sort_in(view, record)
        self._new.clear()
        self._move_lost(view)
        stressed = self._move_late(view)
        if stressed is not None and not self._needs:
            return stressed
        for queue in (self._needy, self._without_deadline):
            if queue:
                return view.record(queue.front[0][-1])
        if stressed is None and self._late:
            return view.record(self._late.front[0][-1])
        return stressed

    def _see_peak(self, view: pool_view.PoolView) -> None:
        """Sort all jobs anew if slots are faster or slower than before."""
        peak = view.best_peak_bytes_per_s(view.accelerators[self._accelerator])
        if peak == self._peak:
            return
        self._peak = peak
        records = [view.record(job_id) for job_id in self._places]
        for record in (*records, *self._stressed.jobs()):
            self.remove(record)
            self.add(record)

    def _sort_in(
        self, view: pool_view.PoolView, record: queued.JobRecord
    ) -> None:
        contender = view.contender(record)
        deadline_s = contender.deadline_s
        if deadline_s == math.inf:
            self._put(record, self._without_deadline, record.key)
        elif self._needs:
            key = (deadline_s - contender.slot_s, -deadline_s, record.job.id)
            self._put(record, self._needy, key)
        else:
            self._stress(view, record)

    def _put(
        self,
        record: queued.JobRecord,
        queue: ordered.KeyQueue,
        key: ordered.Key,
    ) -> None:
        queue.add(key)
        self._places[record.job.id] = (queue, key)

    def _stress(
        self, view: pool_view.PoolView, record: queued.JobRecord
    ) -> None:
        # All jobs of a kind need the same time for a byte.
        left_bytes = record.job.claimed_bytes - record.done_bytes
        start, slope = -math.inf, 0.0
        if left_bytes > 0:
            slope = 1.0 / left_bytes
            start = -(record.job.deadline_s or 0.0) * slope
        self._stressed.add(record, start, slope, view.now)

    def _move_lost(self, view: pool_view.PoolView) -> None:
        while self._needy:
            record = view.record(self._needy.front[0][-1])
            if not is_lost(view.contender(record), view.now):
                return
            self.remove(record)
            self._stress(view, record)

    def _move_late(self, view: pool_view.PoolView) -> queued.JobRecord | None:
        """Return the job with the highest stress that is not late."""
        while True:
            place = self._stressed.first(view.now)
            record = self._stressed.records[place] if place >= 0 else None
            if record is None:
                return None
            deadline_s = record.job.deadline_s or 0.0
            if view.now < deadline_s:
                return record
            self.remove(record)
            self._put(record, self._late, (deadline_s, record.job.id))


class Kinds(kinds.Kinds):
    """The kinds of waiting jobs, each in the order of a rule."""

    def __init__(self, rule: str) -> None:
        self._rule = rule
        self._of_group: dict[queued.JobGroup, dict[str, _Kind]] = {}

    def of(self, group: queued.JobGroup) -> list[_Kind]:
        return list(self._of_group.get(group, {}).values())

    def set_library(
        self, library: abc.Mapping[str, model.Accelerator]
    ) -> None:
        """Do nothing: passes read the rates."""

    def rehome(self, group: queued.JobGroup, host_id: model.HostId) -> None:
        """Do nothing: hosts make no difference."""

    def add(
        self, record: queued.JobRecord, group: queued.JobGroup, now: float
    ) -> None:
        name = record.job.accelerator
        found = self._of_group.setdefault(group, {})
        if name not in found:
            found[name] = _Kind(name, self._rule)
        found[name].add(record)

    def remove(self, record: queued.JobRecord) -> None:
        group = typing.cast(queued.JobGroup, record.group)
        found, name = self._of_group[group], record.job.accelerator
        found[name].remove(record)
        if found[name].is_empty:
            # Its accelerator may leave the library.
            del found[name]
        if not found:
            del self._of_group[group]

    def set_done(self, record: queued.JobRecord) -> None:
        group = typing.cast(queued.JobGroup, record.group)
        kind = self._of_group[group][record.job.accelerator]
        kind.remove(record)
        kind.add(record)


@dataclasses.dataclass(frozen=True, slots=True)
class HjfOptions:
    """Options of :class:`HjfStrategy`.

    :param rule: ``hjf`` or ``need``; see :func:`hjf_key` and
        :func:`need_key`.
    """

    rule: str = "hjf"

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise ValueError(
                f"rule must be {' or '.join(RULES)}, not {self.rule!r}"
            )


class HjfStrategy(strategy.Strategy):
    """Gives the most urgent job a slot of its own host, or else any slot.

    A pass compares the first jobs of all kinds.
    """

    wants_hosts = False
    wants_kinds = True
    deadlines_preempt = True

    def __init__(
        self, options: HjfOptions, placement: any_placement.AnyPlacement
    ) -> None:
        self.options = options
        self.placement = placement
        self.idle_indexes = placement.idle_indexes
        self._urgency = need_key if options.rule == "need" else hjf_key

    def key(self, job: model.Job) -> ordered.Key:
        return (job.arrival_s, job.id)

    def most_urgent(
        self, contenders: abc.Sequence[strategy.Contender], now: float
    ) -> strategy.Contender:
        return min(contenders, key=lambda each: self._urgency(each, now))

    def make_kinds(self, loads: pipe_loads.Loads) -> Kinds:
        return Kinds(self.options.rule)

    def assign(
        self, view: pool_view.PoolView, now: float
    ) -> abc.Iterator[strategy.Choice]:
        index = typing.cast(Kinds, view.kinds)
        found = [
            self._entry(view, group, kind)
            for group in view.jobs.groups()
            if group.count and view.has_idle(group)
            for kind in index.of(group)
        ]
        urgent = [entry for entry in found if entry is not None]
        # Keys end with job ids, so the heap never compares two groups.
        heapq.heapify(urgent)
        while urgent and view.slots.idle_total:
            key, group, kind = heapq.heappop(urgent)
            if not view.has_idle(group):
                continue
            record = view.record(key[-1])
            yield view.give(record, self._choose(view, record, group))
            entry = self._entry(view, group, kind)
            if entry is not None:
                heapq.heappush(urgent, entry)

    def _entry(
        self, view: pool_view.PoolView, group: queued.JobGroup, kind: _Kind
    ) -> tuple[ordered.Key, queued.JobGroup, _Kind] | None:
        record = kind.first(view)
        if record is None:
            return None
        return self._urgency(view.contender(record), view.now), group, kind

    def reasons(
        self, view: pool_view.PoolView, job_id: model.JobId
    ) -> tuple[str, ...]:
        return self.placement.reasons(view, job_id)

    def _choose(
        self,
        view: pool_view.PoolView,
        record: queued.JobRecord,
        group: queued.JobGroup,
    ) -> slots.Slot:
        job = record.job
        if job.host_id is not None and job.host_id in view.slots.idle_hosts:
            host = view.slots.idle_hosts[job.host_id]
            at_home = view.fitting_idle(group, host)
            if self.placement.options.slot_choice != "index":
                at_home.sort(
                    key=lambda slot: not slot.starts_at_once(job.accelerator)
                )
            if at_home:
                return at_home[0]
        return view.slots.slots[self.placement.choose(view, record)]
