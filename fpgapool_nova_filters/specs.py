# SPDX-License-Identifier: Apache-2.0

"""A flavor's extra specs about accelerators."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

NAMESPACE = "fpgapool"
ACCELERATORS = "fpgapool:accelerators"
AFFINITY = "fpgapool:affinity"
SLA = "fpgapool:sla"
MAX_SESSIONS = "fpgapool:max_sessions"

PREFERRED = "preferred"
REQUIRED = "required"
AVOID = "avoid"
AFFINITIES = (PREFERRED, REQUIRED, AVOID)

HIGH = "high"
SOFT = "soft"
SLAS = (HIGH, SOFT)
#: The affinity for hosts without boards if possible, otherwise for any host.
AVOID_IF_POSSIBLE = "avoid if possible"
_AFFINITY_OF_SLA = {HIGH: PREFERRED, SOFT: AVOID_IF_POSSIBLE}

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
#: Names separated by commas; duplicates are allowed.
ACCELERATORS_PATTERN = rf"{_NAME}( *, *{_NAME})*"

_accelerators_pattern = re.compile(ACCELERATORS_PATTERN)


class InvalidError(ValueError):
    """The extra specs of a flavor are invalid."""


@dataclasses.dataclass(frozen=True)
class Wish:
    """The requirements of a flavor.

    :param accelerators: names without duplicates; empty means any accelerator
        if there is an affinity.
    :param affinity: one of :data:`AFFINITIES`, :data:`AVOID_IF_POSSIBLE`, or
        None if the flavor says nothing about boards.
    """

    accelerators: tuple[str, ...] = ()
    affinity: str | None = None

    @property
    def asks(self) -> bool:
        """Whether the flavor's instances prefer hosts with boards."""
        return self.affinity in (PREFERRED, REQUIRED)


NOTHING = Wish()


def parse(extra_specs: Mapping[str, str] | None) -> Wish:
    """Read the extra specs of a flavor.

    :raises InvalidError: if they are invalid. nova-api has checked them only
        if the flavor was created with a recent microversion.
    """
    specs = extra_specs or {}
    if AFFINITY in specs and SLA in specs:
        raise InvalidError(
            f"{AFFINITY} and {SLA} are mutually exclusive; set only one of"
            " them"
        )
    if SLA in specs:
        affinity = _AFFINITY_OF_SLA[_parse_choice(SLA, SLAS, specs)]
    elif AFFINITY in specs:
        affinity = _parse_choice(AFFINITY, AFFINITIES, specs)
    elif ACCELERATORS in specs:
        affinity = PREFERRED
    else:
        return NOTHING
    return Wish(_parse_names(specs.get(ACCELERATORS)), affinity)


def _parse_choice(
    name: str, choices: tuple[str, ...], specs: Mapping[str, str]
) -> str:
    if specs[name] not in choices:
        raise InvalidError(
            f"{name}={specs[name]!r} must be one of: {', '.join(choices)}"
        )
    return specs[name]


def _parse_names(text: str | None) -> tuple[str, ...]:
    if text is None:
        return ()
    if not _accelerators_pattern.fullmatch(text):
        raise InvalidError(
            f"{ACCELERATORS}={text!r} must be names of accelerators, separated"
            " by commas"
        )
    # Without duplicates, in the same order.
    return tuple(dict.fromkeys(name.strip() for name in text.split(",")))
