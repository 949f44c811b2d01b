# SPDX-License-Identifier: Apache-2.0

"""Budgets of projects."""

from fpgapool.api.schemas import common
from fpgapool.vocabulary import budget

_NUMBER = {"type": "number"}
_AMOUNTS = common.record(
    limit=common.described({"type": "integer"}, "Amount for a period."),
    carried=common.described(
        _NUMBER, "What was left of the period before, and can be used in this."
    ),
    used=common.described(_NUMBER, "What was charged in this period."),
    open=common.described(
        _NUMBER, "What running sessions and groups used and is charged later."
    ),
    left=common.described(_NUMBER, "What can still be used."),
)
_WORDS = {
    "source": ("default", "project"),
    "period": budget.PERIODS,
    "action": budget.ACTIONS,
    "state": budget.STATES,
}
_SHOWN = common.record(
    **{
        **common.of_fields(budget.FIELDS.shown),
        **{
            one.name: common.described(
                common.one_of(*_WORDS[one.name]), one.about
            )
            for one in budget.FIELDS.shown
            if one.name in _WORDS
        },
        **{
            name: common.described(common.nullable(_AMOUNTS), about)
            for name, about in budget.RESOURCES.items()
        },
    },
    links=common.LINKS,
)
SHOW = common.record(budget=_SHOWN)

# The values are checked apart, so that they have a code of their own.
_LIMIT: common.Schema = {
    "type": ["number", "null"],
    "description": f"A whole number from 1 to {budget.MAX_LIMIT}; null: no"
    " limit.",
}
_SETTABLE: dict[str, common.Schema] = {
    **{
        name: common.described(_LIMIT, f"{about} {_LIMIT['description']}")
        for name, about in budget.RESOURCES.items()
    },
    "period": common.described(
        {"type": "string", "maxLength": 40},
        "`day`, `week` (from Monday) or `month`, in UTC; by default `month`.",
    ),
    "action": common.described(
        {"type": "string", "maxLength": 40},
        "What happens when nothing is left: `refuse` (the default),"
        " `idle_only` or `finish`.",
    ),
    "carry_over": common.described(
        common.FLAG,
        "Whether what is left can be used in the next period; by default it"
        " cannot.",
    ),
}
UPDATE = common.record(
    budget={
        **common.record(optional=_SETTABLE, **_SETTABLE),
        "description": "The whole budget: what is omitted has its default.",
    }
)
_FILTERS = {
    "project_id": common.described(
        common.NAME, "Only this project; default is your project."
    ),
    "all_projects": common.described(
        common.FLAG, "List the budgets of all projects."
    ),
    "limit": common.LIMIT,
    "marker": common.described(
        common.NAME, "`project_id` of the last member of the previous page."
    ),
}
INDEX = {
    "query": common.record(optional=_FILTERS, **_FILTERS),
    "response": common.page_of("budgets", _SHOWN),
}
