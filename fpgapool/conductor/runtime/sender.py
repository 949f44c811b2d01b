# SPDX-License-Identifier: Apache-2.0

"""The threads that send the engine's messages to agents and to the REST API,
in order.
"""

from __future__ import annotations

import concurrent.futures
import queue
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

import oslo_messaging as messaging
from oslo_log import log as logging

from fpgapool import objects
from fpgapool.conductor import counts as conductor_counts
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.runtime import batching
from fpgapool.conductor.runtime import threads
from fpgapool.rpcapi import agent as agent_rpcapi
from fpgapool.rpcapi import api as api_rpcapi

LOG = logging.getLogger(__name__)

# Limits the use of memory while the broker is unavailable.
_MAX_QUEUED = 100_000


class Sender:
    """Sends casts in its own thread, and resolves answers.

    A cast that cannot be sent is logged and dropped: the agent's next report
    shows that the order was not carried out, and it is sent again. The REST
    API also looks for changes itself, if less often.
    """

    def __init__(
        self,
        agents: agent_rpcapi.AgentAPI,
        apis: api_rpcapi.ApiAPI,
        epoch: int,
        *,
        name: str,
        on_failure: Callable[[str], None],
        counts: conductor_counts.Counts | None = None,
    ) -> None:
        self._name = name
        self._counts = counts or conductor_counts.Counts()
        self._agents = agents
        self._apis = apis
        self._epoch = epoch
        self._dropped = 0
        # Twice as fast as a bounded Queue.
        self._queue: queue.SimpleQueue[effects.Message | None] = (
            queue.SimpleQueue()
        )
        self._thread = threads.start_later(name, self._run, on_failure)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Send the queued messages and end; gives up after ``timeout_s``."""
        self._queue.put(None)
        self._thread.join(timeout_s)

    def deliver(self, messages: Iterable[effects.Message]) -> None:
        """Queue messages; resolve answers immediately."""
        for message in messages:
            if _is_answered(message):
                continue
            if self._queue.qsize() < _MAX_QUEUED:
                self._queue.put(message)
                continue
            self._dropped += 1
            self._counts.dropped[self._name] += 1
            if self._dropped % 1000 == 1:
                LOG.warning(
                    "%d messages dropped: the broker is too slow",
                    self._dropped,
                )

    def _run(self) -> None:
        while True:
            batch, ended = batching.gather(self._queue, effects.can_wait)
            for tell in (self._tell_agents, self._tell_apis):
                try:
                    tell(batch)
                except messaging.MessagingException as error:
                    LOG.warning("Messages were lost: %s", error)
            if ended:
                return

    def _tell_agents(self, batch: Sequence[effects.Message]) -> None:
        with self._agents.together():
            for host_uuid, views in _views_by_host(batch).items():
                self._agents.session_changed(host_uuid, self._epoch, views)
            for message in batch:
                self._send(message)

    def _tell_apis(self, batch: Sequence[effects.Message]) -> None:
        views = [
            message.view
            for message in batch
            if isinstance(message, effects.SessionChanged)
        ]
        most = api_rpcapi.MAX_CHANGES
        for first in range(0, len(views), most):
            self._apis.sessions_changed(views[first : first + most])

    def _send(self, message: effects.Message) -> None:
        agents, epoch = self._agents, self._epoch
        match message:
            case effects.AssignSlot(request):
                agents.assign(request.host_uuid, epoch, request)
            case effects.TestSlot(request):
                agents.self_test(request.host_uuid, epoch, request)
            case effects.ReleaseSlot():
                agents.release(
                    message.host_uuid,
                    epoch,
                    message.device,
                    message.slot,
                    message.session_id,
                    message.generation,
                    message.reason,
                )
            case effects.KeepGroup(host_uuid, order):
                agents.keep_group(host_uuid, epoch, order)
            case effects.ReissueSecret():
                agents.reissue_secret(
                    message.host_uuid,
                    epoch,
                    message.device,
                    message.slot,
                    message.generation,
                )
            case effects.AskReport(host_uuid):
                agents.report_now(host_uuid, epoch)


def _is_answered(message: effects.Message) -> bool:
    """Resolve a message's answers; return whether nothing has to be sent."""
    match message:
        case effects.Reply(future, value, failed):
            _answer(future, value, failed=failed)
            return True
        case effects.PublishSession(host_uuid, view, waiting):
            answered = [_answer(future, view) for future in waiting]
            return host_uuid is None or any(answered)
    return False


def _answer(
    future: concurrent.futures.Future[Any], value: Any, *, failed: bool = False
) -> bool:
    # The future of a caller that gave up is cancelled.
    if future.done() or not future.set_running_or_notify_cancel():
        return False
    if failed:
        future.set_exception(value)
    else:
        future.set_result(value)
    return True


def _views_by_host(
    batch: Sequence[effects.Message],
) -> dict[str, list[objects.SessionView]]:
    """Return the newest view of each session, by front door."""
    by_host: dict[str, list[objects.SessionView]] = {}
    for message in effects.newest(batch):
        if isinstance(message, effects.PublishSession) and message.host_uuid:
            by_host.setdefault(message.host_uuid, []).append(message.view)
    return by_host
