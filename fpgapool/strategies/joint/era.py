# SPDX-License-Identifier: Apache-2.0

"""Expected-rate-aware: pairs jobs and boards by their expected rates.

For each board with an idle slot and each waiting job, the strategy estimates
the rate that the job would get there now. It refuses pairs with a poor rate.
Of the others it takes the pair with the least work per rate, and repeats this
until no pair is left.
"""

import dataclasses
import math
import typing
from collections import abc

import numpy as np
import numpy.typing as npt

from fpgapool.core import model
from fpgapool.core import strategy
from fpgapool.core import view as pool_view
from fpgapool.core.queues import columns as job_columns
from fpgapool.core.queues import queued
from fpgapool.core.topology import boards as idle_boards
from fpgapool.core.topology import loads as pipe_loads
from fpgapool.core.topology import slots
from fpgapool.strategies import options as opts
from fpgapool.strategies.joint import rates as rates_strategy

_Floats: typing.TypeAlias = npt.NDArray[np.float64]
_Numbers: typing.TypeAlias = npt.NDArray[np.int64]
_Flags: typing.TypeAlias = npt.NDArray[np.bool_]

# Lowers bounds by far more than rounding errors can raise them.
_ROUNDING = 1.0 - 1e-9
# More bytes/s than any pipe carries.
_MOST = 1e300


@dataclasses.dataclass(frozen=True, slots=True)
class EraOptions(opts.Numbers):
    """Options of :class:`EraStrategy`.

    A job's "peak" is the rate that it would get if only the DMA pipe limited
    it.

    :param size_power: a job's work is its bytes to this power.
    :param aging_per_s: the work is divided by 1 + this × seconds waited.
    :param long_from: a job is long if it is larger than this fraction of the
        latest jobs; 1: no job is long.
    :param long_factor: factor for the work of a long job.
    :param min_share: a job whose own host has no board may go where its rate
        is at least this fraction of its peak.
    :param min_share_idle: the same fraction while many slots are idle.
    :param min_free: such a job may also go where at least this fraction of
        each pipe that it needs is free.
    :param patience: the minimum shares are divided by 1 + this × the seconds
        waited per second that the job would take at its peak.
    :param leave_s_per_byte: a job leaves its own host, which has a board,
        after this many seconds per byte; at once while many slots are idle.
    :param leave_min_share: a job leaves its own host only for a rate of at
        least this fraction of its peak.
    :param leave_penalty: factor for the work of a job that leaves its own
        host.
    :param leave_penalty_idle: the same factor while many slots are idle.
    :param idle_share: "many slots are idle" means at least this fraction of
        all slots; above 1: never.
    :param loss_weight: a job's rate is reduced by this × the rates that other
        jobs lose because of it.
    :param spread: the work is multiplied by 1 + this × the fraction of the
        board's slots that are taken.
    """

    size_power: float = 0.7
    aging_per_s: float = 0.2
    long_from: float = 0.96
    long_factor: float = 3.0
    min_share: float = 0.95
    min_share_idle: float = 0.7
    min_free: float = 0.2
    patience: float = 0.2
    leave_s_per_byte: float = 1e-9
    leave_min_share: float = 0.95
    leave_penalty: float = 5.0
    leave_penalty_idle: float = 1.2
    idle_share: float = 0.3
    loss_weight: float = 0.4
    spread: float = 0.1


#: An earlier version of the rule, for comparison.
AS_WRITTEN = EraOptions(
    long_from=1.0,
    long_factor=1.0,
    min_share=0.7,
    min_share_idle=0.7,
    patience=0.0,
    leave_penalty_idle=5.0,
    idle_share=2.0,
    loss_weight=0.0,
    spread=0.0,
)


class EraStrategy(rates_strategy.RatesStrategy):
    """Takes the best allowed pair until no pair is left.

    Equal pairs are ordered by the job's arrival, then by the number of flows
    on the board, then by whether the slot must be programmed, then by the
    slot's position.
    """

    def __init__(self, options: EraOptions) -> None:
        self.options = options

    def make_kinds(self, loads: pipe_loads.Loads) -> job_columns.Columns:
        return job_columns.Columns(loads, self._weight)

    def _weight(self, job: model.Job) -> float:
        return float(job.claimed_bytes**self.options.size_power)

    def look_again_s(self, view: pool_view.PoolView) -> float | None:
        # Rates change, and patience ends, without any event.
        return 1.0

    def patience_s(self, job: model.Job) -> float | None:
        return self.options.leave_s_per_byte * job.claimed_bytes

    def assign(
        self, view: pool_view.PoolView, now: float
    ) -> abc.Iterator[strategy.Choice]:
        if not view.slots.idle_total:
            return
        one_pass = _Pass(self.options, view, now)
        while view.slots.idle_total and view.waiting_count:
            choice = one_pass.assign_best()
            if choice is None:
                break
            yield choice


class _Pairs(typing.NamedTuple):
    """Allowed pairs of kinds of jobs and targets.

    :ivar works: the least work of any job of the kind that may go to the
        target.
    """

    kinds: _Numbers
    targets: _Numbers
    works: _Floats


class _Pass:
    """One scheduling pass.

    Most kinds of waiting jobs are not allowed anywhere, so each decision
    first drops those that bounds rule out. The other kinds are the rows of
    matrices, and the boards with idle slots are the columns. A place is the
    number of such a row or column, or of a job of these kinds.
    """

    def __init__(
        self, options: EraOptions, view: pool_view.PoolView, now: float
    ) -> None:
        self._options = options
        self._view = view
        self._now = now
        self._loads = typing.cast(pipe_loads.Loads, view.loads)
        self._columns = typing.cast(job_columns.Columns, view.kinds)
        self._boards = typing.cast(idle_boards.Boards, view.boards)
        self._up_count = sum(view.slots.up_by_shape.values())
        self._long_bytes = self._columns.recent_sizes.quantile(
            options.long_from
        )
        self._shown: _Flags | None = None
        if not view.jobs.is_plain:
            self._shown = self._find_shown()
        self._is_choosy = any(map(_is_choosy, view.jobs.groups()))

    def _find_shown(self) -> _Flags:
        """Return, for each kind, whether its jobs are shown."""
        numbers = self._columns.groups
        shown = [numbers.get(each, -1) for each in self._view.jobs.groups()]
        return np.isin(self._columns.group_numbers, shown)

    def assign_best(self) -> strategy.Choice | None:
        """Assign the best pair; None: no pair is allowed."""
        self._read_pool()
        kinds = self._promising()
        if not len(kinds):
            return None
        self._read_jobs(kinds)
        self._read_boards()
        pairs = self._allowed()
        if not len(pairs.kinds):
            return None
        rates = self._rates(pairs)
        counts = self._loads.counts[self._dma[pairs.targets]]
        scores = pairs.works / self._gains(pairs, rates)
        leaves = (
            self._has_home[pairs.kinds]
            & ~self._is_local[pairs.kinds, pairs.targets]
        )
        scores = np.where(leaves, scores * self._penalty, scores)
        scores = scores * (
            1.0
            + self._options.spread * counts / self._slot_counts[pairs.targets]
        )
        best = np.flatnonzero(scores == scores.min())
        return self._assign_first(pairs, best, rates)

    # -- the pool, its jobs and its boards --------------------------------

    def _read_pool(self) -> None:
        """Compute each pipe's free rate, and what one more flow would get."""
        options, loads, view = self._options, self._loads, self._view
        busy = self._up_count - view.slots.idle_total
        self._is_idle = 1.0 - busy / self._up_count >= options.idle_share
        self._shares_wanted: _Floats = np.array(
            (
                options.min_share_idle if self._is_idle else options.min_share,
                options.leave_min_share,
            )
        )
        self._penalty = (
            options.leave_penalty_idle
            if self._is_idle
            else options.leave_penalty
        )
        capacities = loads.capacities
        left = np.maximum(capacities - loads.loads, 0.0)
        self._left: _Floats = left
        self._share: _Floats = np.maximum(
            capacities / (loads.counts + 1.0), left
        )
        # A pipe of unknown capacity counts as entirely free.
        free = np.minimum(left, _MOST) / np.minimum(capacities, _MOST)
        self._is_free: _Flags = free >= options.min_free
        self._idle = self._boards.with_idle()
        self._targets: _Numbers = np.array(
            [target.number for target in self._idle], dtype=np.int64
        )

    def _promising(self) -> _Numbers:
        """Return the kinds that may be allowed somewhere.

        A kind's rate is at most its share of the pipe through which its host
        sends. The minimum rate that it accepts rises with its peak, and falls
        while its jobs wait.
        """
        columns, jobs = self._columns, self._columns.jobs
        count = jobs.count
        waits = self._waits_per_byte(slice(count))
        if not self._is_idle:
            waits[jobs.homed[:count]] = -1.0
        longest: _Floats = np.full(len(columns.counts), -1.0)
        np.maximum.at(longest, jobs.kinds[:count], waits)
        far = longest >= 0.0
        egress = columns.egress
        if not columns.has_platforms:
            peaks = np.minimum(
                columns.peaks,
                self._share[self._boards.dma[self._targets]].min(),
            )
            wanted = self._wanted(
                columns.has_home, np.maximum(longest, 0.0), peaks
            )
            is_fast = (
                np.minimum(columns.peaks, self._share[egress])
                >= wanted * _ROUNDING
            )
            is_fast |= self._is_free[egress] & ~columns.has_home
            far &= is_fast
        at_home = np.zeros(len(self._share), dtype=np.bool_)
        at_home[self._boards.egress[self._targets]] = True
        far |= at_home[egress] & (columns.counts > 0)
        if self._shown is not None:
            far &= self._shown
        return far.nonzero()[0]

    def _waits_per_byte(self, jobs: _Numbers | slice) -> _Floats:
        columns = self._columns.jobs
        waits_s = np.maximum(self._now - columns.arrivals_s[jobs], 0.0)
        return waits_s / columns.sizes[jobs]

    def _wanted(
        self, has_home: _Flags, waits_per_byte: _Floats, peaks: _Floats
    ) -> _Floats:
        """Return the minimum rates that jobs accept on other hosts."""
        options = self._options
        shares: _Floats = self._shares_wanted.take(has_home)
        if options.patience > 0:
            shares = shares / (1.0 + options.patience * waits_per_byte * peaks)
        return shares * peaks

    def _read_jobs(self, numbers: _Numbers) -> None:
        options, columns = self._options, self._columns
        jobs = columns.jobs
        place_of = np.full(len(columns.counts), -1, dtype=np.int64)
        place_of[numbers] = np.arange(len(numbers))
        kind_of = place_of[jobs.kinds[: jobs.count]]
        chosen = (kind_of >= 0).nonzero()[0]
        kind_of = kind_of[chosen]
        self._numbers: _Numbers = numbers
        self._jobs: _Numbers = chosen
        waits_s = np.maximum(self._now - jobs.arrivals_s[chosen], 0.0)
        is_long = jobs.sizes[chosen] > self._long_bytes
        works: _Floats = (
            jobs.weights[chosen]
            * np.where(is_long, options.long_factor, 1.0)
            / (1.0 + options.aging_per_s * waits_s)
        )
        self._works, self._first = self._first_of_kinds(works, kind_of)
        self._far_works, self._far_first = self._works, self._first
        if not self._is_idle:
            homed = jobs.homed[chosen]
            if homed.any():
                works[homed] = math.inf
                self._far_works, self._far_first = self._first_of_kinds(
                    works, kind_of
                )
        # The first job of each kind represents all of them.
        self._waits: _Floats = self._waits_per_byte(chosen[self._far_first])
        self._peaks: _Floats = columns.peaks[numbers]
        self._ratios: _Floats = columns.return_ratios[numbers]
        self._has_home: _Flags = columns.has_home[numbers]
        self._hosts: _Numbers = columns.host_ids[numbers]
        self._egress: _Numbers = columns.egress[numbers]
        self._ingress: _Numbers = columns.ingress[numbers]

    def _first_of_kinds(
        self, works: _Floats, kind_of: _Numbers
    ) -> tuple[_Floats, _Numbers]:
        """Return the least work of each kind's jobs, and the job with it.

        Jobs with infinite work are ignored.
        """
        least: _Floats = np.full(len(self._numbers), math.inf)
        np.minimum.at(least, kind_of, works)
        jobs = ((works == least[kind_of]) & (works < math.inf)).nonzero()[0]
        if len(jobs) > np.count_nonzero(least < math.inf):
            # Writing the first of equal jobs last makes it win.
            jobs = np.array(
                sorted(
                    jobs.tolist(),
                    key=lambda job: self._record(job).key,
                    reverse=True,
                ),
                dtype=np.int64,
            )
        first: _Numbers = np.zeros(len(least), dtype=np.int64)
        first[kind_of[jobs]] = jobs
        return least, first

    def _record(self, job: int) -> queued.JobRecord:
        return self._columns.jobs.records[int(self._jobs[job])]

    def _read_boards(self) -> None:
        boards, targets = self._boards, self._targets
        self._dma: _Numbers = boards.dma[targets]
        self._in: _Numbers = boards.ingress[targets]
        self._out: _Numbers = boards.egress[targets]
        self._slot_counts: _Numbers = boards.slot_counts[targets]
        self._is_local: _Flags = (
            self._hosts[:, None] == boards.host_ids[targets]
        )

    # -- which pairs are allowed -----------------------------------------

    def _allowed(self) -> _Pairs:
        rates, peaks, free = self._remote_rates()
        remote = rates >= self._wanted(
            self._has_home[:, None], self._waits[:, None], peaks
        )
        remote |= free & ~self._has_home[:, None]
        remote &= (self._far_works < math.inf)[:, None]
        allowed = np.where(self._is_local, True, remote)
        if self._is_choosy:
            allowed &= self._find_fits()
        kinds, targets = allowed.nonzero()
        return _Pairs(
            kinds,
            targets,
            np.where(
                self._is_local[kinds, targets],
                self._works[kinds],
                self._far_works[kinds],
            ),
        )

    def _find_fits(self) -> _Flags:
        """Return whether the jobs of each kind fit each target."""
        columns = self._columns
        groups = {number: group for group, number in columns.groups.items()}
        found, places = np.unique(
            columns.group_numbers[self._numbers], return_inverse=True
        )
        fits = [
            [
                target.slot_for(groups[number], "") is not None
                for target in self._idle
            ]
            for number in found.tolist()
        ]
        return np.array(fits, dtype=np.bool_)[places]

    def _remote_rates(self) -> tuple[_Floats, _Floats, _Flags]:
        """Return the rate and the peak of each pair, as if it were remote.

        The third array says whether all pipes of a pair are free enough.
        """
        share, is_free = self._share, self._is_free
        egress, out, inward = self._egress, self._out, self._in
        dma_share = share[self._dma]
        highest = self._peaks_there()
        peaks = np.minimum(highest, dma_share)
        rates = np.minimum(
            np.minimum(highest, share[egress][:, None]),
            np.minimum(dma_share, share[inward]),
        )
        free = is_free[egress][:, None] & (
            is_free[self._dma] & is_free[inward]
        )
        returns = self._ratios > 0
        if returns.any():
            # Unlike an index array, a slice makes no copies.
            rows = slice(None) if returns.all() else returns.nonzero()[0]
            ingress = self._ingress[rows]
            back = np.minimum(share[ingress][:, None], share[out])
            rates[rows] = np.minimum(
                rates[rows], back / self._ratios[rows][:, None]
            )
            free[rows] &= is_free[ingress][:, None] & is_free[out]
        self._peak_rates, self._far_rates = peaks, rates
        return rates, peaks, free

    def _peaks_there(self) -> _Floats:
        """Return the highest rate of each kind in the slots of each target."""
        peaks: _Floats = self._peaks[:, None]
        if not self._columns.has_platforms:
            return peaks
        peaks = np.repeat(peaks, len(self._targets), axis=1)
        library = self._view.accelerators
        for place, number in enumerate(self._numbers.tolist()):
            kind = self._columns.kinds[number]
            found = library.get(kind.accelerator) if kind else None
            if found is not None and found.peaks_bytes_per_s:
                peaks[place] = [
                    found.peak_in(target.shape) for target in self._idle
                ]
        return peaks

    # -- the best pair ---------------------------------------------------

    def _rates(self, pairs: _Pairs) -> _Floats:
        kinds, targets = pairs.kinds, pairs.targets
        return np.where(
            self._is_local[kinds, targets],
            self._peak_rates[kinds, targets],
            self._far_rates[kinds, targets],
        )

    def _gains(self, pairs: _Pairs, rates: _Floats) -> _Floats:
        """Return rates minus the weighted losses of other jobs."""
        if not self._options.loss_weight:
            return rates
        kinds, targets = pairs.kinds, pairs.targets
        remote = ~self._is_local[kinds, targets]
        back = rates * self._ratios[kinds]
        losses = _excess(rates, self._left[self._dma[targets]])
        for flow, pipes in (
            (rates, self._egress[kinds]),
            (rates, self._in[targets]),
            (back, self._out[targets]),
            (back, self._ingress[kinds]),
        ):
            losses = losses + remote * _excess(flow, self._left[pipes])
        return np.maximum(
            rates - self._options.loss_weight * losses,
            rates_strategy.LEAST_GAIN * rates,
        )

    def _assign_first(
        self, pairs: _Pairs, best: _Numbers, rates: _Floats
    ) -> strategy.Choice:
        ranked = []
        for place in best.tolist():
            kind, at = int(pairs.kinds[place]), int(pairs.targets[place])
            first = (
                self._first if self._is_local[kind, at] else self._far_first
            )
            record = self._record(int(first[kind]))
            target = self._idle[at]
            group = typing.cast(queued.JobGroup, record.group)
            slot = typing.cast(
                slots.Slot, target.slot_for(group, record.job.accelerator)
            )
            ranked.append(
                (
                    record.key,
                    self._loads.counts[self._dma[at]],
                    not slot.starts_at_once(record.job.accelerator),
                    slot.position,
                    place,
                    record,
                    slot,
                )
            )
        *_, place, record, slot = min(ranked)
        choice = self._view.give(record, slot)
        self._loads.set_rate(slot.id, float(rates[place]))
        return choice


def _is_choosy(group: queued.JobGroup) -> bool:
    """Return whether some slots may not fit a group's jobs."""
    return bool(group.shapes or group.avoiding)


def _excess(wanted: _Floats, left: _Floats) -> _Floats:
    """Return by how much the wanted rates exceed the free ones."""
    return np.maximum(wanted - left, 0.0)
