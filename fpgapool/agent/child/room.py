# SPDX-License-Identifier: Apache-2.0

"""The room of a worker or a desk: what it keeps when it serves tenants.

Code that a tenant manages to run in it can use what the process has already
opened, and little else. The process gives up the rest by itself, so that it
can still be a fork that shares memory with others, and needs no privilege.
There are no namespaces: the agent's unit forbids them, and what they would
hide is refused anyway.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import resource

from fpgapool.agent.child import settings as child_settings
from fpgapool.common.walls import calls
from fpgapool.common.walls import landlock
from fpgapool.common.walls import places
from fpgapool.common.walls import rights

LOG = logging.getLogger(__name__)

#: Processes run only if they can give up all that they do not need.
REQUIRED = child_settings.ISOLATION_REQUIRED

#: What a process may add to its log and other files.
_FILE_BYTES = 1 << 30
_STDERR = 2


class Unwalled(OSError):
    """The process cannot give up what it must."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What a process may reach besides what it has opened.

    :ivar readable: files and directories, besides the system's libraries.
    :ivar writable: directories.
    :ivar devices: device files, or patterns of them.
    :ivar calls: system calls that other processes may not use.
    :ivar shared_bytes: size of the largest memory that it shares.
    """

    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    shared_bytes: int = 0


def warm_up() -> None:
    """Load the library of :mod:`.calls`, for all that are forked later."""
    calls.problem()


def missing(isolation: str) -> list[str]:
    """Return what keeps processes from giving up what they do not need.

    :returns: sentences that also say what to do about it.
    """
    if isolation == child_settings.ISOLATION_NONE:
        return ["Workers are not isolated: set [agent] isolation = preferred"]
    found = []
    if not landlock.version():
        found.append(
            "Workers can read all that the agent's user can: the kernel has"
            " no Landlock. Use Linux 5.13 or newer, with landlock in the"
            " kernel's parameter lsm"
        )
    if (problem := calls.problem()) is not None:
        found.append(
            "Workers can use the network and all system calls of the agent's"
            f" user: {problem}. Install libseccomp 2.5 or newer (libseccomp2"
            " in Debian), and let containers use seccomp"
        )
    return found


def enter(room: Room, settings: child_settings.ChildSettings) -> None:
    """Give up everything else, for good.

    Call it in the main thread before there are others.

    :raises Unwalled: if that is impossible, but required.
    """
    if settings.isolation == child_settings.ISOLATION_NONE:
        return
    # Later, the process may not find the library.
    warm_up()
    rights.hide_memory()
    rights.limit(
        {
            resource.RLIMIT_CORE: 0,
            # A log only grows, and limits count from a file's beginning.
            resource.RLIMIT_FSIZE: _FILE_BYTES
            + max(_log_bytes(settings.log_file), room.shared_bytes),
        }
    )
    rights.drop_capabilities()
    has_files = landlock.restrict(
        readable=(*_libraries(settings), *room.readable),
        writable=room.writable,
        devices=room.devices,
    )
    try:
        has_calls = calls.refuse(room.calls)
    except OSError as exc:
        LOG.error("The kernel does not refuse system calls: %s", exc)
        has_calls = False
    if has_files and has_calls:
        return
    if not has_files:
        LOG.error("The kernel does not restrict files: no Landlock")
    if settings.isolation == REQUIRED:
        why = missing(settings.isolation) or ["the kernel does not let it"]
        raise Unwalled("; ".join(why))


def _log_bytes(path: str | None) -> int:
    with contextlib.suppress(OSError):
        return os.stat(_STDERR if path is None else path).st_size
    return 0


def _libraries(settings: child_settings.ChildSettings) -> list[str]:
    files = (settings.control_socket, settings.log_file)
    return places.libraries(
        private=[os.path.dirname(file) for file in files if file is not None]
    )
