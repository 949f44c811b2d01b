# SPDX-License-Identifier: Apache-2.0

"""The policies, a module per resource of the API.

Rules are data: :mod:`fpgapool.api.policy` enforces them.
"""

import itertools

from oslo_policy import policy

from fpgapool.policies import accelerators
from fpgapool.policies import base
from fpgapool.policies import bitstreams
from fpgapool.policies import devices
from fpgapool.policies import groups
from fpgapool.policies import hosts
from fpgapool.policies import instances
from fpgapool.policies import pool
from fpgapool.policies import quotas
from fpgapool.policies import services
from fpgapool.policies import sessions
from fpgapool.policies import slots
from fpgapool.policies import usage
from fpgapool.policies import vendordata
from fpgapool.policies import versions

_MODULES = (
    base,
    versions,
    accelerators,
    bitstreams,
    devices,
    groups,
    hosts,
    instances,
    pool,
    quotas,
    services,
    sessions,
    slots,
    vendordata,
    usage,
)


def list_rules() -> list[policy.RuleDefault]:
    """Return all rules with their defaults."""
    return list(
        itertools.chain.from_iterable(
            module.list_rules() for module in _MODULES
        )
    )
