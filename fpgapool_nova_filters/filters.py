# SPDX-License-Identifier: Apache-2.0

"""The host filter for instances that use or avoid accelerators."""

from __future__ import annotations

import typing
from collections.abc import Iterable

from nova.scheduler import filters
from nova.scheduler import utils
from oslo_log import log as logging

from fpgapool_nova_filters import snapshot
from fpgapool_nova_filters import specs

LOG = logging.getLogger(__name__)


class FpgaAffinityFilter(filters.BaseHostFilter):
    """Refuses hosts without boards, or with boards, depending on the flavor.

    With ``fpgapool:affinity=required``, it refuses hosts that have no usable
    slot, idle or busy, for one or more of ``fpgapool:accelerators``, or no
    usable slot at all if the flavor names no accelerators. With ``avoid``, it
    refuses hosts that have a usable slot; with ``fpgapool:sla=soft``, it does
    so only if another host passes. All other hosts pass.
    """

    # A rebuilt instance stays on its host.
    RUN_ON_REBUILD = False

    def filter_all(
        self, filter_obj_list: Iterable[typing.Any], spec_obj: typing.Any
    ) -> list[typing.Any]:
        """Return the host states of the hosts that pass."""
        states = list(filter_obj_list)
        if utils.request_is_rebuild(spec_obj):
            return states
        try:
            wish = specs.parse(spec_obj.flavor.extra_specs)
        except specs.InvalidError as error:
            _refuse_all(states, spec_obj, f"its flavor is invalid: {error}")
            return []
        if wish.affinity == specs.REQUIRED:
            return _with(wish, states, spec_obj)
        if wish.affinity == specs.AVOID:
            return _without(states, spec_obj)
        if wish.affinity == specs.AVOID_IF_POSSIBLE:
            return _without(states, spec_obj) or states
        return states


def _refuse_all(
    states: list[typing.Any], spec_obj: typing.Any, reason: str
) -> None:
    LOG.warning(
        "FpgaAffinityFilter refuses all %d hosts for instance %s: %s",
        len(states),
        spec_obj.instance_uuid,
        reason,
    )


def _with(
    wish: specs.Wish, states: list[typing.Any], spec_obj: typing.Any
) -> list[typing.Any]:
    names = ", ".join(wish.accelerators) or "any accelerator"
    try:
        hosts = snapshot.cache().hosts()
    except snapshot.UnknownError as error:
        _refuse_all(
            states,
            spec_obj,
            f"its flavor requires {names}, and the hosts' boards are unknown:"
            f" {error}",
        )
        return []
    passing = [
        state for state in states if _has_all(wish, hosts.get(state.uuid))
    ]
    if LOG.isEnabledFor(logging.DEBUG):
        for state in states:
            host = hosts.get(state.uuid)
            if not _has_all(wish, host):
                _log_refusal(state, _lacking(wish, host))
    _log_summary(spec_obj, f"requires {names}", states, passing)
    return passing


def _has_all(wish: specs.Wish, host: snapshot.Host | None) -> bool:
    # The usual case: most hosts of a cloud have no boards. Hosts that are down
    # have no usable slots either.
    if host is None or not host.all.usable:
        return False
    return all(host.slots(name).usable for name in wish.accelerators)


def _lacking(wish: specs.Wish, host: snapshot.Host | None) -> str:
    """Return why a host without all the accelerators is refused."""
    if host is None:
        return "it is not in the pool"
    if not host.up:
        return "its agent does not report to fpgapool"
    missing = [
        name for name in wish.accelerators if not host.slots(name).usable
    ]
    return f"it has no usable slot for {', '.join(missing) or 'anything'}"


def _without(
    states: list[typing.Any], spec_obj: typing.Any
) -> list[typing.Any]:
    try:
        hosts = snapshot.cache().hosts()
    except snapshot.UnknownError as error:
        # The worst that can happen is that hosts with boards fill up with
        # instances that do not need them.
        LOG.warning(
            "FpgaAffinityFilter refuses no host for instance %s, whose flavor"
            " avoids boards: the hosts' boards are unknown: %s",
            spec_obj.instance_uuid,
            error,
        )
        return states
    passing = []
    for state in states:
        host = hosts.get(state.uuid)
        if host is None or not host.all.usable:
            passing.append(state)
        elif LOG.isEnabledFor(logging.DEBUG):
            _log_refusal(state, f"it has {host.all.usable} usable slots")
    _log_summary(spec_obj, "avoids boards", states, passing)
    return passing


def _log_refusal(state: typing.Any, reason: str) -> None:
    LOG.debug("Host %s is refused: %s", state.host, reason)


def _log_summary(
    spec_obj: typing.Any,
    wish: str,
    states: list[typing.Any],
    passing: list[typing.Any],
) -> None:
    LOG.info(
        "FpgaAffinityFilter: %d of %d hosts pass for instance %s, whose flavor"
        " %s",
        len(passing),
        len(states),
        spec_obj.instance_uuid,
        wish,
    )
