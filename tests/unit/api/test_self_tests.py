# SPDX-License-Identifier: Apache-2.0

"""Tests of slots that operators ask for."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from fpgapool.common import exception
from fpgapool.objects import identity
from fpgapool.vocabulary import codes
from tests.unit.api import fakes

SLOT = identity.slot_id(identity.device_id(fakes.HOST, "board0"), 2)
PATH = f"/v1/slots/{SLOT}/test"
BODY: dict[str, Any] = {"test": {}}


class SlotTests(fakes.Api):
    """Notes what is to be tested, and that the slot is out then."""

    def __init__(self) -> None:
        super().__init__(inventory_cache_s=60.0)
        self.tested: list[tuple[Any, ...]] = []
        self.conductor.test_slot = self._test_slot  # type: ignore[attr-defined]

    def _test_slot(self, *arguments: Any) -> None:
        self.conductor._fail()
        self.tested.append(arguments)
        found = self.database.inventory()
        slots = [
            dataclasses.replace(one, faulty=one.number == 2)
            for one in found.slots
        ]
        self.database.change_inventory(slots=slots)


@pytest.fixture
def world() -> Iterator[SlotTests]:
    """A world that remembers for a minute, of which nothing passes."""
    made = SlotTests()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("wish", "accelerator"), [({}, ""), ({"accelerator": "aes"}, "aes")]
)
def test_the_conductor_is_told(
    world: SlotTests, wish: dict[str, str], accelerator: str
) -> None:
    shown = world.ask("GET", f"/v1/slots/{SLOT}", fakes.ADMIN).json["slot"]
    assert shown["state"] == "idle"
    path = f"/v1/slots/{SLOT.upper()}/test"
    answer = world.ask("POST", path, fakes.ADMIN, body={"test": wish})
    assert answer.status_code == 202
    assert world.tested == [(fakes.HOST, "board0", 2, accelerator)]
    # Nothing of what was remembered before.
    assert answer.json["slot"]["id"] == SLOT
    assert answer.json["slot"]["state"] == "faulty"
    shown = world.ask("GET", f"/v1/slots/{SLOT}", fakes.ADMIN).json["slot"]
    assert shown["state"] == "faulty"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"test": None},
        {"test": []},
        {"test": {"accelerator": 7}},
        {"test": {"accelerator": ""}},
        {"test": {"accelerator": "a" * 1000}},
        {"test": {"extra": 1}},
        {"test": {}, "extra": 1},
    ],
)
def test_bad_bodies(world: SlotTests, body: Any) -> None:
    error = world.error("POST", PATH, fakes.ADMIN, body=body)
    assert error == (400, codes.INVALID_REQUEST)
    assert world.tested == []


def test_it_is_for_administrators(
    world: SlotTests, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "fpgapool.audit")
    for token in (fakes.READER, fakes.MEMBER, fakes.SERVICE, fakes.NOBODY):
        error = world.error("POST", PATH, token, body=BODY)
        assert error == (403, codes.FORBIDDEN)
    assert world.tested == []
    world.ask("POST", PATH, fakes.ADMIN, body=BODY)
    (line,) = [
        one.getMessage()
        for one in caplog.records
        if '"outcome": "done"' in one.getMessage()
    ]
    assert "fpgapool:slots:test" in line
    assert SLOT in line


def test_a_slot_that_is_not_there(world: SlotTests) -> None:
    path = f"/v1/slots/{uuid.UUID(int=5)}/test"
    error = world.error("POST", path, fakes.ADMIN, body=BODY)
    assert error == (404, codes.SLOT_NOT_FOUND)
    assert world.tested == []


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (exception.NotLeader(reason="no"), (503, codes.NOT_LEADER)),
        (
            exception.SlotNotFound(slot=1, device="d", host_uuid="h"),
            (404, codes.SLOT_NOT_FOUND),
        ),
        *[
            (exception.SlotNotTested(code=code, reason="no"), (status, code))
            for code, status in (
                (codes.SLOT_IN_USE, 409),
                (codes.SLOT_NOT_TESTABLE, 409),
                (codes.HOST_DOWN, 409),
                (codes.NO_COMPATIBLE_SLOT, 409),
                (codes.UNKNOWN_ACCELERATOR, 400),
            )
        ],
    ],
)
def test_the_conductor_may_refuse(
    world: SlotTests, failure: Exception, expected: tuple[int, str]
) -> None:
    world.conductor.failure = failure
    assert world.error("POST", PATH, fakes.ADMIN, body=BODY) == expected
