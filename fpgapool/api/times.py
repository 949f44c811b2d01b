#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Times as the API writes them."""

from __future__ import annotations

import datetime


def text(time_s: float | None, timespec: str = "microseconds") -> str | None:
    """Return a time of the wall clock in ISO 8601, in UTC.

    :param time_s: in seconds; None stays None.
    :param timespec: how exactly.
    """
    if time_s is None:
        return None
    moment = datetime.datetime.fromtimestamp(time_s, datetime.UTC)
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")


def seconds(text: str) -> float:
    """Return a time in ISO 8601 in seconds; in UTC unless it says.

    :raises ValueError: if it is none.
    """
    moment = datetime.datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return moment.timestamp()
