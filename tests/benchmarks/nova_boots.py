# SPDX-License-Identifier: Apache-2.0

"""How long a real Nova takes to boot, with filter and weigher and without.

Its computes only pretend to run instances: what is left is Nova's own work.
"""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
import time
from collections.abc import Callable
from collections.abc import Iterator

from tests.benchmarks import measure
from tests.benchmarks import servers
from tests.harness import cloud as clouds
from tests.integration.nova import harness
from tests.services import nova as nova_service
from tests.services import process
from tests.services import stack as stacks

TITLE = "Nova: instances boot, on four computes, two of them with boards"
UNIT = "ms/instance"
FLOOR = "Nova's own filters and weighers"
SERVICES = True
#: With services of OpenStack.
OPENSTACK = True

#: What nova.conf says without fpgapool: Nova's defaults.
PLAIN = {
    "filter_scheduler": {
        "available_filters": "nova.scheduler.filters.all_filters",
        "enabled_filters": nova_service.FILTER_SCHEDULER[
            "enabled_filters"
        ].removesuffix(",FpgaAffinityFilter"),
        "weight_classes": "nova.scheduler.weights.all_weighers",
    }
}
SPECS = {"fpgapool:accelerators": "aes"}

# On each of the computes.
_SLOTS = (2, 2, 0, 0)
_BOOTS = 4
_CALLS = 10
_PER_CALL = 10
_MANY_REPETITIONS = 2
# So that all find a place, and those with boards are full.
_VCPUS = nova_service.VCPUS // 30


@dataclasses.dataclass(frozen=True)
class Place:
    """Where instances are booted.

    :param with_plugins: the scheduler as operators configure it.
    :param without: the other one; one of them runs at a time.
    """

    compute: harness.Compute
    image_id: str
    with_plugins: process.Service
    without: process.Service

    def use(self, scheduler: process.Service) -> None:
        """Have this scheduler run, and no other one."""
        for each in (self.with_plugins, self.without):
            if each is not scheduler:
                each.kill()
        scheduler.start()

    def boot(self) -> float:
        """Boot an instance; :returns: in how many milliseconds."""
        flavor = self.compute.create_flavor(SPECS, vcpus=_VCPUS)
        began_s = time.perf_counter()
        server = self.compute.boot(flavor, self.image_id)
        took_s = time.perf_counter() - began_s
        _require_active(server)
        self.compute.clean_up()
        return 1e3 * took_s

    def boot_many(self, calls: int, per_call: int) -> float:
        """Boot instances at once; :returns: milliseconds for each."""
        flavor = self.compute.create_flavor(SPECS, vcpus=_VCPUS)
        began_s = time.perf_counter()
        made = self.compute.boot_at_once(
            flavor, self.image_id, calls, per_call
        )
        took_s = time.perf_counter() - began_s
        for server in made:
            _require_active(server)
        self.compute.clean_up()
        return 1e3 * took_s / len(made)


def _require_active(server: harness.Server) -> None:
    if server.status != "ACTIVE":
        raise RuntimeError(f"{server.id} is {server.status}: {server.fault}")


def rows(plan: measure.Plan) -> Iterator[measure.Row]:
    """Boot one after the other, then many at once."""
    with _place() as place:
        yield from rows_at(place, plan)


def rows_at(place: Place, plan: measure.Plan) -> Iterator[measure.Row]:
    """Measure where everything runs already.

    :param place: where.
    :param plan: how.
    """
    boots = 1 if plan.tiny else _BOOTS
    yield _row(
        place,
        plan,
        "one instance",
        plan.repetitions,
        lambda: statistics.median(place.boot() for _ in range(boots)),
    )
    calls, per_call = (1, 2) if plan.tiny else (_CALLS, _PER_CALL)
    yield _row(
        place,
        plan,
        f"{calls * per_call} instances at once",
        # Each takes minutes.
        min(_MANY_REPETITIONS, plan.repetitions),
        lambda: place.boot_many(calls, per_call),
    )


def _row(
    place: Place,
    plan: measure.Plan,
    name: str,
    repetitions: int,
    boot: Callable[[], float],
) -> measure.Row:
    """Measure with both schedulers in turns."""
    samples: dict[process.Service, list[measure.Sample]] = {
        place.with_plugins: [],
        place.without: [],
    }
    # One of them has just been at work.
    order = sorted(samples, key=lambda scheduler: not scheduler.running)
    for _ in range(repetitions):
        for scheduler in order:
            place.use(scheduler)
            if not plan.tiny:
                # The first one finds nothing in its caches.
                place.boot()
            with measure.stopwatch() as watch:
                value_ms = boot()
            samples[scheduler].append(
                measure.Sample(value_ms, watch.wall_s, watch.cpu_s)
            )
        # Neither is always the first.
        order.reverse()
    return measure.Row(
        name=name,
        unit=UNIT,
        samples=samples[place.with_plugins],
        floor=FLOOR,
        floor_samples=samples[place.without],
    )


@contextlib.contextmanager
def _place() -> Iterator[Place]:
    """Start everything."""
    stack = stacks.Stack(
        servers.workspace(), servers.rabbitmq(), servers.mariadb()
    )
    stack.start(["nova"])
    hosts = [
        clouds.HostPlan(nova_service.compute_name(number), slots=slots)
        for number, slots in enumerate(_SLOTS, start=1)
    ]
    with contextlib.ExitStack() as running:
        cloud = running.enter_context(servers.running_cloud(*hosts))
        api = harness.Api(
            cloud, servers.workspace(), stack.keystone, "boots-api"
        )
        api.start()
        running.callback(api.kill)
        stack.accounts.register_endpoint(f"http://{api.address}")
        connection = harness.connect(
            stack.accounts.admin(), stack.accounts.auth_url
        )
        running.callback(connection.close)
        compute = harness.Compute(connection)
        yield Place(
            compute,
            compute.create_image(),
            stack.nova.scheduler,
            stack.nova.other_scheduler("nova-scheduler-plain", PLAIN),
        )
