# SPDX-License-Identifier: Apache-2.0

"""How workers and desks start.

Their only argument is a JSON document with the settings, the document's path,
or ``-`` for standard input. The exit status is 0, or 1 if the process cannot
start, 2 if its settings are invalid, or 3 if another process does its work.
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

from fpgapool.agent.child import memory
from fpgapool.agent.child import room as rooms
from fpgapool.agent.child import settings as child_settings
from fpgapool.common.monitoring import lost_lines
from fpgapool.vocabulary import codes

LOG = logging.getLogger(__name__)

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_TAKEN = 3


class Taken(Exception):
    """Another process already does this one's work."""


class Service(typing.Protocol):
    """What a process does."""

    @property
    def room(self) -> rooms.Room: ...
    def run(self) -> None: ...
    def exit(self, reason: str) -> None: ...


_S = typing.TypeVar("_S", bound=child_settings.ChildSettings)


def main(
    module: str, parse: Callable[[str], _S], work: Callable[[_S], int]
) -> int:
    """Read the settings, detach from the agent, open the log, and run."""
    arguments = sys.argv[1:]
    if len(arguments) != 1:
        sys.stderr.write(f"usage: python -m {module} SETTINGS\n")
        return EXIT_USAGE
    try:
        settings = parse(_read(arguments[0]))
    except (OSError, child_settings.InvalidSettings) as exc:
        sys.stderr.write(f"{codes.INVALID_SETTINGS}: {exc}\n")
        return EXIT_USAGE
    # From here on, memory is charged to this process.
    try:
        memory.limit(settings.cgroup, settings.memory_bytes)
    except OSError as exc:
        sys.stderr.write(f"cannot enter {settings.cgroup}: {exc}\n")
        return EXIT_FAILURE
    # Leave the agent's terminal and process group: the signals sent to them
    # are not meant for this process.
    if os.getsid(0) != os.getpid():
        try:
            os.setsid()
        except PermissionError:
            LOG.debug("already the leader of a process group")
    # It asks the agent for a report; supervisors may send it to all processes.
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    os.umask(0o077)
    _set_up_log(settings)
    return work(settings)


def run(
    make: Callable[[_S], Service], failure: type[Exception], settings: _S
) -> int:
    """Run a service until it ends, and the process with it.

    :returns: the exit status, if it cannot start.
    :param failure: errors besides OSError that keep it from starting.
    """
    try:
        service = make(settings)
        rooms.enter(service.room, settings)
    except Taken as exc:
        LOG.error("%s", exc)
        return EXIT_TAKEN
    except (failure, OSError) as exc:
        LOG.error("%s cannot start: %s", settings.log_name, exc)
        return EXIT_FAILURE
    exit_on_signals(service.exit)
    service.run()
    # A normal exit takes as long as a whole start, for which the slot's next
    # client waits, and would not end threads that drivers' libraries leave.
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        # None: the file was closed when the process started.
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.flush()
    os._exit(0)


def _read(argument: str) -> str:
    if argument == "-":
        return sys.stdin.read()
    if argument.lstrip().startswith("{"):
        return argument
    with open(argument, encoding="utf-8") as file:
        return file.read()


class _Request(logging.Filter):
    """Adds the ID of the request that the process serves to log lines."""

    request_id = ""

    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = self.request_id or "-"
        return True


#: Its ``request_id`` is shown in all log lines of this process.
REQUEST = _Request()


def _set_up_log(settings: child_settings.ChildSettings) -> None:
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
    # If a fatal signal ends the process, the log shows its Python stack.
    faulthandler.enable(stream, all_threads=False)
    logging.basicConfig(
        stream=stream,
        level=settings.log_level,
        format=(
            "%(asctime)s %(levelname)s %(name)s "
            f"[{settings.log_name} %(request_id)s] %(message)s"
        ),
    )
    for handler in logging.getLogger().handlers:
        handler.addFilter(REQUEST)
    lost_lines.count()
    if problem is not None:
        LOG.error(
            "cannot open the log file, logging to standard error: %s", problem
        )


def lock(path: str) -> int:
    """Take a lock that lasts until the process ends.

    :returns: a descriptor, which must stay open.
    :raises Taken: if another process has the lock.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        os.close(fd)
        raise Taken(f"another process has locked {path}") from exc
    return fd


def claim(control_socket: str, *other_sockets: str) -> int:
    """Create the sockets' directories and take the lock for the sockets."""
    for path in (control_socket, *other_sockets):
        os.makedirs(os.path.dirname(path) or ".", 0o700, exist_ok=True)
    return lock(f"{control_socket}.lock")


def exit_on_signals(end: Callable[[str], None]) -> None:
    """Make SIGTERM and SIGINT end the process in an orderly way.

    :param end: called with the reason, in a separate thread.
    """
    # Python runs handlers only in the main thread, which does not wake if the
    # kernel delivers the signal to another thread. But any thread immediately
    # writes the signal's number to this socket.
    numbers, waker = socket.socketpair()
    waker.setblocking(False)
    signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _got, _frame: None)

    def wait() -> None:
        # Both ends stay open until the process ends.
        with numbers, waker:
            while got := numbers.recv(1):
                end(f"signal {got[0]}")

    threading.Thread(target=wait, name="signals", daemon=True).start()


def accept_forever(selector: selectors.BaseSelector) -> None:
    """Serve all sockets that are ready, until the process ends."""
    with contextlib.suppress(OSError, ValueError):
        while True:
            for key, _ in selector.select():
                key.data(typing.cast(socket.socket, key.fileobj))
