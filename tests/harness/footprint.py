# SPDX-License-Identifier: Apache-2.0

"""What a pool's processes use while nobody has a session."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib

from tests.harness import cloud as clouds
from tests.harness import door as doors
from tests.harness import processes
from tests.harness import waiting

# Connections of daemons to the broker come and go, within limits.
DAEMON_SLACK = 8


@dataclasses.dataclass(frozen=True)
class Footprint:
    """What the processes use.

    :ivar daemon_files: open files of each conductor and agent.
    :ivar worker_files: most open files of a worker.
    :ivar worker_threads: most threads of a worker.
    """

    daemon_files: tuple[int, ...]
    worker_files: int
    worker_threads: int
    processes: int

    @classmethod
    def of(cls, cloud: clouds.Cloud) -> Footprint:
        """Look at the processes."""
        workers = [
            worker.pid
            for host in cloud.hosts.values()
            for worker in host.workers()
        ]
        return cls(
            (
                # Another one of them may lead by now.
                *sorted(_files(one) for one in cloud.conductors),
                *(_files(one.agent) for one in cloud.hosts.values()),
            ),
            max(processes.descriptor_count(pid) for pid in workers),
            max(processes.thread_count(pid) for pid in workers),
            len(_processes_of(cloud)),
        )

    def exceeds(self, other: Footprint) -> bool:
        """Tell whether it is more than another one."""
        return (
            self.worker_files > other.worker_files
            or self.worker_threads > other.worker_threads
            or self.processes > other.processes
            or any(
                mine > others + DAEMON_SLACK
                for mine, others in zip(
                    self.daemon_files, other.daemon_files, strict=True
                )
            )
        )


def _files(daemon: processes.Daemon) -> int:
    return processes.descriptor_count(daemon.pid)


def _processes_of(cloud: clouds.Cloud) -> list[int]:
    """Return daemons, workers and programs that use their front doors."""
    marks = [
        os.fsencode(daemon.directory) + b"/" for daemon in cloud.daemons()
    ]
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            arguments = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if any(mark in arguments for mark in marks):
            found.append(int(entry.name))
    return found


def used(cloud: clouds.Cloud) -> Footprint:
    """Return the footprint after a session in every slot."""
    with contextlib.ExitStack() as opened:
        held = []
        # All at once, so that whatever the strategy, none is left out.
        for host in cloud.hosts.values():
            door = opened.enter_context(host.door())
            held += doors.hold_slots(door, host.plan.slots)
        for one in held:
            assert one.run(b"some data") == b"some data"
        doors.let_go(held)
    cloud.check_consistent()
    return Footprint.of(cloud)


def check_no_trace(cloud: clouds.Cloud, before: Footprint) -> None:
    """Check that the pool is as it was and does its work."""
    used(cloud)
    waiting.wait_until(
        lambda: not Footprint.of(cloud).exceeds(before),
        lambda: f"{Footprint.of(cloud)} is not more than {before}",
    )
