# SPDX-License-Identifier: Apache-2.0

"""Partitions of Spark whose slots fail in the middle."""

import collections

import pytest

from fpgapool import client
from fpgapool import spark
from fpgapool.spark import partitions
from fpgapool.vocabulary import codes
from tests.functional.client import fakepool

#: Several chunks.
NUMBERS = list(range(20_000))


class Adder(spark.Accelerator):
    """Is in the fake pool only.

    :ivar called: the records that the processor has computed.
    """

    id = "adder"
    params = {"key": "00ff"}
    codec = spark.ArrayCodec("<i8")

    def __init__(self) -> None:
        super().__init__()
        self.called: list[int] = []

    def call(self, element):
        self.called.append(int(element))
        return element + 1


class Uncallable(spark.Accelerator):
    id = "adder"
    params = {"key": "00ff"}
    codec = spark.ArrayCodec("<i8")


@pytest.fixture
def compute(monkeypatch):
    """Return a function that computes a partition, and what is counted."""
    counted: collections.Counter[str] = collections.Counter()
    counts = partitions.Counts(
        lambda: counted.update(["served"]),
        lambda: counted.update(["fallback"]),
    )
    monkeypatch.setattr(partitions, "_request_id", lambda application: "one")

    def computed(pool, accelerator):
        monkeypatch.setenv("FPGAPOOL_SOCKET", pool.path)
        partition = partitions.Partition(accelerator, "app", None, counts)
        return list(partition.run(iter(NUMBERS)))

    return computed, counted


def test_the_call_stands_in_for_a_core_that_fails(pools, compute):
    computed, counted = compute
    pool = pools()
    pool.worker.fail_at = 3 * fakepool.CHUNK_BYTES
    accelerator = Adder()
    assert computed(pool, accelerator) == [one + 1 for one in NUMBERS]
    assert accelerator.called == NUMBERS
    assert counted == {"fallback": 1}


def test_the_call_stands_in_for_a_worker_that_dies(pools, compute):
    """Its core has a state, so other slots begin anew, and fail, too."""
    computed, counted = compute
    budgets = (3 * fakepool.CHUNK_BYTES,)
    options = {"mortal": True, "local": False}
    pool = pools("digest", budgets, **options)
    pool.again = [
        fakepool.Worker("digest", budgets, **options) for _ in range(3)
    ]
    accelerator = Adder()
    assert computed(pool, accelerator) == [one + 1 for one in NUMBERS]
    assert accelerator.called == NUMBERS
    assert counted == {"fallback": 1}
    assert pool.again == []


def test_without_a_call_the_attempt_fails(pools, compute):
    computed, counted = compute
    pool = pools()
    pool.worker.fail_at = 3 * fakepool.CHUNK_BYTES
    with pytest.raises(client.SessionFailed) as caught:
        computed(pool, Uncallable())
    assert caught.value.code == codes.CORE_FAILED
    assert counted == {}


@pytest.mark.parametrize("code", [codes.INVALID_PARAMS, codes.INVALID_INPUT])
def test_wrong_use_is_not_hidden(pools, compute, code):
    computed, counted = compute
    pool = pools()
    pool.worker.refuse = (code, "as planned")
    accelerator = Adder()
    with pytest.raises(client.FpgapoolError) as caught:
        computed(pool, accelerator)
    assert caught.value.code == code
    assert accelerator.called == []
    assert counted == {}
