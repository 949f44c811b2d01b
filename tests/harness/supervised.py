# SPDX-License-Identifier: Apache-2.0

"""The worker processes that an agent has."""

from fpgapool.agent import orders
from fpgapool.agent import workers


def pid(supervisor: workers.Supervisor, key: orders.Key) -> int | None:
    """Return the number of a slot's worker, None if none is connected."""
    worker = supervisor._workers[key]
    return None if worker.sock is None else worker.pid
