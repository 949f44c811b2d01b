# SPDX-License-Identifier: Apache-2.0

"""Guests that come again and again through the REST API, which all wait."""

from __future__ import annotations

import contextlib
import functools
import statistics
import threading
from collections.abc import Iterator

from tests.benchmarks import api_requests
from tests.benchmarks import crowd
from tests.benchmarks import measure
from tests.benchmarks import opener
from tests.benchmarks import servers
from tests.functional.api import harness
from tests.harness import cloud as clouds

TITLE = "guests of the REST API that come again and again, MariaDB"
SERVICES = True

_SLOTS_PER_HOST = 4
_HOSTS = 3
_GUESTS = 200
_FEW_GUESTS = 4
#: Two thirds of them may wait.
_THREADS = 320


def rows(plan: measure.Plan) -> Iterator[measure.Row]:
    """Measure guests beside as many clients of a host's front door."""
    guests = _FEW_GUESTS if plan.tiny else _GUESTS
    duration_s = 0.3 if plan.tiny else 10.0
    hosts = [
        clouds.HostPlan(f"board{number}", slots=_SLOTS_PER_HOST)
        for number in range(1 if plan.tiny else _HOSTS)
    ]
    rates, doors, shares = [], [], []
    with contextlib.ExitStack() as stack:
        cloud = stack.enter_context(servers.running_cloud(*hosts))
        api = harness.Server(
            "api-guests",
            cloud,
            servers.workspace(),
            _THREADS,
            server_threads=_THREADS,
            inventory_cache_s=1.0,
        )
        api.start()
        stack.callback(api.kill)
        visit = functools.partial(_visit_again, api.address)
        door = functools.partial(
            opener.open_and_close, cloud.hosts["board0"].socket_path()
        )
        for _ in range(plan.repetitions):
            doors.append(crowd.act_for(door, guests, duration_s)[0])
            rate, times = crowd.act_for(visit, guests, duration_s)
            rates.append(rate)
            shares.append(_share(guests, rate, [one[1] for one in times]))
    yield measure.Row(
        name=f"{guests} guests",
        unit="1/s",
        samples=rates,
        floor=f"{guests} clients of a front door",
        floor_samples=doors,
    )
    yield measure.Row(
        name="POST until READY, p50, of guests divided by their rate",
        unit="×",
        samples=shares,
    )


class _Own(threading.local):
    """The connection of a thread's guest, which lasts; None: it has none."""

    guest: api_requests.Guest | None = None


_own = _Own()


def _visit_again(address: str) -> list[float]:
    """Open a session, as a program does that has a connection already."""
    if _own.guest is None:
        _own.guest = api_requests.Guest(address)
    return api_requests.visit(_own.guest)


def _share(
    guests: int, rate: measure.Sample, waits_ms: list[float]
) -> measure.Sample:
    """Return the median wait, divided by the mean time of a visit."""
    median_s = statistics.median(waits_ms) / 1e3
    value = median_s * rate.value / guests
    return measure.Sample(value, rate.wall_s, rate.cpu_s)
