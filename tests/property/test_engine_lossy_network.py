#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Whatever the network does, conductor and agents agree in the end.

Messages to agents are lost, doubled and reordered; agents, workers and the
conductor restart; hosts fall silent. After every step the conductor's core,
its sessions and its rows agree with each other; when the network is well
again, nothing is left in limbo and no slot is leaked.
"""

import hypothesis
from hypothesis import stateful
from hypothesis import strategies as st

from fpgapool.conductor import inputs
from fpgapool.core import codes
from fpgapool.objects import states
from tests.unit.conductor import world

HOSTS = "abc"
SLOTS = 2


class LossyWorld(stateful.RuleBasedStateMachine):
    """Random clients, agents and faults around one conductor."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = world.World(
            [world.FakeAgent(name, SLOTS) for name in HOSTS[:2]]
            + [world.FakeAgent(HOSTS[2], 0, board=False)],
            # Boards never wear out here: each end is a new beginning.
            fault_limit=10_000,
            report_timeout_s=15.0,
            prepare_timeout_s=60.0,
        )
        self.requests: list[str] = []
        self.held_back: list[object] = []

    hosts = st.sampled_from(HOSTS)
    boards = st.sampled_from(HOSTS[:2])
    slots = st.integers(0, SLOTS - 1)

    @stateful.rule(host=hosts)
    def open(self, host: str) -> None:
        self.requests.append(self.pool.open(host))

    @stateful.rule()
    def the_database_is_away(self) -> None:
        self.pool.database_away = True

    @stateful.rule()
    def what_was_not_recorded_is_taken_back(self) -> None:
        self.pool.tell_unrecorded()

    @stateful.precondition(lambda self: self.requests)
    @stateful.rule(data=st.data())
    def open_again(self, data: st.DataObject) -> None:
        request_id = data.draw(st.sampled_from(self.requests))
        before = len(self.pool.rows["sessions"])
        view = self.pool.view_or_none(request_id)
        if view is not None:
            self.pool.open(view.host_uuid, request_id=request_id)
        assert len(self.pool.rows["sessions"]) == before

    @stateful.precondition(lambda self: self.requests)
    @stateful.rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.pool.cancel(data.draw(st.sampled_from(self.requests)))

    @stateful.precondition(lambda self: self.requests)
    @stateful.rule(data=st.data(), host=hosts)
    def reopen(self, data: st.DataObject, host: str) -> None:
        request_id = data.draw(st.sampled_from(self.requests))
        view = self.pool.view_or_none(request_id)
        if view is not None:
            self.pool.feed(
                inputs.Reopen("p", view.session_id, view.generation, host)
            )

    @stateful.rule(host=boards, number=slots)
    def lie(self, host: str, number: int) -> None:
        self.pool.agents[host].slots[number].input_bytes = 10_000

    @stateful.precondition(lambda self: self.pool.wire)
    @stateful.rule(
        index=st.integers(0, 20),
        fate=st.sampled_from(["deliver", "deliver", "drop", "double"]),
    )
    def carry(self, index: int, fate: str) -> None:
        wire = self.pool.wire
        message = wire.pop(index % len(wire))
        if fate != "drop":
            self.pool.deliver(message)
        if fate == "double":
            self.pool.deliver(message)

    @stateful.rule(host=boards, number=slots, lost=st.booleans())
    def prepare(self, host: str, number: int, lost: bool) -> None:
        answer = self.pool.agents[host].prepared(number)
        if answer is not None and not lost:
            self.pool.feed(answer)

    @stateful.rule(host=boards, number=slots)
    def connect(self, host: str, number: int) -> None:
        slot = self.pool.agents[host].slots[number]
        if slot.state in (states.SLOT_READY, states.SLOT_DETACHED):
            slot.state = states.SLOT_ACTIVE

    @stateful.rule(host=boards, number=slots)
    def disconnect(self, host: str, number: int) -> None:
        slot = self.pool.agents[host].slots[number]
        if slot.state == states.SLOT_ACTIVE:
            slot.state = states.SLOT_DETACHED

    @stateful.rule(
        host=boards,
        number=slots,
        outcome=st.sampled_from(
            [
                (states.CLOSED, codes.OK),
                (states.FAILED, codes.WORKER_DIED),
                (states.EXPIRED, codes.CONNECT_TIMEOUT),
            ]
        ),
    )
    def end(self, host: str, number: int, outcome: tuple[str, str]) -> None:
        agent = self.pool.agents[host]
        slot = agent.slots[number]
        if slot.state == states.SLOT_PREPARING:
            outcome = (states.PREPARE_FAILED, codes.PROGRAM_FAILED)
        if slot.generation is not None:
            agent.end(number, *outcome, self.pool.now)

    @stateful.rule(host=hosts, late=st.booleans())
    def report(self, host: str, late: bool) -> None:
        report = self.pool.agents[host].report()
        if late:
            self.held_back.append(report)
        else:
            self.pool.feed(report)

    @stateful.precondition(lambda self: self.held_back)
    @stateful.rule(index=st.integers(0, 20))
    def late_report(self, index: int) -> None:
        held = self.held_back
        self.pool.feed(held.pop(index % len(held)))

    @stateful.rule(passed_s=st.sampled_from([0.1, 3.0, 16.0, 61.0, 700.0]))
    def time_passes(self, passed_s: float) -> None:
        self.pool.tick(passed_s)

    @stateful.rule(host=boards)
    def host_falls_silent(self, host: str) -> None:
        self.pool.now += 16.0
        for uuid, agent in self.pool.agents.items():
            if uuid != host:
                self.pool.feed(agent.report())
        self.pool.tick()

    @stateful.rule(host=boards, workers_too=st.booleans())
    def agent_restarts(self, host: str, workers_too: bool) -> None:
        self.pool.agents[host].restart(workers_too=workers_too)

    @stateful.rule()
    def conductor_restarts(self) -> None:
        self.pool.boot_conductor()
        self.pool.check()

    def teardown(self) -> None:
        """When the network is well again, all becomes clear."""
        pool = self.pool
        self.held_back.clear()
        pool.tell_unrecorded()
        pool.settle()
        busy = {
            (agent.uuid, number): slot.generation
            for agent in pool.agents.values()
            for number, slot in enumerate(agent.slots)
            if slot.generation is not None
        }
        held = {
            (hold.slot.host.uuid, hold.slot.number): hold.generation
            for hold in pool.engine.holds.values()
        }
        assert busy == held
        for hold in pool.engine.holds.values():
            assert not hold.revoked
            assert hold.session.state in states.ASSIGNED
            assert hold.session.state != states.PREPARING
        # A slot is left to itself only by who has failed on it.
        free = set(pool.rows["slots"]) - set(pool.engine.holds)
        for job in pool.state.waiting():
            assert free <= pool.state.view.record(job.id).avoided
        for row in pool.rows["sessions"].values():
            assert (row.finished_at is None) == (row.state in states.LIVE)


LossyWorld.TestCase.settings = hypothesis.settings(
    max_examples=150, stateful_step_count=40, deadline=None
)
TestLossyWorld = LossyWorld.TestCase
