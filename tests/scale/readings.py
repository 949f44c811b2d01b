# SPDX-License-Identifier: Apache-2.0

"""Commands and requests that read a big pool."""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence

from fpgapool import client
from fpgapool.api.http import microversion
from tests.benchmarks import usage
from tests.functional.api import harness as api_harness

_REPETITIONS = 5
_LIMIT_S = 60.0

#: What the live page asks for, and lists that commands show.
_PATHS = (
    "/ui",
    "/v1/pool",
    "/v1/pool/hosts?limit=100",
    "/v1/pool/hosts?slot_state=idle",
    "/v1/accelerators",
    "/v1/hosts",
    "/v1/devices",
    "/v1/slots",
    "/v1/sessions?all_projects=true",
    "/v1/sessions?all_projects=true&state=QUEUED",
    "/v1/usage?all_projects=true",
    "/v1/services",
)
_LISTS = ("accelerator", "host", "device", "slot", "session")


@dataclasses.dataclass(frozen=True)
class Reading:
    """A command or request that reads the pool; medians of some.

    :ivar cpu_s: processor time of the command or, if it is a request, of the
        server.
    :ivar size_bytes: of its largest answer, or of what it printed.
    """

    title: str
    time_s: float
    cpu_s: float
    size_bytes: int


def by_request(
    address: str, api_pid: int, front_door: str, agent_pid: int
) -> Iterator[Reading]:
    """Read the pool in this process.

    :param address: of the API.
    :param front_door: path of the agent's socket.
    """
    for path in _PATHS:
        yield _timed(
            f"GET {path}",
            functools.partial(_get, address, path),
            functools.partial(usage.cpu_s, api_pid),
        )
    yield _timed(
        "accelerators()",
        lambda: len(repr(client.accelerators(front_door=front_door))),
        functools.partial(usage.cpu_s, agent_pid),
    )


def by_command(
    address: str, front_door: str, repetitions: int
) -> Iterator[Reading]:
    """Read the pool by commands; see :func:`by_request`."""
    options = [
        *("--os-auth-type", "admin_token"),
        *("--os-endpoint", f"http://{address}/v1"),
        *("--os-token", api_harness.ADMIN_TOKEN),
    ]
    openstack = ["openstack", *options, "fpga"]
    for title, command in {
        "python -c pass": ["python", "-c", "pass"],
        "fpgapool-run --version": ["fpgapool-run", "--version"],
        "fpgapool-run --list": [
            "fpgapool-run",
            "--list",
            "--socket",
            front_door,
        ],
        "openstack --version": ["openstack", "--version"],
        **{
            f"openstack fpga {name} list": [*openstack, name, "list"]
            for name in _LISTS
        },
    }.items():
        run = functools.partial(_run, *command)
        yield _timed(title, run, _children_s, repetitions)


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _timed(
    title: str,
    action: Callable[[], int],
    cpu_s: Callable[[], float],
    repetitions: int = _REPETITIONS,
) -> Reading:
    times_s, cpus_s, sizes_bytes = [], [], []
    for _ in range(repetitions):
        started_s, before_s = time.perf_counter(), cpu_s()
        sizes_bytes.append(action())
        times_s.append(time.perf_counter() - started_s)
        cpus_s.append(cpu_s() - before_s)
    return Reading(
        title,
        statistics.median(times_s),
        statistics.median(cpus_s),
        max(sizes_bytes),
    )


def _get(address: str, path: str) -> int:
    headers = {
        "X-Auth-Token": api_harness.ADMIN_TOKEN,
        microversion.HEADER: f"{microversion.SERVICE_TYPE} latest",
    }
    request = urllib.request.Request(f"http://{address}{path}", None, headers)
    with urllib.request.urlopen(request, timeout=_LIMIT_S) as answer:
        return len(answer.read())


def _run(program: str, *arguments: str) -> int:
    directory = pathlib.Path(sys.executable).parent
    command: Sequence[str] = [str(directory / program), *arguments]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=_LIMIT_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stdout.decode()}")
    return len(done.stdout)
