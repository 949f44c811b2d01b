# SPDX-License-Identifier: Apache-2.0

"""From the arrival of a higher priority to its slot, beside chunks and opens.

A session of low priority has the only slot, and may lose it after each chunk.
The floor is the time of three of its chunks and of one open with a free slot,
all measured in the same run.
"""

from __future__ import annotations

import pathlib
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator

import yaml

from fpgapool import client
from fpgapool.accelerators import base
from tests.benchmarks import measure
from tests.benchmarks import opener
from tests.benchmarks import servers
from tests.harness import cloud as clouds

TITLE = "A higher priority takes a slot, quantum of one chunk, RabbitMQ"
SERVICES = True
FLOOR = "3 chunks and an open"

_CHUNK_BYTES = 4 * 1024 * 1024
# A chunk takes 0.1 s.
_PEAK_BYTES_PER_S = 10 * _CHUNK_BYTES
_OPTIONS = {
    "conductor": {"fair_share": True},
    "scheduler": {
        "preempt": "fine",
        "preempt_quantum_bytes": _CHUNK_BYTES,
    },
}


class _Low(threading.Thread):
    """Has the slot whenever no other session does, and times its chunks.

    :ivar chunks_s: how long each took, also those for which it had to wait.
    :ivar enough: tells it to stop.
    :ivar begun: a chunk is done.
    """

    def __init__(self, front_door: str) -> None:
        super().__init__()
        self._front_door = front_door
        self.chunks_s: list[float] = []
        self.enough = threading.Event()
        self.begun = threading.Event()

    def run(self) -> None:
        with client.acc_open(
            "copy", 10**12, front_door=self._front_door, priority=-1
        ) as session:
            while not self.enough.is_set():
                start_s = time.perf_counter()
                client.acc_run(session, _CHUNK_BYTES)
                self.chunks_s.append(time.perf_counter() - start_s)
                self.begun.set()


def rows(plan: measure.Plan) -> Iterator[measure.Row]:
    """Measure with one slot."""
    count = 2 if plan.tiny else 20
    samples, floors = [], []
    with tempfile.TemporaryDirectory() as directory:
        _write_profile(pathlib.Path(directory))
        with servers.running_cloud(
            clouds.HostPlan("board", slots=1, paced=True),
            options=_OPTIONS,
            variables={base.DIRECTORY_VARIABLE: directory},
        ) as cloud:
            door = cloud.hosts["board"].socket_path()
            opener.open_and_close(door)
            for _ in range(plan.repetitions):
                taken, floor = _measured(door, count)
                samples.append(taken)
                floors.append(floor)
    yield measure.Row(
        name="from the arrival to the slot",
        unit=opener.UNIT,
        samples=samples,
        floor=FLOOR,
        floor_samples=floors,
    )


def _write_profile(directory: pathlib.Path) -> None:
    """Describe a slow ``copy``."""
    path = pathlib.Path(base.__file__).parent / "profiles" / "copy.yaml"
    profile = yaml.safe_load(path.read_text())
    profile["peak_bytes_per_s"] = float(_PEAK_BYTES_PER_S)
    (directory / "copy.yaml").write_text(yaml.safe_dump(profile))


def _measured(
    front_door: str, count: int
) -> tuple[measure.Sample, measure.Sample]:
    opens = opener.timed(lambda: opener.open_and_close(front_door), count)
    low = _Low(front_door)
    low.start()
    low.begun.wait()
    taken_s = []
    with measure.stopwatch() as watch:
        for _ in range(count):
            before = len(low.chunks_s)
            start_s = time.perf_counter()
            session = client.acc_open(
                "copy",
                opener.SIZE_BYTES,
                front_door=front_door,
                priority=5,
            )
            taken_s.append(time.perf_counter() - start_s)
            client.acc_close(session)
            # It has the slot again, and has just begun a chunk.
            while len(low.chunks_s) < before + 2:
                low.begun.clear()
                low.begun.wait()
    low.enough.set()
    low.join()
    chunk_s = statistics.median(low.chunks_s)
    floor_ms = 3e3 * chunk_s + opens.median().value
    taken_ms = 1e3 * statistics.median(taken_s)
    return (
        measure.Sample(taken_ms, watch.wall_s, watch.cpu_s),
        measure.Sample(floor_ms, watch.wall_s, watch.cpu_s),
    )
