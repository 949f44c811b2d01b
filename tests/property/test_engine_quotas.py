# SPDX-License-Identifier: Apache-2.0

"""Limits hold after every event, while they are changed.

A project never gets a slot, nor a place in the queue, beyond the limits that
hold when it gets it; what it has is not taken away by a lower limit.
"""

import hypothesis
from hypothesis import stateful
from hypothesis import strategies as st

from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions.requests import admission
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.property import fuzzing
from tests.unit.conductor import world

PROJECTS = ("p", "q")
SLOTS = 3
SIZE_BYTES = 1000

limits = st.one_of(st.none(), st.just(-1), st.integers(0, 4))


class Limited(stateful.RuleBasedStateMachine):
    """Two projects, a board, and an administrator who changes his mind."""

    def __init__(self) -> None:
        super().__init__()
        self.default = admission.ProjectQuota(
            sessions=1, queued=2, queued_bytes=2 * SIZE_BYTES
        )
        self.pool = world.Conductor(
            [world.FakeAgent("a", SLOTS)], default_quota=self.default
        )
        self.own: dict[str, dict[str, int]] = {name: {} for name in PROJECTS}
        self.used = self._use()

    projects = st.sampled_from(PROJECTS)

    def _use(self) -> dict[str, dict[str, int]]:
        return {name: self.pool.in_use(name) for name in PROJECTS}

    def _limit(self, project: str, resource: str) -> float:
        limit = self.own[project].get(resource, self.default.limit(resource))
        return float("inf") if limit < 0 else limit

    @stateful.rule(
        project=projects,
        resource=st.sampled_from(["sessions", "queued"]),
        limit=limits,
    )
    def set_limit(
        self, project: str, resource: str, limit: int | None
    ) -> None:
        if limit is None:
            self.own[project].pop(resource, None)
        else:
            self.own[project][resource] = limit
        self.pool.feed(inputs.SetQuota(project, {resource: limit}))

    @stateful.rule(project=projects)
    def set_bytes(self, project: str) -> None:
        self.own[project]["queued_bytes"] = 3 * SIZE_BYTES
        self.pool.feed(
            inputs.SetQuota(project, {"queued_bytes": 3 * SIZE_BYTES})
        )

    @stateful.rule(project=projects, count=st.integers(1, 3))
    def open_at_once(self, project: str, count: int) -> None:
        """They come together, and are decided one after the other."""
        before = self.pool.in_use(project)
        batch = []
        for _ in range(count):
            self.pool.requests += 1
            batch.append(
                world.opening(
                    world.request(
                        request_id=f"r{self.pool.requests}",
                        project_id=project,
                        claimed_bytes=SIZE_BYTES,
                    )
                )
            )
        self.pool.feed(*batch)
        admitted = sum(
            self.pool.view_or_none(one.request.request_id, project) is not None
            for one in batch
        )
        room = min(
            self._limit(project, "queued") - before["queued"],
            self._limit(project, "queued_bytes") // SIZE_BYTES
            - before["queued"],
        )
        assert admitted == min(count, max(room, 0))

    @stateful.rule(number=st.integers(0, SLOTS - 1))
    def end(self, number: int) -> None:
        self.pool.deliver_all()
        agent = self.pool.agents["a"]
        if agent.slots[number].session_id is not None:
            agent.end(number, states.CLOSED, codes.OK, self.pool.now)
        self.pool.feed(agent.report())

    @stateful.rule()
    def restart(self) -> None:
        self.pool.deliver_all()
        self.pool.boot_conductor()
        self.pool.feed(self.pool.agents["a"].report())

    @stateful.invariant()
    def nobody_gets_more(self) -> None:
        before, self.used = self.used, self._use()
        for project, used in self.used.items():
            for resource in ("sessions", "queued", "queued_bytes"):
                assert used[resource] <= max(
                    before[project][resource], self._limit(project, resource)
                ), (project, resource)

    @stateful.invariant()
    def limits_are_as_they_were_set(self) -> None:
        for project in PROJECTS:
            quota = self.pool.memory.quotas.of(project)
            for resource in admission.RESOURCES:
                own = self.own[project].get(resource)
                is_own = quota.source(resource) == admission.FROM_PROJECT
                assert is_own == (own is not None)
                assert quota.limit(resource) == (
                    self.default.limit(resource) if own is None else own
                )

    @stateful.invariant()
    def no_slot_is_idle_without_a_reason(self) -> None:
        idle = SLOTS - len(self.pool.memory.holds)
        if not idle:
            return
        for project, used in self._use().items():
            if used["queued"]:
                assert used["sessions"] >= self._limit(project, "sessions")


TestLimited = Limited.TestCase
TestLimited.settings = hypothesis.settings(
    fuzzing.limits(100), stateful_step_count=30, deadline=None
)
