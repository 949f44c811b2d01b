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

"""The one thread that owns the scheduling state."""

from __future__ import annotations

import concurrent.futures
import queue
import time
from collections.abc import Callable
from typing import Any

from fpgapool.common import clock
from fpgapool.conductor import counts as conductor_counts
from fpgapool.conductor import effects
from fpgapool.conductor import engine
from fpgapool.conductor import inputs
from fpgapool.conductor import persistence
from fpgapool.conductor import sender
from fpgapool.conductor import threads
from fpgapool.objects import bitstream

_TICK_S = 0.5

# A batch is one transaction and one answer time for all that is in it.
_MAX_BATCH = 4096


class Pump:
    """Feed the engine with inputs and time; pass on what it wants.

    :param brain: the engine; nobody else may touch it after the start.
    :param wall: the clock that never runs backwards.
    :param committer: takes rows, and the messages that wait for them.
    :param outbox: takes the messages that leave at once.
    :param on_failure: called if the thread ends by an error of its own.
    :param counts: to count decisions in.
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
    ) -> None:
        self._engine = brain
        self._counts = counts or conductor_counts.Counts()
        self._clock = wall
        self._committer = committer
        self._outbox = outbox
        self._queue: queue.SimpleQueue[inputs.Input | None] = (
            queue.SimpleQueue()
        )
        self._thread = threads.start_later("pump", self._run, on_failure)

    def start(self) -> None:
        """Take over what the database holds and start the thread."""
        self._pass_on(self._engine.start(self._clock.now()))
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Handle what is queued and end."""
        self._queue.put(None)
        self._thread.join(timeout_s)

    def put(self, item: inputs.Input) -> None:
        """Queue an input; returns at once."""
        self._queue.put(item)

    @property
    def backlog(self) -> int:
        """How many inputs wait to be handled."""
        return self._queue.qsize()

    def ask(
        self,
        question: Callable[[engine.Engine], Any],
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
        brain.database_failing = committer.failing
        if brain.database_failing:
            brain.recorded_id = committer.give_up(brain.last_row_id)
        else:
            brain.recorded_id = committer.recorded_id

    def _take(self, until_s: float) -> tuple[list[inputs.Input], bool]:
        """:returns: a batch, and whether it is the last one."""
        batch: list[inputs.Input] = []
        try:
            item = self._queue.get(timeout=self._patience_s(until_s))
            while item is not None:
                batch.append(item)
                if len(batch) >= _MAX_BATCH:
                    return batch, False
                item = self._queue.get_nowait()
        except queue.Empty:
            return batch, False
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
