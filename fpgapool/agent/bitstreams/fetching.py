# SPDX-License-Identifier: Apache-2.0

"""Fetching of bitstreams' files to this host, without blocking the loop."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable

from fpgapool import objects
from fpgapool.agent import sender
from fpgapool.agent.bitstreams import cache as caches


class Fetcher:
    """Calls the cache in other threads; only the loop's thread uses this.

    A request for a file that is already being fetched waits for that fetch.
    The time limit of each request begins when it is made, not when a thread
    is free: the caller that asked for the slot has a deadline, too.

    :param caller: has the threads.
    :param cache: has the files.
    """

    def __init__(self, caller: sender.Caller, cache: caches.Cache) -> None:
        self._caller = caller
        self._cache = cache
        # The requests waiting for each checksum, in the order of deadlines.
        self._waiting: dict[str, list[_Waiting]] = {}

    def fetch(
        self,
        bitstream: objects.BitstreamRef,
        on_ready: Callable[[str], None],
        on_failed: Callable[[str], None],
        *,
        again: bool = False,
    ) -> None:
        """Make sure that a file is here.

        :param bitstream: the bitstream.
        :param on_ready: called in the loop's thread, with the file's path; if
            the file is here, before this method returns …
        :param on_failed: … or this, with the error.
        :param again: the file that is here is damaged.
        """
        waiting = _Waiting(
            on_ready, on_failed, time.monotonic() + self._cache.timeout_s
        )
        others = self._waiting.get(bitstream.checksum_sha256)
        if others is not None:
            others.append(waiting)
            return
        path = None if again else self._cache.peek(bitstream)
        if path is not None:
            on_ready(path)
            return
        self._waiting[bitstream.checksum_sha256] = [waiting]
        self._submit(bitstream, again)

    def _submit(self, bitstream: objects.BitstreamRef, again: bool) -> None:
        waiting = self._waiting[bitstream.checksum_sha256]
        first_s, last_s = waiting[0].deadline_s, waiting[-1].deadline_s
        # The limit answers in time if no thread does. Requests that join
        # later are not due earlier.
        self._caller.submit(
            functools.partial(self._cache.get, bitstream, again, last_s),
            functools.partial(self._ready, bitstream.checksum_sha256),
            functools.partial(self._failed, bitstream, again, last_s),
            limit_s=first_s - time.monotonic(),
        )

    def _ready(self, checksum: str, path: str) -> None:
        for waiting in self._waiting.pop(checksum):
            waiting.on_ready(path)

    def _failed(
        self,
        bitstream: objects.BitstreamRef,
        again: bool,
        until_s: float,
        error: Exception,
    ) -> None:
        """Fail the requests whose time is over; retry for the others."""
        waiting = self._waiting.pop(bitstream.checksum_sha256)
        message = str(error) or type(error).__name__
        left: list[_Waiting] = []
        if isinstance(error, TimeoutError):
            message = f"it was not here within {self._cache.timeout_s:g} s"
            over_s = max(time.monotonic(), waiting[0].deadline_s)
            left = [one for one in waiting if one.deadline_s > over_s]
        elif isinstance(error, caches.Late):
            left = [one for one in waiting if one.deadline_s > until_s]
        if left:
            self._waiting[bitstream.checksum_sha256] = left
            self._submit(bitstream, again)
        for one in waiting[: len(waiting) - len(left)]:
            one.on_failed(message)


@dataclasses.dataclass(frozen=True, slots=True)
class _Waiting:
    """A request that waits for a file.

    :ivar deadline_s: its deadline, monotonic clock.
    """

    on_ready: Callable[[str], None]
    on_failed: Callable[[str], None]
    deadline_s: float
