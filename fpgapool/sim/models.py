# SPDX-License-Identifier: Apache-2.0

"""Models of clusters whose jobs need more than slots and links.

A member of the cluster selects the model. This package has no models: only
reproductions of papers need them, and ``reproduction.models`` in the source
tree adds them to :data:`MODELS`. The scenario format has their members anyway,
so that a file always means the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from collections.abc import Sequence

from fpgapool.sim import errors
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.outcomes import metrics
from fpgapool.sim.outcomes import schedules


@dataclasses.dataclass(frozen=True)
class Model:
    """How jobs run on such a cluster.

    :ivar check: called with a scenario and its source; raises
        errors.InputError if it cannot be simulated.
    :ivar check_strategy: the same for a strategy; called with scenario, name,
        seed and source.
    :ivar run: simulates a strategy; takes the arguments of ``check_strategy``,
        and a function to call for each job that has ended.
    :ivar measure: returns further measurements; called with scenario, outcomes
        and makespan_s.
    """

    name: str
    check: Callable[[scenarios.Scenario, str], None]
    check_strategy: Callable[[scenarios.Scenario, str, int, str], None]
    run: Callable[
        [scenarios.Scenario, str, int, str, Callable[[], None] | None],
        list[schedules.JobOutcome],
    ]
    measure: Callable[
        [scenarios.Scenario, Sequence[schedules.JobOutcome], float],
        metrics.Packing | None,
    ] = lambda *_: None


#: Models, keyed by the field of ``scenarios.Cluster`` that selects them.
MODELS: dict[str, Model] = {}


def of(cluster: scenarios.Cluster, source: str = "scenario") -> Model | None:
    """Return the model of a cluster; None: jobs need only slots and links.

    :raises errors.InputError: if the model is not installed.
    """
    member = member_of(cluster)
    if member is None:
        return None
    if member not in MODELS:
        raise errors.InputError(
            source,
            f"cluster.{member}",
            "this model is not installed; run 'python -m reproduction "
            "run' in fpgapool's source tree",
        )
    return MODELS[member]


def member_of(cluster: scenarios.Cluster) -> str | None:
    """Return the member that selects a model of this cluster."""
    for member in ("heartbeat_s", "cores_per_host"):
        if getattr(cluster, member) is not None:
            return member
    return None
