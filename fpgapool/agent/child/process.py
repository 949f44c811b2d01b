# SPDX-License-Identifier: Apache-2.0

"""What all processes do that an agent starts: workers and desks.

Their one argument is a JSON document with settings, the path of one, or ``-``
for standard input.
"""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import logging
import os
import selectors
import signal
import socket
import sys
import threading
import typing
from collections.abc import Callable

from fpgapool.agent.worker import settings as worker_settings
from fpgapool.common.monitoring import lost_lines

LOG = logging.getLogger(__name__)

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_TAKEN = 3


class Taken(Exception):
    """Another process does the work of this one."""


class Settings(typing.Protocol):
    """The settings of a log.

    :ivar log_file: its path; None for standard error.
    :ivar log_level: name of the lowest level that is logged.
    :ivar log_name: names this process in each line.
    """

    @property
    def log_file(self) -> str | None: ...
    @property
    def log_level(self) -> str: ...
    @property
    def log_name(self) -> str: ...


_S = typing.TypeVar("_S", bound=Settings)


def main(
    module: str,
    arguments: list[str],
    parse: Callable[[str], _S],
    run: Callable[[_S], int],
) -> int:
    """Run a process: read its settings, leave its agent, and begin a log.

    :param module: its name, for the usage message.
    :param arguments: of the command line, without the program's name.
    :param parse: makes settings of a document.
    :param run: does the work and returns the exit status.
    :returns: the exit status; 2 if the settings are wrong.
    """
    if len(arguments) != 1:
        sys.stderr.write(f"usage: python -m {module} SETTINGS\n")
        return EXIT_USAGE
    try:
        settings = parse(_read(arguments[0]))
    except (OSError, worker_settings.InvalidSettings) as exc:
        sys.stderr.write(f"{worker_settings.INVALID_SETTINGS}: {exc}\n")
        return EXIT_USAGE
    # Away from the agent's terminal and process group, whose signals are not
    # meant for this process.
    if os.getsid(0) != os.getpid():
        try:
            os.setsid()
        except PermissionError:
            LOG.debug("already the leader of a process group")
    os.umask(0o077)
    _set_up_log(settings)
    return run(settings)


def _read(argument: str) -> str:
    if argument == "-":
        return sys.stdin.read()
    if argument.lstrip().startswith("{"):
        return argument
    with open(argument, encoding="utf-8") as file:
        return file.read()


def _set_up_log(settings: Settings) -> None:
    stream, problem = sys.stderr, None
    if settings.log_file is not None:
        try:
            stream = open(  # noqa: SIM115
                settings.log_file,
                "a",
                encoding="utf-8",
                errors="backslashreplace",
            )
        except OSError as exc:
            problem = exc
    # If a fatal signal ends the process, the log shows the current line.
    faulthandler.enable(stream, all_threads=False)
    logging.basicConfig(
        stream=stream,
        level=settings.log_level,
        format=(
            "%(asctime)s %(levelname)s %(name)s "
            f"[{settings.log_name}] %(message)s"
        ),
    )
    lost_lines.count()
    if problem is not None:
        LOG.error("the log goes to standard error: %s", problem)


def lock(path: str) -> int:
    """Be the only process with this lock, to the end of the process.

    :param path: of the lock's file.
    :returns: a descriptor, which has to stay open.
    :raises Taken: if another process has the lock.
    :raises OSError: if the file cannot be made.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        os.close(fd)
        raise Taken(f"another process holds {path}") from exc
    return fd


def exit_on_signals(end: Callable[[str], None]) -> None:
    """Let signals end the process in its own way.

    :param end: takes the reason, in a thread of its own.
    """
    # The kernel may give a signal to a thread other than the main one, which
    # runs Python's handlers and would sleep on. Any thread writes the number
    # to this socket at once.
    numbers, waker = socket.socketpair()
    waker.setblocking(False)
    signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _got, _frame: None)

    def wait() -> None:
        # The other end lives as long as the process.
        with numbers, waker:
            while got := numbers.recv(1):
                end(f"signal {got[0]}")

    threading.Thread(target=wait, name="signals", daemon=True).start()


def accept_forever(selector: selectors.BaseSelector) -> None:
    """Call the data of all sockets that are ready, with the socket.

    It ends with the process: closed listeners only stop being ready.
    """
    with contextlib.suppress(OSError, ValueError):
        while True:
            for key, _ in selector.select():
                key.data(typing.cast(socket.socket, key.fileobj))
