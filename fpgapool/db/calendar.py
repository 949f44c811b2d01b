# SPDX-License-Identifier: Apache-2.0

"""Reservations by calendar as rows of the table of reservations.

That table has a row for each device that instances have reserved slots of,
with the number of slots of each. A reservation by calendar is a row with a
negative number instead of a device's, and with its document as the only name,
which counts 0. Earlier releases ignore rows of devices that they do not know,
so the tables stay as they are, and services can go back to an earlier release,
which keeps the rows.

A table of their own needs a migration, and 1.0.0 leads only if the last
migration is one that it knows (:func:`fpgapool.db.migration.require_newest`):
its conductors that stand by could not take over after ``db sync``, and
services could not go back. With the next migration this can become a table.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from oslo_log import log as logging

from fpgapool.db import models
from fpgapool.db import records
from fpgapool.db import rows
from fpgapool.vocabulary import reservation

LOG = logging.getLogger(__name__)

#: Of a document when it is made. MySQL keeps names of up to 65,535 bytes; the
#: rest is for what changes later: its state, its sums, other slots.
MAX_BYTES = 60_000
_FIRST = -1


@dataclasses.dataclass(slots=True, kw_only=True)
class Reservation:
    """A reservation by calendar.

    Times are wall-clock times in seconds.

    :ivar number: the number of its row.
    :ivar name: empty: it has none.
    :ivar accelerator: the accelerator's key.
    :ivar start_s: its present or next start, or the last one.
    :ivar times: how often it begins yet, the present time included.
    :ivar device_id: empty: any device.
    :ivar bound: its slots.
    :ivar working: how many of them work.
    :ivar used_at: when a slot was last held by its project, or the project
        could not have them all; 0: not yet, since its last start.
    :ivar over_at: when it ended; 0: it has not.
    """

    number: int
    id: str
    project_id: str
    user_id: str
    created_at: float
    accelerator: str
    slots: int
    start_s: float
    end_s: float
    name: str = ""
    repeat: str = reservation.NEVER
    times: int = 1
    host_uuids: tuple[str, ...] = ()
    device_id: str = ""
    grace_s: float = reservation.GRACE_S
    state: str = reservation.SCHEDULED
    bound: tuple[int, ...] = ()
    working: int = 0
    used_slot_s: float = 0.0
    unused_slot_s: float = 0.0
    used_at: float = 0.0
    over_at: float = 0.0

    @property
    def is_over(self) -> bool:
        return self.state in reservation.OVER

    @property
    def wanted(self) -> dict[str, Any]:
        """What its owner wants, as the members of a request."""
        return {
            "name": self.name or None,
            "accelerator": self.accelerator,
            "slots": self.slots,
            "start_s": self.start_s,
            "end_s": self.end_s,
            "repeat": self.repeat,
            "times": self.times,
            "host_uuids": list(self.host_uuids),
            "device_id": self.device_id or None,
            "grace_s": self.grace_s,
        }


_NAMES = tuple(
    field.name
    for field in dataclasses.fields(Reservation)
    if field.name != "number"
)


def row(entry: Reservation) -> records.ReservationRecord:
    """Return the row of a reservation."""
    return records.ReservationRecord(
        device_id=entry.number, instances={_text(entry): 0}
    )


def size_bytes(entry: Reservation) -> int:
    """Return the size of a reservation's document."""
    return len(_text(entry))


def _text(entry: Reservation) -> str:
    members = {name: getattr(entry, name) for name in _NAMES}
    return json.dumps(members, ensure_ascii=True, separators=(",", ":"))


def empty_row(number: int) -> records.ReservationRecord:
    """Return a row without a reservation: rows are never deleted."""
    return records.ReservationRecord(device_id=number, instances={})


def is_of_calendar(record: records.ReservationRecord) -> bool:
    return record.device_id < 0


def read(record: records.ReservationRecord) -> Reservation | None:
    """Return the reservation in a row; None: there is none.

    Members of a later release are ignored.
    """
    for text in record.instances:
        try:
            found = json.loads(text)
            members = {name: found[name] for name in _NAMES if name in found}
            for name in "host_uuids", "bound":
                members[name] = tuple(members[name])
            entry = Reservation(number=record.device_id, **members)
        except (TypeError, ValueError, KeyError):
            LOG.error("Row %d of reservations is malformed", record.device_id)
            continue
        if entry.state in reservation.STATES and (
            entry.repeat in reservation.REPEATS
        ):
            return entry
        LOG.error("Row %d of reservations is not understood", record.device_id)
    return None


def fetch(
    connection: sa.Connection, project_id: str | None
) -> list[Reservation]:
    """Return the reservations of a project; None: of all."""
    found = rows.read(
        connection,
        records.ReservationRecord,
        models.reservations.c.device_id < 0,
    )
    entries = (read(one) for one in found)
    return [
        one
        for one in entries
        if one is not None and project_id in (None, one.project_id)
    ]


class Numbers:
    """The numbers of rows, of which those without a reservation come again."""

    def __init__(self, records: Iterable[records.ReservationRecord]) -> None:
        known = [one for one in records if is_of_calendar(one)]
        self._last = min((one.device_id for one in known), default=0)
        self._free = [one.device_id for one in known if not one.instances]

    def take(self) -> int:
        """Return the number for a new row."""
        if self._free:
            return self._free.pop()
        self._last = min(self._last - 1, _FIRST)
        return self._last

    def give_back(self, number: int) -> None:
        self._free.append(number)
