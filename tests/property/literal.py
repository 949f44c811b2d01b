# SPDX-License-Identifier: Apache-2.0

"""The rules of a scheduling pass, written down word for word.

Plain loops over all slots and jobs, nothing remembered between passes. Slow
and simple: what the real strategies are compared with.
"""

import dataclasses
import math
import typing

import numpy

from fpgapool.core import view as pool_view
from fpgapool.core.queues import applications as core_applications
from fpgapool.core.queues import queued
from fpgapool.strategies.placements import offers


@dataclasses.dataclass
class Slot:
    """A slot; ``holder_is_local`` is None while nobody has it."""

    id: int
    host: int
    number: int
    shape: str
    up: bool
    programmed: str | None
    programming_time_s: float
    holder_is_local: bool | None
    device: int = 0
    #: The accelerator of the job that has it.
    runs: str | None = None

    def is_idle(self) -> bool:
        return self.up and self.holder_is_local is None

    def is_instant_for(self, job: "Job") -> bool:
        return (
            self.programming_time_s == 0 or self.programmed == job.accelerator
        )


@dataclasses.dataclass(eq=False)
class Application:
    """Jobs that belong together."""

    granted_s: float = -math.inf
    misses: int = 0


@dataclasses.dataclass
class Job:
    """A job that waits."""

    id: int
    host: int | None
    size_bytes: float
    arrival_s: float
    accelerator: str
    shapes: frozenset[str]
    avoided: frozenset[int]
    skips: int
    is_for_group: bool
    #: How many jobs waited when it came.
    found: int = 0
    #: Jobs of one kind, which fit the same slots, wait in one queue.
    kind: object = None
    application: Application = dataclasses.field(default_factory=Application)


@dataclasses.dataclass
class Rules:
    """A strategy's options, and its random generator."""

    ordering: str
    placement: str
    thresholds_bytes: tuple[float, ...] = ()
    remote_limit: int | None = None
    skip_limit: int | None = None
    wait_s_per_byte: float = 1e-8
    fallback: bool = False
    slot_choice: str = "least_busy"
    offer_order: str = "least_busy"
    affinity: bool = False
    affinity_wait_s: float | None = None
    affinity_misses: int | None = None
    largest_first: bool = False
    generator: typing.Any = None

    def reseed(self, seed: int) -> None:
        self.generator = numpy.random.default_rng(seed)


class Pass:
    """One pass over a copy of the pool.

    :ivar choices: (job id, slot id) as they were made.
    """

    def __init__(
        self,
        rules: Rules,
        slots: list[Slot],
        jobs: list[Job],
        arrived: set[int],
        now: float,
    ) -> None:
        self.rules = rules
        self.slots = sorted(slots, key=lambda s: (s.host, s.number))
        self.jobs = sorted(jobs, key=self.key)
        self.arrived = arrived
        self.now = now
        self.offered: set[int] = set()
        self.again: set[int] = set()
        # Whether jobs may no longer decline.
        self.is_last = False
        # When jobs would have taken the slots that they declined.
        self.dues_s: list[float] = []
        self.choices: list[tuple[int, int]] = []

    def run(self) -> None:
        if self.rules.placement == "any":
            self.place_anywhere()
        else:
            self.place_near()

    def key(self, job: Job) -> tuple[float, ...]:
        if self.rules.largest_first:
            return (-job.size_bytes, job.arrival_s, job.id)
        if self.rules.ordering == "fifo":
            return (job.arrival_s, job.id)
        if self.rules.ordering == "sjf":
            return (job.size_bytes, job.arrival_s, job.id)
        queue = 1
        for threshold_bytes in self.rules.thresholds_bytes:
            if job.size_bytes > threshold_bytes:
                queue += 1
        return (queue, job.arrival_s, job.id)

    def can_hold(self, slot: Slot, job: Job) -> bool:
        return not job.shapes or slot.shape in job.shapes

    def fits(self, slot: Slot, job: Job) -> bool:
        """A job avoids a slot that failed it while there is another."""
        if not self.can_hold(slot, job):
            return False
        if slot.id not in job.avoided:
            return True
        for other in self.slots:
            if (
                other.up
                and self.can_hold(other, job)
                and other.id not in job.avoided
            ):
                return False
        return True

    def idle(self) -> list[Slot]:
        return [slot for slot in self.slots if slot.is_idle()]

    def of_host(self, host: int) -> list[Slot]:
        return [slot for slot in self.slots if slot.host == host]

    def busy_count(self, host: int) -> int:
        return len(
            [s for s in self.of_host(host) if s.holder_is_local is not None]
        )

    def take(self, job: Job, slot: Slot) -> None:
        slot.holder_is_local = job.is_for_group or job.host == slot.host
        slot.runs = job.accelerator
        job.application.granted_s = self.now
        job.application.misses = 0
        self.jobs.remove(job)
        self.choices.append((job.id, slot.id))

    # -- placement any ---------------------------------------------------

    def place_anywhere(self) -> None:
        for job in list(self.jobs):
            fitting = [slot for slot in self.idle() if self.fits(slot, job)]
            if fitting:
                self.take(job, self.choose(job, fitting))

    def choose(self, job: Job, fitting: list[Slot]) -> Slot:
        if self.rules.slot_choice == "index":
            return fitting[0]
        instant = [slot for slot in fitting if slot.is_instant_for(job)]
        if self.rules.slot_choice == "random":
            if instant:
                instant.sort(key=lambda s: (s.shape, s.programming_time_s > 0))
                candidates = instant
            else:
                candidates = sorted(fitting, key=lambda s: s.shape)
            return candidates[self.rules.generator.integers(len(candidates))]
        fewest = min(self.busy_count(slot.host) for slot in fitting)
        for slots in (instant, fitting):
            for slot in slots:
                if self.busy_count(slot.host) == fewest:
                    return slot
        raise AssertionError("there is a host with the fewest busy slots")

    # -- placement ra ----------------------------------------------------

    def place_near(self) -> None:
        if self.rules.placement == "ra":
            self.serve_arrivals()
        if self.rules.offer_order == "random":
            self.offer_at_random()
            return
        self.offer_in_order()
        while self.again or self.ends_declining():
            self.offered -= self.again
            self.again = set()
            self.offer_in_order()

    @property
    def is_patience_learnt(self) -> bool:
        rules = self.rules
        return (
            rules.affinity
            and rules.affinity_wait_s is None
            and rules.affinity_misses is None
        )

    def ends_declining(self) -> bool:
        """Offer what nobody wanted once more: someone must take it."""
        if self.is_last or not self.is_patience_learnt:
            return False
        if not self.idle() or not self.jobs:
            return False
        self.is_last = True
        self.again = set(self.offered)
        return True

    def offer_in_order(self) -> None:
        while True:
            left = [s for s in self.idle() if s.id not in self.offered]
            if not left:
                return
            slot = left[0]
            if self.rules.offer_order == "least_busy":
                slot = min(left, key=lambda s: self.busy_count(s.host))
            taken = self.offer(slot)
            if taken is None:
                self.offered.add(slot.id)

    def serve_arrivals(self) -> None:
        arrived = [job for job in self.jobs if job.id in self.arrived]
        for job in sorted(arrived, key=lambda j: (j.arrival_s, j.id)):
            own = [
                slot
                for slot in self.idle()
                if slot.host == job.host and self.fits(slot, job)
            ]
            if self.rules.slot_choice != "index":
                own.sort(key=lambda slot: not slot.is_instant_for(job))
            if own:
                self.take(job, own[0])

    def offer_at_random(self) -> None:
        idle = self.idle()
        if not idle or not self.jobs:
            return
        order = [
            idle[number]
            for number in self.rules.generator.permutation(len(idle))
        ]
        self.offer_all(order)
        while self.again or self.ends_declining():
            again, self.again = self.again, set()
            self.offered -= again
            self.offer_all([slot for slot in order if slot.id in again])

    def offer_all(self, slots: list[Slot]) -> None:
        for slot in slots:
            self.offered.add(slot.id)
            while slot.is_idle() and self.offer(slot) is not None:
                pass

    def offer(self, slot: Slot) -> Slot | None:
        """Offer a slot; say which one was taken for it, if any was."""
        fitting = [job for job in self.jobs if self.fits(slot, job)]
        self.declined: list[Job] = []
        job = self.first_taker(slot, fitting)
        if self.rules.affinity_misses is not None:
            end = len(fitting) if job is None else fitting.index(job)
            for one in {job.application for job in fitting[:end]}:
                one.misses += 1
        if job is not None:
            return self.accept(job, slot)
        for job in self.declined:
            since_s = max(job.arrival_s, job.application.granted_s)
            wait_s = (1.0 - self.fitness(slot, job)) * self.wait_s(slot, job)
            self.dues_s.append(since_s + wait_s)
        return None

    def wait_s(self, slot: Slot, job: Job) -> float:
        """The time in which a job's threshold falls to 0."""
        if self.rules.affinity_wait_s is not None:
            return self.rules.affinity_wait_s
        up = len([slot for slot in self.slots if slot.up])
        return 20 * slot.programming_time_s * (1 + job.found / up)

    def first_taker(self, slot: Slot, fitting: list[Job]) -> Job | None:
        host_slots = self.of_host(slot.host)
        limit = self.rules.remote_limit
        if limit is None:
            limit = max(1, len(host_slots) // 2)
        remote = [s for s in host_slots if s.holder_is_local is False]
        self.asked: set[object] = set()
        for job in fitting:
            if self.rules.placement == "affinity":
                if self.is_willing(slot, job):
                    return job
                continue
            if job.host == slot.host:
                return job
            if len(remote) >= limit:
                continue
            if not self.has_home(job) or self.may_leave(job):
                if self.is_willing(slot, job):
                    return job
            elif self.rules.skip_limit is not None and not self.is_last:
                job.skips += 1
        self.asked = set()
        if self.rules.fallback:
            for job in fitting:
                if self.is_willing(slot, job):
                    return job
        return None

    def is_willing(self, slot: Slot, job: Job) -> bool:
        if not self.rules.affinity or self.is_last:
            return True
        if self.is_patience_learnt:
            # Only the first one of its kind is asked.
            if job.kind in self.asked:
                return False
            self.asked.add(job.kind)
        fitness = self.fitness(slot, job)
        if self.rules.affinity_misses is not None:
            threshold = offers.threshold_by_misses(
                job.application.misses, self.rules.affinity_misses
            )
            return fitness >= threshold
        since_s = max(job.arrival_s, job.application.granted_s)
        limit_s = self.wait_s(slot, job)
        if self.is_patience_learnt:
            since_s = min(since_s, job.arrival_s + limit_s)
        waited_s = self.now - since_s
        threshold = max(0.0, 1.0 - waited_s / limit_s) if limit_s else 0.0
        if fitness >= threshold - 1e-11:
            return True
        if not self.is_patience_learnt:
            self.declined.append(job)
        return False

    def fitness(self, slot: Slot, job: Job) -> float:
        if slot.is_instant_for(job):
            return math.inf
        held = [
            other.runs
            for other in self.of_host(slot.host)
            if other.device == slot.device and other.runs is not None
        ]
        return offers.fitness(held.count(job.accelerator), len(held))

    def has_home(self, job: Job) -> bool:
        for slot in self.slots:
            if slot.host == job.host and slot.up and self.fits(slot, job):
                return True
        return False

    def ends_of_patience(self) -> list[float]:
        """When jobs that wait for their own host will leave it."""
        if self.rules.placement != "ra":
            return []
        return [
            job.arrival_s + self.rules.wait_s_per_byte * job.size_bytes
            for job in self.jobs
            if self.has_home(job) and not self.is_patience_over(job)
        ]

    def may_leave(self, job: Job) -> bool:
        if self.is_patience_over(job):
            return True
        skip_limit = self.rules.skip_limit
        return skip_limit is not None and job.skips >= skip_limit

    def is_patience_over(self, job: Job) -> bool:
        waited_s = self.now - job.arrival_s
        due_s = self.rules.wait_s_per_byte * job.size_bytes
        return waited_s >= due_s - 1e-12

    def accept(self, job: Job, slot: Slot) -> Slot:
        taken = slot
        if self.rules.offer_order != "index" and not slot.is_instant_for(job):
            for other in self.of_host(slot.host):
                if (
                    other.is_idle()
                    and other.shape == slot.shape
                    and other.id not in self.offered
                    and self.fits(other, job)
                    and other.is_instant_for(job)
                ):
                    taken = other
                    break
        self.take(job, taken)
        if self.rules.affinity:
            self.again |= {
                other.id
                for other in self.of_host(slot.host)
                if other.is_idle()
                and other is not slot
                and other.id in self.offered
                and other.device == taken.device
            }
        return taken


def snapshot(rules: Rules, view: pool_view.PoolView, now: float) -> Pass:
    """A pass over a copy of the pool as it is."""
    applications: dict[object, Application] = {}
    slots = []
    for known in view.slots.slots.values():
        held = view.slots.assignments.get(known.id)
        slots.append(
            Slot(
                id=known.id,
                host=known.spec.host_id,
                number=known.spec.number,
                shape=known.shape,
                up=known.up,
                programmed=known.programmed,
                programming_time_s=known.spec.programming_time_s,
                holder_is_local=None if held is None else held.local,
                device=known.spec.device_id,
                runs=None
                if held is None or held.record is None
                else held.accelerator,
            )
        )
    jobs = [
        Job(
            id=record.job.id,
            host=record.job.host_id,
            size_bytes=record.job.claimed_bytes,
            arrival_s=record.job.arrival_s,
            accelerator=record.job.accelerator,
            shapes=view.shapes_for(view.accelerators[record.job.accelerator]),
            avoided=record.avoided,
            skips=record.skips,
            is_for_group=record.job.group_id is not None,
            found=_found(rules, view, record),
            kind=record.group,
            application=_application(rules, view, record, applications),
        )
        for record in view.jobs.records.values()
        if record.slot_id is None
    ]
    return Pass(rules, slots, jobs, set(view.arrived), now)


def _found(
    rules: Rules, view: pool_view.PoolView, record: queued.JobRecord
) -> int:
    if not rules.affinity:
        return 0
    assert isinstance(view.jobs, core_applications.AffineJobs)
    return view.jobs.found(record)


def _application(
    rules: Rules,
    view: pool_view.PoolView,
    record: queued.JobRecord,
    known: dict[object, Application],
) -> Application:
    """The job's application, with what the pool knows of it.

    :param known: those that others of these jobs have.
    """
    if not rules.affinity:
        return Application()
    jobs, job = view.jobs, record.job
    assert isinstance(jobs, core_applications.AffineJobs)
    name: object = job.id
    if job.affinity_key is not None:
        name = (job.project, job.affinity_key)
    if name not in known:
        since_s = jobs.since_s(record)
        known[name] = Application(misses=jobs.misses(record))
        if since_s > job.arrival_s:
            known[name].granted_s = since_s
    elif jobs.since_s(record) > job.arrival_s:
        known[name].granted_s = jobs.since_s(record)
    return known[name]
