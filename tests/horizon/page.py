# SPDX-License-Identifier: Apache-2.0

"""A page of Horizon in the browser."""

from __future__ import annotations

import typing
from collections.abc import Callable

from selenium import webdriver
from selenium.common import exceptions
from selenium.webdriver.common.by import By

from tests.harness import waiting
from tests.services import openstack

SESSIONS = "/project/fpga_sessions/"
POOL = "/project/fpga_pool/"
HOSTS = "/admin/fpga_hosts/"
DEVICES = "/admin/fpga_devices/"

#: Rows of a table, by the titles of its columns.
_ROWS = """
const table = document.getElementById(arguments[0]);
if (!table) return null;
const titles = [...table.querySelectorAll(".table_column_header th")]
  .map((one) => one.innerText.trim());
return [...table.querySelectorAll("tbody tr:not(.empty)")].map((row) =>
  Object.fromEntries([...row.cells].map((cell, i) =>
    [titles[i], cell.innerText.trim()])));
"""


class Page:
    """What the browser shows."""

    def __init__(self, driver: webdriver.Chrome, url: str) -> None:
        self.driver = driver
        self._url = url
        driver.set_window_size(1400, 900)
        driver.get(f"{url}/auth/logout/")
        driver.delete_all_cookies()

    def sign_in(self, user: openstack.User, path: str) -> None:
        """Sign in with a password, on the way to a page."""
        self.open(f"/auth/login/?next={path}")
        self.wait(lambda: self.found("#id_username"), "the form")
        self.one("#id_username").send_keys(user.name)
        self.one("#id_password").send_keys(user.password)
        self.one("#loginBtn").click()
        self.wait(
            lambda: (
                not self.found("#id_username") and self.found(".page-header")
            ),
            "the page that was wanted",
        )

    def open(self, path: str) -> None:
        """Load a page."""
        self.driver.get(self._url + path)

    def found(self, selector: str) -> list[typing.Any]:
        """Return elements."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> typing.Any:
        """Return an element."""
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector: str = "body") -> str:
        """Return the text that an element shows."""
        return str(self.one(selector).text)

    def wait(self, check: Callable[[], typing.Any], what: str) -> typing.Any:
        """Wait until something is true; elements may be replaced meanwhile."""

        def checked() -> typing.Any:
            try:
                return check()
            except (
                exceptions.StaleElementReferenceException,
                exceptions.NoSuchElementException,
                exceptions.ElementNotInteractableException,
            ):
                return None

        def situation() -> str:
            return f"{what}; the page shows:\n{self.text()}"

        return waiting.wait_until(checked, situation)

    def click(self, selector: str) -> None:
        """Click an element as soon as it can be clicked."""
        self.wait(
            lambda: [self.one(selector).click()], f"{selector} can be clicked"
        )

    def rows(self, table: str) -> list[dict[str, str]]:
        """Return the rows of a table, by the titles of its columns."""
        found = self.wait(
            lambda: [self.driver.execute_script(_ROWS, table)],
            f"there is a table {table}",
        )[0]
        assert found is not None, f"no table {table}:\n{self.text()}"
        rows: list[dict[str, str]] = found
        return rows

    def follow(self, text: str) -> None:
        """Click a link, and wait until its page has come."""
        self._leave(self.driver.find_element(By.PARTIAL_LINK_TEXT, text).click)

    def submit(self, selector: str) -> None:
        """Click a button, and wait until another page has come."""
        self._leave(lambda: self.click(selector))

    def ask(self, selector: str) -> None:
        """Click what opens a dialogue, and wait until it can be used."""
        self.click(selector)
        self.wait(
            lambda: self.found(".modal.in .modal-footer"), "the dialogue"
        )

    def answer(self, **values: str) -> None:
        """Fill a dialogue in, and send it."""
        for name, value in values.items():
            self.one(f".modal.in [name={name}]").send_keys(value)
        self.click(".modal.in .btn-primary, .modal.in .btn-danger")

    def confirm(self, **values: str) -> None:
        """Fill a dialogue in, send it, and wait for another page."""
        self._leave(lambda: self.answer(**values))

    def filter(self, table: str, field: str, value: str) -> None:
        """Filter the rows of a table."""
        # Chosen from a menu that a script shows instead of this.
        self.driver.execute_script(
            "document.getElementsByName(arguments[0])[0].value = arguments[1]",
            f"{table}__filter__q_field",
            field,
        )
        box = self.one(f"[name={table}__filter__q]")
        box.clear()
        box.send_keys(value)
        self.submit(f"#{table}__action_filter")

    def problem(self) -> str:
        """Return the errors that Horizon shows, with their details."""
        return " ".join(
            str(one.get_attribute("textContent"))
            for one in self.found(".messages .alert-danger")
        )

    def _leave(self, act: Callable[[], object]) -> None:
        body = self.one("body")
        act()

        def is_gone() -> bool:
            try:
                body.is_enabled()
            except exceptions.StaleElementReferenceException:
                return True
            return False

        waiting.wait_until(is_gone, "another page has come")
