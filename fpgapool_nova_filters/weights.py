# SPDX-License-Identifier: Apache-2.0

"""The weigher of hosts by their boards.

A positive ``[filter_scheduler] fpga_affinity_weight_multiplier``, as by
default, prefers hosts with the accelerators for instances that ask for them,
and hosts without boards for others. A negative one does the opposite.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable

import nova.conf
from nova.scheduler import utils
from nova.scheduler import weights
from oslo_log import log as logging

from fpgapool_nova_filters import snapshot
from fpgapool_nova_filters import specs

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)

_WORST = -1.0
_NEUTRAL = 0.0
_BEST = 1.0
# A slot that is free now counts most, then usable slots, then the load of the
# host's network card.
_FREE_SHARE = 0.6
_USABLE_SHARE = 0.2
_NIC_SHARE = 0.2


class FpgaAffinityWeigher(weights.BaseHostWeigher):
    """Weighs hosts by what their boards can do for an instance."""

    # Fixed, so that the effect of a difference does not depend on the largest
    # one among the hosts.
    minval = _WORST
    maxval = _BEST

    def __init__(self) -> None:
        super().__init__()
        # It does not change, and reading it takes as long as weighing a host.
        self._multiplier: float = (
            CONF.filter_scheduler.fpga_affinity_weight_multiplier
        )

    def weight_multiplier(self, host_state: typing.Any) -> float:
        """Return the multiplier, which aggregates may override."""
        if not host_state.aggregates:
            return self._multiplier
        multiplier: float = utils.get_weight_multiplier(
            host_state, "fpga_affinity_weight_multiplier", self._multiplier
        )
        return multiplier

    def weigh_objects(
        self, weighed_obj_list: Iterable[typing.Any], spec_obj: typing.Any
    ) -> list[float]:
        """Return the weights of hosts, all at once."""
        uuids = [weighed.obj.uuid for weighed in weighed_obj_list]
        try:
            wish = specs.parse(spec_obj.flavor.extra_specs)
            hosts = snapshot.cache().hosts()
        except (specs.InvalidError, snapshot.UnknownError) as error:
            LOG.debug("Hosts weigh the same for fpgapool: %s", error)
            return [_NEUTRAL] * len(uuids)
        return [weigh(wish, hosts.get(uuid)) for uuid in uuids]

    def _weigh_object(
        self, host_state: typing.Any, spec_obj: typing.Any
    ) -> float:
        # Nova's base class requires it; weigh_objects() weighs all at once.
        raise NotImplementedError


def weigh(wish: specs.Wish, host: snapshot.Host | None) -> float:
    """Return the weight of a host, from -1 to 1.

    :param host: None: it is not in the pool.
    """
    return _weigh_for_user(wish, host) if wish.asks else _weigh_for_other(host)


def _weigh_for_other(host: snapshot.Host | None) -> float:
    return _WORST if host is not None and host.has_boards else _NEUTRAL


def _weigh_for_user(wish: specs.Wish, host: snapshot.Host | None) -> float:
    # Most hosts of a cloud have none.
    if host is None or not host.all.usable:
        return _WORST
    if not wish.accelerators:
        return _weigh_slots(host.all, host)
    total = 0.0
    for name in wish.accelerators:
        total += _weigh_slots(host.slots(name), host)
    return total / len(wish.accelerators)


def _weigh_slots(slots: snapshot.Slots, host: snapshot.Host) -> float:
    if not slots.usable:
        return _WORST
    # The first slots count most; sessions that wait there come first.
    return (
        _FREE_SHARE * slots.free / (1 + slots.free + host.queued)
        + _USABLE_SHARE * slots.usable / (1 + slots.usable + host.queued)
        + _NIC_SHARE * (1 - host.nic_load)
    )
