# SPDX-License-Identifier: Apache-2.0

"""Workers that somebody has taken over, and that lie to their agent."""

from __future__ import annotations

import json
import pathlib

import pytest

from fpgapool.agent.supervision import desks
from tests.functional.agent import grouphosts
from tests.functional.agent import harness
from tests.functional.agent import lying

pytestmark = pytest.mark.security


@pytest.fixture
def victim(directory: pathlib.Path) -> pathlib.Path:
    """Return a directory that is no desk's."""
    found = directory / "victim"
    found.mkdir()
    (found / "file").write_text("precious")
    return found


LIES = {
    "of another's group": {"session_id": grouphosts.GROUP, "is_member": True},
    "of another's session": {"session_id": "session-9", "generation": 9},
    "of a directory": {"session_id": "VICTIM", "is_member": True},
    "of a way up": {"session_id": "../../victim", "is_member": True},
    "that no clock shows": {"input_bytes": 1e300},
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_a_worker_that_lies_harms_only_its_own_session(
    directory, victim, monkeypatch, caplog, lie
):
    monkeypatch.setattr(desks, "LINGER_S", 0.0)
    if lie.get("session_id") == "VICTIM":
        lie = {**lie, "session_id": str(victim)}
    monkeypatch.setenv(lying.VARIABLE, json.dumps(lie))
    driver = "tests.functional.agent.lying:LyingDriver"
    with harness.running_host(directory, driver_path=driver) as host:
        agent = grouphosts.start(host)
        grouphosts.keep(agent, 1)
        grouphosts.join(agent, 7, 1)
        host.conductor.wait_for_slot(1, grouphosts.active)
        harness.assign(agent, 8, project_id="project-b")
        ended = host.conductor.wait_for_slot(
            0,
            lambda one: one.last_result is not None and one.state == "idle",
        )
        assert (ended.last_result.session_id, ended.last_result.code) == (
            "session-8",
            "WORKER_DIED",
        )
        reports = host.conductor.named("report")
        assert {one.devices[0].slots[0].session_id for one in reports} <= {
            None,
            "session-8",
        }
        assert {group.group_id for one in reports for group in one.groups} == {
            grouphosts.GROUP
        }
        # The neighbour has noticed nothing.
        assert reports[-1].devices[0].slots[1].generation == 7
        grouphosts.keep(agent, 2)
        grouphosts.group_report(host, lambda one: one.revision == 2)
        assert (victim / "file").read_text() == "precious"
        (line,) = [one for one in caplog.messages if "Killing" in one]
        assert "invalid message" in line
        assert "Worker of slot board0.0" in line
        assert "Unexpected failure" not in caplog.text
