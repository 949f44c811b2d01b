# SPDX-License-Identifier: Apache-2.0

"""Messages from an agent to the conductor, sent outside the loop's thread.

Sending blocks while the broker is unreachable. One thread sends all casts and
a few threads make all calls. The queues are bounded: when they are full,
messages are dropped or refused. Projects take turns, so no project waits for
all requests of another.
"""

from __future__ import annotations

import collections
import contextlib
import queue
import threading
import typing
from collections.abc import Callable
from collections.abc import Hashable
from collections.abc import Mapping

from oslo_log import log as logging

from fpgapool.agent import lanes
from fpgapool.agent import loop as agent_loop

LOG = logging.getLogger(__name__)

T = typing.TypeVar("T")

MAX_WAITING_CASTS = 20000
#: Maximum number of casts in one message.
MAX_TOGETHER = 100
CALL_THREADS = 2
#: Threads for calls that open sessions; a call returns once these are
#: recorded.
OPENING_THREADS = 8
MAX_WAITING_CALLS = 64


class Sender:
    """One thread that sends casts. A newer cast replaces a queued one with the
    same key. Casts that are queued while others are being sent go out
    together.

    :param together: returns a context that combines casts into one message.
    :param on_failure: called in the sending thread with the key of each cast
        that could not be sent.
    """

    def __init__(
        self,
        name: str,
        together: Callable[[], contextlib.AbstractContextManager[None]],
        on_failure: Callable[[Hashable], None],
    ) -> None:
        self._together = together
        self._on_failure = on_failure
        self._condition = threading.Condition()
        self._urgent: collections.OrderedDict[
            Hashable, Callable[[], object]
        ] = collections.OrderedDict()
        self._waiting: lanes.Lanes[Callable[[], object]] = lanes.Lanes(
            MAX_WAITING_CASTS
        )
        self._stopping = False
        self._failing = False
        #: Number of casts that were dropped because too many were waiting.
        self.dropped = 0
        self._thread = threading.Thread(
            target=self._run, name=name, daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Send the waiting casts, then end the thread.

        :param timeout_s: maximum time to wait; casts that remain then are
            lost.
        """
        with self._condition:
            self._stopping = True
            self._condition.notify()
        self._thread.join(timeout_s)
        with self._condition:
            self._urgent.clear()
            self._waiting.clear()

    def put(
        self,
        key: Hashable,
        cast: Callable[[], object],
        *,
        lane: Hashable = None,
    ) -> None:
        """Send a cast soon.

        :param key: the cast's subject. The cast replaces a waiting one with
            the same key and lane.
        :param lane: the lane in which the cast waits; lanes take turns.
        """
        with self._condition:
            if self._waiting.put(lane, key, cast) is not None:
                self.dropped += 1
            self._condition.notify()

    def put_first(self, key: Hashable, cast: Callable[[], object]) -> None:
        """Send one of the agent's own casts before all that are waiting. They
        are never dropped; there is at most one per slot, and the report.
        """
        with self._condition:
            self._urgent[key] = cast
            self._urgent.move_to_end(key, last=False)
            self._condition.notify()

    def _run(self) -> None:
        while True:
            with self._condition:
                while not (self._urgent or self._waiting or self._stopping):
                    self._condition.wait()
                if not (self._urgent or self._waiting):
                    return
                batch = self._take()
            self._send(batch)

    def _take(self) -> dict[Hashable, Callable[[], object]]:
        batch: dict[Hashable, Callable[[], object]] = {}
        while len(batch) < MAX_TOGETHER and (self._urgent or self._waiting):
            key, cast = (
                self._urgent.popitem(last=False)
                if self._urgent
                else self._waiting.pop()
            )
            batch[key] = cast
        return batch

    def _send(self, batch: Mapping[Hashable, Callable[[], object]]) -> None:
        try:
            with self._together():
                for cast in batch.values():
                    cast()
        except Exception as error:
            # Log only once per outage. Whoever queued the casts repeats them.
            if not self._failing:
                LOG.warning("Cannot reach the conductor: %s", error)
            self._failing = True
            for key in batch:
                self._on_failure(key)
            return
        if self._failing:
            LOG.info("The conductor is reachable again")
        self._failing = False


class _Work(typing.NamedTuple):
    call: Callable[[], None]
    on_error: Callable[[Exception], None]


class Caller:
    """A few threads for blocking calls to the conductor and to drivers."""

    def __init__(
        self, loop: agent_loop.Loop, name: str, threads: int = CALL_THREADS
    ) -> None:
        self._loop = loop
        self._condition = threading.Condition()
        self._waiting: lanes.Lanes[_Work] = lanes.Lanes(MAX_WAITING_CALLS)
        self._stopping = False
        self._threads = [
            threading.Thread(
                target=self._run, name=f"{name}-{number}", daemon=True
            )
            for number in range(threads)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self, timeout_s: float) -> None:
        """End the threads; later answers are dropped."""
        with self._condition:
            self._stopping = True
            self._condition.notify_all()
        for thread in self._threads:
            thread.join(timeout_s)

    def submit(
        self,
        call: Callable[[], T],
        on_result: Callable[[T], None],
        on_error: Callable[[Exception], None],
        *,
        limit_s: float | None = None,
        lane: Hashable = None,
    ) -> None:
        """Make a call in one of the threads; the loop handles its outcome.

        :param on_error: called with the exception, which is queue.Full if too
            many calls are waiting and this call's lane is the longest.
        :param limit_s: time after which the outcome is a TimeoutError and a
            later result is dropped, because a frozen broker blocks callers;
            None for no limit. With a limit, only the loop's thread may call
            this.
        """
        if limit_s is not None:
            on_result, on_error = self._limited(on_result, on_error, limit_s)

        def work() -> None:
            try:
                result = call()
            except Exception as error:
                failure = error
                self._loop.call(lambda: on_error(failure))
            else:
                self._loop.call(lambda: on_result(result))

        with self._condition:
            left_out = self._waiting.put(lane, object(), _Work(work, on_error))
            self._condition.notify()
        if left_out is not None:
            self._loop.call(lambda: left_out.on_error(queue.Full()))

    def _limited(
        self,
        on_result: Callable[[T], None],
        on_error: Callable[[Exception], None],
        limit_s: float,
    ) -> tuple[Callable[[T], None], Callable[[Exception], None]]:
        """Limit two callbacks in time; only the first call has an effect."""
        over = False

        def once(
            callback: Callable[[typing.Any], None], value: object
        ) -> None:
            nonlocal over
            if not over:
                over = True
                timer.cancel()
                callback(value)

        late = TimeoutError(f"no answer within {limit_s:g} s")
        timer = self._loop.call_later(limit_s, lambda: once(on_error, late))
        return (
            lambda result: once(on_result, result),
            lambda error: once(on_error, error),
        )

    def _run(self) -> None:
        while True:
            with self._condition:
                while not self._waiting and not self._stopping:
                    self._condition.wait()
                if self._stopping:
                    return
                _key, work = self._waiting.pop()
            work.call()
