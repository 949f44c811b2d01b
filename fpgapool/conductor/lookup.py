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

"""Requests that come, and what the database knows of their names."""

from __future__ import annotations

import queue
from collections.abc import Callable
from collections.abc import Sequence

from oslo_log import log as logging

from fpgapool import objects
from fpgapool.common import exception
from fpgapool.conductor import inputs
from fpgapool.conductor import threads
from fpgapool.db import api as db_api
from fpgapool.objects import states

LOG = logging.getLogger(__name__)

# So many are found in a small part of the time after which the database
# would count as failing.
_MAX_BATCH = 500


class Lookup:
    """One thread that asks for all requests that have come meanwhile.

    The engine remembers what is alive and what ended lately. A name that was
    used before that must not be used again either, which the database knows.
    A crowd of handlers that each asked by itself would spend most of its time
    on connections and on waiting for each other.

    :param database: knows the names of all requests.
    :param put: takes the requests, with what they became.
    :param on_failure: called if the thread ends by an error of its own.
    """

    def __init__(
        self,
        database: db_api.Database,
        put: Callable[[inputs.Input], None],
        on_failure: Callable[[str], None],
    ) -> None:
        self._database = database
        self._put = put
        self._queue: queue.SimpleQueue[objects.OpenRequest | None] = (
            queue.SimpleQueue()
        )
        self._thread = threads.start_later("lookup", self._run, on_failure)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Look up what is queued and end; gives up after ``timeout_s``."""
        self._queue.put(None)
        self._thread.join(timeout_s)

    def open(self, request: objects.OpenRequest) -> None:
        """Queue a request; returns at once."""
        if self._database.failing:
            # It need not wait for an answer that does not come.
            self._put(inputs.Open(request, database_failing=True))
        else:
            self._queue.put(request)

    def _run(self) -> None:
        ended = False
        while not ended:
            batch, ended = self._take()
            for found in self._look_up(batch):
                self._put(found)

    def _take(self) -> tuple[list[objects.OpenRequest], bool]:
        item = self._queue.get()
        batch: list[objects.OpenRequest] = []
        while item is not None:
            batch.append(item)
            if len(batch) >= _MAX_BATCH:
                return batch, False
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return batch, False
        return batch, True

    def _look_up(
        self, batch: Sequence[objects.OpenRequest]
    ) -> list[inputs.Open]:
        names = [(one.project_id, one.request_id) for one in batch]
        try:
            records = self._database.find_sessions(names)
        except exception.DatabaseError as error:
            LOG.warning("%d requests not looked up: %s", len(batch), error)
            return [inputs.Open(one, database_failing=True) for one in batch]
        ended = {
            (record.project_id, record.request_id): record
            for record in records
            if record.state in states.TERMINAL
        }
        return [
            inputs.Open(one, ended=ended.get(name))
            for one, name in zip(batch, names, strict=True)
        ]
