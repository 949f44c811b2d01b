# SPDX-License-Identifier: Apache-2.0

"""Chains, against the slower one of their stages alone.

The boards have their modelled rates, scaled down so far that this machine can
do what two boards and two network cards do at once.
"""

from __future__ import annotations

import gzip
import random
import time
from collections.abc import Callable
from collections.abc import Iterator

from fpgapool import client
from tests.benchmarks import measure
from tests.functional.allinone import harness
from tests.harness import programs

TITLE = "Chains, from worker to worker"
UNIT = "MB/s"
FLOOR = "slower stage alone"
SERVICES = True

_STAGES = "gzip", "aes"
_PARAMS = {"aes": {"key": programs.KEY, "iv": programs.IV}}
_RATE_SCALE = 0.0025
_LIMIT_S = 600.0
#: Half of it can be compressed.
_BLOCK_BYTES = 2**19

_POOLS = {
    "one host": ("--hosts=1", "--boards=2", "--slots=1"),
    "two hosts": ("--hosts=2", "--boards=2", "--slots=1"),
}


def rows(plan: measure.Plan) -> Iterator[measure.Row]:
    """Compress, then encrypt, with both slots on one host and on two."""
    data = _data(2 if plan.tiny else 24)
    for where, size in _POOLS.items():
        with harness.running_pool(
            *size, f"--rate-scale={_RATE_SCALE}"
        ) as pool:
            samples, floors = [], []
            # The first sessions program the slots.
            _chain(pool, data[:_BLOCK_BYTES])
            for _ in range(plan.repetitions):
                floors.append(_slower(pool, data))
                samples.append(_sample(data, lambda: _chain(pool, data)))
        yield measure.Row(
            f"{' + '.join(_STAGES)}, {where}", UNIT, samples, FLOOR, floors
        )


def _data(mib: int) -> bytes:
    rng = random.Random(1)
    return b"".join(rng.randbytes(_BLOCK_BYTES) * 2 for _ in range(mib))


def _sample(data: bytes, run: Callable[[], float]) -> measure.Sample:
    cpu_s = time.process_time()
    ran_s = run()
    cpu_s = time.process_time() - cpu_s
    return measure.Sample(len(data) / 1e6 / ran_s, ran_s, cpu_s)


def _chain(pool: harness.Pool, data: bytes) -> float:
    """Return how long the chain takes, once it has its slots."""
    chain = client.chain(
        *_STAGES, params=_PARAMS, front_door=pool.front_door()
    )
    output, report = chain.run_buffer(data, timeout_s=_LIMIT_S)
    plain = gzip.decompress(programs.encrypted(bytes(output)))
    if plain != data:
        raise AssertionError("the chain's output is wrong")
    return report.ran_s


def _slower(pool: harness.Pool, data: bytes) -> measure.Sample:
    """Run each stage alone, on the same data."""
    passed, slowest_s = data, 0.0
    cpu_s = time.process_time()
    for accelerator in _STAGES:
        output, report = client.run_buffer(
            accelerator,
            passed,
            params=_PARAMS.get(accelerator),
            front_door=pool.front_door(),
            timeout_s=_LIMIT_S,
        )
        slowest_s = max(slowest_s, report.ran_s)
        passed = bytes(output)
    cpu_s = time.process_time() - cpu_s
    return measure.Sample(len(data) / 1e6 / slowest_s, slowest_s, cpu_s)
