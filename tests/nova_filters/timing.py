# SPDX-License-Identifier: Apache-2.0

"""Times requests to the scheduler; a program of its own, beside Nova.

Run by the interpreter that has Nova: ``HOSTS REQUESTS REPETITIONS``. Prints
JSON: for each kind of flavor, pairs of seconds of a processor and of the clock
for all its requests, ours and Nova's, for each repetition.
"""

from __future__ import annotations

import json
import sys
import time
import typing
from collections.abc import Callable

from nova import config
from nova import objects
from nova.scheduler import filters as nova_filters
from nova.scheduler import host_manager
from oslo_utils import timeutils

from fpgapool_nova_filters import filters
from fpgapool_nova_filters import snapshot
from fpgapool_nova_filters import weights

FLAVORS = {
    "required": {
        "fpgapool:accelerators": "aes,fft",
        "fpgapool:affinity": "required",
    },
    "preferred": {"fpgapool:accelerators": "aes,fft"},
    "none": {},
}
# Those that Nova has by default.
_DEFAULT_FILTERS = (
    "compute_filter.ComputeFilter",
    "compute_capabilities_filter.ComputeCapabilitiesFilter",
    "image_props_filter.ImagePropertiesFilter",
    "affinity_filter.ServerGroupAntiAffinityFilter",
    "affinity_filter.ServerGroupAffinityFilter",
)
_ACCELERATORS = ("aes", "fft", "sha", "ec", "dtw", "copy")
# One host in so many has boards, four slots each.
_HOSTS_PER_BOARD = 4


def _document(uuids: list[str]) -> dict[str, typing.Any]:
    hosts = {}
    for number, uuid in enumerate(uuids):
        count = 0 if number % _HOSTS_PER_BOARD else 4
        slots = {"usable": count, "free": number % (count + 1)}
        hosts[uuid] = {
            "name": uuid,
            "up": True,
            "nic_load": 0.1,
            "queued": number % 3,
            "slots": {"total": count, **slots},
            "accelerators": dict.fromkeys(_ACCELERATORS, slots)
            if count
            else {},
        }
    return {"snapshot": {"hosts": hosts}}


def _state(uuid: str) -> host_manager.HostState:
    state = host_manager.HostState(uuid, uuid, "cell")
    state.uuid = uuid
    state.service = {
        "host": uuid,
        "topic": "compute",
        "disabled": False,
        "last_seen_up": timeutils.utcnow(),
        "created_at": timeutils.utcnow(),
    }
    state.supported_instances = []
    state.aggregates = []
    state.instances = {}
    return state


def _request(extra_specs: dict[str, str]) -> objects.RequestSpec:
    return objects.RequestSpec(
        instance_uuid="2bd1a0f4-0001-4000-8000-000000000000",
        flavor=objects.Flavor(name="any", extra_specs=extra_specs),
        image=objects.ImageMeta(properties=objects.ImageMetaProps()),
        instance_group=None,
        scheduler_hints={},
    )


def _nova(
    states: list[typing.Any], request: objects.RequestSpec
) -> Callable[[], object]:
    handler = nova_filters.HostFilterHandler()
    prefix = "nova.scheduler.filters."
    classes = handler.get_matching_classes(
        [prefix + name for name in _DEFAULT_FILTERS]
    )
    made = [each() for each in classes]

    def run() -> object:
        found = handler.get_filtered_objects(made, states, request)
        # Else it would be over sooner.
        assert len(found) == len(states)
        return found

    return run


def _ours(
    states: list[typing.Any], request: objects.RequestSpec
) -> Callable[[], object]:
    one = filters.FpgaAffinityFilter()
    weigher = weights.FpgaAffinityWeigher()
    # The weigher gets all: as if the filter had refused nobody.
    weighed = [weights.weights.WeighedHost(state, 0.0) for state in states]

    def run() -> object:
        one.filter_all(states, request)
        found = weigher.weigh_objects(weighed, request)
        return found, [weigher.weight_multiplier(state) for state in states]

    return run


def _time(run: Callable[[], object], count: int) -> tuple[float, float]:
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    for _ in range(count):
        run()
    return time.process_time() - cpu_s, time.perf_counter() - wall_s


def main(hosts: int, requests: int, repetitions: int) -> None:
    """Measure, and print what was measured."""
    config.parse_args(["nova-scheduler"], default_config_files=[])
    objects.register_all()
    uuids = [f"{number:08x}-0000-4000-8000-0" for number in range(hosts)]
    states = [_state(uuid) for uuid in uuids]
    known = snapshot.parse(_document(uuids))
    cache = snapshot.Cache(
        lambda: known, time.monotonic, ttl_s=3600, max_age_s=3600, wait_s=1
    )
    snapshot.cache = lambda: cache
    times: dict[str, list[object]] = {name: [] for name in FLAVORS}
    for name, extra_specs in FLAVORS.items():
        request = _request(extra_specs)
        pair = (_ours(states, request), _nova(states, _request({})))
        for run in pair:
            run()
        for _ in range(repetitions):
            times[name].append([_time(run, requests) for run in pair])
    json.dump(times, sys.stdout)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
