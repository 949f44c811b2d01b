# SPDX-License-Identifier: Apache-2.0

"""Transfers that overlap with computing, against the formula for it.

A chunk comes in i, is computed in x and goes out in o. Alone it takes
i + x + o; each further one should add what its longest stage takes. In an
iteration over cached blocks i is 0. The three are measured in the same run.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import statistics
import tempfile
import time
import typing
from collections.abc import Callable
from collections.abc import Iterator
from unittest import mock

from fpgapool import client
from fpgapool.accelerators import base
from fpgapool.client.groups import group as client_group
from fpgapool.client.groups import grouplink
from tests.benchmarks import group
from tests.benchmarks import measure
from tests.benchmarks import slot
from tests.benchmarks import stages
from tests.harness import slots

TITLE = "Transfers that overlap with computing"
UNIT = "formula / measured"
SERVICES = True

#: A stage takes about so long, much longer than a thread's turn.
_STAGE_S = 0.02
_LINK_BYTES_PER_S = int(slot.CHUNK_BYTES / _STAGE_S)
_CHUNKS = (4, 16, 64)

_BLOCK_BYTES = 1024 * 1024
_MEMBERS = (1, 4)
#: Iterations after which each block is where it is used, at most.
_WARM_UPS = 20


class Stages(typing.NamedTuple):
    """How long a chunk takes in each stage, in seconds."""

    into_s: float
    computing_s: float
    out_s: float

    def formula_s(self, chunks: int) -> float:
        """Return how long so many chunks should take."""
        return sum(self) + (chunks - 1) * max(self)


def rows(plan: measure.Plan) -> Iterator[measure.Row]:
    """Sessions over a link, and cached iterations in groups."""
    with tempfile.TemporaryDirectory(prefix="fpgapool-") as name:
        stages.write_profile(pathlib.Path(name))
        variables = {base.DIRECTORY_VARIABLE: name}
        with mock.patch.dict(os.environ, variables):
            with slot.opened("tcp") as door:
                yield from _session(door, plan)
            for members in _MEMBERS:
                with group.opened(members, 1, stages.NAME) as pool:
                    yield from _cached(pool, members, plan)


def _session(door: slots.Door, plan: measure.Plan) -> Iterator[measure.Row]:
    found: list[Stages] = []
    ratios: dict[int, list[measure.Sample]] = {}
    counts = (2,) if plan.tiny else _CHUNKS
    most_bytes = counts[-1] * slot.CHUNK_BYTES
    data, into = slot.memory(most_bytes), slot.memory(most_bytes)
    for _ in range(plan.repetitions):
        found.append(_session_stages(door, 1 if plan.tiny else 5))
        for chunks in counts:
            length_bytes = chunks * slot.CHUNK_BYTES
            with measure.stopwatch() as watch:
                _, report = client.run_buffer(
                    stages.NAME,
                    data[:length_bytes],
                    into=into[:length_bytes],
                    **_options(door, piece_s=found[-1].computing_s),
                )
            ratios.setdefault(chunks, []).append(
                _sample(found[-1].formula_s(chunks), report.ran_s, watch)
            )
    yield from _stage_rows("TCP", found)
    for chunks, samples in ratios.items():
        yield measure.Row(f"TCP, {chunks} chunks", UNIT, samples)


def _options(door: slots.Door, **params: object) -> dict[str, typing.Any]:
    return {
        "params": {**params, "link_bytes_per_s": _LINK_BYTES_PER_S},
        "cancel": stages.Link(_LINK_BYTES_PER_S),
        "front_door": door.path,
    }


def _session_stages(door: slots.Door, count: int) -> Stages:
    """Measure each stage without the others."""

    def alone_s(length_bytes: int, **params: object) -> float:
        options = _options(door, **params)
        with client.acc_open(stages.NAME, 10**12, **options) as session:
            session.pin[:length_bytes] = bytes(length_bytes)
            # What is new in a session.
            session.run(length_bytes)
            return _median_s(
                functools.partial(session.run, length_bytes), count
            )

    into_s = alone_s(slot.CHUNK_BYTES, is_sink=True)
    out_s = alone_s(1, into_bytes=slot.CHUNK_BYTES)
    computing_s = alone_s(1, piece_s=max(into_s, out_s))
    return Stages(into_s, computing_s, out_s)


def _cached(
    pool: group.Pool, members: int, plan: measure.Plan
) -> Iterator[measure.Row]:
    tasks = members * (2 if plan.tiny else 16)
    blocks = [
        client.Block(number.to_bytes(2, "big") * (_BLOCK_BYTES // 2))
        for number in range(tasks)
    ]
    found, ratios, sent = [], [], []
    with client_group.group_open("group", front_door=pool.door(0)) as opened:
        params = {"piece_s": _STAGE_S}

        def iterate() -> float:
            started_s = time.perf_counter()
            for _ in opened.map(blocks, params=params):
                pass
            return time.perf_counter() - started_s

        with _sent_to_desks() as lengths:
            for _ in range(_WARM_UPS):
                lengths.clear()
                iterate()
                if sum(lengths) < 0.01 * tasks * _BLOCK_BYTES:
                    break
        for _ in range(plan.repetitions):
            found.append(_group_stages(opened, blocks[0], 2 * members))
            with _sent_to_desks() as lengths, measure.stopwatch() as watch:
                taken_s = iterate()
            formula_s = found[-1].formula_s(tasks // members)
            ratios.append(_sample(formula_s, taken_s, watch))
            sent.append(
                measure.Sample(
                    100 * sum(lengths) / (tasks * _BLOCK_BYTES),
                    watch.wall_s,
                    watch.cpu_s,
                )
            )
    name = f"group of {members}, cached"
    yield from _stage_rows(name, found)
    yield measure.Row(f"{name}, {tasks} tasks", UNIT, ratios)
    yield measure.Row(f"{name}, sent", "% of the data", sent)


def _group_stages(
    opened: client.Group, block: client.Block, count: int
) -> Stages:
    def alone_s(data: object, **params: object) -> float:
        return _median_s(lambda: opened.run(data, params=params), count)

    out_s = alone_s(block)
    return Stages(0.0, alone_s(b"x", piece_s=_STAGE_S), out_s)


@contextlib.contextmanager
def _sent_to_desks() -> Iterator[list[int]]:
    """Give the lengths of all records that go to desks."""
    lengths: list[int] = []
    put = grouplink.Link._put

    def counted(link: grouplink.Link, parts: list[bytes]) -> object:
        taken = put(link, parts)
        if taken:
            lengths.append(sum(map(len, parts)))
        return taken

    with mock.patch.object(grouplink.Link, "_put", counted):
        yield lengths


def _median_s(run: Callable[[], object], count: int) -> float:
    taken_s = []
    for _ in range(count):
        started_s = time.perf_counter()
        run()
        taken_s.append(time.perf_counter() - started_s)
    return statistics.median(taken_s)


def _sample(
    formula_s: float, taken_s: float, watch: measure.Stopwatch
) -> measure.Sample:
    return measure.Sample(formula_s / taken_s, watch.wall_s, watch.cpu_s)


def _stage_rows(name: str, found: list[Stages]) -> Iterator[measure.Row]:
    for stage in ("into_s", "computing_s", "out_s"):
        values_ms = [1e3 * getattr(one, stage) for one in found]
        if any(values_ms):
            yield measure.Row(
                f"{name}, {stage.removesuffix('_s')}",
                "ms",
                [
                    measure.Sample(value, value / 1e3, value / 1e3)
                    for value in values_ms
                ],
            )
