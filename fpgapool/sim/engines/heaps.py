# SPDX-License-Identifier: Apache-2.0

"""Binary heaps of numbered items whose keys change.

A heap is two vectors: ``order`` holds items, those before ``size`` being
the heap, and ``place`` says for each item where in ``order`` it is, -1 if it
is not in. The keys are in a vector of their own. The functions return the
new size.
"""

from __future__ import annotations

from fpgapool.sim.engines import compiling


@compiling.in_place
def settle(
    keys: list[float], order: list[int], place: list[int], size: int, at: int
) -> None:
    """Move the item at a position to where its key belongs."""
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
    """Put an item in, or to its new place if it is in and its key changed."""
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
    """Take an item out, if it is in."""
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
