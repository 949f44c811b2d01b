# SPDX-License-Identifier: Apache-2.0

"""Quotas, budgets, usage and shares of projects."""

from openstack import resource

from fpgapool.osc.sdk import base
from fpgapool.vocabulary import accounting
from fpgapool.vocabulary import budget
from fpgapool.vocabulary import fields

_RESOURCES = fields.Fields(
    *(fields.shown(name, fields.OBJECT) for name in accounting.QUOTAS)
)


@base.described(_RESOURCES)
class Quota(base.Resource):
    """The limits and usage of a project.

    Each resource of :data:`fpgapool.vocabulary.accounting.QUOTAS` has
    ``limit`` (-1 means unlimited), ``in_use`` and ``source``: ``default``,
    ``project`` or ``keystone``.
    """

    resource_key = "quota"
    base_path = "/quotas"
    allow_fetch = True
    allow_delete = True

    project_id = resource.Body("project_id", alternate_id=True)


@base.described(budget.FIELDS)
class Budget(base.Resource):
    """How much a project may use in a period, and what is left.

    ``slot_s``, ``bytes`` and ``energy_j`` have ``limit``, ``carried``,
    ``used``, ``open`` and ``left``, or are None if they are not limited.
    """

    resource_key = "budget"
    resources_key = "budgets"
    base_path = "/budgets"
    allow_fetch = True
    allow_list = True
    allow_delete = True

    _query_mapping = base.query("project_id", "all_projects")

    project_id = resource.Body("project_id", alternate_id=True)


@base.described(accounting.USAGE)
class Usage(base.Resource):
    """A project's usage of an accelerator on a day.

    A key that the row sums over is None.
    """

    resources_key = "usage"
    base_path = "/usage"
    allow_list = True

    _query_mapping = base.query(
        "project_id", "all_projects", "accelerator", "start", "end", "group_by"
    )


@base.described(accounting.SHARE)
class Share(base.Resource):
    """A project's share, and what is before one of its waiting sessions.

    ``session`` has the members of
    :data:`fpgapool.vocabulary.accounting.BEFORE`.
    """

    resource_key = "share"
    base_path = "/share"
    allow_fetch = True
