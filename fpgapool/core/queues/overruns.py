# SPDX-License-Identifier: Apache-2.0

"""How far jobs exceed what they claim, by project and accelerator."""

import collections
import math

from fpgapool.core import native

# A job that exceeds its claim gets one of at least this many times what it has
# used …
_AGAIN = 2.0
# … and this many times what such jobs usually need. Otherwise half of them
# would exceed it again, and small claims would pay off.
_MARGIN = 1.4
# A claim is at most this many times too small; more is not believed.
_MOST = math.log(1000.0)
# That nothing is known counts as much as this many jobs of a project, and what
# is known of a project as much as this many jobs with one accelerator.
_PRIOR = 5.0
# Means are over about this many of the latest jobs.
_LATEST = 100
#: Most means that are kept; those of projects and accelerators that had no job
#: for the longest time go first.
MAX_KNOWN = 2**14


class _Means:
    """Decayed means over jobs.

    :ivar share: the fraction of jobs that exceeded their claims.
    :ivar excess: logarithm of the size by the claim of those that did.
    """

    __slots__ = ("exceeded", "excess", "jobs", "share")

    def __init__(self) -> None:
        self.jobs = 0
        self.share = 0.0
        self.exceeded = 0
        self.excess = 0.0

    def add(self, excess: float) -> None:
        self.jobs = min(self.jobs + 1, _LATEST)
        self.share += ((excess > 0) - self.share) / self.jobs
        if excess > 0:
            self.exceeded = min(self.exceeded + 1, _LATEST)
            self.excess += (excess - self.excess) / self.exceeded


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Overruns:
    """Learns from jobs that have ended.

    Claims are only ever corrected upwards: a claim that is too large harms its
    own job, and must not make up for others that are too small. Projects do
    not affect each other.

    :param slack: fraction of its claim by which a job may exceed it.
    :param learns: whether it learns at all.
    """

    def __init__(self, slack: float, *, learns: bool = True) -> None:
        self._learns = learns
        self._slack = slack
        self._has_overrun = False
        self._known: collections.OrderedDict[tuple[str, ...], _Means] = (
            collections.OrderedDict()
        )

    def note(
        self,
        project: str,
        accelerator: str,
        claimed_bytes: float,
        used_bytes: float,
    ) -> None:
        """Take in a job that has ended.

        :param claimed_bytes: its first claim.
        """
        if not self._learns or used_bytes <= 0:
            return
        excess = 0.0
        if used_bytes > claimed_bytes * (1 + self._slack):
            excess = min(math.log(used_bytes / max(claimed_bytes, 1)), _MOST)
            self._has_overrun = True
        for key in ((project, accelerator), (project,)):
            means = self._known.get(key)
            if means is None:
                means = self._known[key] = _Means()
            else:
                self._known.move_to_end(key)
            means.add(excess)
        while len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)

    def correction(self, project: str, accelerator: str) -> float:
        """Return the factor for a new job's claim; at least 1."""
        if not self._has_overrun:
            return 1.0
        share = 0.0
        for means in self._of((project,), (project, accelerator)):
            share = (_PRIOR * share + means.jobs * means.share) / (
                _PRIOR + means.jobs
            )
        return math.exp(share * self._excess(project, accelerator))

    def next_claim(
        self,
        project: str,
        accelerator: str,
        claimed_bytes: float,
        used_bytes: float,
    ) -> float:
        """Return the claim of a job that has exceeded its claim.

        :param claimed_bytes: its first claim.
        """
        excess = self._excess(project, accelerator)
        likely_bytes = _MARGIN * claimed_bytes * math.exp(excess)
        return max(_AGAIN * used_bytes, likely_bytes)

    def _excess(self, project: str, accelerator: str) -> float:
        excess = 0.0
        for means in self._of((project,), (project, accelerator)):
            excess = (_PRIOR * excess + means.exceeded * means.excess) / (
                _PRIOR + means.exceeded
            )
        return excess

    def _of(self, *keys: tuple[str, ...]) -> list[_Means]:
        return [self._known[key] for key in keys if key in self._known]
