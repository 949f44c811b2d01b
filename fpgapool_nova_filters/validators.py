# SPDX-License-Identifier: Apache-2.0

"""The validator for extra specs about accelerators, used by nova-api."""

from __future__ import annotations

from nova.api.validation.extra_specs import base

from fpgapool_nova_filters import specs


def register() -> list[base.ExtraSpecValidator]:
    """Return the known extra specs.

    nova-api rejects others in the same namespace.
    """
    return [
        base.ExtraSpecValidator(
            name=specs.ACCELERATORS,
            description="Names of the accelerators that instances use,"
            " separated by commas.",
            value={
                "type": str,
                "pattern": specs.ACCELERATORS_PATTERN,
                "description": "for example aes,fft",
            },
        ),
        base.ExtraSpecValidator(
            name=specs.AFFINITY,
            description="Whether instances must, should or must not be placed"
            " on hosts whose boards run these accelerators.",
            value={
                "type": str,
                "enum": list(specs.AFFINITIES),
                "description": "the default is 'preferred'",
            },
        ),
        base.ExtraSpecValidator(
            name=specs.SLA,
            description="How important the deadlines of instances are;"
            f" {specs.AFFINITY} decides where they are placed, and must not"
            " contradict it.",
            value={
                "type": str,
                "enum": list(specs.SLAS),
                "description": "'high': on hosts with boards if there is room;"
                " 'soft': on hosts without boards if one passes",
            },
        ),
        base.ExtraSpecValidator(
            name=specs.MAX_SESSIONS,
            description="Maximum number of concurrent sessions of each"
            " instance.",
            value={"type": int, "min": 1, "description": "at least 1"},
        ),
    ]
