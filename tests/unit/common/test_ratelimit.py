# SPDX-License-Identifier: Apache-2.0

"""Lines are left out, counted, and told of as their callers'."""

import pathlib

import pytest

from fpgapool.common import ratelimit

pytestmark = pytest.mark.security


def test_lines_of_a_format_are_few_and_the_others_are_counted(caplog) -> None:
    now_s = 5.0
    log = ratelimit.RateLimitedLog("some.name", lambda: now_s)
    for number in range(ratelimit.BURST + 7):
        log.warning("%s refused: %d", "client", number)
    log.error("client dropped")
    expected = [f"client refused: {n}" for n in range(ratelimit.BURST)]
    assert caplog.messages == [*expected, "client dropped"]
    caplog.clear()
    now_s += ratelimit.INTERVAL_S
    for _ in range(2):
        log.warning("%s refused: %d", "client", 8)
    log.error("client dropped")
    assert caplog.messages == [
        "client refused: 8 (7 more like it left out)",
        "client refused: 8",
        "client dropped",
    ]
    (place,) = {(one.name, one.pathname) for one in caplog.records}
    assert place == ("some.name", str(pathlib.Path(__file__)))
