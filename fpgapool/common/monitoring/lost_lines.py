# SPDX-License-Identifier: Apache-2.0

"""Counts and reports log lines that a process could not write."""

from __future__ import annotations

import contextlib
import logging
import sys
import time

# Minimum interval between two reports about the same log.
INTERVAL_S = 60.0


def count() -> None:
    """Make the root logger's handlers count the lines that they cannot write.

    Otherwise, a handler would write a traceback to standard error for each
    line, or raise an error in the code that logged the line.
    """
    for handler in logging.getLogger().handlers:
        _Counted(handler)


class _Counted:
    """Counts the lines that a handler cannot write.

    It reports them at intervals: on standard error at once, and in the log
    when the log can be written again.
    """

    def __init__(self, handler: logging.Handler) -> None:
        self._handler = handler
        self._handle = handler.handle
        self._tell_of_bug = handler.handleError
        self._lost = 0
        # Only the text: a traceback keeps what the logging code used.
        self._cause = ""
        self._says_from_s = self._logs_from_s = time.monotonic()
        handler.handle = self.handle  # type: ignore[method-assign]
        handler.handleError = self.lose  # type: ignore[method-assign]

    def handle(self, record: logging.LogRecord) -> bool:
        """Log a line, and then how many lines were lost before it."""
        self._handler.acquire()
        try:
            before = self._lost
            handled = self._try(record)
            if handled and before and self._lost == before:
                self._log_lost()
            return handled
        finally:
            self._handler.release()

    def _try(self, record: logging.LogRecord) -> bool:
        try:
            return bool(self._handle(record))
        except RecursionError:
            raise
        except Exception:
            self.lose(record)
            return False

    def lose(self, record: logging.LogRecord) -> None:
        """Count a lost line; called while its error is being handled."""
        error = sys.exc_info()[1]
        self._lost += 1
        self._cause = str(error)
        now_s = time.monotonic()
        if now_s < self._says_from_s:
            return
        self._says_from_s = now_s + INTERVAL_S
        # Standard error may be closed.
        with contextlib.suppress(OSError, ValueError):
            if not isinstance(error, OSError):
                # A bug in the code that logged the line; the log is fine.
                self._tell_of_bug(record)
            elif sys.stderr is not None:
                sys.stderr.write(
                    f"Cannot write to the log {self._name()}:"
                    f" {error.strerror or error}; lines lost: {self._lost}\n"
                )
                sys.stderr.flush()

    def _name(self) -> str:
        stream = getattr(self._handler, "stream", None)
        name = getattr(self._handler, "baseFilename", None)
        return str(name or getattr(stream, "name", type(self._handler)))

    def _log_lost(self) -> None:
        now_s = time.monotonic()
        if now_s < self._logs_from_s:
            return
        self._logs_from_s = now_s + INTERVAL_S
        lost, self._lost = self._lost, 0
        values = {
            "name": __name__,
            "levelno": logging.WARNING,
            "levelname": "WARNING",
            "msg": "%d lines of this log were lost: %s",
            "args": (lost, self._cause),
        }
        self._try(logging.makeLogRecord(values))
