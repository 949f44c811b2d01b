# SPDX-License-Identifier: Apache-2.0

"""Daily usage of projects."""

from __future__ import annotations

import datetime
import urllib.parse
from collections.abc import Sequence
from typing import Any

from fpgapool.api import call as calls
from fpgapool.api.answers import paging
from fpgapool.api.answers import views
from fpgapool.api.http import errors
from fpgapool.api.http import rights
from fpgapool.db import api as db_api
from fpgapool.vocabulary import accounting
from fpgapool.vocabulary import codes

# For each ``group_by``, the columns to group by, in the database's order.
_KEYS = {
    None: ("day", "project_id", "accelerator"),
    "day": ("day",),
    "project": ("project_id",),
    "accelerator": ("accelerator",),
}

_SEPARATOR = "/"


def index(call: calls.Call) -> calls.Answer:
    """List the usage of projects."""
    keys = _KEYS[call.query.get("group_by")]
    first_day, last_day = _day(call, "start"), _day(call, "end")
    if first_day and last_day and first_day > last_day:
        raise errors.ApiError(
            codes.INVALID_REQUEST, "query.start must not be after query.end"
        )
    found = call.backends.database.sum_usage(
        _project_id(call),
        accelerator=call.query.get("accelerator"),
        first_day=first_day,
        last_day=last_day,
        keys=keys,
        after=_after(call, keys),
        limit=paging.limit(call),
    )
    return calls.Answer(
        document=paging.document(
            call, "usage", [_document(call, one, keys) for one in found]
        )
    )


def _project_id(call: calls.Call) -> str | None:
    """Return the project whose usage is requested; None means all."""
    wanted: str | None = call.query.get("project_id")
    if call.query.get("all_projects"):
        call.require(rights.USAGE_LIST_ALL)
        return wanted
    project_id = wanted or call.project_id
    call.require(call.policy, project_id)
    return project_id


def _day(call: calls.Call, name: str) -> datetime.date | None:
    text = call.query.get(name)
    if text is None:
        return None
    try:
        return datetime.date.fromisoformat(text)
    except ValueError as error:
        raise errors.ApiError(
            codes.INVALID_REQUEST, f"query.{name}: {error}"
        ) from error


def _after(call: calls.Call, keys: Sequence[str]) -> list[Any] | None:
    """Return the keys of the last member of the previous page."""
    marker = call.query.get("marker")
    if marker is None:
        return None
    parts = [urllib.parse.unquote(one) for one in marker.split(_SEPARATOR)]
    if len(parts) != len(keys):
        raise paging.bad_marker(marker)
    try:
        return [
            datetime.date.fromisoformat(part) if key == "day" else part
            for key, part in zip(keys, parts, strict=True)
        ]
    except ValueError:
        raise paging.bad_marker(marker) from None


def _document(
    call: calls.Call, one: db_api.UsageSum, keys: Sequence[str]
) -> dict[str, Any]:
    values = [str(getattr(one, key)) for key in keys]
    quoted = [urllib.parse.quote(value, safe="") for value in values]
    return {
        **views.members(accounting.USAGE, one, call.version),
        "id": _SEPARATOR.join(quoted),
        "day": one.day.isoformat() if one.day else None,
        "energy_j_per_sla": one.energy_j_per_sla,
    }
