# SPDX-License-Identifier: Apache-2.0

"""The live page while the demo runs."""

from __future__ import annotations

import base64
import pathlib
import re
from collections.abc import Callable

import pytest

from tests.functional.allinone import demos
from tests.functional.allinone import harness
from tests.ui import browser

LIMIT_S = 120
#: In the documentation.
MAX_PICTURE_BYTES = 200_000
PICTURE_SIZE = {"width": 1200, "height": 660}
# Slow enough to be watched for some seconds, and longer for a picture.
OPTIONS = ("--act=1", "--jobs=48", "--total-mb=160")
RATE_SCALE, PICTURE_SCALE = 0.002, 0.0005


def _throughput(page: browser.Page) -> str:
    return page.text("figcaption strong")


def take_picture(page: browser.Page, path: pathlib.Path) -> None:
    """Write what the page shows, in a light colour scheme."""
    page.cdp(
        "Emulation.setDeviceMetricsOverride",
        **PICTURE_SIZE,
        deviceScaleFactor=1,
        mobile=False,
    )
    data = base64.b64decode(page.cdp("Page.captureScreenshot")["data"])
    assert len(data) < MAX_PICTURE_BYTES
    path.write_bytes(data)


def test_page_follows_the_demo(
    open_page: Callable[[str], browser.Page],
    request: pytest.FixtureRequest,
    tmp_path: pathlib.Path,
) -> None:
    path = request.config.getoption("--picture")
    scale = RATE_SCALE if path is None else PICTURE_SCALE
    options = (*OPTIONS, f"--rate-scale={scale}")
    with (
        harness.short_directory() as temporary,
        demos.start_demo(temporary, tmp_path, *options) as demo,
    ):
        output = demos.read_until(demo, "/ui/")
        found = re.search(r"watch it at (\S+)/ui/", output)
        assert found is not None
        page = open_page(found[1])
        page.sign_in("admin", "default")
        page.wait(
            lambda: (
                page.slots().count("active") > 4
                and int(page.tiles()["Waiting sessions"]) > 0
            ),
            "jobs wait and run",
        )
        page.go("Sessions")
        rows = page.wait_rows("Waiting", lambda rows: rows)
        assert {row["Accelerator"] for row in rows} == {"aes"}
        page.wait_rows(
            "Running",
            lambda rows: any(
                row["Slot"].startswith("node") and row["State"] == "ACTIVE"
                for row in rows
            ),
        )
        page.go("Pool")
        page.wait(
            lambda: re.match(r"[1-9][\d.]* [kMG]B/s", _throughput(page)),
            "bytes flow",
        )
        if path is not None:
            page.wait(
                lambda: (
                    len(
                        page.run(
                            "return document.querySelector("
                            "'figure .line').getAttribute('d')"
                        ).split("L")
                    )
                    > 3
                    and page.slots().count("active") > 4
                ),
                "there is a line, and jobs run",
            )
            take_picture(page, path)
        output += demo.communicate(timeout=LIMIT_S)[0]
    assert demo.returncode == 0, output
    page.wait(
        lambda: "NO_ANSWER" in page.text("#problem"),
        "the page says that the pool is gone",
    )
