# SPDX-License-Identifier: Apache-2.0

"""The heads of queues that ask for a member, in the order of service.

Both orders resolve ties by the client's name, then by the queue's number.
"""

from __future__ import annotations

import heapq
import itertools
import typing
from collections.abc import Iterable
from collections.abc import Mapping

from fpgapool.vocabulary import group

if typing.TYPE_CHECKING:
    from fpgapool.agent.groupdesk import model

#: After so long without a task a client counts as a newcomer: it cannot save
#: up time while it is idle.
FORGET_S = 10.0

#: When it asked, client, queue, a number that no other entry has, the queue.
_Entry: typing.TypeAlias = "tuple[float, str, int, int, model.Queue]"

# Queues cannot be compared, and two of a client that came back may tie.
_SERIALS = itertools.count()


class Heads(typing.Protocol):
    """The queues whose head asks for a member."""

    def push(self, queue: model.Queue) -> None:
        """Let the head of a queue ask, since ``asked_s``."""

    def pop(self) -> model.Queue | None:
        """Return the queue to be served next; None if no head asks."""


def make(arbitration: str, clients: Mapping[str, model.Client]) -> Heads:
    """Make the heads of a group.

    :param arbitration: ``fifo`` or ``time``.
    :param clients: those that are attached, at any time.
    :raises ValueError: if it is neither.
    """
    if arbitration == group.FIFO:
        return Fifo()
    if arbitration == group.TIME:
        return LeastTime(clients)
    raise ValueError(f"arbitration must be {group.FIFO} or {group.TIME}")


class Fifo:
    """First come, first served."""

    def __init__(self) -> None:
        self._heap: list[_Entry] = []

    def push(self, queue: model.Queue) -> None:
        heapq.heappush(
            self._heap,
            (
                queue.asked_s,
                queue.client.client_id,
                queue.number,
                next(_SERIALS),
                queue,
            ),
        )

    def pop(self) -> model.Queue | None:
        return heapq.heappop(self._heap)[4] if self._heap else None

    def first(self) -> _Entry:
        """Return the entry that is next; there must be one."""
        return self._heap[0]

    def __bool__(self) -> bool:
        return bool(self._heap)


class LeastTime:
    """The client with the least busy time first; its heads in their order."""

    def __init__(self, clients: Mapping[str, model.Client]) -> None:
        self._clients = clients
        self._heads: dict[model.Client, Fifo] = {}

    def push(self, queue: model.Queue) -> None:
        client = queue.client
        mine = self._heads.get(client)
        if mine is None:
            idle_s = queue.asked_s - client.idle_since_s
            if idle_s > FORGET_S and not client.counts.running:
                self._forget_idle_time(client)
            mine = self._heads[client] = Fifo()
        mine.push(queue)

    def pop(self) -> model.Queue | None:
        if not self._heads:
            return None
        client = min(self._heads, key=self._place)
        mine = self._heads[client]
        queue = mine.pop()
        if not mine:
            del self._heads[client]
        return queue

    def _forget_idle_time(self, client: model.Client) -> None:
        least_s = least_served_s(
            other
            for other in self._clients.values()
            if other is not client
            and (other.counts.waiting or other.counts.running)
        )
        client.served_s = max(client.served_s, least_s)

    def _place(self, client: model.Client) -> tuple[float, _Entry]:
        return client.served_s, self._heads[client].first()


def least_served_s(clients: Iterable[model.Client]) -> float:
    """Return the least busy time of some clients, 0 of none."""
    return min((client.served_s for client in clients), default=0.0)
