# SPDX-License-Identifier: Apache-2.0

"""Accelerators of the library."""

from openstack import resource

from fpgapool.osc.sdk import base
from fpgapool.vocabulary import library


@base.described(library.ACCELERATOR)
class Accelerator(base.Resource):
    """An accelerator; its name identifies it."""

    resource_key = "accelerator"
    resources_key = "accelerators"
    base_path = "/accelerators"
    allow_fetch = True
    allow_list = True

    _query_mapping = base.query()

    name = resource.Body("name", alternate_id=True)
