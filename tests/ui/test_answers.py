# SPDX-License-Identifier: Apache-2.0

"""What people come to the live page for, in three clicks at most."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.functional.allinone import harness
from tests.ui import browser
from tests.ui import test_page

ADMIN, ONE, OTHER = test_page.ADMIN, test_page.ONE, test_page.OTHER
Api = test_page.Api


@pytest.fixture
def api(site: harness.Site) -> Iterator[Api]:
    """Give the API; sessions end with the test."""
    made = Api(site.url)
    yield made
    made.close_all()


def test_why_is_my_session_slow(page: browser.Page, api: Api) -> None:
    for number in range(test_page.SLOTS):
        api.open(f"holder{number}")
    waits = api.open("waits")
    page.sign_in("eve", ONE)
    page.go("Sessions")  # The first click.
    page.wait_rows("Waiting", lambda rows: rows)
    page.click_link(waits[:8])  # The second.
    page.wait(lambda: "NO_IDLE_SLOT" in page.text("main"), "why it waits")
    assert re.search(
        r"It has waited .* for a slot; expected wait: ", page.text("#why")
    )
    assert waits in page.text("h2")
    # The way back.
    page.driver.back()
    page.wait_view("Sessions")
    page.wait_rows("Running", lambda rows: len(rows) == test_page.SLOTS)
    page.driver.forward()
    page.wait(lambda: page.text("main h2") == f"Session {waits}", "it again")
    api.close_all()
    page.wait(lambda: "It has ended" in page.text("#why"), "how it ended")
    steps = page.wait_rows("Timeline", lambda rows: len(rows) > 1)
    assert steps[0]["Step"] == "queued"


def test_which_session_is_on_this_slot(page: browser.Page, api: Api) -> None:
    session_id = api.open("holds", OTHER)
    page.sign_in("admin", "operators")
    page.wait_tiles(ready=1)
    page.one('a.slot[data-state="ready"]').click()  # The only click.
    page.wait(lambda: session_id in page.text("#holder"), "the session")
    assert f"opened by eve, project {OTHER}" in page.text("#holder")
    # From there on, everything leads to everything.
    page.click_link("board0")
    page.wait_view("Board")
    page.wait_rows("Slots of the board", lambda rows: len(rows) == 2)
    page.click_link("node1")
    page.wait_view("Host")
    page.wait_rows(
        "Slots of the host",
        lambda rows: session_id[:8] in {row["Session"] for row in rows},
    )
    page.click_link("copy")
    page.wait_view("Accelerator")
    page.wait(
        lambda: "Max throughput per slot" in page.text("main"), "its facts"
    )
    for title in ("Host", "Board", "Slot", "Pool"):
        page.driver.back()
        page.wait_view(title)


def test_what_happened(page: browser.Page, api: Api) -> None:
    path = f"hosts/{api.host('node1')}"
    page.sign_in("admin", "operators")
    # The memory begins with the API.
    page.wait(lambda: "since" in page.text("#since"), "the first sample")
    api.ask("PATCH", path, ADMIN, {"state": "disabled", "reason": "trial"})
    try:
        page.go("Events")  # The first click.
        page.choose("event-period", "30")  # The second.

        def seen(rows: list[dict[str, str]]) -> bool:
            return any(
                row["What"] == "host node1" and "disabled" in row["Event"]
                for row in rows
            )

        rows = page.wait_rows("Events", seen)
        assert all(re.search("ago|now", row["When"]) for row in rows)
    finally:
        api.ask("PATCH", path, ADMIN, {"state": "enabled"})
    page.click_link("host node1")
    page.wait_view("Host")
    # Tenants learn nothing of hosts.
    page.one("#sign-out").click()
    page.sign_in("eve", ONE)
    page.go("Events")
    page.wait_live()
    assert "node1" not in page.text()


def test_what_a_project_used(page: browser.Page, api: Api) -> None:
    api.open("used", OTHER)
    api.close_all()
    page.sign_in("admin", "operators")
    page.choose("scope", "all")  # The first click.
    page.go("Usage")  # The second.
    page.wait_rows(
        "Usage by project",
        lambda rows: OTHER in {row["Project"] for row in rows},
    )
    page.click_link(OTHER)  # The third.
    (row,) = page.wait_rows("Usage by accelerator", lambda rows: rows)
    assert row["Accelerator"] == "copy"
    assert int(row["Sessions"]) >= 1
    assert row["Slot time"]
    assert page.rows("Usage by day")
    assert page.run("return document.querySelector('#project-period').value")


def _search(page: browser.Page, text: str) -> None:
    box = page.one("#search-text")
    box.clear()
    box.send_keys(text)
    page.one("#search button").click()


def test_search(page: browser.Page, api: Api) -> None:
    """One box for all: IDs, their beginnings, and names."""
    session_id = api.open("by-name", "operators")
    uuid = api.host("node2")
    page.sign_in("admin", "operators")
    for text, title in (
        (session_id, "Session"),
        (session_id[:8], "Session"),
        ("by-name", "Session"),
        (uuid, "Host"),
        ("node3", "Host"),
        ("fft", "Accelerator"),
    ):
        page.go("Library")
        _search(page, text)
        page.wait_view(title)
        page.wait_live()
        # What was found took the place of the search.
        page.driver.back()
        page.wait_view("Library")
    _search(page, "node")
    rows = page.wait_rows("Found", lambda rows: rows)
    assert {row["Name"] for row in rows} == {"node1", "node2", "node3"}
    _search(page, "<b>nothing</b>")
    page.wait_rows("Found", lambda rows: not rows)
    assert "Nothing matches this ID or name." in page.text("main")


def test_address_is_kept_for_others(page: browser.Page, api: Api) -> None:
    """A link that was sent leads to the same, after signing in."""
    session_id = api.open("linked")
    page.visit(f"sessions/{session_id}")
    page.sign_in("eve", ONE)
    page.wait(
        lambda: page.text("main h2") == f"Session {session_id}", "the session"
    )
    page.visit("sessions/none-such")
    page.wait(
        lambda: "SESSION_NOT_FOUND" in page.text("#problem"), "what is wrong"
    )
    page.visit("%zz")
    page.wait_view("Pool")
