#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

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
