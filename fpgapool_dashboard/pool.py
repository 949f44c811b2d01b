# SPDX-License-Identifier: Apache-2.0

"""The pool in numbers, as rows of tables."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from fpgapool.vocabulary import accounting
from fpgapool.vocabulary import capacity
from fpgapool.vocabulary import states

_OUT_OF_SERVICE = (states.FAULTY, states.DISABLED, states.DOWN)


@dataclasses.dataclass(frozen=True)
class Slots:
    """Numbers of slots.

    :ivar id: the shape of the slots, or the accelerator that fits them.
    :ivar about: the accelerator; None for a shape.
    """

    id: str
    free: int
    in_use: int
    out_of_service: int
    about: Any = None

    @property
    def total(self) -> int:
        return self.free + self.in_use + self.out_of_service


@dataclasses.dataclass(frozen=True)
class Limit:
    """A limit of a project.

    :ivar limit: None: unknown.
    :ivar is_unlimited: whether there is none.
    """

    id: str
    in_use: int
    limit: int | None
    source: str

    @property
    def is_unlimited(self) -> bool:
        return self.limit == accounting.UNLIMITED


def by_shape(slots: capacity.Slots) -> list[Slots]:
    """Return the numbers of slots of each shape."""
    return [_counted(shape, [slots[shape]]) for shape in sorted(slots)]


def by_accelerator(
    accelerators: Iterable[Any], slots: capacity.Slots
) -> list[Slots]:
    """Return the numbers of slots that each accelerator fits.

    :param accelerators: with ``name`` and ``shapes``; no shapes: it fits all
        slots.
    """
    return [
        _counted(
            one.name, [slots.get(k, {}) for k in one.shapes or slots], one
        )
        for one in accelerators
    ]


def _counted(
    identifier: str, counts: Iterable[Mapping[str, int]], about: Any = None
) -> Slots:
    found = collections.Counter[str]()
    for by_state in counts:
        found.update(by_state)
    free = found[states.SLOT_IDLE]
    out_of_service = sum(found[state] for state in _OUT_OF_SERVICE)
    in_use = found.total() - free - out_of_service
    return Slots(identifier, free, in_use, out_of_service, about)


def limits(quota: Any) -> list[Limit]:
    """Return the limits of a project, without those that the API lacks."""
    return [
        Limit(name, found.get("in_use") or 0, found["limit"], found["source"])
        for name in accounting.QUOTAS
        if (found := getattr(quota, name)) is not None
    ]
