# SPDX-License-Identifier: Apache-2.0

"""Random events for strategies that pair jobs and boards."""

import dataclasses
import math
import typing

import hypothesis.stateful as stateful
import hypothesis.strategies as st
import numpy

from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import state
from fpgapool.core import strategy
from tests.harness import pool_invariants

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


class Machine(stateful.RuleBasedStateMachine):
    """Throws events at a pool.

    :ivar hosts: those that there are in the beginning.
    :ivar again: a strategy that replays the events in the end.
    """

    hosts = HOSTS

    def begin(
        self,
        checked: strategy.Strategy,
        again: strategy.Strategy,
        seed: int,
    ) -> None:
        """Start with hosts and jobs.

        :param checked: compares itself with the literal rule in every pass.
        """
        self.again = again
        self.now = 0.0
        self.wake_s = math.inf
        self.job_count = 0
        self.history: list[tuple[list[events.Event], float, typing.Any]] = []
        self.pool = state.PoolState(checked)
        random = numpy.random.default_rng(seed)
        self.step(
            events.AcceleratorsChanged(LIBRARY),
            *(events.HostUp(make_host(host, random)) for host in self.hosts),
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
            assert self.now < self.wake_s < math.inf

    def new_jobs(
        self, random: numpy.random.Generator, count: int
    ) -> list[events.Event]:
        found: list[events.Event] = []
        for _ in range(count):
            job = model.Job(
                id=self.job_count,
                host_id=random.choice([*self.hosts, *self.hosts, None, 99]),
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
            again = state.PoolState(self.again)
            for batch, now, output in self.history:
                assert again.step(batch, now) == output
