# SPDX-License-Identifier: Apache-2.0

"""Accelerators of the library."""

from fpgapool.api.schemas import common
from fpgapool.vocabulary import library

ACCELERATOR = common.resource(library.ACCELERATOR, {}, optional=["platforms"])

LIST_QUERY = common.list_query(library.ACCELERATOR.sort_keys)

LIST = common.page_of("accelerators", ACCELERATOR)

SHOW = common.record(
    accelerator=common.described(ACCELERATOR, "The accelerator.")
)
