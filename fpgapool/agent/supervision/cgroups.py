# SPDX-License-Identifier: Apache-2.0

"""A cgroup for each worker and desk, beside one for the agent itself.

The cgroup in which the agent is started is divided, as cgroups(7) wants it: no
cgroup has both processes and limited children. ::

    fpgapool-agent.service
    ├── agent              the agent, its fork server, its other helpers
    ├── worker-HOST-DEVICE.SLOT
    └── desk-HOST-GROUP

A process enters its own by itself, before it uses memory that another one
would be charged for. What processes use in shared memory is charged to the
first of them that touches it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib

from oslo_log import log as logging

LOG = logging.getLogger(__name__)

#: What must be in ``Delegate=`` of the agent's unit, and what should be.
_NEEDED = ("memory", "pids")
_USEFUL = ("cpu",)

_AGENT = "agent"

_SHARED = "Workers and desks share limits"
_DELEGATE = "Set Delegate=memory pids cpu and ProtectControlGroups=no"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one process and its children may use.

    :ivar memory_bytes: 0: what the cgroup of all may.
    :ivar pids: processes and threads; 0: what the cgroup of all may.
    :ivar cpu_weight: share of the processors' time while these are short.
    """

    memory_bytes: int = 0
    pids: int = 0
    cpu_weight: int = 100


class Cgroups:
    """The cgroups of an agent's processes; there are none before
    :meth:`start`, nor if the machine does not give them.

    :param host_uuid: several agents may run in the same cgroup.
    :param proc: what the kernel says about this process.
    """

    def __init__(
        self, host_uuid: str, proc: pathlib.Path = pathlib.Path("/proc/self")
    ) -> None:
        self._host_uuid = host_uuid
        self._proc = proc
        self._home: pathlib.Path | None = None
        self._missing: list[str] = []
        # Processes that the kernel had killed when the cgroup was made.
        self._killed: dict[str, int] = {}

    def missing(self) -> list[str]:
        """Return what the machine does not give, and what to do."""
        return [*self._missing]

    def start(self) -> None:
        """Divide this process's cgroup; children that it has are in it."""
        self._home, self._missing = None, []
        home = _own(self._proc)
        if home is None:
            self._missing = [
                f"{_SHARED}: the host does not use cgroup v2. Start its kernel"
                " with systemd.unified_cgroup_hierarchy=1"
            ]
            return
        try:
            self._divide(home)
        except OSError as error:
            self._missing = [
                f"{_SHARED}: cgroup v2 at {home} cannot be divided"
                f" ({error.strerror}). {_DELEGATE} in the agent's unit"
            ]

    def _divide(self, home: pathlib.Path) -> None:
        given = (home / "cgroup.controllers").read_text().split()
        lacking = [name for name in _NEEDED if name not in given]
        if lacking:
            self._missing = [
                f"{_SHARED}: cgroup v2 at {home} has no"
                f" {' and '.join(lacking)}. {_DELEGATE} in the agent's unit"
            ]
            return
        # Workers of an earlier release may be in it, too.
        pids = (home / "cgroup.procs").read_text().split()
        if not all(map(_is_ours, pids)):
            self._missing = [
                f"{_SHARED}: cgroup v2 at {home} has other processes, too. Run"
                " the agent in a unit of its own, as fpgapool-agent.service"
                " does"
            ]
            return
        own = home / _AGENT
        own.mkdir(exist_ok=True)
        for pid in pids:
            # Some may end meanwhile.
            with contextlib.suppress(ProcessLookupError):
                _write(own / "cgroup.procs", pid)
        for name in _NEEDED:
            _write(home / "cgroup.subtree_control", f"+{name}")
        for name in _USEFUL:
            try:
                _write(home / "cgroup.subtree_control", f"+{name}")
            except OSError:
                self._missing.append(
                    f"cgroup v2 at {home} has no {name}, so that"
                    " [agent] worker_cpu_weight has no effect:"
                    f" {_DELEGATE} in the agent's unit"
                )
        self._home = home
        LOG.info("Each worker and desk has a cgroup of its own in %s", home)

    def path(self, name: str) -> str | None:
        """Return the path of a process's cgroup, or None if it has none."""
        home = self._home
        if home is None:
            return None
        kind, _, rest = name.partition("-")
        return str(home / f"{kind}-{self._host_uuid}-{rest}")

    def make(self, name: str, limits: Limits) -> None:
        """Make a process's cgroup, or limit the one that it has.

        :raises OSError: if that is impossible.
        """
        if (path := self.path(name)) is None:
            return
        group = pathlib.Path(path)
        group.mkdir(exist_ok=True)
        _write(group / "memory.max", limits.memory_bytes or "max")
        # A session or group ends with all its processes.
        _write(group / "memory.oom.group", 1)
        _write(group / "pids.max", limits.pids or "max")
        # There is none without swap, nor weights without the controller.
        with contextlib.suppress(FileNotFoundError):
            _write(group / "memory.swap.max", 0)
        with contextlib.suppress(FileNotFoundError):
            _write(group / "cpu.weight", limits.cpu_weight)
        self._killed[name] = _killed(group)

    def ran_out(self, name: str) -> bool:
        """Whether the kernel killed an ended process for lack of memory."""
        if (path := self.path(name)) is None:
            return False
        return _killed(pathlib.Path(path)) > self._killed.get(name, 0)

    def remove(self, name: str) -> None:
        """Remove the cgroup of a process that has ended, and what is left
        of its children.
        """
        if (path := self.path(name)) is None:
            return
        # If it is still in use, the next process gets the same one.
        with contextlib.suppress(OSError):
            _write(pathlib.Path(path) / "cgroup.kill", 1)
        with contextlib.suppress(OSError):
            os.rmdir(path)


def _own(proc: pathlib.Path) -> pathlib.Path | None:
    """Return the directory of a process's cgroup, without its division."""
    try:
        lines = (proc / "cgroup").read_text().splitlines()
        mounts = (proc / "mountinfo").read_text().splitlines()
    except OSError:
        return None
    if any(":memory:" in line for line in lines):
        # Version 1 has it, even if version 2 is mounted beside it.
        return None
    names = [line[3:] for line in lines if line.startswith("0::")]
    for line in mounts:
        first, _, second = line.partition(" - ")
        root, point = first.split()[3:5]
        if second.startswith("cgroup2 ") and names:
            own = pathlib.PurePath(names[0])
            if not own.is_relative_to(root):
                continue
            home = pathlib.Path(point) / own.relative_to(root)
            return home.parent if home.name == _AGENT else home
    return None


def _is_ours(pid: str) -> bool:
    """Whether a process is this one, or runs a module of this package."""
    try:
        command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return int(pid) == os.getpid() or b"fpgapool." in command


def _killed(group: pathlib.Path) -> int:
    try:
        lines = (group / "memory.events").read_text().splitlines()
    except OSError:
        return 0
    events = dict(line.split() for line in lines)
    return int(events.get("oom_kill", 0))


def _write(path: pathlib.Path, value: object) -> None:
    # Never creates a file, where there is no cgroup.
    with open(path, "r+", encoding="ascii") as file:
        file.write(str(value))
