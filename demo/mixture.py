# SPDX-License-Identifier: Apache-2.0

"""A mixed load: every host asks for every accelerator, at any time.

The load is drawn from a seed before anything runs, so that several strategies
get the very same jobs.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable
from collections.abc import Sequence

import numpy as np

from demo import workload

DTW_LENGTH_SAMPLES = 128
DTW_WINDOW_SAMPLES = 4
FFT_FRAME_SAMPLES = 1024

_FLOAT_BYTES = 4

Params = dict[str, object]


@dataclasses.dataclass(frozen=True)
class Kind:
    """The requests for one accelerator.

    :ivar accelerator: its name.
    :ivar make_params: draws its parameters.
    :ivar unit_bytes: the input is a multiple of this.
    :ivar has_numbers: whether the input has numbers of single precision; if
        not, it has any bytes.
    """

    accelerator: str
    make_params: Callable[[np.random.Generator], Params]
    unit_bytes: int = 1
    has_numbers: bool = False


#: All accelerators of the papers. DTW compares within a narrow band, as is
#: usual: a whole matrix for each pair would cost more than ten times as much.
KINDS = (
    Kind(workload.AES, workload.aes_params),
    Kind("ec", lambda _rng: {"k": 4, "m": 2, "stripe_bytes": 65536}),
    Kind(
        "dtw",
        lambda _rng: {
            "length_samples": DTW_LENGTH_SAMPLES,
            "window_samples": DTW_WINDOW_SAMPLES,
        },
        unit_bytes=2 * DTW_LENGTH_SAMPLES * _FLOAT_BYTES,
        has_numbers=True,
    ),
    Kind(
        "fft",
        lambda _rng: {"frame_samples": FFT_FRAME_SAMPLES},
        unit_bytes=2 * FFT_FRAME_SAMPLES * _FLOAT_BYTES,
        has_numbers=True,
    ),
    Kind("sha", lambda _rng: {"algorithm": "sha256"}),
)


@dataclasses.dataclass(frozen=True)
class Request:
    """A job without its file.

    :ivar arrival_s: counts from the start of the run.
    """

    host: str
    kind: Kind
    size_bytes: int
    arrival_s: float


def draw_requests(
    tenants: Sequence[str],
    count: int,
    total_bytes: int,
    duration_s: float,
    rng: np.random.Generator,
) -> list[Request]:
    """Draw the requests of all tenants.

    Every tenant asks equally often for every accelerator, for small and for
    large jobs, so that no strategy is lucky. Arrivals are those of a Poisson
    process for each host, given how many there are.

    :param tenants: name of each tenant's host.
    :param count: number of jobs.
    :param total_bytes: of all jobs, except for rounding.
    :param duration_s: all jobs arrive in this time.
    :param rng: source of random numbers.
    :returns: the requests in the order of their arrivals.
    """
    sizes_bytes = sorted(workload.draw_sizes_bytes(count, total_bytes, rng))
    pairs = [(host, kind) for host in tenants for kind in KINDS]
    dealt: list[tuple[str, Kind]] = []
    # Among neighbours in size, each pair comes once before any comes again.
    while len(dealt) < count:
        dealt += [pairs[index] for index in rng.permutation(len(pairs))]
    requests = [
        Request(host, kind, _whole_units(size_bytes, kind), arrival_s)
        for (host, kind), size_bytes, arrival_s in zip(
            dealt,
            sizes_bytes,
            rng.uniform(0, duration_s, count).tolist(),
            strict=False,
        )
    ]
    return sorted(requests, key=lambda request: request.arrival_s)


def _whole_units(size_bytes: int, kind: Kind) -> int:
    return max(1, round(size_bytes / kind.unit_bytes)) * kind.unit_bytes


def make_jobs(
    directory: pathlib.Path,
    requests: Sequence[Request],
    rng: np.random.Generator,
) -> list[workload.Job]:
    """Write an input for each request.

    :param directory: where inputs and outputs go.
    :param requests: the requests.
    :param rng: source of contents and keys.
    """
    jobs = []
    for number, request in enumerate(requests, 1):
        source = directory / f"input{number}"
        source.write_bytes(_content(request, rng))
        jobs.append(
            workload.Job(
                number=number,
                host=request.host,
                accelerator=request.kind.accelerator,
                params=request.kind.make_params(rng),
                source=source,
                output=directory / f"output{number}",
                size_bytes=request.size_bytes,
                arrival_s=request.arrival_s,
            )
        )
    return jobs


def _content(request: Request, rng: np.random.Generator) -> bytes:
    if not request.kind.has_numbers:
        return rng.bytes(request.size_bytes)
    count = request.size_bytes // _FLOAT_BYTES
    numbers = rng.standard_normal(count, dtype=np.float32)
    return numbers.astype("<f4").tobytes()
