# SPDX-License-Identifier: Apache-2.0

"""Sends OpenStack notifications of changes in the pool."""

from __future__ import annotations

import queue
import threading
from collections.abc import Collection
from typing import Any

import oslo_messaging as messaging
from oslo_config import cfg
from oslo_log import log as logging

from fpgapool.conductor import counts as conductor_counts
from fpgapool.conductor.decisions.views import journal
from fpgapool.db import api as db_api
from fpgapool.objects import notification

LOG = logging.getLogger(__name__)

BINARY = "fpgapool-conductor"
_STOP_S = 5.0


def make(
    conf: cfg.ConfigOpts, counts: conductor_counts.Counts
) -> Publisher | None:
    """Return the publisher; None if notifications are disabled.

    It connects when it sends the first notification.
    """
    # This also registers the options.
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
    """Sends notifications in its own thread, so that no other thread waits.

    Notifications are queued while the bus is unavailable or slow. When the
    queue is full, new ones are dropped and counted.
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
        # A daemon thread: waiting for the bus must not block the exit.
        self._thread = threading.Thread(
            target=self._run, name="notifications", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float = _STOP_S) -> None:
        """Send the queued notifications and end, within ``timeout_s``."""
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
        """Queue the notifications of committed rows; returns immediately."""
        try:
            events = book.events(changes, withdrawn)
        except Exception:
            # A failure here must not affect the pool.
            LOG.exception("Notifications were lost")
            return
        for event in events:
            try:
                self._queue.put_nowait(event)
            except queue.Full:
                self._counts.notifications_dropped += 1
                if self._counts.notifications_dropped % 1000 == 1:
                    LOG.warning(
                        "%d notifications dropped: the bus is too slow",
                        self._counts.notifications_dropped,
                    )

    def _run(self) -> None:
        while (event := self._queue.get()) is not None:
            try:
                self._send(event)
            except Exception as error:
                self._counts.notifications_failed += 1
                LOG.warning(
                    "Cannot send notification %s: %s", event.type, error
                )

    def _send(self, event: journal.Event) -> None:
        notifier = self._notifier
        emit = notifier.error if event.is_error else notifier.info
        emit({}, event.type, notification.to_notification(event.payload))
        self._counts.notifications_sent += 1
