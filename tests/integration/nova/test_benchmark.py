# SPDX-License-Identifier: Apache-2.0

"""The benchmark of a real Nova runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.benchmarks import measure
from tests.benchmarks import nova_boots
from tests.integration.nova import harness
from tests.services import nova as nova_service

# In the gate: tests/unit/benchmarks.
pytestmark = pytest.mark.long


@pytest.fixture
def place(
    nova: nova_service.Nova, compute: harness.Compute, image_id: str
) -> Iterator[nova_boots.Place]:
    """Give the run's own Nova; its scheduler runs again afterwards."""
    place = nova_boots.Place(
        compute,
        image_id,
        nova.scheduler,
        nova.other_scheduler("nova-scheduler-plain", nova_boots.PLAIN),
    )
    yield place
    place.use(nova.scheduler)


def test_a_tiny_run(nova: nova_service.Nova, place: nova_boots.Place) -> None:
    plan = measure.Plan(repetitions=1, tiny=True)
    one, many = nova_boots.rows_at(place, plan)
    for row in (one, many):
        assert min(row.values + row.ratios) > 0
    # They differ in what they are to differ in.
    nobody_has = {
        "fpgapool:accelerators": "nothing",
        "fpgapool:affinity": "required",
    }
    flavor = place.compute.create_flavor(nobody_has)
    for scheduler, status in (
        (place.with_plugins, "ERROR"),
        (place.without, "ACTIVE"),
    ):
        place.use(scheduler)
        server = place.compute.boot(flavor, place.image_id)
        assert server.status == status
