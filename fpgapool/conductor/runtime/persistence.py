# SPDX-License-Identifier: Apache-2.0

"""The group-commit thread: one transaction for all queued batches."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Sequence

from oslo_log import log as logging

from fpgapool.common import exception
from fpgapool.conductor import counts as conductor_counts
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.runtime import batching
from fpgapool.conductor.runtime import threads
from fpgapool.db import api as db_api

LOG = logging.getLogger(__name__)

_RETRY_FIRST_S = 0.2
_RETRY_MAX_S = 2.0

# Above this number, the batches that wait for the database are merged into one
# with the newest value of each row, which bounds the number of rows.
MAX_WAITING_BATCHES = 1000


Notify = Callable[[db_api.Changes, Collection[int]], None]


class GroupCommitter:
    """Writes batches of changes in the order of their arrival.

    While the database is unavailable, rows stay in memory. They contain
    absolute values, so a repeated write is harmless. During a long outage only
    the newest value of each row is kept, and notifications of intermediate
    values are lost.

    When a session gets a slot immediately, all its states until the slot is
    ready form one transaction: no client is waiting for the earlier ones.

    A session is announced once it is recorded. If it cannot be recorded,
    because its request id was already used or the database is unavailable, the
    engine withdraws it, and it is neither written nor announced.

    :param on_unrecorded: called for each session that was not recorded because
        its request id was already used.
    :param on_deposed: called if another conductor has taken the lease.
    :param notify: called with durable rows, and with the row ids of sessions
        that were not recorded; None: no notifications.
    """

    def __init__(
        self,
        database: db_api.Database,
        epoch: int,
        *,
        deliver: Callable[[Sequence[effects.Message]], None],
        on_unrecorded: Callable[[inputs.Unrecorded], None],
        on_deposed: Callable[[], None],
        on_failure: Callable[[str], None],
        notify: Notify | None = None,
        counts: conductor_counts.Counts | None = None,
    ) -> None:
        self._notify = notify
        self._counts = counts or conductor_counts.Counts()
        self._database = database
        self._epoch = epoch
        self._deliver = deliver
        self._on_unrecorded = on_unrecorded
        self._on_deposed = on_deposed
        self._queue: queue.SimpleQueue[effects.Effects | None] = (
            queue.SimpleQueue()
        )
        # The ids of sessions to be neither written nor announced, by row id.
        self._withdrawn: dict[int, str] = {}
        self._lock = threading.Lock()
        self._recorded_id = 0
        self._given_up_id = 0
        self._stopping = threading.Event()
        self._failing = threading.Event()
        self._thread = threads.start_later(
            "group-commit", self._run, on_failure
        )

    @property
    def failing(self) -> bool:
        """Whether the database is unavailable."""
        return self._failing.is_set() or self._database.failing

    @property
    def backlog(self) -> int:
        """The number of batches that are waiting to be committed."""
        return self._queue.qsize()

    def give_up(self, last_id: int) -> int:
        """Withdraw the new sessions up to a row id that are not recorded yet.

        :returns: the row id of the last recorded session.
        """
        with self._lock:
            self._given_up_id = max(last_id, self._given_up_id)
            return self._recorded_id

    @property
    def recorded_id(self) -> int:
        """The row id of the last recorded session."""
        with self._lock:
            return self._recorded_id

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Write the queued batches and end; gives up after ``timeout_s``."""
        self._queue.put(None)
        self._thread.join(timeout_s)
        self._stopping.set()

    def put(self, batch: effects.Effects) -> None:
        """Queue a batch; returns immediately."""
        self._queue.put(batch)

    def _run(self) -> None:
        ended = False
        while not ended and not self._stopping.is_set():
            batches, ended = batching.gather(
                self._queue, effects.Effects.can_wait
            )
            if batches and not self._write(batches):
                return

    def _write(self, batches: Sequence[effects.Effects]) -> bool:
        delay_s = _RETRY_FIRST_S
        while not self._stopping.is_set():
            try:
                self._commit(batches)
            except exception.NotLeader:
                LOG.error(
                    "Another conductor leads: epoch %d has ended, and its"
                    " remaining changes are discarded",
                    self._epoch,
                )
                self._on_deposed()
                return False
            except exception.DatabaseUnavailable as error:
                self._counts.commit_failures += 1
                if not self._failing.is_set():
                    LOG.error(
                        "The database is unavailable, so writes are delayed:"
                        " %s",
                        error,
                    )
                self._failing.set()
                self._stopping.wait(delay_s)
                batches = self._merged(batches)
                delay_s = min(delay_s * 2, _RETRY_MAX_S)
            else:
                if self._failing.is_set():
                    LOG.info("The database is available again")
                self._failing.clear()
                self._announce(batches)
                return True
        return False

    def _merged(
        self, batches: Sequence[effects.Effects]
    ) -> Sequence[effects.Effects]:
        if len(batches) + self._queue.qsize() <= MAX_WAITING_BATCHES:
            return batches
        waiting = list(batches)
        # Batches that arrive meanwhile are merged by the next call.
        for _ in range(self._queue.qsize()):
            batch = self._queue.get_nowait()
            if batch is None:
                # The end marker must stay in the queue.
                self._queue.put(None)
                break
            waiting.append(batch)
        return [effects.Effects.merged(waiting)]

    def _commit(self, batches: Sequence[effects.Effects]) -> None:
        with self._lock:
            self._withdraw_given_up(batches)
        withdrawn = {id_ for batch in batches for id_ in batch.withdrawn}
        withdrawn.update(self._withdrawn)
        changes = db_api.Changes.merged(batch.changes for batch in batches)
        if not changes and not withdrawn:
            return
        new = {
            admission.row_id: admission
            for batch in batches
            for admission in batch.admissions
            if admission.row_id not in withdrawn
        }
        started_s = time.perf_counter()
        holders = self._database.commit(
            self._epoch, changes, admitted=new, withdrawn=withdrawn
        )
        self._counts.commits_s.observe(time.perf_counter() - started_s)
        self._counts.commit_rows += changes.row_count
        if holders:
            self._undo_taken(new.values(), holders)

    def _undo_taken(
        self,
        admissions: Iterable[effects.NewSession],
        holders: Iterable[db_api.SessionRecord],
    ) -> None:
        """Let the engine withdraw sessions whose request ids are used."""
        by_name = {(one.project_id, one.request_id): one for one in holders}
        for admission in admissions:
            request = admission.request
            holder = by_name.get((request.project_id, request.request_id))
            if holder is not None:
                self._withdrawn[admission.row_id] = admission.session_id
                self._on_unrecorded(inputs.Unrecorded(admission, holder))

    def _announce(self, batches: Sequence[effects.Effects]) -> None:
        with self._lock:
            # The engine may have withdrawn sessions during the commit.
            self._withdraw_given_up(batches)
            for batch in batches:
                for admission in batch.admissions:
                    self._recorded_id = admission.row_id
        unknown = set(self._withdrawn.values())
        messages = effects.newest(
            message
            for batch in batches
            for message in batch.after_commit
            if not isinstance(
                message, effects.PublishSession | effects.SessionChanged
            )
            or message.view.session_id not in unknown
        )
        if messages:
            self._deliver(messages)
        if self._notify is not None:
            for batch in batches:
                self._notify(batch.changes, self._withdrawn)
        for batch in batches:
            for row_id in batch.withdrawn:
                self._withdrawn.pop(row_id, None)

    def _withdraw_given_up(self, batches: Sequence[effects.Effects]) -> None:
        for batch in batches:
            for admission in batch.admissions:
                if admission.row_id <= self._given_up_id:
                    self._withdrawn[admission.row_id] = admission.session_id
