# SPDX-License-Identifier: Apache-2.0

"""A partition without Spark, and without a pool."""

from __future__ import annotations

import collections
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from fpgapool import client
from fpgapool import spark
from fpgapool.client.transfers import transfer
from fpgapool.spark import accelerator as accelerators
from fpgapool.spark import partitions
from fpgapool.vocabulary import codes


class Copy(spark.Accelerator):
    id = "copy"
    codec = spark.ArrayCodec("<i8")


class Sums(Copy):
    """Adds three numbers; the pool has no such accelerator."""

    id = "adder"
    params = {"block_records": 3}

    def call(self, element: Any) -> Any:
        return element + 1


class Outcome:
    """A partition that runs, and what is counted."""

    def __init__(self, accelerator: spark.Accelerator) -> None:
        self.counted: collections.Counter[str] = collections.Counter()
        counts = partitions.Counts(
            lambda: self.counted.update(["served"]),
            lambda: self.counted.update(["fallback"]),
        )
        self._partition = partitions.Partition(
            accelerator, "app-1", None, counts
        )

    def run(self, *records: Any) -> list[Any]:
        return list(self._partition.run(iter(records)))


@pytest.fixture(autouse=True)
def _no_pool(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setenv("FPGAPOOL_SOCKET", str(tmp_path / "none.sock"))
    monkeypatch.setenv(partitions.DIRECTORIES_VARIABLE, f"{tmp_path},/none")
    monkeypatch.setattr(partitions, "_request_id", lambda application: "one")


def test_the_processor_computes() -> None:
    outcome = Outcome(Copy())
    numbers = list(range(10_000))
    assert outcome.run(*numbers) == numbers
    assert outcome.counted == {"fallback": 1}


def test_nothing_is_done_for_no_records() -> None:
    outcome = Outcome(Copy())
    assert outcome.run() == []
    assert outcome.counted == {}


def test_without_a_core_the_call_computes() -> None:
    outcome = Outcome(Sums())
    assert outcome.run(1, 2, 3, 4) == [2, 3, 4, 5]
    assert outcome.counted == {"fallback": 1}


def test_without_either_the_error_is_raised() -> None:
    class Adder(Copy):
        id = "adder"

    outcome = Outcome(Adder())
    with pytest.raises(client.FrontDoorUnavailable):
        outcome.run(1)
    assert outcome.counted == {}


class Report:
    def __init__(self, fallback_reason: str | None) -> None:
        self.fallback_reason = fallback_reason


class Sent:
    """What the pool gets, and adds in blocks."""

    def __init__(self) -> None:
        self.name = ""
        self.data = b""
        self.options: dict[str, Any] = {}

    def run_stream(
        self,
        name: str,
        source: Any,
        destination: Any,
        size_bytes: int,
        **options: Any,
    ) -> Report:
        self.name, self.options = name, options
        self.data = source.read()
        assert size_bytes == len(self.data)
        for start in range(0, size_bytes, 24):
            numbers = memoryview(self.data[start : start + 24]).cast("q")
            destination.write(sum(numbers).to_bytes(8, "little"))
        return Report(None)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    made = Sent()
    monkeypatch.setattr(transfer, "run_stream", made.run_stream)
    return made


def test_blocks_have_one_result_and_the_last_may_be_short(sent: Sent) -> None:
    outcome = Outcome(Sums({1: b"weights"}))
    assert outcome.run(1, 2, 3, 4) == [6, 4]
    assert sent.name == "adder"
    assert len(sent.data) == 32
    assert sent.options == {
        "params": {"block_records": 3},
        "arguments": {1: b"weights"},
        "request_id": "one",
        "fallback": "cpu",
    }
    assert outcome.counted == {"served": 1}


def test_other_input_is_padded(sent: Sent) -> None:
    class Padded(Copy):
        chunk_multiple_bytes = 24

    class Two(spark.ArrayCodec):
        def decode(self, buffer: Any, count: int) -> list[Any]:
            return super().decode(buffer, count // 2)

    Padded.results = Two("<i8")
    assert Outcome(Padded()).run(1, 2, 3, 4) == [6, 4]
    assert sent.data[32:] == bytes(16)


def test_wrong_amounts_of_output_are_refused(sent: Sent) -> None:
    with pytest.raises(ValueError, match="returned 16 bytes instead of 4"):
        Outcome(Copy()).run(1, 2, 3, 4)


@pytest.mark.parametrize(
    ("code", "computes"),
    [
        (codes.SESSION_LOST, True),
        (codes.CORE_UNAVAILABLE, True),
        (codes.QUEUE_FULL, True),
        (codes.CORE_FAILED, True),
        (codes.DEVICE_FAILED, True),
        (codes.KERNEL_HUNG, True),
        (codes.WORKER_LOST, True),
        (codes.INVALID_PARAMS, False),
        (codes.INVALID_INPUT, False),
        (codes.INVALID_ARGUMENT, False),
        (codes.UNAUTHORIZED, False),
        (codes.FORBIDDEN, False),
        (codes.QUOTA_EXCEEDED, False),
        (codes.UNKNOWN_ACCELERATOR, False),
        (codes.CHECKSUM_MISMATCH, False),
    ],
)
def test_which_errors_the_call_stands_in_for(
    monkeypatch: pytest.MonkeyPatch, code: str, computes: bool
) -> None:
    def run_stream(*_: Any, **__: Any) -> Any:
        raise client.FpgapoolError(code, "as planned")

    monkeypatch.setattr(transfer, "run_stream", run_stream)
    outcome = Outcome(Sums())
    if computes:
        assert outcome.run(1) == [2]
        assert outcome.counted == {"fallback": 1}
    else:
        with pytest.raises(client.FpgapoolError, match="as planned"):
            outcome.run(1)
        assert outcome.counted == {}


def test_large_data_is_in_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setattr(partitions, "SPILL_BYTES", 1000)
    made = []

    class Watched(spark.ArrayCodec):
        def encode(self, records: list[Any]) -> Any:
            made.append(len(records))
            return super().encode(records)

    class Large(Copy):
        codec = Watched("<i8")

    numbers = list(range(300_000))
    results = Outcome(Large()).run(*numbers)
    assert results == numbers
    # A few at first, then about a megabyte together at most.
    assert made[0] == 1
    assert max(made) == partitions.MAX_BATCH_RECORDS
    assert list(tmp_path.iterdir()) == []


def test_records_are_read_once_and_in_turn() -> None:
    def endless() -> Iterator[int]:
        yield 1
        raise KeyError("of the program")

    partition = partitions.Partition(
        Copy(), "app-1", None, partitions.Counts(bool, bool)
    )
    with pytest.raises(KeyError, match="of the program"):
        list(partition.run(endless()))


class Unnamed(spark.Accelerator):
    codec = spark.ArrayCodec("<i8")


class Without(spark.Accelerator):
    id = "copy"


class Negative(Copy):
    chunk_multiple_bytes = 0


class WrongResults(Copy):
    results = "<i8"  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("accelerator", "told"),
    [
        (Unnamed(), "Unnamed.id"),
        (Without(), "Without.codec"),
        (WrongResults(), "WrongResults.results"),
        (Negative(), "Negative.chunk_multiple_bytes"),
        ("copy", "'copy' must be an instance"),
        (Copy, "must be an instance"),
    ],
)
def test_incomplete_accelerators_are_refused(
    accelerator: Any, told: str
) -> None:
    with pytest.raises(client.InvalidRequest, match=told) as caught:
        accelerators.check(accelerator)
    assert caught.value.code == codes.INVALID_REQUEST
