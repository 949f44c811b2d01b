# SPDX-License-Identifier: Apache-2.0

"""Divides whole slots between groups.

Groups are given by position, in the order of their ids. Each has a minimum and
a maximum number of slots. If there are too few slots for all minimums, each
group gets just its minimum; if there are more than all maximums, each gets its
maximum.
"""

import math
from collections.abc import Sequence


def proportional(
    work: Sequence[float],
    slots: int,
    least: Sequence[int],
    most: Sequence[int],
) -> list[int]:
    """Divide slots in proportion to work.

    Each group gets the integer part of its share, within its bounds. If that
    is too much in total, slots are taken from the groups furthest above their
    share (from the last of equal groups). If it is too little, slots go to the
    groups furthest below (to the first of equal groups).

    :param work: work of each group, in any unit; not all may be 0.
    """
    total = sum(work)
    shares = [each * slots / total for each in work]
    sizes = [
        min(max(math.floor(share), low), max(low, high))
        for share, low, high in zip(shares, least, most, strict=True)
    ]
    while sum(sizes) > slots:
        able = [i for i, size in enumerate(sizes) if size > least[i]]
        if not able:
            break
        sizes[max(able, key=lambda i: (sizes[i] - shares[i], i))] -= 1
    while sum(sizes) < slots:
        able = [i for i, size in enumerate(sizes) if size < most[i]]
        if not able:
            break
        sizes[max(able, key=lambda i: (shares[i] - sizes[i], -i))] += 1
    return sizes


def levelled(
    work: Sequence[float],
    slots: int,
    least: Sequence[int],
    most: Sequence[int],
) -> list[int]:
    """Divide slots so that the highest work per slot is minimal.

    Above the minimums, slots go one at a time to the group with the most work
    per slot (to the first of equal groups).
    """
    sizes = list(least)
    for _ in range(slots - sum(sizes)):
        able = [i for i, size in enumerate(sizes) if size < most[i]]
        if not able:
            break
        neediest = max(able, key=lambda i: (load(work[i], sizes[i]), -i))
        sizes[neediest] += 1
    return sizes


def load(work: float, size: int) -> float:
    """Return the work per slot; infinite if there is work but no slot."""
    if size:
        return work / size
    return math.inf if work > 0 else 0.0
