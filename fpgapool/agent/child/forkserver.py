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

A module whose ``__main__`` has a function ``prepare`` has a *spare*: a child
that was forked while there was nothing else to do, has called ``prepare`` with
the arguments of ``warm_up``, and waits for the settings of the next process.
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

#: A spare is forked after this time without a request, in ms, so that those
#: who wait for a process do not wait for the spare, too.
_QUIET_MS = 50


def argument(modules: Mapping[str, Mapping[str, object]]) -> str:
    """Return the argument of a server.

    :param modules: for each module to fork, the arguments of its ``warm_up``.
    """
    return json.dumps(modules).ljust(_ROOM_BYTES)


def main() -> int:
    """Run the server or, in a fork, a child; return its exit status."""
    # It is meant for the agent, and may be sent to all processes of its unit.
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    before = _open_files()
    modules = json.loads(sys.argv[1])
    for module, arguments in modules.items():
        _main_of(module).warm_up(**arguments)
        if len(os.listdir("/proc/self/task")) > 1 or _open_files() != before:
            # Code that has them must not be forked.
            sys.stderr.write(f"{module} starts threads or opens files early\n")
            return 1
    _show_arguments([*sys.orig_argv[:-1], sys.orig_argv[-1].rstrip()])
    # The collector must not write to what children share.
    gc.collect()
    gc.freeze()
    child = _Server(modules).serve()
    if child is None:
        return 0
    _set_up(*child)
    status: int = _main_of(child[0]).main()
    return status


def _main_of(module: str) -> typing.Any:
    return importlib.import_module(f"{module}.__main__")


class _Spare(typing.NamedTuple):
    """A child that waits for its settings."""

    pid: int
    pidfd: int
    sock: socket.socket


class _Server:
    """Forks processes for the agent.

    :param modules: for each module, the arguments of its ``warm_up``.
    """

    def __init__(self, modules: Mapping[str, Mapping[str, object]]) -> None:
        self._agent = socket.socket(fileno=_CONTROL_FD)
        self._modules = modules
        # Process numbers by pidfd.
        self._children: dict[int, int] = {}
        self._poller = select.poll()
        self._poller.register(self._agent, select.POLLIN)
        self._spare: _Spare | None = None
        #: The module that has a spare; empty until a process has started, also
        #: after a spare that has failed.
        self._spared = ""

    def serve(self) -> tuple[str, str] | None:
        """Serve the agent until it ends.

        :returns: in a child, its module and its settings; None in the server,
            and in a spare that is not needed any more.
        """
        self._tell({"ready": True})
        while True:
            wants_spare = self._spared and self._spare is None
            events = self._poller.poll(_QUIET_MS if wants_spare else None)
            if not events and self._fork_spare():
                return self._await_settings()
            for fd, _ in events:
                if fd in self._children:
                    self._reap(fd)
                    continue
                try:
                    request = self._agent.recv(_REQUEST_BYTES)
                except ConnectionResetError:
                    # It has ended without reading all messages.
                    request = b""
                if not request:
                    return None
                module, settings = json.loads(request)
                if self._start(module, settings):
                    if self._spare is not None:
                        self._spare.sock.detach()
                    _close_others()
                    return module, settings

    def _reap(self, pidfd: int) -> None:
        self._poller.unregister(pidfd)
        os.close(pidfd)
        _, status = os.waitpid(pid := self._children.pop(pidfd), 0)
        if self._spare is not None and self._spare.pid == pid:
            # The agent has never heard of it. The next one may die, too, so
            # there is none until a process has started.
            self._spare.sock.close()
            self._spare, self._spared = None, ""
            return
        code = os.waitstatus_to_exitcode(status)
        self._tell({"ended": pid, "status": code})

    def _start(self, module: str, settings: str) -> bool:
        """Start a process; return whether this is it."""
        if module == self._spared and self._use_spare(settings):
            return False
        try:
            pid = os.fork()
            if pid == 0:
                self._agent.detach()
                return True
            pidfd = self._keep(pid)
        except OSError as exc:
            self._tell({"pid": None, "error": str(exc)})
            return False
        self._tell({"pid": pid}, pidfd)
        if hasattr(_main_of(module), "prepare"):
            self._spared = module
        return False

    def _keep(self, pid: int) -> int:
        """Watch a child; return its pidfd.

        :raises OSError: if that is impossible; then it has been killed.
        """
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            # Without a pidfd, nobody would notice its end.
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        self._children[pidfd] = pid
        self._poller.register(pidfd, select.POLLIN)
        return pidfd

    def _use_spare(self, settings: str) -> bool:
        spare, self._spare = self._spare, None
        if spare is None:
            return False
        with spare.sock:
            try:
                spare.sock.send(settings.encode())
            except OSError:
                # It has died, and is reaped like any other child.
                return False
        self._tell({"pid": spare.pid}, spare.pidfd)
        return True

    def _fork_spare(self) -> bool:
        """Fork a spare; return whether this is it."""
        try:
            mine, its = socket.socketpair(
                socket.AF_UNIX, socket.SOCK_SEQPACKET
            )
            with its:
                pid = os.fork()
                if pid == 0:
                    self._agent.detach()
                    os.dup2(its.fileno(), _CONTROL_FD)
                    mine.close()
                    return True
                self._spare = _Spare(pid, self._keep(pid), mine)
        except OSError:
            # The next process is forked when it is needed.
            self._spared = ""
        return False

    def _await_settings(self) -> tuple[str, str] | None:
        """Be the spare, until its settings come or the server ends."""
        module = self._spared
        _close_others()
        _main_of(module).prepare(**self._modules[module])
        with socket.socket(fileno=_CONTROL_FD) as server:
            settings = server.recv(_REQUEST_BYTES).decode()
            server.detach()
        return (module, settings) if settings else None

    def _tell(self, message: dict[str, object], *fds: int) -> None:
        # If the agent has ended, the next read shows that.
        with contextlib.suppress(BrokenPipeError):
            data = json.dumps(message).encode()
            socket.send_fds(self._agent, [data], fds)


def _set_up(module: str, settings: str) -> None:
    """Make a fork a process of its own.

    Its entry point leaves the server's session and sets the umask. ``random``
    and OpenSSL seed themselves anew after a fork.
    """
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


def _close_others() -> None:
    """Close the server's descriptors in a fork."""
    os.closerange(_FIRST_OTHER_FD, max(_open_files()) + 1)


def _open_files() -> set[int]:
    return set(map(int, os.listdir("/proc/self/fd")))


if __name__ == "__main__":
    sys.exit(main())
