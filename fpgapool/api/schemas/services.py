# SPDX-License-Identifier: Apache-2.0

"""Services: the leading conductor, and the agents."""

from fpgapool.api.schemas import common
from fpgapool.vocabulary import inventory

_MEMBERS = common.of_fields(inventory.SERVICE.shown, {})
SERVICE = common.record(**_MEMBERS)

LIST_QUERY = common.list_query(
    inventory.SERVICE.sort_keys, binary=_MEMBERS["binary"], up=common.FLAG
)

LIST = common.page_of("services", SERVICE)
