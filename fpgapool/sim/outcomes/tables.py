# SPDX-License-Identifier: Apache-2.0

"""The jobs of runs as a table, for a DataFrame: CSV, or Apache Parquet."""

from __future__ import annotations

import csv
import importlib
import importlib.util
import io
import pathlib
import typing
from collections.abc import Iterable
from collections.abc import Iterator

from fpgapool.sim import errors
from fpgapool.sim import files
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import metrics
from fpgapool.sim.outcomes import results

_PARQUET = ".parquet"
#: The extensions of files that are tables.
SUFFIXES = (".csv", _PARQUET)
# Of JSON; pipes and devices have none.
_DOCUMENTS = (".json", "")
#: The columns, and their types in Apache Arrow. All but ``slowdown``,
#: ``energy_j`` and ``set_id`` of a job are always known, except for its hosts
#: and slot.
COLUMNS = {
    "strategy": "string",
    "seed": "int64",
    "id": "int64",
    "name": "string",
    "tenant": "string",
    "accelerator": "string",
    "data_host": "int64",
    "size_bytes": "float64",
    "arrival_s": "float64",
    "start_s": "float64",
    "finish_s": "float64",
    "completion_s": "float64",
    "wait_s": "float64",
    "slowdown": "float64",
    "host": "int64",
    "slot": "int64",
    "local": "bool_",
    "programmings": "int64",
    "preemptions": "int64",
    "interruptions": "int64",
    "energy_j": "float64",
    "warm_up": "bool_",
    "set_id": "string",
}


class Run(typing.NamedTuple):
    """The result of a scenario under one strategy with one seed."""

    strategy: str
    seed: int
    result: results.Result


def check(path: pathlib.Path) -> None:
    """Check before a run that its results can be written after it.

    :raises errors.InputError: if the extension is of no format, or Parquet's
        library is not installed.
    """
    if path.suffix not in (*SUFFIXES, *_DOCUMENTS):
        raise errors.InputError(
            str(path),
            "",
            f"{path.suffix} is of no format; name a .json, .csv or .parquet "
            "file",
        )
    if path.suffix == _PARQUET and importlib.util.find_spec("pyarrow") is None:
        raise errors.InputError(
            str(path),
            "",
            "pyarrow is not installed; install it with: "
            "pip install 'fpgapool[parquet]', or name a .csv file",
        )


def write(
    scenario: scenarios.Scenario,
    runs: Iterable[Run],
    path: pathlib.Path,
    warm_up_s: float,
) -> None:
    """Write a line for each job of each run, completely or not at all.

    :param warm_up_s: jobs that arrive before this time are marked.
    :raises errors.InputError: if the file cannot be written.
    """
    with files.replacing(path) as stream:
        if path.suffix == _PARQUET:
            _write_parquet(scenario, runs, stream, warm_up_s)
            return
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        writer = csv.writer(text)
        writer.writerow(COLUMNS)
        for run in runs:
            writer.writerows(_rows(scenario, run, warm_up_s))
        text.flush()
        text.detach()


def _write_parquet(
    scenario: scenarios.Scenario,
    runs: Iterable[Run],
    stream: typing.BinaryIO,
    warm_up_s: float,
) -> None:
    arrow = importlib.import_module("pyarrow")
    parquet = importlib.import_module("pyarrow.parquet")
    schema = arrow.schema(
        [(name, getattr(arrow, kind)()) for name, kind in COLUMNS.items()]
    )
    with parquet.ParquetWriter(stream, schema) as writer:
        for run in runs:
            columns = zip(*_rows(scenario, run, warm_up_s), strict=True)
            made = dict(zip(COLUMNS, map(list, columns), strict=True))
            writer.write_table(arrow.table(made, schema))


def _rows(
    scenario: scenarios.Scenario, run: Run, warm_up_s: float
) -> Iterator[tuple[object, ...]]:
    """Yield the values of :data:`COLUMNS` for each job."""
    result = run.result
    jobs = result.outcome.jobs
    slowdowns: list[float | None] = [None] * len(jobs)
    if result.slowdowns is not None:
        slowdowns = result.slowdowns.tolist()
    programmings = map(int, result.programmings.tolist())
    waits_s = metrics.waits(results.columns(scenario, jobs)).tolist()
    for job, outcome, wait_s, slowdown, programmed in zip(
        scenario.jobs, jobs, waits_s, slowdowns, programmings, strict=True
    ):
        yield (
            run.strategy,
            run.seed,
            job.id,
            job.name,
            job.tenant,
            " + ".join(job.accelerators),
            job.host,
            job.size_bytes,
            job.arrival_s,
            outcome.start_s,
            outcome.finish_s,
            outcome.finish_s - job.arrival_s,
            wait_s,
            slowdown,
            outcome.host,
            outcome.slot,
            outcome.local,
            programmed,
            outcome.preemptions,
            outcome.interruptions,
            outcome.energy_j,
            job.arrival_s < warm_up_s,
            job.set_id,
        )
