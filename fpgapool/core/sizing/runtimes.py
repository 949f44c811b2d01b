# SPDX-License-Identifier: Apache-2.0

"""Estimates the slot-seconds of tasks from the last periods.

The estimates, by name:

``measured`` The busy time of a client's tasks divided by their number.
``nnls`` For drivers that only count tasks: a least-squares fit, without
negative times, of the group's busy time to the numbers of tasks of its
clients. It cannot distinguish clients whose numbers of tasks have a constant
ratio. ``saturated`` Like ``nnls``, but with the whole period instead of the
busy time. It is correct only for a group whose members are never idle.
``as_printed`` Like ``saturated``, but divides by the size where it should
multiply. It reproduces published figures.
"""

import dataclasses
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

import numpy as np

from fpgapool.core import nnls

MEASURED = "measured"
NNLS = "nnls"
SATURATED = "saturated"
AS_PRINTED = "as_printed"
ESTIMATES = (MEASURED, NNLS, SATURATED, AS_PRINTED)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """What the members of a group did in a period.

    :param ended: number of tasks that ended, by client; clients with none are
        left out.
    """

    length_s: float
    busy_s: float
    running: int
    ended: Mapping[str, int]
    client_busy_s: Mapping[str, float]

    @property
    def tasks(self) -> int:
        """The number of tasks that ended."""
        return sum(self.ended.values())

    @property
    def tasks_s(self) -> float:
        """Slot-seconds of the tasks that ended.

        If drivers only count tasks, it is the members' whole busy time.
        """
        return sum(self.client_busy_s.values()) or self.busy_s


@dataclasses.dataclass(frozen=True, slots=True)
class Runtimes:
    """Slot-seconds per task.

    :param other: slot-seconds per task of all other clients; None: unknown.
    """

    by_client: Mapping[str, float]
    other: float | None

    def of(self, client: str) -> float | None:
        """Return the slot-seconds of a client's task; None: unknown."""
        return self.by_client.get(client, self.other)

    def work(self, tasks: Mapping[str, int]) -> float | None:
        """Return the slot-seconds of tasks by client; None: unknown."""
        total = 0.0
        for client, count in tasks.items():
            if count:
                task_s = self.of(client)
                if task_s is None:
                    return None
                total += count * task_s
        return total


def estimate(kind: str, periods: Sequence[Period], size: int) -> Runtimes:
    """Estimate the slot-seconds of each client's tasks.

    A client none of whose tasks has ended gets the average of the others. If
    no task has ended at all, a running task counts as long as it has run.
    """
    if kind not in ESTIMATES:
        raise ValueError(
            f"unknown estimate {kind!r}; known estimates: "
            f"{', '.join(ESTIMATES)}"
        )
    whole = kind in (SATURATED, AS_PRINTED)
    b = [one.length_s if whole else one.busy_s for one in periods]
    factor = 1.0
    if kind == SATURATED:
        factor = size
    elif kind == AS_PRINTED and size:
        factor = 1 / size
    ended = _summed(one.ended for one in periods)
    if not ended:
        return Runtimes({}, _unended(periods))
    other = sum(b) / sum(ended.values()) * factor
    if kind == MEASURED:
        busy_s = _summed(one.client_busy_s for one in periods)
        return Runtimes(
            {name: busy_s.get(name, 0.0) / ended[name] for name in ended},
            other,
        )
    names = sorted(ended)
    A = np.array(
        [[one.ended.get(name, 0) for name in names] for one in periods]
    )
    found, _ = nnls.solve(A, np.array(b))
    return Runtimes(
        dict(zip(names, (found * factor).tolist(), strict=True)), other
    )


def _summed(
    counts: Iterable[Mapping[str, float]],
) -> dict[str, float]:
    total: dict[str, float] = {}
    for each in counts:
        for client, count in each.items():
            if count:
                total[client] = total.get(client, 0) + count
    return total


def _unended(periods: Sequence[Period]) -> float | None:
    busy_s = sum(one.busy_s for one in periods)
    if busy_s <= 0:
        return None
    return busy_s / max(periods[-1].running, 1)
