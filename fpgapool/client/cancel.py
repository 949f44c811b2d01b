# SPDX-License-Identifier: Apache-2.0

"""Cancel waits from another thread."""

from __future__ import annotations

import os
import threading
from typing import Protocol

from fpgapool.client import errors
from fpgapool.common.channels import waits

# How often to check a plain Event, which cannot call back.
_EVENT_POLL_S = 0.1


class Stoppable(Protocol):
    """An object that a token can stop, for example a channel."""

    def shutdown(self) -> None:
        """Wake all threads that wait on this object; thread-safe."""


class CancelToken:
    """Cancels requests from another thread or a signal handler.

    One token may serve several requests. :meth:`cancel` wakes every thread
    that is waiting for the pool on their behalf; these threads then raise
    :class:`errors.Cancelled`.
    """

    def __init__(self) -> None:
        # Reentrant, because a signal handler may cancel while it interrupts a
        # thread that holds the lock.
        self._lock = threading.RLock()
        self._event = threading.Event()
        # Attached channels, in order, with the process that attached them: a
        # forked child must not shut down its parent's channels.
        self._channels: dict[Stoppable, int] = {}

    def cancel(self) -> None:
        """Cancel; this cannot be undone."""
        with self._lock:
            self._event.set()
            channels = list(self._channels.items())
        for attached, pid in channels:
            if pid == os.getpid():
                attached.shutdown()

    @property
    def cancelled(self) -> bool:
        """Whether :meth:`cancel` was called."""
        return self._event.is_set()

    def check(self) -> None:
        """Raise :class:`errors.Cancelled` if cancelled."""
        if self._event.is_set():
            raise errors.Cancelled()

    def wait(self, timeout_s: float) -> None:
        """Sleep, unless cancelled.

        :raises errors.Cancelled: as soon as the token is cancelled.
        """
        if waits.for_event(self._event, timeout_s):
            raise errors.Cancelled()

    def attach(self, attached: Stoppable) -> None:
        """Shut a channel down when cancelled.

        :param attached: a channel or another object with waiting threads; its
            owner must detach it before closing it.
        :raises errors.Cancelled: if already cancelled.
        """
        with self._lock:
            self.check()
            self._channels[attached] = os.getpid()

    def detach(self, attached: Stoppable) -> None:
        """Undo :meth:`attach`."""
        with self._lock:
            self._channels.pop(attached, None)


class LinkedToken(CancelToken):
    """A token that can be attached to another one, which then cancels it."""

    def shutdown(self) -> None:
        """Cancel."""
        self.cancel()


class EventToken(CancelToken):
    """A token that follows a plain :class:`threading.Event`."""

    def __init__(self, event: threading.Event) -> None:
        super().__init__()
        self._source = event
        self._stopped = threading.Event()
        if event.is_set():
            self.cancel()
        else:
            threading.Thread(
                target=self._watch, name="fpgapool-cancel", daemon=True
            ).start()

    def stop(self) -> None:
        """Stop following the event."""
        self._stopped.set()

    def _watch(self) -> None:
        while not self._stopped.is_set():
            if self._source.wait(_EVENT_POLL_S):
                self.cancel()
                return


def token_of(cancel: threading.Event | CancelToken | None) -> CancelToken:
    """Return the token for a caller's argument.

    :raises errors.InvalidRequest: if the argument has the wrong type.
    """
    if cancel is None:
        return CancelToken()
    if isinstance(cancel, CancelToken):
        return cancel
    if isinstance(cancel, threading.Event):
        return EventToken(cancel)
    raise errors.invalid("cancel must be a CancelToken or an Event")


def release(token: CancelToken) -> None:
    """Stop the thread that :func:`token_of` may have started."""
    if isinstance(token, EventToken):
        token.stop()
