# SPDX-License-Identifier: Apache-2.0

"""The all-in-one pool says what it waits for until it is ready."""

import queue
from unittest import mock

import pytest

from fpgapool.allinone import readiness


@pytest.mark.parametrize(
    "kept", ["idle", "ready", "active", "detached", "disabled"]
)
def test_it_says_what_is_not_ready_yet(
    monkeypatch: pytest.MonkeyPatch, kept: str
) -> None:
    monkeypatch.setattr(readiness, "POLL_INTERVAL_S", 0.001)
    monkeypatch.setattr(readiness, "_REPORT_INTERVAL_S", 0.001)
    api, conductor = mock.Mock(), mock.Mock()
    monkeypatch.setattr(readiness.conductor_api, "ConductorAPI", lambda: api)
    conductor.wait_until_leading.side_effect = [False, True, True, True, True]
    api.pool_counts.side_effect = [
        readiness.messaging.MessagingException,
        {"slots": {"shell": {"idle": 1, "preparing": 1}}},
        {"slots": {"shell": {"idle": 1, "faulty": 1}}},
        # What a former run has left in the database.
        {"slots": {"shell": {"idle": 1}, "other": {kept: 1}}},
    ]
    said: queue.Queue[str] = queue.Queue()
    waits = readiness.Readiness(
        conductor,
        2,
        fault=lambda: None,
        on_ready=lambda: said.put("ready"),
        on_wait=said.put,
        on_failure=said.put,
    )
    waits.start()
    assert [said.get(timeout=30) for _ in range(5)] == [
        "the conductor is starting",
        "the conductor does not respond yet",
        "1 of 2 slots are ready",
        "1 of 2 slots are ready",
        "ready",
    ]
    waits.stop()
