# SPDX-License-Identifier: Apache-2.0

"""Accelerators of the library."""

from __future__ import annotations

from openstack import resource

from fpgapool.osc.sdk import base


class Accelerator(base.Resource):
    """An accelerator; its name identifies it."""

    resource_key = "accelerator"
    resources_key = "accelerators"
    base_path = "/accelerators"
    allow_fetch = True
    allow_list = True

    _query_mapping = base.query()

    name = resource.Body("name", alternate_id=True)
    description = resource.Body("description")
    #: Highest input rate in one slot.
    peak_bytes_per_s = resource.Body("peak_bytes_per_s", type=float)
    #: Bytes of output for each byte of input.
    return_ratio = resource.Body("return_ratio", type=float)
    #: Whether a session can continue in another slot.
    is_stateless = resource.Body("stateless", type=bool)
    #: Shapes of slots that fit; empty means any.
    shapes = resource.Body("shapes", type=list)
    #: JSON schema of the parameters of a session.
    params_schema = resource.Body("params_schema", type=dict)
    #: Rates and powers by shape of the slot.
    platforms = resource.Body("platforms", type=dict)
    #: The size of every chunk of the input but the last is a multiple of this.
    chunk_multiple_bytes = resource.Body("chunk_multiple_bytes", type=int)
    #: Name of the software core that computes the same.
    core = resource.Body("core")
