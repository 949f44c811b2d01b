# SPDX-License-Identifier: Apache-2.0

"""The heads of queues that wait for a member, in the order of service.

The project that has received the least service comes first, regardless of its
number of clients. Within it, the arbitration decides which head comes first.
"""

from __future__ import annotations

import heapq
import itertools
import operator
from collections.abc import Iterable

from fpgapool.agent.groupdesk.decisions import model
from fpgapool.vocabulary import group

# Distinguishes equal entries in heaps, because queues cannot be compared:
# after a client reconnects, two of its queues may have the same number.
_SERIALS = itertools.count()
_SERVED = operator.attrgetter("served")


class Heads:
    """The queues whose heads wait for a member.

    :param arbitration: ``fifo`` serves the project with the fewest served
        tasks, and its heads in the order in which they began to wait; ``time``
        serves the project with the least busy time, and its client with the
        least. Ties are broken by the client's id, then by the queue's number.
    :ivar per_task: amount of service that is charged when a task starts.
    """

    def __init__(self, arbitration: str) -> None:
        self._whole = model.Share(None)
        self._projects: dict[str, model.Share] = {}
        # Queues whose head cannot be served now: a lock above the limit, a
        # task that waits for its blocks, or any head of a paused client.
        self._blocked: list[model.Queue] = []
        self._use(arbitration)

    def _use(self, arbitration: str) -> None:
        if arbitration not in group.ARBITRATIONS:
            raise ValueError(
                f"arbitration must be {' or '.join(group.ARBITRATIONS)}"
            )
        self._arbitration = arbitration
        self.by_time = arbitration == group.TIME
        self.per_task = 0.0 if self.by_time else 1.0

    def arbitrate(
        self, arbitration: str, clients: Iterable[model.Client]
    ) -> None:
        if arbitration == self._arbitration:
            return
        waiting = [*iter(self.pop, None)]
        # Service under the old order does not count in the new one.
        shares = [self._whole, *self._projects.values()]
        shares += [client.share for client in clients]
        for share in shares:
            share.served = share.floor = 0.0
        self._use(arbitration)
        for queue in waiting:
            self.ask(queue, queue.asked_s)

    def project(self, project_id: str) -> model.Share:
        """Return a project's share.

        It outlives the project's clients, so reconnecting does not reset it.
        """
        share = self._projects.get(project_id)
        if share is None:
            share = self._projects[project_id] = model.Share(self._whole)
        return share

    def charge(self, client: model.Client, slot_s: float) -> None:
        """Charge slot time as service, if ``time`` decides the order."""
        if self.by_time:
            client.share.served += slot_s
            client.project.served += slot_s

    def ask(self, queue: model.Queue, asked_s: float) -> None:
        """Register a queue's head as waiting since ``asked_s``."""
        queue.asking = True
        queue.asked_s = asked_s
        client = queue.client
        share = client.share if self.by_time else client.project
        if not share.heads:
            share.ask()
        heapq.heappush(
            share.heads,
            (
                asked_s,
                client.client_id,
                queue.number,
                next(_SERIALS),
                queue,
            ),
        )

    def block(self, queue: model.Queue) -> None:
        """Set aside a queue that :meth:`pop` has returned."""
        self._blocked.append(queue)

    def retry_blocked(self) -> None:
        """Make blocked heads wait for members again."""
        blocked, self._blocked = self._blocked, []
        for queue in blocked:
            queue.asking = False
            if queue.waiting:
                self.ask(queue, queue.asked_s)

    def pop(self) -> model.Queue | None:
        """Return the queue to serve next, or None if no head waits."""
        share = self._whole
        while asking := share.asking:
            if len(asking) == 1:
                (part,) = asking
            else:
                part = min(asking, key=_SERVED)
            share.floor = part.served
            share = part
        heads = share.heads
        if not heads:
            return None
        entry = heapq.heappop(heads)
        if not heads:
            share.rest()
        return entry[4]
