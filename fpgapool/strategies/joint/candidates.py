# SPDX-License-Identifier: Apache-2.0

"""The first job of each kind, with bounds on how well it could be served.

The index belongs to :mod:`~fpgapool.strategies.joint.auto`. It answers which
kinds are worth an exact evaluation, so that a decision does not depend on the
number of waiting jobs, and hardly on the number of hosts.
"""

import dataclasses
import math
import typing
from collections import abc

import numpy as np
import numpy.typing as npt

from fpgapool.core import model
from fpgapool.core.queues import ageing
from fpgapool.core.queues import kinds
from fpgapool.core.queues import queued
from fpgapool.core.topology import loads as pipe_loads
from fpgapool.strategies import options as opts
from fpgapool.strategies.joint import rates as rates_strategy

_Floats: typing.TypeAlias = npt.NDArray[np.float64]

# The mean service time counts about this many of the latest jobs.
_MEAN_OF = 1000


@dataclasses.dataclass(frozen=True, slots=True)
class AutoOptions(opts.Numbers):
    """Options of the strategy ``auto``, all without units.

    "Its peak" is the rate that a job would get if only the DMA pipe limited
    it. Its service time is its claim divided by its accelerator's peak rate.

    :param size_power: a job's work is its bytes to this power …
    :param ageing: … divided by 1 + this × its wait in service times.
    :param min_share: a job whose own host has no board may go where its rate
        is at least this fraction of its peak …
    :param min_share_idle: … this fraction while many slots are idle …
    :param min_free: … or where at least this fraction of each pipe that it
        needs is free.
    :param patience: the two shares are divided by 1 + this × its wait in
        service times.
    :param leave_s_per_byte: a job leaves its own host, which has a board,
        after this many seconds per byte; at once while many slots are idle,
        or if it leaves the networks free enough.
    :param leave_min_share: it goes only where its rate is at least this
        fraction of its peak.
    :param leave_min_free: it leaves the networks free enough if this fraction
        of each network pipe that it uses stays free.
    :param leave_penalty: factor for the work of such a job …
    :param leave_penalty_idle: … and the factor while many slots are idle, or
        if it leaves the networks free enough.
    :param idle_share: "many slots are idle" means at least this fraction of
        all slots; above 1: never.
    :param loss_weight: the rates that other jobs lose because of a job, times
        this, are subtracted from its rate.
    :param spread: the work is multiplied by 1 + this × the fraction of the
        board's slots that are taken.
    :param programming_weight_max: programming delays all who wait: its time
        counts 1 + the waiting jobs per usable slot times, with this as the
        maximum of that quotient.
    :param look_again: if jobs and idle slots are left, the strategy looks
        again after this fraction of the mean service time.
    """

    size_power: float = 0.7
    ageing: float = 0.3
    min_share: float = 0.95
    min_share_idle: float = 0.7
    min_free: float = 0.2
    patience: float = 0.2
    leave_s_per_byte: float = 1e-9
    leave_min_share: float = 0.95
    leave_min_free: float = 0.5
    leave_penalty: float = 5.0
    leave_penalty_idle: float = 1.2
    idle_share: float = 0.3
    loss_weight: float = 0.4
    spread: float = 0.1
    programming_weight_max: float = 10.0
    look_again: float = 0.1

    def __post_init__(self) -> None:
        opts.Numbers.__post_init__(self)
        if not 0 < self.leave_penalty_idle <= self.leave_penalty:
            raise ValueError(
                "leave_penalty_idle must be above 0 and at most "
                f"leave_penalty, not {self.leave_penalty_idle} with "
                f"leave_penalty={self.leave_penalty}"
            )


class Kind:
    """Waiting jobs that differ only in size and arrival.

    :ivar row: its place in the vectors.
    :ivar peak: the rate of its accelerator, in bytes/s …
    :ivar peak_max: … and the highest and the lowest one in any slot shape.
    """

    __slots__ = (
        "accelerator",
        "egress",
        "group",
        "has_home",
        "host_id",
        "ingress",
        "jobs",
        "peak",
        "peak_max",
        "peak_min",
        "peaks",
        "ratio",
        "row",
    )

    def __init__(
        self,
        group: queued.JobGroup,
        host_id: model.HostId | None,
        accelerator: str,
    ) -> None:
        self.group = group
        self.host_id = host_id
        self.accelerator = accelerator
        self.jobs = ageing.AgeingQueue()
        self.row = -1
        self.egress = self.ingress = pipe_loads.NOWHERE
        self.has_home = False
        self.peak = self.peak_max = self.peak_min = 1.0
        self.peaks: abc.Mapping[str, float] = {}
        self.ratio = 0.0

    def rate(self, accelerator: model.Accelerator) -> None:
        """Read the rates of its accelerator."""
        self.peak = accelerator.peak_bytes_per_s
        self.peaks = accelerator.peaks_bytes_per_s
        self.peak_max = max(self.peak, *self.peaks.values(), self.peak)
        self.peak_min = min(self.peak, *self.peaks.values(), self.peak)
        self.ratio = accelerator.return_ratio


class Candidates(kinds.Kinds):
    """The kinds of waiting jobs, and vectors with a row for each.

    The urgency of a kind's first job is ``starts + slopes * t``, where t is
    the time since :attr:`base_s`. The rows at the end are spare.

    :ivar kinds: the kinds by row.
    :ivar of_group: the kinds of each group, by host and accelerator.
    :ivar on_host: the kinds whose jobs come from a host.
    :ivar mean_service_s: decayed mean of the jobs' service times.
    :ivar rates: the rate at which the kind's host can send, and receive.
    :ivar lefts: how much of its sending rate no flow uses.
    :ivar halves: the highest rate that leaves ``leave_min_free`` of its host's
        pipes free.
    :ivar costs: the least penalty over gain of a job that leaves its host;
        ``costs_light`` and ``costs_heavy`` are those if the networks stay free
        enough, and if not.
    :ivar dma_limits: a board accepts a job from its host only if one more flow
        would get at most this on its DMA pipe.
    :ivar per_byte: one by the size of the first job.
    :ivar fresh: the urgency of the first job when it arrived.
    """

    def __init__(self, loads: pipe_loads.Loads, options: AutoOptions) -> None:
        self._loads = loads
        self._options = options
        self._library: abc.Mapping[str, model.Accelerator] = {}
        self.kinds: list[Kind] = []
        self.of_group: dict[
            queued.JobGroup, dict[tuple[model.HostId | None, str], Kind]
        ] = {}
        self.on_host: dict[model.HostId, dict[Kind, None]] = {}
        self._on_pipe: dict[int, dict[Kind, None]] = {}
        self._outdated: dict[Kind, None] = {}
        self.base_s = self._now = math.nan
        self.mean_service_s = 0.0
        self._seen = 0
        # No first job is overtaken before this time.
        self._due_s = math.inf
        self.starts = self.slopes = self.until_s = np.zeros(0)
        self.fresh = self.rates = self.lefts = self.halves = np.zeros(0)
        self.dma_limits = self.per_byte = self.costs = np.zeros(0)
        self.costs_light = self.costs_heavy = np.zeros(0)
        self.peaks_max = self.peaks_min = np.zeros(0)
        self.has_home = self.homed = self.is_free = np.zeros(0, dtype=np.bool_)
        self.accelerators = np.zeros(0, dtype=np.int64)
        self._accelerator_numbers: dict[str, int] = {}
        # Of each accelerator: its lowest and highest peak, and return ratio.
        self._rates: list[tuple[float, float, float]] = []
        self._rate_vectors: tuple[_Floats, _Floats, _Floats] | None = None
        self.egress = self.groups = np.zeros(0, dtype=np.int64)
        self._group_numbers: dict[queued.JobGroup, int] = {}
        self._unused: list[int] = []

    # -- jobs ------------------------------------------------------------

    def set_library(
        self, library: abc.Mapping[str, model.Accelerator]
    ) -> None:
        self._library = library
        for kind in self.kinds:
            accelerator = library.get(kind.accelerator)
            if accelerator is None:
                continue
            kind.rate(accelerator)
            jobs, kind.jobs = kind.jobs.jobs(), ageing.AgeingQueue()
            for record in jobs:
                self._queue(kind, record, self._now)
            self._describe(kind)
            self._show_first(kind)

    def add(
        self, record: queued.JobRecord, group: queued.JobGroup, now: float
    ) -> None:
        job = record.job
        kind = self._kind(group, job.host_id, job.accelerator)
        self._now = now
        if math.isnan(self.base_s):
            self.base_s = now
        if record.column < 0 and job.group_id is None:
            self._seen += 1
            self.mean_service_s += (
                job.claimed_bytes / kind.peak - self.mean_service_s
            ) / min(self._seen, _MEAN_OF)
        self._queue(kind, record, now)
        self._show_first(kind)

    def _queue(self, kind: Kind, record: queued.JobRecord, now: float) -> None:
        options, job = self._options, record.job
        fresh = job.claimed_bytes**-options.size_power
        slope = fresh * options.ageing * kind.peak / job.claimed_bytes
        # A clock may be ahead of the pool's.
        arrival_s = min(job.arrival_s, now) - self.base_s
        kind.jobs.add(
            record, fresh - slope * arrival_s, slope, now - self.base_s
        )

    def remove(self, record: queued.JobRecord) -> None:
        job = record.job
        group = typing.cast(queued.JobGroup, record.group)
        kind = self.of_group[group][job.host_id, job.accelerator]
        kind.jobs.remove(record)
        if kind.jobs.leader < 0:
            self._drop(kind)
        else:
            self._show_first(kind)

    def rehome(self, group: queued.JobGroup, host_id: model.HostId) -> None:
        for kind in self.on_host.get(host_id, ()):
            if kind.group is group:
                kind.has_home = host_id in group.homes
                self._describe(kind)

    def set_homed(self, record: queued.JobRecord) -> None:
        job = record.job
        group = typing.cast(queued.JobGroup, record.group)
        kind = self.of_group[group][job.host_id, job.accelerator]
        if self.first(kind) is record:
            self.homed[kind.row] = record.homed

    def first(self, kind: Kind) -> queued.JobRecord:
        return typing.cast(
            queued.JobRecord, kind.jobs.records[kind.jobs.leader]
        )

    def of_host(self, host_id: model.HostId) -> abc.Iterable[Kind]:
        """Return the kinds of jobs that come from a host."""
        return self.on_host.get(host_id, ())

    def rows_of(self, group: queued.JobGroup) -> npt.NDArray[np.int64]:
        """Return the rows of a group's kinds."""
        found = self.of_group.get(group, {})
        return np.fromiter((kind.row for kind in found.values()), np.int64)

    def accelerator_rates(self) -> tuple[_Floats, _Floats, _Floats]:
        """Return each accelerator's lowest and highest peak, by number.

        The third vector has its ratio of output to input, at least tiny.
        """
        if self._rate_vectors is None:
            lowest, highest, ratios = np.array(self._rates).T
            self._rate_vectors = lowest, highest, np.maximum(ratios, 1e-200)
        return self._rate_vectors

    def programming_s(
        self, least_s: float, at_once: abc.Iterable[str]
    ) -> _Floats:
        """Return for each accelerator, by number, the least time to program.

        :param least_s: the least time of any slot.
        :param at_once: the accelerators that some idle slot already has.
        """
        numbers = self._accelerator_numbers
        found = np.full(len(numbers), least_s)
        for name in at_once:
            if name in numbers:
                found[numbers[name]] = 0.0
        return found

    def is_of(
        self, groups: abc.Iterable[queued.JobGroup]
    ) -> npt.NDArray[np.bool_]:
        """Return for each row whether its kind is of one of the groups."""
        count = len(self._group_numbers) + len(self._unused)
        shown = np.zeros(count, dtype=np.bool_)
        shown[[self._group_numbers[group] for group in groups]] = True
        return shown[self.groups[: len(self.kinds)]]

    # -- kinds -----------------------------------------------------------

    def _kind(
        self,
        group: queued.JobGroup,
        host_id: model.HostId | None,
        accelerator: str,
    ) -> Kind:
        found = self.of_group.get(group)
        if found is None:
            found = self.of_group[group] = {}
            self._group_numbers[group] = (
                self._unused.pop()
                if self._unused
                else len(self._group_numbers)
            )
        kind = found.get((host_id, accelerator))
        if kind is None:
            kind = found[host_id, accelerator] = Kind(
                group, host_id, accelerator
            )
            kind.rate(self._library[accelerator])
            if host_id is not None:
                kind.has_home = host_id in group.homes
                kind.egress = self._loads.egress(host_id)
                kind.ingress = self._loads.ingress(host_id)
                self.on_host.setdefault(host_id, {})[kind] = None
            for pipe in (kind.egress, kind.ingress):
                self._on_pipe.setdefault(pipe, {})[kind] = None
            kind.row = len(self.kinds)
            self.kinds.append(kind)
            if kind.row == len(self.starts):
                self._grow()
            self._describe(kind)
        return kind

    def _drop(self, kind: Kind) -> None:
        group, host_id = kind.group, kind.host_id
        del self.of_group[group][host_id, kind.accelerator]
        if not self.of_group[group]:
            del self.of_group[group]
            self._unused.append(self._group_numbers.pop(group))
        if host_id is not None:
            del self.on_host[host_id][kind]
            if not self.on_host[host_id]:
                del self.on_host[host_id]
        for pipe in {kind.egress, kind.ingress}:
            del self._on_pipe[pipe][kind]
        self._outdated.pop(kind, None)
        last = self.kinds.pop()
        if last is not kind:
            last.row = kind.row
            self.kinds[last.row] = last
            self._describe(last)
            self._show_first(last)

    def _grow(self) -> None:
        more = max(16, len(self.starts))
        for name, vector in vars(self).items():
            if isinstance(vector, np.ndarray):
                spare = np.zeros(more, dtype=vector.dtype)
                setattr(self, name, np.append(vector, spare))

    def _describe(self, kind: Kind) -> None:
        """Write what does not depend on loads or jobs."""
        row = kind.row
        self.peaks_max[row] = kind.peak_max
        self.peaks_min[row] = kind.peak_min
        self.has_home[row] = kind.has_home
        self.egress[row] = kind.egress
        self.accelerators[row] = self._accelerator_number(kind)
        self.groups[row] = self._group_numbers[kind.group]
        self._outdated[kind] = None

    def _accelerator_number(self, kind: Kind) -> int:
        numbers = self._accelerator_numbers
        number = numbers.setdefault(kind.accelerator, len(numbers))
        rates = (kind.peak_min, kind.peak_max, kind.ratio)
        if number == len(self._rates):
            self._rates.append(rates)
            self._rate_vectors = None
        elif self._rates[number] != rates:
            self._rates[number] = rates
            self._rate_vectors = None
        return number

    def _show_first(self, kind: Kind) -> None:
        jobs, row = kind.jobs, kind.row
        start, slope = jobs.line(jobs.leader)
        self.starts[row] = start
        self.slopes[row] = slope
        first = self.first(kind)
        self.homed[row] = first.homed
        claimed_bytes = first.job.claimed_bytes
        self.per_byte[row] = 1.0 / claimed_bytes
        self.fresh[row] = claimed_bytes**-self._options.size_power
        self.until_s[row] = until_s = jobs.until_s
        self._due_s = min(self._due_s, until_s)

    # -- time and loads --------------------------------------------------

    def refresh(self, now: float) -> float:
        """Update first jobs and bounds; return the time since the base."""
        self._now = now
        time_s = now - self.base_s
        if self._due_s <= time_s:
            until_s = self.until_s[: len(self.kinds)]
            for row in (until_s <= time_s).nonzero()[0].tolist():
                kind = self.kinds[row]
                kind.jobs.first(time_s)
                self._show_first(kind)
            self._due_s = float(until_s.min())
        changed = self._loads.changed
        if changed:
            for pipe in changed:
                self._outdated.update(self._on_pipe.get(pipe, {}))
            changed.clear()
        for kind in self._outdated:
            self._weigh(kind)
        self._outdated.clear()
        return time_s

    def _weigh(self, kind: Kind) -> None:
        """Bound what a job of a kind gets from its own host's network."""
        options, loads, row = self._options, self._loads, kind.row
        out = loads.pipe(kind.egress)
        rate = min(kind.peak_max, out.share)
        half = out.spare(options.leave_min_free)
        is_free = out.has_free(options.min_free)
        if kind.ratio > 0:
            back = loads.pipe(kind.ingress)
            rate = min(rate, back.share / kind.ratio)
            half = min(half, back.spare(options.leave_min_free) / kind.ratio)
            is_free = is_free and back.has_free(options.min_free)
        gain = max(
            rate - options.loss_weight * max(rate - out.left, 0.0),
            rates_strategy.LEAST_GAIN * rate,
        )
        self.rates[row] = rate
        self.lefts[row] = out.left
        self.halves[row] = half
        self.is_free[row] = is_free
        light = heavy = 1.0
        self.dma_limits[row] = math.inf
        if kind.has_home:
            if rate < options.leave_min_share * kind.peak_min:
                self.dma_limits[row] = rate / options.leave_min_share
            light, heavy = options.leave_penalty_idle, options.leave_penalty
        self.costs_light[row] = light / gain
        self.costs_heavy[row] = heavy / gain
        self.costs[row] = 1.0 / max(min(gain, half) / light, gain / heavy)
