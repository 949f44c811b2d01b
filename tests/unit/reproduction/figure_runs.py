# SPDX-License-Identifier: Apache-2.0

"""Runs of figures, and the tables that they write."""

import csv
import functools
import pathlib
import typing
from collections.abc import Mapping
from collections.abc import Sequence

from reproduction.figures import experiments

_measure = functools.cache(experiments.measure_one)


def simulate(runs: Sequence[typing.Any], /) -> Mapping[typing.Any, typing.Any]:
    """Do each run once for all tests."""
    return {run: _measure(run) for run in runs}


def rows_of(path: pathlib.Path) -> list[dict[str, str]]:
    """Return the rows of a table."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
