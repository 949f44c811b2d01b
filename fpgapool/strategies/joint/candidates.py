# SPDX-License-Identifier: Apache-2.0

"""The first job of each kind, and how urgent it is.

The index belongs to :mod:`~fpgapool.strategies.joint.auto`. It keeps what a
decision needs of all kinds in vectors, so that a decision does not depend on
the number of waiting jobs, and little on the number of hosts.

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

_Floats: typing.TypeAlias = npt.NDArray[np.float64]
_Numbers: typing.TypeAlias = npt.NDArray[np.int64]

# The mean service time counts about this many of the latest jobs.
_MEAN_OF = 1000
# The bounds of values assume a bit less delay by programming than there is, so
# that they outlast small changes of it.
_DELAY_MARGIN = 0.8
# Up to this many entries of kinds that are gone are never removed.
_MIN_SWEPT = 64

# What the first job of a kind may do.
#: It has no board at home.
HOMELESS: typing.Final = 0
#: It may leave its own host's boards.
LEAVING: typing.Final = 1
#: It may leave them only if the networks stay free enough.
STAYING: typing.Final = 2


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Kind:
    """Waiting jobs that differ only in size and arrival.

    :ivar peak: the rate of its accelerator, in bytes/s …
    :ivar peak_max: … and the highest one in any slot shape.
    :ivar first: the job that competes; None: the index must find it.
    :ivar arrival_s: when that job came, or was first seen if that is earlier.
    :ivar fresh: its urgency then, which is one by its work …
    :ivar slope: … and how much that grows in a second.
    :ivar per_byte: one by its size.
    :ivar may: what it may do.
    :ivar egress: the pipe through which its host sends …
    :ivar ingress: … and the one through which it receives the output, if any.
    :ivar pack: the kinds that it belongs to, with its row there.
    :ivar due_s: when its first job may be another one, counted from the first
        job that the index has seen.
    :ivar listed_s: when the index looks at it next.
    """

    __slots__ = (
        "accelerator",
        "arrival_s",
        "due_s",
        "egress",
        "first",
        "fresh",
        "group",
        "has_home",
        "host_id",
        "ingress",
        "jobs",
        "listed_s",
        "may",
        "number",
        "pack",
        "peak",
        "peak_max",
        "peaks",
        "per_byte",
        "ratio",
        "row",
        "slope",
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
        self.has_home = False
        self.peak = self.peak_max = 1.0
        self.peaks: abc.Mapping[str, float] = {}
        self.ratio = 0.0
        self.may = HOMELESS
        self.arrival_s = self.fresh = self.slope = self.per_byte = 0.0
        self.due_s = self.listed_s = math.inf
        self.pack: Pack | None = None
        self.row = -1

    def rate(self, accelerator: model.Accelerator) -> None:
        """Read the rates of its accelerator."""
        self.peak = accelerator.peak_bytes_per_s
        self.peaks = accelerator.peaks_bytes_per_s
        self.peak_max = max(self.peak, *self.peaks.values(), self.peak)
        self.ratio = accelerator.return_ratio

    def urgency(self, now: float) -> float:
        """Return an upper bound of one by its work."""
        return self.fresh + self.slope * (now - self.arrival_s)

    def leader(self) -> queued.JobRecord:
        """Return the first job, as of the last update of its queue."""
        return typing.cast(
            queued.JobRecord, self.jobs.records[self.jobs.leader]
        )


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Bound:
    """An upper bound that grows with time; of nothing it is 0."""

    __slots__ = ("_now", "_slope", "_value")

    def __init__(self) -> None:
        self._value = self._slope = self._now = 0.0

    def at(self, now: float) -> float:
        return self._value + self._slope * (now - self._now)

    def set(self, now: float, value: float, slope: float) -> None:
        self._now, self._value, self._slope = now, value, slope

    def include(self, now: float, value: float, slope: float) -> None:
        """Make it hold for one more value, which grows, too."""
        known = self.at(now)
        if value > known or slope > self._slope:
            self.set(now, max(known, value), max(self._slope, slope))


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Pack:
    """Kinds of a group and an accelerator whose first jobs may do the same.

    The vectors have a row for each kind; rows at the end are spare.

    :ivar fresh: see :class:`Kind`, as for the other vectors.
    :ivar longest: of how many service times the first jobs have waited.
    """

    __slots__ = (
        "_delay_s",
        "_now",
        "_programmed",
        "_urgencies",
        "_urgent",
        "accelerator",
        "arrivals_s",
        "egress",
        "fresh",
        "ingress",
        "kinds",
        "longest",
        "may",
        "peak",
        "peak_max",
        "per_byte",
        "ratio",
        "slopes",
    )

    def __init__(self, kind: Kind) -> None:
        self.accelerator = kind.accelerator
        self.may = kind.may
        self.peak = kind.peak
        self.peak_max = kind.peak_max
        self.ratio = kind.ratio
        self.kinds: list[Kind] = []
        self.arrivals_s: _Floats = np.zeros(4)
        self.fresh: _Floats = np.zeros(4)
        self.slopes: _Floats = np.zeros(4)
        self.per_byte: _Floats = np.zeros(4)
        self.egress: _Numbers = np.zeros(4, dtype=np.int64)
        self.ingress: _Numbers = np.zeros(4, dtype=np.int64)
        self.longest = Bound()
        # The urgencies, and the values where programming delays others as long
        # as this, or longer.
        self._urgent = Bound()
        self._programmed = Bound()
        self._delay_s = 0.0
        # The urgencies of all kinds, and when they were.
        self._urgencies: _Floats = self.fresh
        self._now = math.nan

    def add(self, kind: Kind) -> None:
        kind.pack, kind.row = self, len(self.kinds)
        self.kinds.append(kind)
        if kind.row == len(self.fresh):
            self.arrivals_s = np.append(self.arrivals_s, self.arrivals_s)
            self.fresh = np.append(self.fresh, self.fresh)
            self.slopes = np.append(self.slopes, self.slopes)
            self.per_byte = np.append(self.per_byte, self.per_byte)
            self.egress = np.append(self.egress, self.egress)
            self.ingress = np.append(self.ingress, self.ingress)

    def remove(self, kind: Kind) -> None:
        """Remove a kind; the last one moves to its row."""
        last = self.kinds.pop()
        kind.pack = None
        self._now = math.nan
        if last is not kind:
            last.row = kind.row
            self.kinds[last.row] = last
            self._set(last)

    def write(self, kind: Kind, now: float) -> None:
        """Read what has changed of a kind."""
        self._set(kind)
        self._now = math.nan
        urgency, slope = kind.urgency(now), kind.slope
        self._urgent.include(now, urgency, slope)
        worth = 1.0 / (1.0 / self.peak_max + self._delay_s * kind.per_byte)
        self._programmed.include(now, urgency * worth, slope * worth)
        per_s = self.peak * kind.per_byte
        self.longest.include(now, per_s * (now - kind.arrival_s), per_s)

    def _set(self, kind: Kind) -> None:
        row = kind.row
        self.arrivals_s[row] = kind.arrival_s
        self.fresh[row] = kind.fresh
        self.slopes[row] = kind.slope
        self.per_byte[row] = kind.per_byte
        self.egress[row] = kind.egress
        self.ingress[row] = kind.ingress

    def urgencies(self, now: float) -> _Floats:
        """Return those of all kinds."""
        if now != self._now:
            size = len(self.kinds)
            waits_s = now - self.arrivals_s[:size]
            self._urgencies = self.fresh[:size] + self.slopes[:size] * waits_s
            self._now = now
        return self._urgencies

    def waited(self, now: float, rows: typing.Any) -> _Floats:
        """Return how many service times the first jobs of rows have waited."""
        waits_s = now - self.arrivals_s[rows]
        waited: _Floats = self.peak * self.per_byte[rows] * waits_s
        return waited

    def top(self, now: float, delay_s: float, gain: float) -> float:
        """Return an upper bound of the values.

        :param delay_s: how long programming delays others; 0: at once.
        :param gain: an upper bound of the gains.
        """
        if not delay_s:
            return self._urgent.at(now) * gain
        if delay_s < self._delay_s:
            self._renew(now, delay_s)
        return self._programmed.at(now)

    def above(
        self, now: float, delay_s: float, gain: float, least: float
    ) -> _Numbers:
        """Return the rows that may have at least this value.

        :param gain: an upper bound of the gains.
        """
        costs: float | _Floats = 1.0 / gain
        if delay_s:
            costs = costs + delay_s * self.per_byte[: len(self.kinds)]
        rows: _Numbers = (self.urgencies(now) >= least * costs).nonzero()[0]
        if not len(rows):
            self._renew(now, delay_s)
        return rows

    def _renew(self, now: float, delay_s: float) -> None:
        """Find bounds again that have become too high."""
        rows = slice(len(self.kinds))
        per_byte, slopes = self.per_byte[rows], self.slopes[rows]
        bound = self._urgent
        worths: float | _Floats = 1.0
        if delay_s:
            bound, self._delay_s = self._programmed, _DELAY_MARGIN * delay_s
            worths = 1.0 / (1.0 / self.peak_max + self._delay_s * per_byte)
        bound.set(
            now,
            float((worths * self.urgencies(now)).max()),
            float((worths * slopes).max()),
        )
        self.longest.set(
            now,
            float(self.waited(now, rows).max()),
            self.peak * float(per_byte.max()),
        )


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
        self.of_group: dict[
            queued.JobGroup, dict[tuple[model.HostId | None, str], Kind]
        ] = {}
        self.packs: dict[queued.JobGroup, dict[tuple[str, int], Pack]] = {}
        self.on_host: dict[model.HostId, dict[Kind, None]] = {}
        self._pipes: dict[int, pipe_loads.Pipe] = {}
        # What one more flow would get on each pipe, what no flow uses, and the
        # rate that leaves enough of it free, as of the last refresh.
        self._shares: _Floats = np.empty(0)
        self._lefts: _Floats = np.empty(0)
        self._spares: _Floats = np.empty(0)
        self._outdated: dict[Kind, None] = {}
        self.offers: dict[int, typing.Any] = {}
        # When first jobs may be overtaken; kinds that are gone or
        # listed again may still be there.
        self._due: list[tuple[float, int, Kind]] = []
        # How many there were when those were last removed.
        self._due_kept = 0
        self._made = 0
        # When the index saw its first job, and the present.
        self._base_s = self._now = math.nan
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
            self._unpack(kind)
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
        fresh, slope = self._line(kind, job.claimed_bytes)
        # A clock may be ahead of the pool's.
        arrival_s = min(job.arrival_s, now) - self._base_s
        kind.jobs.add(
            record, fresh - slope * arrival_s, slope, now - self._base_s
        )

    def _line(self, kind: Kind, size_bytes: float) -> tuple[float, float]:
        """Return the urgency of a fresh job, and its growth in a second."""
        fresh: float = size_bytes**-self._size_power
        return fresh, fresh * self._ageing * kind.peak / size_bytes

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
        return kind

    def _drop(self, kind: Kind) -> None:
        group, host_id = kind.group, kind.host_id
        del self.of_group[group][host_id, kind.accelerator]
        if not self.of_group[group]:
            del self.of_group[group]
        if host_id is not None:
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
            pack = packs[key] = Pack(kind)
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

    # -- the present ----------------------------------------------------------

    def pipe(self, number: int) -> pipe_loads.Pipe:
        """Return what a pipe had left at the last refresh."""
        pipe = self._pipes.get(number)
        if pipe is None:
            pipe = self._pipes[number] = self._loads.pipe(number)
        return pipe

    def refresh(self, now: float) -> None:
        """Update first jobs, and what is left of the network."""
        self._now = now
        due, outdated = self._due, self._outdated
        time_s = now - self._base_s
        while due and due[0][0] <= time_s:
            listed_s, _, kind = heapq.heappop(due)
            if kind.listed_s != listed_s:
                continue
            kind.listed_s = math.inf
            if kind.due_s <= time_s:
                outdated[kind] = None
            else:
                self._list(kind)
        self._measure()
        for kind in outdated:
            self._update(kind, time_s)
        outdated.clear()

    def own(
        self, pack: Pack, rows: _Numbers, most: float
    ) -> tuple[_Floats, _Floats]:
        """Return the rates of rows, and the losses on their own hosts.

        :param most: the highest rate that they get elsewhere.
        """
        out, ratio = pack.egress.take(rows), pack.ratio
        rates = np.minimum(self._shares.take(out), most)
        if ratio <= 0:
            return rates, np.maximum(rates - self._lefts.take(out), 0.0)
        back = pack.ingress.take(rows)
        rates = np.minimum(rates, self._shares.take(back) / ratio)
        losses = np.maximum(rates - self._lefts.take(out), 0.0)
        losses += np.maximum(rates * ratio - self._lefts.take(back), 0.0)
        return rates, losses

    def rooms(self, pack: Pack, rows: _Numbers) -> _Floats:
        """Return the rates of rows that leave their own hosts' pipes free.

        ``leave_min_free`` says which part of them.
        """
        rooms: _Floats = self._spares.take(pack.egress.take(rows))
        if pack.ratio > 0:
            back = self._spares.take(pack.ingress.take(rows))
            rooms = np.minimum(rooms, back / pack.ratio)
        return rooms

    def _measure(self) -> None:
        """Read the pipes that have changed."""
        missing = len(self._loads.loads) - len(self._shares)
        if missing > 0:
            more = np.full(missing, math.inf)
            self._shares = np.append(self._shares, more)
            self._lefts = np.append(self._lefts, more)
            self._spares = np.append(self._spares, more)
        part = self._options.leave_min_free
        changed = self._loads.changed
        for number in changed:
            pipe = self._pipes[number] = self._loads.pipe(number)
            self._shares[number] = pipe.share
            self._lefts[number] = pipe.left
            self._spares[number] = pipe.spare(part)
        changed.clear()

    def _update(self, kind: Kind, time_s: float) -> None:
        """Find the first job of a kind."""
        jobs = kind.jobs
        jobs.first(time_s)
        kind.first = first = kind.leader()
        size_bytes = first.job.claimed_bytes
        kind.per_byte = 1.0 / size_bytes
        kind.arrival_s = min(first.job.arrival_s, self._now)
        kind.fresh, kind.slope = self._line(kind, size_bytes)
        kind.may = HOMELESS
        if kind.has_home:
            kind.may = STAYING if first.homed else LEAVING
        kind.due_s = jobs.until_s
        if kind.due_s < kind.listed_s:
            self._list(kind)
        pack = kind.pack
        if pack is None or pack.may != kind.may:
            pack = self._repack(kind)
        pack.write(kind, self._now)

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
