# SPDX-License-Identifier: Apache-2.0

"""Holders that send more than they claimed."""

import dataclasses

import pytest

from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.vocabulary import codes
from tests.unit.core import pools

YIELD = instructions.Yield(10, 1, 1, codes.YIELDED)
ENDED = instructions.Revoke(10, 1, 1, codes.CLAIM_EXCEEDED)


@pytest.fixture(params=[True, False], ids=["stateless", "stateful"])
def called_in(request):
    """A pool with one slot that job 1 has, and how it is called in."""
    pool = pools.make_pool(pools.make_host(1, slot_count=1))
    aes = dataclasses.replace(pools.AES, stateless=request.param)
    pool.step(events.AcceleratorsChanged((aes, pools.FFT)))
    pool.submit(pools.make_job(1))
    pool.hear(events.SlotReady, 10)
    pool.hear(events.HolderAttached, 10)
    return pool, YIELD if request.param else ENDED


def calls(output):
    return [i for i in output if not isinstance(i, instructions.WakeAt)]


def test_beyond_the_claim_all_is_well_while_nobody_waits(called_in):
    pool, _ = called_in
    assert pool.hear(events.ClaimExceeded, 10) == []
    pool.submit(pools.make_job(2, accelerator="fft"))
    assert not pool.state.assignments()[10].revoked, "fft does not fit"


def test_whoever_waits_already_gets_the_slot(called_in):
    pool, call = called_in
    pool.submit(pools.make_job(2))
    assert calls(pool.hear(events.ClaimExceeded, 10)) == [call]
    assert pool.state.assignments()[10].revoked
    assert calls(pool.hear(events.ClaimExceeded, 10)) == []
    output = pool.hear(events.SlotReleased, 10)
    assert pools.taken(output) == [(2, 10)]


def test_whoever_comes_later_gets_the_slot(called_in):
    pool, call = called_in
    pool.hear(events.ClaimExceeded, 10)
    assert calls(pool.submit(pools.make_job(2))) == [call]


def test_a_job_that_finds_another_slot_calls_nobody_in(called_in):
    pool, call = called_in
    pool.hear(events.ClaimExceeded, 10)
    output = pool.step(
        events.HostUp(pools.make_host(2, slot_count=1)),
        events.JobSubmitted(pools.make_job(2)),
    )
    assert pools.taken(output) == [(2, 20)]
    assert call not in output


def test_a_slot_that_nobody_could_use_is_not_called_in(called_in):
    pool, _ = called_in
    pool.hear(events.ClaimExceeded, 10)
    pool.step(events.SlotFaulty(10, codes.SLOT_FAULTY))
    assert calls(pool.submit(pools.make_job(2))) == []


def test_word_of_an_earlier_holder_is_stale(called_in):
    pool, _ = called_in
    pool.hear(events.SlotReleased, 10)
    pool.submit(pools.make_job(2), pools.make_job(3))
    assert calls(pool.step(events.ClaimExceeded(10, 1))) == []


def test_a_cancelled_holder_is_not_called_in_again(called_in):
    pool, _ = called_in
    pool.hear(events.ClaimExceeded, 10)
    pool.step(events.JobCancelled(1, codes.CANCELLED_BY_CLIENT))
    assert calls(pool.submit(pools.make_job(2))) == []
