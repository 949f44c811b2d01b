# SPDX-License-Identifier: Apache-2.0

"""An asyncio service that uses the pool for each of its requests."""

from __future__ import annotations

import asyncio
import hashlib
import statistics
import threading
import time
from collections.abc import Awaitable
from collections.abc import Callable
from collections.abc import Iterator

from fpgapool import client
from tests.benchmarks import measure
from tests.functional.allinone import harness

TITLE = "40 requests at once to an asyncio service that opens sessions"
SERVICES = True

PARALLEL = 40
_BODY = b"x" * 1000
_DIGEST = hashlib.sha256(_BODY).digest()

Handle = Callable[[bytes], Awaitable[bytes]]


def rows(plan: measure.Plan) -> Iterator[measure.Row]:
    """Measure both ways in turns, against the same pool."""
    requests = PARALLEL if plan.tiny else 10 * PARALLEL
    size = harness.SMALL if plan.tiny else ("--unlimited",)
    with harness.running_pool(*size) as pool:
        door = pool.front_door()

        async def with_threads(body: bytes) -> bytes:
            future = client.submit("sha", body, front_door=door)
            return bytes(await asyncio.wrap_future(future))

        async def with_tasks(body: bytes) -> bytes:
            output, _ = await client.aio.run_buffer(
                "sha", body, front_door=door
            )
            return bytes(output)

        tasks, threads = [], []
        for _ in range(plan.repetitions):
            threads.append(asyncio.run(_serve(with_threads, requests)))
            tasks.append(asyncio.run(_serve(with_tasks, requests)))
    yield measure.Row(
        name="p50 with client.aio",
        unit="ms",
        samples=[one for one, _ in tasks],
        floor="p50 with client.submit",
        floor_samples=[one for one, _ in threads],
    )
    yield measure.Row(
        name="most threads with client.aio",
        unit="threads",
        samples=[most for _, most in tasks],
        floor="most threads with client.submit",
        floor_samples=[most for _, most in threads],
    )


async def _serve(
    handle: Handle, requests: int
) -> tuple[measure.Sample, measure.Sample]:
    """Send requests to a service.

    :returns: the median time of a request in ms, and the most threads.
    """
    most = 0

    async def answer(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        nonlocal most
        while body := await reader.read(len(_BODY)):
            output = await handle(body)
            most = max(most, threading.active_count())
            writer.write(output)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    each: list[float] = []

    async def ask(count: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(count):
            start_s = time.perf_counter()
            writer.write(_BODY)
            assert await reader.readexactly(len(_DIGEST)) == _DIGEST
            each.append(1e3 * (time.perf_counter() - start_s))
        writer.close()
        await writer.wait_closed()

    async with server:
        with measure.stopwatch() as watch:
            await asyncio.gather(
                *(ask(requests // PARALLEL) for _ in range(PARALLEL))
            )
    sample = measure.Sample(statistics.median(each), watch.wall_s, watch.cpu_s)
    return sample, measure.Sample(most, watch.wall_s, watch.cpu_s)
