# SPDX-License-Identifier: Apache-2.0

"""Instances that have, or had, a token of their own."""

from fpgapool.api.schemas import common
from fpgapool.vocabulary import inventory

INSTANCE = common.record(**common.of_fields(inventory.INSTANCE.shown, {}))

LIST_QUERY = common.list_query(
    inventory.INSTANCE.sort_keys, **common.PROJECT_FILTERS
)

LIST = common.page_of("instances", INSTANCE)
