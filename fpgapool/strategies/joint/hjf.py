# SPDX-License-Identifier: Apache-2.0

"""Highest job first: by the ratio of work left to time left.

This order changes with time, so it cannot be the key of an ordering.
"""

import dataclasses
import heapq
import math
from collections import abc

from fpgapool.core import model
from fpgapool.core import ordered
from fpgapool.core import strategy
from fpgapool.core import view as pool_view
from fpgapool.core.queues import queued
from fpgapool.core.rules import deadlines
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

    Each pass computes the urgency of all waiting jobs.
    """

    wants_hosts = False
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

    def assign(
        self, view: pool_view.PoolView, now: float
    ) -> abc.Iterator[strategy.Choice]:
        groups = [group for group in view.jobs.groups() if group.count]
        if not any(map(view.has_idle, groups)):
            return
        urgent = [
            (self._urgency(view.contender(view.record(key[-1])), now), group)
            for group in groups
            for key in group.jobs
        ]
        # Keys end with job ids, so the heap never compares two groups.
        heapq.heapify(urgent)
        while urgent and view.slots.idle_total:
            key, group = heapq.heappop(urgent)
            if view.has_idle(group):
                record = view.record(key[-1])
                yield view.give(record, self._choose(view, record, group))

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
