# SPDX-License-Identifier: Apache-2.0

"""Services: the leading conductor, and the agents."""

from fpgapool.osc.sdk import base
from fpgapool.vocabulary import inventory


@base.described(inventory.SERVICE)
class Service(base.Resource):
    """A service."""

    resources_key = "services"
    base_path = "/services"
    allow_list = True

    _query_mapping = base.query("binary", is_up="up")
