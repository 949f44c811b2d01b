# SPDX-License-Identifier: Apache-2.0

"""The floor of the scheduler: its rules, word for word.

The loops of ``tests/property/literal.py`` over plain lists of all slots and
all jobs. Nothing is remembered between passes, so there is nothing to keep up
to date, and nothing to get wrong.
"""

from __future__ import annotations

import typing

import numpy

from fpgapool.core import model
from fpgapool.core.queues import thresholds
from tests.benchmarks import pools
from tests.property import literal

RULES = {
    "fifo": ("fifo", "any"),
    "sjf": ("sjf", "any"),
    "ra": ("fifo", "ra"),
    "wa": ("wa", "any"),
    "wra": ("wa", "ra"),
}

#: Options of the strategies, for the same decisions.
OPTIONS: dict[str, typing.Any] = {
    "thresholds_bytes": thresholds.hybrid_thresholds(20e6, 1.41, 5, 16, 20),
    "remote_limit": pools.SLOTS_PER_HOST // 2,
}


class PlainPool:
    """Does what :class:`tests.benchmarks.pools.FullPool` does.

    :ivar taken: (job id, slot id), as the slots were given away.
    """

    def __init__(
        self, strategy_name: str, size: pools.Size, seed: int = 1
    ) -> None:
        ordering, placement = RULES[strategy_name]
        self.taken: list[tuple[int, int]] = []
        self.source = pools.JobSource(size, seed)
        self._rules = literal.Rules(
            ordering,
            placement,
            **OPTIONS,
            fallback=strategy_name == "wra",
        )
        self._places = numpy.random.default_rng(seed)
        self._now = 0.0
        self._jobs: list[literal.Job] = []
        self._slots: dict[int, literal.Slot] = {
            spec.id: literal.Slot(
                id=spec.id,
                host=spec.host_id,
                number=spec.number,
                shape=spec.shape,
                up=False,
                programmed=None,
                programming_time_s=spec.programming_time_s,
                holder_is_local=None,
            )
            for host in map(pools.make_host, range(size.hosts))
            for spec in host.slots()
        }
        self._busy: list[int] = []
        self._come(self.source.make(size.slots))
        for host in range(size.hosts):
            for slot in self._slots.values():
                slot.up = slot.up or slot.host == host
            self._decide(set())
        while len(self._jobs) < size.waiting:
            self._come(self.source.make(size.waiting - len(self._jobs)))

    def decide(self, jobs: list[model.Job]) -> int:
        """Release a slot for each job that comes.

        :returns: how many slots were given away.
        """
        before, busy = len(self.taken), self._busy
        places = self._places.random(len(jobs)).tolist()
        for job, place in zip(jobs, places, strict=True):
            number = int(place * len(busy))
            slot_id, busy[number] = busy[number], busy[-1]
            del busy[-1]
            self._slots[slot_id].holder_is_local = None
            self._come([job])
        return len(self.taken) - before

    def _come(self, jobs: list[model.Job]) -> None:
        for job in jobs:
            self._jobs.append(
                literal.Job(
                    id=job.id,
                    host=job.host_id,
                    size_bytes=job.claimed_bytes,
                    arrival_s=job.arrival_s,
                    accelerator=job.accelerator,
                    shapes=pools.BY_NAME[job.accelerator].shapes,
                    avoided=frozenset(),
                    skips=0,
                    is_for_group=False,
                )
            )
            self._now = job.arrival_s
            self._decide({job.id})

    def _decide(self, arrived: set[int]) -> None:
        slots = list(self._slots.values())
        made = literal.Pass(self._rules, slots, self._jobs, arrived, self._now)
        made.run()
        accelerators = {job.id: job.accelerator for job in self._jobs}
        for job_id, slot_id in made.choices:
            self._slots[slot_id].programmed = accelerators[job_id]
            self._busy.append(slot_id)
        self._jobs = made.jobs
        self.taken += made.choices
