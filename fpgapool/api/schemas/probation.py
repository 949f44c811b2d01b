# SPDX-License-Identifier: Apache-2.0

"""What is said of what is out of use for its failures."""

from fpgapool.api.schemas import common

MEMBERS = {
    "failures": common.described(
        common.COUNT, "In a row, that took it out of use; 0 if it is in use."
    ),
    "self_tests": common.described(
        common.COUNT, "That it has not passed since it is out of use."
    ),
    "last_self_test": common.described(
        common.TEXT,
        "What came of the last one, for who sees all projects.",
    ),
    "next_self_test_at": common.described(
        common.nullable(common.TIME),
        "When it is tested again. In the past: now, or as soon as it can be,"
        " such as when nobody has the slot.",
    ),
}

ACCELERATORS = common.described(
    {
        "type": "array",
        "items": common.record(
            accelerator=common.NAME, reason=common.TEXT, **MEMBERS
        ),
    },
    "Those that are kept off the host for their failures there, as long as"
    " another host has a slot for them.",
)
