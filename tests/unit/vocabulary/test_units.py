# SPDX-License-Identifier: Apache-2.0

"""Amounts as people read them."""

import pytest

from fpgapool.vocabulary import units


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (999.6, "1 kB"),
        (76800, "76.8 kB"),
        (1.2e9, "1.2 GB"),
        (2**63, "9.22 EB"),
        (1e24, "1e+06 EB"),
    ],
)
def test_bytes(value: float, text: str) -> None:
    assert units.bytes_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0.0 s"),
        (0.84, "0.8 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (1409.1147627830505, "23 min 29 s"),
        (3599.7, "1 h 0 min"),
        (7384, "2 h 3 min"),
        (86399.9, "1 d 0 h"),
        (180_000, "2 d 2 h"),
    ],
)
def test_seconds(value: float, text: str) -> None:
    assert units.seconds_text(value) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 slots"), (1, "1 slot"), (2, "2 slots")]
)
def test_numbers_of_things(count: int, text: str) -> None:
    assert units.count_text(count, "slot") == text
