# SPDX-License-Identifier: Apache-2.0

"""Simulations of the paper on goals (quality of service), for its figures.

Its text speaks of six FPGAs, and its sizes add up to eight: there are eight
here. A slot ends 16.6 tasks/s, and all slots together 96, because they share a
link: that fits the paper's times within 5 %.
"""

from __future__ import annotations

import dataclasses

from fpgapool.sim import elastic
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import group_results
from reproduction.figures import group_loads

SLOT_PER_S = 16.6
LINK_PER_S = 96.0
ACTIONS = 3000
STEP_S = 1.0


@dataclasses.dataclass(frozen=True)
class Job:
    """A group with a goal and one batch, or without a goal.

    :ivar begin_s: when it is submitted.
    :ivar end_s: when it ends; None: after its actions.
    """

    name: str
    slots: int = 1
    actions: int = ACTIONS
    deadline_s: float | None = None
    rate_per_s: float | None = None
    begin_s: float = 0.0
    end_s: float | None = None
    min_size: int = 1

    def make_group(self) -> scenarios.Group:
        """Return it as a scenario has it."""
        goal = None
        if self.deadline_s is not None or self.rate_per_s is not None:
            goal = scenarios.Goal(
                deadline_s=self.deadline_s,
                rate_per_s=self.rate_per_s,
                actions=None if self.end_s is not None else self.actions,
            )
        return scenarios.Group(
            name=self.name,
            slots=self.slots,
            min_size=self.min_size,
            goal=goal,
            end_s=self.end_s,
            clients=(
                scenarios.GroupClient(
                    name="client",
                    task_s=1 / SLOT_PER_S,
                    batch_tasks=self.actions,
                    arrivals_s=(self.begin_s,),
                ),
            ),
        )


@dataclasses.dataclass(frozen=True)
class GoalRun:
    """Jobs under a policy.

    :ivar admission: of the policy ``hybrid``, whether it refuses goals.
    :ivar stay: programming times that slots which changed stay; None: the
        policy's.
    """

    jobs: tuple[Job, ...]
    policy: str
    admission: bool | None = None
    stay: float | None = None
    programming_s: float = 0.0

    def measure(
        self,
    ) -> tuple[group_results.GroupsResult, group_results.Course]:
        """Simulate, and record the course."""
        own: dict[str, bool | int | float | str] = {}
        if self.admission is not None:
            own["admission"] = self.admission
        if self.stay is not None:
            own["stay_programmings"] = self.stay
        scenario = group_loads.make_scenario(
            [job.make_group() for job in self.jobs],
            scenarios.Elasticity(self.policy, own=own),
            programming_s=self.programming_s,
            tasks_per_s=LINK_PER_S,
        )
        return elastic.run(scenario, group_loads.POLICY, step_s=STEP_S)


def ends_s(result: group_results.GroupsResult) -> list[float]:
    """Return when each job's last task ended, counted from its arrival."""
    found = []
    for group in result.groups:
        assert group.latency.worst_s is not None
        found.append(group.latency.worst_s)
    return found
