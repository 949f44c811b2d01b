# SPDX-License-Identifier: Apache-2.0

"""Times in the API's format."""

from __future__ import annotations

import datetime


def text(time_s: float | None, timespec: str = "microseconds") -> str | None:
    """Return a time as ISO 8601 text, in UTC.

    :param time_s: seconds since the epoch; for None, None is returned.
    """
    if time_s is None:
        return None
    moment = datetime.datetime.fromtimestamp(time_s, datetime.UTC)
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")


def seconds(text: str) -> float:
    """Return an ISO 8601 time as seconds since the epoch.

    :param text: the time, in UTC if it has no time zone.
    :raises ValueError: if it is not an ISO 8601 time.
    """
    moment = datetime.datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return moment.timestamp()
