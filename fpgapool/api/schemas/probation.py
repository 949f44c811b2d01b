# SPDX-License-Identifier: Apache-2.0

"""Faults and self-tests."""

from fpgapool.api.schemas import common

MEMBERS = {
    "failures": common.described(
        common.COUNT, "Failures in a row that made it faulty; 0 if it works."
    ),
    "self_tests": common.described(
        common.COUNT, "Failed self-tests since it became faulty."
    ),
    "last_self_test": common.described(
        common.TEXT,
        "Result of the last self-test; for callers who see all projects.",
    ),
    "next_self_test_at": common.described(
        common.nullable(common.TIME),
        "Time of the next self-test. In the past: it runs, or begins as soon"
        " as possible, for example when the slot is idle.",
    ),
}

ACCELERATORS = common.described(
    {
        "type": "array",
        "items": common.record(
            optional=["shape"],
            accelerator=common.NAME,
            shape=common.described(
                common.TEXT,
                "Shape of the host's slots in which it failed; empty: all.",
            ),
            reason=common.TEXT,
            **MEMBERS,
        ),
    },
    "Accelerators that the pool does not run in slots of a shape on the host"
    " because they failed there, as long as other slots fit them.",
)
