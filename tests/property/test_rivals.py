# SPDX-License-Identifier: Apache-2.0

"""Who competes for slots is who the rule names, whatever was found before."""

import itertools
import typing
from collections import abc

import hypothesis
import hypothesis.strategies as st
import numpy

from fpgapool.core import events
from fpgapool.core import model
from fpgapool.core import ordered
from fpgapool.core import view as pool_view
from fpgapool.core.queues import queued
from fpgapool.core.queues import sharing
from fpgapool.core.topology import slots
from fpgapool.strategies import rounds
from fpgapool.strategies import shared
from tests.property import fuzzing
from tests.property import small_pools
from tests.unit.core import pools

PROJECTS = tuple("abcdefghij")
WEIGHTS = {"b": 2.0, "c": 0.5, "d": 7.0}


class CheckedRounds(rounds.Rounds):
    """Compares what it finds with a search of all jobs."""

    def _find(self, cursor: ordered.Key) -> rounds.Rivals:
        found = super()._find(cursor)
        assert found.shown.lanes == self.rivals(cursor)
        for slot in self.view.slots.idle_slots():
            self.compare(found.shown, slot)
        self.compare_able(found.shown)
        return found

    def rivals(self, cursor: ordered.Key) -> list[queued.Lane]:
        """The first of one round that may get an idle slot."""
        accounts = typing.cast(sharing.Accounts, self.view.accounts)
        waiting = sorted(
            (account for account in accounts.all() if account.waits),
            key=lambda account: account.key,
        )
        able = [
            (max(account.round, accounts.round), lane)
            for account in waiting
            if account.key >= cursor
            and not accounts.is_full(account.project)
            and (lane := self.able_lane(account.project)) is not None
        ]
        same = [lane for round_, lane in able if round_ == able[0][0]]
        return same[: self._breadth]

    def able_lane(self, project: str) -> queued.Lane | None:
        for _, lane in self.view.jobs.lanes[project].ranked():
            if lane not in self._done and any(
                group.fits(slot.id, slot.shape)
                for group in lane.groups()
                for slot in self.view.slots.idle_slots()
                if len(group.jobs)
            ):
                return lane
        return None

    def keys(
        self, shown: queued.Together, slot: slots.Slot
    ) -> abc.Iterator[tuple[ordered.Key, queued.JobRecord]]:
        """The jobs of these lanes that fit a slot."""
        for record in self.view.jobs.records.values():
            group = record.group
            if (
                group is not None
                and group.lane in shown.lanes
                and group.fits(slot.id, slot.shape)
            ):
                yield record.key, record

    def compare(self, shown: queued.Together, slot: slots.Slot) -> None:
        keys = dict(self.keys(shown, slot))
        first = shown.first_fitting(slot.id, slot.shape)
        assert first == min(keys, default=None)
        if not self.view.jobs.by_host:
            return
        for is_open in (True, False):
            found = shown.first_for(slot.id, slot.shape, slot.host.id, is_open)
            expected = [
                key
                for key, record in keys.items()
                if record.job.host_id == slot.host.id
                or (is_open and not record.homed)
            ]
            assert found == min(expected, default=None)

    def compare_able(self, shown: queued.Together) -> None:
        table = self.view.slots
        able = [
            key
            for slot in table.idle_slots()
            for key, _ in self.keys(shown, slot)
        ]
        found = shown.first_able(table.idle_shapes(), self.view.has_idle)
        assert found == min(able, default=None)


class CheckedShares(shared.SharedStrategy):
    def _rounds_of(self, view: pool_view.PoolView) -> rounds.Rounds:
        if self._rounds is None:
            self._rounds = CheckedRounds(self.inner, view, self.breadth)
        return self._rounds


def make_pool(
    name: str, breadth: int, random: numpy.random.Generator
) -> pools.Pool:
    options: dict[str, object] = {}
    if name in ("ra", "wra"):
        options = {"remote_limit": 1, "fallback": bool(random.integers(2))}
    scheduler = CheckedShares(
        small_pools.INNER[name](options, 0),
        sharing.ShareOptions(True, 3e8, WEIGHTS),
        max_wait_s=random.choice([None, 20.0]),
        preempt_gain=0.25,
    )
    scheduler.breadth = breadth
    made = [
        pools.make_host(
            host_id,
            slot_count=int(random.integers(1, 4)),
            shape=str(random.choice(["small", "large"])),
        )
        for host_id in range(4)
    ]
    pool = pools.make_pool_of(scheduler, *made)
    pool.step(events.AcceleratorsChanged((pools.AES, pools.FFT)))
    return pool


def arrive(
    ids: abc.Iterator[int], now: float, random: numpy.random.Generator
) -> events.JobSubmitted:
    choose = random.choice
    return events.JobSubmitted(
        pools.make_job(
            next(ids),
            choose([None, *range(4)]),
            accelerator=str(choose(["aes", "aes", "fft"])),
            claimed_bytes=float(choose([1e6, 1e8, 3e8, 5e9])),
            arrival_s=now,
            project=str(choose(PROJECTS)),
            priority=int(choose([0, 0, 0, 2, -1])),
            deadline_s=choose([None, now + 3.0, now + 90.0]),
            wait_timeout_s=choose([None, None, 9.0]),
        )
    )


def happen(
    pool: pools.Pool, random: numpy.random.Generator
) -> abc.Iterator[events.Event]:
    """What comes besides new jobs."""
    for slot_id, one in pool.state.assignments().items():
        draw = random.random()
        if draw < 0.25:
            yield events.SlotReleased(slot_id, one.generation)
        elif one.phase is model.Phase.PREPARING:
            if draw < 0.35:
                yield events.PrepareFailed(slot_id, one.generation, "FAILED")
            elif draw < 0.7:
                yield events.SlotReady(slot_id, one.generation)
        elif draw < 0.4:
            yield events.QuantumDone(slot_id, one.generation, 10**8)
    draw = random.random()
    limit = random.choice([None, 1, 3])
    if draw < 0.1:
        yield events.SessionLimitsChanged(limit, (("a", 2), ("e", None)))
    elif draw < 0.2:
        yield events.DeviceDisabled(int(random.integers(4)))
    elif draw < 0.3:
        yield events.DeviceEnabled(int(random.integers(4)))
    # A group cancels its own jobs.
    waiting = [job for job in pool.state.waiting() if job.group_id is None]
    if waiting and draw > 0.7:
        chosen = int(random.integers(len(waiting)))
        yield events.JobCancelled(waiting[chosen].id, "CANCELLED_BY_CLIENT")


@hypothesis.given(
    name=st.sampled_from(sorted(small_pools.INNER)),
    breadth=st.sampled_from([1, 3, 64]),
    seed=st.integers(0, 2**32 - 1),
)
@fuzzing.examples(80)
def test_rivals_are_the_first_of_their_round(
    name: str, breadth: int, seed: int
) -> None:
    random = numpy.random.default_rng(seed)
    pool = make_pool(name, breadth, random)
    ids = itertools.count(1)
    now = 0.0
    if random.random() < 0.3:
        pool.step(
            events.GroupCreated(
                model.Group(
                    id=1, accelerator="aes", size=2, min_size=1, max_size=3
                )
            )
        )
    for _ in range(40):
        now += float(random.choice([0.0, 0.1, 1.0, 4.0]))
        count = int(random.choice([0, 1, 1, 2, 12]))
        pool.step(
            *happen(pool, random),
            *(arrive(ids, now, random) for _ in range(count)),
            now=now,
        )
