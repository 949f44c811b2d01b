# SPDX-License-Identifier: Apache-2.0

"""Converts a scenario's caps on the power of slots for the core."""

from fpgapool.core import model
from fpgapool.sim import errors
from fpgapool.sim.inputs import scenario as scenarios


def caps(cluster: scenarios.Cluster, source: str) -> model.PowerCaps:
    """Return the caps, with the power of a slot of each shape.

    :raises errors.InputError: if no job could ever get a slot.
    """
    wanted = cluster.power
    if wanted is None or (wanted.cap_w, wanted.host_cap_w) == (None, None):
        return model.PowerCaps()
    slots_w = {
        cluster.shape_of(host): _slot_w(cluster, host)
        for host in cluster.fpga_hosts
    }
    for name, cap_w in (
        ("cap_w", wanted.cap_w),
        ("host_cap_w", wanted.host_cap_w),
    ):
        place = f"cluster.power.{name}"
        most_w = max(slots_w.values(), default=0.0)
        if cap_w is not None and cap_w < most_w:
            raise errors.InputError(
                source,
                place,
                f"is below the {most_w:g} W that one slot with a job draws",
            )
    hosts_w: tuple[tuple[int, float], ...] = ()
    if wanted.host_cap_w is not None:
        hosts_w = tuple((h, wanted.host_cap_w) for h in cluster.fpga_hosts)
    return model.PowerCaps(
        wanted.cap_w, hosts_w, tuple(sorted(slots_w.items()))
    )


def _slot_w(cluster: scenarios.Cluster, host: int) -> float:
    """Return the power of a slot with a job, in addition to the device.

    It is the highest power of the accelerators there; if none is known, it is
    the slot's share of the device's active power.
    """
    shape = cluster.shape_of(host)
    known = [
        profile.platforms[shape].active_w
        for profile in cluster.accelerators.values()
        if shape in profile.platforms
    ]
    powers_w = [value for value in known if value is not None]
    if powers_w or cluster.power is None:
        return max(powers_w, default=0.0)
    extra_w = cluster.power.device_active_w - cluster.power.device_idle_w
    return max(extra_w, 0.0) / cluster.slot_count(host)
