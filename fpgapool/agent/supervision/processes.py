# SPDX-License-Identifier: Apache-2.0

"""Starts, recognizes and reaps an agent's processes. Pidfds identify them,
because process numbers are reused.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import signal
import socket
import sys

import fpgapool
from fpgapool.common.channels import descriptors

WORKER_MODULE = "fpgapool.agent.worker"
DESK_MODULE = "fpgapool.agent.groupdesk"


#: Variables that may hold secrets: options of oslo.config, credentials of
#: OpenStack, and whatever looks like it.
_SECRETS = re.compile("^OS_|PASS|SECRET|TOKEN|CREDENTIAL|KEY", re.IGNORECASE)


def start(
    module: str, document: str, stdin: int | None = None
) -> tuple[int, int]:
    """Start a process in its own session, so that it may outlive the agent.

    :param stdin: its standard input; None for an empty one.
    :returns: its number, which cannot be reused until it is reaped, and its
        pidfd.
    :raises OSError: if it cannot be started.
    """
    pid = _spawn(module, document, stdin)
    try:
        return pid, os.pidfd_open(pid)
    except OSError:
        # Without a pidfd, nobody would notice its end.
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise


def _spawn(module: str, document: str, stdin: int | None) -> int:
    environment = {
        name: value
        for name, value in os.environ.items()
        if not _SECRETS.search(name)
    }
    # The process must run the same version of fpgapool as the agent, and must
    # not import from the working directory (-P).
    root = str(pathlib.Path(fpgapool.__file__).parent.parent)
    inherited = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = (
        root if not inherited else os.pathsep.join((root, inherited))
    )
    return os.posix_spawn(
        sys.executable,
        [
            sys.executable,
            "-P",
            "-m",
            module,
            document,
        ],
        environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
            if stdin is None
            else (os.POSIX_SPAWN_DUP2, stdin, 0)
        ],
        setsid=True,
        setsigmask=[],
    )


def dial(path: str) -> socket.socket | None:
    """Return a non-blocking connection to a process's socket.

    :returns: None if no process accepts connections there.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        sock.connect(path)
    except OSError:
        sock.close()
        return None
    return sock


def ended(pidfd: int, timeout_s: float) -> bool:
    """Wait until a process ends; return whether it has ended."""
    return descriptors.is_readable(pidfd, max(0.0, timeout_s))


def exit_status(pidfd: int) -> int | None:
    """Reap an ended process.

    :returns: its exit status, or the negative number of the signal that ended
        it; None if another process started it.
    """
    try:
        result = os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG)
    except ChildProcessError:
        return None
    if result is None:
        return None
    has_exited = result.si_code == os.CLD_EXITED
    return result.si_status if has_exited else -result.si_status


def end_rest(pid: int) -> None:
    """Kill what a reaped process has left behind in its process group.

    Workers and desks cannot leave theirs. What they leave would keep their
    locks and sockets, so that no other process could take their place.

    :param pid: the kernel does not give it to others while there is a rest.
    """
    with contextlib.suppress(PermissionError):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)


def how(exit_status: int | None) -> str:
    """Describe how a process ended; see :func:`exit_status`."""
    if exit_status is None or exit_status >= 0:
        return f"status {exit_status}"
    return signal.Signals(-exit_status).name


def run_of(pid: int) -> str:
    """Name a process, otherwise than others that have had its number."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        # Where /proc hides workers (hidepid), the number has to do.
        return str(pid)
    # The name of the command, in brackets, may have spaces.
    started_ticks = stat.rpartition(")")[2].split()[19]
    return f"{pid} {started_ticks}"


def runs(pid: int, module: str) -> bool:
    """Whether a process runs a module, according to its command line."""
    try:
        command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        # Where /proc hides what is not this user's to inspect (hidepid), it
        # also hides workers, which let nobody read their memory.
        with contextlib.suppress(OSError):
            os.kill(pid, 0)
            return True
        return False
    except OSError:
        return False
    return module.encode() in command.split(b"\0")
