# SPDX-License-Identifier: Apache-2.0

"""No view of the live page keeps anyone out, says axe."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.functional.allinone import harness
from tests.ui import browser
from tests.ui import test_page

AXE = pathlib.Path(sys.prefix) / "browser/node_modules/axe-core/axe.min.js"
_CHECK = """
const done = arguments[0];
axe.run(document).then((found) => done(found.violations.map((one) =>
  [one.id, one.help, one.nodes.map((node) => node.html.slice(0, 200))
    .slice(0, 3)])), (error) => done([[String(error)]]));
"""


@pytest.fixture
def api(site: harness.Site) -> Iterator[test_page.Api]:
    """Give the API; sessions end with the test."""
    made = test_page.Api(site.url)
    yield made
    made.close_all()


def _violations(page: browser.Page) -> Any:
    if not page.run("return Boolean(window.axe)"):
        assert AXE.exists(), "axe-core is missing: make browser"
        page.run(AXE.read_text())
    return page.driver.execute_async_script(_CHECK)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [browser.WIDTH, test_page.PHONE[0]])
def test_no_violations(
    page: browser.Page, api: test_page.Api, width: int, scheme: str
) -> None:
    page.cdp(
        "Emulation.setDeviceMetricsOverride",
        width=width,
        height=browser.HEIGHT,
        deviceScaleFactor=1,
        mobile=width < browser.WIDTH,
    )
    page.cdp(
        "Emulation.setEmulatedMedia",
        features=[{"name": "prefers-color-scheme", "value": scheme}],
    )
    session_id = ""
    for number in range(test_page.SLOTS + 1):
        session_id = session_id or api.open(f"holder{number}", "operators")
        api.open(f"other{number}", "operators")
    host = api.host("node1")
    found = {"sign-in": _violations(page)}
    page.sign_in("admin", "operators")
    for place in (
        *("pool", "sessions", "groups", "library", "usage", "events"),
        *("operations", f"sessions/{session_id}", f"hosts/{host}"),
        *(f"slots/{host}/board0/0", "accelerators/copy"),
        *("projects/operators", "search/node"),
    ):
        page.visit(place)
        page.wait(
            lambda: page.found("main h2, main form"), f"the view {place}"
        )
        page.wait_live()
        found[place] = _violations(page)
    assert {k: v for k, v in found.items() if v} == {}
