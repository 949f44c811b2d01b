# SPDX-License-Identifier: Apache-2.0

"""What one worker or desk takes is not taken from the others."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import threading

import pytest

from fpgapool.client import errors
from fpgapool.client.groups import group as group_client
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.functional.agent import grouphosts
from tests.functional.agent import harness
from tests.functional.agent import test_groups
from tests.functional.agent import test_workers
from tests.harness import waiting
from tests.walls import sessions

# "make test-walls" has cgroup v2 wherever it runs.
pytestmark = [pytest.mark.security, pytest.mark.long]

MIB = 2**20
PIECE = bytes(range(256)) * 16


def group_of(pid: int) -> pathlib.Path:
    (line,) = pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    return pathlib.Path("/sys/fs/cgroup" + line.removeprefix("0::"))


def killed_in(group: pathlib.Path) -> int:
    """Return how many processes below a cgroup were killed for memory."""
    lines = (group / "memory.events").read_text().splitlines()
    return int(dict(line.split() for line in lines)["oom_kill"])


def end_of(host: harness.Host, slot: int, generation: int) -> tuple[str, str]:
    told = host.conductor.wait_for_slot(
        slot,
        lambda one: (
            one.last_result and one.last_result.generation == generation
        ),
    )
    return told.last_result.state, told.last_result.code


# With no limit of its own, the kernel chooses the process that uses most.
@pytest.mark.parametrize("limit_bytes", [256 * MIB, 0], ids=["own", "none"])
def test_a_session_that_takes_all_memory_ends_alone(start, limit_bytes):
    host, agent = start(worker_memory_bytes=limit_bytes)
    others = sessions.open_session(host, agent, 7, slot=1)
    assert others.run(PIECE) == PIECE
    neighbour = test_workers.pid_of(agent, 1)
    greedy = sessions.open_session(host, agent, 8, slot=0, take="memory")
    greedy.send_input(PIECE)
    while not any(
        one.last_result for one in _slots(host) if one.generation != 7
    ):
        assert others.run(PIECE) == PIECE
    assert end_of(host, 0, 8) == (states.FAILED, codes.OUT_OF_MEMORY)
    assert agent.workers.ended["board0", "out_of_memory"] == 1
    assert others.run(PIECE) == PIECE
    assert test_workers.pid_of(agent, 1) == neighbour
    host.conductor.wait_for_slot(0, lambda one: one.state == "idle")
    assert sessions.open_session(host, agent, 9, slot=0).run(PIECE) == PIECE


def _slots(host: harness.Host) -> list:
    return list(host.conductor.named("report")[-1].devices[0].slots)


def test_a_worker_that_starts_threads_leaves_some_for_others(start):
    most = 100
    host, agent = start(worker_pids_max=most)
    greedy = sessions.open_session(host, agent, 7, slot=0, take="threads")
    assert 0 < int(greedy.run(PIECE)) < most
    others = sessions.open_session(host, agent, 8, slot=1)
    assert others.run(PIECE) == PIECE


def fill(group: group_client.Group) -> None:
    """Submit as many tasks as may wait, none of which ends."""
    with contextlib.suppress(errors.FpgapoolError):
        for _ in range(62):
            group.submit(bytes(MIB - 1024), params={"take": "time"})


def test_a_desk_that_takes_all_memory_ends_alone(start):
    host, agent = start(desk_memory_bytes=40 * MIB)
    grouphosts.serve_group(host, agent)
    first = test_groups.desk_pid(agent)
    home = group_of(first).parent
    killed = killed_in(home)
    pids = [test_workers.pid_of(agent, slot) for slot in (0, 1)]
    group = test_groups.open_group(host)
    submitting = threading.Thread(target=fill, args=(group,))
    submitting.start()
    waiting.wait_until(
        lambda: test_groups.desk_pid(agent) != first, "another desk"
    )
    with contextlib.suppress(errors.FpgapoolError):
        group.close(timeout_s=0.1)
    submitting.join()
    assert killed_in(home) > killed
    assert [test_workers.pid_of(agent, slot) for slot in (0, 1)] == pids


def test_each_process_is_in_its_own_cgroup_until_it_ends(start):
    host, agent = start(worker_memory_bytes=300 * MIB, worker_cpu_weight=50)
    groups = [group_of(test_workers.pid_of(agent, slot)) for slot in (0, 1)]
    own = group_of(os.getpid())
    assert own.name == "agent"
    assert [one.name for one in groups] == [
        f"worker-{harness.HOST}-board0.{slot}" for slot in (0, 1)
    ]
    for group in groups:
        assert group.parent == own.parent
        found = {
            name: (group / name).read_text().strip()
            for name in (
                "memory.max memory.oom.group memory.swap.max pids.max"
                " cpu.weight"
            ).split()
            if (group / name).exists()
        }
        assert found == {
            "memory.max": str(300 * MIB),
            "memory.oom.group": "1",
            "pids.max": "2048",
            "cpu.weight": "50",
        } | ({"memory.swap.max": "0"} if "memory.swap.max" in found else {})
    host.stop()
    assert not any(one.exists() for one in groups)


def test_the_next_agent_limits_the_workers_that_it_finds(start):
    host, agent = start(workers_outlive_agent=True)
    pid = test_workers.pid_of(agent, 0)
    agent.stop()
    host.settings = dataclasses.replace(
        host.settings, worker_memory_bytes=400 * MIB
    )
    later = host.start()
    waiting.wait_until(
        lambda: test_workers.known_pid_of(later, 0) == pid, "the worker"
    )
    limit = (group_of(pid) / "memory.max").read_text().strip()
    assert limit == str(400 * MIB)
