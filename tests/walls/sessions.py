# SPDX-License-Identifier: Apache-2.0

"""Sessions of a host whose cores are greedy, without a client's front door."""

from __future__ import annotations

import dataclasses

from fpgapool.agent import service
from fpgapool.agent.supervision import workers
from fpgapool.common.channels import channel
from tests.functional.agent import harness
from tests.functional.agent import test_workers
from tests.functional.worker import harness as worker_harness
from tests.harness import waiting
from tests.walls import greedy

DRIVER = f"{greedy.__name__}:{greedy.GreedyDriver.__name__}"


def open_session(
    host: harness.Host,
    agent: service.Agent,
    generation: int,
    slot: int,
    **take,
) -> worker_harness.Client:
    """Assign a slot, and connect to its worker.

    :param take: see :class:`greedy.GreedyCore`.
    """
    harness.assign(agent, generation, slot)
    prepared = host.conductor.wait_for(
        "prepared", lambda one: one.generation == generation
    )
    path = workers.data_path(host.settings.state_path, ("board0", slot))
    sock = channel.PlainChannel(channel.connect_unix(path))
    return worker_harness.Client(sock).hello(
        dataclasses.asdict(prepared), params=take
    )


def take_memory(
    host: harness.Host,
    agent: service.Agent,
    generation: int,
    take: str = "memory",
) -> str:
    """Let a session of slot 0 take all memory, and wait for its worker's end.

    :param take: what it takes; see :class:`greedy.GreedyCore`.
    :returns: the code with which the session ended.
    """
    worker = test_workers.pid_of(agent, 0)
    client = open_session(host, agent, generation, slot=0, take=take)
    client.send_input(b"any")
    told = host.conductor.wait_for_slot(
        0,
        lambda one: (
            one.last_result and one.last_result.generation == generation
        ),
    )
    # A new worker has all of its memory.
    waiting.wait_until(
        lambda: test_workers.known_pid_of(agent, 0) not in (None, worker),
        "another worker",
    )
    host.conductor.wait_for_slot(0, lambda one: one.state == "idle")
    return told.last_result.code
