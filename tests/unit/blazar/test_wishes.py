# SPDX-License-Identifier: Apache-2.0

"""What a lease means for the pool."""

from __future__ import annotations

import datetime
import uuid
from typing import Any

import pytest

from fpgapool.api.schemas import reservations as schemas
from fpgapool.vocabulary import reservation
from fpgapool_blazar import wishes

NOW = datetime.datetime(2026, 12, 1, 8, 0, 42, tzinfo=datetime.UTC)
#: As Blazar has it: in UTC, without a zone.
MINUTE = datetime.datetime(2026, 12, 1, 8, 0)
HOUR = datetime.timedelta(hours=1)
OWN_ID = str(uuid.UUID(int=1))
POOL_ID = str(uuid.UUID(int=2))


def _values(**members: Any) -> dict[str, Any]:
    """Return a reservation of a lease, as Blazar gives it to plugins."""
    return {
        "resource_type": wishes.RESOURCE_TYPE,
        "lease_id": str(uuid.UUID(int=3)),
        "start_date": MINUTE + HOUR,
        "end_date": MINUTE + 2 * HOUR,
        "accelerator": "aes",
        "amount": 4,
        **members,
    }


def _present(**members: Any) -> dict[str, Any]:
    """Return that reservation as the pool has it."""
    return {
        "id": POOL_ID,
        "accelerator": "aes",
        "slots": 4,
        "state": reservation.SCHEDULED,
        "start_at": "2026-12-01T09:00:00.000000Z",
        "end_at": "2026-12-01T10:00:00.000000Z",
        "created_at": "2026-12-01T07:00:00.000000Z",
        **members,
    }


def test_a_new_reservation() -> None:
    assert wishes.new(OWN_ID, _values(), NOW) == {
        "accelerator": "aes",
        "slots": 4,
        "name": f"blazar-{OWN_ID}",
        "start_at": "2026-12-01T09:00:00+00:00",
        "end_at": "2026-12-01T10:00:00+00:00",
    }


def test_now_is_not_the_beginning_of_the_minute() -> None:
    """The pool would take it for the past soon."""
    made = wishes.new(OWN_ID, _values(start_date=MINUTE), NOW)
    assert made["start_at"] == NOW.isoformat()


def test_all_that_can_be_asked_for_is_known_to_the_pool() -> None:
    given = {
        "accelerator": "aes",
        "amount": "2",
        "device_id": "d",
        "grace_s": "0",
        "host_uuids": ["h"],
    }
    made = wishes.new(OWN_ID, _values(**given), NOW)
    assert (made["slots"], made["grace_s"]) == (2, 0)
    known = schemas.CREATE["properties"]["reservation"]["properties"]
    assert made.keys() <= known.keys()


@pytest.mark.parametrize("name", ["accelerator", "amount"])
def test_what_is_required(name: str) -> None:
    values = _values()
    del values[name]
    for given in values, {**values, name: None}:
        with pytest.raises(wishes.MissingMemberError, match=f"^{name}$"):
            wishes.check(given)


@pytest.mark.parametrize("name", ["project_id", "name", "slots", "repeat"])
def test_nothing_else_is_passed_on(name: str) -> None:
    with pytest.raises(wishes.UnknownMemberError, match=f"^{name}$"):
        wishes.check(_values(**{name: "x"}))


@pytest.mark.parametrize("amount", ["", "-1", "1.5", "9" * 10, "²"])
def test_the_pool_judges_what_is_no_number(amount: str) -> None:
    made = wishes.new(OWN_ID, _values(amount=amount), NOW)
    assert made["slots"] == amount


# Changes.


def _changes(present: dict[str, Any], **values: Any) -> dict[str, Any]:
    return wishes.changes(_values(**values), present, MINUTE + HOUR, NOW)


def test_what_the_pool_has_already_does_not_change() -> None:
    """As in a second attempt, after an answer that was lost."""
    assert _changes(_present()) == {}


def test_a_lease_is_extended_moved_and_grows() -> None:
    later = MINUTE + 3 * HOUR
    assert _changes(_present(), end_date=later) == {
        "end_at": "2026-12-01T11:00:00+00:00"
    }
    assert _changes(
        _present(), start_date=later, end_date=later + HOUR, amount=6
    ) == {
        "slots": 6,
        "start_at": "2026-12-01T11:00:00+00:00",
        "end_at": "2026-12-01T12:00:00+00:00",
    }


def test_only_what_is_given_changes() -> None:
    values = _values(end_date=MINUTE + 3 * HOUR)
    del values["accelerator"], values["amount"]
    found = wishes.changes(values, _present(), MINUTE + HOUR, NOW)
    assert found.keys() == {"end_at"}


def test_the_start_of_one_that_runs_stays() -> None:
    """It began when it was made, not at the beginning of that minute."""
    runs = _present(
        state=reservation.ACTIVE, start_at="2026-12-01T08:00:05.000000Z"
    )
    values = _values(start_date=MINUTE)
    assert wishes.changes(values, runs, MINUTE, NOW) == {}
    moved = wishes.changes(values, runs, MINUTE + HOUR, NOW)
    assert moved == {"start_at": NOW.isoformat()}


# What is left over.


def _known(**members: Any) -> dict[str, Any]:
    return {"resource_id": POOL_ID, "status": "pending", **members}


@pytest.mark.parametrize(
    ("present", "known", "is_left_over"),
    [
        ({}, None, True),
        ({"state": reservation.ACTIVE}, None, True),
        ({"state": reservation.ENDED}, None, False),
        ({}, _known(), False),
        ({}, _known(status="active"), False),
        ({}, _known(status="deleted"), True),
        ({}, _known(resource_id=str(uuid.UUID(int=9))), False),
        ({}, _known(resource_id=None), True),
        (
            {"created_at": "2026-12-01T08:00:00.000000Z"},
            _known(resource_id=None),
            False,
        ),
        ({}, _known(status="creating"), True),
        ({"state": reservation.ENDED}, _known(status="creating"), False),
        (
            {"created_at": "2026-12-01T08:00:00.000000Z"},
            _known(status="creating"),
            False,
        ),
    ],
    ids=[
        *("no lease", "no lease, runs", "no lease, over"),
        *("leased", "runs", "its lease is over"),
        *("of another one's name", "half made long ago", "is being made"),
        *("never finished", "never finished, over", "to be finished"),
    ],
)
def test_what_is_left_over(
    present: dict[str, Any], known: dict[str, Any] | None, is_left_over: bool
) -> None:
    is_made = known is None or known["status"] != "creating"
    found = wishes.is_left_over(_present(**present), known, is_made, NOW, 600)
    assert found is is_left_over


@pytest.mark.parametrize("state", reservation.STATES)
def test_what_lacks_slots(state: str) -> None:
    lacks = state in (reservation.AT_RISK, reservation.FAILED)
    assert wishes.is_lacking(_present(state=state)) is lacks
    assert wishes.is_lacking(None)


def test_names_lead_back() -> None:
    assert wishes.reservation_named(wishes.name_of(OWN_ID)) == OWN_ID
    for name in None, "", "blazar-", f"blazar-{OWN_ID}x", OWN_ID, "night":
        assert wishes.reservation_named(name) is None
