# SPDX-License-Identifier: Apache-2.0

"""The results of a scenario's groups.

Latencies are always reported with the number of refused batches: a group that
refuses many has short queues.
"""

from __future__ import annotations

import msgspec
import numpy as np

from fpgapool.sim.engines import tasks


class Latency(msgspec.Struct, frozen=True):
    """Latency of accepted batches: from arrival to the last task's end.

    :ivar batches: number of accepted batches that have ended.
    :ivar refused: number of batches that found no room.
    :ivar mean_s: mean latency; None: no batch has ended, and the next two are
        None as well.
    """

    batches: int
    refused: int
    mean_s: float | None
    p95_s: float | None
    worst_s: float | None


class GoalResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of a goal.

    :ivar met: whether the deadline was met; for a rate, whether the mean rate
        reached it.
    :ivar admitted: whether the policy let the group begin.
    :ivar begun_s: when the group began or was refused.
    :ivar ended_s: when the last task or the group ended; None: neither did.
    :ivar rate_per_s: tasks completed per second until then.
    """

    met: bool
    admitted: bool
    begun_s: float
    ended_s: float | None = None
    rate_per_s: float | None = None


class GroupResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """One group.

    :ivar busy_s: slot-seconds with tasks, until the horizon.
    :ivar programming_s: slot-seconds of programming, until the horizon.
    :ivar moves: number of slots that it got from other groups.
    """

    name: str
    latency: Latency
    tasks: int
    busy_s: float
    programming_s: float
    moves: int
    clients: dict[str, Latency]
    goal: GoalResult | None = None


class GroupsResult(msgspec.Struct, frozen=True):
    """All groups under a policy.

    Shares refer to the time of all slots for groups from 0 to the horizon;
    they add up to 1. Programming does not count as use.

    :ivar horizon_s: when the last load or, without loads, the last task ends.
    :ivar busy: share of the time with tasks.
    :ivar programming: share of the time spent programming.
    :ivar idle: share of the time with neither.
    """

    horizon_s: float
    slots: int
    busy: float
    programming: float
    idle: float
    latency: Latency
    groups: list[GroupResult]

    def group(self, name: str) -> GroupResult:
        return next(group for group in self.groups if group.name == name)


class Course(msgspec.Struct, frozen=True):
    """Groups over time: a list for each group, with a value for each time.

    :ivar members: number of slots that serve the group.
    :ivar ended: number of tasks that have ended so far.
    """

    times_s: list[float]
    members: list[list[int]]
    waiting_s: list[list[float]]
    ended: list[list[int]]


def measure_latency(engine: tasks.TaskEngine, clients: range) -> Latency:
    """Measure the batches of some clients after a run."""
    some = engine.latencies_s(clients)
    return Latency(
        batches=some.size,
        refused=engine.refused(clients),
        mean_s=float(some.mean()) if some.size else None,
        p95_s=float(np.percentile(some, 95)) if some.size else None,
        worst_s=float(some.max()) if some.size else None,
    )
