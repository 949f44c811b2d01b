# SPDX-License-Identifier: Apache-2.0

"""Buffers that clients may still be reading when their session is over.

A worker hands them to its agent, for the next project in the slot gets a fresh
process, which has nothing of the former one. The agent never looks into them:
it empties them after a while. A client could keep its maps for ever, and the
memory would be missing on the host.
"""

from __future__ import annotations

import collections
import functools

from fpgapool.agent import loop as agent_loop
from fpgapool.agent.slots import orders
from fpgapool.common.channels import buffers
from fpgapool.common.channels import channel

#: How long a client may read its buffers after the end of the session.
UNREAD_S = 60.0

#: So many sessions of a slot have their buffers kept: memory and descriptors
#: are limited, and clients may lose their slots again and again.
SESSIONS = 4


class Unread:
    """The kept buffers of a host. All runs in the loop's thread.

    :param loop: calls when their time is over.
    :param session_bytes: size of a session's buffers, in both directions.
    """

    def __init__(self, loop: agent_loop.Loop, session_bytes: int) -> None:
        self._loop = loop
        self._most_bytes = SESSIONS * (session_bytes + buffers.DESCRIPTORS)
        # By slot, the oldest first: size in bytes and descriptors.
        self._kept = collections.defaultdict[
            orders.Key, collections.deque[tuple[int, list[int]]]
        ](collections.deque)

    def keep(self, key: orders.Key, fds: list[int]) -> None:
        """Keep the buffers of a session that is over.

        If there are too many for one slot, the oldest are emptied.

        :param key: the slot whose worker hands them over.
        :param fds: their descriptors, closed at last in any case.
        :raises ValueError: if they are not buffers of a session.
        """
        try:
            if len(fds) != buffers.DESCRIPTORS:
                raise ValueError(f"buffers with {len(fds)} descriptors")
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
        # The oldest have the first timers.
        if kept and kept[0][1] is fds:
            buffers.discard(kept.popleft()[1])

    def close(self) -> None:
        """Leave the buffers to their clients: they did not end the agent."""
        for kept in self._kept.values():
            for _, fds in kept:
                channel.close_fds(fds)
        self._kept.clear()
