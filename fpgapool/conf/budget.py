# SPDX-License-Identifier: Apache-2.0

"""Options of the group [budget]."""

from oslo_config import cfg

from fpgapool.conf import groups
from fpgapool.vocabulary import budget

_group = cfg.OptGroup(
    "budget",
    title="Default budget",
    help="""
How much each project may use in a day, a week or a month, unless an
administrator sets another budget for it. Only the conductor reads these
options. If none of the three limits is set, projects without their own budget
have none.
""",
)

budget_opts = [
    cfg.IntOpt(
        "slot_s",
        min=1,
        max=budget.MAX_LIMIT,
        help="""
Seconds for which a project may hold slots. By default there is no limit. The
sum of all projects' budgets may exceed what the pool has: it has 86400 seconds
a day for each slot.
""",
    ),
    cfg.IntOpt(
        "bytes",
        min=1,
        max=budget.MAX_LIMIT,
        help="""
Bytes of input and output of a project's sessions. By default there is no
limit.
""",
    ),
    cfg.IntOpt(
        "energy_j",
        min=1,
        max=budget.MAX_LIMIT,
        help="""
Joules that a project's sessions and groups may take. By default there is no
limit. Slots whose power is neither measured nor known take none.
""",
    ),
    cfg.StrOpt(
        "period",
        default=budget.MONTH,
        choices=[
            (budget.DAY, "Each day at 0:00 UTC."),
            (budget.WEEK, "Each Monday at 0:00 UTC."),
            (budget.MONTH, "On the first of each month at 0:00 UTC."),
        ],
        help="When the budget refills.",
    ),
    cfg.StrOpt(
        "action",
        default=budget.REFUSE,
        choices=[
            (
                budget.REFUSE,
                "New sessions and groups are refused with"
                " ``BUDGET_EXHAUSTED``; those that wait stay in the queue"
                " until the budget refills.",
            ),
            (
                budget.IDLE_ONLY,
                "Sessions get slots that nobody else takes, and give them back"
                " at a chunk border if another project waits.",
            ),
            (
                budget.FINISH,
                "As ``refuse``, but sessions that wait end with"
                " ``BUDGET_EXHAUSTED``.",
            ),
        ],
        help="""
What happens when a project has used up its budget. Sessions that have a slot
keep it with all three; groups give their slots back.
""",
    ),
    cfg.BoolOpt(
        "carry_over",
        default=False,
        help="""
Whether what is left of a period can be used in the next one. It is lost after
that.
""",
    ),
]

OPTIONS = groups.Options(_group, budget_opts)
