# SPDX-License-Identifier: Apache-2.0

"""Threads that have begun since a moment, and have not ended."""

from __future__ import annotations

import threading


class NewThreads:
    """Those since it was made.

    To count all would be chance: those of earlier tests may end meanwhile.
    """

    def __init__(self) -> None:
        self._known = set(threading.enumerate())

    def count(self) -> int:
        """:returns: how many there are now."""
        return len(set(threading.enumerate()) - self._known)
