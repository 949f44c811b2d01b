# SPDX-License-Identifier: Apache-2.0

"""Threads whose failure stops a conductor."""

from __future__ import annotations

import threading
from collections.abc import Callable

from oslo_log import log as logging

LOG = logging.getLogger(__name__)


def start_later(
    name: str,
    target: Callable[[], None],
    on_failure: Callable[[str], None],
) -> threading.Thread:
    """Create a thread that reports its failure.

    A conductor whose pump or group commit has failed would accept requests
    without ever serving them, so a stand-by must take over.
    """

    def body() -> None:
        try:
            target()
        except Exception:
            LOG.exception("Thread %s failed", name)
            on_failure(name)

    return threading.Thread(target=body, name=name, daemon=True)


class Background:
    """A thread of the leader that repeats its work until it is stopped.

    :param stop_s: maximum time for which :meth:`stop` waits for the thread.
    """

    def __init__(
        self,
        name: str,
        on_failure: Callable[[str], None],
        stop_s: float = 1.0,
    ) -> None:
        self._stopping = threading.Event()
        self._stop_s = stop_s
        self._thread = start_later(name, self._run, on_failure)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread, ignoring the answer to a pending request."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(self._stop_s)

    def _run(self) -> None:
        raise NotImplementedError
