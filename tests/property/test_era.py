# SPDX-License-Identifier: Apache-2.0

"""Random events: era does what its rule says, and the books are right."""

import dataclasses
import math
import typing

import hypothesis
import hypothesis.stateful as stateful
import hypothesis.strategies as st
import numpy

from fpgapool import strategies
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import state
from fpgapool.core import strategy
from fpgapool.core import view as pool_view
from fpgapool.strategies.joint import era
from tests.harness import pool_invariants
from tests.property import literal_era

HOSTS = range(5)
SHAPES = ("large", "small")
LIBRARY = (
    model.Accelerator("aes", 1.2e9, return_ratio=1.0, stateless=True),
    model.Accelerator("fft", 1e9, shapes=frozenset({"large"})),
    model.Accelerator("sha", 4e8, return_ratio=0.5),
)
SIZES_BYTES = (1e6, 1e8, 1e8, 3e8, 3e8, 7e8, 5e9)
KINDS_OF_EVENTS = (
    None,
    events.SlotReady,
    events.HolderAttached,
    events.SlotReleased,
    events.SlotReleased,
)
seeds = st.integers(0, 2**32 - 1)


@st.composite
def era_options(draw: st.DrawFn) -> era.EraOptions:
    """The rule as it is, as it began, or anything between."""
    if draw(st.booleans()):
        return draw(st.sampled_from([era.EraOptions(), era.AS_WRITTEN]))
    values = {
        field.name: draw(
            st.sampled_from(
                [
                    0.0,
                    getattr(era.AS_WRITTEN, field.name),
                    getattr(era.EraOptions(), field.name),
                    1.0,
                ]
            )
        )
        for field in dataclasses.fields(era.EraOptions)
    }
    for name in ("long_factor", "leave_penalty", "leave_penalty_idle"):
        values[name] = values[name] or 2.0
    return era.EraOptions(**values)


class CheckedEra(era.EraStrategy):
    """Compares itself with the literal rule in every pass."""

    def assign(
        self, view: pool_view.PoolView, now: float
    ) -> list[strategy.Choice]:
        expected = literal_era.Pass(self.options, view, now)
        expected.run()
        choices = list(super().assign(view, now))
        assert [(c.job_id, c.slot_id) for c in choices] == expected.choices
        return choices


def make_host(host_id: int, random: numpy.random.Generator) -> model.HostSpec:
    """A host with up to two boards of up to three slots."""
    return model.HostSpec(
        id=host_id,
        name=f"host{host_id}",
        nic_bytes_per_s=float(random.choice([1.25e9, 1.25e9, 5e8, 0.0])),
        devices=tuple(
            model.DeviceSpec(
                id=2 * host_id + place,
                host_id=host_id,
                name=f"board{place}",
                dma_bytes_per_s=2.1e9,
                healthy=bool(random.random() < 0.9),
                slots=tuple(
                    model.SlotSpec(
                        id=10 * host_id + 3 * place + number,
                        device_id=2 * host_id + place,
                        host_id=host_id,
                        number=3 * place + number,
                        shape=str(random.choice(SHAPES)),
                        programmed=random.choice([None, "aes", "sha"]),
                        programming_time_s=float(random.choice([0.0, 0.5])),
                    )
                    for number in range(random.integers(1, 4))
                ),
            )
            for place in range(random.integers(3))
        ),
    )


class EraMachine(stateful.RuleBasedStateMachine):
    """Throws events at a pool."""

    @stateful.initialize(options=era_options(), seed=seeds)
    def start(self, options: era.EraOptions, seed: int) -> None:
        self.options = options
        self.now = 0.0
        self.wake_s = math.inf
        self.job_count = 0
        self.history: list[tuple[list[events.Event], float, typing.Any]] = []
        self.pool = state.PoolState(CheckedEra(options))
        random = numpy.random.default_rng(seed)
        self.step(
            events.AcceleratorsChanged(LIBRARY),
            *(events.HostUp(make_host(host, random)) for host in HOSTS),
        )
        self.submit(seed, 25)

    def step(self, *batch: events.Event) -> None:
        output = self.pool.step(batch, self.now)
        self.history.append((list(batch), self.now, output))
        pool_invariants.check(self.pool)
        for order in output:
            if isinstance(order, instructions.WakeAt):
                assert order.time_s > self.now
                self.wake_s = order.time_s
        waiting = self.pool.waiting()
        for job in waiting:
            assert self.pool.status(job.id).reasons
        if waiting and self.pool.idle_count:
            assert self.now < self.wake_s <= self.now + 1.0

    def new_jobs(
        self, random: numpy.random.Generator, count: int
    ) -> list[events.Event]:
        found: list[events.Event] = []
        for _ in range(count):
            job = model.Job(
                id=self.job_count,
                host_id=random.choice([*HOSTS, *HOSTS, None, 99]),
                accelerator=str(random.choice(["aes", "fft", "sha"])),
                claimed_bytes=float(random.choice(SIZES_BYTES)),
                arrival_s=self.now - float(random.choice([0.0, 0.0, 3.0])),
            )
            self.job_count += 1
            found.append(events.JobSubmitted(job))
        return found

    @stateful.rule(seed=seeds, count=st.integers(1, 12))
    def submit(self, seed: int, count: int) -> None:
        self.step(*self.new_jobs(numpy.random.default_rng(seed), count))

    @stateful.rule(
        seed=seeds,
        after_s=st.sampled_from([0.0, 0.1, 0.5, 5.0]),
        count=st.integers(0, 6),
    )
    def run_jobs(self, seed: int, after_s: float, count: int) -> None:
        random = numpy.random.default_rng(seed)
        self.now += after_s
        batch = self.new_jobs(random, count)
        for slot_id, assignment in self.pool.assignments().items():
            age = int(random.random() < 0.05)
            generation = assignment.generation - age
            rate = float(random.choice([0.0, 1e8, 4e8, 1e9, -1.0]))
            batch.append(events.Progress(slot_id, generation, 0, rate))
            kind = random.choice(KINDS_OF_EVENTS)
            if kind is not None:
                batch.append(kind(slot_id, generation))
        self.step(*batch)

    @stateful.rule(seed=seeds)
    def fail_to_prepare(self, seed: int) -> None:
        random = numpy.random.default_rng(seed)
        self.step(
            *(
                events.PrepareFailed(s, a.generation, "PROGRAM_FAILED")
                for s, a in self.pool.assignments().items()
                if random.random() < 0.3
            )
        )

    @stateful.rule(seed=seeds)
    def cancel(self, seed: int) -> None:
        random = numpy.random.default_rng(seed)
        job_id = int(random.integers(self.job_count))
        self.step(events.JobCancelled(job_id, "CANCELLED_BY_CLIENT"))

    @stateful.rule(host_id=st.sampled_from(HOSTS))
    def lose_host(self, host_id: int) -> None:
        self.step(events.HostLost(host_id))

    @stateful.rule(host_id=st.sampled_from(HOSTS), seed=seeds)
    def bring_host_up(self, host_id: int, seed: int) -> None:
        random = numpy.random.default_rng(seed)
        self.step(events.HostUp(make_host(host_id, random)))

    @stateful.rule(host_id=st.sampled_from(HOSTS), seed=seeds)
    def restore(self, host_id: int, seed: int) -> None:
        slot_id = 10 * host_id
        if slot_id in self.pool.assignments():
            return
        (submitted,) = self.new_jobs(numpy.random.default_rng(seed), 1)
        assert isinstance(submitted, events.JobSubmitted)
        self.step(
            events.AssignmentRestored(
                submitted.job,
                slot_id,
                self.pool.view.next_generation + 2,
                model.Phase.ACTIVE,
                host_id,
            )
        )

    @stateful.rule(ratio=st.sampled_from([0.0, 0.5, 1.0]))
    def change_library(self, ratio: float) -> None:
        self.step(
            events.AcceleratorsChanged(
                tuple(
                    dataclasses.replace(each, return_ratio=ratio)
                    for each in LIBRARY
                )
            )
        )

    def teardown(self) -> None:
        """The same events give the same instructions again."""
        if hasattr(self, "pool"):
            again = state.PoolState(era.EraStrategy(self.options))
            for batch, now, output in self.history:
                assert again.step(batch, now) == output


TestEra = EraMachine.TestCase
TestEra.settings = hypothesis.settings(max_examples=60, stateful_step_count=20)


def test_the_factory_makes_it() -> None:
    made = strategies.era({"spread": 0.0, "q": 1.5}, 0)
    assert isinstance(made, era.EraStrategy)
    assert made.options == era.EraOptions(spread=0.0)
