# SPDX-License-Identifier: Apache-2.0

"""Limits on the number of requests that projects have in progress."""

from __future__ import annotations

import collections
import contextlib
import threading
from collections.abc import Iterator

from fpgapool.api.http import errors


class Crowd:
    """A number of places for requests, shared by projects; thread-safe.

    :param what: name of the requests, for error messages.
    :param code: error code if there is no free place.
    :param each: the number of places per project.
    :param total: the total number of places; None: unlimited.
    """

    def __init__(
        self, what: str, code: str, each: int, total: int | None = None
    ) -> None:
        self._what = what
        self._code = code
        self._each = each
        self._total = total
        self._lock = threading.Lock()
        # The places in use, by project; projects without any are removed.
        self._taken: collections.Counter[str] = collections.Counter()

    @contextlib.contextmanager
    def place(self, project_id: str) -> Iterator[None]:
        """Hold a place while the context lasts.

        :raises ApiError: if no place is free.
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
                raise self._refusal(" from this project")
            if self._total is not None and self._taken.total() >= self._total:
                raise self._refusal("")
            self._taken[project_id] += 1

    def _refusal(self, whose: str) -> errors.ApiError:
        return errors.ApiError(
            self._code, f"too many {self._what}{whose}; try again later"
        )
