# SPDX-License-Identifier: Apache-2.0

"""Five sessions in five states at once, a fault, and what becomes of them."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import signal
import subprocess
import sys
import threading
import time
import typing
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping

from fpgapool import client
from fpgapool.common import exception
from fpgapool.db import records
from tests.harness import cloud as clouds
from tests.harness import door as doors
from tests.harness import footprint
from tests.harness import processes
from tests.harness import waiting

if typing.TYPE_CHECKING:
    from tests.functional.system import matrix

STATES = ("QUEUED", "PREPARING", "READY", "ACTIVE", "DETACHED")
BOARD_SLOTS = 4

#: Hosts of a scene: four slots for the sessions that have one, a host whose
#: slots others hold until the scene frees them, and one without a board.
HOSTS = (
    clouds.HostPlan("board", slots=BOARD_SLOTS),
    clouds.HostPlan("spare", slots=2),
    clouds.HostPlan("compute", slots=0),
)

#: Nothing ends by a time limit, unless a test says so. First come, first
#: served, on any slot: which session moves where is another matter.
OPTIONS: clouds.Options = {
    "conductor": {
        "strategy": "fifo",
        "report_timeout_s": 4,
        "lease_s": 2,
        "connect_timeout_s": 600,
        "resume_grace_s": 60,
        "idle_timeout_s": 0,
        "min_progress_bytes_per_s": 0,
        "resend_interval_s": 0.5,
    },
}

_TERMINATE_LIMIT_S = 30.0


class Actor:
    """A client process; see :mod:`tests.harness.actor` for its commands.

    :param front_door: path of the socket that it asks.
    :param accelerator: what its session is for.
    :param request_id: name of its request; None for a new one.
    """

    def __init__(
        self,
        front_door: str,
        accelerator: str = "copy",
        request_id: str | None = None,
    ) -> None:
        self.request_id = request_id or doors.new_request_id()
        self._settings = {
            "front_door": front_door,
            "accelerator": accelerator,
            "request_id": self.request_id,
        }
        self._events: list[dict[str, typing.Any]] = []
        self._over = False
        self._changed = threading.Condition()
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.harness.actor",
                json.dumps(self._settings),
            ],
            cwd=processes.ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(
            target=self._read, args=(self._process.stdout,), daemon=True
        )
        self._reader.start()

    def _read(self, lines: Iterable[str]) -> None:
        for line in lines:
            with self._changed:
                self._events.append(json.loads(line))
                self._changed.notify_all()
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def again(self) -> Actor:
        """Return a new program that repeats the request of this one."""
        return Actor(**self._settings)

    # What it does.

    def say(self, command: str) -> None:
        """Tell it what to do."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{command}\n")
            self._process.stdin.flush()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it as a crash would."""
        self._process.kill()
        self._process.wait(_TERMINATE_LIMIT_S)

    def terminate(self) -> None:
        """Have it end in order."""
        self._process.terminate()
        self._process.wait(_TERMINATE_LIMIT_S)

    def close(self) -> None:
        """Leave nothing of it."""
        self.kill()
        self._reader.join(_TERMINATE_LIMIT_S)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    # What it tells.

    def wait_event(
        self, event: str, limit_s: float = waiting.LIMIT_S, **members: object
    ) -> dict[str, typing.Any]:
        """Wait until it has told something.

        :param event: the name of the event.
        :param members: what else it must say.
        :raises AssertionError: if it does not.
        """
        wanted = {"event": event, **members}

        def newest() -> dict[str, typing.Any] | None:
            for one in reversed(self._events):
                if wanted.items() <= one.items():
                    return one
            return None

        with self._changed:
            self._changed.wait_for(
                lambda: newest() or self._over or self._ended(), limit_s
            )
            found = newest()
            assert found, f"no {wanted}: {self._events[-5:]}"
            return found

    def last(self) -> dict[str, typing.Any] | None:
        """Return the newest event, None if there is none yet."""
        with self._changed:
            return self._events[-1] if self._events else None

    def _ended(self) -> bool:
        return bool(self._events) and self._events[-1]["event"] in (
            "closed",
            "failed",
        )

    @property
    def done_bytes(self) -> int:
        """How much of its data has gone through so far."""
        with self._changed:
            return max(
                (one.get("done_bytes", 0) for one in self._events), default=0
            )

    def wait_progress(self, limit_s: float = waiting.LIMIT_S) -> None:
        """Wait until more of its data has gone through."""
        before = self.done_bytes
        waiting.wait_until(
            lambda: self.done_bytes > before, "data flow", limit_s
        )

    def outcome(self, limit_s: float = waiting.LIMIT_S) -> str:
        """Wait for its end and return the code that it got, empty if none."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._over or self._ended(), limit_s
            )
            assert self._ended() or self._over, (
                f"it has not come to an end: {self._events[-5:]}"
            )
            return str(self._events[-1].get("code", ""))


@dataclasses.dataclass
class Fate:
    """What has become of a session.

    :ivar before: its row when the fault happened.
    :ivar after: its row at the very end.
    :ivar limit_s: how soon the fault had to have its effect.
    :ivar settled_s: how soon it had; None if not within that time.
    :ivar client: the code that its program got, empty if it got its data.
    """

    before: records.SessionRecord
    after: records.SessionRecord
    limit_s: float = 0.0
    settled_s: float | None = None
    client: str = ""


class Scene:
    """Sessions in all five states; a context manager.

    While it lasts ``actors`` has the program of each state. ACTIVE streams
    pieces without end; the others stand still. Afterwards the pool must be
    as it was before.

    :param cloud: with a host ``board`` of four slots; if it has one named
        ``spare``, too, strangers hold its slots until :meth:`free_spare`.
    :param home: the host whose front door the programs use.
    :param programming_s: how long the slot of PREPARING takes.
    """

    def __init__(
        self,
        cloud: clouds.Cloud,
        *,
        home: str = "board",
        programming_s: float = 8.0,
    ) -> None:
        self.cloud = cloud
        self.board = cloud.hosts["board"]
        self.home = cloud.hosts[home]
        self._programming_s = programming_s
        self.actors: dict[str, Actor] = {}
        self.fates: dict[str, Fate] = {}
        self._strangers: list[typing.Any] = []
        self._strangers_door: doors.Door | None = None
        self._struck_s = 0.0

    def __enter__(self) -> Scene:
        self._before = footprint.used(self.cloud)
        try:
            self._set()
        except BaseException:
            self._clear()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._clear()
        if exc_info == (None, None, None):
            footprint.check_no_trace(self.cloud, self._before)

    def _clear(self) -> None:
        for actor in self.actors.values():
            actor.close()
        self.free_spare()
        for daemon in self.cloud.daemons():
            daemon.ensure_running()
        self.board.write_boards()

    # The beginning.

    def _set(self) -> None:
        self._take_spare()
        path = self.home.socket_path()
        for state in STATES:
            accelerator = "aes" if state == "PREPARING" else "copy"
            self.actors[state] = Actor(path, accelerator)
        for actor in self.actors.values():
            actor.wait_event("started")
        self._open_sessions()
        waiting.wait_until(
            lambda: self._states() == {state: state for state in STATES},
            lambda: f"the scene is set: {self._states()}",
        )
        for state, record in self.records().items():
            self.fates[state] = Fate(record, record)

    def _take_spare(self) -> None:
        """Leave the board's slots to the scene, with "copy" in each of them.

        So only PREPARING has to be programmed.
        """
        slots = sum(host.plan.slots for host in self.cloud.hosts.values())
        door = self._strangers_door = self.cloud.hosts["compute"].door()
        views = [door.open_ready() for _ in range(slots)]
        for view in views:
            held = door.attach(view)
            if view["slot_host_name"] == "board":
                doors.let_go([held])
            else:
                self._strangers.append(held)
        self.cloud.check_consistent(live=len(self._strangers))

    def _open_sessions(self) -> None:
        actors = self.actors
        for state in ("ACTIVE", "DETACHED"):
            actors[state].say("open")
            actors[state].wait_event("opened")
            actors[state].say("run")
            actors[state].wait_event("progress")
        actors["ACTIVE"].say("stream")
        actors["READY"].say("hold")
        actors["READY"].wait_event("state", state="READY")
        self.board.write_boards(programming_time_s=self._programming_s)
        actors["PREPARING"].say("open")
        actors["PREPARING"].wait_event("state", state="PREPARING")
        actors["QUEUED"].say("open")
        actors["QUEUED"].wait_event("state", state="QUEUED")
        actors["DETACHED"].say("cut")
        actors["DETACHED"].wait_event("cut")
        # What is programmed from now on is not to be waited for.
        self.board.write_boards()

    # What is stored.

    def records(self) -> dict[str, records.SessionRecord]:
        """Return the rows of the sessions, by the state of their role."""
        found = {}
        for state, actor in self.actors.items():
            record = self.cloud.session_record(actor.request_id)
            if record is not None:
                found[state] = record
        return found

    def told(self) -> dict[str, object]:
        """Return what each program told last, for messages."""
        return {name: actor.last() for name, actor in self.actors.items()}

    def _states(self) -> dict[str, str]:
        return {name: row.state for name, row in self.records().items()}

    # The fault.

    def strike(self, fault: Callable[[], object]) -> None:
        """Have the fault happen; time counts from here."""
        fault()
        self._struck_s = time.monotonic()

    def settle(
        self,
        cells: Mapping[str, matrix.Cell],
        limits_s: Mapping[str, float],
    ) -> None:
        """Wait until the fault has had its effect on every session.

        What is not as it should be is noted and does not stop the scene.

        :param cells: what must become of each session.
        :param limits_s: values of the options that cells have as limits,
            by name, margins included; the empty name is for those that have
            none.
        """
        for state, fate in self.fates.items():
            fate.limit_s = limits_s[cells[state].limit]
        last_s = self._struck_s + max(
            fate.limit_s for fate in self.fates.values()
        )
        while any(fate.settled_s is None for fate in self.fates.values()):
            now_s = time.monotonic()
            if now_s > last_s:
                return
            with contextlib.suppress(exception.DatabaseError):
                self._look(cells, self.records(), now_s - self._struck_s)
            threading.Event().wait(0.1)

    def _look(
        self,
        cells: Mapping[str, matrix.Cell],
        rows: Mapping[str, records.SessionRecord],
        passed_s: float,
    ) -> None:
        for state, fate in self.fates.items():
            if fate.settled_s is None and _shows(
                cells[state], fate.before, rows[state]
            ):
                fate.settled_s = passed_s

    def new_request(self, limit_s: float = waiting.LIMIT_S) -> str:
        """Ask for another session, and take that back.

        :param limit_s: how long the program waits for the first word.
        :returns: the code that it got; empty if it would be served.
        """
        token = client.CancelToken()
        try:
            client.acc_open(
                "copy",
                1,
                front_door=self.home.socket_path(),
                timeout_s=limit_s,
                on_state=lambda _view: token.cancel(),
                cancel=token,
                verify=False,
            )
        except client.Cancelled:
            return ""
        except client.FpgapoolError as error:
            return error.code
        raise AssertionError("a session came although it was cancelled")

    # The end.

    def free_spare(self) -> None:
        """Have the strangers leave the spare slots."""
        doors.let_go(self._strangers)
        self._strangers = []
        if self._strangers_door is not None:
            self._strangers_door.close()
            self._strangers_door = None

    def finish(self) -> dict[str, Fate]:
        """Have every program that lives finish, and return all fates."""
        order = ("ACTIVE", "READY", "DETACHED", "PREPARING", "QUEUED")
        for state in order:
            self.actors[state].say("go" if state == "READY" else "finish")
        self.actors["READY"].say("finish")
        for state in order:
            self.fates[state].client = self.actors[state].outcome(60.0)
        waiting.wait_until(
            lambda: set(self._states().values()) <= doors.TERMINAL,
            lambda: f"all sessions end: {self._states()} {self.told()}",
        )
        for state, record in self.records().items():
            self.fates[state].after = record
        return self.fates


def _shows(
    cell: matrix.Cell,
    before: records.SessionRecord,
    now: records.SessionRecord,
) -> bool:
    """Whether a session's row shows the effect that its cell tells."""
    ended = f"{now.state} {now.reason}"
    if cell.outcome == "ends":
        return ended == cell.end
    if cell.meanwhile:
        # Its client may have brought it back already.
        return ended == cell.meanwhile or now.generation > before.generation
    if cell.outcome == "moves":
        return now.generation > before.generation or now.state == "QUEUED"
    return now.state not in doors.TERMINAL
