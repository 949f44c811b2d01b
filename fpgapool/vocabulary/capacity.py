# SPDX-License-Identifier: Apache-2.0

"""How many slots of a pool an accelerator fits, and how many are free."""

from __future__ import annotations

import collections
import collections.abc
import typing

from fpgapool.vocabulary import states


class Capacity:
    """The numbers of a pool's slots, by shape.

    :param hosts: the hosts in the API's summary of the pool.
    :raises KeyError, TypeError: if they do not have the form of the summary.
    """

    def __init__(self, hosts: collections.abc.Iterable[typing.Any]) -> None:
        self._slots = collections.Counter[str]()
        self._free = collections.Counter[str]()
        for host in hosts:
            for device in host["devices"]:
                usable = host["up"] and device["healthy"]
                for slot in device["slots"]:
                    self._slots[slot["shape"]] += 1
                    if usable and slot["state"] == states.SLOT_IDLE:
                        self._free[slot["shape"]] += 1

    def of(
        self, profile: collections.abc.Mapping[str, typing.Any]
    ) -> dict[str, int]:
        """Return an accelerator's numbers of ``slots`` and ``free_slots``."""
        # An accelerator without shapes fits all slots.
        shapes = profile["shapes"] or self._slots
        return {
            "slots": sum(self._slots[shape] for shape in shapes),
            "free_slots": sum(self._free[shape] for shape in shapes),
        }
