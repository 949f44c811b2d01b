# SPDX-License-Identifier: Apache-2.0

"""The rules of fair shares, written down word for word.

Rounds are counted one by one, lists are searched from their beginnings, and
what competes is a pass of the literal rules over the jobs of some projects.
"""

import dataclasses
import math
import typing

from fpgapool.core import view as pool_view
from tests.property import literal


class Interrupted(Exception):
    """A project may not go on."""


@dataclasses.dataclass
class Project:
    """What is known of a project that was ever heard of."""

    name: str
    weight: float
    round: int = 0
    place: int = 0
    left: float = 0.0
    slots: dict[int, "Hold"] = dataclasses.field(default_factory=dict)
    listed: bool = False


@dataclasses.dataclass
class Hold:
    """A slot that a project has."""

    job: int
    charged_at: float
    paid: float


@dataclasses.dataclass
class Book:
    """All projects, and the rules about them."""

    fair: bool
    quantum: float
    weights: dict[str, float]
    breadth: int
    rate_of: typing.Callable[[int], float | None]
    limits: dict[str, int | None] = dataclasses.field(default_factory=dict)
    default_limit: int | None = None
    projects: dict[str, Project] = dataclasses.field(default_factory=dict)
    paid: dict[int, float] = dataclasses.field(default_factory=dict)
    round: int = 0
    places: int = 0
    charged_at: float = -math.inf

    def project(self, name: str) -> Project:
        """Rule 1: who is new."""
        known = self.projects.get(name)
        if known is None or (
            not known.listed and not known.slots and known.round <= self.round
        ):
            project = Project(name, self.weights.get(name, 1.0))
            project.round = self.round
            project.left = project.weight * self.quantum
            self.projects[name] = project
        return self.projects[name]

    def is_full(self, name: str) -> bool:
        limit = self.limits.get(name, self.default_limit)
        if limit is None:
            return False
        slots = self.projects[name].slots if name in self.projects else ()
        return len(slots) >= limit

    def list_project(self, name: str, now: float) -> None:
        """Rule 1."""
        project = self.project(name)
        self.charge(project, now)
        if project.round <= self.round:
            project.round = self.round
            project.left = project.weight * self.quantum
        self.to_the_end(project)
        project.listed = True

    def to_the_end(self, project: Project) -> None:
        self.places += 1
        project.place = self.places

    def in_order(self) -> list[Project]:
        listed = [p for p in self.projects.values() if p.listed]
        return sorted(listed, key=lambda p: (p.round, p.place))

    def give(
        self,
        name: str,
        slot: int,
        job: int,
        size_bytes: float,
        in_round: bool,
        now: float,
    ) -> None:
        """Rules 3, 4 and 6."""
        project = self.project(name)
        if job in self.paid:
            claim = 0.0
        else:
            self.paid[job] = claim = size_bytes
        project.slots[slot] = Hold(job, now, self.paid[job])
        project.round = max(project.round, self.round)
        if in_round:
            self.round = project.round
        self.take(project, claim)

    def take(self, project: Project, size_bytes: float) -> None:
        project.left -= size_bytes
        if project.left <= 0:
            self.owe(project)

    def owe(self, project: Project) -> None:
        share = project.weight * self.quantum
        rounds = math.floor(-project.left / share) + 1
        project.left += rounds * share
        project.round += rounds
        self.to_the_end(project)

    def take_back(self, name: str, slot: int, now: float) -> None:
        """Rule 7."""
        project = self.projects[name]
        hold = project.slots.pop(slot)
        self.take(project, self.cost(slot, hold, now))
        self.paid[hold.job] = hold.paid

    def cost(self, slot: int, hold: Hold, now: float) -> float:
        """Rule 7: what a slot costs since it was charged last."""
        rate = self.rate_of(slot)
        if rate is None:
            return 0.0
        cost = (now - hold.charged_at) * rate
        paid = min(cost, hold.paid)
        hold.charged_at, hold.paid = now, hold.paid - paid
        return cost - paid

    def charge(self, project: Project, now: float) -> None:
        held = project.slots.items()
        self.take(project, sum(self.cost(*one, now) for one in held))

    def charge_listed(self, now: float) -> None:
        """Rule 8."""
        if now - self.charged_at < 1.0:
            return
        self.charged_at = now
        for project in self.in_order():
            self.charge(project, now)


class FairPass:
    """One pass over a copy of the pool."""

    def __init__(
        self,
        rules: literal.Rules,
        book: Book,
        view: pool_view.PoolView,
        max_wait_s: float | None,
        now: float,
    ) -> None:
        self.rules = rules
        self.book = book
        self.now = now
        self.max_wait_s = max_wait_s
        copy = literal.snapshot(rules, view, now)
        self.slots = copy.slots
        self.jobs = copy.jobs
        self.arrived = {
            job_id for lane in view.jobs.all_lanes() for job_id in lane.arrived
        }
        self.project_of = {
            job.id: view.record(job.id).job.project for job in self.jobs
        }
        self.choices: list[tuple[int, int]] = []

    def run(self) -> None:
        self.serve_together(self.is_urgent)
        if self.book.fair:
            self.book.charge_listed(self.now)
            self.serve_in_rounds()
        else:
            self.serve_together(lambda job: not self.is_urgent(job))

    def is_urgent(self, job: literal.Job) -> bool:
        if self.max_wait_s is None:
            return False
        return self.now - job.arrival_s >= self.max_wait_s - 1e-12

    def serve_together(
        self, wanted: typing.Callable[[literal.Job], bool]
    ) -> None:
        while True:
            jobs = [
                job
                for job in self.jobs
                if wanted(job)
                and not self.book.is_full(self.project_of[job.id])
            ]
            if not jobs or not self.any_idle():
                return
            if self.make_pass(jobs):
                return

    def serve_in_rounds(self) -> None:
        """Rules 2 to 5."""
        done: set[str] = set()
        while self.any_idle():
            rivals = self.first_rivals(done)
            if not rivals:
                return
            names = {project.name for project in rivals}
            jobs = [job for project in rivals for job in self.jobs_of(project)]
            if self.make_pass(jobs):
                done |= names
            for project in rivals:
                project.listed = bool(self.jobs_of(project))

    def first_rivals(self, done: set[str]) -> list[Project]:
        """Rule 2."""
        able = [
            project
            for project in self.book.in_order()
            if project.name not in done
            and not self.book.is_full(project.name)
            and self.can_gain(project)
        ]
        rounds = [max(project.round, self.book.round) for project in able]
        return [
            project
            for project, of_project in zip(able, rounds, strict=True)
            if of_project == min(rounds)
        ][: self.book.breadth]

    def can_gain(self, project: Project) -> bool:
        look = self.new_pass([])
        jobs = self.jobs_of(project)
        return any(
            look.fits(slot, job)
            for slot in self.slots
            if slot.is_idle()
            for job in jobs
        )

    def any_idle(self) -> bool:
        return any(slot.is_idle() for slot in self.slots)

    def jobs_of(self, project: Project) -> list[literal.Job]:
        return [
            job
            for job in self.jobs
            if self.project_of[job.id] == project.name
            and not self.is_urgent(job)
        ]

    def new_pass(self, jobs: list[literal.Job]) -> "Contest":
        return Contest(self, jobs)

    def make_pass(self, jobs: list[literal.Job]) -> bool:
        """:returns: whether the strategy found nothing more."""
        contest = self.new_pass(jobs)
        try:
            contest.run()
        except Interrupted:
            return False
        return True


class Contest(literal.Pass):
    """A pass over some jobs, until it may not go on."""

    def __init__(self, whole: FairPass, jobs: list[literal.Job]) -> None:
        self.whole = whole
        super().__init__(
            whole.rules, whole.slots, jobs, whole.arrived, whole.now
        )

    def key(self, job: literal.Job) -> tuple[float, ...]:
        if self.whole.is_urgent(job):
            return (job.arrival_s, job.id)
        return super().key(job)

    def take(self, job: literal.Job, slot: literal.Slot) -> None:
        super().take(job, slot)
        whole, book = self.whole, self.whole.book
        whole.jobs.remove(job)
        whole.choices.append((job.id, slot.id))
        name = whole.project_of[job.id]
        in_round = book.fair and not whole.is_urgent(job)
        book.give(name, slot.id, job.id, job.size_bytes, in_round, whole.now)
        has_to_wait = book.projects[name].round > book.round
        if book.is_full(name) or (in_round and has_to_wait):
            raise Interrupted
