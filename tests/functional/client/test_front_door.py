#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Reopening by a real front door, with a conductor made for it."""

import pathlib
import shutil
import tempfile

import pytest

from tests.functional.agent import harness


class Conductor(harness.FakeConductor):
    """Knows of reopening, too."""

    def reopen_session(
        self, project_id, *, session_id, generation, host_uuid
    ) -> None:
        self._record(
            "reopen_session", (project_id, session_id, generation, host_uuid)
        )


@pytest.fixture
def host():
    # Not tmp_path: its length may exceed that of a socket's path.
    directory = pathlib.Path(tempfile.mkdtemp(prefix="fpgapool-"))
    with harness.running_host(
        directory,
        driver_name="noop",
        driver_path="fpgapool.drivers.noop:NoopDriver",
        open_timeout_s=3.0,
    ) as running:
        running.conductor = Conductor()
        running.start()
        yield running
    shutil.rmtree(directory)


@pytest.fixture
def door(host):
    with harness.Client(host.front_door) as connected:
        yield connected


def _reopen(door, session_id="session-of-r1", generation=5):
    return door.request("reopen", session_id=session_id, generation=generation)


def test_reopening_reaches_the_conductor_until_it_is_heard(host, door):
    assert _reopen(door) == {"id": 1, "ok": True}
    expected = (harness.PROJECT, "session-of-r1", 5, harness.HOST)
    wait_for = host.conductor.wait_for
    assert wait_for("reopen_session", lambda one: True) == expected
    host.conductor.calls.clear()
    assert wait_for("reopen_session", lambda one: True) == expected
    (agent,) = host.agents
    for view in (
        harness.view("r1", "QUEUED", 7, generation=5),
        harness.view("r1", "READY", 8, generation=6, secret="ab"),
    ):
        harness.tell(agent, view)
        event = door.event()
        assert (event["state"], event["generation"]) == (
            view.state,
            view.generation,
        )
    assert event["secret"] == "ab"


def test_client_that_goes_takes_the_waiting_session_along(host):
    with harness.Client(host.front_door) as door:
        _reopen(door)
    cancelled = host.conductor.wait_for("cancel_session", lambda one: True)
    assert cancelled == (harness.PROJECT, "session-of-r1", "CLIENT_GONE")


def test_conductor_that_does_not_answer(door):
    _reopen(door)
    event = door.event()
    assert (event["session_id"], event["state"], event["reason"]) == (
        "session-of-r1",
        "LOST",
        "CONDUCTOR_UNAVAILABLE",
    )


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"session_id": None}, "SESSION_NOT_FOUND"),
        ({"session_id": "../x"}, "SESSION_NOT_FOUND"),
        ({"generation": "5"}, "INVALID_REQUEST"),
        ({"generation": -1}, "INVALID_REQUEST"),
        ({"generation": True}, "INVALID_REQUEST"),
    ],
)
def test_wrong_members(host, door, members, code):
    reply = _reopen(door, **members)
    assert (reply["ok"], reply["error"]["code"]) == (False, code)
    assert not host.conductor.named("reopen_session")
