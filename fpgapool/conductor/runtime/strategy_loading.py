# SPDX-License-Identifier: Apache-2.0

"""Loads the configured strategy and elasticity policy."""

from __future__ import annotations

import json
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any
from typing import cast

import stevedore
from oslo_config import cfg
from stevedore import exception as stevedore_exception

from fpgapool.common import exception
from fpgapool.conf import conductor as conductor_conf
from fpgapool.core import strategy
from fpgapool.core.queues import sharing
from fpgapool.core.sizing import elasticity
from fpgapool.core.sizing import groups
from fpgapool.strategies import base
from fpgapool.strategies import orderings
from fpgapool.strategies import shared
from fpgapool.vocabulary import names
from fpgapool.vocabulary import scheduling

NAMESPACE = "fpgapool.strategies"
ELASTICITY_NAMESPACE = "fpgapool.elasticity"


def load_strategy(conf: cfg.ConfigOpts) -> strategy.Strategy:
    """Create the strategy that ``[conductor] strategy`` names.

    :raises ConfigurationError: if the name or an option is not valid.
    """
    name = conf.conductor.strategy
    factory = _factory(NAMESPACE, name, "strategy", "[conductor]")
    try:
        made: strategy.Strategy = factory(options(conf), conf.scheduler.seed)
    except ValueError as error:
        raise exception.ConfigurationError(
            reason=f"[scheduler], strategy {name}: {error}"
        ) from error
    return shared.SharedStrategy(
        made,
        _sharing_options(conf),
        conf.conductor.max_wait_s or None,
        None
        if conf.scheduler.preempt == "none"
        else conf.scheduler.preempt_gain,
    )


def load_groups(
    conf: cfg.ConfigOpts, programming_time_s: float = 0.0
) -> groups.Groups:
    """Create the sizing of groups, with the policy that ``[scheduler]
    elasticity`` names.

    :param programming_time_s: the programming time of the slowest slot.
    :raises ConfigurationError: if the name or an option is not valid, or the
        period is too short.
    """
    name = conf.scheduler.elasticity
    factory = _factory(
        ELASTICITY_NAMESPACE, name, "elasticity policy", "[scheduler]"
    )
    given = conf.scheduler.elasticity_options
    try:
        policy: elasticity.Policy = factory(
            {key: _parsed(text) for key, text in given.items()}
        )
        return groups.Groups(
            policy,
            groups.SizingOptions(
                period_s=conf.scheduler.elasticity_period_s or None,
                programming_time_s=programming_time_s,
            ),
        )
    except ValueError as error:
        raise exception.ConfigurationError(
            reason=f"[scheduler], elasticity policy {name}: {error}"
        ) from error


def _factory(
    namespace: str, name: str, what: str, group: str
) -> Callable[..., Any]:
    try:
        manager = stevedore.DriverManager(
            namespace, name, warn_on_missing_entrypoint=False
        )
    except stevedore_exception.NoMatches:
        known = sorted(stevedore.ExtensionManager(namespace).names())
        close = names.closest(name, known)
        hint = f"did you mean {close}? " if close else ""
        raise exception.ConfigurationError(
            reason=f"unknown {what} {name!r} in {group}; {hint}expected one"
            f" of: {', '.join(known)}"
        ) from None
    return cast(Callable[..., Any], manager.driver)


def thresholds_bytes(
    made: strategy.Strategy,
) -> Callable[[], tuple[float, ...]]:
    """Return what gives the present thresholds of a strategy's priority
    queues; there are none without such queues.
    """
    inner = made.inner if isinstance(made, shared.SharedStrategy) else made
    ordering = (
        inner.ordering if isinstance(inner, base.ComposedStrategy) else None
    )
    if isinstance(ordering, orderings.WaOrdering):
        return lambda: ordering.thresholds_bytes
    return tuple


def _sharing_options(conf: cfg.ConfigOpts) -> sharing.ShareOptions:
    group = conf.conductor
    if group.share_tree != conductor_conf.NO_TREE and not group.fair_share:
        raise exception.ConfigurationError(
            reason=f"[conductor] share_tree = {group.share_tree} requires"
            " fair_share = true"
        )
    return sharing.ShareOptions(
        fair=group.fair_share,
        quantum_bytes=group.fair_share_quantum_bytes,
        weights=group.project_weights,
    )


def options(conf: cfg.ConfigOpts) -> Mapping[str, object]:
    """Return the options for strategies in ``[scheduler]``."""
    group = conf.scheduler
    return {**_own_options(group), **_shared_options(group)}


def _own_options(group: cfg.ConfigOpts) -> Mapping[str, object]:
    given = group.strategy_options
    shared = sorted(scheduling.FIELDS.keys() & given)
    if shared:
        raise ValueError(
            f"strategy_options: {', '.join(shared)}: set the [scheduler]"
            " option instead"
        )
    return {name: _parsed(text) for name, text in given.items()}


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _shared_options(group: cfg.ConfigOpts) -> Mapping[str, object]:
    found: dict[str, object] = {}
    for name, field in scheduling.FIELDS.items():
        value = group[scheduling.conf_name(name)]
        if value == field.metadata["unset"]:
            value = None
        elif scheduling.kind(name) is bool and isinstance(value, str):
            value = value == "on"
        found[name] = value
    if found["thresholds_bytes"]:
        found.update(dict.fromkeys(scheduling.HYBRID))
    elif found["E_bytes"] is None:
        # The others of these options have values even if nobody set them.
        found.update(q=None, k1=None, k2=None)
    return found
