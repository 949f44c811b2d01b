# SPDX-License-Identifier: Apache-2.0

"""The extra specs of Nova flavors that concern accelerators.

The validator in ``fpgapool_nova_filters`` checks their values. Flavors created
before it was installed may have any value.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

ACCELERATORS = "fpgapool:accelerators"
AFFINITY = "fpgapool:affinity"
SLA = "fpgapool:sla"
MAX_SESSIONS = "fpgapool:max_sessions"

AVOID = "avoid"
HIGH = "high"

# The largest value that the database column can hold.
_MAX_SESSIONS = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class Requirements:
    """What a flavor requests from the pool.

    :ivar affinity: affinity to hosts with boards, as in the extra spec;
        empty: not set.
    :ivar sla: how much deadlines matter, as in the extra spec; empty: not set.
    :ivar max_sessions: maximum number of simultaneous sessions of each
        instance; None: any number.
    """

    accelerators: tuple[str, ...] = ()
    affinity: str = ""
    sla: str = ""
    max_sessions: int | None = None

    @property
    def asks(self) -> bool:
        """Whether instances of the flavor use the pool."""
        return (
            bool(self.accelerators)
            or self.affinity not in ("", AVOID)
            or self.sla == HIGH
        )


def read(extra_specs: Mapping[str, object]) -> Requirements:
    """Read a flavor's extra specs.

    :param extra_specs: as Nova sends them. A limit that is not a number is
        treated as 0, so that a mistake does not remove the limit.
    """
    names = str(extra_specs.get(ACCELERATORS, "")).split(",")
    return Requirements(
        accelerators=tuple(name.strip() for name in names if name.strip()),
        affinity=_word(extra_specs.get(AFFINITY, "")),
        sla=_word(extra_specs.get(SLA, "")),
        max_sessions=_limit(extra_specs.get(MAX_SESSIONS)),
    )


def _word(value: object) -> str:
    return str(value).strip().lower()


def _limit(text: object) -> int | None:
    if text is None:
        return None
    words = str(text).strip()
    # isdecimal() alone would also accept non-ASCII digits.
    if not (words.isascii() and words.isdecimal()):
        return 0
    return min(int(words[:12]), _MAX_SESSIONS)
