# SPDX-License-Identifier: Apache-2.0

"""Hosts of the pool."""

from fpgapool.api.schemas import administration
from fpgapool.api.schemas import common
from fpgapool.vocabulary import fields
from fpgapool.vocabulary import inventory

_FAULTS = {
    "type": "array",
    "items": common.record(
        optional=["shape"], **common.of_fields(inventory.FAULT, {})
    ),
}
HOST = common.resource(inventory.HOST, {fields.OBJECTS: _FAULTS})

LIST_QUERY = common.list_query(
    inventory.HOST.sort_keys, name=common.NAME, up=common.FLAG
)

LIST = common.page_of("hosts", HOST)

SHOW = common.record(host=common.described(HOST, "The host."))

CHANGE = administration.CHANGE
