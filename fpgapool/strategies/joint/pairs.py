# SPDX-License-Identifier: Apache-2.0

"""One decision of the strategy ``auto``: the best pair of a job and a slot."""

import math
import operator
import typing

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

# Bounds are relaxed by far more than rounding errors can change them.
_ROUNDING: typing.Final = 1.0 - 1e-9
# Up to this many kinds, a look at each is faster than vectors.
_FEW: typing.Final = 8

_HOST = operator.attrgetter("host_id")


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Offer:
    """A board's idle slots of one shape, and what its pipes have left.

    :ivar crowding: the factor for the board's taken slots.
    :ivar programs: the accelerators that it is programmed with.
    :ivar programming_s: the least time to program another one.
    :ivar is_instant: whether that takes no time.
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
        "host_id",
        "ingress",
        "is_instant",
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
        spread: float,
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
        self.crowding = 1.0 + spread * self.dma.count / slot.device_slots

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

    :ivar rate: the highest rate, of at most :attr:`peak`.
    :ivar net: the rate without what it costs others on the board's pipes.
    :ivar wanted: the least rate of fresh jobs that leave a board.
    :ivar room: the highest rate that leaves the networks free enough.
    :ivar refused: a pack of which none may come here, as of its write number
        :attr:`refused_at`.
    """

    __slots__ = (
        "net",
        "peak",
        "rate",
        "refused",
        "refused_at",
        "room",
        "wanted",
    )

    def __init__(
        self,
        options: auto_options.AutoOptions,
        pack: candidates.Pack,
        offer: Offer,
    ) -> None:
        kind, dma, ingress = pack.kinds[0], offer.dma, offer.ingress
        self.peak = min(kind.peaks.get(offer.shape, kind.peak), dma.share)
        self.rate = min(self.peak, ingress.share)
        room = ingress.spare(options.leave_min_free)
        if kind.ratio > 0:
            egress = offer.egress
            self.rate = min(self.rate, egress.share / kind.ratio)
            back = egress.spare(options.leave_min_free)
            room = min(room, back / kind.ratio)
        self.room = room
        self.net = self.rate - options.loss_weight * (
            max(self.rate - dma.left, 0.0) + max(self.rate - ingress.left, 0.0)
        )
        self.refused: candidates.Pack | None = None
        self.refused_at = -1
        self.wanted = options.leave_min_share * self.peak * _ROUNDING


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
        kinds.refresh(self._now, self._weight)
        offers = [
            self._offer(target)
            for target in boards.at(boards.counts.nonzero()[0])
        ]
        for offer in offers:
            if not offer.is_instant:
                kinds.expect_programming(offer.programming_s)
            if offer.host_id in kinds.on_host:
                self._stay(offer)
        distinct = _distinct(offers)
        # Programming costs so much that these are seldom worth a look.
        later: list[tuple[candidates.Pack, list[Offer]]] = []
        for group in self._groups:
            packs = list(kinds.packs[group].values())
            for same in _each(offers) if group.avoiding else distinct:
                offer = same[0]
                if not group.fits_shape(offer.shape):
                    continue
                for pack in packs:
                    least = self._least * offer.crowding
                    if offer.is_instant or pack.accelerator in offer.programs:
                        if pack.tops[0] > least:
                            self._look(pack, same, 0)
                    elif pack.tops[1] > least:
                        later.append((pack, same))
        for pack, same in later:
            if pack.tops[1] > self._least * same[0].crowding:
                self._look(pack, same, 1)

    def _offer(self, target: idle_boards.Target) -> Offer:
        kinds = self._kinds
        offer: Offer | None = kinds.offers.get(target.number)
        if offer is None or not offer.is_current(kinds):
            offer = Offer(target, kinds, self._loads, self._options.spread)
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
        dma, options = offer.dma, self._options
        least = self._least * offer.crowding
        delay = self._weight * offer.programming_s
        gain = candidates.most_gain(dma.share, dma.left, options.loss_weight)
        for kind in later:
            cost = 1.0 / min(kind.peak_max, gain) + delay / kind.size_bytes
            if kind.urgency >= least * cost:
                self._compare(kind, offer)
                least = self._least * offer.crowding

    def _look(
        self, pack: candidates.Pack, same: list[Offer], programs: int
    ) -> None:
        """Compare a pack's kinds with one of several equal offers.

        :param programs: 1 if the slot must be programmed, 0 if not.
        """
        offer = same[0]
        key = (pack.accelerator, pack.may, self._is_idle)
        chance = offer.chances.get(key)
        if chance is None:
            chance = Chance(self._options, pack, offer)
            offer.chances[key] = chance
        factor = offer.crowding * self._least_penalty(pack, chance)
        if chance.refused is pack and chance.refused_at == pack.writes:
            return
        if not factor or pack.tops[programs] <= self._least * factor:
            return
        values, rate = pack.values[programs], chance.rate
        loss_weight = self._options.loss_weight
        least_gain = rates_strategy.LEAST_GAIN * rate
        for row in self._rows(pack, programs, offer, chance, factor):
            least, kind = self._least * factor, pack.kinds[row]
            if values.item(row) < least:
                continue
            if kind.own_rate >= rate:
                # Then this is the pair's rate.
                gain = chance.net - loss_weight * max(rate - kind.out.left, 0)
                if kind.urgency * max(gain, least_gain) < least:
                    continue
            for other in same:
                if other.host_id != kind.host_id:
                    self._compare(kind, other)
                    break

    def _is_light(self, pack: candidates.Pack, chance: Chance) -> bool:
        """Return whether jobs that leave may leave the networks free enough.

        While many slots are idle, that does not matter.
        """
        return self._is_idle or chance.room >= chance.wanted * pack.patience

    def _least_penalty(self, pack: candidates.Pack, chance: Chance) -> float:
        """Return the least factor for leaving the own host; 0: none may."""
        if pack.may == candidates.HOMELESS:
            return 1.0
        if chance.rate < chance.wanted * pack.patience:
            return 0.0
        if self._is_light(pack, chance):
            return self._options.leave_penalty_idle
        if pack.may == candidates.LEAVING:
            return self._options.leave_penalty
        return 0.0

    def _rows(
        self,
        pack: candidates.Pack,
        programs: int,
        offer: Offer,
        chance: Chance,
        factor: float,
    ) -> list[int]:
        """Return the rows that may be good enough, the best ones first.

        :param factor: the least one for their scores.
        """
        if len(pack.kinds) <= _FEW:
            few = [
                row
                for row, kind in enumerate(pack.kinds)
                if self._fits(kind, offer, chance)
            ]
            if not few:
                chance.refused, chance.refused_at = pack, pack.writes
            return few
        least, values = self._least * offer.crowding, pack.values[programs]
        rows = pack.above(programs, self._least * factor)
        if pack.may != candidates.HOMELESS:
            accepted = chance.wanted * pack.patiences
            rows = rows[pack.rates[rows] >= accepted[rows]]
            if not self._is_idle and self._is_light(pack, chance):
                fits = pack.rooms[rows] >= accepted[rows]
                if pack.may == candidates.LEAVING:
                    heavy = self._options.leave_penalty
                    fits |= values[rows] >= least * heavy
                rows = rows[fits]
        elif not offer.has_free(self._options.min_free):
            wanted = chance.peak * self._min_share * _ROUNDING
            rates = pack.rates[rows].clip(max=chance.rate)
            rows = rows[pack.patiences[rows] * wanted <= rates]
        if len(rows) > 1:
            rows = rows[(-values[rows]).argsort()]
        return typing.cast(list[int], rows.tolist())

    def _fits(
        self, kind: candidates.Kind, offer: Offer, chance: Chance
    ) -> bool:
        """Return whether a kind's pair may be allowed."""
        rate = min(kind.own_rate, chance.rate)
        if kind.may == candidates.HOMELESS:
            wanted = chance.peak * self._min_share * _ROUNDING
            part = self._options.min_free
            return rate >= wanted * kind.patience or (
                kind.out.has_free(part) and offer.has_free(part)
            )
        if kind.may == candidates.STAYING and not self._is_idle:
            rate = min(rate, kind.room)
        return rate >= chance.wanted * kind.patience

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
        flows = _flows(kind, offer)
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


def _flows(
    kind: candidates.Kind, offer: Offer
) -> list[tuple[pipe_loads.Pipe, float]]:
    """Return the pipes that a pair uses, with bytes per input byte.

    The DMA pipe comes first.
    """
    if kind.host_id == offer.host_id:
        return [(offer.dma, 1.0)]
    found = [(offer.dma, 1.0), (kind.out, 1.0), (offer.ingress, 1.0)]
    if kind.ratio > 0:
        found += [(offer.egress, kind.ratio), (kind.back, kind.ratio)]
    return found


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
