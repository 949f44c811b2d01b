# SPDX-License-Identifier: Apache-2.0

"""How long a simulation takes, beside a program that knows no other one."""

from __future__ import annotations

from collections.abc import Iterator

from tests.benchmarks import measure
from tests.benchmarks import sides

TITLE = "Simulating the paper's cluster, beside one compiled loop"
UNIT = "s"
FLOOR = "plain_simulation.py"
SERVICES = True


def rows(plan: measure.Plan) -> Iterator[measure.Row]:
    """The default strategy, with the core compiled and interpreted."""
    size = sides.cluster_of(plan.tiny)
    with sides.start(plan) as made:
        found = [([], []) for _ in made]
        for _ in range(plan.repetitions):
            for side, (samples, floor_samples) in zip(
                made, found, strict=True
            ):
                samples.append(side.ask("simulation"))
                floor_samples.append(side.ask("plain"))
    for name, (samples, floor_samples) in zip(
        ("compiled", "interpreted"), found, strict=True
    ):
        yield measure.Row(
            name=f"wra, {name}: {size}, beside a loop",
            unit=UNIT,
            samples=samples,
            floor=FLOOR,
            floor_samples=floor_samples,
        )
