# SPDX-License-Identifier: Apache-2.0

"""Entry point: ``python -m fpgapool.agent.groupdesk SETTINGS``.

``SETTINGS`` is a JSON document, the path of one, or ``-`` for standard input.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import sys
import threading

from fpgapool.agent.groupdesk import service
from fpgapool.agent.groupdesk import settings as desk_settings
from fpgapool.agent.worker import port as data_ports
from fpgapool.agent.worker import settings as worker_settings

LOG = logging.getLogger("fpgapool.agent.groupdesk")

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_DESK_TAKEN = 3


def main(arguments: list[str]) -> int:
    """Run a desk.

    :param arguments: of the command line, without the program's name.
    :returns: exit status: 0, 1 if the desk cannot run, 2 if its settings
        are wrong, 3 if another process is this desk.
    """
    if len(arguments) != 1:
        sys.stderr.write(
            "usage: python -m fpgapool.agent.groupdesk SETTINGS\n"
        )
        return EXIT_USAGE
    try:
        settings = desk_settings.parse(_read(arguments[0]))
    except (OSError, worker_settings.InvalidSettings) as exc:
        sys.stderr.write(f"{worker_settings.INVALID_SETTINGS}: {exc}\n")
        return EXIT_USAGE
    # Away from the agent's terminal and process group, whose signals are not
    # meant for desks.
    if os.getsid(0) != os.getpid():
        try:
            os.setsid()
        except PermissionError:
            LOG.debug("already the leader of a process group")
    os.umask(0o077)
    _set_up_log(settings)
    # Before any thread is started, so that all of them leave it to this one.
    numbers = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        desk = service.Desk(settings)
    except service.DeskTaken as exc:
        LOG.error("%s", exc)
        return EXIT_DESK_TAKEN
    except (data_ports.PortUnavailable, OSError) as exc:
        LOG.error("the desk cannot start: %s", exc)
        return EXIT_FAILURE
    threading.Thread(
        target=lambda: desk.exit(f"signal {signal.sigwait(numbers)}"),
        name="signals",
        daemon=True,
    ).start()
    desk.run()
    return 0


def _read(argument: str) -> str:
    if argument == "-":
        return sys.stdin.read()
    if argument.lstrip().startswith("{"):
        return argument
    with open(argument, encoding="utf-8") as file:
        return file.read()


def _set_up_log(settings: desk_settings.Settings) -> None:
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
            f"[{settings.group_id}] %(message)s"
        ),
    )
    if problem is not None:
        LOG.error("the log goes to standard error: %s", problem)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
