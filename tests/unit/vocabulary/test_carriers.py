# SPDX-License-Identifier: Apache-2.0

"""What strangers' carriers may hold."""

from __future__ import annotations

import pytest

from fpgapool.vocabulary import carriers

ID = "req-01234567-89ab-cdef-0123-456789abcdef"
PARENT = f"00-{'1' * 32}-{'2' * 16}-01"


def test_valid_members_stay() -> None:
    given = {"global_request_id": ID, "traceparent": PARENT}
    assert carriers.valid({**given, "other": 1}) == given


@pytest.mark.security
@pytest.mark.parametrize(
    "given",
    [
        None,
        [],
        "text",
        {"global_request_id": ID + "\n", "traceparent": PARENT + "\n"},
        {"global_request_id": f"{ID} x", "traceparent": 1},
        {"global_request_id": {}, "traceparent": f"01{PARENT[2:]}"},
        {"traceparent": f"00-{'0' * 32}-{'2' * 16}-01"},
        {"traceparent": f"00-{'1' * 32}-{'0' * 16}-01"},
        {"traceparent": PARENT.replace("1", "A")},
    ],
)
def test_all_else_is_dropped(given: object) -> None:
    assert carriers.valid(given) == {}


@pytest.mark.security
@pytest.mark.parametrize("given", [None, 1, "", "a b", "a\n", "x" * 65])
def test_other_request_ids_are_dropped(given: object) -> None:
    assert carriers.request_id(given) == ""
    assert carriers.request_id("mine:1") == "mine:1"
