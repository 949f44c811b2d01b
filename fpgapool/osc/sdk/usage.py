# SPDX-License-Identifier: Apache-2.0

"""Usage of projects."""

from __future__ import annotations

from openstack import resource

from fpgapool.osc.sdk import base


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

    #: In UTC, as ``YYYY-MM-DD``.
    day = resource.Body("day")
    project_id = resource.Body("project_id")
    accelerator = resource.Body("accelerator")
    #: Ended sessions that had a slot.
    sessions = resource.Body("sessions", type=int)
    #: Ended sessions that kept their deadlines.
    sessions_met = resource.Body("sessions_met", type=int)
    #: Ended sessions that did not keep their deadlines.
    sessions_missed = resource.Body("sessions_missed", type=int)
    #: How long slots were held; that of groups is in it.
    slot_s = resource.Body("slot_s", type=float)
    #: How long the project's tasks had slots of groups.
    group_busy_s = resource.Body("group_busy_s", type=float)
    #: How long slots of the project's groups had no task.
    group_idle_s = resource.Body("group_idle_s", type=float)
    input_bytes = resource.Body("input_bytes", type=int)
    output_bytes = resource.Body("output_bytes", type=int)
    #: Shares of the power of boards; None if no board measures its power.
    energy_j = resource.Body("energy_j", type=float)
    #: The energy for each kept deadline; None: unknown, or none was kept.
    energy_j_per_sla = resource.Body("energy_j_per_sla", type=float)
