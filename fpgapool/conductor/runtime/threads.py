# SPDX-License-Identifier: Apache-2.0

"""Threads whose failure ends a conductor."""

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
    """Make a thread that reports its failure.

    A conductor whose pump or group commit has failed would accept requests and
    never serve them, so a stand-by has to replace it.

    :param name: shown in the log and given to ``on_failure``.
    :param on_failure: called with ``name`` if ``target`` raises.
    :returns: the thread, not yet started.
    """

    def body() -> None:
        try:
            target()
        except Exception:
            LOG.exception("The thread %s has failed", name)
            on_failure(name)

    return threading.Thread(target=body, name=name, daemon=True)
