# SPDX-License-Identifier: Apache-2.0

"""Times in the API's format."""

from __future__ import annotations

import datetime

from fpgapool.vocabulary import rules


def text(time_s: float | None, timespec: str = "microseconds") -> str | None:
    """Return seconds since the epoch as ISO 8601 text in UTC, or None."""
    if time_s is None:
        return None
    moment = datetime.datetime.fromtimestamp(time_s, datetime.UTC)
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")


def seconds(text: str) -> float:
    """Return an ISO 8601 time, by default in UTC, as seconds since the epoch.

    :raises ValueError: if it is not an ISO 8601 time.
    """
    if not rules.ISO_TIME.fullmatch(text):
        raise ValueError("there must be a T between the day and the time")
    moment = datetime.datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return moment.timestamp()
