# SPDX-License-Identifier: Apache-2.0

"""What the processes beside the pool have in common: they do as told.

They read ``pause`` and ``go`` from their standard input, and write JSON lines:
``paused`` when nothing is under way any more after ``pause``, and what they
have to tell. When their input ends, so do they. SIGTERM is an orderly end.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import types
import typing
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator


class Obeying:
    """Threads that are all told to go on, and to pause."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._going = True
        self._busy = 0
        self._output = threading.Lock()

    def run(self, bodies: Iterable[Callable[[], None]]) -> None:
        """Follow the standard input to its end.

        :param bodies: of the threads; none returns.
        """
        for body in bodies:
            threading.Thread(target=body, daemon=True).start()
        for line in sys.stdin:
            self._follow(line.strip())
        # Threads may be in calls that take long.
        os._exit(0)

    def _follow(self, command: str) -> None:
        with self._changed:
            self._going = command == "go"
            self._changed.notify_all()
            if not self._going:
                self._changed.wait_for(lambda: not self._busy)
                self.say("paused")

    def say(self, event: str, **members: typing.Any) -> None:
        """Tell the outside."""
        line = json.dumps({"event": event, **members})
        with self._output:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()

    @contextlib.contextmanager
    def turn(self, pause_s: float) -> Iterator[bool]:
        """Wait until the calling thread may do something, for this block.

        :returns: whether it may; not if a pause has begun.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._going)
            self._changed.wait_for(lambda: not self._going, pause_s)
            going = self._going
            self._busy += going
        try:
            yield going
        finally:
            with self._changed:
                self._busy -= going
                self._changed.notify_all()


def obey_signals() -> None:
    """Have SIGTERM end the process in order, wherever it is."""
    signal.signal(signal.SIGTERM, _leave)


def _leave(_number: int, _frame: types.FrameType | None) -> None:
    raise SystemExit(0)
