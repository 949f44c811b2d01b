# SPDX-License-Identifier: Apache-2.0

"""A browser and a pool for all tests of the live page."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from collections.abc import Iterator

import pytest
from selenium import webdriver

from tests.functional.allinone import harness
from tests.ui import browser

# No client connects, however slow the browser is: slots wait for them.
CONFIGURATION = """
[conductor]
connect_timeout_s = 600
slot_fault_limit = 1
self_test_after_s = 3600
[api]
inventory_cache_s = 0
[bitstreams]
signature_required = false
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a person have the picture for the documentation."""
    parser.addoption(
        "--picture",
        type=pathlib.Path,
        metavar="FILE",
        help="write a picture of the live page to this file",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests here."""
    here = pathlib.Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def driver(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[webdriver.Chrome]:
    """Give a browser."""
    started = browser.start(tmp_path_factory.mktemp("chromium"))
    yield started
    started.quit()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[harness.Site]:
    """Give a pool of two boards with two slots each."""
    config = tmp_path_factory.mktemp("config") / "pool.conf"
    config.write_text(CONFIGURATION)
    with harness.short_directory() as directory:
        pool = harness.Pool(
            directory / "run",
            *("--hosts=3", "--boards=2", "--slots=2", "--unlimited"),
            *("--api-port=0", f"--config-file={config}"),
            f"--state-dir={directory / 'state'}",
        )
        try:
            yield harness.Site(pool, pool.wait_until_ready()["api_url"])
        finally:
            pool.close()


@pytest.fixture
def open_page(
    driver: webdriver.Chrome,
) -> Iterator[Callable[[str], browser.Page]]:
    """Give a function that opens the page of an API.

    At the end nothing has broken in it.
    """
    # What broke before is not this page's.
    driver.get_log("browser")
    opened: list[browser.Page] = []

    def make(url: str) -> browser.Page:
        opened.append(browser.Page(driver, url))
        return opened[-1]

    yield make
    for one in opened:
        assert one.complaints() == []


@pytest.fixture
def page(
    open_page: Callable[[str], browser.Page], site: harness.Site
) -> browser.Page:
    """Give the page of the pool; nobody has signed in."""
    return open_page(site.url)
