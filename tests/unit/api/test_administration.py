# SPDX-License-Identifier: Apache-2.0
"""Requests that enable, drain and disable, and what is remembered."""

from __future__ import annotations

import dataclasses
import json
import uuid
from collections.abc import Iterator
from typing import Any

import oslo_messaging as messaging
import pytest

from fpgapool.common import exception
from fpgapool.db import api as db_api
from fpgapool.objects import identity
from fpgapool.vocabulary import codes
from tests.unit.api import fakes

DEVICE = identity.device_id(fakes.HOST, "board0")
PATHS = (f"/v1/devices/{DEVICE}", f"/v1/hosts/{fakes.HOST}")


class Administered(fakes.Api):
    """Keeps what was said of board and host, as conductor and database do.

    :ivar said: what was asked of the conductor.
    :ivar loads: how often the database was asked.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.said: list[tuple[Any, ...]] = []
        self.loads = 0
        self.wishes: dict[str | None, dict[str, Any]] = {}
        self._plain = self.database.inventory
        self.database.inventory = self._inventory  # type: ignore[method-assign]
        self.conductor.administer = self._administer  # type: ignore[attr-defined]

    def _administer(
        self,
        host_uuid: str,
        device: str | None,
        state: str,
        *,
        reason: str,
        drain_within_s: float | None,
    ) -> None:
        self.conductor._fail()
        self.said.append((host_uuid, device, state, reason, drain_within_s))
        self.wishes[device] = {
            "admin_state": state,
            "admin_reason": reason,
            "drain_deadline_at": drain_within_s,
        }

    def _inventory(self) -> db_api.Inventory:
        self.loads += 1
        found = self._plain()
        first = dataclasses.replace(
            found.hosts[0], **self.wishes.get(None, {})
        )
        board = dataclasses.replace(
            found.devices[0], **self.wishes.get("board0", {})
        )
        return dataclasses.replace(
            found, hosts=[first, *found.hosts[1:]], devices=[board]
        )


@pytest.fixture
def world() -> Iterator[Administered]:
    """A world that remembers for a minute, of which nothing passes."""
    made = Administered(inventory_cache_s=60.0)
    yield made
    made.close()


def test_a_device_is_drained(world: Administered) -> None:
    wish = {"state": "draining", "reason": "fan", "drain_deadline_s": 30}
    shown = world.ask("PATCH", PATHS[0], fakes.ADMIN, body=wish).json["device"]
    assert world.said == [(fakes.HOST, "board0", "draining", "fan", 30)]
    assert shown["state"] == shown["admin_state"] == "draining"
    assert shown["admin_reason"] == "fan"
    assert shown["drain_deadline_at"] == "1970-01-01T00:00:30.000000Z"
    assert (shown["slots"], shown["sessions"]) == (4, 2)


def test_a_host_is_disabled_with_its_devices(world: Administered) -> None:
    wish = {"state": "disabled"}
    shown = world.ask("PATCH", PATHS[1], fakes.ADMIN, body=wish).json["host"]
    assert world.said == [(fakes.HOST, None, "disabled", "", None)]
    assert (shown["admin_state"], shown["sessions"]) == ("disabled", 2)
    device = world.ask("GET", PATHS[0], fakes.ADMIN).json["device"]
    assert (device["state"], device["admin_state"]) == ("disabled", "enabled")
    slots = world.ask("GET", "/v1/slots?state=disabled", fakes.ADMIN).json[
        "slots"
    ]
    assert len(slots) == 2


def test_identifiers_may_have_capitals(world: Administered) -> None:
    for path in PATHS:
        resource, _, name = path.rpartition("/")
        answer = world.ask(
            "PATCH",
            f"{resource}/{name.upper()}",
            fakes.ADMIN,
            body={"state": "enabled"},
        )
        assert answer.status_code == 200


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "wish",
    [
        None,
        [],
        {},
        {"state": "up"},
        {"state": None},
        {"state": "enabled", "drain_deadline_s": 0},
        {"state": "disabled", "drain_deadline_s": 9},
        {"state": "draining", "drain_deadline_s": None},
        {"state": "draining", "drain_deadline_s": -0.1},
        {"state": "draining", "drain_deadline_s": 1e12},
        {"state": "draining", "drain_deadline_s": True},
        {"state": "enabled", "reason": 7},
        {"state": "enabled", "reason": "r" * 256},
        {"state": "enabled", "extra": 1},
        b'{"state": "draining", "drain_deadline_s": NaN}',
    ],
)
def test_bad_bodies(world: Administered, path: str, wish: Any) -> None:
    body = b"null" if wish is None else wish
    error = world.error("PATCH", path, fakes.ADMIN, body=body)
    assert error == (400, codes.INVALID_REQUEST)
    assert world.said == []


@pytest.mark.parametrize("path", PATHS)
def test_it_is_for_administrators(
    world: Administered, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "fpgapool.audit")
    for token in (fakes.READER, fakes.MEMBER, fakes.SERVICE, fakes.NOBODY):
        error = world.error("PATCH", path, token, body={"state": "enabled"})
        assert error == (403, codes.FORBIDDEN)
    assert world.said == []
    world.ask("PATCH", path, fakes.ADMIN, body={"state": "enabled"})
    lines = [one.getMessage() for one in caplog.records]
    assert [
        line
        for line in lines
        if '"outcome": "done"' in line and (":change" in line)
    ]


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (f"/v1/devices/{uuid.UUID(int=5)}", codes.DEVICE_NOT_FOUND),
        (f"/v1/hosts/{uuid.UUID(int=5)}", codes.HOST_NOT_FOUND),
        ("/v1/devices/board0", codes.DEVICE_NOT_FOUND),
    ],
)
def test_what_is_not_there(world: Administered, path: str, code: str) -> None:
    wish = {"state": "enabled"}
    assert world.error("PATCH", path, fakes.ADMIN, body=wish) == (404, code)
    assert world.said == []


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (
            exception.DeviceNotFound(device="d", host_uuid="h"),
            (404, codes.DEVICE_NOT_FOUND),
        ),
    ],
)
def test_the_conductor_may_refuse(
    world: Administered, failure: Exception, expected: tuple[int, str]
) -> None:
    world.conductor.failure = failure
    wish = {"state": "disabled"}
    assert world.error("PATCH", PATHS[0], fakes.ADMIN, body=wish) == expected
    assert (
        world.ask("GET", PATHS[0], fakes.ADMIN).json["device"]["state"] == "up"
    )


def test_many_requests_cost_one_question(world: Administered) -> None:
    for path in ("/v1/slots", "/v1/devices", "/v1/hosts", "/v1/sessions"):
        for _ in range(3):
            world.ask("GET", path, fakes.ADMIN)
    assert world.loads == 1


def test_a_change_is_seen_at_once(world: Administered) -> None:
    for state in ("disabled", "draining", "enabled"):
        world.ask("GET", "/v1/devices", fakes.ADMIN)
        world.ask("PATCH", PATHS[0], fakes.ADMIN, body={"state": state})
        (device,) = world.ask("GET", "/v1/devices", fakes.ADMIN).json[
            "devices"
        ]
        assert device["admin_state"] == state


def test_the_snapshot_is_for_services_and_administrators(
    world: Administered,
) -> None:
    path = "/v1/pool/snapshot"
    for token in (fakes.SERVICE, fakes.ADMIN):
        told = world.ask("GET", path, token).json["snapshot"]
        host = told["hosts"][fakes.HOST]
        # One is faulty, and the leader does not use another one.
        assert host["accelerators"] == {
            name: {"usable": 2, "free": 0} for name in ("aes", "copy", "fft")
        }
        assert host["slots"] == {"total": 4, "usable": 2, "free": 0}
        assert (host["nic_load"], host["queued"]) == (0.5, 1)
        assert "novelty" not in host
        assert told["queued"] == {"copy": 1}
    for token in (fakes.MEMBER, fakes.READER):
        assert world.error("GET", path, token) == (403, codes.FORBIDDEN)


def test_who_has_the_snapshot_is_told_so(world: Administered) -> None:
    path = "/v1/pool/snapshot"
    first = world.ask("GET", path, fakes.SERVICE)
    tag = first.headers["etag"]
    assert tag == f'"{first.json["snapshot"]["generation"]}"'
    for known, status in (
        (tag, 304),
        (f'"x", W/{tag}', 304),
        ("*", 304),
        ('"x"', 200),
        ("junk", 200),
    ):
        answer = world.ask(
            "GET",
            path,
            fakes.SERVICE,
            headers={"If-None-Match": known},
            check=False,
        )
        assert answer.status_code == status, known
        assert answer.headers["etag"] == tag
        assert bool(answer.content) == (status == 200)


def test_no_snapshot_without_conductor_and_database(
    world: Administered,
) -> None:
    world.conductor.failure = messaging.MessagingTimeout()
    world.database.failure = fakes.UNAVAILABLE
    answer = world.ask("GET", "/v1/pool/snapshot", fakes.SERVICE)
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) > 0


@pytest.mark.parametrize("path", PATHS)
def test_the_audit_log_says_what_was_and_what_is_wanted(
    world: Administered, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "fpgapool.audit")
    wish = {"state": "draining", "reason": "new fan"}
    world.ask("PATCH", path, fakes.ADMIN, body=wish)
    world.ask("PATCH", path, fakes.ADMIN, body={"state": "enabled"})
    first, second = (
        json.loads(one.getMessage())
        for one in caplog.records
        if one.name == "fpgapool.audit"
    )
    assert first["values"] == wish
    assert first["before"]["admin_state"] == "enabled"
    assert second["values"] == {"state": "enabled"}
    assert second["before"]["admin_state"] == "draining"
    assert second["before"]["admin_reason"] == "new fan"
    assert first["time"] <= second["time"]
