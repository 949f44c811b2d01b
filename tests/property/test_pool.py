# SPDX-License-Identifier: Apache-2.0

"""Random events: the invariants and the literal rules hold at every step."""

import contextlib
import dataclasses
import math
import typing
from unittest import mock

import hypothesis
import hypothesis.stateful as stateful
import hypothesis.strategies as st
import numpy
import pytest

from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import model
from fpgapool.core import ordered
from fpgapool.core import state
from fpgapool.core.calendar import promises
from fpgapool.core.sizing import elasticity
from fpgapool.core.sizing import goals
from fpgapool.core.sizing import groups as group_sizes
from fpgapool.strategies.placements import any as any_placement
from fpgapool.strategies.placements import offers
from fpgapool.vocabulary import codes
from tests.harness import pool_invariants
from tests.property import checked
from tests.property import fuzzing
from tests.property import hosts
from tests.property import literal

ACCELERATOR_NAMES = ("aes", "fft", "sha") * 8 + ("unknown",)
SIZES_MB = (1, 100, 200, 300, 5000) * 5 + (0,)
SLOT_EVENTS = (
    None,
    events.SlotReady,
    events.HolderAttached,
    events.HolderDetached,
    events.ClaimExceeded,
    events.SlotReleased,
    events.SlotReleased,
)
FEW = (0, 2, 100)

host_ids = st.sampled_from(hosts.HOSTS)
INSTANCES = ("a", "b", "c")
NOBODY = (None,) * 5

device_ids = st.integers(0, len(hosts.HOSTS) * hosts.DEVICES_PER_HOST - 1)
slot_ids = st.integers(
    0, len(hosts.HOSTS) * hosts.DEVICES_PER_HOST * hosts.SLOTS_PER_DEVICE - 1
)


group_ids = st.integers(1, 3)

#: Size, least and most; the last ones cannot be.
GROUP_SIZES = (
    *((1, 0, 1), (1, 1, 4), (2, 0, 3), (3, 1, 5), (6, 2, 6)),
    *((0, 0, 3), (2, 3, 4), (3, 1, 2), (1, -1, 1)),
)

seeds = st.integers(0, 2**32 - 1)


class Swinging(elasticity.Policy):
    """Gives groups other sizes in each period."""

    def resize(self, view: elasticity.View, now: float) -> elasticity.Sizes:
        return {
            group.id: group.min_size
            + (group.id + int(7 * now)) % (group.max_size - group.min_size + 1)
            for group in view.groups
        }

    def admit(
        self, view: elasticity.View, group_id: int, now: float
    ) -> elasticity.Sizes:
        goal = view.group(group_id).goal
        if goal is not None and goal.due_s < now + 5.0:
            raise goals.Infeasible("too early", now + 5.0)
        return {}


class PoolMachine(stateful.RuleBasedStateMachine):
    """Throws events at a pool and keeps its own, simple books."""

    strategy_name: typing.ClassVar[str]

    @stateful.initialize(
        data=st.data(),
        wakeups=st.booleans(),
        seed=seeds,
        few=st.sampled_from(FEW),
    )
    def start(
        self,
        data: st.DataObject,
        wakeups: bool,
        seed: int,
        few: int,
    ) -> None:
        self.patches = contextlib.ExitStack()
        self.few = few
        self.set_few(few)
        for name in ("_MAX_CHANGES", "_MAX_CHUNK"):
            self.patch(ordered, name, 3)
        settings = data.draw(checked.strategy_settings(self.strategy_name))
        self.settings = settings
        self.wakeups = wakeups
        self.now = 0.0
        self.batch: list[events.Event] = []
        self.history: list[
            tuple[list[events.Event], float, list[instructions.Instruction]]
        ] = []
        self.jobs: dict[int, model.Job] = {}
        self.waiting: set[int] = set()
        self.held: dict[int, int] = {}
        self.last_generation = 0
        self.wake_s: float | None = None
        # What operators want: devices given to nobody, those to be drained.
        self.barred: set[int] = set()
        self.groups: dict[int, model.Group] = {}
        self.draining: set[int] = set()
        # Whom slots are reserved for, by the pool's own word, and how many
        # are wanted of each device.
        self.reserved: dict[int, str] = {}
        self.wanted: dict[int, dict[str, int]] = {}
        # What is reserved by calendar: owners now, and times later.
        self.calendar = events.CalendarChanged()
        self.strategy = checked.CheckedStrategy(*settings)
        self.pool = self.new_pool(self.strategy)
        self.add(events.AcceleratorsChanged(hosts.ACCELERATORS))
        random = numpy.random.default_rng(seed)
        for host_id in hosts.HOSTS:
            self.add(events.HostUp(hosts.make_host(host_id, random)))
        self.flush()
        for group_id in range(1, int(random.integers(4))):
            self.make_group(group_id, "aes", (2, 1, 3), True, None)
        self.obey_groups(0.0)
        self.submit(seed, 30)
        self.flush()

    def new_pool(self, strategy: checked.CheckedStrategy) -> state.PoolState:
        return state.PoolState(
            strategy,
            groups=group_sizes.Groups(Swinging()),
            wakeups=self.wakeups,
        )

    def set_few(self, few: int) -> None:
        """Say up to how many idle slots no index is looked at."""
        self.patch(any_placement, "_FEW", few)
        self.patch(offers, "_FEW", few)

    def patch(self, module: object, name: str, value: int) -> None:
        self.patches.enter_context(mock.patch.object(module, name, value))

    # -- events ----------------------------------------------------------

    def add(self, event: events.Event) -> None:
        self.batch.append(event)

    @stateful.rule(
        after_s=st.sampled_from([0.0, 0.0, 0.1, 1.0, 30.0]),
        woken=st.booleans(),
    )
    def flush(self, after_s: float = 0.0, woken: bool = False) -> None:
        """Let the pool take in what has happened."""
        self.now += after_s
        if woken:
            self.add(events.Wake())
        batch, self.batch = self.batch, []
        output = self.pool.step(batch, self.now)
        self.history.append((batch, self.now, output))
        pool_invariants.check(self.pool)
        self.keep_books(batch, output)
        self.compare_books()
        self.check_nothing_missed()

    @stateful.rule()
    def sleep_until_woken(self) -> None:
        """Let time pass until exactly when the pool wants to be woken."""
        if self.wake_s is not None and self.wake_s >= self.now:
            self.now = self.wake_s
            self.flush(woken=True)

    @stateful.rule(seed=seeds, count=st.integers(1, 12))
    def submit(self, seed: int, count: int) -> None:
        random = numpy.random.default_rng(seed)
        for _ in range(count):
            job = self.new_job(
                host_id=random.choice([*hosts.HOSTS, *hosts.HOSTS, None, 99]),
                accelerator=str(random.choice(ACCELERATOR_NAMES)),
                claimed_bytes=float(random.choice(SIZES_MB) * checked.MB),
                arrival_s=self.now
                - float(random.choice([0.0, 0.0, 0.5, 20.0])),
                wait_timeout_s=random.choice([None] * 6 + [0.0, 5.0]),
                instance_id=random.choice([*NOBODY, *INSTANCES]),
                affinity_key=random.choice([None, "x", "y"]),
            )
            self.add(events.JobSubmitted(job))

    def new_job(self, **members: typing.Any) -> model.Job:
        job = model.Job(id=len(self.jobs), **members)
        self.jobs[job.id] = job
        return job

    @stateful.rule(seed=seeds)
    def cancel(self, seed: int) -> None:
        random = numpy.random.default_rng(seed)
        job_id = int(random.integers(len(self.jobs)))
        self.add(events.JobCancelled(job_id, "CANCELLED_BY_CLIENT"))

    @stateful.rule(seed=seeds, host_id=st.sampled_from([*hosts.HOSTS, None]))
    def move(self, seed: int, host_id: int | None) -> None:
        """Have a job's data come from another host."""
        random = numpy.random.default_rng(seed)
        job_id = int(random.integers(len(self.jobs)))
        job = dataclasses.replace(self.jobs[job_id], host_id=host_id)
        if job.group_id is None:
            self.jobs[job_id] = job
            self.add(events.JobMoved(job_id, host_id))

    @stateful.rule(
        seed=seeds,
        after_s=st.sampled_from([0.0, 0.5, 3.0]),
        rounds=st.integers(1, 8),
        count=st.integers(0, 4),
    )
    def run_jobs(
        self, seed: int, after_s: float, rounds: int, count: int
    ) -> None:
        """Let slots be heard of and jobs come, and decide, repeatedly."""
        random = numpy.random.default_rng(seed)
        for round_seed in random.integers(2**32, size=rounds):
            for slot_id, assignment in self.pool.assignments().items():
                kind = random.choice(SLOT_EVENTS)
                if kind is not None:
                    age = int(random.random() < 0.05)
                    self.add(kind(slot_id, assignment.generation - age))
            self.submit(int(round_seed), count)
            self.flush(after_s)

    @stateful.rule(seed=seeds, share=st.sampled_from([0.2, 1.0]))
    def fail_to_prepare(self, seed: int, share: float) -> None:
        random = numpy.random.default_rng(seed)
        for slot_id, assignment in self.pool.assignments().items():
            if random.random() < share:
                self.add(
                    events.PrepareFailed(
                        slot_id, assignment.generation, "PROGRAM_FAILED"
                    )
                )

    @stateful.rule(host_id=host_ids)
    def lose_host(self, host_id: int) -> None:
        self.add(events.HostLost(host_id))

    @stateful.rule(host_id=host_ids, seed=seeds)
    def bring_host_up(self, host_id: int, seed: int) -> None:
        random = numpy.random.default_rng(seed)
        self.add(events.HostUp(hosts.make_host(host_id, random)))

    @stateful.rule(device_id=device_ids, restored=st.booleans())
    def change_device(self, device_id: int, restored: bool) -> None:
        if restored:
            self.add(events.DeviceRestored(device_id))
        else:
            self.add(events.DeviceFailed(device_id, "DEVICE_FAILED"))

    @stateful.rule(
        device_id=device_ids,
        wish=st.sampled_from(["enable", "disable", "drain", "drain"]),
        within_s=st.sampled_from([None, -1.0, 0.0, 0.5, 3.0]),
    )
    def administer(
        self, device_id: int, wish: str, within_s: float | None
    ) -> None:
        if wish == "enable":
            self.add(events.DeviceEnabled(device_id))
        elif wish == "disable":
            self.add(events.DeviceDisabled(device_id))
        else:
            deadline_s = None if within_s is None else self.now + within_s
            self.add(events.DrainRequested(device_id, deadline_s))

    @stateful.rule(device_id=device_ids, count=st.integers(0, 4))
    def set_reservable(self, device_id: int, count: int) -> None:
        self.add(events.ReservableSlotsChanged(device_id, count))

    @stateful.rule(
        device_id=device_ids,
        counts=st.dictionaries(
            st.sampled_from(INSTANCES), st.integers(0, 2), max_size=3
        ),
        former=st.dictionaries(slot_ids, st.sampled_from(INSTANCES)),
    )
    def reserve(
        self,
        device_id: int,
        counts: dict[str, int],
        former: dict[int, str],
    ) -> None:
        """Change what is reserved of a device, perhaps after a restart."""
        self.wanted[device_id] = counts
        self.add(
            events.ReservationsChanged(
                tuple(
                    (device, tuple(sorted(wanted.items())))
                    for device, wanted in sorted(self.wanted.items())
                ),
                tuple(sorted(former.items())),
            )
        )

    @stateful.rule(
        owners=st.dictionaries(
            slot_ids, st.sampled_from(ACCELERATOR_NAMES), max_size=4
        ),
        until_s=st.dictionaries(
            slot_ids, st.sampled_from([0.0, 0.5, 30.0]), max_size=4
        ),
    )
    def change_calendar(
        self, owners: dict[int, str], until_s: dict[int, float]
    ) -> None:
        self.add(
            events.CalendarChanged(
                tuple(
                    (slot_id, promises.owner_of("", name))
                    for slot_id, name in owners.items()
                ),
                tuple((id_, self.now + s) for id_, s in until_s.items()),
            )
        )

    @stateful.rule(slot_id=slot_ids, restored=st.booleans())
    def change_slot(self, slot_id: int, restored: bool) -> None:
        if restored:
            self.add(events.SlotRestored(slot_id))
        else:
            self.add(events.SlotFaulty(slot_id, "SLOT_FAULTY"))

    @stateful.rule(
        host_id=host_ids,
        accelerator=st.sampled_from(["aes", "fft", "none"]),
        restored=st.booleans(),
    )
    def change_accelerator(
        self, host_id: int, accelerator: str, restored: bool
    ) -> None:
        if restored:
            self.add(events.AcceleratorRestored(host_id, accelerator))
        else:
            self.add(events.AcceleratorFaulty(host_id, accelerator))

    @stateful.rule(slot_id=slot_ids, accelerator=st.sampled_from(["aes", "x"]))
    def begin_test(self, slot_id: int, accelerator: str) -> None:
        """Test a slot, in use or not; only a free one can be tested."""
        self.flush()
        event = events.TestRequested(slot_id, accelerator)
        slot = self.pool.view.slots.slots.get(slot_id)
        before = self.pool.assignments()
        if slot is None or not slot.host.up or slot_id in before:
            with pytest.raises(ValueError, match=f"slot {slot_id}"):
                self.pool.step([event], self.now)
            assert self.pool.assignments() == before
            return
        self.add(event)
        self.flush()
        kind = self.pool.assignments()[slot_id].holder.kind
        assert kind is model.HolderKind.SELF_TEST

    @stateful.rule(
        group_id=group_ids,
        accelerator=st.sampled_from(ACCELERATOR_NAMES),
        sizes=st.sampled_from(GROUP_SIZES),
        elastic=st.booleans(),
        deadline_s=st.sampled_from([None, None, 1.0, 50.0]),
    )
    def make_group(
        self,
        group_id: int,
        accelerator: str,
        sizes: tuple[int, int, int],
        elastic: bool,
        deadline_s: float | None,
    ) -> None:
        """Create or change a group; its sizes may contradict each other."""
        self.flush()
        kind: type[events.GroupCreated | events.GroupChanged]
        kind = events.GroupCreated
        known = self.groups.get(group_id)
        holder = model.Holder(model.HolderKind.GROUP, group_id)
        held = [one.holder for one in self.pool.assignments().values()]
        if known is None and holder in held:
            # It still gives back its slots, and its id does not come again.
            return
        if known is not None:
            kind, accelerator = events.GroupChanged, known.accelerator
        group = model.Group(
            id=group_id,
            accelerator=accelerator,
            size=sizes[0],
            min_size=sizes[1],
            max_size=sizes[2],
            project="ab"[group_id % 2],
            elastic=elastic,
        )
        event: events.Event = kind(group)
        if known is None and deadline_s is not None:
            goal = goals.Goal(deadline_s=self.now + deadline_s, actions=4)
            event = events.GroupCreated(group, goal)
        before = self.pool.assignments()
        self.add(event)
        self.flush()
        refused = [
            order.code
            for order in self.history[-1][2]
            if isinstance(order, instructions.RejectGroup)
        ]
        if 0 <= sizes[1] <= sizes[0] <= sizes[2] and sizes[0]:
            allowed = {codes.UNKNOWN_ACCELERATOR, codes.GOAL_INFEASIBLE}
            assert set(refused) <= allowed
        else:
            assert refused
        if refused:
            assert self.pool.assignments() == before
        else:
            self.groups[group_id] = group

    @stateful.rule(group_id=group_ids, deadline_s=st.sampled_from([1.0, 50.0]))
    def set_goal(self, group_id: int, deadline_s: float) -> None:
        goal = goals.Goal(deadline_s=self.now + deadline_s, actions=4)
        self.add(events.GoalChanged(group_id, goal))

    @stateful.rule(group_id=group_ids)
    def delete_group(self, group_id: int) -> None:
        self.flush()
        if group_id in self.groups:
            del self.groups[group_id]
            self.add(events.GroupDeleted(group_id))
            self.flush()

    @stateful.rule(after_s=st.sampled_from([0.0, 7.0, 10.0]))
    def obey_groups(self, after_s: float) -> None:
        """Members become ready, and leave as they are told."""
        self.flush()
        for slot_id, one in self.pool.assignments().items():
            if one.holder.kind is not model.HolderKind.GROUP:
                continue
            if one.phase is model.Phase.PREPARING:
                self.add(events.SlotReady(slot_id, one.generation))
            elif one.revoked:
                self.add(events.SlotReleased(slot_id, one.generation))
        self.flush(after_s)

    @stateful.rule(
        group_id=group_ids,
        host_id=host_ids,
        counts=st.lists(st.integers(0, 5), max_size=3),
    )
    def report_tasks(
        self, group_id: int, host_id: int, counts: list[int]
    ) -> None:
        clients = tuple(
            events.ClientStats(
                client=str(number),
                ended=count,
                arrived=count,
                waiting=count,
                busy_s=float(count),
            )
            for number, count in enumerate(counts)
        )
        self.add(
            events.TaskStats(
                group_id, host_id, clients, float(sum(counts)), len(counts)
            )
        )
        self.add(events.GroupClientsChanged(group_id, (("1", "c"),)))

    @stateful.rule(
        slot_id=slot_ids,
        host_id=host_ids,
        phase=st.sampled_from(model.Phase),
        knows_host=st.booleans(),
        group_id=st.none() | group_ids,
    )
    def restore(
        self,
        slot_id: int,
        host_id: int,
        phase: model.Phase,
        knows_host: bool,
        group_id: int | None,
    ) -> None:
        self.flush()
        if slot_id in self.pool.assignments():
            return
        next_generation = self.pool.view.next_generation
        self.last_generation = max(self.last_generation, next_generation)
        members = {
            "host_id": host_id,
            "accelerator": "aes",
            "claimed_bytes": checked.MB,
            "arrival_s": self.now,
        }
        if group_id is None:
            job = self.new_job(**members)
            self.held[job.id] = slot_id
        else:
            job = model.Job(
                id=-self.last_generation - 3, group_id=group_id, **members
            )
        slot_host_id = slot_id // (
            hosts.DEVICES_PER_HOST * hosts.SLOTS_PER_DEVICE
        )
        self.add(
            events.AssignmentRestored(
                job,
                slot_id,
                self.last_generation + 3,
                phase,
                slot_host_id if knows_host else None,
                slot_id // hosts.SLOTS_PER_DEVICE if knows_host else None,
            )
        )
        self.last_generation += 3
        self.flush()

    @stateful.rule(
        names=st.sets(st.sampled_from(["aes", "fft", "sha"]), min_size=2),
        shape=st.sampled_from(hosts.SHAPES),
    )
    def change_library(self, names: set[str], shape: str) -> None:
        self.add(
            events.AcceleratorsChanged(
                tuple(
                    model.Accelerator(
                        name=a.name,
                        peak_bytes_per_s=1e9,
                        shapes=frozenset({shape}) if a.shapes else a.shapes,
                    )
                    for a in hosts.ACCELERATORS
                    if a.name in names
                )
            )
        )

    # -- what must come of them ------------------------------------------

    def keep_books(
        self,
        batch: list[events.Event],
        output: list[instructions.Instruction],
    ) -> None:
        """Follow the jobs by events and instructions alone."""
        for event in batch:
            match event:
                case events.JobSubmitted(job):
                    self.waiting.add(job.id)
                case events.CalendarChanged():
                    self.calendar = event
                case events.DeviceEnabled(device_id):
                    self.barred.discard(device_id)
                    self.draining.discard(device_id)
                case events.DeviceDisabled(device_id):
                    self.barred.add(device_id)
                    self.draining.discard(device_id)
                case events.DrainRequested(device_id):
                    self.barred.add(device_id)
                    self.draining.add(device_id)
        if self.wake_s is not None and self.wake_s <= self.now:
            self.wake_s = None
        for order in output:
            if _is_of_group(order):
                continue
            match order:
                case instructions.Program(slot_id, job_id, generation):
                    assert generation > self.last_generation
                    assert slot_id // hosts.SLOTS_PER_DEVICE not in self.barred
                    if job_id < 0:
                        assert slot_id not in self.reserved
                        self.last_generation = generation
                        continue
                    self.check_reserved(slot_id, job_id)
                    self.last_generation = generation
                    self.waiting.remove(job_id)
                    self.held[job_id] = slot_id
                case instructions.Reserve(slot_id, None):
                    self.reserved.pop(slot_id, None)
                case instructions.Reserve(slot_id, str(instance_id)):
                    self.reserved[slot_id] = instance_id
                case instructions.Requeue(job_id, _, _):
                    del self.held[job_id]
                    self.waiting.add(job_id)
                case instructions.Reject(job_id, _, _):
                    self.held.pop(job_id, None)
                    self.waiting.discard(job_id)
                case instructions.Grant(slot_id, job_id, _):
                    assert self.held[job_id] == slot_id
                case instructions.Revoke(slot_id, job_id, _, reason):
                    assert self.held[job_id] == slot_id
                    if reason == codes.RESERVED:
                        owned = slot_id in dict(self.calendar.owners)
                        assert owned or self.is_stateless(job_id)
                case instructions.Yield(slot_id, job_id, _, _):
                    assert self.held[job_id] == slot_id
                    assert self.pool.assignments()[slot_id].revoked
                case instructions.Drained(device_id):
                    self.draining.remove(device_id)
                    assert not self.pool.view.slots.held_on(device_id)
                case instructions.WakeAt(time_s):
                    assert time_s > self.now
                    self.wake_s = time_s

    def check_reserved(self, slot_id: int, job_id: int) -> None:
        """A job may have this slot, as far as reservations are concerned."""
        job = self.jobs[job_id]
        mine = promises.owner_of(job.project, job.accelerator)
        assert dict(self.calendar.owners).get(slot_id, mine) == mine
        slot = self.pool.view.slots.slots[slot_id]
        until_s = dict(self.calendar.until_s).get(slot_id)
        if until_s is not None:
            accelerator = self.pool.view.accelerators[job.accelerator]
            least_s = job.claimed_bytes / accelerator.peak_bytes_per_s
            assert accelerator.stateless or self.now + least_s <= until_s
            return
        owner = self.reserved.get(slot_id)
        assert owner in (None, job.instance_id)
        if owner is None and slot.kept:
            assert self.is_stateless(job_id)

    def is_stateless(self, job_id: int) -> bool:
        return self.pool.view.is_stateless(self.jobs[job_id].accelerator)

    def compare_books(self) -> None:
        """Jobs leave without an instruction only if they are asked to."""
        waiting = [job.id for job in self.pool.waiting()]
        sessions = {job_id for job_id in waiting if job_id >= 0}
        gone = self.waiting - sessions
        assert sessions <= self.waiting
        assert gone <= self.told_to_leave(events.JobCancelled)
        self.waiting -= gone
        held = {
            one.holder.id: slot_id
            for slot_id, one in self.pool.assignments().items()
            if one.holder.kind is model.HolderKind.SESSION
        }
        released = {j for j in self.held if j not in held}
        assert held.items() <= self.held.items()
        self.held = held
        # Those were released, or their host was lost after a cancellation.
        assert not released & set(waiting)
        for position, job_id in enumerate(waiting):
            assert self.pool.queue_position(job_id) == position
            status = self.pool.status(job_id)
            assert status.verdict is model.Verdict.NOT_NOW
            assert status.reasons
        for job_id in held:
            assert self.pool.status(job_id).verdict is model.Verdict.OK

    def told_to_leave(self, kind: type[events.JobCancelled]) -> set[int]:
        return {e.job_id for e in self.history[-1][0] if isinstance(e, kind)}

    def check_nothing_missed(self) -> None:
        """Another pass at once would find nothing, and no wake-up lacks."""
        rules = self.strategy.rules
        jobs = self.pool.waiting()
        # The strategy draws nothing for these passes.
        generator = rules.generator
        rules.reseed(0)
        # With these each pass makes jobs less choosy.
        counts = (rules.skip_limit, rules.affinity_misses)
        if counts == (None, None) and self.wakeups:
            again = literal.snapshot(rules, self.pool.view, self.now)
            again.run()
            assert not again.choices
        limits_s = [
            job.arrival_s + job.wait_timeout_s
            for job in jobs
            if job.wait_timeout_s is not None
        ]
        if self.wakeups:
            now = literal.snapshot(rules, self.pool.view, self.now)
            limits_s += filter(math.isfinite, now.ends_of_patience())
            now.run()
            limits_s += filter(math.isfinite, now.dues_s)
        rules.generator = generator
        if limits_s:
            assert self.wake_s is not None
            assert self.now < self.wake_s <= min(limits_s) + 1e-9

    def teardown(self) -> None:
        """The same events give the same instructions again.

        With other indexes, and although nobody asks for positions.
        """
        if not hasattr(self, "pool"):
            return
        with self.patches:
            self.set_few(FEW[FEW.index(self.few) - 1])
            again = self.new_pool(checked.CheckedStrategy(*self.settings))
            for batch, now, output in self.history:
                assert again.step(batch, now) == output
            waiting = self.pool.waiting()
            assert again.waiting() == waiting
            for position, job in enumerate(waiting):
                assert again.queue_position(job.id) == position


def _is_of_group(order: instructions.Instruction) -> bool:
    """Whether an order, other than to program, is about a group's slot."""
    if isinstance(order, instructions.Grant | instructions.Requeue):
        return order.job_id < 0
    return isinstance(order, instructions.Revoke) and order.job_id < 0


class FifoMachine(PoolMachine):
    strategy_name = "fifo"


class SjfMachine(PoolMachine):
    strategy_name = "sjf"


class WaMachine(PoolMachine):
    strategy_name = "wa"


class RaMachine(PoolMachine):
    strategy_name = "ra"


class WraMachine(PoolMachine):
    strategy_name = "wra"


class AffinityMachine(PoolMachine):
    strategy_name = "affinity"


TestFifo = FifoMachine.TestCase
TestSjf = SjfMachine.TestCase
TestWa = WaMachine.TestCase
TestRa = RaMachine.TestCase
TestWra = WraMachine.TestCase
TestAffinity = AffinityMachine.TestCase

SETTINGS = hypothesis.settings(fuzzing.limits(100), stateful_step_count=25)
TestFifo.settings = SETTINGS
TestSjf.settings = SETTINGS
TestWa.settings = SETTINGS
TestRa.settings = SETTINGS
TestWra.settings = SETTINGS
TestAffinity.settings = SETTINGS
