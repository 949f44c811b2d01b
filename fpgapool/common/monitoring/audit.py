# SPDX-License-Identifier: Apache-2.0

"""The audit log: one line for each action that needs privileges.

Each line is a JSON object, so that a value cannot fake another line. The
logger has its own name, so that operators can send it to another destination.
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

# Longer values are truncated.
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
    """Write the line for one action.

    :param target_projects: the projects that own the target, if they are not
        the user's project.
    :param code: the error code; None if the action was done.
    :param before: the values that the action replaced.
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
    """Return the values; if they are too long, only their beginning."""
    if not values:
        return None
    text = json.dumps(dict(values), default=str)
    if len(text) <= _MAX_CHARACTERS:
        return dict(values)
    return {"cut": text[:_MAX_CHARACTERS]}
