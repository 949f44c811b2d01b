# SPDX-License-Identifier: Apache-2.0

"""Pairs jobs and boards by work, waiting time, expected rate and programming.

Until no pair is allowed, the strategy takes the pair of a job and a board with
the smallest score, which is the job's work per rate. Waiting lowers the score,
in proportion to the time that the job takes; programming a slot raises it, the
more jobs wait. Only ratios of sizes and times matter, so it needs no tuning
for the sizes of a pool's jobs.

Of each kind of jobs only the first one competes: the one with the least work.
"""

import math
import typing
from collections import abc

import numpy as np
import numpy.typing as npt

from fpgapool.core import model
from fpgapool.core import ordered
from fpgapool.core import strategy
from fpgapool.core import view as pool_view
from fpgapool.core.queues import queued
from fpgapool.core.topology import boards as idle_boards
from fpgapool.core.topology import loads as pipe_loads
from fpgapool.core.topology import slots
from fpgapool.strategies.joint import candidates
from fpgapool.strategies.joint import rates as rates_strategy

AutoOptions = candidates.AutoOptions

_Floats: typing.TypeAlias = npt.NDArray[np.float64]
_Numbers: typing.TypeAlias = npt.NDArray[np.int64]

# Bounds are relaxed by far more than rounding errors can change them.
_ROUNDING = 1.0 - 1e-9
# Up to this many targets, a loop over them is faster than vectors.
_FEW = 8
# The strategy looks again after at least this time, so that tiny jobs do not
# keep the pool busy with looking.
_LEAST_LOOK_S = 0.01
# How far each portion of kinds reaches down from the one before.
_PORTIONS = (0.5, 0.5, 0.2, 0.05, 0.0)


class AutoStrategy(rates_strategy.RatesStrategy):
    """Takes the allowed pair with the smallest score until none is left.

    Equal pairs are ordered as :class:`~.era.EraStrategy` orders them.
    """

    def __init__(self, options: AutoOptions) -> None:
        self.options = options

    def patience_s(self, job: model.Job) -> float | None:
        return self.options.leave_s_per_byte * job.claimed_bytes

    def make_kinds(self, loads: pipe_loads.Loads) -> candidates.Candidates:
        return candidates.Candidates(loads, self.options)

    def look_again_s(self, view: pool_view.PoolView) -> float | None:
        kinds = typing.cast(candidates.Candidates, view.kinds)
        return max(
            self.options.look_again * kinds.mean_service_s, _LEAST_LOOK_S
        )

    def assign(
        self, view: pool_view.PoolView, now: float
    ) -> abc.Iterator[strategy.Choice]:
        while view.slots.idle_total and view.waiting_count:
            choice = _Decision(self.options, view, now).make()
            if choice is None:
                return
            yield choice


class _Pair(typing.NamedTuple):
    """An allowed pair of a job and a slot.

    :ivar rank: the score and what orders equal scores; the least one wins.
    :ivar rate: the expected rate in bytes/s.
    """

    rank: ordered.Key
    record: queued.JobRecord
    slot: slots.Slot
    rate: float

    @property
    def score(self) -> float:
        return typing.cast(float, self.rank[0])


class _Targets(typing.NamedTuple):
    """The boards with idle slots; a board with two shapes counts twice.

    :ivar dma: the rate that one more flow would get on each board's DMA pipe,
        and on its host's ``ingress`` and ``egress``, in bytes/s.
    :ivar dma_left: what no flow uses of it.
    :ivar spread: the factor for each board's taken slots.
    :ivar light_rate: up to this rate, the network of some of the boards' hosts
        stays free enough.
    :ivar is_free: whether some of them has enough of its pipes free.
    """

    numbers: _Numbers
    dma: _Floats
    ingress: _Floats
    egress: _Floats
    dma_left: _Floats
    spread: _Floats
    light_rate: float
    is_free: bool


class _Decision:
    """One decision: it finds the best pair and assigns the slot.

    Bounds say which kinds can have a score as low as a given one. These are
    evaluated exactly, the most promising first.
    """

    def __init__(
        self, options: AutoOptions, view: pool_view.PoolView, now: float
    ) -> None:
        self._options = options
        self._view = view
        self._now = now
        self._loads = typing.cast(pipe_loads.Loads, view.loads)
        self._kinds = typing.cast(candidates.Candidates, view.kinds)
        self._boards = typing.cast(idle_boards.Boards, view.boards)
        self._time_s = self._kinds.refresh(now)
        up = sum(view.slots.up_by_shape.values())
        busy = up - view.slots.idle_total
        self._is_idle = 1.0 - busy / up >= options.idle_share
        self._weight = 1.0 + min(
            view.jobs.count / up, options.programming_weight_max
        )
        self._min_share = (
            options.min_share_idle if self._is_idle else options.min_share
        )
        # Urgency tells how long a job has waited only if jobs age.
        self._patience = math.inf
        if options.ageing > 0:
            self._patience = options.patience / options.ageing
        self._groups = [
            group
            for group in view.jobs.groups()
            if group.count and view.slots.idle_count(group.shapes)
        ]
        self._pipes: dict[int, pipe_loads.Pipe] = {}
        self._best: _Pair | None = None
        self._found_limits: tuple[_Floats, _Floats, _Floats] | None = None

    def make(self) -> strategy.Choice | None:
        """Assign the best pair; None: no pair is allowed."""
        if self._groups:
            self._targets = self._read_targets()
            self._is_near = self._boards.hosts_with_idle(self._loads.count)
            self._find()
        best = self._best
        if best is None:
            return None
        choice = self._view.give(best.record, best.slot)
        self._loads.set_rate(best.slot.id, best.rate)
        return choice

    def _read_targets(self) -> _Targets:
        boards, loads, options = self._boards, self._loads, self._options
        numbers = boards.counts.nonzero()[0]
        dma = boards.dma[numbers]
        inward, out = boards.ingress[numbers], boards.egress[numbers]
        busy = loads.counts[dma] / boards.slot_counts[numbers]
        least_free = options.min_free * _ROUNDING
        is_free = (loads.spare(dma, least_free) >= 0) & (
            loads.spare(inward, least_free) >= 0
        )
        return _Targets(
            numbers,
            loads.share(dma),
            loads.share(inward),
            loads.share(out),
            loads.left(dma),
            1.0 + options.spread * busy,
            float(loads.spare(inward, options.leave_min_free).max()),
            bool(is_free.any()),
        )

    # -- which kinds to evaluate -----------------------------------------

    def _find(self) -> None:
        """Find the best pair of all kinds that are shown."""
        kinds = self._kinds
        rows = self._shown_rows()
        urgency = kinds.starts[rows] + kinds.slopes[rows] * self._time_s
        reach = urgency / self._least_costs(rows)
        if isinstance(rows, slice) and len(self._groups) < len(kinds.of_group):
            reach *= kinds.is_of(self._groups)
        # Nearly always, the best pair is among the most promising kinds, so
        # the search takes them in portions.
        below, floor = math.inf, float(reach.max())
        for ratio in _PORTIONS:
            floor *= ratio
            if self._best is not None:
                floor = max(floor, _ROUNDING / self._best.score)
            places = ((reach >= floor) & (reach < below)).nonzero()[0]
            if len(places):
                chosen = places if isinstance(rows, slice) else rows[places]
                self._search(chosen, self._bound(chosen, urgency[places]))
            best, below = self._best, floor
            if best is not None and best.score * floor <= 1:
                return

    def _least_costs(self, rows: _Numbers | slice) -> _Floats:
        """Return for each kind a lower bound of its score times its urgency.

        This is a quick bound; :meth:`_bound` has a better one for fewer kinds.
        """
        kinds, targets = self._kinds, self._targets
        least_rates, most_rates, programming_s = self._limits()
        costs = kinds.costs
        if self._is_idle:
            costs = kinds.costs_light
        elif targets.light_rate < least_rates.min():
            costs = kinds.costs_heavy
        found: _Floats = np.maximum(costs[rows], 1.0 / most_rates.max())
        if programming_s.any():
            weights = (self._weight * programming_s)[kinds.accelerators[rows]]
            found += weights * kinds.per_byte[rows]
        # Their hosts cannot send as fast as they want to compute.
        is_slow = kinds.dma_limits[rows] < targets.dma.min() * _ROUNDING
        found[is_slow] = math.inf
        least = 1.0 / targets.dma.max()
        if isinstance(rows, slice) and len(targets.numbers) <= _FEW:
            hosts = self._view.slots.idle_hosts
            near = [kind.row for host in hosts for kind in kinds.of_host(host)]
            found[near] = np.minimum(found[near], least)
        else:
            is_near = self._is_near[kinds.egress[rows]] & kinds.has_home[rows]
            found[is_near] = np.minimum(found[is_near], least)
        return found

    def _shown_rows(self) -> _Numbers | slice:
        """Return the rows of the kinds to consider.

        If all jobs are shown, these are all rows, as a slice copies nothing.
        """
        if self._view.jobs.is_plain:
            return slice(len(self._kinds.kinds))
        return np.concatenate(
            [self._kinds.rows_of(group) for group in self._groups]
        )

    def _search(self, rows: _Numbers, reach: _Floats) -> None:
        """Evaluate the kinds that can be better than the best pair."""
        while len(reach):
            place = int(reach.argmax())
            highest = reach.item(place)
            best = self._best
            if highest <= 0 or (
                best is not None and highest * best.score < _ROUNDING
            ):
                return
            reach[place] = 0.0
            self._evaluate(self._kinds.kinds[rows.item(place)])

    def _bound(self, rows: _Numbers, urgency: _Floats) -> _Floats:
        """Return an upper bound of one by the score, for each kind."""
        kinds, options, targets = self._kinds, self._options, self._targets
        numbers, has_home = kinds.accelerators[rows], kinds.has_home[rows]
        least_rates, most_rates, programming_s = self._limits()
        least = least_rates[numbers]
        rates = np.minimum(kinds.rates[rows], most_rates[numbers])
        allowed = rates >= _ROUNDING * least
        penalties = np.full(len(rows), options.leave_penalty_idle)
        if not self._is_idle:
            halves = np.minimum(kinds.halves[rows], targets.light_rate)
            allowed &= (halves >= least) | ~kinds.homed[rows]
            penalties[rates > halves] = options.leave_penalty
        losses = np.maximum(rates - kinds.lefts[rows], 0.0)
        if not has_home.all():
            penalties[~has_home] = 1.0
            waited = np.maximum(urgency / kinds.fresh[rows] - 1.0, 1e-9)
            wanted = self._min_share / (1.0 + self._patience * waited)
            peaks = np.minimum(kinds.peaks_min[rows], targets.dma.min())
            accepted = rates >= _ROUNDING * wanted * peaks
            if targets.is_free:
                accepted |= kinds.is_free[rows]
            allowed = np.where(has_home, allowed, accepted)
        near = (self._is_near[kinds.egress[rows]] & has_home).nonzero()[0]
        if len(near):
            allowed[near] = True
            penalties[near] = 1.0
            losses[near] = 0.0
            rates[near] = np.minimum(
                kinds.peaks_max[rows[near]], targets.dma.max()
            )
        losses += np.maximum(rates - targets.dma_left.max(), 0.0)
        gains = np.maximum(
            rates - options.loss_weight * losses,
            rates_strategy.LEAST_GAIN * rates,
        )
        costs = self._weight * programming_s[numbers] * kinds.per_byte[rows]
        found: _Floats = (urgency * allowed) / (
            penalties * targets.spread.min() * (1.0 / gains + costs)
        )
        return found

    def _limits(self) -> tuple[_Floats, _Floats, _Floats]:
        """Return what the boards offer to each accelerator, by number.

        :returns: the least rate at which a host must send for a job that
            leaves it, infinite if no board accepts such a job; the highest
            rate to any board; and the least time to program a slot.
        """
        if self._found_limits is None:
            kinds, targets = self._kinds, self._targets
            least, most, ratios = kinds.accelerator_rates()
            wanted = self._options.leave_min_share * np.minimum(
                least[:, None], targets.dma
            )
            back = targets.egress / ratios[:, None]
            there = np.minimum(targets.ingress, back)
            least_rates = np.where(
                there >= wanted * _ROUNDING, wanted, math.inf
            )
            self._found_limits = (
                least_rates.min(axis=1),
                np.minimum(most, np.minimum(targets.dma, there).max(axis=1)),
                kinds.programming_s(
                    self._boards.programming_s[targets.numbers].min(),
                    self._boards.programmed,
                ),
            )
        return self._found_limits

    # -- which boards to evaluate ----------------------------------------

    def _local_targets(
        self, kind: candidates.Kind
    ) -> abc.Collection[idle_boards.Target]:
        host_id = kind.host_id
        if host_id is None or host_id not in self._view.slots.idle_hosts:
            return ()
        host = self._view.slots.idle_hosts[host_id]
        return dict.fromkeys(map(self._boards.of, host.idle))

    def _evaluate(self, kind: candidates.Kind) -> None:
        """Compare a kind's first job on all boards with the best pair."""
        if len(self._targets.numbers) <= _FEW:
            self._evaluate_on(kind, self._boards.at(self._targets.numbers))
            return
        self._evaluate_on(kind, self._local_targets(kind))
        scores = self._least_scores(kind)
        while True:
            least = scores.min()
            if least == math.inf or (
                self._best is not None and least * _ROUNDING > self._best.score
            ):
                return
            places = (scores == least).nonzero()[0]
            places = self._first_of_equals(kind, places)
            self._evaluate_on(
                kind, self._boards.at(self._targets.numbers[places])
            )
            if self._best is not None and self._best.score <= least:
                return
            scores[places] = math.inf

    def _least_scores(self, kind: candidates.Kind) -> _Floats:
        """Return a lower bound of a kind's scores on other hosts' boards."""
        kinds, options, targets = self._kinds, self._options, self._targets
        job, row = kinds.first(kind).job, kind.row
        rates = np.minimum(
            np.minimum(targets.dma, targets.ingress), kinds.rates.item(row)
        )
        if kind.ratio > 0:
            rates = np.minimum(rates, targets.egress / kind.ratio)
        penalty: _Floats | float = 1.0
        if kind.has_home:
            penalty = options.leave_penalty_idle
            if not self._is_idle:
                penalty = np.where(
                    rates <= kinds.halves.item(row),
                    penalty,
                    options.leave_penalty,
                )
        programming_s = self._programming_s(kind.accelerator)
        scores = (
            self._work(kind, job)
            * penalty
            * targets.spread
            * (1.0 / rates + self._weight * programming_s / job.claimed_bytes)
        )
        peaks = np.minimum(targets.dma, kind.peak_min)
        wanted = self._wanted(kind, job)
        allowed = rates >= _ROUNDING * wanted * peaks
        if kinds.is_free.item(row) and targets.is_free and not kind.has_home:
            return scores
        return np.where(allowed, scores, math.inf)

    def _first_of_equals(
        self, kind: candidates.Kind, places: _Numbers
    ) -> _Numbers:
        """Return the places that come first of those with equal scores."""
        targets = self._targets
        for values in (
            self._loads.counts[self._boards.dma[targets.numbers]],
            self._programming_s(kind.accelerator) > 0,
            self._boards.host_ids[targets.numbers],
        ):
            chosen = values[places]
            places = places[chosen == chosen.min()]
        return places

    def _programming_s(self, accelerator: str) -> _Floats:
        """Return the least time to program each target, in seconds."""
        boards, numbers = self._boards, self._targets.numbers
        found = boards.programming_s.copy()
        found[list(boards.programmed.get(accelerator, ()))] = 0.0
        return found[numbers]

    # -- exact evaluation ------------------------------------------------

    def _evaluate_on(
        self,
        kind: candidates.Kind,
        targets: abc.Iterable[idle_boards.Target],
    ) -> None:
        """Compare a kind's first job on some boards with the best pair."""
        record = self._kinds.first(kind)
        work = self._work(kind, record.job)
        wanted = self._wanted(kind, record.job)
        for target in targets:
            slot = target.slot_for(kind.group, kind.accelerator)
            if slot is None:
                continue
            pair = self._pair(kind, record, slot, work, wanted)
            if pair is not None and (
                self._best is None or pair.rank < self._best.rank
            ):
                self._best = pair

    def _service_times(self, kind: candidates.Kind, job: model.Job) -> float:
        """Return how many service times a job has waited."""
        wait_s = max(self._now - job.arrival_s, 0.0)
        return wait_s * kind.peak / job.claimed_bytes

    def _work(self, kind: candidates.Kind, job: model.Job) -> float:
        waited = self._service_times(kind, job)
        work: float = job.claimed_bytes**self._options.size_power
        return work / (1.0 + self._options.ageing * waited)

    def _wanted(self, kind: candidates.Kind, job: model.Job) -> float:
        """Return the least fraction of its peak that a job accepts."""
        if kind.has_home:
            return self._options.leave_min_share
        waited = self._service_times(kind, job)
        return self._min_share / (1.0 + self._options.patience * waited)

    def _pair(
        self,
        kind: candidates.Kind,
        record: queued.JobRecord,
        slot: slots.Slot,
        work: float,
        wanted: float,
    ) -> _Pair | None:
        """Return a job's pair with a slot; None: it may not go there."""
        options, loads = self._options, self._loads
        number = loads.dma(slot.spec.device_id)
        dma = self._pipe(number)
        peak = min(kind.peaks.get(slot.shape, kind.peak), dma.share)
        flows = [(dma, 1.0)]
        if kind.host_id != slot.host.id:
            flows += self._network(kind, slot.host.id)
        rate = min(peak, *(pipe.share / cost for pipe, cost in flows))
        penalty = 1.0
        if len(flows) > 1:
            part = options.leave_min_free
            is_light = self._is_idle or all(
                pipe.has_free(part, rate * cost) for pipe, cost in flows[1:]
            )
            if rate < wanted * peak and (
                kind.has_home
                or not all(p.has_free(options.min_free) for p, _ in flows)
            ):
                return None
            if kind.has_home:
                if record.homed and not is_light:
                    return None
                penalty = options.leave_penalty
                if is_light:
                    penalty = options.leave_penalty_idle
        losses = sum(max(rate * cost - pipe.left, 0.0) for pipe, cost in flows)
        gain = max(
            rate - options.loss_weight * losses,
            rates_strategy.LEAST_GAIN * rate,
        )
        job, at_once = record.job, slot.starts_at_once(kind.accelerator)
        program_s = 0.0 if at_once else slot.spec.programming_time_s
        busy = loads.counts.item(number)
        score = (
            work
            / gain
            * (1.0 + self._weight * program_s * rate / job.claimed_bytes)
            * penalty
            * (1.0 + options.spread * busy / slot.device_slots)
        )
        return _Pair(
            (score, record.key, busy, not at_once, slot.position),
            record,
            slot,
            rate,
        )

    def _network(
        self, kind: candidates.Kind, host_id: model.HostId
    ) -> list[tuple[pipe_loads.Pipe, float]]:
        """Return the network pipes of a flow, with bytes per input byte."""
        loads = self._loads
        found = [
            (self._pipe(kind.egress), 1.0),
            (self._pipe(loads.ingress(host_id)), 1.0),
        ]
        if kind.ratio > 0:
            found += [
                (self._pipe(loads.egress(host_id)), kind.ratio),
                (self._pipe(kind.ingress), kind.ratio),
            ]
        return found

    def _pipe(self, number: int) -> pipe_loads.Pipe:
        pipe = self._pipes.get(number)
        if pipe is None:
            pipe = self._pipes[number] = self._loads.pipe(number)
        return pipe
