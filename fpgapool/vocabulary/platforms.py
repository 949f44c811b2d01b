# SPDX-License-Identifier: Apache-2.0

"""The platforms of an accelerator: its performance in slots of each shape.

A profile's ``platforms`` maps shapes of slots to measured values::

    platforms:
      xilinx_u250_gen3x16_xdma_4_1: {peak_bytes_per_s: 9.0e+9, active_w: 38}
      pocl-cpu: {peak_bytes_per_s: 4.0e+8, active_w: 15}
      cpu: {peak_bytes_per_s: 1.1e+8, active_w: 12}

For slots of other shapes, the accelerator's ``peak_bytes_per_s`` applies and
the power is unknown. ``cpu`` is not a slot but a core of a processor, on which
a program computes without the pool. Strategies, usage records, programs and
the simulator all read this table.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import typing

from fpgapool.vocabulary import shapes

#: The platform that is not a slot: a core of a processor.
CPU = "cpu"

PEAK_BYTES_PER_S = "peak_bytes_per_s"
ACTIVE_W = "active_w"

#: Maximum number of platforms of one accelerator.
MAX_PLATFORMS = 64

_MAX_PEAK_BYTES_PER_S = 1e15
_MAX_ACTIVE_W = 1e6
_MAX_SHAPE_LENGTH = 255

#: The platforms as documents contain them: their members, by shape.
Document: typing.TypeAlias = collections.abc.Mapping[
    str, collections.abc.Mapping[str, float]
]

#: JSON schema of a document.
SCHEMA: typing.Final[dict[str, typing.Any]] = {
    "type": "object",
    "maxProperties": MAX_PLATFORMS,
    "propertyNames": {"minLength": 1, "maxLength": _MAX_SHAPE_LENGTH},
    "additionalProperties": {
        "type": "object",
        "required": [PEAK_BYTES_PER_S],
        "additionalProperties": False,
        "properties": {
            PEAK_BYTES_PER_S: {
                "type": "number",
                "minimum": 1,
                "maximum": _MAX_PEAK_BYTES_PER_S,
            },
            ACTIVE_W: {
                "type": "number",
                "minimum": 0,
                "maximum": _MAX_ACTIVE_W,
            },
        },
    },
}


@dataclasses.dataclass(frozen=True, slots=True)
class Platform:
    """An accelerator in slots of one shape, or on a core of a processor.

    :ivar peak_bytes_per_s: highest input rate of one slot.
    :ivar active_w: power that a working slot draws, in addition to that of
        the idle board or core; None: unknown.
    """

    peak_bytes_per_s: float
    active_w: float | None = None


_PLATFORM = shapes.Members(
    {PEAK_BYTES_PER_S: shapes.number(1, _MAX_PEAK_BYTES_PER_S)},
    {ACTIVE_W: shapes.number(0, _MAX_ACTIVE_W)},
)
#: The required form of a document.
SHAPE = shapes.mapping_of(
    _PLATFORM, MAX_PLATFORMS, shapes.text(_MAX_SHAPE_LENGTH, least=1)
)


def read(document: object) -> dict[str, Platform]:
    """Check a document, and return the platforms by shape of the slot.

    :raises ValueError: with the shape, the member and the reason.
    """
    return {
        shape: Platform(**members)
        for shape, members in SHAPE(document, "").items()
    }


def peaks(document: Document | None) -> dict[str, float]:
    """Return the highest input rates of slots in bytes/s, by shape."""
    return {
        shape: members[PEAK_BYTES_PER_S]
        for shape, members in (document or {}).items()
        if shape != CPU
    }


def active_w(document: Document | None, shape: str) -> float | None:
    """Return the power in slots of a shape or on the CPU; None: unknown."""
    return (document or {}).get(shape, {}).get(ACTIVE_W)
