# SPDX-License-Identifier: Apache-2.0

"""A part of the crowd: one process with many clients, each a thread."""

from __future__ import annotations

import collections
import dataclasses
import random
import threading
import time
from collections.abc import Callable
from collections.abc import Sequence

from fpgapool import client
from tests.harness import door as doors

SIZE_BYTES = 64 * 1024
ACCELERATOR = "copy"

# One at a time and not too many: the clients are what is measured.
_GET_INTERVAL_S = 0.1

#: When an action ended, and how long it took, in seconds.
Timing = tuple[float, float]


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """What a process does.

    :ivar front_doors: paths, one for each host.
    :ivar clients: how many.
    :ivar until_s: when they stop, by time.monotonic(), which all processes
        of a machine share.
    :ivar seed: of what they send.
    """

    front_doors: Sequence[str]
    clients: int
    until_s: float
    seed: int


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What a process has measured.

    :ivar timings: by action: open (until its session is in the database),
        get, close and whole (from open to close).
    :ivar errors: what went wrong, and how often.
    """

    timings: dict[str, list[Timing]]
    errors: dict[str, int]


def run(plan: Plan) -> Outcome:
    """Do what the plan says; returns at its end."""
    crowd = _Crowd(plan)
    clients = [
        threading.Thread(target=crowd.use, args=(number,))
        for number in range(plan.clients)
    ]
    asking = threading.Thread(target=crowd.ask)
    for thread in (*clients, asking):
        thread.start()
    crowd.wait_until_over()
    for thread in (*clients, asking):
        thread.join()
    return Outcome(dict(crowd.timings), dict(crowd.errors))


class _Crowd:
    """The threads of one process and what they share."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._over = threading.Event()
        self._token = client.CancelToken()
        self._newest: tuple[int, str] | None = None
        self.timings: collections.defaultdict[str, list[Timing]] = (
            collections.defaultdict(list)
        )
        self.errors = collections.Counter[str]()

    def wait_until_over(self) -> None:
        """Wait, then have everybody come to an end."""
        self._over.wait(self._plan.until_s - time.monotonic())
        self._over.set()
        self._token.cancel()

    def _note(self, action: str, began_s: float) -> None:
        now_s = time.monotonic()
        self.timings[action].append((now_s, now_s - began_s))

    def use(self, number: int) -> None:
        """Open, run and close, again and again."""
        chance = random.Random(self._plan.seed * 10_000 + number)
        host = number % len(self._plan.front_doors)
        while not self._over.is_set():
            data = chance.randbytes(SIZE_BYTES)
            began_s = time.monotonic()
            try:
                self._use_once(host, data)
            except client.Cancelled:
                return
            except Exception as error:
                code = getattr(error, "code", "")
                self.errors[f"{type(error).__name__} {code}"] += 1
                self._over.wait(1)
            else:
                self._note("whole", began_s)

    def _use_once(self, host: int, data: bytes) -> None:
        session = client.acc_open(
            ACCELERATOR,
            len(data),
            front_door=self._plan.front_doors[host],
            on_state=self._first_view(host),
            cancel=self._token,
        )
        with session:
            session.pin[: len(data)] = data
            if client.acc_run(session, len(data)) != data:
                raise RuntimeError("the copy differs")
            began_s = time.monotonic()
            client.acc_close(session)
        self._note("close", began_s)

    def _first_view(self, host: int) -> Callable[[client.SessionView], None]:
        began_s = time.monotonic()
        first = True

        def on_state(view: client.SessionView) -> None:
            nonlocal first
            if first:
                first = False
                self._note("open", began_s)
                self._newest = host, view.session_id

        return on_state

    def ask(self) -> None:
        """Ask for sessions where they are not known: at another host."""
        paths = self._plan.front_doors
        opened = [doors.Door(path) for path in paths]
        try:
            while not self._over.wait(_GET_INTERVAL_S):
                newest = self._newest
                if newest is not None:
                    host, session_id = newest
                    began_s = time.monotonic()
                    opened[(host + 1) % len(paths)].request(
                        "get", session_id=session_id
                    )
                    self._note("get", began_s)
        except (OSError, doors.Refused) as error:
            self.errors[f"get: {error}"] += 1
        finally:
            for door in opened:
                door.close()
