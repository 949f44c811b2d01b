# SPDX-License-Identifier: Apache-2.0

"""What the filter and the weigher cost for each request to Nova's scheduler.

They run in an interpreter beside Nova: see ``tests/nova_filters/timing.py``.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

from tests.benchmarks import measure
from tests.services import openstack

TITLE = "Nova's scheduler: filter and weigher together"
UNIT = "ms/request"
FLOOR = "Nova's default filters"
#: The program is a process.
SERVICES = True

_PROGRAM = openstack.ROOT / "tests" / "nova_filters" / "timing.py"
_HOSTS = (4, 200, 2000)
_HOST_REQUESTS = 100_000
_LIMIT_S = 600


def rows(plan: measure.Plan) -> Iterator[measure.Row]:
    """Each kind of flavor, on few and many hosts."""
    for hosts in _HOSTS[:1] if plan.tiny else _HOSTS:
        requests = 2 if plan.tiny else _HOST_REQUESTS // hosts
        times = _measure(hosts, requests, plan.repetitions)
        for flavor, pairs in times.items():
            yield measure.Row(
                name=f"affinity {flavor}: {hosts:,} hosts",
                unit=UNIT,
                samples=[_sample(pair[0], requests) for pair in pairs],
                floor=FLOOR,
                floor_samples=[_sample(pair[1], requests) for pair in pairs],
                point=measure.Point(f"affinity {flavor}", "hosts", hosts),
            )


def _measure(
    hosts: int, requests: int, repetitions: int
) -> dict[str, list[list[list[float]]]]:
    output = subprocess.run(
        [
            openstack.program("python"),
            "-W",
            "ignore",
            str(_PROGRAM),
            *map(str, (hosts, requests, repetitions)),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        timeout=_LIMIT_S,
        check=True,
    ).stdout
    found: dict[str, list[list[list[float]]]] = json.loads(output)
    return found


def _sample(seconds: list[float], requests: int) -> measure.Sample:
    cpu_s, wall_s = seconds
    return measure.Sample(1e3 * cpu_s / requests, wall_s, cpu_s)
