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

#: Kinds that may be good enough on one of some equal offers: (- an upper bound
#: of one by their scores, a number, the factor of their own bounds in it, the
#: kinds, the offers).
_Look: typing.TypeAlias = tuple[
    float, int, float, list[candidates.Entry], list["Offer"]
]

_HOST = operator.attrgetter("host_id")


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Offer:
    """A board's idle slots of one shape, and what its pipes have left.

    :ivar crowding: the factor for the board's taken slots.
    :ivar programs: the accelerators that it is programmed with.
    :ivar programming_s: the least time to program another one.
    :ivar is_instant: whether that takes no time.
    :ivar chances: what families get here, as far as it was asked for.
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
        self.chances: dict[str, Chance] = {}
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

    def chance(
        self, kind: candidates.Kind, options: auto_options.AutoOptions
    ) -> "Chance":
        """Return what a kind's family gets here."""
        found = self.chances.get(kind.accelerator)
        if found is None:
            found = Chance(options, kind, self)
            self.chances[kind.accelerator] = found
        return found

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
    """What a family's jobs get at best on another host's board.

    :ivar peak: the highest rate in its slots.
    :ivar rate: the highest rate, of at most :attr:`peak`.
    :ivar gain: the highest gain.
    :ivar room: the highest rate that leaves its network pipes free enough.
    :ivar is_free: whether its pipes are free enough for jobs without a board.
    """

    __slots__ = ("gain", "is_free", "peak", "rate", "room")

    def __init__(
        self,
        options: auto_options.AutoOptions,
        kind: candidates.Kind,
        offer: Offer,
    ) -> None:
        part = options.leave_min_free
        uses = [(offer.dma, 1.0), (offer.ingress, 1.0)]
        self.peak = min(
            kind.peaks.get(offer.shape, kind.peak), offer.dma.share
        )
        self.rate = min(self.peak, offer.ingress.share)
        self.room = offer.ingress.spare(part)
        if kind.ratio > 0:
            egress = offer.egress
            uses.append((egress, kind.ratio))
            self.rate = min(self.rate, egress.share / kind.ratio)
            self.room = min(self.room, egress.spare(part) / kind.ratio)
        if not part:
            # Then lower rates leave them free enough, too.
            self.room = math.inf
        self.gain = candidates.most_gain(self.rate, uses, options.loss_weight)
        self.is_free = all(p.has_free(options.min_free) for p, _ in uses)


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
        offers = [self._offer(target) for target in boards.idle.values()]
        for offer in offers:
            if not offer.is_instant:
                kinds.expect_programming(offer.programming_s)
            if offer.host_id in kinds.on_host:
                self._stay(offer)
        distinct = _distinct(offers)
        looks: list[_Look] = []
        for group in self._groups:
            families = kinds.families[group]
            for same in _each(offers) if group.avoiding else distinct:
                if group.fits_shape(same[0].shape):
                    for accelerator, family in families.items():
                        self._add_looks(looks, family, accelerator, same)
        for bound, _, factor, entries, same in sorted(looks):
            if -bound < self._least:
                return
            self._look(factor, entries, same)

    def _add_looks(
        self,
        looks: list[_Look],
        family: candidates.Family,
        accelerator: str,
        same: list[Offer],
    ) -> None:
        """Note which kinds of a family may be good enough on equal offers."""
        offer, options = same[0], self._options
        programmed = family.programmed
        if not offer.is_instant and accelerator not in offer.programs:
            penalty = min(options.leave_penalty_idle, 1.0)
            factor = 1.0 / (offer.crowding * penalty)
            bound = programmed[0][0] * factor
            if -bound >= self._least:
                looks.append((bound, len(looks), factor, programmed, same))
            return
        chance = offer.chance(programmed[0][2], options)
        for pack in family.packs.values():
            factor = self._factor(pack, chance) / offer.crowding
            bound = pack.kinds[0][0] * factor
            if factor and -bound >= self._least:
                looks.append((bound, len(looks), factor, pack.kinds, same))

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
        gain = candidates.most_gain(
            dma.share, [(dma, 1.0)], options.loss_weight
        )
        for kind in later:
            cost = 1.0 / min(kind.peak_max, gain) + delay / kind.size_bytes
            if kind.urgency_at(self._now) >= least * cost:
                self._compare(kind, offer)
                least = self._least * offer.crowding

    def _look(
        self,
        factor: float,
        entries: list[candidates.Entry],
        same: list[Offer],
    ) -> None:
        """Compare kinds that may be good enough with one of equal offers."""
        offer, first = same[0], entries[0][2]
        chance = offer.chance(first, self._options)
        delay_s = 0.0
        if not offer.is_instant and first.accelerator not in offer.programs:
            delay_s = self._weight * offer.programming_s
        for value, _, kind in entries:
            if -value * factor < self._least:
                return
            own = self._factor(kind, chance) * kind.urgency_at(self._now)
            gain = min(kind.gain, chance.gain)
            cost = offer.crowding * (1.0 + delay_s * gain / kind.size_bytes)
            if not own or own < self._least * cost:
                continue
            for other in same:
                if other.host_id != kind.host_id:
                    self._compare(kind, other)
                    break

    def _factor(self, limits: candidates.Limits, chance: Chance) -> float:
        """Return an upper bound of the gain per penalty.

        :returns: 0 if none of the jobs may go there.
        """
        options, may = self._options, limits.may
        gain = min(limits.gain, chance.gain)
        is_homeless = may == candidates.HOMELESS
        share = self._min_share if is_homeless else options.leave_min_share
        wanted = chance.peak * share * candidates.ROUNDING
        if limits.reach < wanted:
            return 0.0
        if chance.rate < wanted * limits.patience:
            return gain if is_homeless and chance.is_free else 0.0
        if is_homeless:
            return gain
        rate = chance.rate * candidates.ROUNDING
        if self._is_idle or (limits.room >= rate and chance.room >= rate):
            return gain / options.leave_penalty_idle
        if may == candidates.LEAVING:
            return gain / options.leave_penalty
        return 0.0

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
            self._least = candidates.ROUNDING / score
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
    return list(found.values())
