# SPDX-License-Identifier: Apache-2.0

"""Notifications of OpenStack: tell the bus what has changed in the pool."""

from __future__ import annotations

import queue
import threading
from collections.abc import Collection
from typing import Any

import oslo_messaging as messaging
from oslo_config import cfg
from oslo_log import log as logging

from fpgapool.conductor import counts as conductor_counts
from fpgapool.conductor.decisions import journal
from fpgapool.db import api as db_api
from fpgapool.objects import notification

LOG = logging.getLogger(__name__)

BINARY = "fpgapool-conductor"
_STOP_S = 5.0


def make(
    conf: cfg.ConfigOpts, counts: conductor_counts.Counts
) -> Publisher | None:
    """Return what sends notifications; None if the operator wants none.

    Nothing is connected before the first one.

    :param conf: the global configuration.
    :param counts: to count in.
    """
    # This registers the options, too.
    transport = messaging.get_notification_transport(conf)
    if not any(conf.oslo_messaging_notifications.driver):
        transport.cleanup()
        return None
    notifier = messaging.Notifier(
        transport, publisher_id=f"{BINARY}:{conf.conductor.name}"
    )
    return Publisher(
        notifier, counts, conf.notifications.max_queued, transport.cleanup
    )


class Publisher:
    """A thread that sends, so that nobody waits for the bus.

    Where the bus is away or slow, events wait in order; when too many do,
    new ones are dropped and counted.

    :param notifier: of oslo.messaging.
    :param counts: to count in.
    :param max_queued: how many events may wait.
    :param cleanup: called at the end.
    """

    def __init__(
        self,
        notifier: Any,
        counts: conductor_counts.Counts,
        max_queued: int,
        cleanup: Any = lambda: None,
    ) -> None:
        self._notifier = notifier
        self._counts = counts
        self._cleanup = cleanup
        self._queue: queue.Queue[journal.Event | None] = queue.Queue(
            max_queued
        )
        # One that waits for the bus for ever does not keep the process.
        self._thread = threading.Thread(
            target=self._run, name="notifications", daemon=True
        )

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout_s: float = _STOP_S) -> None:
        """Send what is queued and end; gives up after ``timeout_s``."""
        try:
            self._queue.put(None, timeout=timeout_s)
        except queue.Full:
            return
        self._thread.join(timeout_s)
        if not self._thread.is_alive():
            self._cleanup()

    def note(
        self,
        book: journal.Journal,
        changes: db_api.Changes,
        withdrawn: Collection[int],
    ) -> None:
        """Have it told what has been written; returns at once.

        :param book: knows what was told before.
        :param changes: rows that are durable.
        :param withdrawn: ids of sessions that were not recorded.
        """
        try:
            events = book.events(changes, withdrawn)
        except Exception:
            # The pool matters more than who looks at it.
            LOG.exception("Changes that nobody is notified of")
            return
        for event in events:
            try:
                self._queue.put_nowait(event)
            except queue.Full:
                self._counts.notifications_dropped += 1
                if self._counts.notifications_dropped % 1000 == 1:
                    LOG.warning(
                        "%d notifications dropped: the bus does not keep up",
                        self._counts.notifications_dropped,
                    )

    def _run(self) -> None:
        while (event := self._queue.get()) is not None:
            try:
                self._send(event)
            except Exception as error:
                self._counts.notifications_failed += 1
                LOG.warning(
                    "The notification %s was not sent: %s", event.type, error
                )

    def _send(self, event: journal.Event) -> None:
        notifier = self._notifier
        tell = notifier.error if event.is_error else notifier.info
        tell({}, event.type, notification.to_notification(event.payload))
        self._counts.notifications_sent += 1
