# SPDX-License-Identifier: Apache-2.0

"""The panels of a project."""

from __future__ import annotations

from tests.horizon import conftest
from tests.horizon import page as pages


def test_look(site: conftest.Site, page: pages.Page) -> None:
    import pathlib, time
    try:
        page.sign_in(site.personas.member, pages.SESSIONS)
    except BaseException:
        page.picture(pathlib.Path('/tmp/wt-hori-x/fail.png'));print(page.driver.current_url, site.horizon.log()[-3000:]); raise
    token = site.token(site.personas.member)
    for n in range(5):
        site.api.open(token)
    out = pathlib.Path("/tmp/wt-hori-x")
    for n, p in enumerate((pages.SESSIONS, pages.POOL, pages.POOL+"?tab=fpga_pool__slots", pages.POOL+"?tab=fpga_pool__limits", pages.POOL+"?tab=fpga_pool__usage")):
        page.open(p); page.picture(out / f"m{n}.png"); print(p, page.text()[:1500])

