# SPDX-License-Identifier: Apache-2.0

"""One line in the log for everything that needs more than a tenant's rights.

The line is a JSON object, so that no value can pass for another line, and
the logger is one of its own, so that it can be sent elsewhere.
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

# Of what was asked for, and of what was there: the rest is cut.
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

    :param action: what was done.
    :param outcome: DONE, DENIED or FAILED.
    :param user: who did it.
    :param project: for which project.
    :param target: what it was done to.
    :param target_projects: whose that is, where it is another project's.
    :param request_id: what other lines of the log name the request by.
    :param code: why not, if so.
    :param values: what was asked for.
    :param before: what of it was there before.
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
    """Return values, or their beginning if they would make a long line."""
    if not values:
        return None
    text = json.dumps(dict(values), default=str)
    if len(text) <= _MAX_CHARACTERS:
        return dict(values)
    return {"cut": text[:_MAX_CHARACTERS]}
