# SPDX-License-Identifier: Apache-2.0

"""Pools that are full: every slot is taken and many jobs wait.

One *decision* is everything the core does for one job between its coming and
its leaving, as the conductor asks for it, in three steps:

1. a slot is released while a new job comes: the slot goes to the next job
   (``SlotReleased`` and ``JobSubmitted`` in, ``Program`` out);
2. the slot is ready (``SlotReady`` in, ``Grant`` out);
3. the job's client is connected (``HolderAttached`` in, nothing out).

The conductor does so for every input that comes alone. What comes while it is
at work it takes together: then the first and the last step are for many jobs
at once, while each slot that becomes ready still makes a step of its own.

So as many jobs wait after a decision as before it. Time goes on as it would
if all slots were always at work, so jobs also lose patience with their own
host, and the pool asks to be woken and is.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections import abc

import numpy

from fpgapool import strategies
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import state
from fpgapool.core.queues import sharing
from fpgapool.strategies import shared

STRATEGIES = ("fifo", "sjf", "ra", "wa", "wra")

#: A job in five fits large slots only, a quarter of all: if more did, they
#: would pile up until nobody was left for the others.
ACCELERATORS = tuple(
    model.Accelerator(
        name, peak_bytes_per_s=peak_mb_per_s * 1e6, shapes=shapes
    )
    for name, peak_mb_per_s, shapes in (
        ("aes", 1200, frozenset[str]()),
        ("dtw", 400, frozenset[str]()),
        ("ec", 800, frozenset[str]()),
        ("fft", 1000, frozenset({"large"})),
        ("sha", 600, frozenset[str]()),
    )
)
BY_NAME = {accelerator.name: accelerator for accelerator in ACCELERATORS}
SLOTS_PER_HOST = 4
#: Every fourth of a host's slots is a large one.
SHAPES = ("large", "small", "small", "small")
PROGRAMMING_TIME_S = 0.2
#: A job in ten comes from outside the pool.
OUTSIDE_SHARE = 0.1
MEAN_SIZE_BYTES = 400e6
#: How long a job has its slot on average.
MEAN_HOLD_S = 1.0
#: A job that finds no slot is turned away in the end.
WAIT_TIMEOUT_S = 3600.0

# Jobs are made so many at a time: they take memory.
_AT_ONCE = 1000


@dataclasses.dataclass(frozen=True, slots=True)
class Size:
    """How large a pool is."""

    hosts: int
    waiting: int

    @property
    def slots(self) -> int:
        """How many slots it has."""
        return self.hosts * SLOTS_PER_HOST

    def __str__(self) -> str:
        return f"{self.slots:,} slots, {self.waiting:,} waiting"


class JobSource:
    """Makes the jobs that come, one after the other, at even intervals."""

    def __init__(self, size: Size, seed: int, projects: int = 1) -> None:
        self._size = size
        self._projects = projects
        self._random = numpy.random.default_rng(seed)
        self._interval_s = MEAN_HOLD_S / size.slots
        self._made = 0

    def make(self, count: int) -> list[model.Job]:
        """Make the jobs that come next."""
        random = self._random
        host_ids = random.integers(self._size.hosts, size=count).tolist()
        outside = (random.random(count) < OUTSIDE_SHARE).tolist()
        sizes = random.exponential(MEAN_SIZE_BYTES, count).tolist()
        kinds = random.integers(len(ACCELERATORS), size=count).tolist()
        first, self._made = self._made, self._made + count
        return [
            model.Job(
                id=first + n,
                host_id=None if outside[n] else host_ids[n],
                accelerator=ACCELERATORS[kinds[n]].name,
                claimed_bytes=sizes[n] + 1.0,
                arrival_s=(first + n) * self._interval_s,
                project=f"project{(first + n) % self._projects}",
                wait_timeout_s=WAIT_TIMEOUT_S,
            )
            for n in range(count)
        ]


class FullPool:
    """A pool in which every slot that becomes free is given on at once.

    :param sharing_projects: so many projects share it fairly; 0: whose a job
        is does not matter.

    :ivar source: of the jobs that come.
    :ivar taken: (job id, slot id), as the slots were given away, if wanted.
    """

    def __init__(
        self,
        strategy_name: str,
        size: Size,
        *,
        seed: int = 1,
        keep_taken: bool = False,
        options: abc.Mapping[str, object] = types.MappingProxyType({}),
        sharing_projects: int = 0,
    ) -> None:
        made = getattr(strategies, strategy_name)(options, seed)
        if sharing_projects:
            made = shared.SharedStrategy(made, sharing.ShareOptions())
        self.state = state.PoolState(made)
        self.source = JobSource(size, seed, max(sharing_projects, 1))
        self.taken: list[tuple[int, int]] | None = [] if keep_taken else None
        self._places = numpy.random.default_rng(seed)
        self._now = 0.0
        self._wake_s = math.inf
        self._busy: list[instructions.Program] = []
        self._serve([events.AcceleratorsChanged(ACCELERATORS)])
        # As jobs wait for them, no slot is left idle for want of one.
        self._submit(size.slots)
        for host in map(make_host, range(size.hosts)):
            self._serve([events.HostUp(host)])
        self.fill(size.waiting)

    def fill(self, waiting: int) -> None:
        """Let jobs come until so many wait."""
        # Some strategies leave a slot idle rather than give it away.
        while (missing := waiting - self.state.waiting_count) > 0:
            self._submit(missing)

    def _submit(self, count: int) -> None:
        while count > 0:
            jobs = self.source.make(min(count, _AT_ONCE))
            count -= len(jobs)
            for job in jobs:
                self._now = job.arrival_s
                self._serve([events.JobSubmitted(job)])

    def decide(self, jobs: list[model.Job], together: int = 1) -> int:
        """Release a slot for each job that comes.

        :param jobs: that come next from the source.
        :returns: how many slots were given away.
        """
        busy = self._busy
        before = self.state.view.next_generation
        places = self._places.random(len(jobs)).tolist()
        batch: list[events.Event] = []
        for number, (job, place) in enumerate(
            zip(jobs, places, strict=True), 1
        ):
            chosen = int(place * len(busy))
            held, busy[chosen] = busy[chosen], busy[-1]
            del busy[-1]
            batch.append(events.SlotReleased(held.slot_id, held.generation))
            batch.append(events.JobSubmitted(job))
            if number % together == 0:
                self._now = job.arrival_s
                self._serve(batch)
                batch = []
        return self.state.view.next_generation - before

    def _serve(self, batch: list[events.Event]) -> None:
        """Let the pool decide; tell it of what it gave away."""
        now, step = self._now, self.state.step
        if now >= self._wake_s:
            self._wake_s = math.inf
            batch.append(events.Wake())
        attached: list[events.Event] = []
        for order in step(batch, now):
            if isinstance(order, instructions.Program):
                self._busy.append(order)
                if self.taken is not None:
                    self.taken.append((order.job_id, order.slot_id))
                slot_id, generation = order.slot_id, order.generation
                step([events.SlotReady(slot_id, generation)], now)
                attached.append(events.HolderAttached(slot_id, generation))
            elif isinstance(order, instructions.WakeAt):
                self._wake_s = order.time_s
        if attached:
            step(attached, now)


def make_host(host_id: int) -> model.HostSpec:
    """A host with one board."""
    slots = tuple(
        model.SlotSpec(
            id=host_id * SLOTS_PER_HOST + number,
            device_id=host_id,
            host_id=host_id,
            number=number,
            shape=SHAPES[number],
            programming_time_s=PROGRAMMING_TIME_S,
        )
        for number in range(SLOTS_PER_HOST)
    )
    device = model.DeviceSpec(
        id=host_id,
        host_id=host_id,
        name="board0",
        dma_bytes_per_s=2.1e9,
        slots=slots,
    )
    return model.HostSpec(
        id=host_id,
        name=f"host{host_id}",
        nic_bytes_per_s=1.25e9,
        devices=(device,),
    )
