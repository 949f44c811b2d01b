# SPDX-License-Identifier: Apache-2.0

"""Names of devices become names of sockets and logs, and of nothing else."""

from __future__ import annotations

import pytest

from fpgapool.agent import service
from fpgapool.drivers import base
from fpgapool.drivers import noop
from tests.functional.agent import harness

pytestmark = pytest.mark.security


class OddDriver(noop.NoopDriver):
    """Finds a board of any name."""

    name = ""

    def discover(self) -> tuple[base.DeviceInfo, ...]:
        return (base.DeviceInfo(self.name, "odd", 1e9, 0.0, ()),)


@pytest.mark.parametrize(
    "name", ["../../../tmp/board0", "/board0", "a/b", "board\0", ""]
)
def test_names_that_are_paths(directory, monkeypatch, name):
    """Whatever a driver calls its boards, nothing is made elsewhere."""
    monkeypatch.setattr(OddDriver, "name", name)
    host = harness.Host(
        directory,
        driver_name="odd",
        driver_path=f"{__name__}:{OddDriver.__name__}",
    )
    with pytest.raises(service.AgentError, match="reports a device named"):
        host.start()


@pytest.mark.parametrize("name", ["0000:3b:00.0", "..", "board 0", "\u00e4"])
def test_names_that_are_only_odd(directory, monkeypatch, name):
    """What is no path may be a name."""
    monkeypatch.setattr(OddDriver, "name", name)
    with harness.running_host(
        directory,
        driver_name="odd",
        driver_path=f"{__name__}:{OddDriver.__name__}",
    ) as host:
        host.start()
        report = host.conductor.wait_for("report", lambda one: one.devices)
        assert report.devices[0].name == name
