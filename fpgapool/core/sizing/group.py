# SPDX-License-Identifier: Apache-2.0

"""One group: its numbers of slots, its tasks, and its goal.

A group's state follows from its numbers and is never set directly. After each
change, :meth:`Group.settle` derives an event from the numbers and follows
``states.GROUP_MOVES`` until no event applies::

    CREATING --filled--> ACTIVE <--settled-- RESIZING
                           | |                ^    |
                           | +----moving------+    |
                           v                       |
                        DEGRADED <----short--------+   (filled: ACTIVE)

    any of these --delete--> DRAINING --emptied--> DELETED

* *filled*: it has its minimum of members, and at least one if it wants any.
* *moving*: a slot is under way to it, or its size is not the wanted one.
* *settled*: neither is true any more.
* *short*: it has fewer members than its minimum, for example after a host was
  lost.
* *emptied*: a group being deleted has no member, and no slot is under way.

Tasks are counted in periods. :meth:`Group.observe` adds a desk's report to the
current period. :meth:`Group.end_period` turns it into what a policy sees: the
waiting work, the arriving work, and the progress of the goal.
"""

import collections
import dataclasses
import math
from collections.abc import Mapping

from fpgapool.core import events
from fpgapool.core import model
from fpgapool.core.sizing import elasticity
from fpgapool.core.sizing import goals
from fpgapool.core.sizing import runtimes
from fpgapool.vocabulary import states

# Tolerance for rounding errors in a mean number of members.
_ROUNDING = 1e-9
# After this many periods, a missed goal says little about its group's size.
_MISS_PERIODS = 60
# Desks report every few seconds; a longer gap means that no task ended.
_LONGEST_SILENCE_S = 30.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SizingOptions:
    """How groups are measured.

    :param period_s: I, the time from one resize to the next; None: the
        policy's.
    :param periods: m, the number of periods that estimates cover.
    :param estimate: how slot-seconds per task are estimated; see
        :mod:`fpgapool.core.sizing.runtimes`: ``measured``, ``nnls``, and for
        comparison ``saturated`` and ``as_printed``.
    :param smoothing: weight of the last period in slots per rate.
    :param arrival_smoothing: weight of the last period in expected arrivals.
        It is small, because a group that was busy a minute ago often becomes
        busy again.
    :param programming_time_s: the longest programming time of any slot of the
        pool.
    """

    period_s: float | None = None
    periods: int = 6
    estimate: str = runtimes.MEASURED
    smoothing: float = 0.5
    arrival_smoothing: float = 0.25
    programming_time_s: float = 0.0

    def __post_init__(self) -> None:
        if self.period_s is not None and not self.period_s > 0:
            raise ValueError(f"period_s must be positive, not {self.period_s}")
        if self.periods < 1:
            raise ValueError(f"periods must be at least 1, not {self.periods}")
        if self.estimate not in runtimes.ESTIMATES:
            raise ValueError(
                f"estimate must be one of {', '.join(runtimes.ESTIMATES)}, "
                f"not {self.estimate!r}"
            )
        for name in ("smoothing", "arrival_smoothing"):
            value = getattr(self, name)
            if not 0 < value <= 1:
                raise ValueError(
                    f"{name} must be above 0 and at most 1, not {value}"
                )
        if not self.programming_time_s >= 0:
            raise ValueError(
                "programming_time_s must not be negative, not "
                f"{self.programming_time_s}"
            )


class Group:
    """One group.

    :ivar shapes: the slot shapes that its accelerator fits; empty: any.
    :ivar gathers: whether it waits for its first slots, which come all at
        once. Until it has a member, it asks for no others.
    :ivar state: one of :data:`fpgapool.vocabulary.states.GROUP_MOVES`.
    :ivar owed: number of slots that it must return to the pool first.
    :ivar gave: whether it gave slots to sessions in this period.
    :ivar goal: its goal; None: it has none, or has reached it.
    :ivar last: the last period; None: the first one has not ended.
    """

    def __init__(
        self,
        spec: model.Group,
        shapes: model.Shapes,
        options: SizingOptions,
        now: float,
    ) -> None:
        self.spec = spec
        self.shapes = shapes
        self.gathers = False
        self.state = states.GROUP_CREATING
        self.wanted = spec.size
        self.members = 0
        self.under_way = 0
        self.owed = 0
        self.gave = False
        self.goal: goals.GoalState | None = None
        self.last: runtimes.Period | None = None
        self.waiting_s: float | None = None
        self._options = options
        self._arrived_s: float | None = None
        self._expected_s: float | None = None
        # When each recently moved slot may leave again.
        self._stay_until: list[float] = []
        self._miss_ends_s = 0.0
        self._periods: collections.deque[runtimes.Period] = collections.deque(
            maxlen=options.periods
        )
        # Waiting tasks by host and client, and busy members by host.
        self._waiting: dict[model.HostId, Mapping[str, int]] = {}
        self._running: dict[model.HostId, int] = {}
        self._begin_period(now)

    def _begin_period(self, now: float) -> None:
        self._since_s = self._counted_s = now
        self._member_s = 0.0
        self._busy_s = 0.0
        self._ended: collections.Counter[str] = collections.Counter()
        self._arrived: collections.Counter[str] = collections.Counter()
        self._client_busy_s: dict[str, float] = {}
        self._has_reports = False

    # -- slots -------------------------------------------------------------

    @property
    def size(self) -> int:
        """S, its members and the slots under way to it."""
        return self.members + self.under_way

    @property
    def surplus(self) -> int:
        """The number of members that it should give away."""
        return min(max(self.size - self.wanted, 0), self.members)

    @property
    def deficit(self) -> int:
        """The number of slots that it lacks and that are not under way."""
        return 0 if self.gathers else max(self.wanted - self.size, 0)

    def add(self, members: int, under_way: int, now: float) -> None:
        """Change the numbers of its members and of slots under way to it."""
        self._member_s += self.members * (now - self._counted_s)
        self._counted_s = now
        self.members += members
        self.under_way += under_way

    def stay(self, until_s: float) -> None:
        """Keep one more slot until this time."""
        self._stay_until.append(until_s)

    def release(self) -> None:
        """Allow all slots that were pinned to the group to leave."""
        self._stay_until.clear()

    def staying(self, now: float) -> int:
        """Return how many slots must stay now."""
        self._stay_until = [at for at in self._stay_until if at > now]
        return min(len(self._stay_until), self.size)

    def give(self) -> None:
        """Give up one slot to a session during this period."""
        self.wanted = min(self.size, self.wanted) - 1
        self.owed += 1
        self.gave = True
        self.settle()

    def want_again(self, is_sized: bool) -> None:
        """Request again the slots that the group gave to sessions.

        :param is_sized: whether the policy sizes this group. If so, one slot
            is enough, because it shows the policy that there are tasks.
            Otherwise, the group returns to the size that its owner set.
        """
        if self.gave and self.state != states.GROUP_DRAINING:
            least = 1 if is_sized else self.spec.size
            self.owed = 0
            self.wanted = max(self.wanted, least)
            self.settle()
        self.gave = False

    def settle(self) -> None:
        """Move to the state that follows from the numbers."""
        while (event := self._event()) is not None:
            self.state = states.GROUP_MOVES[self.state][event]

    def _event(self) -> str | None:
        least = max(self.spec.min_size, min(self.wanted, 1))
        event = None
        if self.state == states.GROUP_DRAINING:
            event = states.EMPTIED if not self.size else None
        elif self.state in (states.GROUP_CREATING, states.GROUP_DEGRADED):
            event = states.FILLED if self.members >= least else None
        elif self.members < self.spec.min_size:
            event = states.SHORT
        elif self.under_way or self.size != self.wanted:
            event = states.MOVING
        else:
            event = states.SETTLED
        known = states.GROUP_MOVES.get(self.state, {})
        return event if event in known else None

    def delete(self) -> None:
        """Start releasing all slots."""
        self.state = states.GROUP_MOVES[self.state][states.DELETE]
        self.wanted = 0
        self.goal = None
        self.release()

    # -- tasks -------------------------------------------------------------

    def observe(self, stats: events.TaskStats, now: float) -> bool:
        """Add a desk's report.

        :returns: whether this report completes the group's goal.
        """
        self._has_reports = True
        self._waiting[stats.host_id] = {
            one.client: one.waiting for one in stats.clients if one.waiting
        }
        self._running[stats.host_id] = stats.busy_members
        self._busy_s += stats.busy_s
        ended = arrived = 0
        for one in stats.clients:
            self._ended[one.client] += one.ended
            self._arrived[one.client] += one.arrived
            self._client_busy_s[one.client] = (
                self._client_busy_s.get(one.client, 0.0) + one.busy_s
            )
            ended += one.ended
            arrived += one.arrived
        if self.goal is None:
            return False
        self.goal = dataclasses.replace(
            self.goal,
            started=self.goal.started or ended + arrived > 0,
            done=self.goal.done + ended,
            counted_s=now,
        )
        return self.goal.left == 0

    def start(self, now: float) -> None:
        """Measure the goal from now on."""
        if self.goal is not None and not self.goal.started:
            self.goal = dataclasses.replace(self.goal, started=True)
            self._begin_period(now)

    def end_period(self, now: float) -> None:
        """Compute what the policy sees from the reports of a period.

        If the desks have not reported since the last period, a group with a
        goal keeps its last values: a missing report does not mean a rate of 0.
        """
        length_s = now - self._since_s
        if length_s <= 0:
            return
        if (
            self.goal is not None
            and self.goal.started
            and not self._has_reports
            and length_s < _LONGEST_SILENCE_S
        ):
            return
        self.last = runtimes.Period(
            length_s=length_s,
            busy_s=self._busy_s,
            running=sum(self._running.values()),
            ended={name: n for name, n in self._ended.items() if n},
            client_busy_s=self._client_busy_s,
        )
        self._periods.append(self.last)
        times = runtimes.estimate(
            self._options.estimate, tuple(self._periods), self.members
        )
        waiting: collections.Counter[str] = collections.Counter()
        for by_client in self._waiting.values():
            waiting.update(by_client)
        self.waiting_s = times.work(waiting)
        self._arrived_s = times.work(self._arrived)
        if self._arrived_s is not None:
            self._expected_s = goals.smoothed(
                self._expected_s,
                self._arrived_s,
                self._options.arrival_smoothing,
            )
        if self.goal is not None and self.goal.started:
            self.goal = self._measured(self.goal, self.last, now)
        self._begin_period(now)

    def _measured(
        self, goal: goals.GoalState, last: runtimes.Period, now: float
    ) -> goals.GoalState:
        """Return the goal with the measurements of the last period."""
        rate_per_s = last.tasks / last.length_s
        self.add(0, 0, now)
        members = self._member_s / last.length_s
        slots = members
        if last.busy_s > 0:
            # Only busy members contribute to the rate. Their number may exceed
            # the members, because late reports may cover more than one period.
            slots = last.busy_s / last.length_s
        measured = dataclasses.replace(
            goal,
            rate_per_s=rate_per_s,
            slots_per_rate=goals.smoothed_slots_per_rate(
                goal.slots_per_rate, slots, rate_per_s, self._options.smoothing
            ),
        )
        short = goal.short_size
        if measured.progress(now) < 1:
            # Rounding down leaves out slots that arrived during the period.
            short = max(short or 0, math.floor(members + _ROUNDING))
            self._miss_ends_s = now + _MISS_PERIODS * last.length_s
        elif short is not None and (
            members <= short or now >= self._miss_ends_s
        ):
            short = None
        return dataclasses.replace(measured, short_size=short)

    def measure_full(self) -> None:
        """Record that all slots of the set were busy in the last period."""
        goal, last = self.goal, self.last
        if goal is None or not goal.started or last is None:
            return
        if last.tasks:
            self.goal = dataclasses.replace(
                goal,
                full_slots_per_rate=goals.smoothed(
                    goal.full_slots_per_rate,
                    last.tasks_s / last.tasks,
                    self._options.smoothing,
                ),
            )

    def view(self, now: float) -> elasticity.GroupView:
        return elasticity.GroupView(
            id=self.spec.id,
            size=self.size,
            wanted=self.wanted,
            min_size=self.spec.min_size,
            max_size=self.spec.max_size,
            staying=self.staying(now),
            waiting_s=self.waiting_s,
            arrived_s=self._arrived_s,
            expected_s=self._expected_s,
            goal=self.goal,
        )
