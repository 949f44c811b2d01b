# SPDX-License-Identifier: Apache-2.0

"""The first job of each kind, with bounds on how well it could be served.

The index belongs to :mod:`~fpgapool.strategies.joint.auto`. It answers which
kinds are worth an exact evaluation, so that a decision does not depend on the
number of waiting jobs, and hardly on the number of hosts.

The *value* of a pair is one by its score, without the factors for leaving the
own host and for the board's taken slots.
"""

import heapq
import math
import typing
from collections import abc

import numpy as np
import numpy.typing as npt

from fpgapool.core import model
from fpgapool.core import native
from fpgapool.core.queues import ageing
from fpgapool.core.queues import queued
from fpgapool.core.topology import loads as pipe_loads
from fpgapool.strategies.joint import auto_options
from fpgapool.strategies.joint import rates as rates_strategy

_Floats: typing.TypeAlias = npt.NDArray[np.float64]
_Numbers: typing.TypeAlias = npt.NDArray[np.int64]

# The mean service time counts about this many of the latest jobs.
_MEAN_OF = 1000
# The bounds of a job hold until its age, which is its service time and its
# wait, has grown by this part.
_STEP = 0.3
# The bounds assume a bit less weight of programming than there is, so that
# they outlast small changes of it.
_WEIGHT_MARGIN = 0.8
# Up to this many entries of kinds that are gone are never removed.
_MIN_SWEPT = 64

# What the first job of a kind may do.
#: It has no board at home.
HOMELESS: typing.Final = 0
#: It may leave its own host's boards.
LEAVING: typing.Final = 1
#: It may leave them only if the networks stay free enough.
STAYING: typing.Final = 2


def most_gain(rate: float, left: float, loss_weight: float) -> float:
    """Return an upper bound of a gain.

    :param rate: an upper bound of the rate.
    :param left: what no flow uses of one of the pipes, all in bytes/s.
    """
    # At a weight above 1, a lower rate may gain more.
    if rate <= left:
        return rate
    loss = min(loss_weight, 1.0) * (rate - left)
    return max(rate - loss, rates_strategy.LEAST_GAIN * rate)


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Kind:
    """Waiting jobs that differ only in size and arrival.

    :ivar peak: the rate of its accelerator, in bytes/s …
    :ivar peak_max: … and the highest and the lowest one in any slot shape.
    :ivar first: the job that competes; None: the index must find it.
    :ivar urgency: an upper bound of one by its work …
    :ivar patience: … and a lower bound of the factor that its wait puts on the
        rate that it accepts, until :attr:`due_s`.
    :ivar may: what it may do.
    :ivar out: the pipe through which its host sends …
    :ivar back: … and the one through which it receives the output, if any.
    :ivar own_rate: the rate at which its host can send, and receive …
    :ivar room: … and the highest one that leaves ``leave_min_free`` of the
        host's pipes free.
    :ivar gain: an upper bound of its gain on other hosts' boards; 0: the three
        are not known yet.
    :ivar pack: the kinds that it belongs to, with its row there.
    :ivar due_s: when its first job may be another one, or its bounds end,
        counted from the first job that the index has seen.
    :ivar listed_s: when the index looks at it next.
    """

    __slots__ = (
        "accelerator",
        "back",
        "due_s",
        "egress",
        "first",
        "gain",
        "group",
        "has_home",
        "host_id",
        "ingress",
        "jobs",
        "listed_s",
        "may",
        "number",
        "out",
        "own_rate",
        "pack",
        "patience",
        "peak",
        "peak_max",
        "peak_min",
        "peaks",
        "ratio",
        "room",
        "row",
        "size_bytes",
        "urgency",
    )

    def __init__(
        self,
        number: int,
        group: queued.JobGroup,
        host_id: model.HostId | None,
        accelerator: str,
    ) -> None:
        self.number = number
        self.group = group
        self.host_id = host_id
        self.accelerator = accelerator
        self.jobs = ageing.AgeingQueue()
        self.first: queued.JobRecord | None = None
        self.egress = self.ingress = pipe_loads.NOWHERE
        self.out = self.back = pipe_loads.Pipe(math.inf, 0.0, 0.0)
        self.has_home = False
        self.peak = self.peak_max = self.peak_min = 1.0
        self.peaks: abc.Mapping[str, float] = {}
        self.ratio = 0.0
        self.may = HOMELESS
        self.size_bytes = self.urgency = self.patience = 0.0
        self.gain = self.own_rate = self.room = 0.0
        self.due_s = self.listed_s = math.inf
        self.pack: Pack | None = None
        self.row = -1

    def rate(self, accelerator: model.Accelerator) -> None:
        """Read the rates of its accelerator."""
        self.peak = accelerator.peak_bytes_per_s
        self.peaks = accelerator.peaks_bytes_per_s
        self.peak_max = max(self.peak, *self.peaks.values(), self.peak)
        self.peak_min = min(self.peak, *self.peaks.values(), self.peak)
        self.ratio = accelerator.return_ratio
        self.gain = 0.0

    def leader(self) -> queued.JobRecord:
        """Return the first job, as of the last update of its queue."""
        return typing.cast(
            queued.JobRecord, self.jobs.records[self.jobs.leader]
        )


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Pack:
    """Kinds of a group and an accelerator whose first jobs may do the same.

    The vectors have a row for each kind; rows at the end are spare.

    :ivar values: upper bounds of the values on other hosts' boards: where a
        slot starts at once, and where it must be programmed …
    :ivar tops: … and an upper bound of each of the two.
    :ivar writes: how often bounds have been set.
    :ivar rates: the ``own_rate`` of each kind.
    :ivar rooms: the ``room`` of each kind.
    :ivar patiences: the ``patience`` of each kind …
    :ivar patience: … and the least one.
    """

    __slots__ = (
        "accelerator",
        "kinds",
        "may",
        "patience",
        "patiences",
        "rates",
        "rooms",
        "tops",
        "values",
        "writes",
    )

    def __init__(self, accelerator: str, may: int) -> None:
        self.accelerator = accelerator
        self.may = may
        self.kinds: list[Kind] = []
        self.values: list[_Floats] = [np.zeros(4), np.zeros(4)]
        self.tops = [0.0, 0.0]
        self.writes = 0
        self.rates: _Floats = np.zeros(4)
        self.rooms: _Floats = np.zeros(4)
        self.patiences: _Floats = np.zeros(4)
        self.patience = 0.0

    def add(self, kind: Kind) -> None:
        kind.pack, kind.row = self, len(self.kinds)
        self.kinds.append(kind)
        if kind.row == len(self.rates):
            self.values = [np.append(each, each) for each in self.values]
            self.rates = np.append(self.rates, self.rates)
            self.rooms = np.append(self.rooms, self.rooms)
            self.patiences = np.append(self.patiences, self.patiences)
        # Until its bounds are set, it has no patience at all.
        self.patiences[kind.row] = self.patience = 0.0

    def remove(self, kind: Kind) -> None:
        """Remove a kind; the last one moves to its row."""
        last = self.kinds.pop()
        if last is not kind:
            old, row = last.row, kind.row
            last.row = row
            self.kinds[row] = last
            for vector in (
                *self.values,
                self.rates,
                self.rooms,
                self.patiences,
            ):
                vector[row] = vector[old]
        kind.pack = None
        if self.kinds:
            self._find_patience()

    def write(self, kind: Kind, at_once: float, programmed: float) -> None:
        """Set the bounds of a kind."""
        row, tops = kind.row, self.tops
        self.writes += 1
        self.values[0][row] = at_once
        self.values[1][row] = programmed
        self.rates[row] = kind.own_rate
        self.rooms[row] = kind.room
        had_least = self.patiences.item(row) <= self.patience
        self.patiences[row] = kind.patience
        if had_least or kind.patience < self.patience:
            self._find_patience()
        is_only = len(self.kinds) == 1
        if is_only or at_once > tops[0]:
            tops[0] = at_once
        if is_only or programmed > tops[1]:
            tops[1] = programmed

    def _find_patience(self) -> None:
        self.patience = float(self.patiences[: len(self.kinds)].min())

    def above(self, programs: int, least: float) -> _Numbers:
        """Return the rows with at least this value.

        :param programs: 1 if the slot must be programmed, 0 if not.
        """
        found: _Numbers = (
            self.values[programs][: len(self.kinds)] >= least
        ).nonzero()[0]
        if not len(found):
            self.tops[programs] = least
        return found


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Candidates:
    """The kinds of waiting jobs, in packs; a :class:`~.kinds.Kinds`.

    :ivar of_group: the kinds of each group, by host and accelerator.
    :ivar packs: the packs of each group, by accelerator and what its jobs may
        do.
    :ivar on_host: the kinds whose jobs come from a host.
    :ivar offers: what the strategy knows of boards, by number.
    :ivar mean_service_s: decayed mean of the jobs' service times.
    """

    def __init__(
        self, loads: pipe_loads.Loads, options: auto_options.AutoOptions
    ) -> None:
        self._loads = loads
        self._options = options
        self._library: abc.Mapping[str, model.Accelerator] = {}
        self._size_power = options.size_power
        self._ageing = options.ageing
        self._patience = options.patience
        self.of_group: dict[
            queued.JobGroup, dict[tuple[model.HostId | None, str], Kind]
        ] = {}
        self.packs: dict[queued.JobGroup, dict[tuple[str, int], Pack]] = {}
        self.on_host: dict[model.HostId, dict[Kind, None]] = {}
        self._on_pipe: dict[int, dict[Kind, None]] = {}
        self._pipes: dict[int, pipe_loads.Pipe] = {}
        self._outdated: dict[Kind, None] = {}
        self.offers: dict[int, typing.Any] = {}
        # When bounds end or first jobs are overtaken; kinds that are gone or
        # listed again may still be there.
        self._due: list[tuple[float, int, Kind]] = []
        # How many there were when those were last removed.
        self._due_kept = 0
        self._made = 0
        # When the index saw its first job, and the time since then.
        self._base_s = self._now = self._time_s = math.nan
        # The least weight and time of programming that the bounds know, and
        # their product.
        self._weight = self._programming_s = self._delay_s = math.inf
        self.mean_service_s = 0.0
        self._seen = 0

    # -- jobs ------------------------------------------------------------

    def set_library(
        self, library: abc.Mapping[str, model.Accelerator]
    ) -> None:
        self._library = library
        self.offers.clear()
        for kind in self.all():
            accelerator = library.get(kind.accelerator)
            if accelerator is None:
                continue
            kind.rate(accelerator)
            if kind.host_id is not None:
                self._follow(kind)
            jobs, kind.jobs = kind.jobs.jobs(), ageing.AgeingQueue()
            for record in jobs:
                self._queue(kind, record, self._now)
            kind.first = None
            self._outdated[kind] = None

    def add(
        self, record: queued.JobRecord, group: queued.JobGroup, now: float
    ) -> None:
        job = record.job
        kind = self._kind(group, job.host_id, job.accelerator)
        self._now = now
        if math.isnan(self._base_s):
            self._base_s = now
        if record.column < 0 and job.group_id is None:
            self._seen += 1
            self.mean_service_s += (
                job.claimed_bytes / kind.peak - self.mean_service_s
            ) / min(self._seen, _MEAN_OF)
        self._queue(kind, record, now)
        if kind.leader() is not kind.first or kind.jobs.until_s < kind.due_s:
            kind.first = None
            self._outdated[kind] = None

    def _queue(self, kind: Kind, record: queued.JobRecord, now: float) -> None:
        job = record.job
        fresh: float = job.claimed_bytes**-self._size_power
        slope = fresh * self._ageing * kind.peak / job.claimed_bytes
        # A clock may be ahead of the pool's.
        arrival_s = min(job.arrival_s, now) - self._base_s
        kind.jobs.add(
            record, fresh - slope * arrival_s, slope, now - self._base_s
        )

    def remove(self, record: queued.JobRecord) -> None:
        kind = self._kind_of(record)
        kind.jobs.remove(record)
        if kind.jobs.leader < 0:
            self._drop(kind)
        elif kind.first is record:
            kind.first = None
            self._outdated[kind] = None

    def rehome(self, group: queued.JobGroup, host_id: model.HostId) -> None:
        for kind in self.on_host.get(host_id, ()):
            if kind.group is group:
                kind.has_home = host_id in group.homes
                kind.first = None
                self._outdated[kind] = None

    def set_homed(self, record: queued.JobRecord) -> None:
        kind = self._kind_of(record)
        if kind.first is record:
            kind.first = None
            self._outdated[kind] = None

    def set_done(self, record: queued.JobRecord) -> None:
        """Do nothing: what is done makes no difference."""

    # -- kinds -----------------------------------------------------------

    def all(self) -> list[Kind]:
        return [
            kind for each in self.of_group.values() for kind in each.values()
        ]

    def _kind_of(self, record: queued.JobRecord) -> Kind:
        job = record.job
        group = typing.cast(queued.JobGroup, record.group)
        return self.of_group[group][job.host_id, job.accelerator]

    def _kind(
        self,
        group: queued.JobGroup,
        host_id: model.HostId | None,
        accelerator: str,
    ) -> Kind:
        found = self.of_group.get(group)
        if found is None:
            found = self.of_group[group] = {}
        kind = found.get((host_id, accelerator))
        if kind is not None:
            return kind
        self._made += 1
        kind = Kind(self._made, group, host_id, accelerator)
        found[host_id, accelerator] = kind
        kind.rate(self._library[accelerator])
        if host_id is not None:
            kind.has_home = host_id in group.homes
            kind.egress = self._loads.egress(host_id)
            kind.ingress = self._loads.ingress(host_id)
            self.on_host.setdefault(host_id, {})[kind] = None
            self._follow(kind)
        return kind

    def _follow(self, kind: Kind) -> None:
        """Note which pipes matter to a kind that comes from a host."""
        self._on_pipe.setdefault(kind.egress, {})[kind] = None
        if kind.ratio > 0:
            self._on_pipe.setdefault(kind.ingress, {})[kind] = None

    def _drop(self, kind: Kind) -> None:
        group, host_id = kind.group, kind.host_id
        del self.of_group[group][host_id, kind.accelerator]
        if not self.of_group[group]:
            del self.of_group[group]
        if host_id is not None:
            for pipe in (kind.egress, kind.ingress):
                self._on_pipe.get(pipe, {}).pop(kind, None)
            del self.on_host[host_id][kind]
            if not self.on_host[host_id]:
                del self.on_host[host_id]
        self._outdated.pop(kind, None)
        kind.first = None
        kind.listed_s = math.inf
        self._unpack(kind)

    def _repack(self, kind: Kind) -> Pack:
        """Put a kind into the pack that it belongs to."""
        self._unpack(kind)
        packs = self.packs.setdefault(kind.group, {})
        key = (kind.accelerator, kind.may)
        pack = packs.get(key)
        if pack is None:
            pack = packs[key] = Pack(kind.accelerator, kind.may)
        pack.add(kind)
        return pack

    def _unpack(self, kind: Kind) -> None:
        pack = kind.pack
        if pack is None:
            return
        pack.remove(kind)
        if not pack.kinds:
            packs = self.packs[kind.group]
            del packs[kind.accelerator, pack.may]
            if not packs:
                del self.packs[kind.group]

    # -- bounds ----------------------------------------------------------

    def pipe(self, number: int) -> pipe_loads.Pipe:
        """Return what a pipe had left at the last refresh."""
        pipe = self._pipes.get(number)
        if pipe is None:
            pipe = self._pipes[number] = self._loads.pipe(number)
        return pipe

    def refresh(self, now: float, weight: float) -> None:
        """Update first jobs and bounds.

        :param weight: how much the time to program a slot counts.
        """
        self._now = now
        self._time_s = time_s = now - self._base_s
        due, outdated = self._due, self._outdated
        if weight < self._weight:
            self._expect(_WEIGHT_MARGIN * weight, self._programming_s)
        elif weight * _WEIGHT_MARGIN**2 > self._weight:
            # Bounds for less weight are right, too.
            self._weight = _WEIGHT_MARGIN * weight
            self._delay_s = self._weight * self._programming_s
        while due and due[0][0] <= time_s:
            listed_s, _, kind = heapq.heappop(due)
            if kind.listed_s != listed_s:
                continue
            kind.listed_s = math.inf
            if kind.due_s <= time_s:
                outdated[kind] = None
            else:
                self._list(kind)
        changed = self._loads.changed
        for pipe in changed:
            self._pipes.pop(pipe, None)
            for kind in self._on_pipe.get(pipe, ()):
                kind.gain = 0.0
                outdated[kind] = None
        changed.clear()
        for kind in outdated:
            self._update(kind)
        outdated.clear()

    def expect_programming(self, programming_s: float) -> None:
        """Note that some slot needs this time to be programmed."""
        if programming_s < self._programming_s:
            self._expect(self._weight, programming_s)

    def _expect(self, weight: float, programming_s: float) -> None:
        self._weight, self._programming_s = weight, programming_s
        self._delay_s = weight * programming_s
        for kind in self.all():
            self._update(kind)

    def _update(self, kind: Kind) -> None:
        """Update the first job of a kind, and its bounds."""
        if kind.first is None or kind.due_s <= self._time_s:
            self._age(kind)
        if not kind.gain:
            self._weigh(kind)
        pack = kind.pack
        if pack is None or pack.may != kind.may:
            pack = self._repack(kind)
        pack.write(
            kind,
            kind.urgency * kind.gain,
            kind.urgency / (1.0 / kind.gain + self._delay_s / kind.size_bytes),
        )

    def _age(self, kind: Kind) -> None:
        """Find the first job of a kind, and how urgent it becomes."""
        time_s, jobs = self._time_s, kind.jobs
        jobs.first(time_s)
        kind.first = first = kind.leader()
        kind.size_bytes = size_bytes = first.job.claimed_bytes
        service_s = size_bytes / kind.peak
        wait_s = max(self._now - first.job.arrival_s, 0.0)
        step_s = _STEP * (service_s + wait_s)
        # How many service times it has waited when the bounds end.
        waited = (wait_s + step_s) / service_s
        kind.urgency = (1.0 + self._ageing * waited) / (
            size_bytes**self._size_power
        )
        kind.patience = 1.0 / (1.0 + self._patience * waited)
        kind.may = HOMELESS
        if kind.has_home:
            kind.may = STAYING if first.homed else LEAVING
        kind.due_s = min(time_s + step_s, jobs.until_s)
        if kind.due_s < kind.listed_s:
            self._list(kind)

    def _list(self, kind: Kind) -> None:
        kind.listed_s = kind.due_s
        due = self._due
        heapq.heappush(due, (kind.due_s, kind.number, kind))
        if len(due) > 2 * self._due_kept + _MIN_SWEPT:
            due[:] = [
                (each.listed_s, each.number, each)
                for each in self.all()
                if each.listed_s < math.inf
            ]
            heapq.heapify(due)
            self._due_kept = len(due)

    def _weigh(self, kind: Kind) -> None:
        """Bound what a job of a kind gets from its own host's network."""
        part = self._options.leave_min_free
        kind.out = self.pipe(kind.egress)
        rate, room = kind.out.share, kind.out.spare(part)
        if kind.ratio > 0:
            kind.back = self.pipe(kind.ingress)
            rate = min(rate, kind.back.share / kind.ratio)
            room = min(room, kind.back.spare(part) / kind.ratio)
        kind.own_rate, kind.room = rate, room
        kind.gain = most_gain(
            min(kind.peak_max, rate),
            kind.out.left,
            self._options.loss_weight,
        )
