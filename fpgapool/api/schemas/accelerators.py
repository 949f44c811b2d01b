# SPDX-License-Identifier: Apache-2.0

"""Accelerators of the library."""

from fpgapool.api.schemas import common
from fpgapool.vocabulary import platforms

PLATFORMS = common.described(
    platforms.SCHEMA,
    "By shape of the slot, the highest input rate there, and the power that a"
    " slot takes while it works, if they are known; slots of other shapes have"
    " `peak_bytes_per_s`.",
)

ACCELERATOR = common.record(
    optional=["platforms"],
    name=common.NAME,
    description=common.TEXT,
    peak_bytes_per_s=common.described(
        common.NUMBER, "Highest input rate in one slot."
    ),
    return_ratio=common.described(
        common.NUMBER, "Bytes of output for each byte of input."
    ),
    stateless=common.described(
        common.FLAG, "Whether a session can continue in another slot."
    ),
    shapes=common.described(
        {"type": "array", "items": common.TEXT},
        "Shapes of slots that can run it, as far as their agents say; empty"
        " means any, and - that none can.",
    ),
    params_schema=common.described(
        {"type": "object"}, "JSON schema of the parameters of a session."
    ),
    chunk_multiple_bytes=common.described(
        common.COUNT,
        "The size of every chunk of the input but the last is a multiple of"
        " this.",
    ),
    core=common.described(
        common.TEXT, "Name of the software core that computes the same."
    ),
    platforms=PLATFORMS,
    links=common.LINKS,
)

LIST_QUERY = common.list_query(["name"])
LIST = common.page_of("accelerators", ACCELERATOR)
SHOW = common.record(
    accelerator=common.described(ACCELERATOR, "The accelerator.")
)
