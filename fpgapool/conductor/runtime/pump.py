# SPDX-License-Identifier: Apache-2.0

"""The one thread that owns the scheduling state."""

from __future__ import annotations

import collections
import concurrent.futures
import queue
import threading
import time
from collections.abc import Callable
from typing import Any
from typing import NamedTuple

from oslo_log import log as logging

from fpgapool.common import clock
from fpgapool.conductor import counts as conductor_counts
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import engine
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions import questions
from fpgapool.conductor.runtime import persistence
from fpgapool.conductor.runtime import sender
from fpgapool.conductor.runtime import threads
from fpgapool.objects import bitstream

LOG = logging.getLogger(__name__)

_TICK_S = 0.5

# A batch is one transaction and one answer time for all that is in it.
_MAX_BATCH = 4096

#: So much of the room for inputs a project may have.
PROJECT_SHARE = 0.25

#: What agents say may take so many times the room that clients have: without
#: it nothing that clients want would ever be done.
_AGENTS_FACTOR = 2


class _Room:
    """Counts the inputs that wait; any thread may use it.

    :param limit: how many of clients may wait.
    :param counts: to count in what had no room.
    """

    def __init__(self, limit: int, counts: conductor_counts.Counts) -> None:
        self._limit = limit
        self._counts = counts
        self._project_limit = max(int(limit * PROJECT_SHARE), 1)
        self._lock = threading.Lock()
        self._total = 0
        self._by_project: collections.Counter[str] = collections.Counter()

    def take(self, project_id: str | None) -> bool:
        """:returns: whether there was room."""
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
        # Not by its item: that would keep the name of whoever asks.
        of_project = self._by_project.get(project_id, 0)
        return of_project < self._project_limit and self._total < self._limit

    def give_back(self, taken: collections.Counter[str | None]) -> None:
        """Inputs wait no more, so many of each project."""
        with self._lock:
            self._total -= taken.total()
            for project_id, count in taken.items():
                if project_id is None:
                    continue
                self._by_project[project_id] -= count
                if not self._by_project[project_id]:
                    # Names of projects must not pile up either.
                    del self._by_project[project_id]


class _Offered(NamedTuple):
    """An input that takes room."""

    item: inputs.Input
    project_id: str | None


class Pump:
    """Feed the engine with inputs and time; pass on what it wants.

    :param brain: the engine; nobody else may touch it after the start.
    :param wall: the clock that never runs backwards.
    :param committer: takes rows, and the messages that wait for them.
    :param outbox: takes the messages that leave at once.
    :param on_failure: called if the thread ends by an error of its own.
    :param counts: to count decisions in.
    :param max_inputs: how many inputs of clients may wait.
    """

    def __init__(
        self,
        brain: engine.Engine,
        wall: clock.WallClock,
        *,
        committer: persistence.GroupCommitter,
        outbox: sender.Sender,
        on_failure: Callable[[str], None],
        counts: conductor_counts.Counts | None = None,
        max_inputs: int = 100_000,
    ) -> None:
        self._engine = brain
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
        """Take over what the database holds and start the thread."""
        self._pass_on(self._engine.start(self._clock.now()))
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Handle what is queued and end."""
        self._queue.put(None)
        self._thread.join(timeout_s)

    def now(self) -> float:
        """Return the time by which inputs are handled, since the epoch."""
        return self._clock.now()

    def put(self, item: inputs.Input) -> None:
        """Queue an input of the conductor's own; returns at once.

        Of these there are only as many as it makes.
        """
        self._queue.put(item)

    def offer(self, item: inputs.Input, project_id: str | None = None) -> bool:
        """Queue an input that has come from somewhere, if there is room.

        :param project_id: whose it is; None for what agents and operators
            say, which has more room.
        :returns: whether it was queued. What was not is lost: who sends it
            repeats it, or is told.
        """
        if not self._room.take(project_id):
            refused = self._counts.inputs_dropped
            if refused % 1000 == 1:
                LOG.warning(
                    "%d inputs dropped: decisions do not keep up", refused
                )
            return False
        self._queue.put(_Offered(item, project_id))
        return True

    @property
    def database_failing(self) -> bool:
        """Whether the database is away or does not answer."""
        return self._committer.failing

    @property
    def backlog(self) -> int:
        """How many inputs wait to be handled."""
        return self._queue.qsize()

    def ask(
        self,
        question: Callable[[questions.Questions], Any],
        timeout_s: float,
        *,
        durable: bool = True,
    ) -> Any:
        """Ask the engine something and wait for its answer.

        :param durable: not before what it rests on is.
        :raises TimeoutError: if the answer does not come in time, as a
            durable one while the database is away.
        """
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self.put(inputs.Query(question, future, durable))
        try:
            return future.result(timeout_s)
        finally:
            future.cancel()

    def change_bitstream(
        self, change: bitstream.BitstreamChange, timeout_s: float
    ) -> None:
        """Change the library, and wait until that is durable.

        :raises Rejected: if it cannot be.
        :raises TimeoutError: if it is not durable in time; it may still
            become so.
        """
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self.put(inputs.ChangeBitstream(change, future))
        try:
            refusal = future.result(timeout_s)
        finally:
            future.cancel()
        if refusal is not None:
            raise refusal

    def _run(self) -> None:
        next_tick_s = time.monotonic() + _TICK_S
        while True:
            batch, ended = self._take(next_tick_s)
            self._note_recorded()
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

    def _note_recorded(self) -> None:
        brain, committer = self._engine, self._committer
        failing = committer.failing
        brain.note_database(
            committer.give_up(brain.pool.last_row_id)
            if failing
            else committer.recorded_id,
            failing=failing,
        )

    def _take(self, until_s: float) -> tuple[list[inputs.Input], bool]:
        """:returns: a batch, and whether it is the last one."""
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
        if self._engine.wake_at is not None:
            wake_in_s = self._engine.wake_at - self._clock.now()
            patience_s = min(patience_s, wake_in_s)
        return max(patience_s, 0.0)

    def _pass_on(self, wanted: effects.Effects) -> None:
        if wanted.changes or wanted.after_commit or wanted.withdrawn:
            self._committer.put(wanted)
        if wanted.at_once:
            self._outbox.deliver(wanted.at_once)
