# SPDX-License-Identifier: Apache-2.0

"""Signals that end a command, so that it cleans up before."""

from __future__ import annotations

import collections.abc
import contextlib
import signal
import typing

#: What people, terminals, batch systems and limits end a process with. SIGQUIT
#: is among them, so nobody gets a core dump from it; SIGABRT dumps one.
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
    """Have these signals raise KeyboardInterrupt in the main thread.

    Those that are ignored stay so: the command runs in the background, or by
    ``nohup``.
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
