# SPDX-License-Identifier: Apache-2.0

"""How much memory an idle worker has for itself."""

from __future__ import annotations

import pathlib
import statistics
import tempfile
import time
from collections.abc import Iterator
from unittest import mock

from fpgapool.agent.supervision import forks
from tests.benchmarks import measure
from tests.functional.agent import harness
from tests.harness import processes

TITLE = "Memory of an idle worker"
UNIT = "MiB"
SERVICES = True


def rows(plan: measure.Plan) -> Iterator[measure.Row]:
    """Private memory of forks, beside that of workers started alone."""
    slots = 2 if plan.tiny else 16
    repetitions = 1 if plan.tiny else plan.repetitions
    for tls in (False, True):
        samples, floors = [], []
        for _ in range(repetitions):
            samples.append(_sample(slots, tls))
            with mock.patch.object(forks.ForkServer, "launch"):
                floors.append(_sample(slots, tls))
        yield measure.Row(
            name=f"{slots} slots, {'TLS' if tls else 'no TLS'}",
            unit=UNIT,
            samples=samples,
            floor="a worker that is started alone",
            floor_samples=floors,
        )


def _sample(slots: int, tls: bool) -> measure.Sample:
    # Not where files of other programs are: paths of sockets are short.
    with tempfile.TemporaryDirectory(prefix="fpgapool-") as name:
        directory = pathlib.Path(name)
        board = {**harness.BOARDS["boards"][0], "slots": slots}
        with (
            mock.patch.dict(harness.BOARDS, boards=[board]),
            harness.running_host(directory, tls=tls) as host,
        ):
            start_s, cpu_s = time.monotonic(), time.process_time()
            host.start()
            for slot in range(slots):
                host.conductor.wait_for_slot(
                    slot, lambda one: one.state == "idle"
                )
            return measure.Sample(
                value=statistics.median(
                    _private_mib(one.pid)
                    for one in processes.find_workers(directory / "state")
                ),
                wall_s=time.monotonic() - start_s,
                cpu_s=time.process_time() - cpu_s,
            )


def _private_mib(pid: int) -> float:
    lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(
        int(line.split()[1]) / 1024
        for line in lines
        if line.startswith("Private_")
    )
