# SPDX-License-Identifier: Apache-2.0

"""The first job of each kind, with bounds on how well it could be served.

The index belongs to :mod:`~fpgapool.strategies.joint.auto`. It answers which
kinds are worth an exact evaluation, so that a decision does not depend on the
number of waiting jobs, and hardly on the number of hosts.

The *value* of a pair is one by its score, without the factors for leaving the
own host and for the board's taken slots.
"""

import bisect
import heapq
import math
import typing
from collections import abc

from fpgapool.core import model
from fpgapool.core import native
from fpgapool.core.queues import ageing
from fpgapool.core.queues import queued
from fpgapool.core.topology import loads as pipe_loads
from fpgapool.strategies.joint import auto_options
from fpgapool.strategies.joint import rates as rates_strategy

#: A kind in an order, the best one first: (- its bound, its number, it).
Entry: typing.TypeAlias = tuple[float, int, "Kind"]
#: A pipe, and the bytes that it carries per byte of input.
Use: typing.TypeAlias = tuple[pipe_loads.Pipe, float]

#: Bounds are relaxed by far more than rounding errors can change them.
ROUNDING: typing.Final = 1.0 - 1e-9
# The mean service time counts about this many of the latest jobs.
_MEAN_OF = 1000
# The bounds of a job hold until its age, which is its service time and its
# wait, has grown by this part.
_STEP = 0.3
# The bounds assume a bit less weight of programming than there is, so that
# they outlast small changes of it.
_WEIGHT_MARGIN = 0.8
# Kinds of a pack get rates that differ by at most this part of an octave …
_STEPS_PER_OCTAVE: typing.Final = 3.0
# … or all less than an octave above this fraction of the peak …
_LEAST_RATE_OCTAVE: typing.Final = -6.0
# … and accept rates that differ by an octave, or all less than this fraction.
_LEAST_PATIENCE_OCTAVE: typing.Final = -3.0
# Up to this many entries of kinds that are gone are never removed.
_MIN_SWEPT = 64

# What the first job of a kind may do.
#: It has no board at home.
HOMELESS: typing.Final = 0
#: It may leave its own host's boards.
LEAVING: typing.Final = 1
#: It may leave them only if the networks stay free enough.
STAYING: typing.Final = 2


def most_gain(rate: float, uses: list[Use], loss_weight: float) -> float:
    """Return an upper bound of a gain.

    :param rate: an upper bound of the rate, in bytes/s.
    :param uses: pipes that the job uses.
    """
    tops = [rate]
    for pipe, cost in uses:
        # Where nothing is left, a lower rate may gain more.
        if pipe.left < rate * cost:
            tops.append(pipe.left / cost)
    best = rates_strategy.LEAST_GAIN * rate
    for top in tops:
        gain = top
        for pipe, cost in uses:
            lost = top * cost - pipe.left
            if lost > 0:
                gain -= loss_weight * lost
        best = max(best, gain)
    return best


def _level(part: float, steps: float, least: float) -> int:
    """Return a number that equals those of almost equal fractions.

    :param steps: how many there are per octave.
    :param least: the octave below which all are equal.
    """
    if part >= 1.0:
        return 0
    if part <= 0.0:
        return int(least * steps) - 1
    return int(max(math.log2(part), least) * steps) - 1


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Limits:
    """What jobs may do and get on other hosts' boards.

    :ivar may: what they may do.
    :ivar gain: an upper bound of the gain.
    :ivar room: an upper bound of the rate at which jobs that leave a board
        leave their own host's pipes free enough.
    :ivar patience: a lower bound of the factor that waiting puts on the rate
        that is good enough …
    :ivar reach: … and an upper bound of the rate that the own host's network
        allows, divided by that factor.
    """

    __slots__ = ("gain", "may", "patience", "reach", "room")

    def __init__(self, may: int) -> None:
        self.may = may
        self.gain = self.room = self.reach = 0.0
        self.patience = 1.0


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Kind(Limits):
    """Waiting jobs that differ only in size and arrival.

    Its limits hold until :attr:`due_s`, or until its host's pipes change.

    :ivar peak: the rate of its accelerator, in bytes/s …
    :ivar peak_max: … and the highest and the lowest one in any slot shape.
    :ivar first: the job that competes; None: the index must find it.
    :ivar arrival_s: when that came.
    :ivar fresh: one by its work when it came …
    :ivar ageing: … by how much that rises per second …
    :ivar urgency: … and an upper bound of it.
    :ivar out: the pipe through which its host sends …
    :ivar back: … and the one through which it receives the output, if any.
    :ivar own_rate: the rate at which its host can send, and receive; negative:
        it is not known yet.
    :ivar pack: the kinds that it belongs to …
    :ivar entry: … and its entry there, by its urgency …
    :ivar programmed: … and the one among those that need programming.
    :ivar due_s: when its first job may be another one, or its bounds end,
        counted from the first job that the index has seen.
    :ivar listed_s: when the index looks at it next.
    """

    __slots__ = (
        "accelerator",
        "ageing",
        "arrival_s",
        "back",
        "due_s",
        "egress",
        "entry",
        "first",
        "fresh",
        "group",
        "has_home",
        "host_id",
        "ingress",
        "jobs",
        "listed_s",
        "number",
        "out",
        "own_rate",
        "pack",
        "peak",
        "peak_max",
        "peak_min",
        "peaks",
        "programmed",
        "ratio",
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
        super().__init__(HOMELESS)
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
        self.size_bytes = self.urgency = 0.0
        self.arrival_s = self.fresh = self.ageing = 0.0
        self.own_rate = -1.0
        self.due_s = self.listed_s = math.inf
        self.pack: Pack | None = None
        self.entry: Entry = (0.0, number, self)
        self.programmed: Entry = (0.0, number, self)

    def rate(self, accelerator: model.Accelerator) -> None:
        """Read the rates of its accelerator."""
        self.peak = accelerator.peak_bytes_per_s
        self.peaks = accelerator.peaks_bytes_per_s
        self.peak_max = max(self.peak, *self.peaks.values(), self.peak)
        self.peak_min = min(self.peak, *self.peaks.values(), self.peak)
        self.ratio = accelerator.return_ratio
        self.own_rate = -1.0

    def leader(self) -> queued.JobRecord:
        """Return the first job, as of the last update of its queue."""
        return typing.cast(
            queued.JobRecord, self.jobs.records[self.jobs.leader]
        )

    def urgency_at(self, now: float) -> float:
        """Return one by the work of its first job at a time."""
        return self.fresh + self.ageing * max(now - self.arrival_s, 0.0)

    def look(self) -> tuple[int, int, int, int]:
        """Return what kinds of a pack have in common."""
        least = _LEAST_RATE_OCTAVE
        return (
            self.may,
            _level(self.gain / self.peak_max, _STEPS_PER_OCTAVE, least),
            _level(self.room / self.peak_min, _STEPS_PER_OCTAVE, least),
            _level(self.patience, 1.0, _LEAST_PATIENCE_OCTAVE),
        )


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Pack(Limits):
    """Kinds of a family with almost the same limits.

    Its limits are those of the best of them.

    :ivar kinds: the kinds by urgency.
    """

    __slots__ = ("family", "kinds", "look")

    def __init__(
        self, family: "Family", look: tuple[int, int, int, int]
    ) -> None:
        super().__init__(look[0])
        self.family = family
        self.look = look
        self.kinds: list[Entry] = []

    def remove(self, kind: Kind) -> None:
        """Remove a kind, and the pack with the last one."""
        _discard(self.kinds, kind.entry)
        if not self.kinds:
            del self.family.packs[self.look]

    def widen(self, kind: Kind) -> None:
        """Let the limits include those of a kind."""
        self.gain = max(self.gain, kind.gain)
        self.room = max(self.room, kind.room)
        self.reach = max(self.reach, kind.reach)
        self.patience = min(self.patience, kind.patience)


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Family:
    """Kinds of a group and an accelerator.

    :ivar programmed: the kinds by an upper bound of their values where the
        slot must be programmed.
    """

    __slots__ = ("packs", "programmed")

    def __init__(self) -> None:
        self.packs: dict[tuple[int, int, int, int], Pack] = {}
        self.programmed: list[Entry] = []


def _discard(entries: list[Entry], entry: Entry) -> None:
    del entries[bisect.bisect_left(entries, entry)]


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Candidates:
    """The kinds of waiting jobs, in families; a :class:`~.kinds.Kinds`.

    :ivar of_group: the kinds of each group, by host and accelerator.
    :ivar families: those of each group, by accelerator.
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
        self.families: dict[queued.JobGroup, dict[str, Family]] = {}
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

    def _pack(self, kind: Kind) -> None:
        """Put a kind where it belongs in its family."""
        look, pack = kind.look(), kind.pack
        cost = 1.0 / kind.peak_max + self._delay_s / kind.size_bytes
        programmed = (-kind.urgency / cost, kind.number, kind)
        family = self._family(kind) if pack is None else pack.family
        if pack is None:
            bisect.insort(family.programmed, programmed)
        elif kind.programmed[0] != programmed[0]:
            _discard(family.programmed, kind.programmed)
            bisect.insort(family.programmed, programmed)
        kind.programmed = programmed
        entry = (-kind.urgency, kind.number, kind)
        if pack is None or pack.look != look:
            if pack is not None:
                pack.remove(kind)
            pack = family.packs.get(look)
            if pack is None:
                pack = family.packs[look] = Pack(family, look)
            bisect.insort(pack.kinds, entry)
        elif kind.entry[0] != entry[0]:
            _discard(pack.kinds, kind.entry)
            bisect.insort(pack.kinds, entry)
        kind.pack, kind.entry = pack, entry
        pack.widen(kind)

    def _family(self, kind: Kind) -> Family:
        families = self.families.setdefault(kind.group, {})
        family = families.get(kind.accelerator)
        if family is None:
            family = families[kind.accelerator] = Family()
        return family

    def _unpack(self, kind: Kind) -> None:
        pack = kind.pack
        if pack is None:
            return
        pack.remove(kind)
        kind.pack, family = None, pack.family
        _discard(family.programmed, kind.programmed)
        if not family.programmed:
            del self.families[kind.group][kind.accelerator]
            if not self.families[kind.group]:
                del self.families[kind.group]

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
                kind.own_rate = -1.0
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
        if kind.own_rate < 0:
            self._weigh(kind)
        self._limit(kind)
        self._pack(kind)

    def _age(self, kind: Kind) -> None:
        """Find the first job of a kind, and how urgent it becomes."""
        time_s, jobs = self._time_s, kind.jobs
        jobs.first(time_s)
        kind.first = first = kind.leader()
        kind.size_bytes = size_bytes = first.job.claimed_bytes
        service_s = size_bytes / kind.peak
        wait_s = max(self._now - first.job.arrival_s, 0.0)
        step_s = _STEP * (service_s + wait_s)
        kind.arrival_s = first.job.arrival_s
        kind.fresh = size_bytes**-self._size_power
        kind.ageing = kind.fresh * self._ageing / service_s
        # When the bounds end.
        kind.urgency = kind.urgency_at(self._now + step_s)
        waited = (wait_s + step_s) / service_s
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
        """Bound what a kind's jobs get from their own host's network."""
        kind.out = self.pipe(kind.egress)
        kind.own_rate = kind.out.share
        uses = [(kind.out, 1.0)]
        if kind.ratio > 0:
            kind.back = self.pipe(kind.ingress)
            kind.own_rate = min(kind.own_rate, kind.back.share / kind.ratio)
            uses.append((kind.back, kind.ratio))
        kind.gain = most_gain(
            min(kind.peak_max, kind.own_rate), uses, self._options.loss_weight
        )

    def _limit(self, kind: Kind) -> None:
        """Bound where a kind's first job may go."""
        options = self._options
        is_homeless = kind.may == HOMELESS
        part = options.min_free if is_homeless else options.leave_min_free
        room = kind.out.spare(part)
        if kind.ratio > 0:
            room = min(room, kind.back.spare(part) / kind.ratio)
        kind.reach = kind.own_rate / kind.patience
        kind.room = room
        if is_homeless:
            # If its pipes are free, it may go to hosts whose pipes are, too.
            kind.room = 0.0
            if room >= 0:
                kind.reach = math.inf
        elif room >= kind.own_rate * ROUNDING:
            kind.room = math.inf
