# SPDX-License-Identifier: Apache-2.0

"""Services: the conductor that leads, and the agents."""

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
    #: Name of its host.
    host = resource.Body("host")
    is_up = resource.Body("up", type=bool)
    #: When an agent was last heard.
    last_report_at = resource.Body("last_report_at")
    #: What an operator should know about it.
    message = resource.Body("message")
