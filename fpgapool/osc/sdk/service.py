# SPDX-License-Identifier: Apache-2.0

"""Services: the leading conductor, and the agents."""

from __future__ import annotations

from openstack import resource

from fpgapool.osc.sdk import base


class Service(base.Resource):
    """A service."""

    resources_key = "services"
    base_path = "/services"
    allow_list = True

    _query_mapping = base.query("binary", is_up="up")

    binary = resource.Body("binary")
    host = resource.Body("host")
    is_up = resource.Body("up", type=bool)
    last_report_at = resource.Body("last_report_at")
    #: A problem that an operator should know of.
    message = resource.Body("message")
