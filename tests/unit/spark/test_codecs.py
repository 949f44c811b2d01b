# SPDX-License-Identifier: Apache-2.0

"""Records become bytes, and come back."""

from __future__ import annotations

import mmap
import tempfile
from typing import Any

import hypothesis
import numpy
import pytest
from hypothesis import strategies as st

from fpgapool import spark


@hypothesis.given(st.lists(st.binary(max_size=40), min_size=1))
def test_bytes_come_back(records: list[bytes]) -> None:
    codec = spark.BytesCodec()
    half = len(records) // 2 + 1
    encoded = b"".join(
        bytes(codec.encode(part))
        for part in (records[:half], records[half:])
        if part
    )
    padded = encoded + bytes(7)
    assert codec.decode(memoryview(padded), len(records)) == records


@pytest.mark.parametrize(
    ("codec", "records"),
    [
        (spark.ArrayCodec("<i8"), [0, -1, 2**62]),
        (spark.ArrayCodec("u1"), [0, 255]),
        (spark.ArrayCodec("<f8"), [0.5, -1.5]),
        (spark.ArrayCodec("<f4", 2), [(1.0, 2.0), (3.0, 4.5)]),
        (spark.ArrayCodec("<f4", 2), [[1, 2]]),
        (spark.ArrayCodec(">i2", 2, 1), [[[1], [2]], [[3], [4]]]),
        (spark.ArrayCodec("<c8", 1), [[1 + 2j]]),
    ],
)
def test_numbers_come_back(
    codec: spark.ArrayCodec, records: list[Any]
) -> None:
    encoded = memoryview(codec.encode(records)).cast("B")
    decoded = codec.decode(bytes(encoded) + bytes(8), len(records))
    assert numpy.array_equal(numpy.array(decoded), numpy.array(records))


@pytest.mark.parametrize(
    ("codec", "records"),
    [
        (spark.ArrayCodec("<i4"), [2**31]),
        (spark.ArrayCodec("u1"), [-1]),
        (spark.ArrayCodec("<i4"), [1.5]),
        (spark.ArrayCodec("<f4"), [1j]),
        (spark.ArrayCodec("<f4"), [None]),
        (spark.ArrayCodec("<f4"), ["1"]),
        (spark.ArrayCodec("<f4"), [(1.0, 2.0)]),
        (spark.ArrayCodec("<f4", 2), [1.0]),
        (spark.ArrayCodec("<f4", 2), [(1.0, 2.0, 3.0)]),
        (spark.ArrayCodec("<f4", 2), [(1.0, 2.0), (3.0,)]),
    ],
)
def test_wrong_records_are_refused(
    codec: spark.ArrayCodec, records: list[Any]
) -> None:
    with pytest.raises(ValueError):
        codec.encode(records)


def test_too_few_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="7 bytes are too few"):
        spark.ArrayCodec("<f8").decode(bytes(7), 1)
    codec = spark.BytesCodec()
    whole = bytes(codec.encode([b"one", b"two"]))
    for length_bytes in range(len(whole)):
        with pytest.raises(ValueError, match="ends within record"):
            codec.decode(whole[:length_bytes], 2)


def test_objects_have_no_bytes() -> None:
    with pytest.raises(ValueError, match="cannot be sent"):
        spark.ArrayCodec("O")


def test_arrays_outlive_a_file() -> None:
    with tempfile.TemporaryFile() as file:
        file.write(numpy.arange(1000, dtype="<i8").tobytes())
        file.flush()
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        numbers = spark.ArrayCodec("<i8").decode(mapped, 1000)
    del mapped
    assert sum(numbers) == 499_500
