# SPDX-License-Identifier: Apache-2.0

"""Expected-rate-aware: pairs jobs and boards by the rate they would have.

For each board with an idle slot and each waiting job, the strategy estimates
the rate that the job would get there now. It refuses pairs with a poor rate.
Among the others it takes the pair with the least work per rate, and so on
until no pair is left.
"""

import dataclasses
import math
import typing
from collections import abc

import numpy as np
import numpy.typing as npt

from fpgapool.core import columns as job_columns
from fpgapool.core import loads as pipe_loads
from fpgapool.core import model
from fpgapool.core import ordered
from fpgapool.core import queued
from fpgapool.core import slots
from fpgapool.core import strategy
from fpgapool.core import view as pool_view
from fpgapool.vocabulary import codes

_Floats: typing.TypeAlias = npt.NDArray[np.float64]
_Numbers: typing.TypeAlias = npt.NDArray[np.int64]
_Flags: typing.TypeAlias = npt.NDArray[np.bool_]

# As everywhere, a timeout is due a little before its time.
_SLACK_S = 1e-12
# The least gain of a job, as a part of its rate.
_LEAST_GAIN = 0.02


@dataclasses.dataclass(frozen=True, slots=True)
class EraOptions:
    """Options of :class:`EraStrategy`.

    "Its peak" is the rate that a job would get if only the DMA pipe limited
    it. :data:`AS_WRITTEN` has the values of the first version of this rule.

    :param size_power: a job's work is its bytes to this power …
    :param aging_per_s: … divided by 1 + this × seconds waited.
    :param long_from: a job is long if it is larger than this share of the
        jobs that came last; 1: no job is long.
    :param long_factor: times the work of such a job.
    :param min_share: a job whose own host has no board may go where its rate
        is this part of its peak …
    :param min_share_idle: … this part while many slots are idle …
    :param min_free: … or where each pipe it needs has this part free.
    :param patience: these parts are divided by 1 + this × the seconds
        waited per second that the job would take at its peak.
    :param leave_s_per_byte: a job leaves its own host, which has a board,
        after so many seconds per byte; at once while many slots are idle.
    :param leave_min_share: and for this part of its peak only.
    :param leave_penalty: times the work of such a job …
    :param leave_penalty_idle: … and this while many slots are idle.
    :param idle_share: this part of all slots idle is many; above 1: never.
    :param loss_weight: times the rates that others lose by a job, is
        subtracted from its rate.
    :param spread: the work is multiplied by 1 + this × the part of the
        board's slots that is taken.
    :raises ValueError: if an option is negative or not a number.
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

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if not 0 <= value < math.inf:
                raise ValueError(
                    f"{field.name} must be finite and not negative, "
                    f"not {value}"
                )


#: The first version of the rule, without later improvements.
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


class EraStrategy(strategy.Strategy):
    """Takes the best allowed pair until no pair is left.

    Of equal pairs it takes the job that came first, then the board with the
    fewest flows, then a slot that need not be programmed, then ``index``
    order.
    """

    wants_rates = True
    # Rates change, and patience ends, without any event.
    look_again_s = 1.0

    def __init__(self, options: EraOptions) -> None:
        self.options = options

    def key(self, job: model.Job) -> ordered.Key:
        return (job.arrival_s, job.id)

    def weight(self, job: model.Job) -> float:
        return float(job.claimed_bytes**self.options.size_power)

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

    def reasons(
        self, view: pool_view.PoolView, job_id: model.JobId
    ) -> tuple[str, ...]:
        if view.record(job_id).homed:
            return (codes.WAITING_FOR_LOCAL,)
        return (codes.REMOTE_LIMIT,)


class _Target:
    """The idle slots of one shape of a board.

    :ivar slots: lowest number first.
    """

    __slots__ = ("shape", "slots")

    def __init__(self, slot: slots.Slot) -> None:
        self.shape = slot.shape
        self.slots = [slot]


class _Pairs(typing.NamedTuple):
    """Allowed pairs of kinds of jobs and targets.

    :ivar kinds: places of the kinds.
    :ivar targets: places of the targets.
    :ivar works: least work of a job of the kind that may go to the target.
    """

    kinds: _Numbers
    targets: _Numbers
    works: _Floats


class _Pass:
    """One pass: vectors over its jobs and targets.

    Kinds of jobs and targets are rows and columns of matrices; a place is a
    number of such a row or column.
    """

    def __init__(
        self, options: EraOptions, view: pool_view.PoolView, now: float
    ) -> None:
        self._options = options
        self._view = view
        self._loads = typing.cast(pipe_loads.Loads, view.loads)
        self._up_count = sum(view.slots.up_by_shape.values())
        self._read_jobs(typing.cast(job_columns.Columns, view.columns), now)
        self._read_targets()

    def _read_jobs(self, columns: job_columns.Columns, now: float) -> None:
        options, jobs = self._options, columns.jobs
        count = jobs.count
        self._records = list(jobs.records)
        sizes = jobs.sizes[:count]
        waits_s = np.maximum(now - jobs.arrivals_s[:count], 0.0)
        is_long = sizes > columns.recent_sizes.quantile(options.long_from)
        self._works: _Floats = (
            jobs.weights[:count]
            * np.where(is_long, options.long_factor, 1.0)
            / (1.0 + options.aging_per_s * waits_s)
        )
        self._waits_per_byte: _Floats = waits_s / sizes
        self._is_patient: _Flags = (
            waits_s < options.leave_s_per_byte * sizes - _SLACK_S
        )
        numbers = np.flatnonzero(columns.counts)
        places = np.zeros(len(columns.counts), dtype=np.int64)
        places[numbers] = np.arange(len(numbers))
        self._kind_of: _Numbers = places[jobs.kinds[:count]]
        self._kinds = columns.kinds
        self._numbers: _Numbers = numbers
        if not self._view.jobs.is_plain:
            self._works[~self._is_shown()[self._kind_of]] = math.inf
        self._peaks: _Floats = columns.peaks[numbers]
        self._has_platforms = columns.has_platforms
        self._ratios: _Floats = columns.return_ratios[numbers]
        returns = self._ratios > 0
        # Kinds whose results are sent back; a slice makes no copies.
        self._returns: _Numbers | slice = (
            slice(None) if returns.all() else np.flatnonzero(returns)
        )
        self._returns_none = not returns.any()
        self._hosts: _Numbers = columns.host_ids[numbers]
        self._has_home: _Flags = columns.has_home[numbers]
        self._egress: _Numbers = columns.egress[numbers]
        self._ingress: _Numbers = columns.ingress[numbers]

    def _is_shown(self) -> _Flags:
        """Return, for each kind, whether its jobs are shown."""
        shown = set(map(id, self._view.jobs.groups()))
        kinds = [self._kinds[number] for number in self._numbers.tolist()]
        return np.array(
            [kind is not None and id(kind.group) in shown for kind in kinds],
            dtype=np.bool_,
        )

    def _read_targets(self) -> None:
        view, loads = self._view, self._loads
        found: dict[tuple[model.DeviceId, str], _Target] = {}
        numbers: list[int] = []
        for slot in view.slots.idle_slots():
            device_id = slot.spec.device_id
            target = found.get((device_id, slot.shape))
            if target is None:
                found[device_id, slot.shape] = _Target(slot)
                host_id = slot.host.id
                numbers += (
                    host_id,
                    loads.dma(device_id),
                    loads.ingress(host_id),
                    loads.egress(host_id),
                    slot.device_slots,
                )
            else:
                target.slots.append(slot)
        self._targets = list(found.values())
        (
            self._board_hosts,
            self._dma,
            self._in,
            self._out,
            self._slot_counts,
        ) = np.array(numbers, dtype=np.int64).reshape(-1, 5).T.copy()
        self._fits = self._find_fits()
        self._is_local: _Flags = (
            self._hosts[:, None] == self._board_hosts[None, :]
        )

    def _find_fits(self) -> _Flags:
        shape = (len(self._numbers), len(self._targets))
        if not any(map(_is_choosy, self._view.jobs.groups())):
            return np.ones(shape, dtype=np.bool_)
        fits = np.zeros(shape, dtype=np.bool_)
        for at in range(len(self._targets)):
            fits[:, at] = self._fits_in(at)
        return fits

    def _fits_in(self, at: int) -> list[bool]:
        """Return, for each kind, whether its jobs fit a slot of a target."""
        target = self._targets[at]
        answers = {
            id(group): _slot_for(group, target, "") is not None
            for group in self._view.jobs.groups()
        }
        kinds = (self._kinds[number] for number in self._numbers.tolist())
        # A kind or a group that no longer exists has no jobs.
        return [
            kind is not None and answers.get(id(kind.group), False)
            for kind in kinds
        ]

    # -- one decision ----------------------------------------------------

    def assign_best(self) -> strategy.Choice | None:
        """Assign the best pair; None: no pair is allowed."""
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

    def _allowed(self) -> _Pairs:
        options, view = self._options, self._view
        self._read_pipes()
        busy = self._up_count - view.slots.idle_total
        is_idle = 1.0 - busy / self._up_count >= options.idle_share
        share = options.min_share_idle if is_idle else options.min_share
        self._penalty = (
            options.leave_penalty_idle if is_idle else options.leave_penalty
        )
        all_works, all_first = self._first_of_kinds(self._works)
        works, first = all_works, all_first
        self._first = all_first
        if not is_idle:
            held = self._is_patient & self._has_home[self._kind_of]
            if held.any():
                works, first = self._first_of_kinds(
                    np.where(held, math.inf, self._works)
                )
        self._far_first = first
        rates, peaks, free = self._remote_rates()
        wanted = np.where(self._has_home, options.leave_min_share, share)
        if options.patience > 0:
            # The first job of each kind decides.
            waited = options.patience * self._waits_per_byte[first]
            shares = wanted[:, None] / (1.0 + waited[:, None] * peaks)
        else:
            shares = wanted[:, None]
        remote = rates >= shares * peaks
        remote |= (free >= options.min_free) & ~self._has_home[:, None]
        remote &= np.isfinite(works)[:, None] & ~self._is_local
        local = self._is_local & np.isfinite(all_works)[:, None]
        kinds, targets = ((local | remote) & self._fits).nonzero()
        return _Pairs(
            kinds,
            targets,
            np.where(
                self._is_local[kinds, targets], all_works[kinds], works[kinds]
            ),
        )

    def _read_pipes(self) -> None:
        """Compute the free rate of each pipe, and a further flow's share."""
        loads = self._loads
        capacities = loads.capacities
        left = np.maximum(capacities - loads.loads, 0.0)
        known = np.isfinite(capacities)
        self._left: _Floats = left
        self._share: _Floats = np.maximum(
            capacities / (loads.counts + 1.0), left
        )
        self._free: _Floats = np.divide(
            left, capacities, out=np.ones_like(left), where=known
        )

    def _first_of_kinds(self, works: _Floats) -> tuple[_Floats, _Numbers]:
        """Return the least work of each kind's jobs, and the job with it."""
        least: _Floats = np.full(len(self._peaks), math.inf)
        np.minimum.at(least, self._kind_of, works)
        jobs = np.flatnonzero(
            (works == least[self._kind_of]) & (works < math.inf)
        )
        # The first of equal jobs is written last.
        if len(jobs) > np.count_nonzero(least < math.inf):
            jobs = np.array(
                sorted(
                    jobs.tolist(),
                    key=lambda job: self._records[job].key,
                    reverse=True,
                ),
                dtype=np.int64,
            )
        first: _Numbers = np.zeros(len(least), dtype=np.int64)
        first[self._kind_of[jobs]] = jobs
        return least, first

    def _remote_rates(self) -> tuple[_Floats, _Floats, _Floats]:
        """Return, for each pair as if remote, rate, peak and free share."""
        share, free = self._share, self._free
        egress, out, inward = self._egress, self._out, self._in
        dma_share = share[self._dma]
        highest = self._peaks_there()
        peaks = np.minimum(highest, dma_share[None, :])
        rates = np.minimum(
            np.minimum(highest, share[egress][:, None]),
            np.minimum(dma_share, share[inward])[None, :],
        )
        spare = np.minimum(
            free[egress][:, None],
            np.minimum(free[self._dma], free[inward])[None, :],
        )
        if not self._returns_none:
            rows = self._returns
            ingress = self._ingress[rows]
            back = np.minimum(share[ingress][:, None], share[out][None, :])
            rates[rows] = np.minimum(
                rates[rows], back / self._ratios[rows][:, None]
            )
            spare[rows] = np.minimum(
                spare[rows],
                np.minimum(free[ingress][:, None], free[out][None, :]),
            )
        self._peak_rates, self._far_rates = peaks, rates
        return rates, peaks, spare

    def _peaks_there(self) -> _Floats:
        """Return the highest rate of each kind in the slots of each target."""
        peaks: _Floats = self._peaks[:, None]
        if not self._has_platforms:
            return peaks
        peaks = np.repeat(peaks, len(self._targets), axis=1)
        library = self._view.accelerators
        for place, number in enumerate(self._numbers.tolist()):
            kind = self._kinds[number]
            found = library.get(kind.accelerator) if kind else None
            if found is not None and found.peaks_bytes_per_s:
                peaks[place] = [
                    found.peak_in(target.shape) for target in self._targets
                ]
        return peaks

    def _rates(self, pairs: _Pairs) -> _Floats:
        kinds, targets = pairs.kinds, pairs.targets
        return np.where(
            self._is_local[kinds, targets],
            self._peak_rates[kinds, targets],
            self._far_rates[kinds, targets],
        )

    def _gains(self, pairs: _Pairs, rates: _Floats) -> _Floats:
        """Return rates less the weighted losses of other jobs."""
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
            rates - self._options.loss_weight * losses, _LEAST_GAIN * rates
        )

    def _assign_first(
        self, pairs: _Pairs, best: _Numbers, rates: _Floats
    ) -> strategy.Choice:
        """Assign the first of the best pairs."""
        ranked = []
        jobs: dict[tuple[int, bool], int] = {}
        for place in best.tolist():
            kind, at = int(pairs.kinds[place]), int(pairs.targets[place])
            is_local = bool(self._is_local[kind, at])
            job = jobs.get((kind, is_local))
            if job is None:
                first = self._first if is_local else self._far_first
                job = jobs[kind, is_local] = int(first[kind])
            record = self._records[job]
            slot = typing.cast(
                slots.Slot,
                _slot_for(
                    typing.cast(queued.JobGroup, record.group),
                    self._targets[at],
                    record.job.accelerator,
                ),
            )
            ranked.append(
                (
                    record.key,
                    self._loads.counts[self._dma[at]],
                    not slot.starts_at_once(record.job.accelerator),
                    slot.position,
                    place,
                    job,
                    slot,
                )
            )
        *_, place, job, slot = min(ranked)
        choice = self._view.give(self._records[job], slot)
        self._loads.set_rate(slot.id, float(rates[place]))
        self._works[job] = math.inf
        self._remove_slot(int(pairs.targets[place]), slot)
        return choice

    def _remove_slot(self, at: int, slot: slots.Slot) -> None:
        target = self._targets[at]
        target.slots.remove(slot)
        if not target.slots:
            self._fits[:, at] = False
        elif any(group.avoiding for group in self._view.jobs.groups()):
            self._fits[:, at] = self._fits_in(at)


def _is_choosy(group: queued.JobGroup) -> bool:
    """Return whether a group's jobs may not fit some slots."""
    return bool(group.shapes or group.avoiding)


def _excess(wanted: _Floats, left: _Floats) -> _Floats:
    """Return the wanted rates beyond the free ones."""
    return np.maximum(wanted - left, 0.0)


def _slot_for(
    group: queued.JobGroup, target: _Target, accelerator: str
) -> slots.Slot | None:
    """Return the slot that a job of a group gets there, if it fits any."""
    if not group.fits_shape(target.shape):
        return None
    found: slots.Slot | None = None
    for slot in target.slots:
        if slot.id in group.avoiding:
            continue
        if slot.starts_at_once(accelerator):
            return slot
        found = found or slot
    return found
