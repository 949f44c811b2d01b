# SPDX-License-Identifier: Apache-2.0

"""The demo's checks: real outputs pass, and one wrong byte is found."""

import dataclasses
import itertools
import pathlib
import random
from collections.abc import Callable

import numpy as np
import pytest

from demo import errors
from demo import mixture
from demo import verification
from demo import workload
from demo.verification import decryption
from demo.verification import distances
from demo.verification import erasures
from tests.unit.accelerators import runs

KINDS = {kind.accelerator: kind for kind in mixture.KINDS}
TOOLS = sorted({decryption.TOOL, decryption.CRYPTOGRAPHY})

Change = Callable[[bytes], bytes]


def flip(data: bytes, position: int) -> bytes:
    """Change the highest bit of a byte."""
    changed = bytearray(data)
    changed[position] ^= 0x80
    return bytes(changed)


CHANGES: dict[str, Change] = {
    # The highest byte, where the output is numbers of single precision.
    "fourth byte": lambda data: flip(data, 3),
    "last byte": lambda data: flip(data, -1),
    "shorter": lambda data: data[:-1],
    "longer": lambda data: data + b"x",
    "empty": lambda _data: b"",
}


@pytest.fixture(params=sorted(KINDS))
def job(
    request: pytest.FixtureRequest, tmp_path: pathlib.Path
) -> workload.Job:
    """Give a job of each kind, with the output of its core."""
    kind = KINDS[request.param]
    rng = np.random.default_rng(5)
    # No whole number of stripes or blocks.
    size_bytes = 70_001 if kind.unit_bytes == 1 else 9 * kind.unit_bytes
    requests = [mixture.Request("node1", kind, size_bytes, 0.0)]
    (made,) = mixture.make_jobs(tmp_path, requests, rng)
    params = {
        name: value.hex() if isinstance(value, bytes) else value
        for name, value in made.params.items()
    }
    core = runs.load(kind.accelerator, **params)
    made.output.write_bytes(
        runs.run(
            core,
            made.source.read_bytes(),
            [1],
            runs.multiple_bytes(kind.accelerator, core),
        )
    )
    return made


def check(*jobs: workload.Job) -> int:
    """Check outputs and count them."""
    counter = itertools.count()
    verification.check_outputs(jobs, lambda: next(counter))
    return next(counter)


def test_there_is_a_check_for_every_kind() -> None:
    assert set(verification.CHECKS) == set(KINDS)


def test_real_output_is_accepted(job: workload.Job) -> None:
    assert check(job, job) == 2


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_wrong_output_is_found(job: workload.Job, change: Change) -> None:
    job.output.write_bytes(change(job.output.read_bytes()))
    with pytest.raises(errors.DemoError) as caught:
        check(job)
    assert caught.value.code == errors.WRONG_OUTPUT
    assert f"job 1, {job.accelerator}" in caught.value.message


def test_one_wrong_byte_anywhere_is_found(job: workload.Job) -> None:
    right = job.output.read_bytes()
    is_right, _who = verification.CHECKS[job.accelerator]
    for position in random.Random(6).sample(range(len(right)), 20):
        # Of a number, bytes that count.
        if job.accelerator in ("dtw", "fft"):
            position |= 3
        job.output.write_bytes(flip(right, position))
        assert not is_right(job), position


def test_output_of_another_input_is_found(job: workload.Job) -> None:
    data = job.source.read_bytes()
    unit_bytes = KINDS[job.accelerator].unit_bytes
    job.source.write_bytes(data[unit_bytes:] + data[:unit_bytes])
    with pytest.raises(errors.DemoError):
        check(job)


@pytest.mark.parametrize("job", ["dtw", "fft"], indirect=True)
def test_what_is_no_number_is_found(job: workload.Job) -> None:
    right = job.output.read_bytes()
    for number in (np.nan, np.inf, -np.inf):
        junk = np.full(len(right) // 4, number, "<f4").tobytes()
        if job.accelerator == "dtw":
            junk = np.full(len(right) // 8, number, "<f8").tobytes()
        job.output.write_bytes(junk)
        with pytest.raises(errors.DemoError):
            check(job)


def test_missing_output_is_found(job: workload.Job) -> None:
    job.output.unlink()
    with pytest.raises(errors.DemoError) as caught:
        check(job)
    assert caught.value.code == errors.WRONG_OUTPUT


@pytest.mark.parametrize("job", ["aes"], indirect=True)
@pytest.mark.parametrize("tool", TOOLS)
def test_tools_agree(job: workload.Job, tool: str) -> None:
    # A counter block that is about to run over.
    params = {**job.params, "iv": b"\xff" * 16}
    over = dataclasses.replace(job, params=params)
    core = runs.load("aes", key=params["key"].hex(), iv="ff" * 16)
    assert not decryption.is_right(over, tool)
    over.output.write_bytes(runs.run(core, over.source.read_bytes()))
    assert decryption.is_right(over, tool)


def test_distances_by_hand() -> None:
    pairs = np.array(
        [
            [[0.0, 1.0, 2.0], [0.0, 1.0, 4.0]],
            # The second one is late by a sample.
            [[5.0, 0.0, 0.0], [0.0, 5.0, 0.0]],
        ]
    )
    assert distances.distances(pairs, 0) == pytest.approx([2.0, 50.0**0.5])
    assert distances.distances(pairs, 1) == pytest.approx([2.0, 5.0])


def test_lost_fragments_are_solved_for() -> None:
    """Whatever is lost, by the sums that the format is defined by."""
    k, m = 5, 3
    rng = np.random.default_rng(8)
    data = list(rng.integers(0, 256, (k, 60), np.uint8))
    core = runs.load("ec", k=k, m=m, stripe_bytes=k * 60)
    record = runs.run(core, b"".join(each.tobytes() for each in data))
    body = np.frombuffer(record, np.uint8)[-(k + m) * 60 :]
    for lost in itertools.combinations(range(k), m):
        fragments = list(body.reshape(k + m, 60))
        for index in lost:
            fragments[index] = np.zeros(60, np.uint8)
        solved = erasures.solve(fragments, k, lost)
        for index, fragment in zip(lost, solved, strict=True):
            assert (fragment == data[index]).all()
