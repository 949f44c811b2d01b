# SPDX-License-Identifier: Apache-2.0

"""Usage of projects."""

from fpgapool.api.schemas import common
from fpgapool.vocabulary import accounting

_FILTERS = {
    "project_id": common.described(
        common.NAME, "Only this project; default is your project."
    ),
    "all_projects": common.described(
        common.FLAG, "All projects, or the named one."
    ),
    "accelerator": common.described(
        common.NAME, "Only what sessions with this accelerator used."
    ),
    "start": common.described(common.DAY, "The first day, in UTC."),
    "end": common.described(common.DAY, "The last day; it is included."),
    "group_by": common.described(
        common.one_of("day", "project", "accelerator"),
        "Sum the usage of the same day, project or accelerator. Without it,"
        " each combination of the three is a member.",
    ),
    "limit": common.LIMIT,
    "marker": common.described(
        {"type": "string", "minLength": 1, "maxLength": 2000},
        "Identifier of the last member of the previous page.",
    ),
}

LIST_QUERY = common.record(optional=list(_FILTERS), **_FILTERS)

LIST = common.page_of(
    "usage",
    common.record(**common.of_fields(accounting.USAGE.shown, {})),
)
