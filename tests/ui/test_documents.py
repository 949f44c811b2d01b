# SPDX-License-Identifier: Apache-2.0

"""The documentation in a browser: what is found, and how it looks."""

from __future__ import annotations

import functools
import http.server
import pathlib
import re
import subprocess
import threading
from collections.abc import Iterator

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By

from tests.harness import waiting

ROOT = pathlib.Path(__file__).parents[2]
BUILD = ROOT / "build" / "docs"
PHONE = {"width": 390, "height": 800}

_HITS = """
return [...document.querySelectorAll("#search-results li > a")]
  .map((one) => one.getAttribute("href").split("?")[0].split("#")[0]);
"""
#: A picture's colour behind, and that of the page.
_BACKGROUNDS = """
const colour = (one) => getComputedStyle(one).backgroundColor;
return [...document.querySelectorAll("article img")].map(colour);
"""
_ADDRESSES = """
return performance.getEntriesByType("resource").map((one) => one.name);
"""
_WIDTHS = """
return [document.documentElement.scrollWidth, window.innerWidth];
"""


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def documents() -> Iterator[str]:
    """Build the documentation, serve it, and give its address."""
    subprocess.run(
        ["make", "--no-print-directory", "docs"], cwd=ROOT, check=True
    )
    handler = functools.partial(Handler, directory=str(BUILD))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def phone(driver: webdriver.Chrome) -> Iterator[webdriver.Chrome]:
    """Give a browser with the width of a phone."""
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {**PHONE, "deviceScaleFactor": 1, "mobile": True},
    )
    yield driver
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.fixture
def dark(driver: webdriver.Chrome) -> Iterator[webdriver.Chrome]:
    """Give a browser whose user prefers dark pages."""
    feature = {"name": "prefers-color-scheme", "value": "dark"}
    driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [feature]}
    )
    yield driver
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("too slow", "user/too-slow"),
        ("pandas", "user/pandas"),
        ("tutorial", "tutorials/index"),
        ("notebook", "user/notebooks"),
        ("jupyter", "user/notebooks"),
        ("kubernetes", "install/kubernetes"),
        ("helm", "install/kubernetes"),
        ("gzip", "user/accelerators"),
        ("encryption", "user/accelerators"),
        ("numpy", "user/pandas"),
        ("error code", "admin/troubleshoot"),
        ("NO_IDLE_SLOT", "admin/troubleshoot"),
        ("simulator", "user/simulator"),
        ("prometheus", "admin/metrics"),
        ("cheat sheet", "reference/cheat-sheet"),
        ("clouds.yaml", "install/install"),
    ],
)
def test_the_right_page_is_among_the_first(
    driver: webdriver.Chrome, documents: str, words: str, page: str
) -> None:
    driver.get(f"{documents}/html/search.html?q={words.replace(' ', '+')}")
    hits: list[str] = waiting.wait_until(
        lambda: (
            driver.execute_script(_HITS)
            if driver.find_elements(By.CSS_SELECTOR, ".search-summary")
            and "found" in driver.page_source
            else None
        ),
        lambda: f"what {words} leads to",
    )
    assert f"{page}.html" in hits[:3], hits[:10]


#: Hits whose context is not shown yet; objects have a description instead.
_WITHOUT_CONTEXT = """
return [...document.querySelectorAll("#search-results li")].filter(
  (one) => !one.querySelector("p.context, span")).map((one) => one.innerText)
"""


@pytest.mark.parametrize("word", ["zlib", "gzip", "preemption"])
def test_hits_show_what_surrounds_the_words(
    driver: webdriver.Chrome, documents: str, word: str
) -> None:
    driver.get_log("browser")
    driver.get(f"{documents}/html/search.html?q={word}")
    waiting.wait_until(
        lambda: driver.find_elements(By.CSS_SELECTOR, "p.search-summary"),
        lambda: "the search has ended",
    )
    waiting.wait_until(
        lambda: driver.execute_script(_WITHOUT_CONTEXT) == [],
        lambda: str(driver.execute_script(_WITHOUT_CONTEXT)),
    )
    shown = driver.find_elements(By.CSS_SELECTOR, "p.context")
    assert any(word in one.text.lower() for one in shown)
    log = driver.get_log("browser")
    assert [one for one in log if one["source"] != "network"] == []


@pytest.mark.parametrize(
    "name",
    [
        "html/index.html",
        "html/search.html",
        "html/reference/configuration.html",
        "releasenotes/index.html",
    ],
)
def test_pages_load_nothing_from_elsewhere(
    driver: webdriver.Chrome, documents: str, name: str
) -> None:
    driver.get(f"{documents}/{name}")
    loaded: list[str] = driver.execute_script(_ADDRESSES)
    assert loaded
    assert [one for one in loaded if not one.startswith(documents)] == []


def test_no_page_names_what_is_elsewhere(documents: str) -> None:
    """Styles, scripts, fonts and pictures; links may."""
    foreign = re.compile(
        r"<(?:script|img|iframe)[^>]*src=\"(?:https?:)?//"
        r"|<link[^>]*href=\"(?:https?:)?//|@import|url\(['\"]?(?:https?:)?//"
    )
    pages = [*BUILD.rglob("*.html"), *BUILD.rglob("*.css")]
    assert len(pages) > 80
    assert [str(one) for one in pages if foreign.search(one.read_text())] == []


def test_pictures_have_a_white_page_in_the_dark(
    dark: webdriver.Chrome, documents: str
) -> None:
    for name in ("index", "contributor/architecture", "user/simulator"):
        dark.get(f"{documents}/html/{name}.html")
        behind = dark.execute_script(_BACKGROUNDS)
        assert behind
        assert set(behind) == {"rgb(255, 255, 255)"}


@pytest.mark.parametrize(
    "name",
    [
        "index",
        "admin/troubleshoot",
        "reference/api/sessions",
        "reference/cheat-sheet",
        "reference/configuration",
        "user/accelerators",
        "user/simulator",
    ],
)
def test_no_page_is_wider_than_a_phone(
    phone: webdriver.Chrome, documents: str, name: str
) -> None:
    phone.get(f"{documents}/html/{name}.html")
    page, window = phone.execute_script(_WIDTHS)
    assert page <= window == PHONE["width"]


def test_release_notes_and_documents_lead_to_each_other(
    driver: webdriver.Chrome, documents: str
) -> None:
    """From a page that is not at the top, too."""
    driver.get(f"{documents}/html/user/use.html")
    link = driver.find_element(By.PARTIAL_LINK_TEXT, "Release notes")
    driver.get(str(link.get_attribute("href")))
    assert "release notes" in driver.title.lower()
    link = driver.find_element(By.PARTIAL_LINK_TEXT, "Documentation")
    driver.get(str(link.get_attribute("href")))
    assert driver.current_url == f"{documents}/html/index.html"
    assert driver.title == "fpgapool"
    cards = driver.find_elements(By.CSS_SELECTOR, ".card a")
    assert len(cards) == 5
