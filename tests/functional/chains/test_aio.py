# SPDX-License-Identifier: Apache-2.0

"""Chains with asyncio, in a real pool."""

from __future__ import annotations

import asyncio
import gzip
import random
import threading
from collections.abc import AsyncIterator
from collections.abc import Awaitable

import pytest

from fpgapool import client
from fpgapool.vocabulary import codes
from tests.functional.allinone import harness
from tests.harness import programs

AES = {"key": programs.KEY, "iv": programs.IV}
MIB = 2**20
DATA = random.Random(4).randbytes(5 * MIB + 12_345) * 2
SLOTS = 4


def _run(work: Awaitable[None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(2 * harness.LIMIT_S):
            await work

    asyncio.run(limited())


async def _chain(
    pool: harness.Pool, *names: str, **options: object
) -> client.aio.Chain:
    return await client.aio.chain(
        *(names or ("gzip", "aes")),
        **{
            "params": {} if names else {"aes": AES},
            "front_door": pool.front_door(),
            "timeout_s": harness.LIMIT_S,
            **options,
        },
    )


def _plain(output: bytes) -> bytes:
    return gzip.decompress(programs.encrypted(bytes(output)))


async def _free(pool: harness.Pool) -> None:
    """Get all slots, which nobody else may have."""
    chain = await _chain(pool, *["copy"] * SLOTS)
    output, _ = await chain.run_buffer(b"all")
    assert output == b"all"


async def _pieces(length_bytes: int) -> AsyncIterator[bytes]:
    for start in range(0, len(DATA), length_bytes):
        await asyncio.sleep(0)
        yield DATA[start : start + length_bytes]


def _threads() -> set[str]:
    return {
        one.name
        for one in threading.enumerate()
        if one.name.startswith("fpgapool")
        and not one.name.startswith("fpgapool-aio")
    }


def test_a_buffer(pool) -> None:
    seen: set[str] = set()

    async def work() -> None:
        chain = await _chain(pool)
        assert chain.accelerators == ("gzip", "aes")
        output, report = await chain.run_buffer(
            DATA, progress=lambda *_: seen.update(_threads())
        )
        assert _plain(output) == DATA
        assert report.input_bytes == len(DATA)

    before = _threads()
    _run(work())
    assert seen <= before


def test_many_at_the_same_time(pool) -> None:
    async def work() -> None:
        chains = [await _chain(pool) for _ in range(SLOTS // 2)]
        found = await asyncio.gather(*(one.run_buffer(DATA) for one in chains))
        for output, _report in found:
            assert _plain(output) == DATA

    _run(work())


@pytest.mark.parametrize("length_bytes", [100_000, 3 * MIB])
def test_a_stream(pool, length_bytes) -> None:
    async def work() -> None:
        chain = await _chain(pool)
        output = b""
        async for piece in chain.run_stream(_pieces(length_bytes), len(DATA)):
            output += piece
        assert _plain(output) == DATA

    _run(work())


@pytest.mark.parametrize("more_bytes", [-1, 1])
def test_a_stream_of_another_size(pool, more_bytes) -> None:
    async def work() -> None:
        chain = await _chain(pool)
        with pytest.raises(client.InvalidRequest) as caught:
            async for _ in chain.run_stream(
                _pieces(MIB), len(DATA) + more_bytes
            ):
                pass
        assert caught.value.code == codes.SIZE_MISMATCH
        await _free(pool)

    _run(work())


def test_cancelling_closes_all_stages(pool) -> None:
    async def work() -> None:
        chain = await _chain(pool, "gzip", "copy", "copy")
        begun = asyncio.Event()
        running = asyncio.create_task(
            chain.run_buffer(DATA, progress=lambda *_: begun.set())
        )
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await _free(pool)

    _run(work())


def test_a_reader_that_leaves_closes_all_stages(pool) -> None:
    async def work() -> None:
        chain = await _chain(pool, "gzip", "copy", "copy")
        stream = chain.run_stream(_pieces(MIB), len(DATA))
        async for _ in stream:
            break
        await stream.aclose()
        await _free(pool)

    _run(work())


def test_a_source_that_fails(pool) -> None:
    async def source() -> AsyncIterator[bytes]:
        yield DATA[:MIB]
        raise ValueError("no more")

    async def work() -> None:
        chain = await _chain(pool)
        with pytest.raises(ValueError, match="no more"):
            async for _ in chain.run_stream(source(), len(DATA)):
                pass
        await _free(pool)

    _run(work())


def test_a_failure_names_its_stage(pool) -> None:
    async def work() -> None:
        with pytest.raises(client.InvalidParams, match=r"stage 2 \(gzip\)"):
            await _chain(pool, "copy", "gzip", params={"gzip": {"level": 99}})

    _run(work())


def test_the_cpu_computes_meanwhile(pool) -> None:
    async def work() -> None:
        holders = [
            await client.aio.acc_open("copy", 1, front_door=pool.front_door())
            for _ in range(SLOTS)
        ]
        chain = await _chain(pool, meanwhile="cpu")
        output, report = await chain.run_buffer(DATA)
        assert _plain(output) == DATA
        assert [one.slot for one in report.stages] == [None, None]
        stream = b""
        async for piece in chain.run_stream(_pieces(MIB), len(DATA)):
            if not stream:
                for one in holders:
                    await one.close()
            stream += piece
        assert stream == output
        await _free(pool)

    _run(work())
