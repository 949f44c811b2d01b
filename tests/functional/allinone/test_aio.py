# SPDX-License-Identifier: Apache-2.0

"""asyncio in a whole pool, through both doors, without threads of sessions."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import threading
from collections.abc import AsyncIterator

import numpy as np
import pytest

from fpgapool import client
from tests.functional.allinone import harness

#: Several pieces, and more than a window.
LARGE = np.random.default_rng(11).bytes(30_000_000)


def _started() -> list[str]:
    """Return the names of the library's threads."""
    return [
        one.name
        for one in threading.enumerate()
        if one.name.startswith("fpgapool")
    ]


@contextlib.asynccontextmanager
async def _all_slots(door: object) -> AsyncIterator[None]:
    async with (
        await client.aio.acc_open("copy", 1, front_door=door),
        await client.aio.acc_open("copy", 1, front_door=door),
    ):
        yield


async def _wait_until_free(door: object) -> None:
    """Get both slots, which nobody else may have."""
    async with asyncio.timeout(harness.LIMIT_S), _all_slots(door):
        pass


def test_sessions_and_transfers(front_door: str | client.PoolApi) -> None:
    async def run() -> None:
        door = front_door
        async with await client.aio.acc_open(
            "sha", 11, front_door=door
        ) as session:
            assert bytes(await session.run(b"hello ")) == b""
            session.pin[:5] = b"world"
            assert bytes(await session.run(5)) == b""
            digest = await session.finish()
            assert bytes(digest) == hashlib.sha256(b"hello world").digest()
        assert session.closed
        with pytest.raises(client.SessionClosed):
            await session.run(b"more")
        into = bytearray(len(LARGE))
        output, report = await client.aio.run_buffer(
            "copy", LARGE, into=into, front_door=door
        )
        assert output == LARGE
        assert report.input_bytes == len(LARGE)
        spectrum = await client.aio.run_array(
            "fft", np.ones((2, 8)), convert=True, front_door=door
        )
        assert spectrum[1].tolist() == [8, 0, 0, 0, 0, 0, 0, 0]

    asyncio.run(run())


def test_no_threads_at_the_front_door(site: harness.Site) -> None:
    """More sessions than slots, and none has a thread."""
    door = site.pool.front_door()
    before = _started()

    async def one(number: int) -> bytes:
        output, _ = await client.aio.run_buffer(
            "sha", bytes([number]), front_door=door
        )
        assert _started() == before
        return bytes(output)

    async def run() -> list[bytes]:
        return await asyncio.gather(*map(one, range(12)))

    assert asyncio.run(run()) == [
        hashlib.sha256(bytes([number])).digest() for number in range(12)
    ]


def test_threads_for_the_api_are_bounded(site: harness.Site) -> None:
    async def run() -> None:
        outputs = await asyncio.gather(
            *(
                client.aio.run_buffer("copy", b"abc", front_door=site.api)
                for _ in range(2 * client.aio.MAX_THREADS)
            )
        )
        assert {bytes(output) for output, _ in outputs} == {b"abc"}
        assert len(_started()) <= client.aio.MAX_THREADS

    asyncio.run(run())


def test_a_stream(site: harness.Site) -> None:
    door = site.pool.front_door()

    async def source() -> AsyncIterator[bytes]:
        for start in range(0, len(LARGE), 999_983):
            yield LARGE[start : start + 999_983]

    async def whole(size_bytes: int) -> bytes:
        found = client.aio.run_stream(
            "copy", source(), size_bytes, front_door=door
        )
        return b"".join([piece async for piece in found])

    assert asyncio.run(whole(len(LARGE))) == LARGE
    for size_bytes in (len(LARGE) - 1, len(LARGE) + 1):
        with pytest.raises(client.InvalidRequest) as caught:
            asyncio.run(whole(size_bytes))
        assert caught.value.code == "SIZE_MISMATCH"
    asyncio.run(_wait_until_free(door))


def test_a_cancelled_task_gives_its_place_back(
    front_door: str | client.PoolApi,
) -> None:
    """While it waits, and while it uses a slot."""

    async def run() -> None:
        queued = asyncio.Event()

        async def transfer_for_ever() -> None:
            while True:
                await client.aio.run_buffer(
                    "copy", LARGE, front_door=front_door
                )

        def on_state(view: client.SessionView) -> None:
            if view.state == "QUEUED":
                queued.set()

        async with _all_slots(front_door):
            waits = asyncio.create_task(
                client.aio.acc_open(
                    "copy", 1, front_door=front_door, on_state=on_state
                )
            )
            async with asyncio.timeout(harness.LIMIT_S):
                await queued.wait()
            waits.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waits
        await _wait_until_free(front_door)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(transfer_for_ever(), 0.05)
        await _wait_until_free(front_door)

    asyncio.run(run())


def test_time_limits_and_tokens(site: harness.Site) -> None:
    door = site.pool.front_door()

    async def run() -> None:
        async with _all_slots(door):
            with pytest.raises(client.OperationTimeout):
                await client.aio.acc_open(
                    "copy", 1, front_door=door, timeout_s=0.05
                )
            with pytest.raises(client.WaitTimeout):
                await client.aio.acc_open(
                    "copy", 1, front_door=door, wait_timeout_s=0.05
                )
            token = client.CancelToken()
            threading.Timer(0.05, token.cancel).start()
            with pytest.raises(client.Cancelled):
                await client.aio.acc_open(
                    "copy", 1, front_door=door, cancel=token
                )
        await _wait_until_free(door)

    asyncio.run(run())


def test_the_cpu_computes_in_a_thread() -> None:
    """So the event loop goes on."""

    async def run() -> None:
        beats = 0

        async def beat() -> None:
            nonlocal beats
            while True:
                beats += 1
                await asyncio.sleep(0.01)

        heart = asyncio.create_task(beat())
        output, report = await client.aio.run_buffer(
            "sha", b"abc", front_door="/nonexistent", fallback="cpu"
        )
        assert bytes(output) == hashlib.sha256(b"abc").digest()
        assert report.fallback_reason == "FRONT_DOOR_UNAVAILABLE"
        assert beats
        heart.cancel()
        with pytest.raises(client.InvalidRequest, match="meanwhile"):
            await client.aio.acc_open("copy", 1, meanwhile="cpu")

    asyncio.run(run())
