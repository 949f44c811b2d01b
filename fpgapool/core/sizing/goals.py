# SPDX-License-Identifier: Apache-2.0

"""Goals of groups: a deadline for a number of tasks, or a task rate.

A goal neither starts nor stops tasks. It determines how many slots its group
requests. Rates are in tasks/s, sizes in slots.
"""

import dataclasses
import math
import typing

from fpgapool.vocabulary import exceptions

# Tolerance for rounding errors in a number of slots.
_ROUNDING = 1e-9


class Infeasible(exceptions.PicklableError):
    """The slots do not suffice for a goal; nothing has changed.

    Users see it as ``GOAL_INFEASIBLE``.

    :ivar earliest_s: the earliest deadline that fits; None: unknown, or the
        goal is not a deadline.
    """

    def __init__(self, reason: str, earliest_s: float | None = None) -> None:
        super().__init__(reason)
        self.earliest_s = earliest_s


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a group must achieve: a deadline or a rate.

    :param deadline_s: the time by which all tasks must have ended, on the
        clock of ``now``.
    :param actions: the number of tasks, after which the goal is retired;
        required for a deadline; None: the goal has no end.
    :raises ValueError: unless exactly one of deadline and rate is given, and
        all values are valid.
    """

    deadline_s: float | None = None
    rate_per_s: float | None = None
    actions: int | None = None

    def __post_init__(self) -> None:
        if (self.deadline_s is None) == (self.rate_per_s is None):
            raise ValueError("a goal needs either a deadline or a rate")
        if self.deadline_s is not None and not math.isfinite(self.deadline_s):
            raise ValueError(
                f"the deadline must be finite, not {self.deadline_s}"
            )
        if self.rate_per_s is not None and not 0 < self.rate_per_s < math.inf:
            raise ValueError(
                f"the rate must be finite and positive, not {self.rate_per_s}"
            )
        if self.actions is None and self.deadline_s is not None:
            raise ValueError("a deadline requires the number of actions")
        if self.actions is not None and self.actions < 1:
            raise ValueError(
                f"the number of actions must be positive, not {self.actions}"
            )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GoalState:
    """A goal and its measurements.

    :param registered_s: when the goal was registered; breaks ties of
        deadlines.
    :param started: whether its program has started. Until then the group keeps
        the slots that it got at registration.
    :param done: tasks that have ended since the goal was registered.
    :param counted_s: when they were last counted; None: never.
    :param rate_per_s: t, the tasks/s of the last period; 0 before the first.
    :param slots_per_rate: â, the smoothed number of slots that one task/s
        takes; None: no task has ended yet.
    :param full_slots_per_rate: the same, measured while all slots of the set
        were busy, so that each task took longest if they share a link; None:
        they never were.
    :param short_size: the largest size at which the goal was recently missed;
        None: it was not missed.
    """

    goal: Goal
    registered_s: float
    started: bool = False
    done: int = 0
    counted_s: float | None = None
    rate_per_s: float = 0.0
    slots_per_rate: float | None = None
    full_slots_per_rate: float | None = None
    short_size: int | None = None

    @property
    def is_deadline(self) -> bool:
        return self.goal.deadline_s is not None

    @property
    def due_s(self) -> float:
        """The deadline; infinite for a rate."""
        deadline_s = self.goal.deadline_s
        return math.inf if deadline_s is None else deadline_s

    @property
    def left(self) -> int | None:
        """The number of tasks left; None: the goal has no end."""
        if self.goal.actions is None:
            return None
        return max(self.goal.actions - self.done, 0)

    def expected_left(self, now: float, longest_s: float) -> float:
        """Estimate how many tasks are left at a time.

        :param now: a time after the last count; tasks are assumed to have
            ended at the last rate since then.
        :param longest_s: the longest time for which this is assumed.
        :returns: the number of tasks; infinite if the goal has no end.
        """
        if self.left is None:
            return math.inf
        passed_s = 0.0 if self.counted_s is None else now - self.counted_s
        passed_s = min(max(passed_s, 0.0), longest_s)
        return max(self.left - self.rate_per_s * passed_s, 0.0)

    def needed_per_s(self, now: float) -> float:
        """Return g, the rate that meets the goal from now on.

        It is infinite if tasks are left at the deadline, and 0 if none are
        left.
        """
        if self.left == 0:
            return 0.0
        if self.goal.rate_per_s is not None:
            return self.goal.rate_per_s
        left_s = self.due_s - now
        return typing.cast(int, self.left) / left_s if left_s > 0 else math.inf

    def progress(self, now: float) -> float:
        """Return p, the ratio of the measured rate to the needed one.

        It is above 1 if the group does better than its goal, 0 after the
        deadline, and infinite if no task is left.
        """
        needed_per_s = self.needed_per_s(now)
        if needed_per_s == 0:
            return math.inf
        return self.rate_per_s / needed_per_s

    def request(self, now: float, least: int, most: int) -> int:
        """Return r, the number of slots that the goal requests.

        :param least: the minimum number of slots of the group.
        :param most: the maximum; a value below ``least`` is treated as
            ``least``.
        """
        return min(max(self._asked(now), least), max(least, most))

    def _asked(self, now: float) -> int:
        needed_per_s = self.needed_per_s(now)
        if needed_per_s == math.inf:
            return _LARGEST
        if self.slots_per_rate is None:
            return 1
        asked = self.slots_per_rate * needed_per_s
        return _LARGEST if asked >= _LARGEST else rounded_up(asked)

    def expected_finish_s(self, now: float) -> float | None:
        """Return when the last task ends at this rate; None: unknown."""
        if self.left is None or (self.left and not self.rate_per_s):
            return None
        return now + self.left / self.rate_per_s if self.left else now


# More slots than any set has.
_LARGEST = 2**31


def rounded_up(slots: float) -> int:
    """Round a number of slots up to whole slots."""
    return math.ceil(slots - _ROUNDING)


def smoothed_slots_per_rate(
    former: float | None, slots: float, rate_per_s: float, weight: float
) -> float | None:
    """Return â after a period.

    :param slots: θ, the mean number of members in the period.
    :returns: â; the former value if no task ended or there was no member.
    """
    if slots <= 0 or rate_per_s <= 0:
        return former
    return smoothed(former, slots / rate_per_s, weight)


def smoothed(former: float | None, new: float, weight: float) -> float:
    """Return the weighted mean of a former value and a new one.

    :param former: None: there is no former value, so the new one is returned.
    :param weight: weight of the new value, from 0 to 1.
    """
    return new if former is None else weight * new + (1 - weight) * former
