# SPDX-License-Identifier: Apache-2.0

"""The extra specs of a flavor about accelerators."""

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
#: Names, separated by commas; repetitions are allowed.
ACCELERATORS_PATTERN = rf"{_NAME}( *, *{_NAME})*"

_accelerators_pattern = re.compile(ACCELERATORS_PATTERN)


class InvalidError(ValueError):
    """The extra specs of a flavor are invalid."""


@dataclasses.dataclass(frozen=True)
class Wish:
    """The requirements of a flavor.

    :param accelerators: names without repetitions; empty with an affinity
        means any.
    :param affinity: one of :data:`AFFINITIES`, or None if it is not set.
    """

    accelerators: tuple[str, ...] = ()
    affinity: str | None = None

    @property
    def asks(self) -> bool:
        """Whether its instances prefer hosts with boards."""
        return self.affinity in (PREFERRED, REQUIRED)


NOTHING = Wish()


def parse(extra_specs: Mapping[str, str] | None) -> Wish:
    """Read the extra specs of a flavor.

    :param extra_specs: all of them.
    :raises InvalidError: if they are invalid, which nova-api prevents only
        for flavors that are made through a recent version of it.
    """
    specs = extra_specs or {}
    if ACCELERATORS not in specs and AFFINITY not in specs:
        return NOTHING
    affinity = specs.get(AFFINITY, PREFERRED)
    if affinity not in AFFINITIES:
        raise InvalidError(
            f"{AFFINITY}={affinity!r} is not one of {', '.join(AFFINITIES)}"
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
    # Each once, in their order.
    return tuple(dict.fromkeys(name.strip() for name in text.split(",")))
