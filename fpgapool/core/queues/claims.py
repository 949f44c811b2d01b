# SPDX-License-Identifier: Apache-2.0

"""The latest claims, from which strategies learn sizes and places."""

import collections
import typing

import numpy as np

from fpgapool.core import model
from fpgapool.core.queues import thresholds
from fpgapool.vocabulary import scheduling

# What is learnt is computed again after this part of the known claims.
_RENEWED_PART = 2
# Minimum number of claims that say where work comes from.
_FEWEST = 20

#: The host that a session came from, None for outside the pool, and its bytes.
Claim: typing.TypeAlias = tuple[model.HostId | None, float]


class Shares(typing.NamedTuple):
    """Where the recent work comes from.

    :param by_host: each host's part of the claimed bytes.
    :param claim_count: how many claims say so; fewer than are known if a few
        have most of the bytes.
    :param mean_bytes: of the claims.
    """

    by_host: dict[model.HostId | None, float]
    claim_count: float
    mean_bytes: float


class RecentClaims:
    """The claims of the latest sessions.

    The pool adds them in the order of arrival. The oldest claim leaves when
    there are more than :data:`.scheduling.RECENT_CLAIMS`, so a new leader
    rebuilds the history from the rows of the latest sessions.

    :param queues: number of priority queues.
    :ivar thresholds_bytes: upper bounds of all queues except the last; see
        :func:`.thresholds.learnt_thresholds`.
    :ivar shares: None: too few claims are known.
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
        self._claims.append((job.host_id, job.claimed_bytes))
        self._until_renewed -= 1
        if self._until_renewed > 0:
            return False
        self._renew()
        return True

    def restore(
        self, claims: typing.Iterable[Claim], last_id: model.JobId
    ) -> None:
        """Learn from claims that an earlier leader knew, oldest first."""
        self._claims.extend(claims)
        self.last_id = last_id
        if self._claims:
            self._renew()

    def _renew(self) -> None:
        self._until_renewed = 1 + len(self._claims) // _RENEWED_PART
        hosts, sizes = zip(*self._claims, strict=True)
        self.thresholds_bytes = thresholds.learnt_thresholds(
            sizes, self._queues
        )
        if len(sizes) < _FEWEST:
            return
        most_bytes = max(sizes)
        shares = np.asarray(sizes) / most_bytes
        mean_bytes = float(shares.mean()) * most_bytes
        shares /= shares.sum()
        by_host: dict[model.HostId | None, float] = {}
        for host_id, share in zip(hosts, shares.tolist(), strict=True):
            by_host[host_id] = by_host.get(host_id, 0.0) + share
        claim_count = 1.0 / float(shares @ shares)
        self.shares = Shares(by_host, claim_count, mean_bytes)
