# SPDX-License-Identifier: Apache-2.0

"""The spans of assignments."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fpgapool import objects
from fpgapool.agent.slots import traces
from fpgapool.common.monitoring import tracing

PARENT = f"00-{'1' * 32}-{'2' * 16}-01"
KEY = ("board0", 0)


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> list[list[Any]]:
    """Give the spans: name, parent, begin, end and error."""
    found: list[list[Any]] = []

    def begin(
        name: str, parent: str | None, at: float, **_more: Any
    ) -> tracing.Span:
        one: list[Any] = [name, parent, at, None, ""]
        found.append(one)

        class Span(tracing.Span):
            def end(
                self, at: float | None = None, *, error: str = "", **_: Any
            ) -> None:
                if one[3] is None:
                    one[3:] = [at, error]

        return Span(f"{name}'s")

    monkeypatch.setattr(tracing, "begin", begin)
    return found


@dataclasses.dataclass
class Status:
    programming: dict[str, Any] | None


def order(generation: int, parent: str | None = PARENT) -> Any:
    request = objects.AssignRequest(
        host_uuid="h",
        device=KEY[0],
        slot=KEY[1],
        session_id="s",
        generation=generation,
        project_id="p",
        accelerator="copy",
        bitstream="builtin:copy",
        connect_timeout_s=1.0,
        resume_grace_s=1.0,
        claimed_bytes=1,
        local=True,
    )
    return dataclasses.replace(
        request, carrier={"traceparent": parent} if parent else None
    )


def result(generation: int, **members: Any) -> objects.SessionResult:
    wanted = {
        "state": "CLOSED",
        "code": "OK",
        "started_at": 13.0,
        "finished_at": 14.0,
        **members,
    }
    return objects.SessionResult(
        session_id="s", generation=generation, **wanted
    )


def programmed(generation: int, began: float, ended: float) -> Any:
    return Status(
        {"generation": generation, "began_at": began, "ended_at": ended}
    )


def test_a_session(spans: list[list[Any]]) -> None:
    made = traces.Traces()
    made.ordered(KEY, order(1), 10.0)
    made.ordered(KEY, order(1), 10.5)
    made.prepared(KEY, 1, 12.0)
    made.ended(KEY, result(1), programmed(1, 10.5, 11.5), 15.0)
    made.ended(KEY, result(1), programmed(1, 10.5, 11.5), 16.0)
    assert spans == [
        ["agent order", PARENT, 10.0, 12.0, ""],
        ["worker program", "agent order's", 10.5, 11.5, ""],
        ["worker run", "agent order's", 13.0, 14.0, ""],
    ]


def test_a_preparation_that_fails(spans: list[list[Any]]) -> None:
    made = traces.Traces()
    made.ordered(KEY, order(2), 10.0)
    failed = result(
        2, state="PREPARE_FAILED", code="PROGRAM_FAILED", started_at=None
    )
    made.ended(KEY, failed, programmed(2, 10.5, 11.5), 15.0)
    assert spans == [
        ["agent order", PARENT, 10.0, 15.0, "PROGRAM_FAILED"],
        ["worker program", "agent order's", 10.5, 11.5, "PROGRAM_FAILED"],
    ]


@pytest.mark.security
def test_workers_that_lie_about_the_time(spans: list[list[Any]]) -> None:
    made = traces.Traces()
    made.ordered(KEY, order(1), 10.0)
    lie = result(1, started_at=1e10, finished_at=0.0)
    made.ended(KEY, lie, programmed(1, 0.0, 1e10), 15.0)
    assert [one[2:4] for one in spans[1:]] == [[10.0, 15.0], [15.0, 15.0]]


def test_what_nobody_traces(spans: list[list[Any]]) -> None:
    made = traces.Traces()
    made.ordered(KEY, order(1, None), 10.0)
    made.prepared(KEY, 1, 12.0)
    made.ended(KEY, result(1), None, 15.0)
    made.ordered(KEY, order(3), 20.0)
    made.prepared(KEY, 2, 22.0)
    made.ended(KEY, result(2), None, 25.0)
    assert spans == [["agent order", PARENT, 20.0, None, ""]]
