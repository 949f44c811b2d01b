# SPDX-License-Identifier: Apache-2.0

"""Arrays, many inputs and futures in a whole pool."""

from __future__ import annotations

import asyncio
import hashlib

import numpy as np
import pytest

from fpgapool import client
from fpgapool.client import arrays
from tests.functional.allinone import harness
from tests.harness import waiting

#: More than one chunk, with a conversion, and not contiguous.
FRAMES = np.random.default_rng(3).normal(size=(1024, 700)).T


def test_arrays_by_both_doors(front_door: str | client.PoolApi) -> None:
    found = client.run_array(
        "fft",
        FRAMES,
        convert=True,
        frame_samples=1024,
        front_door=front_door,
        timeout_s=harness.LIMIT_S,
    )
    assert (found.dtype, found.shape) == (np.complex64, FRAMES.shape)
    assert np.allclose(found, np.fft.fft(FRAMES), atol=1e-3)
    again = arrays.fft(found, inverse=True, front_door=front_door)
    assert np.allclose(again, FRAMES, atol=1e-5)
    distances = arrays.dtw(
        np.zeros(4), np.ones((3, 4)), window_samples=0, front_door=front_door
    )
    assert distances.tolist() == [2.0, 2.0, 2.0]
    assert arrays.fft(found[:0], front_door=front_door).shape == (0, 1024)


def test_many_inputs(front_door: str | client.PoolApi) -> None:
    """More sessions than there are slots."""
    inputs = [bytes([number]) * 1000 for number in range(7)]
    found = client.map(
        "sha",
        iter(inputs),
        sessions=3,
        algorithm="sha1",
        front_door=front_door,
        timeout_s=harness.LIMIT_S,
    )
    assert list(found) == [hashlib.sha1(each).digest() for each in inputs]


def test_a_cancelled_task_gives_its_place_back(site: harness.Site) -> None:
    """It waits for the slots that others hold."""
    door = site.pool.front_door()

    async def run() -> None:
        queued = asyncio.Event()
        loop = asyncio.get_running_loop()

        def on_state(view: client.SessionView) -> None:
            if view.state == "QUEUED":
                loop.call_soon_threadsafe(queued.set)

        future = client.submit(
            "copy", b"abc", front_door=door, on_state=on_state
        )
        await asyncio.wait_for(queued.wait(), harness.LIMIT_S)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.wrap_future(future), 0)
        assert future.cancelled()

    with (
        client.acc_open("copy", 1, front_door=door),
        client.acc_open("copy", 1, front_door=door),
    ):
        asyncio.run(run())
        waiting.wait_until(
            lambda: harness.ask_pool(door)["waiting"] == 0,
            "the cancelled session waits",
        )
