# SPDX-License-Identifier: Apache-2.0

"""The processes that an agent has."""

from fpgapool.agent.slots import orders
from fpgapool.agent.supervision import desks
from fpgapool.agent.supervision import workers


def pid(supervisor: workers.Supervisor, key: orders.Key) -> int | None:
    """Return the number of a slot's worker, None if none is connected."""
    worker = supervisor._workers[key]
    return None if worker.sock is None else worker.pid


def desk_pid(keeper: desks.Desks, group_id: str) -> int | None:
    """Return the number of a group's desk, None if none is connected."""
    desk = keeper._desks[group_id]
    return None if desk.sock is None else desk.pid
