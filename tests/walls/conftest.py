# SPDX-License-Identifier: Apache-2.0

"""A host whose cores are greedy."""

from __future__ import annotations

import os
import pathlib
import shutil
import tempfile
from collections.abc import Callable
from collections.abc import Iterator

import pytest

from fpgapool.agent import service
from fpgapool.agent.supervision import children
from fpgapool.agent.supervision import forks
from tests.functional.agent import harness
from tests.functional.worker import harness as worker_harness
from tests.walls import sessions


@pytest.fixture
def directory() -> Iterator[pathlib.Path]:
    """Give a directory whose path is short enough for Unix sockets."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="fpgapool-"))
    yield path
    shutil.rmtree(path)


Start = Callable[..., tuple[harness.Host, service.Agent]]


@pytest.fixture
def start(
    directory: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Start]:
    """Start a host whose processes have cgroups, and wait for its slots."""
    hosts = []
    # Emulated processors are slow.
    for module in (children, forks):
        monkeypatch.setattr(module, "START_TIMEOUT_S", harness.TIMEOUT_S)

    def started(**settings: object) -> tuple[harness.Host, service.Agent]:
        host = harness.Host(
            directory,
            driver_path=sessions.DRIVER,
            **{"worker_timeout_s": harness.TIMEOUT_S, **settings},
        )
        hosts.append(host)
        agent = host.start()
        # The virtual machine has all that is needed.
        if agent.cgroups.missing() and "WALLS_IN_VM" not in os.environ:
            pytest.skip("; ".join(agent.cgroups.missing()))
        assert agent.cgroups.missing() == []
        for slot in (0, 1):
            host.conductor.wait_for_slot(slot, lambda one: one.state == "idle")
        return host, agent

    with worker_harness.closed_channels():
        yield started
    for host in hosts:
        host.stop()
