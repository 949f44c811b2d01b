# SPDX-License-Identifier: Apache-2.0

"""The jobs: generated files and the user's own, from every host."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
from collections.abc import Mapping
from collections.abc import Sequence

import numpy as np

from demo import errors

AES = "aes"
KEY_BYTES = 32
IV_BYTES = 16

#: The picture must show even the smallest job.
_SMALLEST_SHARE = 0.15
#: The largest job must not run long after all others.
_LARGEST_SHARE = 4.0
_WRITE_BYTES = 4 * 1024 * 1024
#: Besides the files: database, logs and the picture.
_SPARE_BYTES = 100 * 1000 * 1000


@dataclasses.dataclass(frozen=True)
class Job:
    """One file to send through an accelerator.

    :ivar number: counts from 1.
    :ivar host: name of the host that it comes from.
    :ivar accelerator: its name.
    :ivar params: its parameters; may hold a key.
    :ivar source: the file.
    :ivar output: where the result goes.
    :ivar arrival_s: when the demo asks for it, from the start of the run.
    """

    number: int
    host: str
    accelerator: str
    params: Mapping[str, object] = dataclasses.field(repr=False)
    source: pathlib.Path
    output: pathlib.Path
    size_bytes: int
    arrival_s: float = 0.0


def check_files(paths: Sequence[pathlib.Path]) -> int:
    """Check that the user's files can be read.

    :param paths: the files.
    :returns: their size in bytes.
    :raises DemoError: naming the file that cannot.
    """
    total_bytes = 0
    for path in paths:
        try:
            with open(path, "rb") as stream:
                size_bytes = stream.seek(0, os.SEEK_END)
        except OSError as error:
            raise errors.DemoError(
                errors.INVALID_FILE, f"{path}: {error.strerror or error}"
            ) from error
        if not (path.is_file() and size_bytes):
            raise errors.DemoError(
                errors.INVALID_FILE, f"{path}: is empty or not a regular file"
            )
        total_bytes += size_bytes
    return total_bytes


def check_space(directory: pathlib.Path, files_bytes: int) -> None:
    """Check that inputs and outputs fit on the disk.

    :param directory: where they go.
    :param files_bytes: of all of them.
    :raises DemoError: if they do not.
    """
    needed_bytes = files_bytes + _SPARE_BYTES
    free_bytes = shutil.disk_usage(directory).free
    if free_bytes < needed_bytes:
        raise errors.DemoError(
            errors.NO_SPACE,
            f"{directory} has {free_bytes / 1e6:.0f} MB free,"
            f" {needed_bytes / 1e6:.0f} MB are needed; set TMPDIR to another"
            " directory, or reduce --total-mb",
        )


def draw_sizes_bytes(
    count: int, total_bytes: int, rng: np.random.Generator
) -> list[int]:
    """Draw sizes that vary exponentially, as those of real jobs.

    Each size comes from another one of equally likely parts of the
    distribution, so that a few jobs show its shape with any seed.

    :param count: number of sizes.
    :param total_bytes: the sum of the sizes, except for rounding.
    :param rng: source of random numbers.
    :returns: the sizes, in any order.
    """
    quantiles = (rng.permutation(count) + rng.random(count)) / count
    shares = -np.log1p(-quantiles) + _SMALLEST_SHARE
    shares = np.minimum(shares, _LARGEST_SHARE)
    sizes = shares / shares.sum() * total_bytes
    return [max(1, int(size)) for size in sizes]


def aes_params(rng: np.random.Generator) -> dict[str, object]:
    """Return a new key and first counter block."""
    return {"key": rng.bytes(KEY_BYTES), "iv": rng.bytes(IV_BYTES)}


def make_jobs(
    directory: pathlib.Path,
    hosts: Sequence[str],
    sizes_bytes: Sequence[int],
    user_files: Sequence[pathlib.Path],
    rng: np.random.Generator,
) -> list[Job]:
    """Generate files, and make a job of each and of each of the user's.

    :param directory: where inputs and outputs go.
    :param hosts: where the jobs come from, in turn.
    :param sizes_bytes: of the generated files.
    :param user_files: jobs that come first.
    :param rng: source of contents, keys and initial counter blocks.
    """
    sources = list(user_files)
    for number, size_bytes in enumerate(sizes_bytes, 1):
        path = directory / f"input{number}"
        _generate(path, size_bytes, rng)
        sources.append(path)
    return [
        Job(
            number=number,
            host=hosts[(number - 1) % len(hosts)],
            accelerator=AES,
            params=aes_params(rng),
            source=source,
            output=directory / f"output{number}",
            size_bytes=source.stat().st_size,
        )
        for number, source in enumerate(sources, 1)
    ]


def _generate(
    path: pathlib.Path, size_bytes: int, rng: np.random.Generator
) -> None:
    with open(path, "wb") as stream:
        while size_bytes:
            piece_bytes = min(size_bytes, _WRITE_BYTES)
            stream.write(rng.bytes(piece_bytes))
            size_bytes -= piece_bytes
