# SPDX-License-Identifier: Apache-2.0

"""The operator's caps on the power of slots, for the core."""

from __future__ import annotations

import math
from collections.abc import Iterable
from collections.abc import Iterator

from fpgapool import objects
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.conductor.decisions.requests import admission
from fpgapool.core import model
from fpgapool.vocabulary import platforms


def caps(
    settings: admission.PoolLimits,
    pool: registry.Registry,
    profiles: Iterable[objects.AcceleratorProfile],
) -> model.PowerCaps:
    """Return the caps, and the power of a slot of each known shape.

    If both a host's report and the settings contain a cap for the host, the
    lower one applies.

    :param profiles: the library's profiles; those of projects' accelerators
        are ignored, so that no project can raise the power of all slots.
    """
    by_host_w = dict(settings.host_power_caps_w)
    for uuid, host in pool.hosts.items():
        if (cap_w := host.power_cap_w) is not None:
            by_host_w[uuid] = min(cap_w, by_host_w.get(uuid, cap_w))
    if settings.power_cap_w is None and not by_host_w:
        return model.PowerCaps()
    own = [profile for profile in profiles if not profile.projects]
    slots_w: dict[str, float] = {}
    for shape in {slot.shape for slot in pool.present_slots()}:
        known = [
            active_w
            for profile in own
            if not profile.shapes or shape in profile.shapes
            if (active_w := platforms.active_w(profile.platforms, shape))
        ]
        slots_w[shape] = max(known, default=0.0)
    hosts_w = [
        (pool.hosts[host_uuid].id, cap_w)
        for host_uuid, cap_w in by_host_w.items()
        if host_uuid in pool.hosts
    ]
    return model.PowerCaps(
        settings.power_cap_w,
        tuple(sorted(hosts_w)),
        tuple(sorted(slots_w.items())),
    )


def doubts(caps: model.PowerCaps, pool: registry.Registry) -> Iterator[str]:
    """Yield warnings about caps for the operator."""
    slots_w, hosts_w = dict(caps.slots_w), dict(caps.hosts_w)
    kinds = {(slot.host.id, slot.shape) for slot in pool.present_slots()}
    for shape in sorted({shape for _, shape in kinds}):
        if not slots_w.get(shape):
            yield (
                f"no accelerator has an active_w for slots of shape {shape},"
                " so power caps do not apply to these slots"
            )
        elif caps.pool_w is not None and slots_w[shape] > caps.pool_w:
            yield (
                f"a slot of shape {shape} uses {slots_w[shape]:g} W, more"
                " than [conductor] power_cap_w, so no session gets one"
            )
    for host_id, shape in sorted(kinds):
        if slots_w.get(shape, 0.0) > hosts_w.get(host_id, math.inf):
            name = pool.hosts_by_id[host_id].name
            yield (
                f"a slot of shape {shape} uses {slots_w[shape]:g} W, more"
                f" than the power cap of host {name}, so no session gets one"
                " there"
            )
