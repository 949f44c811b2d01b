# SPDX-License-Identifier: Apache-2.0

"""The lines of the audit log."""

import datetime
import json
import logging

from fpgapool.common.monitoring import audit


def _line(caplog, **members):
    with caplog.at_level(logging.INFO, logger=audit.LOGGER):
        audit.record(
            **{
                "action": "a",
                "outcome": audit.DONE,
                "user": "eve",
                "project": "p1",
                "target": {"session_id": "s"},
                **members,
            }
        )
    (record,) = caplog.records
    assert (record.name, record.levelno) == (audit.LOGGER, logging.INFO)
    return record.getMessage()


def test_a_line_is_an_object_without_what_is_not_known(caplog) -> None:
    line = json.loads(_line(caplog, request_id="req-1"))
    # In UTC, and first, as in other logs.
    assert next(iter(line)) == "time"
    assert datetime.datetime.fromisoformat(line.pop("time")).tzname() == "UTC"
    assert line == {
        "action": "a",
        "outcome": "done",
        "user": "eve",
        "project": "p1",
        "target": {"session_id": "s"},
        "request_id": "req-1",
    }


def test_nobody_can_forge_a_line(caplog) -> None:
    text = 'x\n2026 INFO fpgapool.audit {"user": "root"}\u2028%s\x1b[0m'
    line = _line(caplog, target={text: text}, user=text)
    assert line.isprintable()
    assert line.isascii()
    assert json.loads(line)["user"] == text


def test_a_line_has_a_length(caplog) -> None:
    line = _line(
        caplog, values={"a": "x" * 60_000}, before={"reason": "y" * 60_000}
    )
    assert len(line) < 10_000
    assert json.loads(line)["values"]["cut"].startswith('{"a": "xxx')
