# SPDX-License-Identifier: Apache-2.0

"""The limited resources of projects, and the members of their usage."""

from __future__ import annotations

import typing

from fpgapool.vocabulary import fields

#: The resources of quotas, and what each counts.
QUOTAS: typing.Final = {
    "sessions": "Sessions with a slot. Further sessions wait.",
    "queued": "Waiting requests. Further requests are refused.",
    "queued_bytes": "Total bytes that these requests claim.",
    "bitstream_bytes": "Total bytes of the project's bitstreams.",
    "groups": "Groups. Further groups are refused.",
    "group_slots": "Slots to which these groups may grow.",
    "group_clients": "Clients that the project has attached to groups.",
    "max_priority": "Priorities that count against other projects, whose"
    " sessions may lose their slots; `in_use` is always 0.",
}
#: A limit that stands for none.
UNLIMITED = -1
MAX_LIMIT = 2**63 - 1

#: What a project used of an accelerator on a day, or the sum of several.
USAGE = fields.Fields(
    fields.shown("id", fields.TEXT, "Unique; the marker of a page."),
    fields.stored(
        "day",
        fields.DAY,
        "UTC day on which the slots were released; null: the sum of several"
        " days.",
        default=None,
        column=True,
    ),
    fields.stored(
        "project_id",
        fields.NAME,
        "Null: the sum of several projects.",
        default=None,
        column=True,
    ),
    fields.stored(
        "accelerator",
        fields.NAME,
        "Null: the sum of several accelerators.",
        default=None,
        column=True,
    ),
    fields.stored(
        "sessions",
        fields.COUNT,
        "Ended sessions that had a slot.",
        column=True,
        default=0,
    ),
    fields.stored(
        "sessions_met",
        fields.COUNT,
        "Ended sessions that met their deadlines.",
        column=True,
        title="Deadlines Met",
        default=0,
    ),
    fields.stored(
        "sessions_missed",
        fields.COUNT,
        "Ended sessions that missed their deadlines.",
        column=True,
        title="Deadlines Missed",
        default=0,
    ),
    fields.stored(
        "slot_s",
        fields.NUMBER,
        "Time for which slots, also those of groups, were held, in seconds.",
        column=True,
        title="Slot Seconds",
        default=0.0,
    ),
    fields.stored(
        "group_busy_s",
        fields.NUMBER,
        "Time for which the project's tasks and locks had slots of groups, in"
        " seconds.",
        column=True,
        title="Group Busy Seconds",
        default=0.0,
    ),
    fields.stored(
        "group_idle_s",
        fields.NUMBER,
        "Time for which slots of the project's groups had neither task nor"
        " lock, in seconds.",
        column=True,
        title="Group Idle Seconds",
        default=0.0,
    ),
    fields.stored("input_bytes", fields.COUNT, column=True, default=0),
    fields.stored("output_bytes", fields.COUNT, column=True, default=0),
    fields.stored(
        "energy_j",
        fields.NUMBER,
        "Shares of the power of boards, in joules; null: not measured.",
        default=None,
        column=True,
        title="Energy (J)",
    ),
    fields.shown(
        "energy_j_per_sla",
        fields.NUMBER,
        "`energy_j` per deadline met; null: not measured, or none was met.",
        default=None,
        column=True,
        title="Energy per Deadline Met (J)",
    ),
)
