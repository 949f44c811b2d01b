# SPDX-License-Identifier: Apache-2.0

"""A group's queues under random resizes, kills, losses and locks."""

from __future__ import annotations

import collections
import random

import hypothesis
import hypothesis.strategies as st
import pytest
from hypothesis import stateful

from fpgapool.agent.groupdesk.decisions import model
from fpgapool.agent.groupdesk.decisions import queues
from tests.property import fuzzing
from tests.unit.groupdesk import driver

SLOTS = 3
NAMES = ("a", "b", "c")
PROJECTS = {"a": "p", "b": "p", "c": "q"}
GRACE_S = 4.0

names = st.sampled_from(NAMES)
slots = st.integers(0, SLOTS - 1)


class Desk(stateful.RuleBasedStateMachine):
    """Slots that are programmed or members, and what clients wait for.

    All rules check: one task at a time on a member, none on a slot that is
    leaving or being programmed, one result for each task, and the order
    within a queue.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.resizes = 0

    @stateful.initialize(arbitration=st.sampled_from(["fifo", "time"]))
    def start(self, arbitration: str) -> None:
        self.queues = queues.Queues(
            SLOTS,
            arbitration=arbitration,
            resume_grace_s=GRACE_S,
            lock_idle_s=20.0,
            max_waiting_tasks=20,
        )
        self.clients: dict[str, model.Client] = {}
        self.members: set[int] = set()
        # Told to leave, and not yet free.
        self.leaving: set[int] = set()
        self.running: dict[int, model.Task] = {}
        self.served: dict[int, str | None] = {}
        self.holds: dict[int, tuple[str, int]] = {}
        self.unanswered: set[tuple[int, str, int]] = set()
        self.incarnation = collections.Counter[str]()
        self.serial = collections.Counter[str]()
        self.locks: dict[str, dict[int, bool]] = {n: {} for n in NAMES}
        # By queue object: the last task that was begun.
        self.begun: dict[int, int] = {}
        self.kept: list[model.Queue] = []
        # Since when clients hold locks, when the last one on a member ended,
        # and what clients have to pay.
        self.since_s: dict[tuple[str, int], float] = {}
        self.unlocked_s: dict[int, float] = {}
        self.owed_s = collections.Counter[str]()
        self.queues.members.join(0)
        self.members.add(0)
        self.served[0] = None

    def _key(self, task: model.Task) -> tuple[int, str, int]:
        return task.payload

    def _decide(self) -> None:
        for decision in self.queues.decide(self.now):
            match decision:
                case model.Start(member, task, clear):
                    self._started(member, task, clear)
                case model.Answer(task, _):
                    self._answered(task)
                case model.Locked(client, lock_id, member, clear):
                    assert member in self.members - self.leaving
                    assert member not in self.running
                    self._used(member, client.client_id, clear)
                    self.holds[member] = (client.client_id, lock_id)
                    self.locks[client.client_id][lock_id] = True
                    self.since_s[client.client_id, lock_id] = self.now
                case model.Unlocked(client, lock_id, _):
                    name = client.client_id
                    since_s = self.since_s.pop((name, lock_id))
                    self.owed_s[name] += self.now - since_s
                    held = [
                        member
                        for member, hold in self.holds.items()
                        if hold == (name, lock_id)
                    ]
                    for member in held:
                        del self.holds[member]
                        self.unlocked_s[member] = self.now
                        self.served[member] = "?"
                    self.locks[name].pop(lock_id, None)
                case model.LockRefused(client, lock_id, _):
                    self.locks[client.client_id].pop(lock_id)
                case model.Left(member):
                    assert member not in self.running
                    assert member not in self.holds
                    self.members.remove(member)
                    self.leaving.discard(member)

    def _used(self, member: int, name: str, clear: bool) -> None:
        served = self.served[member]
        assert clear == (served is not None and served != name)
        self.served[member] = name

    def _started(self, member: int, task: model.Task, clear: bool) -> None:
        assert member in self.members
        assert member not in self.running
        name = task.client.client_id
        hold = self.holds.get(member)
        if hold is None:
            assert member not in self.leaving
            assert not task.lock_id
            self._used(member, name, clear)
        else:
            assert hold == (name, task.lock_id)
            assert not clear
        self.running[member] = task
        assert self._key(task) in self.unanswered
        if not task.lock_id:
            last = self.begun.get(id(task.queue), 0)
            # A task whose member died runs again before the next.
            assert task.task_id > last - bool(task.losses)
            self.begun[id(task.queue)] = task.task_id
            self.kept.append(task.queue)

    def _answered(self, task: model.Task) -> None:
        # Of a client that was revoked all is forgotten, its answers too.
        key = self._key(task)
        assert key in self.unanswered
        self.unanswered.remove(key)

    def _forget_tasks(self, name: str) -> None:
        self.unanswered = {k for k in self.unanswered if k[1] != name}
        self.incarnation[name] += 1

    @stateful.rule(name=names)
    def attach(self, name: str) -> None:
        if name not in self.clients:
            self.clients[name] = self.queues.attach(
                name, project_id=PROJECTS[name]
            )

    @stateful.rule(
        name=names,
        count=st.integers(1, 8),
        locked=st.booleans(),
        together=st.booleans(),
    )
    def submit(
        self, name: str, count: int, locked: bool, together: bool
    ) -> None:
        client = self.clients.get(name)
        if client is None:
            return
        held = [one for one, granted in self.locks[name].items() if granted]
        for _ in range(count):
            self.serial[name] += 1
            key = (self.incarnation[name], name, self.serial[name])
            self.unanswered.add(key)
            lock_id = held[0] if locked and held else 0
            self.queues.submit(
                client, key[2], key, 10, 9, self.now, lock_id=lock_id
            )
            if not together:
                self._decide()
        self._decide()

    @stateful.rule(name=names)
    def lock(self, name: str) -> None:
        client = self.clients.get(name)
        if client is None:
            return
        self.serial[name] += 1
        self.locks[name][self.serial[name]] = False
        self.queues.locks.lock(client, self.serial[name], self.now)
        self._decide()
        assert len(self.holds) <= SLOTS

    @stateful.rule(name=names)
    def unlock(self, name: str) -> None:
        client = self.clients.get(name)
        if client is None or not self.locks[name]:
            return
        lock_id, granted = next(iter(self.locks[name].items()))
        if not granted:
            del self.locks[name][lock_id]
        self.queues.locks.unlock(client, lock_id, self.now)
        self._decide()

    @stateful.rule(passed_s=st.floats(0.0, 8.0), number=slots)
    def end(self, passed_s: float, number: int) -> None:
        """Let a task end."""
        self.now += passed_s
        self.queues.expire(self.now)
        self._decide()
        if not self.running:
            return
        member = sorted(self.running)[number % len(self.running)]
        task = self.running.pop(member)
        done = self.queues.ended(member, 0.5, self.now, output_bytes=7)
        if member not in self.holds:
            # It may have begun under a lock, whose time is paid for.
            since_s = (
                self.unlocked_s.get(member, -1.0) if done is None else -1.0
            )
            name = task.client.client_id
            self.owed_s[name] += min(0.5, self.now - since_s)
        if self._key(task) in self.unanswered:
            assert done is task
            self._answered(task)
        else:
            assert done is None
        self._decide()

    @stateful.rule(number=slots)
    def resize(self, number: int) -> None:
        """A slot leaves, or one that was programmed joins."""
        self.resizes += 1
        if number in self.members:
            self.leaving.add(number)
            self.queues.members.leave(number)
        else:
            self.members.add(number)
            self.served[number] = None
            self.queues.members.join(number)
        self._decide()

    @stateful.rule(number=slots)
    def kill(self, number: int) -> None:
        """A worker dies, with what it does."""
        self.members.discard(number)
        self.leaving.discard(number)
        self.running.pop(number, None)
        self.holds.pop(number, None)
        self.queues.lost(number, self.now)
        self._decide()

    @stateful.rule(name=names)
    def lose(self, name: str) -> None:
        """A client's connection breaks."""
        client = self.clients.pop(name, None)
        if client is not None:
            self._forget_tasks(name)
            self.locks[name] = {
                one: True for one, held in self.locks[name].items() if held
            }
            self.queues.detach(client, self.now)
            self._decide()

    @stateful.rule(name=names)
    def revoke(self, name: str) -> None:
        before = len(self.queues.clients)
        self.clients.pop(name, None)
        known = name in self.queues.clients
        self.queues.revoke(name, self.now)
        self._decide()
        self._forget_tasks(name)
        self.locks[name].clear()
        assert len(self.queues.clients) == before - known

    @stateful.rule(paused=st.booleans(), name=names)
    def pause(self, paused: bool, name: str) -> None:
        client = self.clients.get(name)
        if client is not None:
            act = self.queues.pause if paused else self.queues.resume
            act(client)
            self._decide()

    @stateful.invariant()
    def counted(self) -> None:
        for name, client in self.clients.items():
            counts = client.counts
            mine = [one for one in self.unanswered if one[1] == name]
            assert counts.waiting + counts.running == len(mine)
            assert all(length >= 0 for length in client.lengths)
        waits = any(
            client.counts.waiting and not client.paused
            for client in self.clients.values()
        )
        free = (
            self.members - set(self.running) - set(self.holds) - self.leaving
        )
        if waits and free:
            # All heads that could ask are running, or wait for a lock.
            for client in self.clients.values():
                if client.paused:
                    continue
                for queue in client.queues:
                    if queue.waiting and not queue.busy:
                        assert isinstance(queue.waiting[0], model.Lock)

    def teardown(self) -> None:
        """When nothing more happens, all is served."""
        if not hasattr(self, "queues"):
            return
        for client in self.clients.values():
            self.queues.resume(client)
            for lock_id in [*self.locks[client.client_id]]:
                self.queues.locks.unlock(client, lock_id, self.now)
        self._decide()
        self.now += GRACE_S
        self.queues.expire(self.now)
        self._decide()
        for _ in range(1000):
            for number in range(SLOTS):
                if number not in self.members:
                    self.members.add(number)
                    self.served[number] = None
                    self.queues.members.join(number)
            self._decide()
            if not self.running:
                break
            self.end(0.1, 0)
        assert not self.unanswered
        assert not self.holds
        counts = self.queues.take_counts(self.now)
        assert sum(one.waiting + one.running for one in counts.values()) == 0
        for name in NAMES:
            paid_s = counts[name].busy_s if name in counts else 0.0
            assert paid_s == pytest.approx(self.owed_s[name])
        for one in counts.values():
            assert one.input_bytes == 9 * one.ended
            assert one.output_bytes == 7 * one.ended


TestDesk = Desk.TestCase
TestDesk.settings = hypothesis.settings(
    fuzzing.limits(300), stateful_step_count=80, deadline=None
)


@pytest.mark.parametrize("seed", range(4))
def test_a_thousand_resizes_lose_no_result(seed: int) -> None:
    """Nor is one doubled, under load, with kills and lost clients."""
    chance = random.Random(seed)
    desk = Desk()
    desk.start("fifo")
    for name in NAMES:
        desk.attach(name)
    for step in range(1000):
        desk.resize(chance.randrange(SLOTS))
        desk.submit(chance.choice(NAMES), chance.randint(1, 3), False, True)
        for _ in range(chance.randrange(4)):
            desk.end(0.1, chance.randrange(SLOTS))
        if step % 97 == 0:
            desk.kill(chance.randrange(SLOTS))
        if step % 83 == 0:
            name = chance.choice(NAMES)
            desk.lose(name)
            desk.attach(name)
        desk.counted()
    assert desk.resizes == 1000
    desk.teardown()


@fuzzing.examples(40)
@hypothesis.given(
    arbitration=st.sampled_from(["fifo", "time"]),
    clients=st.lists(st.integers(1, 12), min_size=2, max_size=5),
    members=st.integers(1, 4),
    seed=st.integers(0, 2**32),
)
def test_each_project_has_its_share_whatever_its_clients(
    arbitration: str, clients: list[int], members: int, seed: int
) -> None:
    """Tasks with ``fifo``, time with ``time``, among those that have work.

    One project comes later; each client of one has the same.
    """
    chance = random.Random(seed)
    desk = driver.Driver(members, members, arbitration=arbitration)
    project_of = {
        f"{number}-{project}": project
        for project, count in enumerate(clients)
        for number in range(count)
    }
    for begin_s in (0.0, 7.0):
        desk.run(until_s=begin_s)
        for name, project in project_of.items():
            if (project == 0) == (begin_s > 0):
                client = desk.client(name, project_id=str(project))
                times_s = [chance.uniform(0.2, 1.0) for _ in range(150)]
                desk.submit(client, *times_s)
    before = len(desk.runs)
    desk.run(until_s=20.0)
    spent = collections.Counter[str]()
    for run in desk.runs[before:]:
        spent[run.client_id] += 1 if arbitration == "fifo" else run.task_s
    had = [
        [spent[one] for one in project_of if project_of[one] == project]
        for project in range(len(clients))
    ]
    of_projects = [sum(one) for one in had]
    assert max(of_projects) - min(of_projects) <= 2 * members
    assert all(max(one) - min(one) <= 2 * members for one in had)
