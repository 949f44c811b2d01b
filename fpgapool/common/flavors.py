# SPDX-License-Identifier: Apache-2.0

"""What a flavor of Nova says of accelerators.

These extra specs are those that the validator of ``fpgapool_nova_filters``
accepts. Others, and flavors from before it was installed, may hold anything.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

ACCELERATORS = "fpgapool:accelerators"
AFFINITY = "fpgapool:affinity"
MAX_SESSIONS = "fpgapool:max_sessions"

AVOID = "avoid"

# What the database has room for.
_MAX_SESSIONS = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class Wish:
    """What instances of a flavor want of the pool.

    :ivar accelerators: that they use, by name.
    :ivar affinity: to hosts with boards, in Nova's words; empty: none said.
    :ivar max_sessions: how many each may have at a time; None: any number.
    """

    accelerators: tuple[str, ...] = ()
    affinity: str = ""
    max_sessions: int | None = None

    @property
    def asks(self) -> bool:
        """Whether they want to use the pool at all."""
        return bool(self.accelerators) or self.affinity not in ("", AVOID)


def read(extra_specs: Mapping[str, object]) -> Wish:
    """Return what a flavor's extra specs say.

    :param extra_specs: as Nova tells them; a limit that is no number counts
        as 0, so that a mistake does not take a limit away.
    """
    names = str(extra_specs.get(ACCELERATORS, "")).split(",")
    return Wish(
        accelerators=tuple(name.strip() for name in names if name.strip()),
        affinity=str(extra_specs.get(AFFINITY, "")).strip().lower(),
        max_sessions=_limit(extra_specs.get(MAX_SESSIONS)),
    )


def _limit(text: object) -> int | None:
    if text is None:
        return None
    words = str(text).strip()
    # isdecimal() alone would take digits of other scripts, too.
    if not (words.isascii() and words.isdecimal()):
        return 0
    return min(int(words[:12]), _MAX_SESSIONS)
