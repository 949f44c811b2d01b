# SPDX-License-Identifier: Apache-2.0

"""Limits the processor time that the leader spends on dry runs."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable
from collections.abc import Iterator

from fpgapool.common import exception

#: The share of one processor's time that all dry runs together may use in the
#: long run, and the maximum that they may use in a burst. One project may use
#: half of each.
SHARE = 0.05
BURST_S = 0.5

# Maximum time for which a dry run waits for another one to end.
_PATIENCE_S = 1.0


@dataclasses.dataclass(slots=True)
class _Account:
    """The processor time that is left for dry runs."""

    share: float
    burst_s: float
    filled_s: float
    left_s: float

    def fill(self, now_s: float) -> float:
        """Add the time gained since the last call; return what is left."""
        gained_s = (now_s - self.filled_s) * self.share
        self.left_s = min(self.left_s + gained_s, self.burst_s)
        self.filled_s = now_s
        return self.left_s


class DryRuns:
    """Allows one dry run at a time, while there is processor time left.

    A dry run may take as long as it needs, but others are refused until this
    time has been regained. Thread-safe.

    :param busy: returns the calling thread's processor time in seconds.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        busy: Callable[[], float] = time.thread_time,
    ) -> None:
        self._clock = clock
        self._busy = busy
        self._working = threading.Lock()
        self._total = _Account(SHARE, BURST_S, clock(), BURST_S)
        # Contains only projects whose accounts are not full.
        self._of_projects: dict[str, _Account] = {}

    @contextlib.contextmanager
    def turn(
        self, project_id: str
    ) -> Iterator[Callable[[], contextlib.AbstractContextManager[None]]]:
        """Reserve the turn for a dry run while a block runs.

        :returns: a function whose contexts count a block's processor time;
            several threads may use it, one after the other.
        :raises Overloaded: if the project, or all projects together, have used
            up their time, or if another dry run does not end soon.
        """
        if not self._working.acquire(timeout=_PATIENCE_S):
            raise exception.Overloaded(reason="another dry run is in progress")
        spent: list[float] = []

        @contextlib.contextmanager
        def count() -> Iterator[None]:
            began_s = self._busy()
            try:
                yield
            finally:
                spent.append(self._busy() - began_s)

        try:
            accounts = self._accounts(project_id)
            try:
                yield count
            finally:
                for one in accounts:
                    one.left_s -= sum(spent)
        finally:
            self._working.release()

    def _accounts(self, project_id: str) -> tuple[_Account, _Account]:
        now_s = self._clock()
        for name, one in list(self._of_projects.items()):
            if one.fill(now_s) >= one.burst_s:
                del self._of_projects[name]
        own = self._of_projects.setdefault(
            project_id, _Account(SHARE / 2, BURST_S / 2, now_s, BURST_S / 2)
        )
        if self._total.fill(now_s) <= 0 or own.left_s <= 0:
            raise exception.Overloaded(reason="too many dry runs")
        return self._total, own
