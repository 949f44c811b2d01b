# SPDX-License-Identifier: Apache-2.0

"""Signals that end a command, so that it cleans up before."""

from __future__ import annotations

import collections.abc
import contextlib
import signal
import typing

#: Signals by which people, terminals, batch systems and limits end a process.
#: They include SIGQUIT, which therefore dumps no core; SIGABRT does.
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
    """Let these signals raise KeyboardInterrupt in the main thread.

    Ignored signals stay ignored: the command runs in the background, or by
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
