# SPDX-License-Identifier: Apache-2.0

"""Take from a queue what may travel together."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from typing import TypeVar

#: A session on its way to its client changes several times within
#: milliseconds. So long may what nobody waits for wait for company.
GATHER_S = 0.02

_Item = TypeVar("_Item")


def gather(
    source: queue.Queue[_Item | None] | queue.SimpleQueue[_Item | None],
    can_wait: Callable[[_Item], bool],
) -> tuple[list[_Item], bool]:
    """Wait for an item, and take it and those after it.

    What somebody waits for is taken at once, with all that is there.

    :param source: None in it is its end.
    :param can_wait: whether nobody waits for an item.
    :returns: the items in their order, and whether that was the end.
    """
    item = source.get()
    items: list[_Item] = []
    limit_s = time.monotonic() + GATHER_S
    while item is not None:
        items.append(item)
        if not can_wait(item):
            limit_s = 0.0
        left_s = limit_s - time.monotonic()
        try:
            item = source.get(left_s > 0, max(left_s, 0.0))
        except queue.Empty:
            return items, False
    return items, True
