# SPDX-License-Identifier: Apache-2.0

"""Estimates how long waiting sessions will have to wait.

The state is run forward in one step: a session waits until the busy slots have
done the work of those before it, and of those that will overtake it. As many
are expected to overtake it as would have in as long a time until now. Then the
estimate is corrected, and becomes a range, by how wrong such estimates were
lately.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Callable
from collections.abc import Iterable
from typing import Any

from fpgapool.conductor.decisions.requests import wait_history
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import state as core_state

# Starts and arrivals needed for an estimate.
_LEAST = 5
# Number of starts whose mean interval counts.
_STARTS = 50
# How much of the older sums remains after each release.
_KEPT = 0.995
# Pairs of jobs to learn from at each start.
_PAIRS = 6
# The least ratio of the expected wait to the ends of its range.
_LEAST_WIDTH = 1.2
# A session's estimate is made anew after this part of it.
_RENEWED_AFTER = 0.25


@dataclasses.dataclass(frozen=True, slots=True)
class Wait:
    """A wait in seconds, and a range that holds for nine of ten sessions."""

    expected_s: float
    low_s: float
    high_s: float

    def after(self, passed_s: float) -> Wait:
        """Return what remains of it, as exactly as it is known."""
        return Wait(
            _rounded(self.expected_s - passed_s, round),
            _rounded(self.low_s - passed_s, math.floor),
            _rounded(self.high_s - passed_s, math.ceil),
        )


#: Of sessions that need not wait.
NONE = Wait(0.0, 0.0, 0.0)


def members(wait: Wait | None) -> dict[str, Any]:
    """Return a wait as members of views and dry runs; None: unknown."""
    if wait is None:
        return {}
    return {
        "expected_wait_s": wait.expected_s,
        "expected_wait_low_s": wait.low_s,
        "expected_wait_high_s": wait.high_s,
    }


class ExpectedWaits:
    """Follows a pool's events, and estimates its sessions' waits.

    :param core: the pool; it is only read.
    """

    def __init__(self, core: core_state.PoolState) -> None:
        self._core = core
        self._arrivals = wait_history.Arrivals()
        self._precedence = wait_history.Precedence()
        self._calibration = wait_history.Calibration()
        self._waiting = wait_history.Queue()
        #: The job of each slot, and when it began; None: before a takeover.
        self._running: dict[int, tuple[wait_history.Job, float | None]] = {}
        #: The same of holders whose slots have a successor already.
        self._leaving: dict[int, tuple[wait_history.Job, float | None]] = {}
        #: The accelerator of the latest session that ended in each slot, and
        #: the number of slots with each.
        self._last: dict[int, str] = {}
        self._ready = collections.Counter[str]()
        self._started_s = collections.deque[float](maxlen=_STARTS)
        #: Decayed sums over released slots.
        self._done_work_s = self._held_s = 0.0
        #: First estimates, and the latest ones with their times.
        self._firsts: dict[int, wait_history.Estimate] = {}
        self._told: dict[int, tuple[Wait, float]] = {}

    # -- what happens ------------------------------------------------------

    def hear(self, happened: Iterable[events.Event], now: float) -> None:
        """Take in events that the core has applied."""
        for event in happened:
            match event:
                case events.JobSubmitted():
                    self._submit(event.job)
                case events.JobCancelled():
                    self._leave(event.job_id, now, served=False)
                case events.SlotReleased():
                    self._release(event.slot_id, now)
                case events.HolderStays():
                    self._stay(event.slot_id)
                case events.AssignmentRestored() if not event.job.group_id:
                    known = self._known(event.job)
                    if known is not None:
                        self._running[event.slot_id] = known, None
                case events.HostLost():
                    self._running = {
                        slot_id: running
                        for slot_id, running in self._running.items()
                        if self._core.hold(slot_id) is not None
                    }
                    self._forget_unusable()
                case (
                    events.SlotFaulty()
                    | events.DeviceFailed()
                    | events.DeviceDisabled()
                ):
                    self._forget_unusable()

    def obey(
        self, orders: Iterable[instructions.Instruction], now: float
    ) -> None:
        """Take in instructions of the core."""
        for order in orders:
            match order:
                case instructions.Program():
                    self._start(order, now)
                case instructions.Reject():
                    self._leave(order.job_id, now, served=False)
                case instructions.Requeue():
                    self._wait_again(order.job_id)

    def _forget_unusable(self) -> None:
        slots = self._core.view.slots.slots
        self._last = {
            slot_id: name
            for slot_id, name in self._last.items()
            if slot_id in slots and slots[slot_id].is_usable
        }
        self._ready = collections.Counter(self._last.values())

    def _submit(self, job: model.Job) -> None:
        record = self._core.view.jobs.records.get(job.id)
        # All jobs of a set wait, although only one of them is in the queue.
        if (
            record is None
            or record.slot_id is not None
            or self._waiting.get(job.id)
        ):
            return
        known = self._known(job)
        if known is not None:
            self._arrivals.add(known)
            self._waiting.add(known)

    def _wait_again(self, job_id: int) -> None:
        for slot_id, (job, _) in list(self._running.items()):
            if job.id == job_id:
                del self._running[slot_id]
                self._waiting.add(job)

    def _known(self, job: model.Job) -> wait_history.Job | None:
        accelerator = self._core.view.accelerators.get(job.accelerator)
        if accelerator is None:
            return None
        late = dataclasses.replace(job, arrival_s=math.inf)
        return wait_history.Job(
            job.id,
            self._core.order_key(job),
            self._core.order_key(late),
            job.claimed_bytes / accelerator.peak_bytes_per_s,
            job.arrival_s,
            job.accelerator,
            self._is_local(job, accelerator),
        )

    def _is_local(
        self, job: model.Job, accelerator: model.Accelerator
    ) -> bool:
        if job.host_id is None:
            return False
        host = self._core.view.slots.hosts.get(job.host_id)
        shapes = self._core.view.shapes_for(accelerator)
        return host is not None and any(
            count > 0 and (not shapes or shape in shapes)
            for shape, count in host.up_shapes.items()
        )

    def _leave(self, job_id: int, now: float, *, served: bool) -> None:
        if self._waiting.pop(job_id) is None:
            return
        self._told.pop(job_id, None)
        first = self._firsts.pop(job_id, None)
        if first is not None:
            self._calibration.close(first, now, served=served)

    def _start(self, order: instructions.Program, now: float) -> None:
        job = self._waiting.get(order.job_id)
        if job is None:
            return
        self._leave(job.id, now, served=True)
        former = self._running.get(order.slot_id)
        if former and self._core.leaving(order.slot_id):
            self._leaving[order.slot_id] = former
        self._running[order.slot_id] = job, now
        if self._waiting:
            self._started_s.append(now)
            self._precedence.learn(job, self._waiting.some(_PAIRS))

    def _stay(self, slot_id: int) -> None:
        job, _ = self._running.pop(slot_id, (None, None))
        if job is not None:
            self._waiting.add(job)
        if slot_id in self._leaving:
            self._running[slot_id] = self._leaving.pop(slot_id)

    def _release(self, slot_id: int, now: float) -> None:
        job, began_s = self._leaving.pop(slot_id, None) or self._running.pop(
            slot_id, (None, None)
        )
        if slot_id in self._running:
            # Its successor begins.
            self._running[slot_id] = self._running[slot_id][0], now
        if job is None:
            return
        before = self._last.get(slot_id)
        self._last[slot_id] = job.accelerator
        self._ready[job.accelerator] += 1
        if before is None:
            # A slot's first session is programmed, which later ones may not
            # be; and in a young pool only short ones have ended.
            return
        self._ready[before] -= 1
        if began_s is not None:
            self._done_work_s = self._done_work_s * _KEPT + job.work_s
            self._held_s = self._held_s * _KEPT + now - began_s

    # -- estimates ---------------------------------------------------------

    def remaining(self, job_id: int, now: float) -> Wait | None:
        """Return a waiting job's remaining wait; None: unknown."""
        told, at_s = self._told.get(job_id, (None, now))
        if told is None or now - at_s > _RENEWED_AFTER * told.expected_s:
            job = self._waiting.get(job_id)
            record = self._core.view.jobs.records.get(job_id)
            if job is None or (
                record is not None and self._is_closed(record.job)
            ):
                return None
            found = self._estimate(job, now)
            if found is None:
                return None
            told, at_s = found[0], now
            self._told[job_id] = told, now
            if job_id not in self._firsts:
                self._firsts[job_id] = found[1]
                self._calibration.watch(found[1])
        return told.after(now - at_s)

    def of_new(self, job: model.Job, now: float) -> Wait | None:
        """Return the wait of a job that has not been submitted; None:
        unknown.
        """
        known = self._known(job)
        if known is None or self._is_closed(job):
            return None
        found = self._estimate(known, now)
        return None if found is None else found[0].after(0.0)

    def _is_closed(self, job: model.Job) -> bool:
        """Return whether a job waits for the end of a reservation, which
        nobody here knows.
        """
        view = self._core.view
        promises = view.reservations.promises
        return bool(promises) and promises.closes_all(
            job, view.slots.slots.values()
        )

    def _estimate(
        self, job: wait_history.Job, now: float
    ) -> tuple[Wait, wait_history.Estimate] | None:
        if (
            len(self._started_s) < _LEAST
            or len(self._arrivals) < _LEAST
            or not self._held_s
        ):
            return None
        interval_s = (now - self._started_s[0]) / len(self._started_s)
        if interval_s <= 0:
            # All known sessions have started in this batch.
            return None
        raw_s = self._raw_s(job, interval_s, now)
        if raw_s <= 0:
            return None
        kind = self._calibration.kind(
            raw_s,
            interval_s,
            is_local=job.is_local,
            is_ready=self._ready[job.accelerator] > 0,
        )
        factors = self._calibration.factors(kind, raw_s, now)
        expected = factors.expected
        wait = Wait(
            raw_s * expected,
            raw_s * min(factors.low, expected / _LEAST_WIDTH),
            raw_s * max(factors.high, expected * _LEAST_WIDTH),
        )
        return wait, wait_history.Estimate(
            now, raw_s, kind, wait.expected_s, raw_s * factors.mean
        )

    def _raw_s(
        self, job: wait_history.Job, interval_s: float, now: float
    ) -> float:
        """Return the wait until all work that comes first is done."""
        rate = max(len(self._running), 1) * self._done_work_s / self._held_s
        if rate <= 0:
            return 0.0
        shares = self._precedence.shares(job)
        work_s = interval_s * rate
        for is_smaller, size, other_s in self._waiting.around(job):
            work_s += other_s * shares[size][is_smaller]
        # Hundreds of arrivals: this loop takes most of an estimate's time.
        key = job.key
        for other, weight in self._arrivals.backwards():
            if (now - other.arrived_s) * rate >= work_s:
                break
            share = shares[other.size][other.late_key < key]
            if share and other is not job:
                work_s += weight * other.work_s * share
        return self._passed_s(work_s, rate, now)

    def _passed_s(self, work_s: float, rate: float, now: float) -> float:
        """Return how long work takes.

        :param rate: how much is done in a second now; less when slots are
            reserved.
        :returns: 0 if it is never done.
        """
        until_s = self._core.view.reservations.promises.until_s
        each, at_s = rate / max(len(self._running), 1), now
        for start_s in sorted(
            until_s[slot_id] for slot_id in self._running if slot_id in until_s
        ):
            done = rate * max(start_s - at_s, 0.0)
            if work_s <= done:
                break
            work_s -= done
            at_s = max(at_s, start_s)
            rate -= each
            if rate <= each / 2:
                return 0.0
        return at_s - now + work_s / rate


def _rounded(value: float, to_whole: Callable[[float], int]) -> float:
    """Round to two digits; a negative value is 0."""
    if value <= 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{to_whole(value / unit) * unit:.2g}")
