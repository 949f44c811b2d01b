# SPDX-License-Identifier: Apache-2.0

"""Binary heaps of numbered items whose keys change.

A heap consists of two vectors. ``order`` starts with its size; its items
follow. ``place`` has the position of each item in ``order``, or 0 for an item
that is not in the heap. The keys are in a separate vector.
"""

from __future__ import annotations

from fpgapool.sim.engines import compiling


@compiling.in_place
def settle(
    keys: list[float], order: list[int], place: list[int], at: int
) -> None:
    """Move the item at a position to where its key belongs."""
    item = order[at]
    key = keys[item]
    while at > 1:
        parent = at >> 1
        above = order[parent]
        if keys[above] <= key:
            break
        order[at] = above
        place[above] = at
        at = parent
    while True:
        child = 2 * at
        if child > order[0]:
            break
        if child < order[0] and keys[order[child + 1]] < keys[order[child]]:
            child += 1
        below = order[child]
        if keys[below] >= key:
            break
        order[at] = below
        place[below] = at
        at = child
    order[at] = item
    place[item] = at


@compiling.in_place
def put(
    keys: list[float], order: list[int], place: list[int], item: int
) -> None:
    """Insert an item, or move it after its key has changed."""
    if place[item] == 0:
        order[0] += 1
        order[order[0]] = item
        place[item] = order[0]
    settle(keys, order, place, place[item])


@compiling.in_place
def remove(
    keys: list[float], order: list[int], place: list[int], item: int
) -> None:
    """Remove an item, if it is in the heap."""
    at = place[item]
    if at == 0:
        return
    place[item] = 0
    last = order[order[0]]
    order[0] -= 1
    if at <= order[0]:
        order[at] = last
        place[last] = at
        settle(keys, order, place, at)
