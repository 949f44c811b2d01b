# SPDX-License-Identifier: Apache-2.0

"""The orders of the slot table: values, which the agent carries out."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping

from fpgapool import objects

#: (device name, slot number)
Key: typing.TypeAlias = tuple[str, int]


@dataclasses.dataclass(frozen=True, slots=True)
class ToWorker:
    """Send a request to the slot's worker."""

    key: Key
    operation: str
    generation: int
    members: Mapping[str, object]


@dataclasses.dataclass(frozen=True, slots=True)
class Fetch:
    """Get the file of an assignment's bitstream to this host.

    :ivar again: the file that is here is damaged.
    """

    key: Key
    generation: int
    bitstream: objects.BitstreamRef
    again: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class EndWorker:
    """End the slot's worker, which does not obey."""

    key: Key
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class KeepGroup:
    """Have a group's desk follow an order.

    :ivar leader_epoch: of the leader that sent it.
    """

    leader_epoch: int
    order: objects.GroupOrder


@dataclasses.dataclass(frozen=True, slots=True)
class Changed:
    """The table has changed or a report was requested: report it soon."""


#: A payload tells the conductor where the session's client finds the slot.
Effect: typing.TypeAlias = (
    ToWorker | Fetch | EndWorker | objects.Prepared | KeepGroup | Changed
)
