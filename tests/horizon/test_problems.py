# SPDX-License-Identifier: Apache-2.0

"""The pool's API is away, refuses the token, or is not in the catalog."""

from __future__ import annotations

import pytest

from tests.horizon import conftest
from tests.horizon import page as pages

_TABS = {
    "accelerators": "Unable to retrieve the accelerators.",
    "slots": "Unable to retrieve the slots.",
    "limits": "Unable to retrieve the quota.",
    "usage": "Unable to retrieve the usage.",
}


def test_api_is_away(site: conftest.Site, page: pages.Page) -> None:
    """Each page says so, and nobody is signed out."""
    page.sign_in(site.personas.admin, pages.SESSIONS)
    assert page.problem() == ""
    wanted = {
        pages.SESSIONS: "Unable to retrieve the sessions.",
        f"{pages.SESSIONS}0ba8f6a0-7b2b-4f0e-8f5a-8a1d1c8f0a11/": (
            "Unable to retrieve the session."
        ),
        pages.HOSTS: "Unable to retrieve the hosts.",
        pages.DEVICES: "Unable to retrieve the boards.",
        **{
            f"{pages.POOL}?tab=fpga_pool__{slug}": text
            for slug, text in _TABS.items()
        },
    }
    with site.without(site.api):
        for path, text in wanted.items():
            page.open(path)
            assert text in page.problem(), path
            assert "The FPGA service does not answer" in page.problem(), path
            # Its address is for operators, who have the log.
            assert site.api.address not in page.text("html")
    assert "Internal Server Error" not in site.horizon.log()
    page.open(pages.HOSTS)
    assert page.problem() == ""
    assert page.rows("hosts")


def test_unknown_state_is_no_page(
    site: conftest.Site, page: pages.Page
) -> None:
    page.sign_in(site.personas.admin, pages.HOSTS)
    uuid = page.one("#hosts tbody tr").get_attribute("data-object-id")
    page.open(f"{pages.HOSTS}{uuid}/broken/")
    assert page.driver.title.startswith("Page Not Found")


@pytest.mark.security
def test_token_is_refused(site: conftest.Site, page: pages.Page) -> None:
    """Whoever is gone signs in again."""
    user = site.accounts.create_user(
        "horizon-gone", site.personas.stranger.project, "member"
    )
    page.sign_in(user, "/project/api_access/")
    site.accounts.delete_user(user)
    page.open(pages.SESSIONS)
    assert page.found("#sessions tbody tr:not(.empty)") == []
    assert "not authorized" in page.text()
