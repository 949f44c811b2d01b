# SPDX-License-Identifier: Apache-2.0

"""Reservations by calendar."""

from fpgapool.api.schemas import common
from fpgapool.vocabulary import reservation

_RESERVATION = common.record(
    **common.of_fields(reservation.FIELDS.shown), links=common.LINKS
)
SHOW = common.record(reservation=_RESERVATION)

# The values are checked apart, so that they have a code of their own.
_TEXT = common.LINE
_NUMBER: common.Schema = {"type": "number"}
_WANTED: dict[str, common.Schema] = {
    "accelerator": common.described(
        _TEXT, "Name of the accelerator for which the slots are reserved."
    ),
    "slots": common.described(
        _NUMBER,
        f"Number of slots, from 1 to {reservation.MAX_SLOTS}.",
    ),
    "start_at": common.described(
        common.TIME, "The first start (ISO 8601; UTC by default)."
    ),
    "end_at": common.described(
        common.TIME,
        "The end that follows, at least"
        f" {reservation.MIN_LENGTH_S:g} s later.",
    ),
    "name": common.described(
        common.nullable(_TEXT), "Need not be unique; null: none."
    ),
    "repeat": common.described(
        _TEXT, "`never` (the default), `day` or `week`: how often it recurs."
    ),
    "times": common.described(
        _NUMBER,
        "How often it begins, the first time included: from 1 (the default)"
        f" to {reservation.MAX_TIMES}.",
    ),
    "host_uuids": common.described(
        {
            "type": "array",
            "items": _TEXT,
            "maxItems": reservation.MAX_HOSTS,
        },
        "The hosts that its slots may be on; by default any.",
    ),
    "device_id": common.described(
        common.nullable(_TEXT), "The device of its slots; null: any."
    ),
    "grace_s": common.described(
        _NUMBER,
        "Its slots are released when they were not used for so many seconds;"
        f" by default {reservation.GRACE_S:g}. 0: never.",
    ),
}
_OWNER = common.described(
    common.NAME, "The project that has the slots; by default yours."
)
_REQUIRED = ("accelerator", "slots", "start_at", "end_at")
CREATE = common.record(
    reservation={
        **common.record(
            [
                "project_id",
                *(name for name in _WANTED if name not in _REQUIRED),
            ],
            project_id=_OWNER,
            **_WANTED,
        ),
        "description": "What to reserve.",
    }
)
UPDATE = common.record(
    reservation={
        **common.record(_WANTED, **_WANTED),
        "minProperties": 1,
        "description": "What changes. While it runs, only `name`, `end_at` and"
        " `grace_s` can.",
    }
)
INDEX = common.listing(
    "reservations",
    _RESERVATION,
    reservation.FIELDS,
    all_projects=common.PROJECT_FILTERS["all_projects"],
)
