# SPDX-License-Identifier: Apache-2.0

"""Checks of outputs by computations without fpgapool."""

from __future__ import annotations

import concurrent.futures
import os
from collections.abc import Callable
from collections.abc import Sequence

from demo import errors
from demo import workload
from demo.verification import decryption
from demo.verification import distances
from demo.verification import erasures
from demo.verification import spectra
from demo.verification import sums

Check = Callable[[workload.Job], bool]

#: By accelerator, a check of a job's output, and its description.
CHECKS: dict[str, tuple[Check, str]] = {
    "aes": (decryption.is_right, f"{decryption.TOOL} decrypts it"),
    "dtw": (distances.is_right, "numpy fills the matrices"),
    "ec": (
        erasures.is_right,
        "dropped fragments can be restored",
    ),
    "fft": (spectra.is_right, "numpy transforms its frames"),
    "sha": (sums.is_right, "hashlib has the same digest"),
}


def check_outputs(
    jobs: Sequence[workload.Job], on_checked: Callable[[], object]
) -> None:
    """Check every output against its input.

    :param jobs: the jobs, done.
    :param on_checked: called after each output, in any thread.
    :raises DemoError: if an output is wrong or missing.
    """

    def check(job: workload.Job) -> None:
        _check(job)
        on_checked()

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as executor:
        try:
            futures = [executor.submit(check, job) for job in jobs]
            for future in futures:
                future.result()
        finally:
            executor.shutdown(cancel_futures=True)


def _check(job: workload.Job) -> None:
    is_right, _ = CHECKS[job.accelerator]
    if not job.output.exists() or not is_right(job):
        raise errors.DemoError(
            errors.WRONG_OUTPUT,
            f"job {job.number}, {job.accelerator} from {job.host}: the"
            " output is not that of the input",
        )
