# SPDX-License-Identifier: Apache-2.0

"""Reads limits from the configuration."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping

from oslo_config import cfg
from oslo_log import log as logging

from fpgapool.common import exception
from fpgapool.conductor.decisions.budgets import rules
from fpgapool.conductor.decisions.requests import admission
from fpgapool.core import health
from fpgapool.core import model
from fpgapool.vocabulary import budget

LOG = logging.getLogger(__name__)


def limits(conf: cfg.ConfigOpts) -> admission.PoolLimits:
    """Return the limits, most of which are options of ``[conductor]``."""
    options = conf.conductor
    max_bitstreams = conf.bitstreams.max_per_project
    same = {
        field.name: options[field.name]
        for field in dataclasses.fields(admission.PoolLimits)
        if field.name in options
    }
    others = {
        "default_quota": admission.ProjectQuota().replaced(
            {name: conf.quota[name] for name in admission.RESOURCES},
            admission.FROM_DEFAULT,
        ),
        "default_budget": default_budget(conf),
        "max_bitstreams_per_project": (
            None if max_bitstreams < 0 else max_bitstreams
        ),
        "learn_overruns": conf.scheduler.learn_overruns,
        "quantum_bytes": (
            0
            if conf.scheduler.preempt == "none"
            else conf.scheduler.preempt_quantum_bytes
        ),
        "host_power_caps_w": host_power_caps_w(options.host_power_caps_w),
        "instances_are_local": conf.nova.instances_are_local,
        "health": health.HealthOptions(
            accelerator_limit=options.accelerator_fault_limit,
            slot_limit=options.slot_fault_limit,
            device_limit=options.device_fault_limit,
            first_s=options.self_test_after_s,
            max_s=max(options.self_test_after_s, options.self_test_max_s),
        ),
    }
    return admission.PoolLimits(**{**same, **others})


def default_budget(conf: cfg.ConfigOpts) -> rules.Budget | None:
    """Return the default budget; None: there is none."""
    found = {name: conf.budget[name] for name in budget.DEFAULTS}
    if all(found[name] is None for name in budget.RESOURCES):
        return None
    return rules.Budget.of(budget.checked(found))


def host_power_caps_w(option: Mapping[str, str]) -> dict[str, float]:
    """Return the caps of hosts, by UUID."""
    caps_w = {}
    for name, text in option.items():
        try:
            cap_w = float(text)
            caps_w[str(uuid.UUID(name))] = cap_w
            model.PowerCaps(pool_w=cap_w)
        except ValueError:
            raise exception.ConfigurationError(
                reason=f"[conductor] host_power_caps_w: {name}:{text} is not"
                " a host UUID and a power in watts"
            ) from None
    return caps_w


def check_default_quota(
    quota: admission.ProjectQuota, slot_count: int
) -> None:
    """Warn if one project can take all slots of a shared pool."""
    if slot_count and (quota.sessions is None or quota.sessions >= slot_count):
        LOG.warning(
            "The pool has %d slots, and each project may hold %s of them at"
            " the same time, so one project can keep all others waiting"
            " until it releases slots. Set [quota] sessions below the number"
            " of slots",
            slot_count,
            "all" if quota.sessions is None else quota.sessions,
        )
