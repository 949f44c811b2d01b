# SPDX-License-Identifier: Apache-2.0

"""Buffers that clients may still read after their session has ended.

A worker passes them to its agent, because the slot's next project must not get
access to them. The agent never reads them, but clears them after a while;
otherwise, a client could keep its mappings, and thus the host's memory,
forever.
"""

from __future__ import annotations

import collections
import functools

from fpgapool.agent import loop as agent_loop
from fpgapool.agent.slots import orders
from fpgapool.common.channels import buffers
from fpgapool.common.channels import channel

#: Time for which a client may read its buffers after the end of a session.
UNREAD_S = 60.0

#: Maximum number of sessions per slot whose buffers are kept, because memory
#: and file descriptors are limited.
SESSIONS = 4


class Unread:
    """The buffers kept on a host; used only in the loop's thread.

    :param session_bytes: total size of a session's buffers, in both
        directions.
    """

    def __init__(self, loop: agent_loop.Loop, session_bytes: int) -> None:
        self._loop = loop
        self._most_bytes = SESSIONS * (session_bytes + buffers.DESCRIPTORS)
        # By slot, oldest first: size in bytes, and file descriptors.
        self._kept = collections.defaultdict[
            orders.Key, collections.deque[tuple[int, list[int]]]
        ](collections.deque)

    def keep(self, key: orders.Key, fds: list[int]) -> None:
        """Keep the buffers of a session that has ended.

        If there are too many for a slot, the oldest are cleared.

        :param fds: the buffers' descriptors, which this object closes.
        """
        try:
            if len(fds) != buffers.DESCRIPTORS:
                raise ValueError(
                    f"expected {buffers.DESCRIPTORS} descriptors of a"
                    f" session's shared buffers, got {len(fds)}"
                )
            size_bytes = sum(map(buffers.size_bytes, fds))
        except ValueError:
            channel.close_fds(fds)
            raise
        kept = self._kept[key]
        kept.append((size_bytes, fds))
        while (
            len(kept) > SESSIONS
            or sum(size for size, _ in kept) > self._most_bytes
        ):
            buffers.discard(kept.popleft()[1])
        self._loop.call_later(
            UNREAD_S, functools.partial(self._discard, key, fds)
        )

    def _discard(self, key: orders.Key, fds: list[int]) -> None:
        kept = self._kept[key]
        # The buffers may already be cleared. If not, they are the oldest,
        # because timers expire in order.
        if kept and kept[0][1] is fds:
            buffers.discard(kept.popleft()[1])

    def close(self) -> None:
        """Close the descriptors; clients keep their mappings."""
        for kept in self._kept.values():
            for _, fds in kept:
                channel.close_fds(fds)
        self._kept.clear()
