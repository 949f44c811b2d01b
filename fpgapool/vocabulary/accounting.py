# SPDX-License-Identifier: Apache-2.0

"""The resources that quotas limit, and the fields of usage records."""

from __future__ import annotations

import typing

from fpgapool.vocabulary import fields

#: The resources that quotas limit, and what each counts.
QUOTAS: typing.Final = {
    "sessions": "Sessions with a slot. Further sessions wait.",
    "queued": "Waiting requests. Further requests are refused.",
    "queued_bytes": "Total bytes that waiting requests claim.",
    "bitstream_bytes": "Total bytes of the project's bitstreams.",
    "groups": "Groups. Further groups are refused.",
    "group_slots": "Slots to which the project's groups may grow.",
    "group_clients": "Clients that the project has attached to groups.",
    "max_priority": "Maximum priority when sessions compete with those of"
    " other projects; `in_use` is always 0.",
}
#: The value of a limit that means unlimited.
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


#: A project's usage of an accelerator on a day, or the sum of several.
USAGE = fields.Fields(
    fields.shown("id", fields.TEXT, "Unique; used as the `marker` of a page."),
    _key(
        "day",
        fields.DAY,
        "UTC day on which the slots were released; null for the sum of several"
        " days.",
    ),
    _key("project_id", fields.NAME, "Null for the sum of several projects."),
    _key(
        "accelerator",
        fields.NAME,
        "Null for the sum of several accelerators.",
    ),
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
        "Seconds for which slots were held, including group slots.",
        "Slot Seconds",
        fields.NUMBER,
    ),
    _sum(
        "group_busy_s",
        "Seconds for which the project's tasks and locks used group slots.",
        "Group Busy Seconds",
        fields.NUMBER,
    ),
    _sum(
        "group_idle_s",
        "Seconds for which slots of the project's groups had neither a task"
        " nor a lock.",
        "Group Idle Seconds",
        fields.NUMBER,
    ),
    _sum("input_bytes"),
    _sum("output_bytes"),
    fields.stored(
        "energy_j",
        fields.NUMBER,
        "Energy in joules, from the sessions' shares of the boards' power;"
        " null: not measured.",
        default=None,
        column=True,
        title="Energy (J)",
    ),
    fields.shown(
        "energy_j_per_sla",
        fields.NUMBER,
        "`energy_j` divided by the deadlines met; null: not measured, or no"
        " deadline was met.",
        default=None,
        column=True,
        title="Energy per Deadline Met (J)",
    ),
)
