# SPDX-License-Identifier: Apache-2.0

"""Limits of the requests of one project that are under way."""

from __future__ import annotations

import collections
import contextlib
import threading
from collections.abc import Iterator


class TooMany(Exception):
    """There is no free place.

    :ivar own: whether the project itself has too many.
    """

    def __init__(self, own: bool) -> None:
        super().__init__(own)
        self.own = own


class Crowd:
    """Places that projects share; thread-safe.

    :param each: the number of places per project.
    :param total: the total number of places; None: unlimited.
    """

    def __init__(self, each: int, total: int | None = None) -> None:
        self._each = each
        self._total = total
        self._lock = threading.Lock()
        # Only projects with a place.
        self._taken: collections.Counter[str] = collections.Counter()

    @contextlib.contextmanager
    def place(self, project_id: str) -> Iterator[None]:
        """Hold a place while the context lasts.

        :raises TooMany: if there is none.
        """
        self._take(project_id)
        try:
            yield
        finally:
            with self._lock:
                self._taken[project_id] -= 1
                if not self._taken[project_id]:
                    del self._taken[project_id]

    def _take(self, project_id: str) -> None:
        with self._lock:
            if self._taken.get(project_id, 0) >= self._each:
                raise TooMany(True)
            if self._total is not None and self._taken.total() >= self._total:
                raise TooMany(False)
            self._taken[project_id] += 1
