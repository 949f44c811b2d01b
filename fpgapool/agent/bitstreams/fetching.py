# SPDX-License-Identifier: Apache-2.0

"""Fetches bitstreams' files to this host without blocking the loop."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable

from fpgapool import objects
from fpgapool.agent import sender
from fpgapool.agent.bitstreams import cache as caches


@dataclasses.dataclass(eq=False)
class Fetcher:
    """Calls the cache in other threads; used only in the loop's thread.

    A request for a file that is already being fetched joins that fetch. A
    request's time limit starts with the request, not when a thread becomes
    free, because the client that requested the slot has a deadline, too.
    """

    caller: sender.Caller
    cache: caches.BitstreamCache

    def __post_init__(self) -> None:
        # By checksum: the waiting requests, in the order of their deadlines.
        self._waiting: dict[str, list[_Waiting]] = {}

    def fetch(
        self,
        bitstream: objects.BitstreamRef,
        on_ready: Callable[[str], None],
        on_failed: Callable[[str], None],
        *,
        again: bool = False,
    ) -> None:
        """Make a file available on this host.

        :param on_ready: called in the loop's thread with the file's path; if
            the file is cached, before this method returns.
        :param on_failed: called in the loop's thread with the reason.
        """
        waiting = _Waiting(
            on_ready, on_failed, time.monotonic() + self.cache.timeout_s
        )
        others = self._waiting.get(bitstream.checksum_sha256)
        if others is not None:
            others.append(waiting)
            return
        path = None if again else self.cache.peek(bitstream)
        if path is not None:
            on_ready(path)
            return
        self._waiting[bitstream.checksum_sha256] = [waiting]
        self._submit(bitstream, again)

    def _submit(self, bitstream: objects.BitstreamRef, again: bool) -> None:
        waiting = self._waiting[bitstream.checksum_sha256]
        first_s, last_s = waiting[0].deadline_s, waiting[-1].deadline_s
        # The limit applies even while no thread is free. Requests that join
        # later have later deadlines.
        self.caller.submit(
            functools.partial(self.cache.get, bitstream, again, last_s),
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
        """Fail requests whose deadlines have passed; retry for the others."""
        waiting = self._waiting.pop(bitstream.checksum_sha256)
        message = str(error) or type(error).__name__
        left: list[_Waiting] = []
        if isinstance(error, TimeoutError):
            message = (
                f"the file was not fetched within {self.cache.timeout_s:g} s"
            )
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
    """A request that waits for a file."""

    on_ready: Callable[[str], None]
    on_failed: Callable[[str], None]
    deadline_s: float
