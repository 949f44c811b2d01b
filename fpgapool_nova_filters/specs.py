# SPDX-License-Identifier: Apache-2.0

"""A flavor's extra specs about accelerators."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
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
# Both may have the suffix of a group.
_slots_pattern = re.compile("resources[A-Za-z0-9_-]*:CUSTOM_FPGAPOOL_SLOT")
_trait_pattern = re.compile("trait[A-Za-z0-9_-]*:CUSTOM_FPGAPOOL_[A-Z0-9_]+")


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

    The affinity says where instances are placed; the SLA says that only if
    there is no affinity.

    :raises InvalidError: if they are invalid or contradict each other; the
        error names all of them. nova-api checks each value by itself, and
        only if the flavor was changed with a recent microversion.
    """
    specs = extra_specs or {}
    wrong = [*_invalid(specs), *_contradictions(specs)]
    if wrong:
        raise InvalidError("; ".join(wrong))
    if AFFINITY in specs:
        affinity = specs[AFFINITY]
    elif SLA in specs:
        affinity = _AFFINITY_OF_SLA[specs[SLA]]
    elif ACCELERATORS in specs:
        affinity = PREFERRED
    else:
        return NOTHING
    return Wish(_names(specs.get(ACCELERATORS)), affinity)


def _invalid(specs: Mapping[str, str]) -> Iterator[str]:
    for name, choices in ((AFFINITY, AFFINITIES), (SLA, SLAS)):
        if name in specs and specs[name] not in choices:
            yield (
                f"{name}={specs[name]!r} must be one of: {', '.join(choices)}"
            )
    text = specs.get(ACCELERATORS)
    if text is not None and not _accelerators_pattern.fullmatch(text):
        yield (
            f"{ACCELERATORS}={text!r} must be names of accelerators, separated"
            " by commas"
        )


def _contradictions(specs: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence if instances had to be near boards, and far away."""
    near = [(AFFINITY, PREFERRED), (AFFINITY, REQUIRED), (SLA, HIGH)]
    far = [(AFFINITY, AVOID), (SLA, SOFT)]
    wanted = [item for item in near if item in specs.items()]
    refused = [item for item in far if item in specs.items()]
    if (AFFINITY, AVOID) in refused:
        # Placement finds only hosts that the filter would refuse.
        wanted += [item for item in specs.items() if _from_placement(*item)]
    if wanted and refused:
        yield (
            f"{_listed(wanted)} and {_listed(refused)} contradict each other:"
            " the former place instances near boards, the latter away from"
            " them"
        )


def _from_placement(name: str, value: str) -> bool:
    """Whether an extra spec asks Placement for boards of the pool."""
    if _slots_pattern.fullmatch(name):
        return value != "0"
    return bool(_trait_pattern.fullmatch(name)) and value == REQUIRED


def _listed(items: list[tuple[str, str]]) -> str:
    return ", ".join(f"{name}={value}" for name, value in items)


def _names(text: str | None) -> tuple[str, ...]:
    # Without duplicates, in the same order.
    names = [] if text is None else text.split(",")
    return tuple(dict.fromkeys(name.strip() for name in names))
