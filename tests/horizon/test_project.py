# SPDX-License-Identifier: Apache-2.0

"""The panels of a project."""

from __future__ import annotations

import typing
from collections.abc import Iterator

import pytest

from fpgapool.vocabulary import accounting
from tests.harness import waiting
from tests.horizon import conftest
from tests.horizon import dashboard
from tests.horizon import page as pages

#: More than two pages; the pool has slots for five.
SESSIONS = 2 * dashboard.PAGE_SIZE + 1

_LIVE = ("QUEUED", "PREPARING", "READY")


@pytest.fixture
def limits(site: conftest.Site) -> Iterator[dict[str, int]]:
    """Give limits of the members' project, which are gone afterwards."""
    admin = site.token(site.personas.admin)
    path = f"/v1/quotas/{site.personas.member.project.id}"
    limits = {"groups": 7, "bitstream_bytes": -1}
    body = {"quota": limits}
    assert site.api.ask("PUT", path, admin, body).status == 200
    yield limits
    assert site.api.ask("DELETE", path, admin).status == 204


@pytest.fixture
def sessions(site: conftest.Site) -> Iterator[list[dict[str, typing.Any]]]:
    """Give sessions of a member's project, the newest first."""
    token = site.token(site.personas.member)
    opened = [site.api.open(token).session for _ in range(SESSIONS)]
    slots = sum(one.slots for one in conftest.HOSTS)
    try:
        # Those of the test before may leave theirs only now.
        waiting.wait_until(
            lambda: len(_live(site, "READY")) == slots,
            "every slot has a session",
        )
        yield opened[::-1]
    finally:
        for one in opened:
            assert site.api.close(one["id"], token) == 204


def _ids(page: pages.Page) -> list[str]:
    return [row["ID"] for row in page.rows("sessions")]


def _live(site: conftest.Site, *states: str) -> set[str]:
    query = "&".join(f"state={one}" for one in states or _LIVE)
    path = f"/v1/sessions?{query}"
    found = site.api.ask("GET", path, site.token(site.personas.member))
    return {one["id"] for one in found.document["sessions"]}


def test_pages_of_sessions(
    site: conftest.Site,
    page: pages.Page,
    sessions: list[dict[str, typing.Any]],
) -> None:
    ids = [one["id"] for one in sessions]
    size = dashboard.PAGE_SIZE
    page.sign_in(site.personas.member, pages.SESSIONS)
    assert _ids(page) == ids[:size]
    assert "Prev" not in page.text("#sessions")
    page.follow("Next")
    assert _ids(page) == ids[size : 2 * size]
    page.follow("Next")
    # Sessions of other tests may follow.
    assert _ids(page)[0] == ids[2 * size]
    page.follow("Prev")
    assert _ids(page) == ids[size : 2 * size]
    page.follow("Prev")
    assert _ids(page) == ids[:size]
    assert "Prev" not in page.text("#sessions")


def test_session(
    site: conftest.Site,
    page: pages.Page,
    sessions: list[dict[str, typing.Any]],
) -> None:
    """A waiting one says why, and one with a slot where that is."""
    member = site.personas.member
    newest, oldest = sessions[0], sessions[-1]
    page.sign_in(member, pages.SESSIONS)
    row, _waiting, running = page.rows("sessions")
    assert row["State"] == "Queued"
    assert row["Accelerator"] == newest["accelerator"]
    assert row["User"] == member.name
    assert row["Waiting For"] == "All slots that fit are in use."
    assert row["Slot"] == "-"
    path = f"/v1/sessions/{running['ID']}"
    found = site.api.ask("GET", path, site.token(member)).document["session"]
    place = found["placement"]
    assert running["Slot"] == (
        f"{place['host_name']}, board {place['device']}, slot {place['slot']}"
    )
    assert running["Waiting For"] == "-"
    page.follow(newest["id"])
    assert newest["request_id"] in page.text(".detail")
    page.open(f"{pages.SESSIONS}{oldest['id']}/")
    # Tenants do not see the names of hosts.
    assert "host-" in page.text(".detail")
    assert "board board0, slot 0" in page.text(".detail")
    assert "node1" not in page.text(".detail")


def test_close(
    site: conftest.Site,
    page: pages.Page,
    sessions: list[dict[str, typing.Any]],
) -> None:
    """One from its own page, others together."""
    ids = [one["id"] for one in sessions]
    page.sign_in(site.personas.member, f"{pages.SESSIONS}{ids[-1]}/")
    page.ask(".detail-actions .btn-danger")
    page.confirm()
    assert ids[-1] not in _live(site)
    page.open(pages.SESSIONS)
    # What was closed last had a slot, which the first that waited has now.
    assert _ids(page) == ids[: dashboard.PAGE_SIZE]
    for one in ids[:2]:
        box = page.one(f"#sessions input[value='{one}']")
        page.driver.execute_script("arguments[0].click()", box)
    page.ask("#sessions__action_close")
    page.confirm()
    assert set(ids) & _live(site) == set(ids[2:-1])
    states = [row["State"] for row in page.rows("sessions")]
    assert states[:2] == ["Cancelled", "Cancelled"]
    # What has ended cannot be closed.
    buttons = page.found("#sessions tbody .btn-danger")
    assert len(buttons) == dashboard.PAGE_SIZE - 2


def test_filter(
    site: conftest.Site,
    page: pages.Page,
    sessions: list[dict[str, typing.Any]],
) -> None:
    page.sign_in(site.personas.member, pages.SESSIONS)
    page.filter("sessions", "state", "ready")
    found = page.rows("sessions")
    assert {row["State"] for row in found} == {"Ready"}
    page.filter("sessions", "state", "<b>")
    assert page.rows("sessions") == []
    assert "Unable to retrieve the sessions." in page.problem()
    assert "INVALID_REQUEST" in page.problem()
    page.filter("sessions", "accelerator", "")
    assert _ids(page)[0] == sessions[0]["id"]


def test_reader_has_no_actions(
    site: conftest.Site,
    page: pages.Page,
    sessions: list[dict[str, typing.Any]],
) -> None:
    page.sign_in(site.personas.reader, pages.SESSIONS)
    assert _ids(page)[0] == sessions[0]["id"]
    assert page.found("#sessions .btn-danger") == []


def test_other_project_sees_nothing(
    site: conftest.Site,
    page: pages.Page,
    sessions: list[dict[str, typing.Any]],
) -> None:
    page.sign_in(site.personas.stranger, pages.SESSIONS)
    assert page.rows("sessions") == []
    page.open(f"{pages.SESSIONS}{sessions[0]['id']}/")
    assert "Unable to retrieve the session." in page.problem()
    assert page.driver.current_url.endswith(pages.SESSIONS)


def _numbers(row: dict[str, str]) -> tuple[str, str, str]:
    return row["Free Slots"], row["Slots in Use"], row["All Slots"]


def test_pool(
    site: conftest.Site,
    page: pages.Page,
    sessions: list[dict[str, typing.Any]],
) -> None:
    token = site.token(site.personas.member)
    known = site.api.ask("GET", "/v1/accelerators", token).document
    slots = sum(one.slots for one in conftest.HOSTS)
    page.sign_in(site.personas.member, pages.POOL)
    found = page.rows("accelerators")
    assert [row["Accelerator"] for row in found] == [
        one["name"] for one in known["accelerators"]
    ]
    assert {_numbers(row) for row in found} == {("0", str(slots), str(slots))}
    page.open(f"{pages.POOL}?tab=fpga_pool__slots")
    (row,) = page.rows("slots")
    assert _numbers(row) == ("0", str(slots), str(slots))


def _used(site: conftest.Site) -> list[dict[str, typing.Any]]:
    path = "/v1/usage?group_by=accelerator"
    answer = site.api.ask("GET", path, site.token(site.personas.member))
    found: list[dict[str, typing.Any]] = answer.document["usage"]
    return found


def test_quota_and_usage(
    site: conftest.Site,
    page: pages.Page,
    sessions: list[dict[str, typing.Any]],
    limits: dict[str, int],
) -> None:
    page.sign_in(site.personas.member, f"{pages.POOL}?tab=fpga_pool__limits")
    found = {row["Resource"]: row for row in page.rows("limits")}
    assert len(found) == len(accounting.QUOTAS)
    assert found["Groups"]["Limit"] == str(limits["groups"])
    assert found["Groups"]["Set by"] == "Project"
    assert found["Data of bitstreams"]["Limit"] == "Unlimited"
    assert found["Waiting sessions"]["In Use"] == "2"
    # One that has ended counts.
    token = site.token(site.personas.member)
    assert site.api.close(sessions[-1]["id"], token) == 204
    used = waiting.wait_until(lambda: _used(site), "the pool counts it")
    page.open(f"{pages.POOL}?tab=fpga_pool__usage")
    assert [
        (row["Accelerator"], row["Sessions"]) for row in page.rows("usage")
    ] == [(one["accelerator"], str(one["sessions"])) for one in used]
