# SPDX-License-Identifier: Apache-2.0

"""The fork server: the parent of an agent's workers and desks.

It does beforehand what they have in common, and forks one whenever the agent
asks, so that they share memory and start fast. It opens no board, knows no
session, and has no threads, because a fork has only one.

``multiprocessing`` has a fork server, too. But a process can have only one of
them, even if it has several agents; its children keep descriptors of it; and
it gives no pidfds.

Its only argument is a JSON object: for each module, the arguments of the
function ``warm_up`` of its ``__main__``. Standard input is a socket of the
type ``SOCK_SEQPACKET`` to the agent, whose end ends the server. Each message
is JSON. The server says ``{"ready": true}`` first. To ``[MODULE, SETTINGS]``
it answers ``{"pid": PID}``, with the child's pidfd, or ``{"pid": null,
"error": …}``. When a child has ended, it says ``{"ended": PID, "status": …}``,
with the number of a signal as a negative status.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import typing
from collections.abc import Mapping

MODULE = "fpgapool.agent.child.forkserver"

#: Room on the command line for the settings of a child.
_ROOM_BYTES = 8192

_REQUEST_BYTES = 256 * 1024
_CONTROL_FD = 0
_FIRST_OTHER_FD = 3


def argument(modules: Mapping[str, Mapping[str, object]]) -> str:
    """Return the argument of a server.

    :param modules: for each module to fork, the arguments of its ``warm_up``.
    """
    return json.dumps(modules).ljust(_ROOM_BYTES)


def main() -> int:
    """Run the server or, in a fork, a child; return its exit status."""
    before = _open_files()
    for module, arguments in json.loads(sys.argv[1]).items():
        _main_of(module).warm_up(**arguments)
        if len(os.listdir("/proc/self/task")) > 1 or _open_files() != before:
            # Code that has them must not be forked.
            sys.stderr.write(f"{module} starts threads or opens files early\n")
            return 1
    _show_arguments([*sys.orig_argv[:-1], sys.orig_argv[-1].rstrip()])
    # The collector must not write to what children share.
    gc.collect()
    gc.freeze()
    child = _serve()
    if child is None:
        return 0
    _set_up(*child)
    status: int = _main_of(child[0]).main()
    return status


def _main_of(module: str) -> typing.Any:
    return importlib.import_module(f"{module}.__main__")


def _serve() -> tuple[str, str] | None:
    """Serve the agent until it ends.

    :returns: in a child, its module and its settings; None in the server.
    """
    agent = socket.socket(fileno=_CONTROL_FD)
    children: dict[int, int] = {}
    poller = select.poll()
    poller.register(agent, select.POLLIN)
    _tell(agent, {"ready": True})
    while True:
        for fd, _ in poller.poll():
            if fd in children:
                poller.unregister(fd)
                os.close(fd)
                _, status = os.waitpid(pid := children.pop(fd), 0)
                code = os.waitstatus_to_exitcode(status)
                _tell(agent, {"ended": pid, "status": code})
                continue
            try:
                request = agent.recv(_REQUEST_BYTES)
            except ConnectionResetError:
                # It has ended without reading all messages.
                request = b""
            if not request:
                return None
            try:
                pid = os.fork()
            except OSError as exc:
                _tell(agent, {"pid": None, "error": str(exc)})
                continue
            if pid == 0:
                agent.detach()
                module, settings = json.loads(request)
                return module, settings
            try:
                pidfd = os.pidfd_open(pid)
            except OSError as exc:
                # Without a pidfd, nobody would notice its end.
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                _tell(agent, {"pid": None, "error": str(exc)})
                continue
            children[pidfd] = pid
            poller.register(pidfd, select.POLLIN)
            _tell(agent, {"pid": pid}, pidfd)


def _tell(agent: socket.socket, message: dict[str, object], *fds: int) -> None:
    # If the agent has ended, the next read shows that.
    with contextlib.suppress(BrokenPipeError):
        socket.send_fds(agent, [json.dumps(message).encode()], fds)


def _set_up(module: str, settings: str) -> None:
    """Make a fork a process of its own.

    Its entry point leaves the server's session and sets the umask. ``random``
    and OpenSSL seed themselves anew after a fork.
    """
    os.closerange(_FIRST_OTHER_FD, max(_open_files()) + 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, _CONTROL_FD)
    os.close(nothing)
    sys.argv[1:] = [settings]
    # The command line of the same process without a fork server.
    sys.orig_argv[-2:] = [module, settings]
    _show_arguments(sys.orig_argv)


def _show_arguments(arguments: list[str]) -> None:
    """Replace the command line that other processes see, as room permits."""
    start, end = _arguments_place()
    text = b"\0".join(map(os.fsencode, arguments))[: end - start - 1]
    # A sandbox may forbid it. Then only who looks for the process misses it.
    with contextlib.suppress(OSError):
        memory = os.open("/proc/self/mem", os.O_WRONLY)
        os.pwrite(memory, text.ljust(end - start, b"\0"), start)
        os.close(memory)


@functools.cache
def _arguments_place() -> tuple[int, int]:
    """Return where the kernel finds the command line; see proc(5)."""
    with open("/proc/self/stat", encoding="utf-8") as file:
        fields = file.read().rpartition(")")[2].split()
    return int(fields[45]), int(fields[46])


def _open_files() -> set[int]:
    return set(map(int, os.listdir("/proc/self/fd")))


if __name__ == "__main__":
    sys.exit(main())
