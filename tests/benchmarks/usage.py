# SPDX-License-Identifier: Apache-2.0

"""What processes take: processor time and memory."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import time

from tests.benchmarks import measure

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass(frozen=True, slots=True)
class Cpu:
    """Processor time that a process has taken.

    :ivar user_s: in the program and its libraries.
    :ivar system_s: in the kernel, on its behalf.
    """

    user_s: float = 0.0
    system_s: float = 0.0

    @classmethod
    def of(cls, pid: int) -> Cpu:
        """Read what a process has taken until now."""
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
        # Behind the name, which may have blanks and brackets in it.
        fields = text.rpartition(")")[2].split()
        return cls(
            int(fields[11]) / _TICKS_PER_S, int(fields[12]) / _TICKS_PER_S
        )

    def __add__(self, other: Cpu) -> Cpu:
        return Cpu(self.user_s + other.user_s, self.system_s + other.system_s)

    def __sub__(self, other: Cpu) -> Cpu:
        return Cpu(self.user_s - other.user_s, self.system_s - other.system_s)

    @property
    def total_s(self) -> float:
        """Both together."""
        return self.user_s + self.system_s


class Meter:
    """Measures time, and processor time of this process and others."""

    def __init__(self, *pids: int) -> None:
        self._pids = (os.getpid(), *pids)
        self._before = [Cpu.of(pid) for pid in self._pids]
        self._started_s = time.perf_counter()

    def cpus(self) -> list[Cpu]:
        """What each of the processes has taken since, this one first."""
        return [
            Cpu.of(pid) - before
            for pid, before in zip(self._pids, self._before, strict=True)
        ]

    def rate(
        self, count: float, wall_s: float | None = None
    ) -> measure.Sample:
        """So many things were done, in things per second.

        :param wall_s: the time that it took; None for until now.
        """
        if wall_s is None:
            wall_s = time.perf_counter() - self._started_s
        cpu_s = sum(cpu.total_s for cpu in self.cpus())
        return measure.Sample(count / wall_s, wall_s, cpu_s)


def cpu_s(pid: int) -> float:
    """Return the processor time that a process has taken, exactly."""
    # What clock_getcpuclockid() returns: its threads, in nanoseconds.
    return time.clock_gettime(~pid << 3 | 2)


def peak_memory_bytes(pid: int) -> int:
    """Return the most memory that a process has had resident."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return int(fields["VmHWM"].split()[0]) * 1024
