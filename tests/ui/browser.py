# SPDX-License-Identifier: Apache-2.0

"""Headless Chromium, and the live page in it."""

from __future__ import annotations

import pathlib
import shutil
import typing
from collections.abc import Mapping

from selenium import webdriver
from selenium.common import exceptions
from selenium.webdriver.chrome import service
from selenium.webdriver.common.by import By

from tests.harness import waiting

WIDTH, HEIGHT = 1200, 900

_OPTIONS = (
    "--headless=new",
    # Tests run as root, where the sandbox does not work.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    # It asks its makers for nothing.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)

_ROWS = """
const table = [...document.querySelectorAll("table")]
  .find((one) => one.caption.textContent.startsWith(arguments[0]));
return table ? [...table.tBodies[0].rows].map((row) => Object.fromEntries(
  [...row.cells].map((cell) => [cell.dataset.label, cell.textContent])))
  : null;
"""

_TILES = """
return Object.fromEntries([...document.querySelectorAll("#tiles > div")]
  .map((one) => [one.firstChild.textContent, one.lastChild.textContent]));
"""

_SLOTS = """
return [...document.querySelectorAll("#hosts .slot")]
  .map((one) => one.dataset.state);
"""


def start(directory: pathlib.Path) -> webdriver.Chrome:
    """Start Chromium."""
    programs = {
        name: shutil.which(name) for name in ("chromium", "chromedriver")
    }
    missing = [name for name, path in programs.items() if path is None]
    assert not missing, "please install chromium and chromium-driver"
    options = webdriver.ChromeOptions()
    options.binary_location = str(programs["chromium"])
    for option in (*_OPTIONS, f"--user-data-dir={directory}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(
        options=options,
        service=service.Service(str(programs["chromedriver"])),
    )
    driver.set_window_size(WIDTH, HEIGHT)
    return driver


class Page:
    """The live page."""

    def __init__(self, driver: webdriver.Chrome, url: str) -> None:
        self.driver = driver
        self.url = f"{url}/ui/"
        self.cdp("Emulation.clearDeviceMetricsOverride")
        self.cdp("Emulation.setEmulatedMedia", features=[])
        self.load()

    def cdp(self, name: str, **options: object) -> typing.Any:
        """Send the browser a command of its own protocol."""
        return self.driver.execute_cdp_cmd(name, options)

    def load(self) -> None:
        """Load the page anew, in a browser that knows nobody."""
        # Otherwise the browser only goes to another place in it.
        self.driver.get("about:blank")
        self.cdp("Network.clearBrowserCookies")
        self.driver.get(self.url)
        self.wait(lambda: self.found(".forms form"), "the form")

    def visit(self, place: str) -> None:
        """Go to a place in the page by its address, such as ``groups``."""
        self.run("location.hash = arguments[0]", f"#/{place}")

    def click_link(self, text: str) -> None:
        """Click a link of the view; it may be replaced meanwhile."""

        def clicked() -> bool:
            for one in self.found("main a"):
                if one.text == text:
                    one.click()
                    return True
            return False

        self.wait(clicked, f"a link {text}")

    def found(self, selector: str) -> list[typing.Any]:
        """Return elements."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> typing.Any:
        """Return an element."""
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def run(self, script: str, *arguments: object) -> typing.Any:
        return self.driver.execute_script(script, *arguments)

    def text(self, selector: str = "body") -> str:
        """Return the text that an element shows."""
        return str(self.one(selector).text)

    def wait(
        self, check: typing.Callable[[], typing.Any], what: str
    ) -> typing.Any:
        """Wait until something is true; elements may be replaced meanwhile."""

        def checked() -> typing.Any:
            try:
                return check()
            except exceptions.StaleElementReferenceException:
                return None

        def situation() -> str:
            return f"{what}; the page shows:\n{self.text()}"

        return waiting.wait_until(checked, situation)

    def fill(self, form: str, values: Mapping[str, str]) -> None:
        """Fill a form in, and send it."""
        for name, value in values.items():
            field = self.one(f"#sign-in-{form} [name={name}]")
            field.clear()
            field.send_keys(value)
        self.one(f"#sign-in-{form} button").click()

    def sign_in(self, user: str, project: str) -> None:
        """Sign in without Keystone, and wait for the map."""
        self.fill("open", {"user": user, "project": project})
        self.wait_live()

    def wait_live(self) -> None:
        """Wait until the page shows what the API says."""
        self.wait(
            lambda: self.text("#status").startswith("Live"), "it is live"
        )

    def go(self, title: str) -> None:
        """Go to a view, and wait until it is shown."""
        self.driver.find_element(By.LINK_TEXT, title).click()
        self.wait_view(title)

    def wait_view(self, title: str) -> None:
        """Wait until a view is shown."""
        self.wait(lambda: self.driver.title.startswith(title), title)

    def choose(self, name: str, value: str) -> None:
        """Choose an option, by the id of its list and its value."""
        self.one(f'#{name} option[value="{value}"]').click()

    def views(self) -> list[str]:
        """Return the names of all views."""
        return [one.text for one in self.found("#navigation a")]

    def rows(self, caption: str) -> list[dict[str, str]]:
        """Return the rows of a table; caption: how its caption begins."""
        found = self.run(_ROWS, caption)
        assert found is not None, f"there is no table {caption}"
        rows: list[dict[str, str]] = found
        return rows

    def wait_rows(
        self,
        caption: str,
        check: typing.Callable[[list[dict[str, str]]], object],
    ) -> list[dict[str, str]]:
        """Wait until a table is as it should be, and return its rows."""

        def checked() -> list[list[dict[str, str]]]:
            rows = self.rows(caption)
            return [rows] if check(rows) else []

        found: list[list[dict[str, str]]] = self.wait(
            checked, f"the table {caption} is as it should be"
        )
        return found[0]

    def tiles(self) -> dict[str, str]:
        """Return the figures above the map."""
        found: dict[str, str] = self.run(_TILES)
        return found

    def wait_tiles(self, **figures: int) -> None:
        """Wait for figures; slots in a state, by the state, and waiting."""
        names = {
            "Waiting sessions" if name == "waiting" else f"Slots {name}": value
            for name, value in figures.items()
        }
        self.wait(
            lambda: all(
                self.tiles().get(name, "0") == str(value)
                for name, value in names.items()
            ),
            f"the figures are {figures}",
        )

    def slots(self) -> list[str]:
        """Return the states of the slots that are drawn."""
        found: list[str] = self.run(_SLOTS)
        return found

    def complaints(self, *, refusals: bool = False) -> list[str]:
        """Return what scripts and the policy complained of since then.

        :param refusals: whether also what the API refused.
        """
        return [
            one["message"]
            for one in self.driver.get_log("browser")
            if refusals or one["source"] != "network"
        ]
