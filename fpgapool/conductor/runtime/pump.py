# SPDX-License-Identifier: Apache-2.0

"""The thread that owns the scheduling state."""

from __future__ import annotations

import collections
import concurrent.futures
import queue
import threading
import time
from collections.abc import Callable
from typing import NamedTuple
from typing import TypeVar

from oslo_log import log as logging

from fpgapool.common import clock
from fpgapool.conductor import counts as conductor_counts
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import engine
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions.views import questions
from fpgapool.conductor.runtime import persistence
from fpgapool.conductor.runtime import sender
from fpgapool.conductor.runtime import threads

LOG = logging.getLogger(__name__)

_Answer = TypeVar("_Answer")

_TICK_S = 0.5

# Maximum number of inputs in a batch; answers are sent after the whole batch.
_MAX_BATCH = 4096

#: The maximum share of the input queue that one project may use.
PROJECT_SHARE = 0.25

#: How many times longer the queue may be for agents' inputs than for clients',
#: whose requests depend on them.
_AGENTS_FACTOR = 2


class _Room:
    """Counts the waiting inputs; thread-safe."""

    def __init__(self, limit: int, counts: conductor_counts.Counts) -> None:
        self._limit = limit
        self._counts = counts
        self._project_limit = max(int(limit * PROJECT_SHARE), 1)
        self._lock = threading.Lock()
        self._total = 0
        self._by_project: collections.Counter[str] = collections.Counter()

    def take(self, project_id: str | None) -> bool:
        """Reserve room for an input; return whether there is any."""
        with self._lock:
            if not self._has_room(project_id):
                self._counts.inputs_dropped += 1
                return False
            self._total += 1
            if project_id is not None:
                self._by_project[project_id] += 1
            return True

    def _has_room(self, project_id: str | None) -> bool:
        if project_id is None:
            return self._total < self._limit * _AGENTS_FACTOR
        # Unlike an index, get() adds no entry.
        of_project = self._by_project.get(project_id, 0)
        return of_project < self._project_limit and self._total < self._limit

    def give_back(self, taken: collections.Counter[str | None]) -> None:
        """Release the room of inputs."""
        with self._lock:
            self._total -= taken.total()
            for project_id, count in taken.items():
                if project_id is None:
                    continue
                self._by_project[project_id] -= count
                if not self._by_project[project_id]:
                    # Names of projects must not accumulate.
                    del self._by_project[project_id]


class _Offered(NamedTuple):
    """An input for which room is reserved."""

    item: inputs.Input
    project_id: str | None


class Pump:
    """Passes inputs and time to the engine, and its effects on.

    :param engine_: the engine; only the pump's thread may use it after the
        start.
    """

    def __init__(
        self,
        engine_: engine.Engine,
        wall: clock.WallClock,
        *,
        committer: persistence.GroupCommitter,
        outbox: sender.Sender,
        on_failure: Callable[[str], None],
        counts: conductor_counts.Counts | None = None,
        max_inputs: int = 100_000,
    ) -> None:
        self._engine = engine_
        self._counts = counts or conductor_counts.Counts()
        self._clock = wall
        self._committer = committer
        self._outbox = outbox
        self._queue: queue.SimpleQueue[inputs.Input | _Offered | None] = (
            queue.SimpleQueue()
        )
        self._room = _Room(max_inputs, self._counts)
        self._thread = threads.start_later("pump", self._run, on_failure)

    def start(self) -> None:
        """Start the engine and the thread."""
        self._pass_on(self._engine.start(self._clock.now()))
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Handle the queued inputs and end."""
        self._queue.put(None)
        self._thread.join(timeout_s)

    def now(self) -> float:
        """Return the engine's wall-clock time."""
        return self._clock.now()

    def put(self, item: inputs.Input) -> None:
        """Queue an input from the conductor itself; no limit applies."""
        self._queue.put(item)

    def offer(self, item: inputs.Input, project_id: str | None = None) -> bool:
        """Queue an input from outside, if there is room.

        :param project_id: the client's project; None for agents and operators,
            which have more room.
        :returns: whether it was queued. If not, the sender must repeat it, or
            gets an error.
        """
        if not self._room.take(project_id):
            refused = self._counts.inputs_dropped
            if refused % 1000 == 1:
                LOG.warning(
                    "%d inputs dropped: the engine is too slow", refused
                )
            return False
        self._queue.put(_Offered(item, project_id))
        return True

    @property
    def database_failing(self) -> bool:
        """Whether the database is unavailable or does not answer."""
        return self._committer.failing

    @property
    def backlog(self) -> int:
        """The number of queued inputs."""
        return self._queue.qsize()

    def figures(self) -> dict[str, int]:
        """Return the pool in a few numbers; any thread may call this.

        They may not fit each other: the engine goes on meanwhile.
        """
        pool = self._engine.pool
        return {
            "inputs_waiting": self.backlog,
            "sessions_in_memory": len(pool.sessions.by_id),
            # The copy is atomic; the engine may change the original.
            "sessions_queued": sum(dict(pool.sessions.queued).values()),
            "slots": len(pool.registry.slots),
            "slots_held": len(pool.holds),
            "hosts": len(pool.registry.hosts),
            "groups": len(pool.groups.groups),
        }

    def ask(
        self,
        question: Callable[[questions.Questions], _Answer],
        timeout_s: float,
        *,
        durable: bool = True,
    ) -> _Answer:
        """Query the engine and wait for the answer.

        :raises TimeoutError: if there is no answer in time, as for all durable
            answers while the database is unavailable.
        """
        future = concurrent.futures.Future[_Answer]()
        self.put(inputs.Query(question, durable, future=future))
        try:
            return future.result(timeout_s)
        finally:
            future.cancel()

    def _run(self) -> None:
        next_tick_s = time.monotonic() + _TICK_S
        while True:
            batch, ended = self._next_batch(next_tick_s)
            self._update_database_state()
            self._pass_on(self._decide(batch))
            if ended:
                return
            if time.monotonic() >= next_tick_s:
                self._pass_on(self._engine.tick(self._clock.now()))
                next_tick_s = time.monotonic() + _TICK_S

    def _decide(self, batch: list[inputs.Input]) -> effects.Effects:
        started_s = time.perf_counter()
        wanted = self._engine.process(batch, self._clock.now())
        if batch:
            counts = self._counts
            counts.decisions_s.observe(time.perf_counter() - started_s)
            counts.batch_inputs.observe(len(batch))
        return wanted

    def _update_database_state(self) -> None:
        engine_, committer = self._engine, self._committer
        failing = committer.failing
        engine_.set_database_state(
            committer.give_up(engine_.pool.sessions.last_row_id)
            if failing
            else committer.recorded_id,
            failing=failing,
        )

    def _next_batch(self, until_s: float) -> tuple[list[inputs.Input], bool]:
        batch: list[inputs.Input] = []
        offered: collections.Counter[str | None] = collections.Counter()
        try:
            item = self._queue.get(timeout=self._patience_s(until_s))
            while item is not None:
                if isinstance(item, _Offered):
                    offered[item.project_id] += 1
                    item = item.item
                batch.append(item)
                if len(batch) >= _MAX_BATCH:
                    return batch, False
                item = self._queue.get_nowait()
        except queue.Empty:
            return batch, False
        finally:
            if offered:
                self._room.give_back(offered)
        return batch, True

    def _patience_s(self, until_s: float) -> float:
        patience_s = until_s - time.monotonic()
        wake_at = self._engine.pool.link.wake_at
        if wake_at is not None:
            patience_s = min(patience_s, wake_at - self._clock.now())
        return max(patience_s, 0.0)

    def _pass_on(self, wanted: effects.Effects) -> None:
        if wanted.changes or wanted.after_commit or wanted.withdrawn:
            self._committer.put(wanted)
        if wanted.at_once:
            self._outbox.deliver(wanted.at_once)
