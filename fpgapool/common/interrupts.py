# SPDX-License-Identifier: Apache-2.0

"""Lets a command clean up before a signal ends it."""

from __future__ import annotations

import collections.abc
import contextlib
import signal
import typing

#: Signals with which users, terminals, batch systems and resource limits end a
#: process. They include SIGQUIT, which therefore does not dump core; use
#: SIGABRT for that.
SIGNALS = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGXCPU,
)


def _interrupt(_number: int, _frame: object) -> typing.NoReturn:
    raise KeyboardInterrupt


@contextlib.contextmanager
def interruptible(
    handler: collections.abc.Callable[[int, typing.Any], object] = _interrupt,
) -> collections.abc.Iterator[None]:
    """Make these signals raise KeyboardInterrupt in the main thread.

    Signals that are ignored stay ignored: the command may run in the
    background or under ``nohup``.
    """
    previous = {
        number: signal.getsignal(number) or signal.SIG_DFL
        for number in SIGNALS
    }
    try:
        for number, before in previous.items():
            if before is not signal.SIG_IGN:
                signal.signal(number, handler)
        yield
    finally:
        for number, before in previous.items():
            signal.signal(number, before)
