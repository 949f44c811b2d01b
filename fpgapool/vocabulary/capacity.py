# SPDX-License-Identifier: Apache-2.0

"""How many slots of a pool an accelerator fits, and how many are free."""

from __future__ import annotations

import collections
import collections.abc
import typing

from fpgapool.vocabulary import states

#: Numbers of slots by shape, and in it by state.
Slots: typing.TypeAlias = collections.abc.Mapping[
    str, collections.abc.Mapping[str, int]
]


def by_shape(
    slots: collections.abc.Iterable[tuple[str, str]],
) -> dict[str, dict[str, int]]:
    """Return the numbers of slots.

    :param slots: shape and state of each slot.
    """
    found: dict[str, dict[str, int]] = {}
    for (shape, state), count in collections.Counter(slots).items():
        found.setdefault(shape, {})[state] = count
    return found


def of_hosts(
    hosts: collections.abc.Iterable[typing.Any],
) -> dict[str, dict[str, int]]:
    """Return the numbers of the slots of hosts.

    :param hosts: the hosts in version 1.0 of the API's summary of the pool.
    :raises KeyError, TypeError: if they do not have that form.
    """
    return by_shape(
        (
            slot["shape"],
            # Old conductors do not say here that a board is faulty.
            slot["state"]
            if (host["up"] and device["healthy"])
            or slot["state"] != states.SLOT_IDLE
            else states.DOWN,
        )
        for host in hosts
        for device in host["devices"]
        for slot in device["slots"]
    )


def of(
    profile: collections.abc.Mapping[str, typing.Any], slots: Slots
) -> dict[str, int]:
    """Return an accelerator's numbers of ``slots`` and ``free_slots``.

    :raises AttributeError, KeyError, TypeError: if the arguments do not have
        the form of a profile and of numbers of slots.
    """
    # An accelerator without shapes fits all slots.
    found = [slots.get(one, {}) for one in profile["shapes"] or slots]
    return {
        "slots": sum(sum(one.values()) for one in found),
        "free_slots": sum(one.get(states.SLOT_IDLE, 0) for one in found),
    }
