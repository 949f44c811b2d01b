# SPDX-License-Identifier: Apache-2.0

"""Hosts of the pool."""

from openstack import resource

from fpgapool.osc.sdk import base
from fpgapool.vocabulary import inventory


@base.described(inventory.HOST)
class Host(base.Administered):
    """A host; its UUID identifies it."""

    resource_key = "host"
    resources_key = "hosts"
    base_path = "/hosts"
    allow_fetch = True
    allow_list = True

    _query_mapping = base.query("name", is_up="up")

    uuid = resource.Body("uuid", alternate_id=True)
