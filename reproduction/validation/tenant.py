# SPDX-License-Identifier: Apache-2.0

"""A client of the real system: the jobs of one host, each at its time.

A program of its own, ``python -m reproduction.validation.tenant``. It reads
an :class:`Order`, a line of JSON, from standard input, says that it is ready,
reads when to begin (``CLOCK_MONOTONIC``, in seconds), and writes a list of
:class:`Times` when all jobs are done.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import sys
import time
import typing
from collections.abc import Mapping

import msgspec
import numpy as np

if typing.TYPE_CHECKING:
    from fpgapool import client

READY: typing.Final = b"ready\n"

_FLOAT_BYTES = 4
_DTW_SAMPLES = 128
_DTW_WINDOW_SAMPLES = 4
_FFT_SAMPLES = 1024


@dataclasses.dataclass(frozen=True)
class Kind:
    """The jobs of an accelerator.

    :ivar params: its parameters; keys protect nothing here.
    :ivar unit_bytes: the input is a multiple of this.
    :ivar has_numbers: whether the input has numbers of single precision; if
        not, it has any bytes.
    """

    params: Mapping[str, object] = dataclasses.field(default_factory=dict)
    unit_bytes: int = 1
    has_numbers: bool = False


#: DTW compares within a narrow band, as is usual: a whole matrix for each
#: pair would cost the processors more than ten times as much.
KINDS = {
    "aes": Kind({"key": bytes(range(32)), "iv": bytes(16)}),
    "ec": Kind({"k": 4, "m": 2, "stripe_bytes": 65536}, unit_bytes=65536),
    "dtw": Kind(
        {
            "length_samples": _DTW_SAMPLES,
            "window_samples": _DTW_WINDOW_SAMPLES,
        },
        unit_bytes=2 * _DTW_SAMPLES * _FLOAT_BYTES,
        has_numbers=True,
    ),
    "fft": Kind(
        {"frame_samples": _FFT_SAMPLES},
        unit_bytes=2 * _FFT_SAMPLES * _FLOAT_BYTES,
        has_numbers=True,
    ),
    "sha": Kind({"algorithm": "sha256"}),
}


class Task(msgspec.Struct, frozen=True):
    """A job to be done.

    :ivar arrival_s: when to ask for it, from the beginning.
    """

    id: int
    accelerator: str
    size_bytes: int
    arrival_s: float


class Order(msgspec.Struct, frozen=True):
    """The jobs for this program.

    :ivar front_door: socket of its host.
    :ivar timeout_s: for each job, from its arrival on.
    :ivar warm_slots: the number of all slots: before the program is ready, it
        uses each accelerator once in each slot; 0: it only tries the pool.
    """

    front_door: str
    timeout_s: float
    tasks: list[Task]
    warm_slots: int = 0


class Times(msgspec.Struct, frozen=True):
    """The result of a job; times count from the beginning.

    :ivar arrival_s: when the program really asked for it.
    :ivar start_s: when its slot was ready.
    :ivar finish_s: when its last output had arrived.
    :ivar host: name of the slot's host.
    """

    id: int
    arrival_s: float
    start_s: float
    finish_s: float
    host: str
    slot: int
    local: bool


def main() -> int:
    """Run the jobs that standard input has.

    :returns: the exit code.
    """
    from fpgapool import client

    line = sys.stdin.buffer.readline()
    order = msgspec.json.decode(line, type=Order)
    contents = _contents(order)
    try:
        warm(order)
        _write(READY)
        line = sys.stdin.buffer.readline()
        if not line:
            # The program that started this one has ended.
            return 1
        times = run_tasks(order, contents, float(line))
    except client.FpgapoolError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    _write(msgspec.json.encode(times))
    return 0


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _contents(order: Order) -> dict[str, memoryview]:
    """Return, for each accelerator, the input of its largest job."""
    rng = np.random.default_rng(0)
    largest_bytes: dict[str, int] = {}
    for task in order.tasks:
        known_bytes = largest_bytes.get(task.accelerator, 0)
        largest_bytes[task.accelerator] = max(known_bytes, task.size_bytes)
    contents = {}
    for name, size_bytes in largest_bytes.items():
        if KINDS[name].has_numbers:
            count = size_bytes // _FLOAT_BYTES
            numbers = rng.standard_normal(count, dtype=np.float32)
            data = numbers.astype("<f4").tobytes()
        else:
            data = rng.bytes(size_bytes)
        contents[name] = memoryview(data)
    return contents


def warm(order: Order) -> None:
    """Use all accelerators once, so that workers load their software.

    :raises fpgapool.client.FpgapoolError: if one fails.
    """
    from demo import warming

    works = [
        warming.Work(name, kind.params, kind.unit_bytes)
        for name, kind in KINDS.items()
    ]
    warming.warm_up(
        works if order.warm_slots else [],
        max(1, order.warm_slots),
        order.front_door,
        order.timeout_s,
    )


def run_tasks(
    order: Order, contents: Mapping[str, memoryview], start_s: float
) -> list[Times]:
    """Run each job at its time; stop all when one fails.

    :param contents: input by accelerator, enough for each job.
    :param start_s: monotonic time of the beginning.
    :raises fpgapool.client.FpgapoolError: the first failure.
    """
    from fpgapool import client

    cancel = client.CancelToken()

    def run(task: Task) -> Times:
        cancel.wait(max(0.0, start_s + task.arrival_s - time.monotonic()))
        arrival_s = time.monotonic() - start_s
        _output, report = client.run_buffer(
            task.accelerator,
            contents[task.accelerator][: task.size_bytes],
            params=KINDS[task.accelerator].params,
            front_door=order.front_door,
            timeout_s=order.timeout_s,
            cancel=cancel,
            # The worker checks the parameters in any case.
            verify=False,
        )
        return _times(task, arrival_s, report)

    with concurrent.futures.ThreadPoolExecutor(len(order.tasks)) as executor:
        futures = [executor.submit(run, task) for task in order.tasks]
        done, _ = concurrent.futures.wait(
            futures, return_when=concurrent.futures.FIRST_EXCEPTION
        )
        for future in done:
            failure = future.exception()
            if failure is not None:
                cancel.cancel()
                raise failure
    return [future.result() for future in futures]


def _times(task: Task, arrival_s: float, report: client.RunReport) -> Times:
    start_s = arrival_s + report.waited_s
    return Times(
        id=task.id,
        arrival_s=arrival_s,
        start_s=start_s,
        finish_s=start_s + report.ran_s,
        host=str(report.host),
        slot=-1 if report.slot is None else report.slot,
        local=report.local,
    )


if __name__ == "__main__":
    sys.exit(main())
