# SPDX-License-Identifier: Apache-2.0
"""Slots that instances have reserved, as the API shows and changes them."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from fpgapool.common import exception
from fpgapool.db import api as db_api
from fpgapool.objects import identity
from fpgapool.vocabulary import codes
from tests.unit.api import fakes

DEVICE = identity.device_id(fakes.HOST, "board0")
PATH = f"/v1/devices/{DEVICE}"
# The first holds slot 1 of the fake database.
VMS = [str(uuid.UUID(int=number)) for number in (1, 2, 9)]


class Reserving(fakes.Api):
    """Keeps what was said of the board, as conductor and database do."""

    def __init__(self, **options: Any) -> None:
        super().__init__(policies=fakes.OPEN, **options)
        self.said: list[tuple[Any, ...]] = []
        self.count = 0
        self._plain = self.database.inventory
        self.database.inventory = self._inventory  # type: ignore[method-assign]
        self.conductor.set_reservable_slots = self._set  # type: ignore[attr-defined]
        self.conductor.administer = self._administer  # type: ignore[attr-defined]

    def _set(self, host_uuid: str, device: str, slots: int) -> None:
        self.conductor._fail()
        self.said.append((host_uuid, device, slots))
        self.count = slots

    def _administer(self, *arguments: Any, **options: Any) -> None:
        self.said.append((*arguments, options))

    def _inventory(self) -> db_api.Inventory:
        found = self._plain()
        board = dataclasses.replace(
            found.devices[0], reservable_slots=self.count
        )
        return dataclasses.replace(found, devices=[board])

    def device(self) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("GET", PATH, fakes.ADMIN).json[
            "device"
        ]
        return found

    def reserved_for(self, caller: Any) -> list[str | None]:
        slots = self.ask("GET", "/v1/slots?sort_key=number", caller).json
        return [slot["reserved_for"] for slot in slots["slots"]]


@pytest.fixture
def world() -> Iterator[Reserving]:
    """A world that remembers for a minute, of which nothing passes."""
    made = Reserving(inventory_cache_s=60.0)
    yield made
    made.close()


def test_slots_are_made_reservable(world: Reserving) -> None:
    assert world.device()["reservable_slots"] == 0
    wish = {"reservable_slots": 2}
    answer = world.ask("PATCH", PATH, fakes.ADMIN, body=wish)
    assert answer.json["device"]["reservable_slots"] == 2
    assert world.said == [(fakes.HOST, "board0", 2)]
    world.said.clear()
    wish = {"reservable_slots": 0, "state": "disabled"}
    answer = world.ask("PATCH", PATH, fakes.ADMIN, body=wish)
    assert answer.status_code == 200
    assert [one[2] for one in world.said] == [0, "disabled"]


@pytest.mark.parametrize(
    "wish",
    [{"reservable_slots": value} for value in (-1, 1.5, "1", None, True)]
    + [
        {},
        {"reason": "why"},
        {"reservable_slots": 1, "reason": "why"},
        {"reservable_slots": 1, "drain_deadline_s": 3},
        {"reservable_slots": 1, "slots": 2},
    ],
    ids=repr,
)
def test_what_makes_no_sense_is_refused(
    world: Reserving, wish: dict[str, Any]
) -> None:
    error = world.error("PATCH", PATH, fakes.ADMIN, body=wish)
    assert error == (400, codes.INVALID_REQUEST)
    assert world.said == []


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (exception.FewerThanReserved(reserved=2, device="board0"), 409),
        (exception.InvalidRequest(reason="4 slots only"), 400),
        (exception.DeviceNotFound(device="board0", host_uuid="h"), 404),
    ],
    ids=["fewer", "many", "gone"],
)
def test_what_the_conductor_refuses(
    world: Reserving, failure: exception.FpgapoolException, status: int
) -> None:
    world.conductor.failure = failure
    wish = {"reservable_slots": 1, "state": "enabled"}
    error = world.error("PATCH", PATH, fakes.ADMIN, body=wish)
    assert error == (status, failure.code)
    # Neither of both.
    assert world.said == []


def test_devices_show_what_is_reserved(world: Reserving) -> None:
    world.database.reservations = [
        db_api.ReservationRecord(
            device_id=1, instances={VMS[0]: 1, VMS[1]: 2, VMS[2]: 1}
        ),
        db_api.ReservationRecord(device_id=9, instances={VMS[0]: 1}),
    ]
    # His own, idle, somebody else's, faulty.
    world.database.reserved_for = {
        1: VMS[0],
        3: VMS[1],
        2: VMS[2],
        4: VMS[1],
    }
    device = world.device()
    assert device["reserved_slots"] == 4
    assert device["pending_reservations"] == 2


def test_whose_slots_are_reserved_is_nobodys_business(
    world: Reserving,
) -> None:
    world.database.reserved_for = {1: VMS[0], 2: VMS[1], 3: VMS[2]}
    world.database.projects = {VMS[0]: "p1", VMS[1]: "p2"}
    assert world.reserved_for(fakes.ADMIN) == [*VMS, None]
    assert world.reserved_for(fakes.READER) == [VMS[0], None, None, None]


def test_an_unknown_instance_is_nobodys_either(world: Reserving) -> None:
    world.database.reserved_for = {1: VMS[0]}
    assert world.reserved_for(fakes.READER) == [None] * 4


def test_the_pool_counts_them(world: Reserving) -> None:
    world.count = 2
    world.database.reserved_for = {3: VMS[2]}
    world.database.reservations = [
        db_api.ReservationRecord(device_id=1, instances={VMS[2]: 1})
    ]
    host, _ = world.ask("GET", "/v1/pool/hosts", fakes.ADMIN).json["hosts"]
    (device,) = host["devices"]
    assert device["reservable_slots"] == 2
    assert device["reserved_slots"] == 1
    assert device["pending_reservations"] == 0
