# SPDX-License-Identifier: Apache-2.0

"""Threads that are reused.

A session needs several threads, most of them only briefly; starting one takes
longer than its work. They are daemon threads, because a hanging thread must
not keep the process from exiting; an executor would wait for its threads.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import logging
import queue
import threading
import time
import typing
from collections.abc import Callable

LOG = logging.getLogger(__name__)

#: Most idle threads that are kept for the next tasks.
SPARE_THREADS = 8
# Idle threads end after this time, so that an idle worker has none.
_IDLE_S = 5.0


class _Task(typing.NamedTuple):
    name: str
    target: Callable[..., object]
    arguments: tuple[object, ...]
    done: threading.Event


class Crew:
    """A pool of daemon threads that grows as needed."""

    def __init__(
        self, spare: int = SPARE_THREADS, idle_s: float = _IDLE_S
    ) -> None:
        self._spare = spare
        self._idle_s = idle_s
        self._idle = 0
        self._lock = threading.Lock()
        self._tasks: queue.SimpleQueue[_Task] = queue.SimpleQueue()

    @property
    def idle_count(self) -> int:
        with self._lock:
            return self._idle

    def start(
        self, name: str, target: Callable[..., object], *arguments: object
    ) -> threading.Event:
        """Run a function in a thread.

        :returns: an event that is set when the function has ended.
        """
        task = _Task(name, target, arguments, threading.Event())
        with self._lock:
            if self._idle:
                self._idle -= 1
                self._tasks.put(task)
                return task.done
        threading.Thread(
            target=self._work, args=([task],), name=name, daemon=True
        ).start()
        return task.done

    def _work(self, first: list[_Task]) -> None:
        # An idle thread must not keep its last task's objects alive.
        self._do(first.pop())
        while task := self._next():
            self._do(task)
            del task

    def _next(self) -> _Task | None:
        """Return the next task, or None if the thread must end."""
        with self._lock:
            if self._idle >= self._spare:
                return None
            self._idle += 1
        with contextlib.suppress(queue.Empty):
            return self._tasks.get(timeout=self._idle_s)
        with self._lock:
            # A task may have been queued for this thread in the meantime.
            with contextlib.suppress(queue.Empty):
                return self._tasks.get_nowait()
            self._idle -= 1
            return None

    @staticmethod
    def _do(task: _Task) -> None:
        threading.current_thread().name = task.name
        try:
            task.target(*task.arguments)
        except Exception:
            LOG.exception("the thread %s failed", task.name)
        finally:
            task.done.set()


#: The crew of this process.
CREW = Crew()


@dataclasses.dataclass(eq=False)
class Later:
    """Calls functions after a fixed delay, in one thread. A call may be late
    by up to a tenth of the delay, so that the thread wakes less often.
    """

    delay_s: float
    name: str

    def __post_init__(self) -> None:
        self._running = False
        self._lock = threading.Lock()
        self._calls: collections.deque[tuple[float, Callable[[], object]]] = (
            collections.deque()
        )

    def call(self, function: Callable[[], object]) -> None:
        """Call a function later; it must not raise or block."""
        with self._lock:
            self._calls.append((time.monotonic() + self.delay_s, function))
            if self._running:
                return
            self._running = True
        CREW.start(self.name, self._run)

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._calls:
                    self._running = False
                    return
                due_s, function = self._calls.popleft()
            left_s = due_s - time.monotonic()
            if left_s > 0.0:
                time.sleep(left_s + self.delay_s / 10)
            function()
            del function
