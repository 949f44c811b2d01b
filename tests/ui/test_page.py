# SPDX-License-Identifier: Apache-2.0

"""The live page of a real pool."""

from __future__ import annotations

import datetime
import pathlib
import re
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from selenium.webdriver.common import action_chains
from selenium.webdriver.common.keys import Keys

from fpgapool.vocabulary import codes
from tests.functional.allinone import harness
from tests.functional.api import harness as rest
from tests.ui import browser

ADMIN = "admin:operators"
ONE, OTHER = "project-one", "project-other"
SLOTS = 4
VIEWS = ["Pool", "Sessions", "Groups", "Library", "Usage", "Events"]
# Words that a line's end cuts in two, of those that may stay whole. A hyphen
# is a good place to go on in the next line.
_CUT_WORDS = """
const cut = [];
const walker = document.createTreeWalker(document.querySelector("main"),
  NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const text = walker.currentNode;
  for (const word of text.data.matchAll(/[^\\s-]+/g)) {
    const range = document.createRange();
    range.setStart(text, word.index);
    range.setEnd(text, word.index + word[0].length);
    if (word[0].length <= 11 && range.getClientRects().length > 1) {
      cut.push(word[0]);
    }
  }
}
return cut;
"""
# From then on, what the API answers is in window.answers.
_KEEP_ANSWERS = """
const send = window.fetch;
window.answers = [];
window.fetch = async (...request) => {
  const answer = await send(...request);
  window.answers.push(await answer.clone().text());
  return answer;
};
"""
# Tables that are wider than their place.
_CUT_TABLES = """
return [...document.querySelectorAll(".table")]
  .filter((one) => one.scrollWidth > one.clientWidth)
  .map((one) => one.querySelector("caption").textContent);
"""
# Values that do not fit in their place.
_CUT_VALUES = """
return [...document.querySelectorAll("main td")]
  .filter((one) => one.scrollWidth > one.clientWidth)
  .map((one) => one.textContent);
"""
HOSTILE = "<img/src=x/onerror=window.hacked=1>"
PHONE = (360, 640)


class Api:
    """The API, as tools other than the page use it."""

    def __init__(self, url: str) -> None:
        self._address = url.removeprefix("http://")
        self._opened: list[tuple[str, str]] = []

    def ask(self, method: str, path: str, token: str, body: Any = None) -> Any:
        """Return the answer's document."""
        answer = rest.ask(
            self._address, method, f"/v1/{path}", token, body, check=False
        )
        assert answer.status < 300, answer
        return answer.document

    def open(self, name: str, project: str = ONE, **more: Any) -> str:
        """Open a session; :returns: its id."""
        body = {
            "accelerator": "copy",
            # Nobody is chosen to follow a session that takes so long.
            "claimed_bytes": 10**9,
            "request_id": name,
            **more,
        }
        token = f"eve:{project}"
        answer = self.ask("POST", "sessions", token, {"session": body})
        session_id: str = answer["session"]["id"]
        self._opened.append((session_id, token))
        return session_id

    def close(self, session_id: str) -> None:
        self.ask("DELETE", f"sessions/{session_id}", ADMIN)

    def close_all(self) -> None:
        """Close all that were opened."""
        for session_id, _ in self._opened:
            self.close(session_id)

    def host(self, name: str) -> str:
        """Return the UUID of a host."""
        found = self.ask("GET", f"hosts?name={name}", ADMIN)["hosts"]
        uuid: str = found[0]["uuid"]
        return uuid


@pytest.fixture
def api(site: harness.Site) -> Iterator[Api]:
    """Give the API; sessions end with the test."""
    made = Api(site.url)
    yield made
    made.close_all()


def states(rows: list[dict[str, str]]) -> dict[str, str]:
    """Return the states of sessions, by the names of their requests."""
    return {row["Request"]: row["State"] for row in rows}


def test_signing_in_and_out(page: browser.Page) -> None:
    """A reload keeps the sign-in, of which scripts see nothing; signing out
    ends it.
    """
    page.fill("open", {"user": "a b", "project": ONE})
    page.wait(lambda: "INVALID_NAME" in page.text("#problem"), "it is refused")
    assert page.found(".forms form")
    page.sign_in("eve", ONE)
    assert page.text("#user") == f"eve, project {ONE}"
    assert page.text("#problem") == ""
    kept = (
        "return [localStorage.length, sessionStorage.length,"
        " document.cookie, location.search, location.hash]"
    )
    assert page.run(kept) == [0, 0, "", "", ""]
    page.go("Library")
    page.driver.refresh()
    page.wait_view("Library")
    page.wait_live()
    assert page.text("#user") == f"eve, project {ONE}"
    page.one("#sign-out").click()
    page.wait(lambda: page.found(".forms form"), "the form")
    assert not page.one("#navigation").is_displayed()
    page.wait(
        lambda: not page.cdp("Network.getCookies")["cookies"],
        "the cookie is gone",
    )
    page.driver.refresh()
    page.wait(lambda: page.found(".forms form"), "the form")


def test_map_and_figures_follow_sessions(page: browser.Page, api: Api) -> None:
    page.sign_in("admin", "operators")
    page.wait_tiles(idle=SLOTS, ready=0, waiting=0)
    assert page.tiles()["Hosts"] == "3"
    assert page.slots() == ["idle"] * SLOTS
    first = api.open("first")
    page.wait_tiles(idle=SLOTS - 1, ready=1)
    assert sorted(page.slots()) == ["idle"] * (SLOTS - 1) + ["ready"]
    tile = page.one('a.slot[data-state="ready"]')
    assert "ready, copy" in str(tile.get_attribute("title"))
    assert "copy" in tile.text
    for number in range(SLOTS):
        api.open(f"more{number}")
    page.wait_tiles(idle=0, ready=SLOTS, waiting=1)
    # The API records it by itself, for all who look.
    page.wait(
        lambda: (
            {"Slots in use 4", "Waiting sessions 1"}
            <= {one.text for one in page.found("figcaption")}
        ),
        "the charts have it",
    )
    assert all(
        one.get_attribute("d") for one in page.found("figure .line")[2:]
    )
    chart = page.found("figure")[2]
    action_chains.ActionChains(page.driver).move_to_element(
        chart.find_element("tag name", "svg")
    ).perform()
    assert re.search(r"\d.*: \d", chart.text)
    api.close(first)
    page.wait_tiles(ready=SLOTS, waiting=0)
    api.close_all()
    page.wait_tiles(idle=SLOTS, ready=0)


def test_queue_and_closing(page: browser.Page, api: Api) -> None:
    """Whoever waits sees why; a session that is closed makes room."""
    for number in range(SLOTS):
        api.open(f"holder{number}")
    for name in ("waits-first", "waits-next"):
        api.open(name)
    page.sign_in("eve", ONE)
    page.go("Sessions")
    rows = page.wait_rows("Waiting", lambda rows: len(rows) == 2)
    assert [(row["Position"], row["Request"]) for row in rows] == [
        ("1", "waits-first"),
        ("2", "waits-next"),
    ]
    for row in rows:
        assert codes.NO_IDLE_SLOT in row["Why"]
        assert row["Expected wait"]
        assert row["Waiting for"]
        assert row["Opened by"] == "eve"
    # Each is there once.
    page.wait_rows("Running", lambda rows: len(rows) == SLOTS)
    opener = page.one("#session-opener")
    # An instance, by its ID, has opened none.
    opener.send_keys(f"{api.host('node1')}{Keys.ENTER}")
    page.wait_rows("Running", lambda rows: not rows)
    opener.clear()
    opener.send_keys(f"eve{Keys.ENTER}")
    page.wait_rows("Running", lambda rows: len(rows) == SLOTS)
    close = '[aria-label="Close session holder1"]'
    page.one(close).click()
    assert "holder1" in page.text("#question")
    page.one("#question-no").click()
    assert not page.one("#question").is_displayed()
    page.one(close).click()
    page.one("#question-yes").click()
    rows = page.wait_rows(
        "Running",
        lambda rows: (
            "holder1" not in states(rows)
            and states(rows).get("waits-first") == "READY"
        ),
    )
    assert len(rows) == SLOTS
    page.wait_rows("Waiting", lambda rows: len(rows) == 1)
    assert "holder1 was closed" in page.text("main")
    page.choose("session-states", "finished")
    rows = page.wait_rows("Finished", lambda rows: "holder1" in states(rows))
    assert states(rows)["holder1"] == "CANCELLED"
    assert rows[0]["Reason"].startswith(codes.CANCELLED_BY_CLIENT)
    assert rows[0]["Ended"].endswith(("ago", "now"))
    assert not page.one('[aria-label="Running sessions"]').is_displayed()


def test_tenant_sees_no_other_project(page: browser.Page, api: Api) -> None:
    """Neither by name nor by a session, in no view."""
    foreign = [
        api.open(f"foreign{number}", OTHER) for number in range(SLOTS + 1)
    ]
    api.open("own")
    page.sign_in("rob", ONE)
    assert page.views() == VIEWS
    assert not page.one("#scope-label").is_displayed()
    page.wait_tiles(ready=SLOTS, waiting=2)
    assert "The policy does not show hosts to you." in page.text("main")
    assert not page.found(".host")
    for title in page.views():
        page.go(title)
        page.wait_live()
        source = page.run("return document.documentElement.outerHTML")
        assert OTHER not in source
        assert "foreign" not in source
    page.go("Sessions")
    rows = page.wait_rows("Waiting", lambda rows: len(rows) == 1)
    assert rows[0]["Request"] == "own"
    assert page.run('location.hash = "#operations"') is None
    page.wait(lambda: page.driver.title.startswith("Pool"), "the pool")
    # The page did not even try what a tenant may not do.
    assert page.complaints(refusals=True) == []
    page.one("#sign-out").click()
    page.sign_in("admin", "operators")
    page.go("Sessions")
    page.wait_rows("Running", lambda rows: not rows)
    page.choose("scope", "all")
    for session_id in foreign[:2]:
        api.close(session_id)
    page.wait_rows(
        "Running", lambda rows: {ONE, OTHER} <= {r["Project"] for r in rows}
    )


def test_drain(page: browser.Page, api: Api) -> None:
    """The reason is text, whatever it looks like."""
    path = f"hosts/{api.host('node1')}"
    page.sign_in("admin", "operators")
    wish = {"state": "disabled", "reason": HOSTILE}
    api.ask("PATCH", path, ADMIN, wish)
    try:
        page.wait_tiles(disabled=2, idle=2)
        page.go("Operations")
        rows = page.wait_rows("Drains", lambda rows: rows)
        assert rows[0]["Name"] == "node1"
        assert rows[0]["Reason"] == HOSTILE
        assert page.run("return window.hacked === undefined")
        assert page.found("main img") == []
    finally:
        api.ask("PATCH", path, ADMIN, {"state": "enabled"})
    page.go("Pool")
    page.wait_tiles(disabled=0, idle=SLOTS)


def test_hostile_names(page: browser.Page, api: Api) -> None:
    """Names that others chose are shown and do nothing."""
    name = "</td><script>window.hacked=1</script>"
    bitstream = {
        "accelerator": "evil",
        "name": HOSTILE.replace("/", " "),
        "description": name,
        "version": "1.0",
        "format": "declaration",
        "shapes": ["medium"],
    }
    made = api.ask("POST", "bitstreams", ADMIN, {"bitstream": bitstream})
    api.open("harmless", HOSTILE)
    page.sign_in("admin", "operators")
    page.choose("scope", "all")
    page.go("Sessions")
    rows = page.wait_rows("Running", lambda rows: rows)
    assert rows[0]["Project"] == HOSTILE
    page.click_link(HOSTILE)
    page.wait_view("Project")
    assert page.text("main h2") == f"Project {HOSTILE}"
    assert page.run("return window.hacked === undefined")
    page.go("Library")
    rows = page.wait_rows("Bitstreams", lambda rows: rows)
    assert rows[0]["Name"] == HOSTILE.replace("/", " ")
    assert rows[0]["Description"] == name
    assert page.run("return window.hacked === undefined")
    assert page.found("main img, main script, main iframe") == []
    api.ask("DELETE", f"bitstreams/{made['bitstream']['id']}", ADMIN)
    page.wait_rows("Bitstreams", lambda rows: not rows)


def test_policy_is_kept(page: browser.Page) -> None:
    """The browser itself refuses what the page never does."""
    page.sign_in("eve", ONE)
    refused = page.driver.execute_async_script(
        """
        const done = arguments[0];
        const found = [];
        document.addEventListener("securitypolicyviolation",
          (event) => found.push(event.effectiveDirective));
        try { document.body.innerHTML = "<p>"; } catch { found.push("sink"); }
        const image = document.createElement("img");
        image.src = "http://127.0.0.2:1/x.png";
        document.body.append(image);
        document.body.setAttribute("style", "color: red");
        fetch("http://127.0.0.2:1/").catch(() => {});
        setTimeout(() => done(found), 500);
        """
    )
    assert {"sink", "img-src", "connect-src", "style-src-attr"} <= set(refused)
    assert page.complaints()


@pytest.mark.security
def test_page_gets_no_secret(page: browser.Page, api: Api) -> None:
    """It never connects to a slot, so it asks for no connection."""
    session_id = api.open("has-a-secret", "operators")
    path = f"sessions/{session_id}"
    page.sign_in("admin", "operators")
    page.wait_tiles(ready=1)
    shown = api.ask("GET", path, "eve:operators")["session"]
    secret, place = shown["connection"]["secret"], shown["placement"]
    assert secret
    page.run(_KEEP_ANSWERS)
    for where in (
        *("sessions", path, f"search/{session_id}"),
        f"slots/{api.host('node1')}/{place['device']}/{place['slot']}",
    ):
        page.visit(where)
        page.wait(lambda: session_id[:8] in page.text("main"), "the session")
    answers = page.run("return window.answers")
    assert sum(session_id in one for one in answers) >= len("1234")
    assert [one for one in answers if secret in one] == []


def test_slot_that_fails(
    page: browser.Page, api: Api, site: harness.Site, tmp_path: pathlib.Path
) -> None:
    (boards,) = site.pool.run_dir.parent.rglob("boards/node1.yaml")
    faults = boards.with_suffix(".faults.yaml")
    fresh = faults.with_suffix(".new")
    fresh.write_text(yaml.safe_dump({"board0": {"programming": [0]}}))
    fresh.rename(faults)
    page.sign_in("admin", "operators")
    try:
        for number in range(SLOTS):
            api.open(f"tries{number}", accelerator="sha")
        page.wait_tiles(faulty=1, ready=SLOTS - 1, waiting=1)
        assert page.slots().count("faulty") == 1
        page.click_link("node1")
        rows = page.wait_rows(
            "Slots of the host",
            lambda rows: any(row["State"] == "faulty" for row in rows),
        )
        assert rows[0]["Fault"] not in ("", "–")
        page.go("Operations")
        rows = page.wait_rows("Faults", lambda rows: rows)
        assert rows[0]["Where"] == "node1, board0, slot 0"
        assert rows[0]["Why"] not in ("", "–")
        page.choose("scope", "all")
        page.go("Sessions")
        (row,) = page.wait_rows("Waiting", lambda rows: rows)
        assert codes.NO_IDLE_SLOT in row["Why"]
    finally:
        faults.unlink()
        api.ask(
            "PATCH", f"hosts/{api.host('node1')}", ADMIN, {"state": "enabled"}
        )
    api.close_all()
    page.go("Pool")
    page.wait_tiles(faulty=0, idle=SLOTS)


def test_library_quotas_and_usage(page: browser.Page, api: Api) -> None:
    page.sign_in("admin", ONE)
    page.go("Library")
    rows = page.wait_rows("Accelerators", lambda rows: rows)
    assert {"aes", "copy", "fft"} <= {row["Name"] for row in rows}
    api.open("counts")
    page.go("Usage")
    page.wait_rows(
        "Limits",
        lambda rows: (
            {row["Resource"]: row["In use"] for row in rows}.get("sessions")
            == "1"
        ),
    )
    api.close_all()
    page.go("Library")
    page.go("Usage")
    rows = page.wait_rows("Usage by project", lambda rows: rows)
    assert ONE in {row["Project"] for row in rows}


def test_budgets(page: browser.Page, api: Api) -> None:
    """What is left of a budget, in the list and in a project's view."""
    page.sign_in("admin", ONE)
    page.go("Usage")
    assert "There is no budget." in page.text("main")
    limits = {"bytes": 10**12, "slot_s": 7200, "period": "week"}
    api.ask("PUT", f"budgets/{ONE}", ADMIN, {"budget": limits})
    try:
        page.go("Library")
        page.go("Usage")
        rows = page.wait_rows("Budgets", lambda rows: len(rows) == 2)
        found = {row["Resource"]: row for row in rows}
        assert found["Bytes"]["Used"].endswith("of 1.0\u00a0TB")
        assert found["Slot time"]["Used"].endswith("of 2.0\u00a0h")
        assert {row["State"] for row in rows} == {"within"}
        page.choose("scope", "all")
        page.wait_rows("Budgets", lambda rows: len(rows) == 2)
        page.visit(f"projects/{ONE}")
        rows = page.wait_rows("Budgets", lambda rows: len(rows) == 2)
        assert {row["Project"] for row in rows} == {ONE}
    finally:
        api.ask("DELETE", f"budgets/{ONE}", ADMIN)


def test_reservations(page: browser.Page, api: Api) -> None:
    """When slots are reserved, and how many of them work."""
    start = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=2)
    wanted = {
        "name": "morning",
        "project_id": ONE,
        "accelerator": "copy",
        "slots": 2,
        "start_at": start.isoformat(),
        "end_at": (start + datetime.timedelta(hours=3)).isoformat(),
        "repeat": "day",
        "times": 5,
    }
    body = {"reservation": wanted}
    made = api.ask("POST", "reservations", ADMIN, body)["reservation"]
    try:
        page.sign_in("admin", ONE)
        page.go("Usage")
        (row,) = page.wait_rows("Reservations", lambda rows: rows)
        assert row.pop("Starts").startswith("in ")
        assert row == {
            "Reservation": "morning",
            "Project": ONE,
            "Accelerator": "copy",
            "Slots": "2",
            "Lasts": "3\u00a0h",
            "Recurs": "every day, 5 times",
            "State": "scheduled",
        }
    finally:
        api.ask("DELETE", f"reservations/{made['id']}", ADMIN)


def test_api_that_is_away(page: browser.Page) -> None:
    """The page says so, keeps what it has, and comes back by itself."""
    page.sign_in("eve", ONE)
    page.wait_tiles(idle=SLOTS)
    page.cdp("Network.enable")

    def set_offline(offline: bool) -> None:
        page.cdp(
            "Network.emulateNetworkConditions",
            offline=offline,
            latency=0,
            downloadThroughput=-1,
            uploadThroughput=-1,
        )

    set_offline(True)
    page.wait(
        lambda: "NO_ANSWER" in page.text("#problem"), "the page complains"
    )
    assert page.tiles()["Slots idle"] == str(SLOTS)
    set_offline(False)
    page.wait_live()
    assert page.text("#problem") == ""


def test_phone(page: browser.Page, api: Api) -> None:
    """Nothing is wider than the screen, and each value has room."""
    width, height = PHONE
    page.cdp(
        "Emulation.setDeviceMetricsOverride",
        width=width,
        height=height,
        deviceScaleFactor=1,
        mobile=True,
    )
    for number in range(SLOTS + 1):
        api.open(f"phone-{number}-" + "x" * 50)
    widest = "return document.documentElement.scrollWidth"
    assert page.run(widest) <= width
    page.sign_in("admin", "operators")
    page.choose("scope", "all")
    for title in page.views():
        page.go(title)
        page.wait_live()
        if title == "Sessions":
            page.wait_rows("Waiting", lambda rows: rows)
            widths = page.run(
                "return [...document.querySelectorAll('td')]"
                ".map((one) => one.getBoundingClientRect().width)"
            )
            assert min(one for one in widths if one) > width / 2
        assert page.run(widest) <= width, title
        assert page.run("return innerWidth") == width, title


def test_words_stay_whole(page: browser.Page, api: Api) -> None:
    """Long names break, and take no room from the words beside them."""
    page.sign_in("admin", "operators")
    page.choose("scope", "all")
    for width in (browser.WIDTH, 1030, 700, PHONE[0]):
        page.cdp(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=PHONE[1],
            deviceScaleFactor=1,
            mobile=width == PHONE[0],
        )
        for number in range(SLOTS):
            api.open(f"holder{number}-{width}", "default")
        for letter in "xyz":
            api.open(f"{width}-{letter * 59}")
        page.go("Sessions")
        page.wait_rows("Waiting", lambda rows: len(rows) == len("xyz"))
        _check_words(page, width)
        for title in page.views():
            page.go(title)
            page.wait_live()
            _check_words(page, width)
        api.close_all()


def _check_words(page: browser.Page, width: int) -> None:
    place = page.driver.title, width
    for script in (_CUT_WORDS, _CUT_TABLES, _CUT_VALUES):
        assert page.run(script) == [], place
    widest = page.run("return document.documentElement.scrollWidth")
    assert widest <= width, place


def _focused(page: browser.Page) -> str:
    element: str = page.run(
        "const one = document.activeElement;"
        "return one.id || one.getAttribute('aria-label') || one.textContent"
    )
    return element


def _press_until(
    page: browser.Page, what: Callable[[str], bool], key: str = Keys.TAB
) -> None:
    """Press Tab until something has the focus, which must be visible."""
    for _ in range(60):
        action_chains.ActionChains(page.driver).send_keys(key).perform()
        if what(_focused(page)):
            outline = (
                "return getComputedStyle(document.activeElement).outlineStyle"
            )
            assert page.run(outline) != "none"
            return
    raise AssertionError(f"not reached; {_focused(page)} has the focus")


def _press(page: browser.Page, key: str) -> None:
    action_chains.ActionChains(page.driver).send_keys(key).perform()


def test_keyboard(page: browser.Page, api: Api) -> None:
    """Everything can be done without a mouse."""
    api.open("by-keys", "default")
    assert _focused(page) == "field-user"
    _press(page, Keys.ENTER)
    page.wait_live()
    _press_until(page, lambda one: one == "Sessions")
    _press(page, Keys.ENTER)
    page.wait_view("Sessions")
    page.wait_rows("Running", lambda rows: rows)
    _press_until(page, lambda one: one == "Close session by-keys")
    _press(page, Keys.ENTER)
    page.wait(lambda: page.one("#question").is_displayed(), "the question")
    _press(page, Keys.ESCAPE)
    page.wait(
        lambda: not page.one("#question").is_displayed(), "it is withdrawn"
    )
    # The focus is where it was, although the page goes on.
    assert _focused(page) == "Close session by-keys"
    before = page.text("#status")
    page.wait(lambda: page.text("#status") != before, "a refresh")
    assert _focused(page) == "Close session by-keys"
    _press(page, Keys.ENTER)
    _press_until(page, lambda one: one == "question-yes")
    _press(page, Keys.ENTER)
    page.wait_rows("Running", lambda rows: "by-keys" not in states(rows))


def _brightness(page: browser.Page) -> float:
    colour = page.run("return getComputedStyle(document.body).backgroundColor")
    numbers = [float(one) for one in colour[4:-1].split(",")]
    return sum(numbers) / len(numbers)


def test_dark_mode(page: browser.Page) -> None:
    page.sign_in("eve", ONE)
    for scheme, is_dark in (("dark", True), ("light", False)):
        page.cdp(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )
        assert (_brightness(page) < 60) is is_dark
