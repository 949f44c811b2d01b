# SPDX-License-Identifier: Apache-2.0

"""Random groups, created all or none, among sets and single sessions."""

import itertools
import typing

import numpy
import pytest

from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import state
from fpgapool.core.queues import sharing
from fpgapool.strategies import shared
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.harness import cases
from tests.harness import pool_invariants
from tests.property import small_pools
from tests.property import test_session_sets
from tests.unit.core import pools

_LASTS_S = 10.0
_ENDS_S = 120.0
_PLACEMENTS = (None, *states.PLACEMENTS)
_HOSTS = ("small", "large", "small")


class Life(test_session_sets.Life):
    """A pool in virtual time whose groups end some time after their start.

    :ivar groups: as they were created.
    :ivar active_s: when each group had its first slots.
    :ivar refused: why groups did not get them.
    """

    def __init__(self, pool: state.PoolState, prepares_s: float) -> None:
        super().__init__(pool, 0.2)
        self.prepares_s = prepares_s
        self.groups: dict[int, model.Group] = {}
        self.active_s: dict[int, float] = {}
        self.refused: dict[int, str] = {}
        self.deleted: set[int] = set()
        self.leaves_s: dict[tuple[int, int], float] = {}

    def _obey(
        self,
        order: instructions.Instruction,
        now: float,
        jobs_s: dict[int, float],
    ) -> None:
        match order:
            case instructions.Program(slot_id, job_id, generation):
                if job_id < 0:
                    ready_s = now + self.prepares_s
                    self.expect(ready_s, events.SlotReady(slot_id, generation))
                    return
            case instructions.Grant(job_id=job_id):
                if job_id < 0:
                    return
            case instructions.Revoke(slot_id, job_id, generation):
                if job_id < 0:
                    self.expect(now, events.SlotReleased(slot_id, generation))
            case instructions.RejectGroup(group_id, code):
                self.refused[group_id] = code
            case instructions.Resize(group_id, _, kind):
                if kind in (states.GROUP_ACTIVE, states.GROUP_RESIZING):
                    self._active(group_id, now)
                elif kind == states.GROUP_DELETED:
                    self.deleted.add(group_id)
        super()._obey(order, now, jobs_s)

    def _active(self, group_id: int, now: float) -> None:
        if group_id not in self.active_s:
            self.active_s[group_id] = now
            self.expect(now + _LASTS_S, events.GroupDeleted(group_id))


def _drawn(group_id: int, random: numpy.random.Generator) -> model.Group:
    least = int(random.integers(1, 5))
    size = least + int(random.integers(2))
    return model.Group(
        id=group_id,
        accelerator=str(random.choice(["aes", "aes", "fft"])),
        size=size,
        min_size=least,
        max_size=size,
        project=str(random.choice(["a", "b"])),
        all_or_none=bool(random.random() < 0.8),
        placement=_PLACEMENTS[random.integers(4)],
        wait_timeout_s=float(random.choice([20.0, 1e6])),
    )


def _life(
    name: str, random: numpy.random.Generator
) -> tuple[Life, typing.Any]:
    strategy = small_pools.INNER[name]({}, 1)
    if random.random() < 0.5:
        options = sharing.ShareOptions(quantum_bytes=2e8)
        strategy = shared.SharedStrategy(strategy, options, 50.0)
    pool = state.PoolState(strategy)
    pool.step(
        [
            events.AcceleratorsChanged((pools.AES, pools.FFT)),
            *(
                events.HostUp(pools.make_host(host_id, 3, shape))
                for host_id, shape in enumerate(_HOSTS)
            ),
        ],
        0.0,
    )
    life, numbers, jobs_s = Life(pool, 1.0), itertools.count(1), {}
    for _ in range(25):
        now = float(random.uniform(0, 60))
        count = int(random.choice([1, 1, 1, 2, 3]))
        jobs = [
            pools.make_job(next(numbers), arrival_s=now, project="a")
            for _ in range(count)
        ]
        jobs_s |= {job.id: float(random.exponential(5.0)) for job in jobs}
        life.submit(jobs, is_set=count > 1)
    for group_id in range(1, 13):
        group = life.groups[group_id] = _drawn(group_id, random)
        life.expect(float(random.uniform(0, 60)), events.GroupCreated(group))
        # Some want more slots than there are, one by one.
        life.expect(_ENDS_S, events.GroupDeleted(group_id))
    return life, jobs_s


def _check_end(life: Life) -> None:
    """Nobody waits, and nothing is left."""
    pool = life.pool
    assert not pool.waiting()
    assert not pool.assignments()
    assert not pool.sets.of_job
    assert not pool._members.groups
    assert life.groups.keys() == life.refused.keys() | life.deleted
    known = {codes.SET_IMPOSSIBLE, codes.WAIT_TIMEOUT}
    assert set(life.refused.values()) <= known
    pool_invariants.check(pool)


@pytest.mark.parametrize("name", sorted(small_pools.INNER))
@pytest.mark.parametrize("seed", cases.first(0, 1))
def test_each_has_all_or_none(name: str, seed: int) -> None:
    """The invariants of pools say after each step that none has some."""
    random = numpy.random.default_rng([seed, 11])
    life, jobs_s = _life(name, random)
    life.run(jobs_s)
    assert life.active_s
    assert not life.refused.keys() & life.active_s.keys()
    _check_end(life)


@pytest.mark.parametrize(
    "name", cases.some(["fifo", "wra", "auto"], lambda name: name != "auto")
)
@pytest.mark.parametrize("seed", cases.first(0, 1))
def test_faults(name: str, seed: int) -> None:
    """Hosts are lost, slots fail, and groups are deleted at any time."""
    random = numpy.random.default_rng([seed, 12])
    life, jobs_s = _life(name, random)
    for _ in range(4):
        host_id, lost_s = int(random.integers(3)), float(random.uniform(0, 60))
        life.expect(lost_s, events.HostLost(host_id))
        host = pools.make_host(host_id, 3, _HOSTS[host_id])
        life.expect(lost_s + 15.0, events.HostUp(host))
    for group_id in random.choice(list(life.groups), 3, replace=False):
        life.expect(
            float(random.uniform(0, 90)), events.GroupDeleted(int(group_id))
        )
    life.run(jobs_s)
    _check_end(life)
