# SPDX-License-Identifier: Apache-2.0

"""Waiting for what other processes do."""

from __future__ import annotations

import threading
import time
import typing
from collections.abc import Callable

#: How long anything is awaited. Only what hangs takes so long, on any machine.
LIMIT_S = 100.0
#: How long a command that computes may take.
COMMAND_LIMIT_S = 300.0

_POLL_INTERVAL_S = 0.05
_T = typing.TypeVar("_T")


def wait_until(
    check: Callable[[], _T],
    what: str | Callable[[], str],
    limit_s: float = LIMIT_S,
) -> _T:
    """Ask until the answer is true; nothing tells when it becomes so.

    :param check: the question; it may raise OSError meanwhile.
    :param what: what is waited for, or a function that also says how things
        stand.
    :param limit_s: how long; generous, since it costs time only where
        something is wrong.
    :raises AssertionError: if there is none in time.
    """
    deadline_s = time.monotonic() + limit_s
    while True:
        try:
            answer = check()
            problem = ""
        except OSError as error:
            answer, problem = None, f" ({error})"
        if answer:
            return answer
        if time.monotonic() > deadline_s:
            text = what if isinstance(what, str) else what()
            raise AssertionError(
                f"not within {limit_s:.0f} s: {text}{problem}"
            )
        threading.Event().wait(_POLL_INTERVAL_S)


def pause(time_s: float) -> None:
    """Let time pass, where its length is what a test is about."""
    threading.Event().wait(time_s)
