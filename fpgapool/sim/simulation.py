# SPDX-License-Identifier: Apache-2.0

"""Runs a scenario with the pool's own scheduling core and an engine."""

from __future__ import annotations

import collections
import dataclasses
import functools
import heapq
import importlib.metadata
import math
import operator
import typing
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

import numpy as np

from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import native
from fpgapool.core import state
from fpgapool.core import strategy as strategy_api
from fpgapool.core.queues import overruns
from fpgapool.core.queues import sharing
from fpgapool.core.rules import preemption
from fpgapool.sim import budgets
from fpgapool.sim import chains
from fpgapool.sim import errors
from fpgapool.sim import models
from fpgapool.sim import power_caps
from fpgapool.sim import reserving
from fpgapool.sim.engines import base
from fpgapool.sim.engines import chunk
from fpgapool.sim.engines import fluid
from fpgapool.sim.engines import instants
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import schedules
from fpgapool.strategies import shared
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import names
from fpgapool.vocabulary import platforms

#: The default minimum input of a chunk, as in the conductor.
QUANTUM_BYTES = 64 * 2**20
#: How far jobs may exceed their claims, as a fraction of the claim, and the
#: highest claim; both are the conductor's defaults.
CLAIM_SLACK = 0.1
MAX_CLAIMED_BYTES = 2.0**50

ENGINES: dict[str, Callable[[scenarios.Cluster], base.Engine]] = {
    "fluid": fluid.FluidEngine,
    "chunk": chunk.ChunkEngine,
}


#: Called with the time, each slot's job (None: idle), and its bytes/s.
Watcher: typing.TypeAlias = Callable[
    [float, list[scenarios.JobSpec | None], list[float]], None
]


@functools.cache
def installed() -> dict[str, importlib.metadata.EntryPoint]:
    """Return the entry points of the installed strategies, by name."""
    group = importlib.metadata.entry_points(group="fpgapool.strategies")
    return {entry.name: entry for entry in group}


def make_strategy(
    known: Mapping[str, scenarios.StrategyOptions],
    name: str,
    seed: int,
    source: str,
) -> strategy_api.Strategy:
    """Make a strategy.

    :param name: name of one of these strategies, or of an installed one, which
        then has its default options.
    :param seed: seed of random choices, unless the options have one.
    :raises errors.InputError: if there is no such strategy, or if it rejects
        its options.
    """
    options = known.get(name, scenarios.StrategyOptions())
    wanted = options.strategy or name
    entry = installed().get(wanted)
    place = f"strategies.{name}"
    if entry is None:
        close = names.closest(wanted, sorted(installed()))
        hint = f"did you mean {close}? " if close else ""
        reason = f"unknown strategy {wanted!r}; {hint}known strategies: "
        reason += ", ".join(sorted(installed()))
        if name not in known:
            reason += f"; in the scenario: {', '.join(known)}"
        raise errors.InputError(source, place, reason)
    own_seed = seed if options.seed is None else options.seed
    try:
        made: strategy_api.Strategy = entry.load()(options.options(), own_seed)
    except ValueError as error:
        raise errors.InputError(source, place, str(error)) from error
    return made


def check(
    scenario: scenarios.Scenario, name: str, seed: int, source: str
) -> None:
    """Check that a strategy exists and accepts its options.

    :raises errors.InputError: if it does not.
    """
    known = models.of(scenario.cluster, source)
    if known is not None:
        known.check_strategy(scenario, name, seed, source)
    else:
        make_strategy(scenario.strategies, name, seed, source)


def run(
    scenario: scenarios.Scenario,
    name: str,
    *,
    engine: str = "fluid",
    seed: int = 0,
    source: str = "scenario",
    watcher: Watcher | None = None,
    fair_share: bool = False,
    on_end: Callable[[], None] | None = None,
) -> list[schedules.JobOutcome]:
    """Simulate one strategy.

    :param name: see :func:`make_strategy`.
    :param watcher: called whenever rates may have changed.
    :param on_end: called for each job that has ended.
    :returns: the result of each job, in the order of the scenario.
    :raises errors.InputError: if the strategy is unknown or rejects its
        options; if jobs would wait or run forever; if power caps are too low;
        if the cluster's model does not support the engine, the watcher or fair
        shares; or if jobs cannot leave their slots with this engine.
    """
    known = models.of(scenario.cluster, source)
    if known is not None:
        if engine != "fluid" or watcher is not None or fair_share:
            raise errors.InputError(
                source,
                f"cluster.{models.member_of(scenario.cluster)}",
                f"clusters with {known.name} do not support the chunk engine, "
                "plots or fair sharing",
            )
        return known.run(scenario, name, seed, source, on_end)
    strategy = make_strategy(scenario.strategies, name, seed, source)
    options = scenario.strategies.get(name, scenarios.StrategyOptions())
    caps = power_caps.caps(scenario.cluster, source)
    preempts = options.preempt == "fine"
    if preempts and engine != "fluid":
        raise errors.InputError(
            source,
            f"strategies.{name}.preempt",
            "preemption requires --engine fluid",
        )
    _check_leaving(scenario, engine, source)
    for_jobs = base.slots_of(scenario.cluster)[scenario.group_slots :]
    if (
        fair_share
        or preempts
        or scenario.budgets
        or scenario.users
        or any(job.priority for job in scenario.jobs)
    ):
        strategy = shared.SharedStrategy(
            strategy,
            sharing.ShareOptions(fair_share),
            preempt_gain=options.preempt_gain if preempts else None,
        )
    quantum_bytes = None
    if preempts:
        quantum_bytes = options.preempt_quantum_bytes or QUANTUM_BYTES
    most_stages = max(
        (len(job.chain or ()) for job in scenario.jobs), default=0
    )
    make_engine = ENGINES[engine]
    if most_stages:
        make_engine = functools.partial(
            fluid.FluidEngine, most_stages=most_stages
        )
    simulation = _Simulation(
        scenario,
        strategy,
        make_engine,
        watcher,
        caps,
        quantum_bytes,
        on_end,
        overruns.Overruns(
            CLAIM_SLACK,
            # Nothing can be learnt from true claims.
            learns=options.learn_overruns
            and any(job.claimed_bytes is not None for job in scenario.jobs),
        ),
        reserving.changes(scenario, for_jobs, source),
    )
    simulation.run()
    return _all_outcomes(simulation, scenario, source, f"strategies.{name}")


def _all_outcomes(
    simulation: _Simulation,
    scenario: scenarios.Scenario,
    source: str,
    place: str,
) -> list[schedules.JobOutcome]:
    """Return the results in the order of the scenario.

    :raises errors.InputError: if a job has not ended.
    """
    waiting = simulation.waiting_ids()
    if waiting:
        raise errors.InputError(
            source,
            place,
            f"{len(waiting)} jobs would wait forever (first: job "
            f"{min(waiting)}); change the strategy's options so that jobs may "
            "leave their hosts, or give sets fewer jobs and chains fewer "
            "stages",
        )
    for job in scenario.jobs:
        if job.id not in simulation.outcomes:
            raise errors.InputError(
                source,
                place,
                f"job {job.id} would never end: its results are not finite",
            )
    return [simulation.outcomes[job.id] for job in scenario.jobs]


def _check_leaving(
    scenario: scenarios.Scenario, engine: str, source: str
) -> None:
    """Check that jobs can leave their slots whenever they have to."""
    if engine == "fluid":
        return
    if scenario.outages:
        raise errors.InputError(
            source, "outages", "lost hosts require --engine fluid"
        )
    if scenario.reservations:
        raise errors.InputError(
            source, "reservations", "reservations require --engine fluid"
        )
    for at, job in enumerate(scenario.jobs):
        if job.chain is not None:
            raise errors.InputError(
                source, f"jobs[{at}].chain", "chains require --engine fluid"
            )
        if _limit_bytes(_first_claim(job)) < job.size_bytes:
            raise errors.InputError(
                source,
                f"jobs[{at}].claimed_bytes",
                f"is too small for {job.size_bytes:g} bytes; only the fluid "
                "engine supports this",
            )


def _first_claim(job: scenarios.JobSpec) -> float:
    return job.size_bytes if job.claimed_bytes is None else job.claimed_bytes


def _limit_bytes(claimed_bytes: float) -> int:
    """Return the input beyond which a job exceeds its claim."""
    return math.floor(claimed_bytes * (1 + CLAIM_SLACK))


class _HostChange(typing.NamedTuple):
    """A host is lost, or comes back."""

    time_s: float
    is_lost: bool
    host: int


def _host_changes(
    outages: Iterable[scenarios.Outage],
) -> list[_HostChange]:
    """Return the changes, latest first; at one time, hosts come first."""
    found: list[_HostChange] = []
    for outage in outages:
        found.append(_HostChange(outage.start_s, True, outage.host))
        if outage.end_s is not None:
            found.append(_HostChange(outage.end_s, False, outage.host))
    return sorted(found, reverse=True)


@native.mypyc_attr(allow_interpreted_subclasses=True)
class _Holding:
    """A job in its slot.

    :ivar done_bytes: the part of its input that had been computed at its last
        border, including in other slots.
    :ivar limit_bytes: the input beyond which it exceeds its claim; infinite:
        it already has.
    :ivar quantum_bytes: the rest of the chunk that it is computing; infinite:
        it keeps its slot.
    :ivar piece_bytes: what it computes from its last border without
        interruption.
    :ivar works: whether its slot has begun; until then it is programmed, or
        those of its set are.
    """

    __slots__ = (
        "done_bytes",
        "generation",
        "job",
        "limit_bytes",
        "piece_bytes",
        "quantum_bytes",
        "start_s",
        "works",
    )

    def __init__(
        self,
        job: scenarios.JobSpec,
        generation: int,
        start_s: float,
        done_bytes: int,
        limit_bytes: float,
        quantum_bytes: float,
    ) -> None:
        self.job = job
        self.generation = generation
        self.start_s = start_s
        self.done_bytes = done_bytes
        self.limit_bytes = limit_bytes
        self.quantum_bytes = quantum_bytes
        self.piece_bytes = 0.0
        self.works = False


@native.mypyc_attr(allow_interpreted_subclasses=True)
class _Simulation:
    """One run.

    :param quantum_bytes: the minimum input from one border to the next; None:
        jobs keep their slots until they end.
    :param learnt: corrects the claims of projects that exceed them.
    :param calendar: what is reserved when, latest first.
    """

    def __init__(
        self,
        scenario: scenarios.Scenario,
        strategy: strategy_api.Strategy,
        make_engine: Callable[[scenarios.Cluster], base.Engine],
        watcher: Watcher | None,
        caps: model.PowerCaps,
        quantum_bytes: int | None,
        on_end: Callable[[], None] | None,
        learnt: overruns.Overruns,
        calendar: list[reserving.Change],
    ) -> None:
        self._calendar = calendar
        self._on_end = on_end
        self._learnt = learnt
        self._caps = events.PowerCapsChanged(caps)
        self.outcomes: dict[int, schedules.JobOutcome] = {}
        self.waiting: dict[int, scenarios.JobSpec] = {}
        self._cluster = scenario.cluster
        self._profiles = scenario.cluster.accelerators
        self._engine = make_engine(scenario.cluster)
        self._watcher = watcher
        self._slots = base.slots_of(scenario.cluster)
        # By slot, the highest input rate of each accelerator.
        self._peaks_bytes_per_s = _peaks_bytes_per_s(
            scenario.cluster, self._slots
        )
        # By host. The first slots belong to groups; jobs get the rest.
        self._for_jobs: dict[int, list[base.Slot]] = {}
        for slot in self._slots[scenario.group_slots :]:
            self._for_jobs.setdefault(slot.host, []).append(slot)
        self._host_changes = _host_changes(scenario.outages)
        self._budgets: budgets.Budgets | None = None
        if scenario.budgets:
            self._budgets = budgets.Budgets(scenario.budgets)
        self._quantum_bytes = quantum_bytes
        # This limit is never reached, but without one, tenants would have no
        # lanes with priorities.
        self._limits = events.SessionLimitsChanged(
            len(self._slots) + 1,
            priorities=tuple(scenario.max_priorities.items()),
            of_users=tuple(
                (
                    tenant,
                    model.UserRule(users.sessions_per_user, users.user_turns),
                )
                for tenant, users in scenario.users.items()
            ),
        )
        # The claims of jobs, corrected, or replaced as too small.
        self._claims: dict[int, float] = {}
        # The slots that each job had to leave.
        # Those of jobs that have left slots, and the input of all of them.
        self._stays: dict[int, list[schedules.Stay]] = {}
        self._stays_bytes: dict[int, int] = {}
        # The jobs that are now at a border, by slot.
        self._at_border: dict[int, _Holding] = {}
        self._pool = state.PoolState(strategy, wakeups=scenario.wakeups)
        self._wants_rates = strategy.wants_rates
        # The rates last given to the strategy.
        self._rates = np.zeros(len(self._slots))
        self._holdings: list[_Holding | None] = [None] * len(self._slots)
        self._working = 0
        self._programmed: list[str | None] = [None] * len(self._slots)
        # (end of programming, slot)
        self._programming: list[tuple[float, int]] = []
        self._wake_s = math.inf
        # The jobs, with the stages of chains, which are those of sets.
        self._jobs, self._members = chains.expand(
            sorted(scenario.jobs, key=operator.attrgetter("arrival_s", "id")),
            scenario.cluster,
        )
        #: The sizes of sets, by tenant and name.
        self._sets = collections.Counter(
            (job.tenant, job.set_id)
            for job in self._jobs
            if job.set_id is not None
        )
        # The number of jobs that have arrived.
        self._come = 0
        # When the next job arrives.
        self._arrival_s = self._arrival_of(0)

    def run(self) -> None:
        """Run until the last job that can end has ended."""
        topology = _topology(self._cluster, self._for_jobs)
        self._pool.step([*topology, self._caps, self._limits], 0.0)
        while self._arrival_s < math.inf or self._working or self._goes_on():
            now, done = self._engine.advance(self._next_s())
            if now == math.inf:
                return
            batch: list[events.Event] = []
            for slot in done:
                self._end_piece(slot, now, batch)
            if self._wants_rates:
                batch += self._progress()
            if self._programming:
                batch += self._programmed_slots(now)
            if self._host_changes:
                batch += self._change_hosts(now)
            if self._budgets is not None:
                batch += self._budgets.changes(now)
            while self._calendar and self._calendar[-1].time_s <= now:
                batch.append(self._calendar.pop().event)
            while self._arrival_s <= now:
                batch.append(self._arrive())
            if self._wake_s <= now:
                self._wake_s = math.inf
                batch.append(events.Wake())
            # Repeat until no instruction causes a further event at this time.
            orders = self._pool.step(batch, now)
            while orders and (batch := self._execute_all(orders, now)):
                orders = self._pool.step(batch, now)
            if self._at_border:
                self._go_on_from_borders(now)
            self._engine.settle(now)
            if self._watcher is not None:
                self._watcher(
                    now,
                    [
                        None if held is None else held.job
                        for held in self._holdings
                    ],
                    self._rates_now(),
                )

    def waiting_ids(self) -> set[int]:
        """Return the jobs of the scenario that wait."""
        return {
            job_id
            if (member := self._members.get(job_id)) is None
            else member.chain.job.id
            for job_id in self.waiting
        }

    def _rates_now(self) -> typing.Any:
        """Return the rates of the engine, with those of all stages."""
        rates = self._engine.rates()
        if self._members:
            rates = list(rates)
            for held in self._holdings:
                if held is not None:
                    member = self._members.get(held.job.id)
                    if member is not None and not member.stage:
                        member.chain.fill_in(rates)
        return rates

    def _goes_on(self) -> bool:
        return bool(self._programming) or (
            bool(self.waiting)
            and (
                self._wake_s < math.inf
                or bool(self._host_changes)
                or bool(self._calendar)
                or self._budget_s() < math.inf
            )
        )

    def _budget_s(self) -> float:
        """Return when a budget is used up or refills next."""
        return math.inf if self._budgets is None else self._budgets.next_s()

    def _next_s(self) -> float:
        """Return the time of the next events outside the engine.

        It is the latest of those that are one instant with the first, so that
        none of them comes before its time.
        """
        wake_s, arrival_s = self._wake_s, self._arrival_s
        ready_s = self._programming[0][0] if self._programming else math.inf
        first_s = wake_s if wake_s < ready_s else ready_s
        change_s = math.inf
        if self._host_changes:
            change_s = self._host_changes[-1].time_s
            if change_s < first_s:
                first_s = change_s
        if self._calendar:
            # There are no outages then.
            change_s = self._calendar[-1].time_s
            if change_s < first_s:
                first_s = change_s
        budget_s = self._budget_s()
        if budget_s < first_s:
            first_s = budget_s
        if arrival_s < first_s:
            first_s = arrival_s
        elif first_s == math.inf:
            return first_s
        last_s = first_s
        end_s = first_s + instants.tolerance_s(first_s)
        for time_s in (wake_s, ready_s, change_s, budget_s):
            if last_s < time_s <= end_s:
                last_s = time_s
        at = self._come
        while arrival_s <= end_s:
            if last_s < arrival_s:
                last_s = arrival_s
            at += 1
            arrival_s = self._arrival_of(at)
        return last_s

    def _arrival_of(self, at: int) -> float:
        """Return when a job arrives; infinite: there is no such job."""
        return self._jobs[at].arrival_s if at < len(self._jobs) else math.inf

    def _end_piece(
        self, number: int, now: float, batch: list[events.Event]
    ) -> None:
        """End a piece that a slot computes without interruption."""
        held = self._holdings[number]
        assert held is not None
        if self._members and held.job.id in self._members:
            self._end_chain_piece(self._members[held.job.id].chain, now, batch)
            return
        if held.piece_bytes >= held.job.size_bytes - held.done_bytes:
            batch.append(self._complete(number, held, now))
            return
        held.done_bytes += int(held.piece_bytes)
        self._at_border[number] = held
        held.quantum_bytes -= held.piece_bytes
        if held.quantum_bytes <= 0:
            held.quantum_bytes = self._quantum_of(number, held.job)
            batch.append(
                events.QuantumDone(number, held.generation, held.done_bytes)
            )
        if held.done_bytes >= held.limit_bytes:
            held.limit_bytes = math.inf
            batch.append(events.ClaimExceeded(number, held.generation))

    def _end_chain_piece(
        self, chain: chains.Chain, now: float, batch: list[events.Event]
    ) -> None:
        """End a piece that a chain computes without interruption."""
        is_last = chain.end_piece()
        if is_last:
            self.outcomes[chain.job.id] = chain.outcome(now)
            if self._on_end is not None:
                self._on_end()
        for seat in chain.seats():
            number = seat.slot.number
            held = self._holdings[number]
            assert held is not None
            if is_last:
                batch.append(self._release(number, held, now))
                continue
            self._at_border[number] = held
            if held.quantum_bytes <= 0:
                held.quantum_bytes = self._quantum_of(number, held.job)
                batch.append(
                    events.QuantumDone(
                        number, held.generation, held.done_bytes
                    )
                )

    def _go_on_from_borders(self, now: float) -> None:
        """Continue the jobs that kept their slots at a border."""
        for number, held in self._at_border.items():
            if self._holdings[number] is held:
                self._start_piece(number, held, now)
        self._at_border.clear()

    def _complete(
        self, number: int, held: _Holding, now: float
    ) -> events.Event:
        slot, job = self._slots[number], held.job
        released = self._release(number, held, now)
        stays: tuple[schedules.Stay, ...] = ()
        if self._stays and job.id in self._stays:
            stays = tuple(self._stays.pop(job.id))
        self.outcomes[job.id] = schedules.JobOutcome(
            job.id,
            held.start_s,
            now,
            slot.host,
            slot.place,
            slot.host == job.host,
            None
            if job.deadline_s is None
            else schedules.state_at_end(now, job.deadline_at_s),
            preemptions=sum(not stay.lost for stay in stays),
            stays=stays,
            interruptions=sum(stay.lost for stay in stays),
        )
        if self._on_end is not None:
            self._on_end()
        return released

    def _release(
        self, number: int, held: _Holding, now: float
    ) -> events.Event:
        """Release the slot of a job, or of a stage, that has ended."""
        job = held.job
        if self._budgets is not None:
            self._charge(
                number,
                job,
                now,
                job.size_bytes - self._stays_bytes.get(job.id, 0),
            )
        self._holdings[number] = None
        self._working -= 1
        del self._claims[job.id]
        if self._stays_bytes:
            self._stays_bytes.pop(job.id, None)
        self._learnt.note(
            job.tenant, job.accelerator, _first_claim(job), job.size_bytes
        )
        return events.SlotReleased(number, held.generation)

    def _progress(self) -> Iterator[events.Event]:
        """Yield the rates that changed when pipes were last shared."""
        rates = np.array(self._rates_now())
        # Slots at a border are about to continue.
        for number in self._at_border:
            rates[number] = self._rates[number]
        changed = np.flatnonzero(rates != self._rates)
        for number in changed.tolist():
            held = self._holdings[number]
            if held is not None:
                yield events.Progress(
                    number,
                    held.generation,
                    held.done_bytes,
                    float(rates[number]),
                )
        self._rates = rates

    def _programmed_slots(self, now: float) -> Iterator[events.Event]:
        while self._programming and self._programming[0][0] <= now:
            _, number = heapq.heappop(self._programming)
            held = self._holdings[number]
            assert held is not None
            if held.job.set_id is None:
                self._work(number, held, now)
            yield events.SlotReady(number, held.generation)

    def _arrive(self) -> events.Event:
        job = self._jobs[self._come]
        self._come += 1
        self._arrival_s = self._arrival_of(self._come)
        self.waiting[job.id] = job
        correction = self._learnt.correction(job.tenant, job.accelerator)
        claim_bytes = correction * _first_claim(job)
        self._claims[job.id] = claim_bytes
        submitted = _model_job(job, 0, claim_bytes, correction)
        if job.set_id is not None:
            submitted = dataclasses.replace(
                submitted, together=self._together(job)
            )
        return events.JobSubmitted(submitted)

    def _together(self, job: scenarios.JobSpec) -> model.Together:
        assert job.set_id is not None
        return model.Together(
            job.set_id,
            self._sets[job.tenant, job.set_id],
            job.set_placement,
        )

    def _execute_all(
        self, orders: Iterable[instructions.Instruction], now: float
    ) -> list[events.Event]:
        """Carry out the pool's orders; return the immediate events."""
        batch: list[events.Event] = []
        for order in orders:
            if isinstance(order, instructions.Program):
                if (ready := self._assign(order, now)) is not None:
                    batch.append(ready)
            elif isinstance(order, instructions.Yield):
                batch += self._leave(order, now)
            elif isinstance(order, instructions.WakeAt):
                self._wake_s = order.time_s
            elif self._sets and isinstance(order, instructions.Grant):
                granted = self._holdings[order.slot_id]
                assert granted is not None
                if granted.job.set_id is not None:
                    # All jobs of its set begin now.
                    self._work(order.slot_id, granted, now)
            elif isinstance(order, instructions.Requeue) and order.reason in (
                codes.RESERVED,
                codes.SET_INCOMPLETE,
            ):
                batch.append(self._make_room(order, now))
        return batch

    def _make_room(
        self, order: instructions.Requeue, now: float
    ) -> events.Event:
        """Stop a job whose slot, or one of its set, is reserved now.

        It is queued already.
        """
        number, held = next(
            (number, held)
            for number, held in enumerate(self._holdings)
            if held is not None and held.generation == order.generation_lost
        )
        if held.works:
            self._stop(number, now)
            return events.JobProgress(held.job.id, held.done_bytes)
        programming = [one for one in self._programming if one[1] == number]
        if programming:
            self._programming.remove(programming[0])
            heapq.heapify(self._programming)
            self._programmed[number] = None
        if self._budgets is not None:
            self._charge(number, held.job, now, 0.0)
        self._holdings[number] = None
        self.waiting[held.job.id] = held.job
        return events.JobProgress(held.job.id, held.done_bytes)

    def _leave(
        self, order: instructions.Yield, now: float
    ) -> list[events.Event]:
        """Make a job leave its slot, and queue it again."""
        number = order.slot_id
        held = self._stop(number, now)
        job = held.job
        correction = self._claims[job.id] / _first_claim(job)
        if order.reason == codes.YIELDED:
            # As in the conductor, a job loses its place because of a wrong
            # claim.
            self._claims[job.id] = min(
                self._learnt.next_claim(
                    job.tenant,
                    job.accelerator,
                    _first_claim(job),
                    held.done_bytes,
                ),
                MAX_CLAIMED_BYTES,
            )
            correction = 1.0
        claimed_bytes = self._claims[job.id]
        return [
            events.SlotReleased(number, held.generation),
            events.JobSubmitted(
                _model_job(job, held.done_bytes, claimed_bytes, correction),
                max(claimed_bytes - held.done_bytes, 0.0),
                yields=True,
                returns=order.reason != codes.YIELDED,
            ),
        ]

    def _stop(
        self, number: int, now: float, *, lost: bool = False
    ) -> _Holding:
        """Stop the work of a slot; its job waits for another one.

        :param lost: whether the slot's host is lost.
        """
        slot, held = self._slots[number], self._holdings[number]
        assert held is not None
        member = self._members.get(held.job.id)
        if member is not None:
            member.chain.leave(member.stage, self._engine, now)
        elif number not in self._at_border:
            # Its host is lost, or it exceeded its claim before other jobs
            # started to wait.
            assert isinstance(self._engine, fluid.FluidEngine)
            left_bytes = self._engine.stop(number, now)
            held.done_bytes += int(held.piece_bytes - left_bytes)
        job = held.job
        done_bytes = held.done_bytes - self._stays_bytes.get(job.id, 0)
        if self._budgets is not None:
            self._charge(number, job, now, done_bytes)
        if member is None:
            self._stays.setdefault(job.id, []).append(
                schedules.Stay(
                    slot.host, slot.place, held.start_s, now, done_bytes, lost
                )
            )
        self._stays_bytes[job.id] = held.done_bytes
        self._holdings[number] = None
        self._working -= 1
        self.waiting[job.id] = job
        return held

    def _charge(
        self,
        number: int,
        job: scenarios.JobSpec,
        now: float,
        input_bytes: float,
    ) -> None:
        """Charge the budget of a job's tenant when it leaves a slot."""
        assert self._budgets is not None
        ratio = self._profiles[job.accelerator].return_ratio
        self._budgets.release(
            job.tenant, number, now, input_bytes * (1 + ratio)
        )

    def _change_hosts(self, now: float) -> Iterator[events.Event]:
        """Take hosts down, and bring them back."""
        while self._host_changes and self._host_changes[-1].time_s <= now:
            _, is_lost, host = self._host_changes.pop()
            if is_lost:
                yield from self._lose(host, now)
            else:
                slots = self._for_jobs[host]
                yield events.HostUp(_host(self._cluster, host, slots))

    def _lose(self, host: int, now: float) -> Iterator[events.Event]:
        """Lose a host; the core queues the jobs of its slots again."""
        numbers = {slot.number for slot in self._for_jobs[host]}
        programmed = {number for _, number in self._programming} & numbers
        self._programming = [
            each for each in self._programming if each[1] not in numbers
        ]
        heapq.heapify(self._programming)
        yield events.HostLost(host)
        for number in sorted(numbers):
            self._programmed[number] = None
            held = self._holdings[number]
            if number in programmed:
                assert held is not None
                if self._budgets is not None:
                    self._charge(number, held.job, now, 0.0)
                self._holdings[number] = None
                self.waiting[held.job.id] = held.job
            elif held is not None:
                self._stop(number, now, lost=True)
                yield events.JobProgress(held.job.id, held.done_bytes)

    def _assign(
        self, order: instructions.Program, now: float
    ) -> events.Event | None:
        """Give a slot to a job; return an immediate event, if there is one."""
        number = order.slot_id
        job = self.waiting.pop(order.job_id)
        done_bytes = self._stays_bytes.get(job.id, 0)
        held = _Holding(
            job,
            order.generation,
            now,
            done_bytes,
            _limit_bytes(self._claims[job.id]),
            self._quantum_of(number, job),
        )
        self._holdings[number] = held
        if self._budgets is not None:
            self._budgets.hold(job.tenant, number, now)
        programming_s = self._cluster.reconfiguration_s
        accelerator = job.accelerator
        if programming_s and self._programmed[number] != accelerator:
            self._programmed[number] = accelerator
            heapq.heappush(self._programming, (now + programming_s, number))
            return None
        if job.set_id is not None:
            return events.SlotReady(number, held.generation)
        self._work(number, held, now)
        if self._quantum_bytes or programming_s:
            # The core needs to know which accelerators the slots have.
            return events.SlotReady(number, held.generation)
        return None

    def _work(self, number: int, held: _Holding, now: float) -> None:
        held.start_s = now
        held.works = True
        self._working += 1
        if self._members and held.job.id in self._members:
            member = self._members[held.job.id]
            peak_bytes_per_s = self._peak_bytes_per_s(number, held.job)
            member.chain.join(
                member.stage,
                chains.Seat(self._slots[number], peak_bytes_per_s, held),
                now,
            )
        self._start_piece(number, held, now)

    def _start_piece(self, number: int, held: _Holding, now: float) -> None:
        """Let a slot compute up to the next border or to the end."""
        job, slot = held.job, self._slots[number]
        if self._members and job.id in self._members:
            self._members[job.id].chain.go_on(self._engine, now)
            return
        profile = self._profiles[job.accelerator]
        piece_bytes = job.size_bytes - held.done_bytes
        if piece_bytes > held.quantum_bytes:
            piece_bytes = held.quantum_bytes
        if piece_bytes > held.limit_bytes - held.done_bytes:
            # A claim below one byte is exceeded by the first byte.
            limit_bytes = max(held.limit_bytes - held.done_bytes, 1)
            piece_bytes = min(piece_bytes, limit_bytes)
        held.piece_bytes = piece_bytes
        self._engine.start(
            slot,
            base.Transfer(
                job.host,
                piece_bytes,
                self._peak_bytes_per_s(number, job),
                profile.return_ratio,
            ),
            now,
        )

    def _peak_bytes_per_s(self, number: int, job: scenarios.JobSpec) -> float:
        return self._peaks_bytes_per_s[number][job.accelerator]

    def _quantum_of(self, number: int, job: scenarios.JobSpec) -> float:
        """Return the input from one border of a job to the next."""
        if self._quantum_bytes is None:
            return math.inf
        return preemption.quantum_bytes(
            self._quantum_bytes,
            self._peak_bytes_per_s(number, job),
            self._cluster.reconfiguration_s,
        )


def _peaks_bytes_per_s(
    cluster: scenarios.Cluster, slots: Iterable[base.Slot]
) -> list[dict[str, float]]:
    shapes = [cluster.shape_of(slot.host) for slot in slots]
    by_shape = {
        shape: {
            name: profile.peak_in(shape)
            for name, profile in cluster.accelerators.items()
        }
        for shape in set(shapes)
    }
    return [by_shape[shape] for shape in shapes]


def _model_job(
    job: scenarios.JobSpec,
    done_bytes: int,
    claimed_bytes: float,
    correction: float = 1.0,
) -> model.Job:
    """Return a job as the core sees it.

    :param done_bytes: the part of its input that has been computed.
    :param correction: by which its own claim has been multiplied.
    """
    return model.Job(
        id=job.id,
        host_id=job.host,
        accelerator=job.accelerator,
        claimed_bytes=claimed_bytes,
        arrival_s=job.arrival_s,
        priority=job.priority,
        project=job.tenant,
        done_bytes=done_bytes,
        deadline_s=job.deadline_at_s,
        affinity_key=job.app,
        correction=correction,
        user=job.user,
    )


def _topology(
    cluster: scenarios.Cluster, by_host: Mapping[int, list[base.Slot]]
) -> list[events.Event]:
    """Return the events that describe the cluster to the core."""
    library = tuple(
        model.Accelerator(
            name,
            profile.peak_bytes_per_s,
            profile.return_ratio,
            stateless=True,
            peaks_bytes_per_s={
                shape: platform.peak_bytes_per_s
                for shape, platform in profile.platforms.items()
                if shape != platforms.CPU
            },
        )
        for name, profile in cluster.accelerators.items()
    )
    return [
        events.AcceleratorsChanged(library),
        *(
            events.HostUp(_host(cluster, host, by_host.get(host, [])))
            for host in range(cluster.hosts)
        ),
    ]


def _host(
    cluster: scenarios.Cluster, host: int, slots: list[base.Slot]
) -> model.HostSpec:
    devices: tuple[model.DeviceSpec, ...] = ()
    if slots:
        devices = (
            model.DeviceSpec(
                id=slots[0].device,
                host_id=host,
                name="board0",
                dma_bytes_per_s=cluster.dma_of(host),
                slots=tuple(
                    model.SlotSpec(
                        id=slot.number,
                        device_id=slot.device,
                        host_id=host,
                        number=slot.place,
                        shape=cluster.shape_of(host),
                        programming_time_s=cluster.reconfiguration_s,
                    )
                    for slot in slots
                ),
            ),
        )
    return model.HostSpec(
        id=host,
        name=f"host{host}",
        nic_bytes_per_s=cluster.nic_of(host),
        devices=devices,
    )
