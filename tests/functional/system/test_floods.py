# SPDX-License-Identifier: Apache-2.0

"""A tenant that floods the pool does not delay others beyond their share."""

from __future__ import annotations

import threading
import typing
from collections.abc import Callable
from collections.abc import Iterator

import pytest

from tests.harness import cloud as clouds
from tests.harness import door as doors
from tests.harness import waiting

# In the gate: agent/test_doorway.py and tests/property/test_fair.py.
pytestmark = [pytest.mark.long, pytest.mark.security]

SLOTS = 2
CONNECTIONS = 40
OWN_SESSIONS = 6

#: So many sessions that the flood waits for; more than the others will ever
#: see served before their own.
CROWD = 400


@pytest.fixture(scope="module")
def cloud(make_cloud) -> clouds.Cloud:
    return make_cloud(
        clouds.HostPlan("board", slots=SLOTS),
        options={
            # Turns of one session each.
            "conductor": {"fair_share": True, "fair_share_quantum_bytes": 1},
            "agent": {"max_front_door_connections": CONNECTIONS},
        },
    )


class Flood:
    """One project's programs that want more than there is.

    :param step: does one thing at a door; called over and over.
    :param connections: how many do so at the same time.
    """

    def __init__(
        self,
        path: str,
        step: Callable[[Flood, doors.Door], object],
        connections: int = 2,
    ) -> None:
        self._path = path
        self._step = step
        self._stopping = threading.Event()
        self._changed = threading.Condition()
        self.asked = 0
        self.served = 0
        self._threads = [
            threading.Thread(target=self._run) for _ in range(connections)
        ]

    def __enter__(self) -> typing.Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def note(self, *, asked: int = 0, served: int = 0) -> None:
        """Count, for whoever waits."""
        with self._changed:
            self.asked += asked
            self.served += served
            self._changed.notify_all()

    def wait_asked(self, count: int) -> None:
        """Wait until the flood is one."""
        with self._changed:
            assert self._changed.wait_for(
                lambda: self.asked >= count, waiting.LIMIT_S
            )

    def _run(self) -> None:
        with doors.Door(self._path) as door:
            while not self._stopping.is_set():
                self._step(self, door)


def _open_more(flood: Flood, door: doors.Door) -> None:
    """Have many requests wait, and use what one gets for no time."""
    ended = [r for r, state in door.history if state in doors.TERMINAL]
    ready = [r for r, state in door.history if state == "READY"]
    known = set(door.views) - set(ended)
    door.history.clear()
    for request_id in ready:
        flood.note(served=1)
        door.request("cancel", request_id=request_id)
    for request_id in ended:
        del door.views[request_id]
    if len(known) < CROWD // 2:
        # One counts before anything is heard of it: that may take a while.
        door.views.setdefault(door.open(), [])
        flood.note(asked=1)
    else:
        door.next_message()


def _use(cloud: clouds.Cloud, count: int) -> Iterator[None]:
    """Open sessions of the other project, one after the other."""
    path = cloud.hosts["board"].socket_path(clouds.OTHER_PROJECT)
    with doors.Door(path) as door:
        for _ in range(count):
            view = door.open_ready()
            yield
            door.request("cancel", session_id=view["session_id"])


def _settled(cloud: clouds.Cloud) -> None:
    """Nothing of a flood is left."""
    cloud.check_consistent()


def test_a_flood_of_opens(cloud) -> None:
    """Others wait for their turn, and not for the queue of the flood."""
    board = cloud.hosts["board"]
    with Flood(board.socket_path(), _open_more) as flood:
        flood.wait_asked(CROWD)
        before = flood.served
        for _ in _use(cloud, OWN_SESSIONS):
            pass
        served = flood.served - before
    # In line behind all that waited, each of them would have seen as many.
    assert served < OWN_SESSIONS * CROWD / 10
    _settled(cloud)
