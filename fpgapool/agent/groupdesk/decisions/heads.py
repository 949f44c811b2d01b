# SPDX-License-Identifier: Apache-2.0

"""The heads of queues that ask for a member, in the order of service.

The project with the least service is first, so that it does not matter how
many clients one has; of equals, the one that began to ask first.
"""

from __future__ import annotations

import heapq
import itertools
import operator

from fpgapool.agent.groupdesk.decisions import model
from fpgapool.vocabulary import group

# Queues cannot be compared, and two of a client that came back may tie.
_SERIALS = itertools.count()
_SERVED = operator.attrgetter("served")


class Heads:
    """The queues whose head asks for a member.

    :param arbitration: ``fifo``: the heads of a project are served in the
        order in which they asked; ``time``: the client with the least busy
        time first. Ties go to the client's name, then to the queue's number.
    :param whole: of the group.
    :raises ValueError: if it is neither.
    """

    def __init__(self, arbitration: str, whole: model.Share) -> None:
        if arbitration not in group.ARBITRATIONS:
            raise ValueError(
                f"arbitration must be {' or '.join(group.ARBITRATIONS)}"
            )
        self._by_client = arbitration == group.TIME
        self._whole = whole

    def push(self, queue: model.Queue) -> None:
        """Let the head of a queue ask, since ``asked_s``."""
        client = queue.client
        share = client.share if self._by_client else client.project
        if not share.heads:
            share.ask()
        heapq.heappush(
            share.heads,
            (
                queue.asked_s,
                client.client_id,
                queue.number,
                next(_SERIALS),
                queue,
            ),
        )

    def pop(self) -> model.Queue | None:
        """Return the queue to be served next; None if no head asks."""
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
