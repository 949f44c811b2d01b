# SPDX-License-Identifier: Apache-2.0

"""What payloads may hold, and what is written down of texts."""

from __future__ import annotations

import dataclasses

import pytest

from fpgapool import objects
from fpgapool.conductor.decisions import limits
from fpgapool.db import models
from tests.unit.conductor import world

RESULT = objects.SessionResult(
    session_id="s", generation=1, state="FAILED", code="C", finished_at=1.0
)
REPORT = world.FakeAgent("a", 1).report()
SLOT = REPORT.devices[0].slots[0]


def test_what_no_database_takes_is_replaced() -> None:
    assert limits.writable("a\0b\ud800c Ω") == "a?b?c Ω"


@pytest.mark.parametrize(
    ("payload", "member", "column"),
    [
        (REPORT, "host_uuid", models.hosts.c.uuid),
        (RESULT, "code", models.sessions.c.reason),
        (RESULT, "state", models.sessions.c.state),
        (RESULT, "code", models.faults.c.reason),
    ],
)
def test_what_is_too_long_for_its_column_is_refused(
    payload, member, column
) -> None:
    """MariaDB takes none of a transaction with such a row."""
    most = "x" * column.type.length
    limits.check(dataclasses.replace(payload, **{member: most}))
    with pytest.raises(ValueError, match=f"{member} is too long"):
        limits.check(dataclasses.replace(payload, **{member: most + "x"}))


@pytest.mark.parametrize("text", ["a\nERROR", "a\0", "a\x1b[2J", "\ud800"])
@pytest.mark.parametrize(
    ("payload", "member"), [(SLOT, "shape"), (RESULT, "code")]
)
def test_names_that_would_break_a_line_are_refused(
    payload, member, text
) -> None:
    with pytest.raises(ValueError, match=f"{member} is not printable"):
        limits.check(dataclasses.replace(payload, **{member: text}))
    limits.check(dataclasses.replace(payload, **{member: "Karte \u00f6"}))


@pytest.mark.parametrize(
    ("payload", "member", "most"),
    [
        (SLOT, "slot", 2**31 - 1),
        (SLOT, "energy_j", 1e18),
        (RESULT, "input_bytes", 2**53),
        (RESULT, "generation", 2**63 - 1),
    ],
)
def test_what_is_out_of_range_is_refused(payload, member, most) -> None:
    limits.check(dataclasses.replace(payload, **{member: most}))
    with pytest.raises(ValueError, match=f"{member} is out of range"):
        limits.check(dataclasses.replace(payload, **{member: most * 2}))
