# SPDX-License-Identifier: Apache-2.0

"""The latest claims, from which strategies learn sizes and places."""

import collections
import typing

from fpgapool.core import model
from fpgapool.core.queues import thresholds
from fpgapool.vocabulary import scheduling

# What is learnt is computed again after this part of the known claims.
_RENEWED_PART = 4
# Minimum number of claims that say where work comes from.
_FEWEST = 20

#: The host that a session came from, None for outside the pool, and its bytes.
Claim: typing.TypeAlias = tuple[model.HostId | None, float]
Shares: typing.TypeAlias = dict[model.HostId | None, float]


class RecentClaims:
    """The claims of the latest sessions.

    The pool adds them in the order of arrival. The oldest claim leaves when
    there are more than :data:`.scheduling.RECENT_CLAIMS`, so a new leader
    rebuilds the history from the rows of the latest sessions.

    :param queues: number of priority queues.
    :ivar thresholds_bytes: upper bounds of all queues except the last; see
        :func:`.thresholds.learnt_thresholds`.
    :ivar shares: by host, its part of the claimed bytes; None: too few claims
        are known.
    :ivar last_id: claims of jobs with ids up to this one are not added,
        because they are known already.
    """

    def __init__(self, queues: int = 1) -> None:
        if queues < 1:
            raise ValueError(f"queues must be at least 1, not {queues}")
        self.thresholds_bytes: tuple[float, ...] = ()
        self.shares: Shares | None = None
        self.last_id = -1
        self._queues = queues
        self._claims: collections.deque[Claim] = collections.deque(
            maxlen=scheduling.RECENT_CLAIMS
        )
        self._until_renewed = 1

    def note(self, job: model.Job) -> bool:
        """Add the claim of a new session's job.

        :returns: whether what is learnt has changed.
        """
        if job.id <= self.last_id or job.group_id is not None:
            return False
        return self.add((job.host_id, job.claimed_bytes))

    def add(self, claim: Claim) -> bool:
        """Add the latest claim, like :meth:`note`."""
        self._claims.append(claim)
        self._until_renewed -= 1
        if self._until_renewed:
            return False
        count = len(self._claims)
        self._until_renewed = 1 + count // _RENEWED_PART
        sizes = [size_bytes for _, size_bytes in self._claims]
        self.thresholds_bytes = thresholds.learnt_thresholds(
            sizes, self._queues
        )
        if count >= _FEWEST:
            self.shares = self._find_shares(1.0 / sum(sizes))
        return True

    def _find_shares(self, per_byte: float) -> Shares:
        shares: Shares = {}
        for host_id, size_bytes in self._claims:
            share = shares.get(host_id, 0.0)
            shares[host_id] = share + size_bytes * per_byte
        return shares
