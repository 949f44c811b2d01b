# SPDX-License-Identifier: Apache-2.0

"""Lines are left out, counted, and told of as their callers'."""

import importlib
import pathlib

import pytest

from fpgapool.common.monitoring import ratelimit

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
        "client refused: 8 (7 similar lines omitted)",
        "client refused: 8",
        "client dropped",
    ]
    (place,) = {(one.name, one.pathname) for one in caplog.records}
    assert place == ("some.name", str(pathlib.Path(__file__)))


def test_a_bucket_runs_empty_and_fills_again():
    now = [100.0]
    limiter = ratelimit.Limiter(2.0, 3, lambda: now[0])
    assert [limiter.wait_s("a") for _ in range(4)] == [0, 0, 0, 0.5]
    assert limiter.wait_s("b") == 0
    now[0] += 0.25
    assert limiter.wait_s("a") == 0.25
    now[0] += 0.25
    assert limiter.wait_s("a") == 0
    now[0] += 1000
    assert [limiter.wait_s("a") > 0 for _ in range(4)] == [0, 0, 0, 1]


def test_no_limit():
    limiter = ratelimit.Limiter(0, 1, lambda: 0.0)
    assert {limiter.wait_s("a") for _ in range(100)} == {0.0}


def test_memory_is_bounded():
    limiter = ratelimit.Limiter(1, 1, lambda: 0.0)
    for number in range(ratelimit._MAX_BUCKETS + 10):
        limiter.wait_s(str(number))
    assert len(limiter._buckets) == ratelimit._MAX_BUCKETS
    # Whoever asks on is not forgotten.
    assert limiter.wait_s(str(ratelimit._MAX_BUCKETS)) > 0


@pytest.mark.parametrize(
    ("module", "name"),
    [
        *[
            (f"fpgapool.{one}", "LOG")
            for one in (
                "agent.groupdesk.connections",
                "agent.groupdesk.loop",
                "agent.groupdesk.ports",
                "agent.worker.data.memory",
                "agent.worker.data.processing",
                "agent.worker.data.session",
                "agent.worker.tasks",
                "api.http.middleware",
                "conductor.calls.checks",
                "conductor.calls.sessions",
            )
        ],
        ("fpgapool.api.app", "_OFTEN"),
        ("fpgapool.api.backends.vendordata", "_OFTEN"),
    ],
)
def test_lines_that_strangers_cause_are_limited(module, name) -> None:
    log = getattr(importlib.import_module(module), name)
    assert isinstance(log, ratelimit.RateLimitedLog)
