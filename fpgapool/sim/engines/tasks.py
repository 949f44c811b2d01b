# SPDX-License-Identifier: Apache-2.0

"""The engine of tasks: groups, their clients, and the slots that serve them.

Groups, clients and slots are numbered from 0.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Sequence

import numpy as np

from fpgapool.sim.engines import base
from fpgapool.sim.engines import compiling
from fpgapool.sim.engines import queues
from fpgapool.sim.outcomes import metrics


class Counts(typing.NamedTuple):
    """What a client's tasks have done so far.

    :ivar taken_s: slot-seconds of the ended tasks.
    """

    arrived: int
    ended: int
    waiting: int
    taken_s: float


class Spent(typing.NamedTuple):
    """Slot-seconds in each state so far."""

    idle_s: float
    busy_s: float
    programming_s: float
    free_s: float


class TaskEngine:
    """Runs tasks; at first no slot is in a group.

    :param link_tasks_per_s: maximum tasks/s of all slots together.
    """

    def __init__(
        self,
        slots: Sequence[base.Slot],
        groups: int,
        clients: Sequence[queues.Client],
        link_tasks_per_s: float = math.inf,
    ) -> None:
        hosts = sorted({slot.host for slot in slots})
        self._slots = range(len(slots))
        self._net = queues.make_tasks(
            [hosts.index(slot.host) for slot in slots],
            groups,
            clients,
            link_tasks_per_s,
        )
        self._advance, self._account = queues.advance, queues.account
        self._program, self._free = queues.program, queues.free
        self._drop = queues.drop
        if compiling.pays(len(self._net.batch)):
            self._compile()
        self._task_s = [client.task_s for client in clients]
        self._of_group = [
            range(self._net.first_client[at], self._net.first_client[at + 1])
            for at in range(groups)
        ]

    def _compile(self) -> None:
        self._net = compiling.arrays(self._net)
        self._advance = compiling.compiled(queues.advance)
        self._account = compiling.compiled(queues.account)
        self._program = compiling.compiled(queues.program)
        self._free = compiling.compiled(queues.free)
        self._drop = compiling.compiled(queues.drop)

    # -- time --------------------------------------------------------------

    @property
    def now(self) -> float:
        return float(self._net.times[queues.NOW])

    def advance(self, limit_s: float) -> None:
        """Continue until a time, or until a group changes.

        A group changes when slots leave or join it, or when the tasks of
        :meth:`stop_after` have ended.
        """
        self._advance(self._net, limit_s)

    @property
    def has_ended(self) -> bool:
        """Return whether no task is left, and none will arrive."""
        return not self.unfinished and not self._has_batches

    @property
    def is_going_on(self) -> bool:
        """Return whether anything will happen without the caller."""
        return self._has_batches or any(
            state in (queues.BUSY, queues.PROGRAMMING)
            for state in self._net.state
        )

    @property
    def _has_batches(self) -> bool:
        net = self._net
        return net.sizes[queues.NEXT_BATCH] < len(net.arrival)

    # -- slots -------------------------------------------------------------

    def serves(self, slot: int) -> int | None:
        """Return the group that a slot is a member of."""
        if self._net.state[slot] in (queues.IDLE, queues.BUSY):
            return int(self._net.member[slot])
        return None

    def idle_member(self, group: int) -> int | None:
        """Return the lowest member of a group without a task."""
        return self._lowest(queues.IDLE, group)

    def free_slot(self) -> int | None:
        """Return the lowest slot that is in no group."""
        return self._lowest(queues.FREE, -1)

    def _lowest(self, state: int, group: int) -> int | None:
        for slot in self._slots:
            if (
                self._net.state[slot] == state
                and self._net.member[slot] == group
            ):
                return slot
        return None

    def members(self, group: int) -> int:
        """Return how many slots serve a group."""
        return sum(self.serves(slot) == group for slot in self._slots)

    def program(self, slot: int, group: int, ready_s: float) -> None:
        """Program a free slot for a group, which it joins at ``ready_s``."""
        self._program(self._net, slot, group, ready_s)

    def free(self, slot: int) -> None:
        """Take a member without a task out of its group."""
        self._free(self._net, slot)

    def let_leave(self, group: int, count: int) -> None:
        """Replace the number of members that leave as tasks end."""
        self._net.leaving[group] = count

    # -- tasks -------------------------------------------------------------

    def stop_after(self, group: int, tasks: int) -> None:
        """Make :meth:`advance` return once this many tasks have ended."""
        self._net.due[group] = tasks

    def is_due(self, group: int) -> bool:
        """Return whether the tasks of :meth:`stop_after` have ended."""
        return bool(self._net.due[group] == 0)

    def close(self, group: int) -> None:
        """Drop a group's waiting tasks, and refuse new ones."""
        self._drop(self._net, group)
        for client in self._of_group[group]:
            self._net.window_s[client] = 0.0

    @property
    def unfinished(self) -> int:
        """Return how many accepted tasks are neither finished nor dropped."""
        net = self._net
        return int(
            np.sum(net.arrived) - np.sum(net.ended) - np.sum(net.dropped)
        )

    def counts(self, client: int) -> Counts:
        """Return what a client's tasks have done so far."""
        net = self._net
        return Counts(
            int(net.arrived[client]),
            int(net.ended[client]),
            int(net.waiting[client]),
            float(net.taken[client]),
        )

    def waiting_s(self, group: int) -> float:
        """Return the slot-seconds of a group's waiting tasks."""
        return math.fsum(
            self._net.waiting[client] * self._task_s[client]
            for client in self._of_group[group]
        )

    # -- accounts ----------------------------------------------------------

    def busy_members(self, group: int) -> int:
        """Return how many members of a group run a task."""
        return sum(
            self._net.state[slot] == queues.BUSY
            and self._net.member[slot] == group
            for slot in self._slots
        )

    def busy_s(self, group: int) -> float:
        """Return the slot-seconds for which slots ran a group's tasks."""
        self._account(self._net)
        return float(self._net.busy[group])

    def programming_s(self, group: int) -> float:
        """Return the slot-seconds of programming slots for a group."""
        self._account(self._net)
        return float(self._net.programming[group])

    def spent(self) -> Spent:
        """Return the slot-seconds of all slots in each state."""
        self._account(self._net)
        by_state = np.reshape(self._net.spent, (-1, queues.STATES))
        return Spent(*by_state.sum(axis=0).tolist())

    # -- batches -----------------------------------------------------------

    def latencies_s(self, clients: range) -> metrics.Floats:
        """Return the latencies of the ended batches, in order of arrival."""
        net = self._net
        finishes_s = np.asarray(net.finish)
        latencies_s: metrics.Floats = finishes_s - np.asarray(net.arrival)
        return latencies_s[self._are_of(clients) & (finishes_s >= 0)]

    def refused(self, clients: range) -> int:
        """Return the number of refused batches."""
        return sum(int(self._net.refused[client]) for client in clients)

    def _are_of(self, clients: range) -> np.ndarray[typing.Any, typing.Any]:
        own = np.asarray(self._net.client)
        return (own >= clients.start) & (own < clients.stop)
