# SPDX-License-Identifier: Apache-2.0

"""Virtual time, and the tasks and processes that live in it.

A task is a thread of the product; it runs until it waits for something. One
task runs at a time, and a seed says which one of those that could: the same
seed leads to the same run.
"""

from __future__ import annotations

import heapq
import itertools
import random
import traceback
from collections.abc import Callable

import greenlet

#: What the wall clock shows when a world begins.
BEGINS_AT = 1_800_000_000.0

#: How long a step takes at most, as a rule, and in rare cases.
STEP_S = 0.0005
SLOW_STEP_S = 0.05
_SLOW_STEP_SHARE = 0.01
#: No world takes more steps: one that does turns in a circle.
MOST_STEPS = 1_000_000
#: How often a task lets others run at a point where it need not.
_YIELD_SHARE = 0.05


class Deadlock(Exception):
    """Nothing is left to happen, but something was waited for."""


class Process:
    """What stops, thaws and dies as one.

    A program that is started again is another process of the same name.

    :ivar wall_offset_s: how far its wall clock is from the right time.
    :ivar died_s: when it was killed; None: it was not.
    """

    def __init__(self, kernel: Kernel, name: str, pid: int) -> None:
        self.kernel = kernel
        self.name = name
        self.pid = pid
        self.alive = True
        self.frozen = False
        self.wall_offset_s = 0.0
        self.exit_status: int | None = None
        self.died_s: float | None = None
        #: Dies at the so many-th point from now; None: it does not.
        self.fuse: int | None = None
        self.at_exit: list[Callable[[], None]] = []
        #: The process that has started it, if one has.
        self.parent: Process | None = None
        #: The module that it runs, of one that a process has started.
        self.module = ""
        self._held: list[tuple[Task, int, bool]] = []
        self.random = random.Random(f"{kernel.seed} {name} {pid}")

    def hold(self, task: Task, turn: int, woken: bool) -> None:
        """Keep a task that would run for when the process thaws."""
        self._held.append((task, turn, woken))

    def freeze(self) -> None:
        """Stand still, as after SIGSTOP."""
        self.frozen = True

    def thaw(self) -> None:
        """Go on, as after SIGCONT."""
        self.frozen = False
        held, self._held = self._held, []
        for task, turn, woken in held:
            self.kernel.push(0.0, task, turn, woken)

    def kill(self, status: int = -9) -> None:
        """Die, as after SIGKILL, or end with a status."""
        if not self.alive:
            return
        self.alive = False
        self.exit_status = status
        if status:
            self.died_s = self.kernel.now_s
        self._held.clear()
        for callback in self.at_exit:
            callback()
        self.at_exit.clear()

    def __repr__(self) -> str:
        return f"<{self.name} {self.pid}>"


_push = heapq.heappush


def _nothing() -> None:
    """Nothing to do."""


class Task:
    """A thread of a process.

    :ivar turn: how often it has run: what would end an earlier wait comes too
        late.
    """

    __slots__ = (
        "body",
        "ended",
        "glet",
        "local",
        "name",
        "process",
        "turn",
        "waiters",
        "waits",
    )

    def __init__(self, process: Process, name: str) -> None:
        self.process = process
        self.name = name
        self.body: Callable[[], None] = _nothing
        self.ended = False
        self.turn = 0
        self.waits = True
        #: Tasks that wait for its end.
        self.waiters: list[Task] = []
        #: Values of thread-local variables.
        self.local: dict[int, dict[str, object]] = {}
        self.glet: greenlet.greenlet | None = None

    def __repr__(self) -> str:
        return f"<{self.process.name}: {self.name}>"


class Kernel:
    """Runs the tasks of all processes.

    :ivar now_s: seconds since the world began.
    :ivar current: the task that runs, None between tasks.
    """

    def __init__(self, seed: object) -> None:
        self.seed = seed
        self.random = random.Random(f"{seed} kernel")
        self._draw = self.random.random
        self.now_s = 0.0
        self.current: Task | None = None
        self.steps = 0
        self.failures: list[str] = []
        #: When, a draw, a number; a task, its turn and whether it is woken,
        #: or None, something that is to be called, and True.
        self._heap: list[
            tuple[float, float, int, Task, int, bool]
            | tuple[float, float, int, None, Callable[[], None], bool]
        ] = []
        self._next = itertools.count().__next__
        self._pids = itertools.count(100)
        self._hub = greenlet.getcurrent()
        self._leave = self._hub.switch
        #: Greenlets whose tasks have ended: another task may have them.
        self.free: list[greenlet.greenlet] = []
        # What a dead process was doing must never go on, not even its
        # finally clauses: as long as somebody has them, they do not.
        self._tasks: list[Task] = []

    # Processes and tasks.

    def process(self, name: str) -> Process:
        """Return a new process."""
        return Process(self, name, next(self._pids))

    def spawn(
        self, process: Process, name: str, body: Callable[[], None]
    ) -> Task:
        """Start a task.

        :param body: what it does; what it raises is a failure of the world.
        """
        task = Task(process, name)

        def run() -> None:
            try:
                body()
            except greenlet.GreenletExit:
                raise
            except BaseException as error:
                self.fail(f"{task} raised {error!r}", error)
            finally:
                self._end(task)

        task.body = run
        self._tasks.append(task)
        self.push(self._step_s(), task, 0, True)
        return task

    def greenlet(self) -> greenlet.greenlet:
        """Return one that waits for the body of a task."""
        if self.free:
            # To make one, and its stack, costs more than a short task.
            glet = self.free.pop()
            glet.gr_context = None
            return glet
        return greenlet.greenlet(self._serve, parent=self._hub)

    def _serve(self, body: Callable[[], None]) -> None:
        while True:
            body()
            body = self._hub.switch()

    def _end(self, task: Task) -> None:
        task.ended = True
        for waiter in task.waiters:
            self.unpark(waiter)
        task.waiters.clear()

    def fail(self, message: str, error: BaseException | None = None) -> None:
        """Note that something went wrong that must not."""
        if error is not None:
            message += "\n" + "".join(traceback.format_exception(error))
        self.failures.append(message)

    # What tasks do.

    def task(self) -> Task:
        """Return the task that runs.

        :raises Deadlock: if none does.
        """
        if self.current is None:
            raise Deadlock("something waits that is no task")
        return self.current

    def park(self, timeout_s: float | None = None) -> bool:
        """Wait until another task wakes this one.

        :param timeout_s: None for ever.
        :returns: False if the time is over instead.
        """
        task = self.current or self.task()
        task.waits = True
        if timeout_s is not None:
            at_s = self.now_s
            if timeout_s > 0.0:
                at_s += timeout_s
            # As push() does; most waits have a limit.
            one = at_s, self._draw(), self._next(), task, task.turn, False
            _push(self._heap, one)
        woken: bool = self._leave()
        return woken

    def unpark(self, task: Task) -> None:
        """Wake a task, if it waits."""
        if task.waits:
            self.push(self._step_s(), task, task.turn, True)
            task.waits = False

    def sleep(self, seconds: float) -> None:
        """Let time pass for this task."""
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            self.park(until_s - self.now_s)

    def point(self) -> None:
        """A place where this task may be interrupted, or its process die."""
        task = self.current
        if task is None:
            return
        process = task.process
        if process.fuse is not None:
            process.fuse -= 1
            if process.fuse <= 0:
                process.fuse = None
                process.kill()
                self.park()
        if self._draw() < _YIELD_SHARE:
            self.sleep(self._step_s())

    def at(self, delay_s: float, callback: Callable[[], None]) -> None:
        """Call something later, outside of all processes."""
        at_s = self.now_s + delay_s
        one = at_s, self._draw(), self._next(), None, callback, True
        _push(self._heap, one)

    def _step_s(self) -> float:
        draw = self._draw()
        if draw < _SLOW_STEP_SHARE:
            return SLOW_STEP_S * draw / _SLOW_STEP_SHARE
        return STEP_S * draw

    def push(self, delay_s: float, task: Task, turn: int, woken: bool) -> None:
        """Have a wait end."""
        at_s = self.now_s + delay_s
        one = at_s, self._draw(), self._next(), task, turn, woken
        _push(self._heap, one)

    # The world's own loop.

    def run(
        self,
        until: Callable[[], bool],
        limit_s: float,
    ) -> bool:
        """Let things happen.

        :param until: ends it, as a failure does.
        :param limit_s: ends it, too: so many seconds from now.
        :returns: whether ``until`` was reached.
        """
        end_s = self.now_s + limit_s
        heap, pop, failures = self._heap, heapq.heappop, self.failures
        while not until():
            if failures:
                return False
            if not heap:
                raise Deadlock("nothing is left to happen")
            if heap[0][0] > end_s:
                self.now_s = end_s
                return False
            at_s, _tie, _order, task, turn, woken = pop(heap)
            if task is None:
                if at_s > self.now_s:
                    self.now_s = at_s
                turn()
                continue
            if turn != task.turn:
                continue
            if at_s > self.now_s:
                self.now_s = at_s
            process = task.process
            if not process.alive:
                continue
            if process.frozen:
                process.hold(task, turn, woken)
                continue
            task.turn = turn + 1
            task.waits = False
            self.steps += 1
            if self.steps > MOST_STEPS:
                self.fail(f"no end after {MOST_STEPS} steps, in {task}")
            self.current = task
            glet = task.glet
            if glet is None:
                glet = task.glet = self.greenlet()
                glet.switch(task.body)
            else:
                glet.switch(woken)
            self.current = None
            if task.ended:
                self.free.append(glet)
                task.glet = None
        return True
