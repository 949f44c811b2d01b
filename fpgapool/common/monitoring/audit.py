# SPDX-License-Identifier: Apache-2.0

"""The audit log: one line for each action that needs privileges.

A line is a JSON object, so that a value cannot imitate another line. The
logger has a name of its own, so that operators can direct it elsewhere.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping

from oslo_log import log as logging

LOGGER = "fpgapool.audit"

LOG = logging.getLogger(LOGGER)

DONE = "done"
DENIED = "denied"
FAILED = "failed"

# Longer values, current or previous, are cut.
_MAX_CHARACTERS = 4096


def record(
    *,
    action: str,
    outcome: str,
    user: str | None,
    project: str | None,
    target: Mapping[str, object],
    target_projects: list[str] | None = None,
    request_id: str | None = None,
    code: str | None = None,
    values: Mapping[str, object] | None = None,
    before: Mapping[str, object] | None = None,
) -> None:
    """Write the line of one action.

    :param target_projects: the projects that own the target, if others.
    :param code: the error code, unless it was done.
    """
    line = {
        "time": datetime.datetime.now(datetime.UTC).isoformat(),
        "action": action,
        "outcome": outcome,
        "code": code,
        "user": user,
        "project": project,
        "target": dict(target),
        "target_projects": target_projects,
        "values": _cut(values),
        "before": _cut(before),
        "request_id": request_id,
    }
    LOG.info(
        "%s",
        json.dumps(
            {name: value for name, value in line.items() if value is not None},
            default=str,
        ),
    )


def _cut(values: Mapping[str, object] | None) -> dict[str, object] | None:
    """Return values; only their beginning if they are long."""
    if not values:
        return None
    text = json.dumps(dict(values), default=str)
    if len(text) <= _MAX_CHARACTERS:
        return dict(values)
    return {"cut": text[:_MAX_CHARACTERS]}
