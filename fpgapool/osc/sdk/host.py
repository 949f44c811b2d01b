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

"""Hosts of the pool."""

from __future__ import annotations

from openstack import resource

from fpgapool.osc.sdk import base


class Host(base.Administered):
    """A host."""

    resource_key = "host"
    resources_key = "hosts"
    base_path = "/hosts"
    allow_fetch = True
    allow_list = True

    _query_mapping = base.query("name", is_up="up")

    uuid = resource.Body("uuid", alternate_id=True)
    name = resource.Body("name")
    #: Whether its agent reports.
    is_up = resource.Body("up", type=bool)
    #: Rate of its network card, in each direction.
    nic_bytes_per_s = resource.Body("nic_bytes_per_s", type=float)
    #: Accelerators that are kept off it for their failures.
    faulty_accelerators = resource.Body(
        "faulty_accelerators", type=list, list_type=dict
    )
    #: How many boards it has.
    devices = resource.Body("devices", type=int)
    #: How many slots they have.
    slots = resource.Body("slots", type=int)
