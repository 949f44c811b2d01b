# SPDX-License-Identifier: Apache-2.0

"""How many decisions the compiled core makes, beside the interpreted one."""

from __future__ import annotations

from collections.abc import Iterator

from tests.benchmarks import measure
from tests.benchmarks import sides

TITLE = "Decisions of the compiled scheduler"
UNIT = "decisions/s"
FLOOR = "interpreted"
SERVICES = True

#: 0: it does not matter whose a job is.
_PROJECTS = (0, 10)


def rows(plan: measure.Plan) -> Iterator[measure.Row]:
    """The default strategy in a large pool, and with fair shares.

    Then ``auto``, compiled, beside the default one.
    """
    with sides.start(plan) as (compiled, interpreted):
        for projects in _PROJECTS:
            size, _ = sides.size_of(plan.tiny, projects)
            shares = f", {projects} projects" if projects else ""
            samples, floor_samples = [], []
            for _ in range(plan.repetitions):
                for side, made in (
                    (compiled, samples),
                    (interpreted, floor_samples),
                ):
                    made.append(side.ask("decisions", str(projects)))
            yield measure.Row(
                name=f"wra, compiled: {size}{shares}",
                unit=UNIT,
                samples=samples,
                floor=FLOOR,
                floor_samples=floor_samples,
            )
        yield _auto(compiled, plan)


def _auto(compiled: sides.Side, plan: measure.Plan) -> measure.Row:
    size, _ = sides.size_of(plan.tiny, 0)
    samples, floor_samples = [], []
    for _ in range(plan.repetitions):
        samples.append(compiled.ask("decisions", "0", "auto"))
        floor_samples.append(compiled.ask("decisions", "0"))
    return measure.Row(
        name=f"auto, compiled: {size}",
        unit=UNIT,
        samples=samples,
        floor="wra, compiled",
        floor_samples=floor_samples,
    )
