# SPDX-License-Identifier: Apache-2.0

"""Simulations of the paper on FPGA groups, as the figures use them.

Three groups share eight slots. Group A has short tasks in large batches, B
longer ones, and C long tasks in small batches. The paper does not print when
they arrive, so there are two loads. In P, the groups' shares of the work are
as printed. Q fits what the paper measured with static sizes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from collections.abc import Sequence

from fpgapool.sim import elastic
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import group_results

#: Three of them differ from other three by a tenth.
SEEDS = tuple(range(1, 13))
SLOTS = 8
#: Slots of each group at first, and if sizes are static.
SPLIT = (2, 4, 2)
NAMES = ("A", "B", "C")
PERIOD_S = 10.0
LENGTH_S = 300.0
#: What programming a slot takes.
PROGRAMMING_S = 3.78
#: The path of a batch, and what a group adds to it; no slot is busy then.
PATH_S = 0.45e-3
GROUP_S = 0.09e-3
#: Work in slot-seconds of a client that has not ended; more is refused.
WINDOW_S = 44.0

#: By group: seconds per task, tasks per batch.
TASKS = ((0.33e-3, 300), (1e-3, 300), (0.1, 3))

_Load = tuple[tuple[float, float], ...]
#: By name and group: seconds, and the slots that arriving tasks need then.
LOADS: Mapping[str, tuple[_Load, _Load, _Load]] = {
    "P": (
        (
            (60.0, 0.157),
            (40.0, 3.9),
            (50.0, 0.157),
            (50.0, 3.9),
            (100.0, 0.157),
        ),
        ((60.0, 3.0), (40.0, 1.2), (50.0, 2.8), (50.0, 3.9), (100.0, 2.05)),
        ((300.0, 1.28),),
    ),
    "Q": (
        ((20.0, 0.5), (90.0, 3.9), (40.0, 0.5), (100.0, 3.9), (50.0, 0.5)),
        ((20.0, 2.2), (90.0, 1.1), (100.0, 2.6), (90.0, 0.9)),
        ((300.0, 0.82),),
    ),
}


@dataclasses.dataclass(frozen=True)
class GroupRun:
    """Three groups with a load under an elasticity policy.

    :ivar load: one of :data:`LOADS`.
    :ivar policy: its name.
    :ivar scale: multiplies the load.
    :ivar split: slots of each group at first.
    """

    load: str
    policy: str
    seed: int
    scale: float = 1.0
    period_s: float = PERIOD_S
    estimate: str = "nnls"
    split: tuple[int, int, int] = SPLIT

    def measure(self) -> group_results.GroupsResult:
        """Simulate."""
        return self.record(None)[0]

    def record(
        self, step_s: float | None
    ) -> tuple[group_results.GroupsResult, group_results.Course]:
        """Simulate, and record the course."""
        return elastic.run(
            make_scenario(
                self._groups(),
                scenarios.Elasticity(
                    self.policy,
                    self.period_s,
                    self.estimate,  # type: ignore[arg-type]
                ),
                programming_s=PROGRAMMING_S,
            ),
            POLICY,
            seed=self.seed,
            step_s=step_s,
            # Also 5 s, which the pool refuses.
            any_period=True,
        )

    def _groups(self) -> list[scenarios.Group]:
        return [
            scenarios.Group(
                name=name,
                slots=slots,
                clients=(
                    scenarios.GroupClient(
                        name="client",
                        task_s=task_s,
                        batch_tasks=batch_tasks,
                        window_s=WINDOW_S,
                        load=tuple(
                            (length_s, self.scale * each)
                            for length_s, each in load
                        ),
                    ),
                ),
            )
            for name, slots, (task_s, batch_tasks), load in zip(
                NAMES, self.split, TASKS, LOADS[self.load], strict=True
            )
        ]


#: Name of the policy in the scenarios.
POLICY = "policy"


def make_scenario(
    groups: Sequence[scenarios.Group],
    policy: scenarios.Elasticity,
    *,
    programming_s: float = 0.0,
    tasks_per_s: float | None = None,
) -> scenarios.Scenario:
    """Make a scenario of eight slots for groups, under one policy."""
    return scenarios.Scenario(
        format=scenarios.FORMAT,
        cluster=scenarios.Cluster(
            hosts=1,
            fpga_hosts=(0,),
            accelerators={},
            slots_per_device=SLOTS,
            reconfiguration_s=programming_s,
            tasks_per_s=tasks_per_s,
        ),
        strategies={POLICY: scenarios.StrategyOptions(elasticity=policy)},
        jobs=[],
        groups=tuple(groups),
    )
