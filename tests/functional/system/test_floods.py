# SPDX-License-Identifier: Apache-2.0

"""A tenant that floods the pool does not delay others beyond their share."""

from __future__ import annotations

import contextlib
import math
import threading
import typing
from collections.abc import Callable
from collections.abc import Iterator

import pytest

from fpgapool import client
from fpgapool.agent.door import doorway
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


def _open_and_cancel(flood: Flood, door: doors.Door) -> None:
    try:
        request_id = door.open()
    except doors.Refused as error:
        # As many as one connection may are being taken back; it goes on.
        if error.code != "QUOTA_EXCEEDED":
            raise
    else:
        door.request("cancel", request_id=request_id)
    door.history.clear()
    door.views.clear()
    flood.note(asked=1)


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


def test_a_flood_of_opens_and_cancellations(cloud) -> None:
    """However many come and go, the others' requests are served."""
    board = cloud.hosts["board"]
    with Flood(board.socket_path(), _open_and_cancel, 4) as flood:
        flood.wait_asked(10 * OWN_SESSIONS)
        for number, _ in enumerate(_use(cloud, OWN_SESSIONS), start=1):
            # It goes on meanwhile.
            flood.wait_asked(10 * OWN_SESSIONS + 5 * number)
    _settled(cloud)


def test_connections_that_send_nothing(cloud) -> None:
    """They leave room for others."""
    board = cloud.hosts["board"]
    silent, refused = [], 0
    # As long as a quarter of all is free, it may have more than its share.
    room = math.ceil(CONNECTIONS * doorway.SCARCE_SHARE)
    with contextlib.ExitStack() as stack:
        for _ in range(2 * CONNECTIONS):
            silent.append(stack.enter_context(board.door()))
        for door in silent[room:]:
            (answer,) = door.read_to_end()
            refused += answer["error"]["code"] == "TOO_MANY_CONNECTIONS"
        assert refused == len(silent) - room
        for door in silent[:room]:
            assert door.request("hello")["ok"]
        text = b"not delayed" * 1000
        output, _report = client.run_buffer(
            "copy", text, front_door=board.socket_path(clouds.OTHER_PROJECT)
        )
        assert output == text
    # The room is there again.
    waiting.wait_until(lambda: _may_enter(board), "the project is served")
    _settled(cloud)


def _may_enter(board: clouds.Host) -> bool:
    with board.door() as door:
        try:
            return bool(door.request("hello")["ok"])
        except (ConnectionError, doors.Refused):
            return False
