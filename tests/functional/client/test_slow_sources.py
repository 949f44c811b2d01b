# SPDX-License-Identifier: Apache-2.0

"""Streams whose source gives little at a time."""

from __future__ import annotations

import io
import random
import threading

import pytest

from fpgapool import client
from fpgapool.client.transfers import feeding
from tests.functional.client import fakepool

CHUNK = fakepool.CHUNK_BYTES
PARAMS = {"key": b"\x12\x34"}
TIMEOUT_S = 30


def _run(pool, source, destination, size_bytes, **options):
    return client.run_stream(
        "copy",
        source,
        destination,
        size_bytes,
        params=PARAMS,
        front_door=pool.path,
        timeout_s=TIMEOUT_S,
        **options,
    )


class Dialogue(io.RawIOBase):
    """Gives some data, and more once their output has come."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self._data = data
        self._given_bytes = 0
        self._answered_bytes = 0
        self._changed = threading.Condition()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        start = self._given_bytes
        with self._changed:
            self._changed.wait_for(
                lambda: self._answered_bytes == start, TIMEOUT_S
            )
        data = self._data[start : start + min(100, len(buffer))]
        buffer[: len(data)] = data
        self._given_bytes += len(data)
        return len(data)

    def writable(self) -> bool:
        return True

    def write(self, output: memoryview) -> int:
        with self._changed:
            self._answered_bytes += len(output)
            self._changed.notify_all()
        return len(output)


class Buffered(io.BufferedIOBase):
    """Knows nothing but to read what is there."""

    def __init__(self, raw: io.RawIOBase) -> None:
        super().__init__()
        self.readinto = raw.readinto


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize(
    "wrap",
    [lambda raw: raw, io.BufferedReader, Buffered],
    ids=["raw", "reader", "other"],
)
def test_a_part_of_a_piece_is_not_kept(pools, monkeypatch, local, wrap):
    monkeypatch.setattr(feeding, "_LONGEST_KEPT_S", 0.01)
    dialogue = Dialogue(bytes(450))
    report = _run(pools(local=local), wrap(dialogue), dialogue, 450)
    assert report.output_bytes == 450


class Dribble(io.BytesIO):
    """Gives any number of bytes."""

    def __init__(self, data: bytes, chooser: random.Random) -> None:
        super().__init__(data)
        self._chooser = chooser

    def readinto(self, buffer: memoryview) -> int:
        count = self._chooser.randrange(1, CHUNK)
        return super().readinto(memoryview(buffer)[:count])


@pytest.mark.parametrize("local", [True, False])
def test_parts_go_through_lost_connections_and_slots(
    pools, monkeypatch, local
):
    # Now and then while there is something to read, too.
    monkeypatch.setattr(feeding, "_LONGEST_KEPT_S", 1e-4)
    chooser = random.Random(f"parts {local}")
    for _ in range(15):
        size_bytes = chooser.randrange(20 * CHUNK, 40 * CHUNK)
        # With shared memory there are headers only.
        span_bytes = 300 if local else size_bytes // 4
        budgets = [900 + chooser.randrange(span_bytes) for _ in range(2)]
        pool = pools(
            "double",
            budgets,
            spares=[fakepool.Worker("double", local=not local)],
            local=local,
            yields_at=size_bytes * 3 // 4,
        )
        data = chooser.randbytes(size_bytes)
        output = io.BytesIO()
        report = _run(pool, Dribble(data, chooser), output, size_bytes)
        core = fakepool.Core("double")
        assert output.getvalue() == core.process(data, 0) + core.finish()
        assert report.reconnects > 0
        assert report.reopens == 1
