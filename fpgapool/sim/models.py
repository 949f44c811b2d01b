# SPDX-License-Identifier: Apache-2.0

"""Models of clusters whose jobs need more than slots and links.

A member of the cluster selects the model. The package installs none: papers
need them, and ``reproduction.models`` in the sources adds them to
:data:`MODELS`. The scenario format has their members, so that a file means the
same in both.
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

    :ivar check: raises errors.InputError if a scenario, which comes from a
        source, cannot be simulated.
    :ivar check_strategy: the same for a strategy: scenario, name, seed,
        source.
    :ivar run: simulates: the same, and a function to call for each job that
        has ended.
    :ivar measure: what is measured besides: scenario, outcomes, makespan_s.
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


#: By the member of the cluster that selects it.
MODELS: dict[str, Model] = {}


def of(cluster: scenarios.Cluster, source: str = "scenario") -> Model | None:
    """Return the model of a cluster; None: its jobs need slots and links.

    :raises errors.InputError: if the model is not there.
    """
    member = member_of(cluster)
    if member is None:
        return None
    if member not in MODELS:
        raise errors.InputError(
            source,
            f"cluster.{member}",
            "this model is not installed; use python -m reproduction "
            "run in fpgapool's sources",
        )
    return MODELS[member]


def member_of(cluster: scenarios.Cluster) -> str | None:
    """Return the member that selects a model of this cluster."""
    for member in ("heartbeat_s", "cores_per_host"):
        if getattr(cluster, member) is not None:
            return member
    return None
