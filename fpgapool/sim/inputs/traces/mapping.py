# SPDX-License-Identifier: Apache-2.0

"""Makes jobs for a cluster from the rows of a trace."""

from __future__ import annotations

import bisect
import dataclasses
import hashlib
import itertools
import math
import typing
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping

import msgspec

from fpgapool.sim import errors
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.inputs.traces import rows
from fpgapool.vocabulary import names as vocabulary

#: A first arrival from here on counts from 1970: this is in 1973.
_EPOCH_S = 1e8
#: A first arrival from here on is refused: it is probably in milliseconds.
_EPOCH_MS = 1e11
_WHOLE = range(-(2**63), 2**63)


@dataclasses.dataclass(frozen=True)
class Options:
    """How rows become jobs.

    :ivar jobs: number of jobs, the first ones; None: all.
    :ivar load: stretch arrivals so that the time that jobs need at their
        accelerators' rates is this share of the slots' time until the last
        arrival; None: keep arrivals.
    :ivar max_gap_s: shorten longer gaps between arrivals to this.
    :ivar min_run_s: raise shorter run times to this; None: leave out jobs
        whose run time is 0.
    :ivar sessions_per_job: a job of P processors becomes min(P, this) jobs.
    :ivar hash_hosts: spread hosts with names over the cluster by a hash.
    :ivar hash_tenants: spread tenants over this number of tenants.
    :ivar weights: by name, weights of the accelerators of jobs that name none.
    """

    weights: Mapping[str, float]
    jobs: int | None = None
    load: float | None = None
    max_gap_s: float | None = None
    min_run_s: float | None = None
    sessions_per_job: int = 1
    hash_hosts: bool = False
    hash_tenants: int | None = None
    seed: int = 0


class Mapped(typing.NamedTuple):
    """Jobs, by arrival, and what had to be decided for them.

    :ivar load: time that the jobs need at their accelerators' rates, as a
        share of the slots' time until the last arrival; infinite if all arrive
        at once.
    :ivar left_out: number of jobs that did not run, or lack a value.
    :ivar wide: number of jobs of more than one processor.
    """

    jobs: list[scenarios.JobSpec]
    load: float
    left_out: int
    wide: int


def make_jobs(
    log: rows.Log,
    hosts: int,
    slots: int,
    peaks_bytes_per_s: Mapping[str, float],
    options: Options,
) -> Mapped:
    """Fit the jobs of a trace to a cluster.

    :param peaks_bytes_per_s: rates of the accelerators, by name.
    :raises errors.InputError: if a value is invalid, or a host or accelerator
        unknown; the error names file, line and column.
    """
    ran = [
        row
        for row in map(_run_of(options.min_run_s), log.rows)
        if row.size_bytes is not None or row.run_s
    ]
    left_out = len(log.rows) - len(ran)
    if not ran:
        raise errors.InputError(
            log.source, "", f"none of the {left_out} jobs ran"
        )
    ran.sort(key=lambda row: row.arrival_s)
    draw = _draw(options)
    ran = [
        _complete(log, row, peaks_bytes_per_s, draw)
        for row in ran[: options.jobs]
    ]
    wide = sum(row.processors > 1 for row in ran)
    if options.sessions_per_job > 1:
        ran = _split(log, ran, options.sessions_per_job)
    work_s = sum(
        (row.size_bytes or 0.0) / peaks_bytes_per_s[row.accelerator]
        for row in ran
    )
    times_s = _times_s(log, ran, options, work_s / slots)
    numbers = _host_numbers(log, ran, hosts, options.hash_hosts)
    ids = _ids(ran)
    tenants = options.hash_tenants
    jobs = [
        _job(
            log,
            row,
            {
                "id": number if ids is None else ids[number],
                "name": row.id if ids is None else "",
                "host": host,
                "arrival_s": arrival_s,
                "tenant": (
                    f"t{hashed(row.tenant, tenants)}"
                    if tenants and row.tenant
                    else row.tenant
                ),
            },
        )
        for number, (row, host, arrival_s) in enumerate(
            zip(ran, numbers, times_s, strict=True)
        )
    ]
    span_s = times_s[-1]
    load = work_s / slots / span_s if span_s > 0 else math.inf
    return Mapped(jobs, load, left_out, wide)


def hashed(text: str, number: int) -> int:
    """Return a number from 0 for a text, the same everywhere."""
    digest = hashlib.md5(text.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest) % number


# -- steps -----------------------------------------------------------------


def _run_of(least_s: float | None) -> Callable[[rows.Row], rows.Row]:
    """Return what raises run times to a least one."""

    def raised(row: rows.Row) -> rows.Row:
        if least_s is None or row.run_s is None or row.run_s >= least_s:
            return row
        return dataclasses.replace(row, run_s=least_s)

    return raised


def _draw(options: Options) -> Callable[[rows.Row], str]:
    """Return what draws a job's accelerator, once for each kind of jobs."""
    names = sorted(options.weights)
    weights = [options.weights[name] for name in names]
    edges = list(itertools.accumulate(weights))

    def draw(row: rows.Row) -> str:
        key = f"{options.seed} {row.kind or row.id or row.place}"
        share = hashed(key, 2**53) / 2**53
        return names[bisect.bisect_right(edges[:-1], share * edges[-1])]

    return draw


def _complete(
    log: rows.Log,
    row: rows.Row,
    peaks_bytes_per_s: Mapping[str, float],
    draw: Callable[[rows.Row], str],
) -> rows.Row:
    """Return a row with an accelerator and a size."""
    name = row.accelerator or draw(row)
    if name not in peaks_bytes_per_s:
        near = vocabulary.hint(name, peaks_bytes_per_s) or ";"
        raise log.wrong(
            row,
            "accelerator",
            f"unknown accelerator {rows.shown(name)}{near} known "
            f"accelerators: {', '.join(sorted(peaks_bytes_per_s))}; give "
            "others a rate: --peak-bytes-per-s NAME=RATE, or "
            "--other-peak-bytes-per-s RATE for all",
        )
    size_bytes = row.size_bytes
    if row.run_s is not None:
        # Sizes are whole bytes, as in generated jobs.
        size_bytes = float(max(1, round(row.run_s * peaks_bytes_per_s[name])))
    return dataclasses.replace(row, accelerator=name, size_bytes=size_bytes)


def _split(log: rows.Log, jobs: list[rows.Row], most: int) -> list[rows.Row]:
    counts = [max(1, min(row.processors, most)) for row in jobs]
    if sum(counts) > scenarios.MAX_JOBS:
        raise errors.InputError(
            log.source,
            "",
            f"becomes {sum(counts)} sessions; at most {scenarios.MAX_JOBS} "
            "are allowed; lower --sessions-per-job or --jobs",
        )
    return [
        row
        for row, count in zip(jobs, counts, strict=True)
        for _ in range(count)
    ]


def _times_s(
    log: rows.Log,
    jobs: list[rows.Row],
    options: Options,
    work_s: float,
) -> list[float]:
    """Return the arrivals.

    :param work_s: time for which all slots are busy.
    """
    first_s = jobs[0].arrival_s
    if first_s >= _EPOCH_MS:
        raise log.wrong(
            jobs[0],
            "arrival_s",
            f"{first_s:g} s is thousands of years after 1970; if these are "
            "milliseconds, divide them by 1000",
        )
    # Relative times of tables are kept: users align other data with them.
    begin_s = 0.0 if log.names_hosts and first_s < _EPOCH_S else first_s
    times_s = [row.arrival_s - begin_s for row in jobs]
    if options.max_gap_s is not None:
        gaps = (
            min(later - before, options.max_gap_s)
            for before, later in itertools.pairwise(times_s)
        )
        times_s = list(itertools.accumulate(gaps, initial=times_s[0]))
    if options.load is not None:
        span_s = times_s[-1] - times_s[0]
        if not span_s > 0:
            raise errors.InputError(
                log.source,
                "",
                "all jobs arrive at once, so --load cannot stretch arrivals",
            )
        factor = work_s / options.load / span_s
        times_s = [(time_s - times_s[0]) * factor for time_s in times_s]
    return [round(time_s, 9) for time_s in times_s]


def _host_numbers(
    log: rows.Log, jobs: Iterable[rows.Row], hosts: int, by_hash: bool
) -> list[int | None]:
    """Return the number of each job's host."""
    if by_hash or not log.names_hosts:
        return [hashed(row.host, hosts) if row.host else None for row in jobs]
    if all(_is_whole(row.host) for row in jobs if row.host):
        numbers = {row.host: int(row.host) for row in jobs if row.host}
    else:
        names = dict.fromkeys(row.host for row in jobs if row.host)
        numbers = {name: number for number, name in enumerate(names)}
    for row in jobs:
        if row.host and not 0 <= numbers[row.host] < hosts:
            reason = f"there is no host {rows.shown(row.host)}: "
            if _is_whole(row.host):
                reason += f"hosts are numbered 0 to {hosts - 1}"
            else:
                reason += f"it is the name after the first {hosts}"
            raise log.wrong(
                row,
                "host",
                f"{reason}; give more --hosts, or --hash-hosts, which spreads "
                "any names over the hosts",
            )
    return [numbers[row.host] if row.host else None for row in jobs]


def _ids(jobs: list[rows.Row]) -> list[int] | None:
    """Return the ids, if all are whole numbers and none is used twice."""
    if not all(_is_whole(row.id) for row in jobs):
        return None
    ids = [int(row.id) for row in jobs]
    distinct = len(set(ids)) == len(ids)
    return ids if distinct and all(one in _WHOLE for one in ids) else None


def _is_whole(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdecimal() and len(digits) < 100


def _job(
    log: rows.Log, row: rows.Row, members: dict[str, typing.Any]
) -> scenarios.JobSpec:
    try:
        return msgspec.convert(
            {
                "size_bytes": row.size_bytes,
                "accelerator": row.accelerator,
                **members,
                **row.more,
            },
            scenarios.JobSpec,
            strict=False,
        )
    except msgspec.ValidationError as error:
        reason, _, column = str(error).partition(" - at `$.")
        column = column.rstrip("`")
        value = row.more.get(column) or getattr(row, column, "")
        text = value if isinstance(value, str) else f"{value:g}"
        raise log.wrong(
            row,
            column,
            f"{rows.shown(text)}: {reason[:1].lower()}{reason[1:]}",
        ) from error
