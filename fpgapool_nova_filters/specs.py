# SPDX-License-Identifier: Apache-2.0

"""What a flavor says of accelerators."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

NAMESPACE = "fpgapool"
ACCELERATORS = "fpgapool:accelerators"
AFFINITY = "fpgapool:affinity"
MAX_SESSIONS = "fpgapool:max_sessions"

PREFERRED = "preferred"
REQUIRED = "required"
AVOID = "avoid"
AFFINITIES = (PREFERRED, REQUIRED, AVOID)

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
#: Names, separated by commas; none of them twice is not asked for.
ACCELERATORS_PATTERN = rf"{_NAME}( *, *{_NAME})*"

_accelerators_pattern = re.compile(ACCELERATORS_PATTERN)


class InvalidError(ValueError):
    """A flavor says something that cannot be understood."""


@dataclasses.dataclass(frozen=True)
class Wish:
    """What instances of a flavor want.

    :param accelerators: names, none of them twice; empty with an affinity
        means whichever there are.
    :param affinity: one of :data:`AFFINITIES`, or None: nothing was said.
    """

    accelerators: tuple[str, ...] = ()
    affinity: str | None = None

    @property
    def asks(self) -> bool:
        """Whether hosts with boards are good for them."""
        return self.affinity in (PREFERRED, REQUIRED)


NOTHING = Wish()


def parse(extra_specs: Mapping[str, str] | None) -> Wish:
    """Read what a flavor says.

    :param extra_specs: all that it has.
    :raises InvalidError: if it is not understood, which nova-api prevents
        only for flavors that are made through a recent version of it.
    """
    specs = extra_specs or {}
    if ACCELERATORS not in specs and AFFINITY not in specs:
        return NOTHING
    affinity = specs.get(AFFINITY, PREFERRED)
    if affinity not in AFFINITIES:
        raise InvalidError(
            f"{AFFINITY}={affinity!r} is none of {', '.join(AFFINITIES)}"
        )
    return Wish(_parse_names(specs.get(ACCELERATORS)), affinity)


def _parse_names(text: str | None) -> tuple[str, ...]:
    if text is None:
        return ()
    if not _accelerators_pattern.fullmatch(text):
        raise InvalidError(
            f"{ACCELERATORS}={text!r} is not a list of names, separated by"
            " commas"
        )
    # Each once, in the order in which they are named.
    return tuple(dict.fromkeys(name.strip() for name in text.split(",")))
