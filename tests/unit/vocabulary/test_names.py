# SPDX-License-Identifier: Apache-2.0

"""What is said of names that nothing has."""

import time

import pytest

from fpgapool.vocabulary import names

KNOWN = ("copy", "aes", "aes-cbc", "gzip")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("aex", "; did you mean aes?"),
        ("gzp", "; did you mean gzip?"),
        ("", ";"),
    ],
)
def test_the_nearest_name(name: str, hint: str) -> None:
    assert names.unknown_accelerator(name, KNOWN) == (
        f"unknown accelerator {name!r}{hint}"
        " available: aes, aes-cbc, copy, gzip"
    )


def test_a_pool_without_accelerators() -> None:
    said = names.unknown_accelerator("aes", ())
    assert said == "unknown accelerator 'aes'; available: none"


def test_a_long_list_is_cut() -> None:
    said = names.unknown_accelerator("y", [f"x{n:02}" for n in range(30)])
    assert said.endswith("x18, x19, 10 more")


def test_long_names_and_lists_cost_little() -> None:
    known = [f"accelerator-{n:05}" for n in range(10_000)]
    began_s = time.process_time()
    said = names.unknown_accelerator("accelerator-" * 1000, known)
    assert len(said) < 600
    assert time.process_time() - began_s < 1
