# SPDX-License-Identifier: Apache-2.0

"""One decision of the strategy ``auto``: the best pair of a job and a slot."""

import math
import operator
import typing

import numpy as np
import numpy.typing as npt

from fpgapool.core import native
from fpgapool.core import ordered
from fpgapool.core import preferences
from fpgapool.core import view as pool_view
from fpgapool.core.queues import queued
from fpgapool.core.topology import boards as idle_boards
from fpgapool.core.topology import loads as pipe_loads
from fpgapool.core.topology import slots
from fpgapool.strategies.joint import auto_options
from fpgapool.strategies.joint import candidates
from fpgapool.strategies.joint import rates as rates_strategy

_Floats: typing.TypeAlias = npt.NDArray[np.float64]
_Numbers: typing.TypeAlias = npt.NDArray[np.int64]

# Bounds are relaxed by far more than rounding errors can change them.
_ROUNDING: typing.Final = 1.0 - 1e-9
# Up to this many kinds, a look at each is faster than vectors.
_FEW: typing.Final = 32

_HOST = operator.attrgetter("host_id")


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Offer:
    """A board's idle slots of one shape, and what its pipes have left.

    :ivar crowding: the factor for the board's taken slots.
    :ivar programs: the accelerators that it is programmed with.
    :ivar programming_s: the least time to program another one.
    :ivar is_instant: whether that takes no time.
    :ivar gain: an upper bound of the gain of other hosts' jobs …
    :ivar own_gain: … and of the host's own jobs.
    :ivar chances: what packs get here, as far as it was asked for.
    """

    __slots__ = (
        "_pipes",
        "_programs",
        "_slots",
        "chances",
        "crowding",
        "dma",
        "egress",
        "gain",
        "host_id",
        "ingress",
        "is_instant",
        "own_gain",
        "programming_s",
        "programs",
        "shape",
        "target",
    )

    def __init__(
        self,
        target: idle_boards.Target,
        kinds: candidates.Candidates,
        loads: pipe_loads.Loads,
        options: auto_options.AutoOptions,
    ) -> None:
        slot = target.slots[0]
        self.target = target
        self.shape = target.shape
        self.programs = {each.programmed for each in target.slots}
        self.programming_s = min(
            [each.spec.programming_time_s for each in target.slots]
        )
        self.is_instant = self.programming_s <= 0
        self.host_id = slot.host.id
        self._slots = list(target.slots)
        self._programs = [each.programmed for each in target.slots]
        self._pipes = (
            loads.dma(slot.spec.device_id),
            loads.ingress(self.host_id),
            loads.egress(self.host_id),
        )
        self.dma = kinds.pipe(self._pipes[0])
        self.ingress = kinds.pipe(self._pipes[1])
        self.egress = kinds.pipe(self._pipes[2])
        self.chances: dict[tuple[str, int, bool], Chance] = {}
        busy = self.dma.count / slot.device_slots
        self.crowding = 1.0 + options.spread * busy
        dma, ingress, weight = self.dma, self.ingress, options.loss_weight
        self.own_gain = _most_gain(dma.share, [dma.left], weight)
        self.gain = _most_gain(
            min(dma.share, ingress.share), [dma.left, ingress.left], weight
        )

    def is_current(self, kinds: candidates.Candidates) -> bool:
        """Return whether nothing about the board has changed since."""
        dma, ingress, egress = self._pipes
        return (
            kinds.pipe(dma) is self.dma
            and kinds.pipe(ingress) is self.ingress
            and kinds.pipe(egress) is self.egress
            and self.target.slots == self._slots
            and [each.programmed for each in self._slots] == self._programs
        )

    def has_free(self, part: float) -> bool:
        """Return whether this part of the pipes of all jobs is free."""
        return self.dma.has_free(part) and self.ingress.has_free(part)

    @property
    def promise(self) -> float:
        """What to try the best offers first by."""
        return min(self.dma.share, self.ingress.share) / self.crowding

    def state(self) -> tuple[typing.Any, ...]:
        """Return all that matters to jobs of other hosts, but the host."""
        return (
            self.shape,
            self.crowding,
            *(
                (pipe.capacity, pipe.left, pipe.share, pipe.count)
                for pipe in (self.dma, self.ingress, self.egress)
            ),
            *(
                (slot.number, slot.programmed, slot.spec.programming_time_s)
                for slot in self.target.slots
            ),
        )


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Chance:
    """What a pack's jobs get at best on another host's board.

    :ivar rate: the highest rate.
    :ivar gain: without losses on the job's own host, a job's gain is at most
        this …
    :ivar gain_per_rate: … and its rate, times this.
    :ivar wanted: the least rate that a fresh job accepts.
    :ivar room: the highest rate that leaves the networks free enough.
    """

    __slots__ = ("gain", "gain_per_rate", "rate", "room", "wanted")

    def __init__(
        self,
        options: auto_options.AutoOptions,
        pack: candidates.Pack,
        offer: Offer,
        is_idle: bool,
    ) -> None:
        kind, dma, ingress = pack.kinds[0], offer.dma, offer.ingress
        peak = min(kind.peaks.get(offer.shape, kind.peak), dma.share)
        self.rate = min(peak, ingress.share)
        self.room = ingress.spare(options.leave_min_free)
        uses = [(dma, 1.0), (ingress, 1.0)]
        if kind.ratio > 0:
            egress = offer.egress
            self.rate = min(self.rate, egress.share / kind.ratio)
            back = egress.spare(options.leave_min_free)
            self.room = min(self.room, back / kind.ratio)
            uses.append((egress, kind.ratio))
        self.gain, self.gain_per_rate = 0.0, 1.0
        for pipe, cost in uses:
            if self.rate * cost > pipe.left:
                self.gain += options.loss_weight * pipe.left
                self.gain_per_rate -= options.loss_weight * cost
        share = options.leave_min_share
        if pack.may == candidates.HOMELESS:
            share = options.min_share_idle if is_idle else options.min_share
        self.wanted = share * peak * _ROUNDING


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Decision:
    """One decision: it finds the best pair and assigns the slot.

    It compares all pairs of first jobs and boards but those that bounds show
    to be worse than the best pair so far.

    :ivar score: of the best pair.
    """

    def __init__(
        self,
        options: auto_options.AutoOptions,
        view: pool_view.PoolView,
        now: float,
    ) -> None:
        self._options = options
        self._view = view
        self._now = now
        self._loads = typing.cast(pipe_loads.Loads, view.loads)
        self._kinds = typing.cast(candidates.Candidates, view.kinds)
        self._boards = typing.cast(idle_boards.Boards, view.boards)
        up = sum(view.slots.up_by_shape.values())
        busy = up - view.slots.idle_total
        self._is_idle = 1.0 - busy / up >= options.idle_share
        self._weight = 1.0 + min(
            view.jobs.count / up, options.programming_weight_max
        )
        self._min_share = (
            options.min_share_idle if self._is_idle else options.min_share
        )
        self._groups = [
            group
            for group in view.jobs.groups()
            if group.count and view.slots.idle_count(group.shapes)
        ]
        self.score = math.inf
        # Pairs whose values are lower are worse.
        self._least = 0.0
        # What orders equal scores; the least one wins.
        self._rank: ordered.Key = ()
        # Whether there are several offers, and what packs reach then.
        self._are_many = False
        self._reaches: dict[candidates.Pack, float] = {}
        self._record: queued.JobRecord | None = None
        self._slot: slots.Slot | None = None
        self._rate = 0.0

    def make(self) -> preferences.Choice | None:
        """Assign the best pair; None: no pair is allowed."""
        if self._groups:
            self._find()
        record, slot = self._record, self._slot
        if record is None or slot is None:
            return None
        choice = self._view.give(record, slot)
        self._loads.set_rate(slot.id, self._rate)
        return choice

    # -- which pairs to compare ------------------------------------------

    def _find(self) -> None:
        """Find the best pair of all kinds that are shown."""
        kinds, boards = self._kinds, self._boards
        kinds.refresh(self._now)
        offers = [self._offer(target) for target in boards.with_idle()]
        for offer in offers:
            if offer.host_id in kinds.on_host:
                self._stay(offer)
        distinct = _distinct(offers)
        self._are_many = len(distinct) > 1
        # Programming costs so much that these are seldom worth a look.
        later: list[tuple[candidates.Pack, list[Offer]]] = []
        for group in self._groups:
            packs = list(kinds.packs[group].values())
            for same in _each(offers) if group.avoiding else distinct:
                offer = same[0]
                if not group.fits_shape(offer.shape):
                    continue
                for pack in packs:
                    if offer.is_instant or pack.accelerator in offer.programs:
                        self._look(pack, same, 0.0)
                    else:
                        later.append((pack, same))
        for pack, same in later:
            self._look(pack, same, self._weight * same[0].programming_s)

    def _offer(self, target: idle_boards.Target) -> Offer:
        kinds = self._kinds
        offer: Offer | None = kinds.offers.get(target.number)
        if offer is None or not offer.is_current(kinds):
            offer = Offer(target, kinds, self._loads, self._options)
            kinds.offers[target.number] = offer
        return offer

    def _stay(self, offer: Offer) -> None:
        """Compare a host's jobs on its own board."""
        later: list[candidates.Kind] = []
        for kind in self._kinds.on_host[offer.host_id]:
            if kind.group not in self._groups:
                continue
            if offer.is_instant or kind.accelerator in offer.programs:
                self._compare(kind, offer)
            else:
                later.append(kind)
        delay_s = self._weight * offer.programming_s
        for kind in later:
            gain = min(kind.peak_max, offer.own_gain)
            least = self._least * offer.crowding
            if self._may_win(kind, gain, delay_s, least):
                self._compare(kind, offer)

    def _look(
        self, pack: candidates.Pack, same: list[Offer], delay_s: float
    ) -> None:
        """Compare a pack's kinds with one of several equal offers.

        :param delay_s: how long programming delays all who wait.
        """
        offer, now = same[0], self._now
        gain, factor = min(pack.peak_max, offer.gain), offer.crowding
        if pack.may != candidates.HOMELESS:
            factor *= self._options.leave_penalty_idle
        least, few = self._least * factor, pack.kinds
        if len(few) <= _FEW:
            few = [
                kind
                for kind in few
                if self._may_win(kind, gain, delay_s, least)
            ]
            if not few:
                return
            top = math.inf
        else:
            top = pack.top(now, delay_s, gain)
            if top < least:
                return
        chance = self._chance(pack, offer)
        penalty = self._least_penalty(pack, offer, chance)
        factor = offer.crowding * penalty
        if not factor or top < self._least * factor:
            return
        if len(few) <= _FEW:
            for kind in few:
                least = self._least * factor
                if self._may_win(kind, gain, delay_s, least):
                    self._send(kind, same)
            return
        least = self._least * factor
        rows = pack.above(now, delay_s, gain, least)
        if len(rows):
            self._weigh(pack, rows, same, chance, penalty, delay_s)

    def _weigh(
        self,
        pack: candidates.Pack,
        rows: _Numbers,
        same: list[Offer],
        chance: Chance,
        penalty: float,
        delay_s: float,
    ) -> None:
        """Compare the rows of a pack, those with the best values first.

        :param penalty: the least factor for leaving the own host.
        """
        factor = same[0].crowding * penalty
        values = self._values(pack, rows, chance, delay_s)
        best, is_exact = int(values.argmax()), False
        while values.item(best) > self._least * factor:
            score = self.score
            self._send(pack.kinds[rows.item(best)], same)
            values[best] = 0.0
            if self.score == score and not is_exact:
                is_exact = True
                values *= self._shares(pack, rows, same[0], chance, penalty)
            best = int(values.argmax())

    def _chance(self, pack: candidates.Pack, offer: Offer) -> Chance:
        key = (pack.accelerator, pack.may, self._is_idle)
        chance = offer.chances.get(key)
        if chance is None:
            chance = Chance(self._options, pack, offer, self._is_idle)
            offer.chances[key] = chance
        return chance

    def _may_win(
        self, kind: candidates.Kind, gain: float, delay_s: float, least: float
    ) -> bool:
        """Return whether a kind's value may be at least this.

        :param gain: an upper bound of its gain.
        """
        cost = 1.0 / gain + delay_s * kind.per_byte
        return kind.urgency(self._now) >= least * cost

    def _send(self, kind: candidates.Kind, same: list[Offer]) -> None:
        """Compare a kind with the first offer of another host."""
        for offer in same:
            if offer.host_id != kind.host_id:
                self._compare(kind, offer)
                return

    def _least_penalty(
        self, pack: candidates.Pack, offer: Offer, chance: Chance
    ) -> float:
        """Return the least factor for leaving the own host; 0: none may."""
        options, is_homeless = self._options, pack.may == candidates.HOMELESS
        if is_homeless and offer.has_free(options.min_free):
            return 1.0
        waited = pack.longest.at(self._now)
        wanted = chance.wanted / (1.0 + options.patience * waited)
        if chance.rate < wanted:
            return 0.0
        if self._are_many and self._reach(pack) < chance.wanted:
            return 0.0
        if is_homeless:
            return 1.0
        if self._is_idle or chance.room >= wanted:
            return options.leave_penalty_idle
        if pack.may == candidates.LEAVING:
            return options.leave_penalty
        return 0.0

    def _reach(self, pack: candidates.Pack) -> float:
        """Return what a pack's hosts can send, as rates of fresh jobs.

        A job that has waited accepts less than a fresh one: its rate counts
        as much more.
        """
        reach = self._reaches.get(pack)
        if reach is None:
            rows = np.arange(len(pack.kinds))
            waited = pack.waited(self._now, rows)
            rates, _ = self._kinds.own(pack, rows, pack.peak_max)
            if pack.may == candidates.STAYING and not self._is_idle:
                rates = np.minimum(rates, self._kinds.rooms(pack, rows))
            reach = self._reaches[pack] = float(
                (rates * (1.0 + self._options.patience * waited)).max()
            )
        return reach

    def _values(
        self,
        pack: candidates.Pack,
        rows: _Numbers,
        chance: Chance,
        delay_s: float,
    ) -> _Floats:
        """Return upper bounds of the values of rows.

        Most are exact, if the jobs may come here.
        """
        rates, losses = self._kinds.own(pack, rows, chance.rate)
        losses *= self._options.loss_weight
        gains: _Floats = rates * chance.gain_per_rate
        gains += chance.gain
        gains -= losses
        gains = np.maximum(gains, rates * rates_strategy.LEAST_GAIN)
        gains *= pack.urgencies(self._now).take(rows)
        if delay_s:
            gains /= 1.0 + delay_s * pack.per_byte.take(rows) * rates
        return gains

    def _shares(
        self,
        pack: candidates.Pack,
        rows: _Numbers,
        offer: Offer,
        chance: Chance,
        penalty: float,
    ) -> _Floats:
        """Return the least factor for leaving, divided by that of each row.

        :param penalty: the least factor.
        :returns: 0 for a job that may not come here.
        """
        options, kinds = self._options, self._kinds
        is_homeless = pack.may == candidates.HOMELESS
        if is_homeless and offer.has_free(options.min_free):
            return np.ones(len(rows))
        rates, _ = kinds.own(pack, rows, chance.rate)
        patience = options.patience * pack.waited(self._now, rows)
        accepts: npt.NDArray[typing.Any] = (
            rates * (1.0 + patience) >= chance.wanted
        )
        if is_homeless or self._is_idle:
            return accepts
        rooms = np.minimum(kinds.rooms(pack, rows), chance.room)
        is_light = rates * _ROUNDING <= rooms
        light, heavy = penalty / options.leave_penalty_idle, 0.0
        if pack.may == candidates.LEAVING:
            heavy = penalty / options.leave_penalty
        shares: _Floats = accepts * np.where(is_light, light, heavy)
        return shares

    # -- the rule --------------------------------------------------------

    def _compare(self, kind: candidates.Kind, offer: Offer) -> None:
        """Compare a kind's first job on a board with the best pair."""
        slot = offer.target.slot_for(kind.group, kind.accelerator)
        record = kind.first
        if slot is None or record is None:
            return
        options, job, dma = self._options, record.job, offer.dma
        wait_s = max(self._now - job.arrival_s, 0.0)
        waited = wait_s * kind.peak / job.claimed_bytes
        peak = kind.peak
        if kind.peaks:
            peak = kind.peaks.get(slot.shape, peak)
        rate = peak = min(peak, dma.share)
        flows = self._flows(kind, offer)
        for pipe, cost in flows:
            share = pipe.share / cost
            if share < rate:
                rate = share
        penalty = 1.0
        if len(flows) > 1:
            penalty = self._penalty(kind, flows, rate, peak, waited)
            if not penalty:
                return
        losses = 0.0
        for pipe, cost in flows:
            lost = rate * cost - pipe.left
            if lost > 0:
                losses += lost
        gain = max(
            rate - options.loss_weight * losses,
            rates_strategy.LEAST_GAIN * rate,
        )
        at_once = slot.starts_at_once(kind.accelerator)
        program_s = 0.0 if at_once else slot.spec.programming_time_s
        work = job.claimed_bytes**options.size_power / (
            1.0 + options.ageing * waited
        )
        score = (
            work
            / gain
            * (1.0 + self._weight * program_s * rate / job.claimed_bytes)
            * penalty
            * offer.crowding
        )
        if score > self.score:
            return
        rank = (record.key, dma.count, not at_once, slot.position)
        if score < self.score or rank < self._rank:
            self.score, self._rank = score, rank
            self._least = _ROUNDING / score
            self._record, self._slot, self._rate = record, slot, rate

    def _flows(
        self, kind: candidates.Kind, offer: Offer
    ) -> list[tuple[pipe_loads.Pipe, float]]:
        """Return the pipes that a pair uses, with bytes per input byte.

        The DMA pipe comes first.
        """
        found = [(offer.dma, 1.0)]
        if kind.host_id == offer.host_id:
            return found
        pipe = self._kinds.pipe
        found += [(pipe(kind.egress), 1.0), (offer.ingress, 1.0)]
        if kind.ratio > 0:
            found.append((offer.egress, kind.ratio))
            found.append((pipe(kind.ingress), kind.ratio))
        return found

    def _penalty(
        self,
        kind: candidates.Kind,
        flows: list[tuple[pipe_loads.Pipe, float]],
        rate: float,
        peak: float,
        waited: float,
    ) -> float:
        """Return the factor for the work of a job on another host's board.

        :returns: 0 if the job may not go there.
        """
        options = self._options
        patient = 1.0 + options.patience * waited
        if not kind.has_home:
            share = self._min_share / patient
            part = options.min_free
            return float(
                rate >= share * peak
                or all(pipe.has_free(part) for pipe, _ in flows)
            )
        if rate < options.leave_min_share / patient * peak:
            return 0.0
        part = options.leave_min_free
        if self._is_idle or all(
            pipe.has_free(part, rate * cost) for pipe, cost in flows[1:]
        ):
            return options.leave_penalty_idle
        if kind.first is not None and kind.first.homed:
            return 0.0
        return options.leave_penalty


def _most_gain(rate: float, lefts: list[float], loss_weight: float) -> float:
    """Return an upper bound of the gain at this rate or less.

    :param lefts: what no flow uses of some of the pipes; all in bytes/s.
    """
    # Between these, the gain grows or falls evenly.
    gain = rates_strategy.LEAST_GAIN * rate
    for limit in [rate, *lefts]:
        if limit <= rate:
            lost = 0.0
            for left in lefts:
                lost += max(limit - left, 0.0)
            gain = max(gain, limit - loss_weight * lost)
    return gain


def _each(offers: list[Offer]) -> list[list[Offer]]:
    return [[offer] for offer in offers]


def _distinct(offers: list[Offer]) -> list[list[Offer]]:
    """Return the offers without those that jobs never prefer to others.

    Boards of different hosts that are in the same state differ only in ties,
    which go to the first host. The second one is for that host's own jobs.
    """
    if len(offers) == 1:
        return [offers]
    found: dict[tuple[typing.Any, ...], list[Offer]] = {}
    for offer in sorted(offers, key=_HOST):
        state = offer.state()
        same = found.setdefault(state, [])
        if same and same[-1].host_id == offer.host_id:
            found[*state, offer.target.number] = [offer]
        elif len(same) < 2:
            same.append(offer)
    return sorted(found.values(), key=_first_promise, reverse=True)


def _first_promise(same: list[Offer]) -> float:
    return same[0].promise
