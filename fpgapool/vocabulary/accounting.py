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


def _key(name: str, kind: fields.Kind, about: str) -> fields.Field:
    return fields.stored(name, kind, about, default=None, column=True)


def _sum(
    name: str,
    about: str = "",
    title: str = "",
    kind: fields.Kind = fields.COUNT,
) -> fields.Field:
    default = kind.type()
    return fields.stored(
        name, kind, about, default=default, column=True, title=title
    )


#: What a project used of an accelerator on a day, or the sum of several.
USAGE = fields.Fields(
    fields.shown("id", fields.TEXT, "Unique; the marker of a page."),
    _key(
        "day",
        fields.DAY,
        "UTC day on which the slots were released; null: the sum of several"
        " days.",
    ),
    _key("project_id", fields.NAME, "Null: the sum of several projects."),
    _key("accelerator", fields.NAME, "Null: the sum of several accelerators."),
    _sum("sessions", "Ended sessions that had a slot."),
    _sum(
        "sessions_met",
        "Ended sessions that met their deadlines.",
        "Deadlines Met",
    ),
    _sum(
        "sessions_missed",
        "Ended sessions that missed their deadlines.",
        "Deadlines Missed",
    ),
    _sum(
        "slot_s",
        "Time for which slots, also those of groups, were held, in seconds.",
        "Slot Seconds",
        fields.NUMBER,
    ),
    _sum(
        "group_busy_s",
        "Time for which the project's tasks and locks had slots of groups, in"
        " seconds.",
        "Group Busy Seconds",
        fields.NUMBER,
    ),
    _sum(
        "group_idle_s",
        "Time for which slots of the project's groups had neither task nor"
        " lock, in seconds.",
        "Group Idle Seconds",
        fields.NUMBER,
    ),
    _sum("input_bytes"),
    _sum("output_bytes"),
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
