# SPDX-License-Identifier: Apache-2.0

"""Successors among whatever else happens in a pool."""

import numpy
import pytest

from fpgapool.core import events
from fpgapool.core import instructions
from tests.harness import pool_invariants
from tests.property import small_pools


@pytest.mark.parametrize("name", small_pools.INNER)
def test_all_books_agree(name: str) -> None:
    assert sum(successors(name, seed) for seed in range(12)) > 20


def successors(name: str, seed: int) -> int:
    """Play a history, and count how often a holder has a successor."""
    random = numpy.random.default_rng(seed)
    pool = small_pools.make_pool(name, random)
    now, number, seen = 0.0, 0, 0
    for _ in range(120):
        now += float(random.choice([0.0, 0.1, 3.0, 30.0]))
        batch = small_pools.go_on(pool, now, random)
        for slot_id, one in pool.assignments().items():
            kind = random.choice(
                [None, events.HolderLeaves, events.HolderStays]
            )
            if kind is not None:
                batch.append(kind(slot_id, one.generation))
            former = pool.leaving(slot_id)
            if former is not None:
                seen += 1
                kind = random.choice([None, *small_pools.NEXT[2:]])
                if kind is not None:
                    batch.append(kind(slot_id, former.generation))
                if former.record and random.random() < 0.1:
                    job_id = former.record.job.id
                    batch.append(events.JobCancelled(job_id, "why"))
                if former.record and random.random() < 0.3:
                    job_id = former.record.job.id
                    host_id = int(random.integers(6))
                    batch.append(events.JobMoved(job_id, host_id))
        for _ in range(int(random.integers(3))):
            number += 1
            job = small_pools.make_job(number, now, random)
            batch.append(events.JobSubmitted(job))
        told = pool.step(batch, now)
        revoked = {
            (one.slot_id, one.generation)
            for one in told
            if isinstance(one, instructions.Revoke | instructions.Yield)
        }
        for slot_id, generation in revoked:
            hold = pool.leaving(slot_id)
            if hold is None or hold.generation != generation:
                hold = pool.hold(slot_id)
            assert hold is None or hold.generation >= generation
        pool_invariants.check(pool)
    return seen
