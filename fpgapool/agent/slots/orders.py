# SPDX-License-Identifier: Apache-2.0

"""The effects of the slot table, which the agent carries out."""

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
    """Fetch the file of an assignment's bitstream.

    :ivar again: whether the cached file is damaged, so it must be replaced.
    """

    key: Key
    generation: int
    bitstream: objects.BitstreamRef
    again: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class EndWorker:
    """Kill the slot's worker, which does not respond."""

    key: Key
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class KeepGroup:
    """Send an order to a group's desk."""

    leader_epoch: int
    order: objects.GroupOrder


@dataclasses.dataclass(frozen=True, slots=True)
class Changed:
    """The table has changed, or the conductor has requested a report.

    :ivar at_once: whether the conductor decides something because of it.
    """

    at_once: bool = False


#: Prepared notifies the conductor where the session's client can connect.
Effect: typing.TypeAlias = (
    ToWorker | Fetch | EndWorker | objects.Prepared | KeepGroup | Changed
)
