# SPDX-License-Identifier: Apache-2.0

"""Usage of projects."""

from fpgapool.api.schemas import common

_DAY: common.Schema = {
    "type": "string",
    "format": "date",
    **common.matching(
        "^[0-9]{4}-[0-9]{2}-[0-9]{2}$", "a day such as 2026-01-31"
    ),
}

_FILTERS = {
    "project_id": common.described(
        common.NAME, "Only this project; default is the own project."
    ),
    "all_projects": common.described(
        common.FLAG, "All projects, or the named one."
    ),
    "accelerator": common.described(
        common.NAME, "Only what sessions with this accelerator used."
    ),
    "start": common.described(_DAY, "The first day, in UTC."),
    "end": common.described(_DAY, "The last day; it is included."),
    "group_by": common.described(
        common.one_of("day", "project", "accelerator"),
        "Sum the usage of the same day, project or accelerator. Without it,"
        " each combination of the three is a member.",
    ),
    "limit": common.described(
        {"type": "integer", "minimum": 1, "maximum": 2**31 - 1},
        "Maximum number of members; the service has a limit of its own.",
    ),
    "marker": common.described(
        {"type": "string", "minLength": 1, "maxLength": 2000},
        "Identifier of the last member of the previous page.",
    ),
}

LIST_QUERY = common.record(optional=list(_FILTERS), **_FILTERS)

_USAGE = common.record(
    id=common.described(common.TEXT, "For the marker; unique."),
    day=common.described(
        common.nullable(_DAY),
        "Day of the slots' release, in UTC; null: several days.",
    ),
    project_id=common.described(
        common.nullable(common.NAME), "Null: several projects."
    ),
    accelerator=common.described(
        common.nullable(common.NAME), "Null: several accelerators."
    ),
    sessions=common.described(common.COUNT, "Ended sessions that had a slot."),
    sessions_met=common.described(
        common.COUNT, "Ended sessions that kept their deadlines."
    ),
    sessions_missed=common.described(
        common.COUNT, "Ended sessions that did not keep their deadlines."
    ),
    slot_s=common.described(
        common.NUMBER,
        "Time for which slots were held, in seconds; that of groups included.",
    ),
    group_busy_s=common.described(
        common.NUMBER,
        "Time for which the project's tasks and locks had slots of groups, in"
        " seconds.",
    ),
    group_idle_s=common.described(
        common.NUMBER,
        "Time for which slots of the project's groups had neither task nor"
        " lock, in seconds.",
    ),
    input_bytes=common.COUNT,
    output_bytes=common.COUNT,
    energy_j=common.described(
        common.nullable(common.NUMBER),
        "Shares of the power of boards, in joules; null: not measured.",
    ),
    energy_j_per_sla=common.described(
        common.nullable(common.NUMBER),
        "`energy_j` for each deadline that was kept; null: not measured, or"
        " none was kept.",
    ),
)

LIST = common.page_of("usage", _USAGE)
