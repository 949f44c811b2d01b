# SPDX-License-Identifier: Apache-2.0

"""The validator of extra specs about accelerators, for nova-api."""

from __future__ import annotations

from nova.api.validation.extra_specs import base

from fpgapool_nova_filters import specs


def register() -> list[base.ExtraSpecValidator]:
    """Return the extra specs; others in their namespace are errors."""
    return [
        base.ExtraSpecValidator(
            name=specs.ACCELERATORS,
            description="Accelerators that instances use: names, separated by"
            " commas.",
            value={
                "type": str,
                "pattern": specs.ACCELERATORS_PATTERN,
                "description": "for instance aes,fft",
            },
        ),
        base.ExtraSpecValidator(
            name=specs.AFFINITY,
            description="Whether instances are placed on hosts whose boards"
            " run these accelerators.",
            value={
                "type": str,
                "enum": list(specs.AFFINITIES),
                "description": "'preferred' by default",
            },
        ),
        base.ExtraSpecValidator(
            name=specs.SLA,
            description="How much the deadlines of instances matter; excludes"
            f" {specs.AFFINITY}.",
            value={
                "type": str,
                "enum": list(specs.SLAS),
                "description": "'high': near boards if there is room; 'soft':"
                " away from boards if another host passes",
            },
        ),
        base.ExtraSpecValidator(
            name=specs.MAX_SESSIONS,
            description="Number of sessions that each instance may have at a"
            " time.",
            value={"type": int, "min": 1, "description": "at least 1"},
        ),
    ]
