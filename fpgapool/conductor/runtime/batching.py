# SPDX-License-Identifier: Apache-2.0

"""Takes items from a queue in batches."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from typing import TypeVar

#: Maximum delay of an item that no client is waiting for: the changes of a
#: starting session, a few milliseconds apart, should form one batch.
GATHER_S = 0.02

_Item = TypeVar("_Item")


def gather(
    source: queue.SimpleQueue[_Item | None],
    can_wait: Callable[[_Item], bool],
) -> tuple[list[_Item], bool]:
    """Wait for an item, and return it with the items that follow.

    An item that must not wait ends the batch; items that are already queued
    are still added.

    :param source: the queue; None marks its end.
    :returns: the items in order, and whether the end was reached.
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
