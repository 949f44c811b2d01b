# SPDX-License-Identifier: Apache-2.0

"""Entry point: ``python -m fpgapool.agent.worker SETTINGS``.

``SETTINGS`` is a JSON document, the path of one, or ``-`` for standard input.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import socket
import sys
import threading

from fpgapool.agent.worker import port
from fpgapool.agent.worker import service
from fpgapool.agent.worker import settings as worker_settings
from fpgapool.agent.worker import state
from fpgapool.drivers import base as drivers

LOG = logging.getLogger("fpgapool.agent.worker")

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_SLOT_TAKEN = 3


def main(arguments: list[str]) -> int:
    """Run a worker.

    :param arguments: of the command line, without the program's name.
    :returns: exit status: 0, 1 if the worker cannot run, 2 if its settings
        are wrong, 3 if another worker runs the slot.
    """
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m fpgapool.agent.worker SETTINGS\n")
        return EXIT_USAGE
    try:
        settings = worker_settings.parse(_read(arguments[0]))
    except (OSError, worker_settings.InvalidSettings) as exc:
        sys.stderr.write(f"{worker_settings.INVALID_SETTINGS}: {exc}\n")
        return EXIT_USAGE
    # Away from the agent's terminal and process group, whose signals are
    # not meant for workers.
    if os.getsid(0) != os.getpid():
        try:
            os.setsid()
        except PermissionError:
            LOG.debug("already the leader of a process group")
    os.umask(0o077)
    _set_up_log(settings)
    return _run(settings)


def _run(settings: worker_settings.Settings) -> int:
    try:
        worker = service.Worker(settings)
    except service.SlotTaken as exc:
        LOG.error("%s", exc)
        return EXIT_SLOT_TAKEN
    except (drivers.DriverError, port.PortUnavailable, OSError) as exc:
        LOG.error("worker cannot start: %s", exc)
        return EXIT_FAILURE
    _exit_on_signals(worker)
    worker.run()
    if worker.is_spent:
        # Libraries would wait for their threads.
        logging.shutdown()
        os._exit(0)
    return 0


def _exit_on_signals(worker: service.Worker) -> None:
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
                worker.post(state.Exit(f"signal {got[0]}"))

    threading.Thread(target=wait, name="signals", daemon=True).start()


def _read(argument: str) -> str:
    if argument == "-":
        return sys.stdin.read()
    if argument.lstrip().startswith("{"):
        return argument
    with open(argument, encoding="utf-8") as file:
        return file.read()


def _set_up_log(settings: worker_settings.Settings) -> None:
    stream, problem = sys.stderr, None
    if settings.log_file is not None:
        try:
            stream = open(settings.log_file, "a", encoding="utf-8")  # noqa: SIM115
        except OSError as exc:
            problem = exc
    # If a fatal signal ends the process, the log shows the current line.
    faulthandler.enable(stream, all_threads=False)
    logging.basicConfig(
        stream=stream,
        level=settings.log_level,
        format=(
            "%(asctime)s %(levelname)s %(name)s "
            f"[{settings.worker_id}] %(message)s"
        ),
    )
    if problem is not None:
        LOG.error("the log goes to standard error: %s", problem)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
