# SPDX-License-Identifier: Apache-2.0

"""The latest claims, from which strategies learn sizes and places."""

import collections

from fpgapool.core import model
from fpgapool.core.queues import thresholds
from fpgapool.vocabulary import scheduling

# The thresholds are computed again after this part of the known claims.
_RENEWED_PART = 8


class RecentClaims:
    """The claims of the latest sessions.

    The pool adds them in the order of arrival. The oldest claim leaves when
    there are more than :data:`.scheduling.RECENT_CLAIMS`, so a new leader
    rebuilds the history from the rows of the latest sessions.

    :param queues: number of priority queues.
    :ivar thresholds_bytes: upper bounds of all queues except the last; see
        :func:`.thresholds.learnt_thresholds`.
    :ivar last_id: claims of jobs with ids up to this one are not added,
        because they are known already.
    """

    def __init__(self, queues: int = 1) -> None:
        if queues < 1:
            raise ValueError(f"queues must be at least 1, not {queues}")
        self.thresholds_bytes: tuple[float, ...] = ()
        self.last_id = -1
        self._queues = queues
        self._claims: collections.deque[float] = collections.deque(
            maxlen=scheduling.RECENT_CLAIMS
        )
        self._until_renewed = 1

    def note(self, job: model.Job) -> None:
        """Add the claim of a new session's job."""
        if job.id > self.last_id and job.group_id is None:
            self.add(job.claimed_bytes)

    def add(self, claimed_bytes: float) -> None:
        """Add the latest claim."""
        self._claims.append(claimed_bytes)
        self._until_renewed -= 1
        if not self._until_renewed:
            self._until_renewed = 1 + len(self._claims) // _RENEWED_PART
            self.thresholds_bytes = thresholds.learnt_thresholds(
                self._claims, self._queues
            )
