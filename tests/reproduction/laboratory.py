# SPDX-License-Identifier: Apache-2.0

"""Does simulations on all processors."""

from __future__ import annotations

import multiprocessing
import typing
from collections.abc import Mapping
from collections.abc import Sequence

from fpgapool.sim.experiments import crews
from reproduction.figures import experiments


def simulate(runs: Sequence[typing.Any], /) -> Mapping[typing.Any, typing.Any]:
    """Return the result of each run."""
    processes = multiprocessing.cpu_count()
    return dict(
        crews.work_here(
            experiments.measure_one, list(dict.fromkeys(runs)), processes
        )
    )
