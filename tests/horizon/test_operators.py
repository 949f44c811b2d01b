# SPDX-License-Identifier: Apache-2.0

"""The panels of operators."""

from __future__ import annotations

import typing
from collections.abc import Iterator

import pytest

from tests.horizon import conftest
from tests.horizon import dashboard
from tests.horizon import page as pages

#: What must not become a part of the page.
REASON = "<script>alert('new')</script> & \"firmware\""

_ACTION = "tbody tr:first-child .data-table-action"


def _hosts(site: conftest.Site) -> list[dict[str, typing.Any]]:
    token = site.token(site.personas.admin)
    found: list[dict[str, typing.Any]] = site.api.ask(
        "GET", "/v1/hosts", token
    ).document["hosts"]
    return found


@pytest.fixture(autouse=True)
def _enabled(site: conftest.Site) -> Iterator[None]:
    """Enable afterwards what a test has left out of service."""
    yield
    token = site.token(site.personas.admin)
    for host in _hosts(site):
        path = f"/v1/hosts/{host['uuid']}"
        answer = site.api.ask("PATCH", path, token, {"state": "enabled"})
        assert answer.status == 200


@pytest.mark.security
def test_drain_and_enable_a_host(
    site: conftest.Site, page: pages.Page
) -> None:
    page.sign_in(site.personas.admin, pages.HOSTS)
    page.ask(f"#hosts {_ACTION}")
    page.answer(drain_deadline_s="-1")
    page.one(".modal.in [name=reason]").send_keys(REASON)
    # The browser does not send what is too small.
    box = page.one(".modal.in [name=drain_deadline_s]")
    box.clear()
    page.confirm(drain_deadline_s="3600")
    row = page.rows("hosts")[0]
    # Nobody uses it, so that the drain may have ended.
    assert row["Admin State"] in ("Draining", "Disabled")
    assert row["Reason"] == REASON
    assert "alert" not in [one.tag_name for one in page.found("td script")]
    assert "node1 is being drained." in page.text(".messages")
    host = _hosts(site)[0]
    assert (host["name"], host["admin_reason"]) == ("node1", REASON)
    page.ask(f"#hosts {_ACTION}")
    page.confirm(reason="done")
    row = page.rows("hosts")[0]
    assert (row["Admin State"], row["Reason"]) == ("Enabled", "done")
    assert _hosts(site)[0]["admin_state"] == "enabled"


def test_disable_a_board(site: conftest.Site, page: pages.Page) -> None:
    page.sign_in(site.personas.admin, pages.DEVICES)
    (link,) = (
        one.get_attribute("href")
        for one in page.found(f"#devices {_ACTION}")
        if one.get_attribute("href").endswith("/disabled/")
    )
    # Without scripts the form is a page of its own.
    page.driver.get(link)
    assert page.found("[name=drain_deadline_s]") == []
    page.one("[name=reason]").send_keys("dust")
    page.submit(".btn-primary")
    row = page.rows("devices")[0]
    assert (row["Status"], row["Reason"]) == ("Disabled", "dust")
    page.ask(f"#devices {_ACTION}")
    page.confirm()
    row = page.rows("devices")[0]
    assert (row["Status"], row["Admin State"]) == ("Up", "Enabled")


@pytest.mark.parametrize(
    ("path", "table", "title"),
    [(pages.HOSTS, "hosts", "Host"), (pages.DEVICES, "devices", "Host")],
)
def test_pages(
    site: conftest.Site, page: pages.Page, path: str, table: str, title: str
) -> None:
    names = [one.name for one in conftest.HOSTS]
    page.sign_in(site.personas.admin, path)
    found = [row[title] for row in page.rows(table)]
    assert found == names[: dashboard.PAGE_SIZE]
    page.follow("Next")
    assert [row[title] for row in page.rows(table)] == names[len(found) :]
    page.follow("Prev")
    assert [row[title] for row in page.rows(table)] == found
    assert "Prev" not in page.text(f"#{table}")


def test_filters(site: conftest.Site, page: pages.Page) -> None:
    page.sign_in(site.personas.admin, pages.HOSTS)
    page.filter("hosts", "name", "node2")
    assert [row["Host"] for row in page.rows("hosts")] == ["node2"]
    page.open(pages.DEVICES)
    page.filter("devices", "host_uuid", _hosts(site)[2]["uuid"])
    assert [row["Host"] for row in page.rows("devices")] == ["node3"]
    page.filter("devices", "state", "faulty")
    assert page.rows("devices") == []


@pytest.mark.security
@pytest.mark.parametrize("path", [pages.HOSTS, pages.DEVICES])
def test_members_have_no_such_panels(
    site: conftest.Site, page: pages.Page, path: str
) -> None:
    page.sign_in(site.personas.member, pages.SESSIONS)
    assert "Hosts" not in page.text("#sidebar")
    page.open(path)
    assert "not authorized" in page.text()


def test_refusal_is_shown_in_the_form(
    site: conftest.Site, page: pages.Page
) -> None:
    """No conductor answers; the form stays, with what was written."""
    page.sign_in(site.personas.admin, pages.HOSTS)
    page.ask(f"#hosts {_ACTION}")
    with site.without(site.cloud.conductor):
        page.answer(reason="in vain")
        page.wait(
            lambda: "Unable to change the state." in page.problem(),
            "the error is shown",
        )
        value = page.one(".modal.in [name=reason]").get_attribute("value")
        assert value == "in vain"
    assert _hosts(site)[0]["admin_state"] == "enabled"
