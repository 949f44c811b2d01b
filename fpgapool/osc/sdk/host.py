# SPDX-License-Identifier: Apache-2.0

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
    is_up = resource.Body("up", type=bool)
    #: Rate of its network card, in each direction.
    nic_bytes_per_s = resource.Body("nic_bytes_per_s", type=float)
    #: Accelerators that the pool does not run on it because they failed.
    faulty_accelerators = resource.Body(
        "faulty_accelerators", type=list, list_type=dict
    )
    devices = resource.Body("devices", type=int)
    slots = resource.Body("slots", type=int)
