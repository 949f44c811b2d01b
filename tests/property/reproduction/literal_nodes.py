# SPDX-License-Identifier: Apache-2.0

"""The rules of a host with cores, written down as they read.

It steps from event to event, looks at all jobs each time, and moves the work
of each on. Slow, and short enough to be compared with the rules by eye.
"""

from __future__ import annotations

import dataclasses
import math
import random
import typing

SLOT_S = 60.0
CORE_S = 150.0
_TOLERANCE_S = 1e-6
_NOTHING = 1e-9


@dataclasses.dataclass(eq=False)
class Job:
    """A job; ``chunks`` is what is left of it.

    :ivar attach_s: what is left of the time to attach its slot.
    :ivar to_border: chunks until its slot may change hands.
    """

    id: int
    arrival_s: float
    chunks: float
    deadline_s: float
    has_core: bool = False
    slot: int | None = None
    last_slot: int | None = None
    attach_s: float = 0.0
    to_border: float = 0.0
    slot_s: float = 0.0
    end_s: float = 0.0
    state: str = ""


@dataclasses.dataclass
class Node:
    """A host, and how it decides."""

    cores: int
    slots: int
    rule: str
    fine: bool
    action: str
    attach_s: float
    seed: int

    def run(self, jobs: list[Job]) -> None:
        """Run all jobs to their ends."""
        self.draw = random.Random(self.seed)
        self.holders: list[Job | None] = [None] * self.slots
        self.now = 0.0
        to_come = sorted(jobs, key=lambda job: (job.arrival_s, job.id))
        self.here: list[Job] = []
        while to_come or self.here:
            times = [job.arrival_s for job in to_come[:1]]
            times += [self._next_s(job) for job in self.here]
            self._pass_time(max(min(times) - self.now, 0.0))
            for job in list(self.here):
                if job.chunks <= _NOTHING:
                    late = self.now > job.deadline_s + _TOLERANCE_S
                    self._end(job, "late" if late else "done")
            while to_come and to_come[0].arrival_s <= self.now:
                self.here.append(to_come.pop(0))
            for job in list(self.here):
                if self._is_lost(job):
                    self._end(job, "killed")
            self._give_cores()
            self._give_slots()

    def _next_s(self, job: Job) -> float:
        if self._is_lost(job):
            return self.now
        times = [job.deadline_s] if job.deadline_s > self.now else []
        if job.slot is not None:
            chunks = job.chunks
            if self.fine:
                chunks = min(chunks, job.to_border)
            times.append(self.now + job.attach_s + SLOT_S * chunks)
        elif job.has_core:
            times.append(self.now + CORE_S * job.chunks)
        if self.action == "early" and job.slot is None:
            slack_s = job.deadline_s + _TOLERANCE_S - self.now
            slack_s -= SLOT_S * job.chunks + self.attach_s
            if job.has_core:
                slack_s /= 1 - SLOT_S / CORE_S
            if not self._core_will_do(job):
                times.append(self.now + max(slack_s, 0.0) + 1e-9)
        return min(times, default=math.inf)

    def _pass_time(self, passed_s: float) -> None:
        self.now += passed_s
        for job in self.here:
            if job.slot is not None:
                job.slot_s += passed_s
                attaching_s = min(job.attach_s, passed_s)
                job.attach_s -= attaching_s
                job.chunks -= (passed_s - attaching_s) / SLOT_S
                job.to_border -= (passed_s - attaching_s) / SLOT_S
            elif job.has_core:
                job.chunks -= passed_s / CORE_S

    def _core_will_do(self, job: Job) -> bool:
        needed_s = CORE_S * job.chunks
        return job.has_core and needed_s <= (
            job.deadline_s - self.now + _TOLERANCE_S
        )

    def _is_lost(self, job: Job) -> bool:
        if self.action == "continue":
            return False
        attach_s = self.attach_s if job.slot is None else job.attach_s
        end_s = self.now + SLOT_S * job.chunks + attach_s
        limit_s = job.deadline_s + _TOLERANCE_S
        if self.now >= job.deadline_s:
            # Unless it ends with its deadline.
            return end_s > limit_s
        if self.action == "kill" or (
            job.slot is None and self._core_will_do(job)
        ):
            return False
        return end_s > limit_s

    def _end(self, job: Job, state: str) -> None:
        job.state, job.end_s = state, self.now
        self.here.remove(job)
        if job.slot is not None:
            self.holders[job.slot] = None

    def _give_cores(self) -> None:
        while sum(job.has_core for job in self.here) < self.cores:
            waiting = [job for job in self.here if not job.has_core]
            if not waiting:
                return
            self._best(waiting, None, 0.0).has_core = True

    def _give_slots(self) -> None:
        for slot, holder in enumerate(self.holders):
            if holder is not None and not (
                self.fine and holder.to_border <= _NOTHING
            ):
                continue
            rivals = [
                job
                for job in self.here
                if job.has_core and (job.slot is None or job is holder)
            ]
            if not rivals:
                continue
            job = self._best(rivals, holder, self.attach_s)
            if job is not holder:
                if holder is not None:
                    holder.slot = None
                self.holders[slot] = job
                job.slot = job.last_slot = slot
                job.attach_s = self.attach_s
            job.to_border = 1.0

    def _best(
        self, jobs: list[Job], holder: Job | None, attach_s: float
    ) -> Job:
        if self.rule == "random":
            return self.draw.choice(sorted(jobs, key=lambda job: job.id))
        key = {"edf": self._edf, "hjf": self._hjf}.get(self.rule)
        if key is not None:
            return min(jobs, key=key)
        return min(
            jobs,
            key=lambda job: self._need(job, 0 if job is holder else attach_s),
        )

    def _edf(self, job: Job) -> tuple[typing.Any, ...]:
        return (self.now >= job.deadline_s, job.deadline_s, job.id)

    def _hjf(self, job: Job) -> tuple[typing.Any, ...]:
        left_s = job.deadline_s - self.now
        stress = job.chunks / left_s if left_s > 0 else -math.inf
        return (-stress, job.deadline_s, job.id)

    def _need(self, job: Job, attach_s: float) -> tuple[typing.Any, ...]:
        left_s = job.deadline_s - self.now + _TOLERANCE_S
        slot_s = SLOT_S * job.chunks + attach_s
        if slot_s > left_s:
            return (2, 0.0, *self._hjf(job))
        if CORE_S * job.chunks <= left_s:
            return (1, 0.0, *self._hjf(job))
        return (0, left_s - slot_s, *self._hjf(job))
