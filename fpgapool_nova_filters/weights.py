# SPDX-License-Identifier: Apache-2.0

"""The weigher that ranks hosts by their boards.

By default, instances that request accelerators prefer hosts that have them,
and other instances prefer hosts without boards. A negative
``[filter_scheduler] fpga_affinity_weight_multiplier`` has the opposite effect.
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
# Slots that are free now count most; usable slots and the load of the host's
# network card count less.
_FREE_SHARE = 0.6
_USABLE_SHARE = 0.2
_NIC_SHARE = 0.2


class FpgaAffinityWeigher(weights.BaseHostWeigher):
    """Weighs hosts by how useful their boards are for an instance."""

    # These limits are fixed. Otherwise Nova would scale the weights by the
    # largest difference between the hosts of a request.
    minval = _WORST
    maxval = _BEST

    def __init__(self) -> None:
        super().__init__()
        # Read once: it does not change, and reading it takes as long as
        # weighing a host.
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
        """Return the weights of all hosts."""
        uuids = [weighed.obj.uuid for weighed in weighed_obj_list]
        try:
            wish = specs.parse(spec_obj.flavor.extra_specs)
            hosts = snapshot.cache().hosts()
        except (specs.InvalidError, snapshot.UnknownError) as error:
            LOG.debug("All hosts get the same weight: %s", error)
            return [_NEUTRAL] * len(uuids)
        return [weigh(wish, hosts.get(uuid)) for uuid in uuids]

    def _weigh_object(
        self, host_state: typing.Any, spec_obj: typing.Any
    ) -> float:
        # Nova's base class requires this method, but weigh_objects() does not
        # use it.
        raise NotImplementedError


def weigh(wish: specs.Wish, host: snapshot.Host | None) -> float:
    """Return the weight of a host, from -1 to 1.

    :param host: the host; None if it is not in the pool.
    """
    return _weigh_for_user(wish, host) if wish.asks else _weigh_for_other(host)


def _weigh_for_other(host: snapshot.Host | None) -> float:
    return _WORST if host is not None and host.has_boards else _NEUTRAL


def _weigh_for_user(wish: specs.Wish, host: snapshot.Host | None) -> float:
    # The usual case: most hosts of a cloud have no boards.
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
    # Each further slot adds less. Sessions that already wait on the host get
    # slots before the instance does.
    return (
        _FREE_SHARE * slots.free / (1 + slots.free + host.queued)
        + _USABLE_SHARE * slots.usable / (1 + slots.usable + host.queued)
        + _NIC_SHARE * (1 - host.nic_load)
    )
