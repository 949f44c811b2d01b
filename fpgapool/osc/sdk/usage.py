# SPDX-License-Identifier: Apache-2.0

"""Usage of projects."""

from fpgapool.osc.sdk import base
from fpgapool.vocabulary import accounting


@base.described(accounting.USAGE)
class Usage(base.Resource):
    """Usage of an accelerator by a project on a day.

    Attributes that the row sums over are None.
    """

    resources_key = "usage"
    base_path = "/usage"
    allow_list = True

    _query_mapping = base.query(
        "project_id",
        "all_projects",
        "accelerator",
        "start",
        "end",
        "group_by",
    )
