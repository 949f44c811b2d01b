# SPDX-License-Identifier: Apache-2.0

"""What log lines show of a request, also in the service that is called."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from oslo_context import context as oslo_context

from fpgapool.common.messaging import context

GLOBAL = "req-01234567-89ab-cdef-0123-456789abcdef"
PARENT = f"00-{'1' * 32}-{'2' * 16}-01"
CARRIER = {"global_request_id": GLOBAL, "traceparent": PARENT}


def bound() -> dict[str, Any] | None:
    current = oslo_context.get_current()
    if current is None:
        return None
    return {
        "request_id": current.request_id,
        "global_request_id": current.global_request_id,
    }


def test_a_block_shows_its_request_and_then_the_one_before() -> None:
    # Other tests of this process may have left one.
    before = bound()
    with context.serving("outer"):
        with context.serving("inner", CARRIER):
            assert bound() == {
                "request_id": "inner",
                "global_request_id": GLOBAL,
            }
        assert bound() == {"request_id": "outer", "global_request_id": None}
    assert bound() == before


def test_the_called_service_shows_the_same() -> None:
    serializer = context.Serializer()
    with context.serving("mine", CARRIER):
        sent = serializer.serialize_context({})
    assert sent == {**CARRIER, "request_id": "mine"}
    found: list[Any] = []

    def called() -> None:
        serializer.deserialize_context(sent)
        found.append(bound())
        context.bind(None)
        found.append(bound())

    thread = threading.Thread(target=called)
    thread.start()
    thread.join()
    assert found == [
        {"request_id": "mine", "global_request_id": GLOBAL},
        None,
    ]


@pytest.mark.security
@pytest.mark.parametrize(
    "sent",
    [
        {"request_id": "a b\n", "global_request_id": "x\n"},
        {"request_id": 1},
        {"is_admin": True},
        None,
        [],
    ],
)
def test_the_bus_forges_nothing(sent: Any) -> None:
    assert context.Serializer().deserialize_context(sent) == {}
    assert bound() is None


def test_without_a_request_nothing_is_sent() -> None:
    assert context.Serializer().serialize_context({}) == {}
