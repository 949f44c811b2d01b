# SPDX-License-Identifier: Apache-2.0

"""A queue whose lanes take turns."""

from __future__ import annotations

import collections
import typing
from collections.abc import Hashable

T = typing.TypeVar("T")


class Lanes(typing.Generic[T]):
    """A bounded queue whose lanes take turns, so that none blocks another.

    Each lane is first in, first out. When the queue is full, the last item of
    the longest lane is dropped. Not thread-safe.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._count = 0
        # The non-empty lanes, in the order of their turns.
        self._lanes: collections.OrderedDict[
            Hashable, collections.OrderedDict[Hashable, T]
        ] = collections.OrderedDict()

    def __len__(self) -> int:
        return self._count

    def put(self, lane: Hashable, key: Hashable, value: T) -> T | None:
        """Add an item.

        :param key: the item's key. An item with the same key in this lane is
            replaced and keeps its position.
        :returns: the item that was dropped because the queue was full, or
            None.
        """
        waiting = self._lanes.get(lane)
        if waiting is None:
            waiting = self._lanes[lane] = collections.OrderedDict()
        if key not in waiting:
            self._count += 1
        waiting[key] = value
        if self._count <= self._limit:
            return None
        longest = max(self._lanes, key=lambda one: len(self._lanes[one]))
        return self._take(longest, last=True)[1]

    def pop(self) -> tuple[Hashable, T]:
        """Remove the next item and return it with its key."""
        if not self._lanes:
            raise KeyError("the queue is empty")
        lane = next(iter(self._lanes))
        self._lanes.move_to_end(lane)
        return self._take(lane, last=False)

    def clear(self) -> None:
        self._lanes.clear()
        self._count = 0

    def _take(self, lane: Hashable, *, last: bool) -> tuple[Hashable, T]:
        waiting = self._lanes[lane]
        self._count -= 1
        found = waiting.popitem(last=last)
        if not waiting:
            del self._lanes[lane]
        return found
