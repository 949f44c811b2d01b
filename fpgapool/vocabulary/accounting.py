# SPDX-License-Identifier: Apache-2.0

"""The limited resources of projects, and the members of their usage."""

from __future__ import annotations

import typing

from fpgapool.vocabulary import fields

#: The resources of quotas, and what each counts.
QUOTAS: typing.Final = {
    "sessions": "Sessions with a slot. Further ones wait.",
    "queued": "Requests that wait. Further ones are refused.",
    "queued_bytes": "Total bytes that these requests claim.",
    "bitstream_bytes": "Total bytes of the project's bitstreams.",
    "groups": "Groups. Further ones are refused.",
    "group_slots": "Slots that these groups may grow to.",
    "group_clients": "Clients that the project has attached to groups.",
    "max_priority": "Priorities that count against other projects,"
    " whose sessions may have to leave their slots; `in_use` is 0.",
}
#: -1 stands for no limit.
UNLIMITED = -1
MAX_LIMIT = 2**63 - 1

#: What a project used of an accelerator on a day, or the sum of several.
USAGE = fields.Fields(
    fields.shown("id", fields.TEXT, "For the marker; unique."),
    fields.stored(
        "day",
        fields.DAY,
        "Day of the slots' release, in UTC; null: several days.",
        default=None,
        column=True,
    ),
    fields.stored(
        "project_id",
        fields.NAME,
        "Null: several projects.",
        default=None,
        column=True,
    ),
    fields.stored(
        "accelerator",
        fields.NAME,
        "Null: several accelerators.",
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
        "Ended sessions that kept their deadlines.",
        column=True,
        title="Deadlines Met",
        default=0,
    ),
    fields.stored(
        "sessions_missed",
        fields.COUNT,
        "Ended sessions that did not keep their deadlines.",
        column=True,
        title="Deadlines Missed",
        default=0,
    ),
    fields.stored(
        "slot_s",
        fields.NUMBER,
        "Time for which slots were held, in seconds; that of groups included.",
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
        "`energy_j` for each deadline that was kept; null: not measured, or"
        " none was kept.",
        default=None,
        column=True,
        title="Energy per Deadline Met (J)",
    ),
)
