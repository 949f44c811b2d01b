# SPDX-License-Identifier: Apache-2.0

"""Fair shares, limits and urgency: the literal rules hold at every step."""

import collections
import math
import typing

import hypothesis
import hypothesis.stateful as stateful
import hypothesis.strategies as st
import numpy
import pytest

from fpgapool import strategies
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import state
from fpgapool.core import strategy
from fpgapool.core import view as pool_view
from fpgapool.core.queues import sharing
from fpgapool.core.topology import slots as core_slots
from fpgapool.strategies import shared
from tests.harness import pool_invariants
from tests.property import checked
from tests.property import fuzzing
from tests.property import hosts
from tests.property import literal_fair
from tests.unit.core import pools

PROJECTS = ("a", "b", "c", "d")
WEIGHTS = {"b": 2.0, "c": 0.5}
QUANTUM_BYTES = 200 * checked.MB

seeds = st.integers(0, 2**32 - 1)


class Mirrored(sharing.Accounts):
    """Tells the literal book what happens between passes.

    :ivar book: the literal rules' own books.
    :ivar told: whether it is told, that is, no pass is under way.
    """

    def __init__(self, options: sharing.ShareOptions, breadth: int) -> None:
        super().__init__(options)
        self.book = literal_fair.Book(
            options.fair,
            options.quantum_bytes,
            dict(options.weights),
            breadth,
            self.rate_of,
        )
        self.slots: dict[int, core_slots.Slot] = {}
        self.told = True

    def rate_of(self, slot_id: int) -> float | None:
        slot = self.slots.get(slot_id)
        if slot is None:
            return None
        [device] = (
            device
            for device in slot.host.spec.devices
            if device.id == slot.spec.device_id
        )
        return device.dma_bytes_per_s / len(device.slots)

    def set_limits(
        self,
        default: int | None,
        of_projects: typing.Iterable[tuple[str, int | None]],
    ) -> None:
        super().set_limits(default, of_projects)
        self.book.default_limit = default
        self.book.limits = dict(of_projects)

    def join(self, project: str) -> None:
        super().join(project)
        if self.told:
            self.book.list_project(project, self.now_s)

    def leave(self, project: str) -> None:
        super().leave(project)
        if self.told:
            self.book.projects[project].listed = False

    def give(
        self,
        project: str,
        hold: core_slots.Hold,
        claimed_bytes: float,
        *,
        in_round: bool,
    ) -> None:
        super().give(project, hold, claimed_bytes, in_round=in_round)
        if self.told:
            self.book.give(
                project,
                hold.slot_id,
                hold.holder.id,
                claimed_bytes,
                in_round,
                self.now_s,
            )

    def take_back(self, project: str, hold: core_slots.Hold) -> None:
        super().take_back(project, hold)
        if self.told:
            self.book.take_back(project, hold.slot_id, self.now_s)

    def compare(self) -> None:
        """Both say the same of every project of which anything is known."""
        book = self.book
        if not self.options.fair:
            return
        assert self.round == book.round
        assert [key[-1] for key in self._places] == [
            project.name for project in book.in_order()
        ]
        for account in self.all():
            project = book.projects[account.project]
            assert account.holds.keys() == project.slots.keys()
            assert account.round == project.round
            assert account.left_bytes == project.left


class CheckedFair(shared.SharedStrategy):
    """Compares itself with the literal rules in every pass."""

    def __init__(
        self,
        name: str,
        options: dict[str, object],
        seed: int,
        shares: sharing.ShareOptions,
        max_wait_s: float | None,
        breadth: int,
    ) -> None:
        factory, _, _ = checked.FACTORIES[name]
        super().__init__(factory(options, seed), shares, max_wait_s)
        # The literal rules learn nothing.
        self.claims = None
        self.breadth = breadth
        self.rules = checked.make_rules(name, options, seed)

    def assign(
        self, view: pool_view.PoolView, now: float
    ) -> list[strategy.Choice]:
        accounts = view.accounts
        assert isinstance(accounts, Mirrored)
        expected = literal_fair.FairPass(
            self.rules, accounts.book, view, self.max_wait_s, now
        )
        expected.run()
        accounts.told = False
        choices = list(super().assign(view, now))
        accounts.told = True
        assert [(c.job_id, c.slot_id) for c in choices] == expected.choices
        skips = {job.id: job.skips for job in expected.jobs}
        assert skips == {i: view.record(i).skips for i in skips}
        accounts.compare()
        return choices


class FairMachine(stateful.RuleBasedStateMachine):
    """Throws events at a pool that projects share."""

    @stateful.initialize(
        data=st.data(),
        name=st.sampled_from(sorted(checked.FACTORIES)),
        fair=st.sampled_from([True, True, False]),
        max_wait_s=st.sampled_from([None, 3.0]),
        breadth=st.sampled_from([1, 2, 64]),
        seed=seeds,
    )
    def start(
        self,
        data: st.DataObject,
        name: str,
        fair: bool,
        max_wait_s: float | None,
        breadth: int,
        seed: int,
    ) -> None:
        settings = data.draw(checked.strategy_settings(name))
        self.strategy = CheckedFair(
            *settings,
            sharing.ShareOptions(fair, QUANTUM_BYTES, WEIGHTS),
            max_wait_s,
            breadth,
        )
        self.pool = state.PoolState(self.strategy)
        accounts = Mirrored(self.strategy.shares, breadth)
        accounts.slots = self.pool.view.slots.slots
        self.pool.view.accounts = self.accounts = accounts
        self.pool.view.jobs._accounts = accounts
        self.now = 0.0
        self.wake_s = math.inf
        self.jobs = 0
        random = numpy.random.default_rng(seed)
        self.step(
            events.AcceleratorsChanged(hosts.ACCELERATORS),
            *(
                events.HostUp(hosts.make_host(host_id, random))
                for host_id in hosts.HOSTS
            ),
        )
        self.submit(seed, 24)

    def step(self, *batch: events.Event, after_s: float = 0.0) -> None:
        self.now += after_s
        if self.wake_s <= self.now:
            self.wake_s = math.inf
        for order in self.pool.step(batch, self.now):
            if isinstance(order, instructions.WakeAt):
                self.wake_s = order.time_s
        pool_invariants.check(self.pool)
        self.accounts.compare()
        self.check_limits_and_wakes()

    def check_limits_and_wakes(self) -> None:
        book, max_wait_s = self.accounts.book, self.strategy.max_wait_s
        due_s = []
        for job in self.pool.waiting():
            reasons = self.pool.status(job.id).reasons
            assert reasons
            if "PROJECT_SESSION_LIMIT" in reasons:
                assert book.is_full(job.project)
            if max_wait_s is not None:
                due_s.append(job.arrival_s + max_wait_s)
        later_s = [time_s for time_s in due_s if time_s > self.now + 1e-9]
        if later_s:
            assert self.wake_s <= min(later_s)
        # Another pass would count skips, or misses.
        if (
            self.pool.idle_count
            and self.strategy.skip_limit is None
            and self.strategy.rules.affinity_misses is None
        ):
            self.check_nothing_left_over()

    def check_nothing_left_over(self) -> None:
        """Another pass would find nothing, whoever's turn it was."""
        book, max_wait_s = self.accounts.book, self.strategy.max_wait_s
        generator = self.strategy.rules.generator
        self.strategy.rules.reseed(0)
        copy = literal_fair.Book(
            False, book.quantum, book.weights, 1, book.rate_of
        )
        copy.limits, copy.default_limit = book.limits, book.default_limit
        copy.projects = {
            name: literal_fair.Project(name, p.weight, slots=dict(p.slots))
            for name, p in book.projects.items()
        }
        again = literal_fair.FairPass(
            self.strategy.rules, copy, self.pool.view, max_wait_s, self.now
        )
        again.run()
        self.strategy.rules.generator = generator
        assert not again.choices

    @stateful.rule(seed=seeds, count=st.integers(1, 6))
    def submit(self, seed: int, count: int) -> None:
        random = numpy.random.default_rng(seed)
        batch: list[events.Event] = []
        for _ in range(count):
            job = model.Job(
                id=self.jobs,
                host_id=random.choice([*hosts.HOSTS, None]),
                accelerator=str(random.choice(["aes", "fft", "sha"])),
                claimed_bytes=float(random.choice([1, 100, 300, 5000]))
                * checked.MB,
                arrival_s=self.now - float(random.choice([0.0, 0.0, 2.5])),
                project=str(random.choice(PROJECTS, p=[0.6, 0.2, 0.1, 0.1])),
                affinity_key=random.choice([None, "x", "y"]),
            )
            self.jobs += 1
            batch.append(events.JobSubmitted(job))
        self.step(*batch)

    @stateful.rule(
        seed=seeds,
        share=st.sampled_from([0.1, 0.3, 0.9]),
        after_s=st.sampled_from([0.0, 0.2, 1.0, 4.0]),
    )
    def release(self, seed: int, share: float, after_s: float) -> None:
        random = numpy.random.default_rng(seed)
        batch: list[events.Event] = []
        for slot_id, held in self.pool.assignments().items():
            if random.random() >= share:
                continue
            if held.phase is model.Phase.PREPARING and random.random() < 0.2:
                batch.append(
                    events.PrepareFailed(slot_id, held.generation, "FAILED")
                )
                continue
            batch.append(events.SlotReleased(slot_id, held.generation))
        self.step(*batch, after_s=after_s)

    @stateful.rule(
        default=st.sampled_from([None, None, 0, 2, 5]),
        of_a=st.sampled_from([None, 1, 3]),
    )
    def limit(self, default: int | None, of_a: int | None) -> None:
        self.step(events.SessionLimitsChanged(default, (("a", of_a),)))

    @stateful.rule(seed=seeds)
    def cancel(self, seed: int) -> None:
        job_id = int(numpy.random.default_rng(seed).integers(self.jobs))
        self.step(events.JobCancelled(job_id, "CANCELLED_BY_CLIENT"))

    @stateful.rule(
        host_id=st.sampled_from(hosts.HOSTS), seed=seeds, up=st.booleans()
    )
    def change_host(self, host_id: int, seed: int, up: bool) -> None:
        random = numpy.random.default_rng(seed)
        if up:
            self.step(events.HostUp(hosts.make_host(host_id, random)))
        else:
            self.step(events.HostLost(host_id))

    @stateful.rule()
    def sleep_until_woken(self) -> None:
        if self.now <= self.wake_s < math.inf:
            self.now = self.wake_s
            self.step(events.Wake())


TestFair = FairMachine.TestCase
TestFair.settings = hypothesis.settings(
    fuzzing.limits(150), stateful_step_count=15
)


class Course:
    """A pool whose jobs hold their slots for known times.

    :ivar served_bytes: what each project was given slots for.
    :ivar finished_s: when the last job was done.
    :ivar busy_s: how long slots were taken, all together.
    """

    def __init__(
        self, scheduler: strategy.Strategy, slots: int, rate: float
    ) -> None:
        self.pool = pools.make_pool_of(
            scheduler, pools.make_host(1, slot_count=slots)
        )
        self.rate = rate
        self.served_bytes: collections.Counter[str] = collections.Counter()
        self.finished_s = self.busy_s = 0.0
        self.ends: list[tuple[float, int, int]] = []
        self.idle_while_waiting = False

    def run(
        self,
        jobs: typing.Iterable[model.Job],
        look: typing.Callable[["Course"], None] = lambda course: None,
    ) -> None:
        to_come = sorted(jobs, key=lambda job: job.arrival_s, reverse=True)
        while to_come or self.ends:
            times = [end[0] for end in self.ends]
            times += [to_come[-1].arrival_s] if to_come else []
            now = min(times)
            batch: list[events.Event] = []
            for end in sorted(end for end in self.ends if end[0] == now):
                self.ends.remove(end)
                batch.append(events.SlotReleased(end[1], end[2]))
            while to_come and to_come[-1].arrival_s == now:
                batch.append(events.JobSubmitted(to_come.pop()))
            self.follow(self.pool.step(*batch, now=now), now)
            self.finished_s = now
            look(self)

    def follow(
        self, output: list[instructions.Instruction], now: float
    ) -> None:
        for order in output:
            if isinstance(order, instructions.Program):
                job = self.pool.state.view.record(order.job_id).job
                hold_s = job.claimed_bytes / self.rate
                self.busy_s += hold_s
                self.served_bytes[job.project] += int(job.claimed_bytes)
                self.ends.append(
                    (now + hold_s, order.slot_id, order.generation)
                )
        state_now = self.pool.state
        if state_now.idle_count and state_now.waiting_count:
            self.idle_while_waiting = True


def make_jobs(
    random: numpy.random.Generator, count: int, project: str, first_id: int
) -> list[model.Job]:
    return [
        pools.make_job(
            first_id + number,
            host_id=int(random.choice([1, 2])),
            claimed_bytes=float(random.integers(1, 5000)) * checked.MB,
            project=project,
        )
        for number in range(count)
    ]


def fair(name: str, **weights: float) -> shared.SharedStrategy:
    return shared.SharedStrategy(
        busy(name), sharing.ShareOptions(True, QUANTUM_BYTES, weights)
    )


def busy(name: str) -> strategy.Strategy:
    """Make a strategy; wra keeps no slot idle for jobs of its own host."""
    options = {"fallback": True} if name == "wra" else {}
    made: strategy.Strategy = getattr(strategies, name)(options, 0)
    return made


@pytest.mark.parametrize("name", ["fifo", "sjf", "wra"])
@hypothesis.given(
    seed=seeds, slots=st.integers(1, 5), weight=st.sampled_from([0.5, 1, 3])
)
@fuzzing.examples(25)
def test_what_projects_are_served_differs_by_little(
    name: str, seed: int, slots: int, weight: float
) -> None:
    """The bounds of the documentation, while both have jobs that wait."""
    random = numpy.random.default_rng(seed)
    jobs = make_jobs(random, 60, "a", 0) + make_jobs(random, 60, "b", 60)
    course = Course(fair(name, b=weight), slots, 1e9)
    largest = max(job.claimed_bytes for job in jobs)
    least = min(weight, 1.0)
    differences = [0.0]

    def look(course: Course) -> None:
        waiting = {job.project for job in course.pool.state.waiting()}
        if waiting == {"a", "b"} and len(differences) < 1000:
            served = course.served_bytes
            differences.append(served["a"] - served["b"] / weight)

    course.run(jobs, look)
    assert len(differences) > 10
    assert max(map(abs, differences)) <= QUANTUM_BYTES + largest / least
    spread = max(differences) - min(differences)
    assert spread <= 2 * (QUANTUM_BYTES + largest / least)


@pytest.mark.parametrize("name", ["fifo", "sjf", "wra"])
@hypothesis.given(seed=seeds, slots=st.integers(1, 5))
@fuzzing.examples(20)
def test_shares_cost_no_throughput(name: str, seed: int, slots: int) -> None:
    """Slots are as busy as without, and the last job is done as soon.

    Up to what the order of jobs can make out: without an idle slot while jobs
    wait, all are done within their work per slot and the longest of them.
    """
    random = numpy.random.default_rng(seed)
    jobs = [
        job
        for number, project in enumerate(PROJECTS)
        for job in make_jobs(random, 5 * number + 1, project, 100 * number)
    ]
    alone = Course(busy(name), slots, 1e9)
    alone.run(jobs)
    together = Course(fair(name, b=2.0), slots, 1e9)
    together.run(jobs)
    assert not together.idle_while_waiting
    assert math.isclose(together.busy_s, alone.busy_s)
    longest_s = max(job.claimed_bytes for job in jobs) / 1e9
    assert together.finished_s <= alone.busy_s / slots + longest_s + 1e-6
    assert together.finished_s <= alone.finished_s + longest_s + 1e-6


@pytest.mark.parametrize("name", ["fifo", "ra", "wra", "era", "auto"])
def test_one_project_is_served_as_without_shares(name: str) -> None:
    random = numpy.random.default_rng(5)
    jobs = make_jobs(random, 40, "a", 0)
    ends = [
        list_ends(scheduler, jobs) for scheduler in (busy(name), fair(name))
    ]
    assert ends[0] == ends[1]
    assert ends[0]


def list_ends(
    scheduler: strategy.Strategy, jobs: list[model.Job]
) -> list[tuple[float, int, int]]:
    course = Course(scheduler, 3, 1e9)
    found: list[tuple[float, int, int]] = []
    course.run(jobs, lambda course: found.extend(course.ends))
    return found


@pytest.mark.parametrize("name", ["era", "auto"])
def test_joint_strategies_serve_projects_by_rounds(name: str) -> None:
    random = numpy.random.default_rng(3)
    jobs = make_jobs(random, 40, "a", 0) + make_jobs(random, 4, "b", 40)
    course = Course(fair(name), 1, 1e9)
    begun: list[str] = []

    def look(course: Course) -> None:
        for *_, slot_id, _ in course.ends:
            held = course.pool.state.assignments()[slot_id]
            begun.append(
                course.pool.state.view.record(held.holder.id).job.project
            )

    course.run(jobs, look)
    last_of_b = max(at for at, project in enumerate(begun) if project == "b")
    assert last_of_b < 25
