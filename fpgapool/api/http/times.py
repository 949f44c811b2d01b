# SPDX-License-Identifier: Apache-2.0

"""Times in the API's format."""

from __future__ import annotations

import datetime


def text(time_s: float | None, timespec: str = "microseconds") -> str | None:
    """Return a time of the wall clock in ISO 8601, in UTC.

    :param time_s: in seconds; None stays None.
    :param timespec: the precision.
    """
    if time_s is None:
        return None
    moment = datetime.datetime.fromtimestamp(time_s, datetime.UTC)
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")


def seconds(text: str) -> float:
    """Return a time in ISO 8601 in seconds; in UTC by default.

    :raises ValueError: if it is not a time.
    """
    moment = datetime.datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return moment.timestamp()
