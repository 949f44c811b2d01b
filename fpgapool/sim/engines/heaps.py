# SPDX-License-Identifier: Apache-2.0

"""Binary heaps of numbered items whose keys change.

A heap is two vectors: the first ``size`` items of ``order`` are the heap, and
``place`` has the position of each item in ``order``, -1 for an item that is
not in the heap. The keys are in a vector of their own. The functions return
the new size.
"""

from __future__ import annotations

from fpgapool.sim.engines import compiling


@compiling.in_place
def settle(
    keys: list[float], order: list[int], place: list[int], size: int, at: int
) -> None:
    """Move the item at a position to the place of its key."""
    item = order[at]
    key = keys[item]
    while at > 0:
        parent = (at - 1) >> 1
        above = order[parent]
        if keys[above] <= key:
            break
        order[at] = above
        place[above] = at
        at = parent
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and keys[order[child + 1]] < keys[order[child]]:
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
    keys: list[float], order: list[int], place: list[int], size: int, item: int
) -> int:
    """Insert an item, or move it after its key has changed."""
    if place[item] < 0:
        order[size] = item
        place[item] = size
        size += 1
    settle(keys, order, place, size, place[item])
    return size


@compiling.in_place
def remove(
    keys: list[float], order: list[int], place: list[int], size: int, item: int
) -> int:
    at = place[item]
    if at < 0:
        return size
    place[item] = -1
    size -= 1
    if at < size:
        order[at] = order[size]
        place[order[at]] = at
        settle(keys, order, place, size, at)
    return size
