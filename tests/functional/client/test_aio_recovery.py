# SPDX-License-Identifier: Apache-2.0

"""asyncio while a slot, or the front door, is lost: other tasks go on."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import AsyncIterator

import pytest

from fpgapool import client
from tests.functional.client import breaking
from tests.functional.client import fakepool
from tests.functional.worker import harness
from tests.harness import slots

CHUNK = harness.CHUNK_BYTES
DATA = random.Random(7).randbytes(40 * CHUNK + 4711)
KILLED_AT_BYTES = 5 * CHUNK


class Killing:
    """Kills the slot's worker once, while another task wants to go on.

    The front door has no other slot before that task has run.
    """

    def __init__(self, door: slots.Door, spare: slots.Slot) -> None:
        self._door = door
        self._loop = asyncio.get_running_loop()
        self._asked = asyncio.Event()
        self._went_on = threading.Event()
        # Earlier tests may have left some: the library reuses threads.
        self._kept_threads = set(threading.enumerate())
        self.new_threads: set[str] = set()
        self.killed = False
        door.spares.append(spare)
        door.on_reopen = self._reopened

    def _reopened(self) -> None:
        self._loop.call_soon_threadsafe(self._asked.set)
        assert self._went_on.wait(breaking.TIMEOUT_S)

    async def other_task(self) -> None:
        """Go on when the session waits for its next slot."""
        await self._asked.wait()
        self.new_threads = {
            one.name
            for one in threading.enumerate()
            if one.name.startswith("fpgapool")
            and one not in self._kept_threads
        }
        self._went_on.set()

    def kill(self, done_bytes: int, _total_bytes: int | None = None) -> None:
        """Kill the worker when the session is in the middle."""
        if done_bytes >= KILLED_AT_BYTES and not self.killed:
            self.killed = True
            self._door.worker.kill()


async def _buffer(killing: Killing, path: str) -> bytes:
    output, report = await client.aio.run_buffer(
        "copy",
        DATA,
        front_door=path,
        progress=killing.kill,
        timeout_s=breaking.TIMEOUT_S,
    )
    assert (report.reopens, report.restarts) == (1, 0)
    return bytes(output)


async def _stream(killing: Killing, path: str) -> bytes:
    async def source() -> AsyncIterator[bytes]:
        for start in range(0, len(DATA), CHUNK):
            killing.kill(start)
            yield DATA[start : start + CHUNK]

    found = client.aio.run_stream(
        "copy",
        source(),
        len(DATA),
        front_door=path,
        timeout_s=breaking.TIMEOUT_S,
    )
    return b"".join([piece async for piece in found])


@pytest.mark.parametrize("use", [_buffer, _stream])
def test_a_killed_worker_loses_nothing(directory, local_door, use) -> None:
    spare = slots.Slot(directory / "spare", "shm")

    async def run() -> None:
        killing = Killing(local_door, spare)
        output, _ = await asyncio.gather(
            use(killing, local_door.path), killing.other_task()
        )
        assert output == DATA
        assert killing.killed
        assert killing.new_threads == set()

    asyncio.run(run())


def _open(pool, **options):
    return client.aio.acc_open(
        "copy",
        1000,
        params={"key": b"\x12\x34"},
        front_door=pool.path,
        timeout_s=breaking.TIMEOUT_S,
        **options,
    )


def test_the_front_door_is_restarted_while_a_request_waits(pools) -> None:
    pool = pools()
    pool.drop_while_queued = 2
    states: list[str] = []

    async def run() -> None:
        session = await _open(
            pool, on_state=lambda view: states.append(view.state)
        )
        async with session:
            output = await session.run(b"piece")
            assert bytes(output) == fakepool.copied(b"piece", 0)

    asyncio.run(run())
    asked = [one for one in pool.requests if one["op"] == "open"]
    assert len({one["request_id"] for one in asked}) == 1
    assert states == ["QUEUED"] * 3 + ["READY"]


def test_the_front_door_is_restarted_and_the_slot_has_moved(pools) -> None:
    spare = fakepool.Worker("copy", (), local=True)
    pool = pools(local=True, spares=[spare])
    pool.drop_at_connections = 1

    async def run() -> None:
        async with await _open(pool) as session:
            assert session.view.generation == spare.generation
            output = await session.run(b"piece")
            assert bytes(output) == fakepool.copied(b"piece", 0)

    asyncio.run(run())
    assert pool.operations().count("open") == 2


def test_the_front_door_is_away_while_a_connection_breaks(pools) -> None:
    pool = pools(budgets=(2000,), local=True)
    data = random.Random(3).randbytes(10 * fakepool.CHUNK_BYTES)

    async def run() -> None:
        async with await _open(pool) as session:
            pool.refuse_connections = 2
            for start in range(0, len(data), 1000):
                piece = data[start : start + 1000]
                output = await session.run(piece)
                assert bytes(output) == fakepool.copied(piece, start)

    asyncio.run(run())
    assert pool.refuse_connections == 0
    assert [one["transport"] for one in pool.worker.hellos] == ["shm"] * 2
