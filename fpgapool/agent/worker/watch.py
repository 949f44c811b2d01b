# SPDX-License-Identifier: Apache-2.0

"""Limits of connected sessions, so that none wastes a slot. Does no I/O."""

from __future__ import annotations

import dataclasses
import math
import typing

from fpgapool.vocabulary import codes

#: Interval at which a connected session is checked.
INTERVAL_S = 0.25

#: How many times its claim a session may process whose input comes over a
#: link, before others may take its slot, and how many times slower it may be
#: than the minimum rate: the stage before it decides both.
FOLLOWER_FACTOR = 16


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a connected session; 0 means no limit.

    :ivar min_progress_bytes_per_s: minimum mean rate of the input in each
        period of ``progress_period_s``.
    :ivar claim_limit_bytes: amount of input above which the pool is notified.
    :ivar quantum_bytes: input per quantum; the pool is notified of each
        quantum.
    """

    idle_timeout_s: float = 0.0
    max_hold_s: float = 0.0
    min_progress_bytes_per_s: float = 0.0
    progress_period_s: float = 60.0
    claim_limit_bytes: int = 0
    quantum_bytes: int = 0


class Borders:
    """Detects when a session completes a quantum.

    :param quantum_bytes: amount of input per quantum; 0 for no quanta.
    """

    def __init__(self, quantum_bytes: int) -> None:
        self._quantum_bytes = quantum_bytes
        self._next_bytes: float = quantum_bytes or math.inf

    def reached(self, input_bytes: int) -> bool:
        """Whether a quantum has been completed since the last call."""
        if input_bytes < self._next_bytes:
            return False
        quanta = input_bytes // self._quantum_bytes + 1
        self._next_bytes = quanta * self._quantum_bytes
        return True


class Progress(typing.NamedTuple):
    """The progress of a session.

    :ivar output_bytes: number that grows as the client receives output.
    :ivar wait: what the session waits for; ``{}`` is replaced with the
        duration.
    :ivar is_computing: whether it waits for the core rather than the client.
    :ivar follows: whether its input is the output of another session.
    """

    input_bytes: int = 0
    output_bytes: int = 0
    wait: str = "the client has sent no input for {}"
    is_computing: bool = False
    follows: bool = False


#: The progress of a new session.
BEGUN = Progress()


class Watch:
    """Checks one session against its limits."""

    def __init__(self, limits: Limits, now: float) -> None:
        self._limits = limits
        self._first_s = now
        self._input_bytes = 0
        self._last = BEGUN
        self._progress_s = now
        self._period_s = now
        self._period_bytes = 0

    def resumed(self, now: float) -> None:
        """Record that the client is connected again; the time without a
        connection does not count as idle.
        """
        self._progress_s = now
        self._period_s = now
        self._period_bytes = self._input_bytes

    def beyond_claim(self) -> bool:
        """Whether the input exceeds the claim, including its tolerance.

        The later stages of a chain may have many times as much: nobody knows
        how much the one before returns, and that one keeps its claim. If one
        of them left its slot, the others would keep theirs for nothing. But
        any client can order a link, and be the other end of it, so there is
        an end to this, too.
        """
        limit_bytes = self._limits.claim_limit_bytes
        if self._last.follows:
            limit_bytes *= FOLLOWER_FACTOR
        return bool(limit_bytes) and self._input_bytes > limit_bytes

    def look(self, progress: Progress, now: float) -> tuple[str, str] | None:
        """Compare the session with its limits.

        :returns: code and message if the session must end, or None.
        """
        self._input_bytes = max(progress.input_bytes, self._input_bytes)
        last, self._last = self._last, progress
        # A change of the text alone is not progress. The start of a
        # computation is, so its time is measured from here.
        if progress._replace(wait=last.wait) != last:
            self._progress_s = now
        limits = self._limits
        if 0 < limits.idle_timeout_s <= now - self._progress_s:
            return (
                codes.CORE_FAILED
                if progress.is_computing
                else codes.IDLE_TIMEOUT,
                progress.wait.format(f"{limits.idle_timeout_s:g} s"),
            )
        if 0 < limits.max_hold_s <= now - self._first_s:
            return (
                codes.HOLD_TIMEOUT,
                "the session held the slot for the maximum time of"
                f" {limits.max_hold_s:g} s",
            )
        return self._look_at_rate(now)

    def _look_at_rate(self, now: float) -> tuple[str, str] | None:
        limits, least = self._limits, self._limits.min_progress_bytes_per_s
        passed_s = now - self._period_s
        if not least or passed_s < limits.progress_period_s:
            return None
        sender = "client"
        if self._last.follows:
            least, sender = least / FOLLOWER_FACTOR, "stage before"
        rate = (self._input_bytes - self._period_bytes) / passed_s
        self._period_s, self._period_bytes = now, self._input_bytes
        if rate >= least:
            return None
        return (
            codes.TOO_SLOW,
            f"the {sender} sent {rate:.0f} bytes/s of input, below the "
            f"minimum of {least:g} bytes/s",
        )
