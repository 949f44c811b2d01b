# SPDX-License-Identifier: Apache-2.0

"""Code in a worker that an agent has forked, beside one of another project."""

from __future__ import annotations

import contextlib
import os
import pathlib
import tempfile
import typing
from collections.abc import Iterator

import pytest

from fpgapool.agent import service
from tests.functional.agent import harness
from tests.functional.worker import harness as workers
from tests.harness import supervised
from tests.walls import attacks
from tests.walls import site

SLOTS = {0: harness.PROJECT, 1: "project-b"}


@pytest.fixture(scope="module")
def outcomes() -> Iterator[dict[str, str]]:
    """Give how all attacks went."""
    with contextlib.ExitStack() as stack:
        on = stack.enter_context(site.host(None))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for name, value in on.with_password().items():
            patch.setenv(name, value)
        directory = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="fp-")
        )
        host = stack.enter_context(
            harness.running_host(
                pathlib.Path(directory),
                driver_path="tests.walls.worker:AttackedDriver",
                driver_settings={"scene": on.scene},
                worker_memory_bytes=site.MEMORY_BYTES,
                # The neighbour stays if it is told that its agent has gone.
                workers_outlive_agent=True,
            )
        )
        stack.enter_context(workers.closed_channels())
        yield _outcomes(on, host)


def _outcomes(on: site.Host, host: harness.Host) -> dict[str, str]:
    agent = host.start()
    clients = {slot: _opened(host, agent, slot) for slot in SLOTS}
    neighbour = _neighbour(host, agent)
    is_in_a_group = _is_in_a_group(neighbour["pid"])
    found = {}
    for one in attacks.ATTACKS.values():
        if is_in_a_group or not one.cgroup:
            found[one.name] = on.confirmed(
                lambda one=one: site.run(clients[0], one.name, neighbour)
            )
    assert os.path.exists(f"/proc/{neighbour['pid']}"), "the neighbour ended"
    return found


def _is_in_a_group(pid: int) -> bool:
    """Whether the agent has put a process into a control group."""
    groups = [
        pathlib.Path(f"/proc/{one}/cgroup").read_text()
        for one in (pid, os.getpid())
    ]
    return groups[0] != groups[1]


def _opened(
    host: harness.Host, agent: service.Agent, slot: int
) -> workers.Client:
    """Start a session of a project."""
    host.conductor.wait_for_slot(slot, lambda one: one.state == "idle")
    harness.assign(agent, 7 + slot, slot, project_id=SLOTS[slot])
    prepared = host.conductor.wait_for(
        "prepared", lambda one: one.generation == 7 + slot
    )
    client = workers.Client.remote(
        {"data_port": prepared.endpoints[1].port, "certificate_sha256": None}
    )
    return client.hello(
        {
            "session_id": prepared.session_id,
            "generation": prepared.generation,
            "secret": prepared.secret,
        }
    )


def _neighbour(
    host: harness.Host, agent: service.Agent
) -> dict[str, typing.Any]:
    """Return what is known of the worker of another project."""
    found: list[int] = []
    agent.loop.run_and_wait(
        lambda: found.append(supervised.pid(agent.workers, ("board0", 1))),
        harness.TIMEOUT_S,
    )
    socket = pathlib.Path(host.settings.state_path, "workers", "board0.1.sock")
    return {
        "pid": found[0],
        "group": os.getpgid(found[0]),
        "front_door": host.front_door,
        "control": str(socket),
        "other_file": f"{socket}.lock",
    }


@pytest.mark.security
@pytest.mark.parametrize(
    "attack",
    [
        # "make test-walls" has cgroup v2 wherever it runs.
        pytest.param(one, marks=pytest.mark.long if one.cgroup else ())
        for one in attacks.ATTACKS.values()
    ],
    ids=lambda one: one.name,
)
def test_a_neighbour_gives_nothing(
    outcomes: dict[str, str], attack: attacks.Attack
) -> None:
    if attack.landlock > site.landlock_version():
        pytest.skip(f"this kernel lacks version {attack.landlock} of Landlock")
    if attack.name not in outcomes:
        pytest.skip("the agent cannot make control groups here")
    found = outcomes[attack.name]
    assert found.startswith(attack.allowed), f"it {attack.tried}: {found}"
