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

"""Two projects and two slots, shared by a real conductor."""

from __future__ import annotations

import collections
import contextlib
import threading

import pytest

from fpgapool import client
from tests.harness import cloud as clouds
from tests.harness import door as doors
from tests.harness import waiting

# In the gate: tests/property/test_fair.py, and tests/world.
pytestmark = pytest.mark.long

LIMIT_S = 60.0
KIB = 1024
QUANTUM_BYTES = 32 * KIB
SLOTS = 2
FLOOD = 500
#: Of the sessions of each project, and how many of each are under way.
SIZES = {clouds.PROJECT: 8 * KIB, clouds.OTHER_PROJECT: 48 * KIB}
THREADS = 5
#: So many bytes of the project that has the larger sessions.
ENOUGH_BYTES = 12 * SIZES[clouds.OTHER_PROJECT]


@pytest.fixture(scope="module")
def cloud(make_cloud) -> clouds.Cloud:
    return make_cloud(
        clouds.HostPlan("board", slots=SLOTS),
        options={
            "conductor": {
                "fair_share": True,
                "fair_share_quantum_bytes": QUANTUM_BYTES,
            },
            "quota": {"sessions": SLOTS},
        },
    )


class Flood:
    """Sessions of a project, several at a time, until told to stop.

    :ivar served_bytes: of all projects.
    """

    def __init__(self, cloud: clouds.Cloud) -> None:
        self._host = cloud.hosts["board"]
        self._lock = threading.Lock()
        self._enough = threading.Event()
        self._errors: list[BaseException] = []
        self.served_bytes = collections.Counter[str]()

    def run(self) -> None:
        """Serve until there was enough, and end all sessions."""
        threads = [
            threading.Thread(target=self._open_again, args=(project,))
            for project in SIZES
            for _ in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    def _open_again(self, project: str) -> None:
        try:
            while not self._enough.is_set():
                self._use(project)
        except BaseException as error:
            self._errors.append(error)
            self._enough.set()

    def _use(self, project: str) -> None:
        size = SIZES[project]
        with client.acc_open(
            "copy",
            size,
            front_door=self._host.socket_path(project),
            timeout_s=LIMIT_S,
        ) as session:
            session.pin[:size] = bytes(size)
            session.run(size, timeout_s=LIMIT_S)
        with self._lock:
            if not self._enough.is_set():
                self.served_bytes[project] += size
            if self.served_bytes[clouds.OTHER_PROJECT] >= ENOUGH_BYTES:
                self._enough.set()


def test_projects_are_served_the_same_bytes(cloud) -> None:
    """Whatever the sizes of their sessions."""
    flood = Flood(cloud)
    flood.run()
    served = flood.served_bytes
    largest = max(SIZES.values())
    difference = served[clouds.PROJECT] - served[clouds.OTHER_PROJECT]
    # What is under way in the slots was counted by the conductor already.
    bound = 2 * (QUANTUM_BYTES + largest) + SLOTS * largest
    assert abs(difference) <= bound, served
    assert 2 * bound < ENOUGH_BYTES
    cloud.check_consistent()


def test_what_was_used_is_recorded(cloud) -> None:
    used = collections.Counter[str]()
    for record in cloud.usage():
        used[record.project_id] += record.input_bytes
        assert record.slot_s > 0
        assert record.input_bytes == record.sessions * SIZES[record.project_id]
    assert set(used) == set(SIZES)


def test_a_flood_delays_another_project_by_one_job_per_slot(cloud) -> None:
    host = cloud.hosts["board"]
    with contextlib.ExitStack() as stack:
        flooding = stack.enter_context(host.door(clouds.PROJECT))
        single = stack.enter_context(host.door(clouds.OTHER_PROJECT))
        held = [
            flooding.attach(flooding.open_ready(size_bytes=QUANTUM_BYTES))
            for _ in range(SLOTS)
        ]
        flooding.history.clear()
        for _ in range(FLOOD - SLOTS):
            flooding.open(size_bytes=QUANTUM_BYTES)
        waiting.wait_until(
            lambda: cloud.summary()["waiting"] == FLOOD - SLOTS,
            "the flood waits",
        )
        wanted = single.open(size_bytes=QUANTUM_BYTES)
        single.wait_state(wanted, "QUEUED")
        doors.let_go(held)
        served = threading.Event()
        serving = threading.Thread(target=serve, args=(flooding, served))
        serving.start()
        try:
            view = single.wait_state(wanted, "READY")
        finally:
            served.set()
            serving.join()
        # Generations are given out in the order of assignments.
        before = [
            states[-1]["generation"]
            for states in flooding.views.values()
            if 0 < states[-1]["generation"] < view["generation"]
        ]
        # The other project may owe for its last session before.
        debt = SIZES[clouds.OTHER_PROJECT] // QUANTUM_BYTES + 1
        assert len(before) <= 2 * SLOTS + debt
        doors.let_go([single.attach(view)])
    # Nobody is there any more for those that wait.
    waiting.wait_until(
        lambda: cloud.summary()["waiting"] == 0, "the flood is over"
    )


def serve(door: doors.Door, enough: threading.Event) -> None:
    """Use sessions as they get their slots, and give these back."""
    while not enough.is_set():
        ready = [name for name, state in door.history if state == "READY"]
        if not ready:
            door.next_message()
            continue
        door.history.clear()
        for request in ready:
            doors.let_go([door.attach(door.views[request][-1])])
