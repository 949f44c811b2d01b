# SPDX-License-Identifier: Apache-2.0

"""Options of the group [placement]."""

from __future__ import annotations

from oslo_config import cfg

from fpgapool.conf import groups

GROUP = "placement"

# Defaults of keystoneauth's options.
_DEFAULTS = {
    "service_type": "placement",
    "valid_interfaces": ["internal", "public"],
}

#: Names of pools; a trait contains the name.
POOL_NAME = r"^[a-z0-9_]{1,64}$"

_group = cfg.OptGroup(
    GROUP,
    title="Placement",
    help="""
Access to Placement: the leading conductor keeps the devices there, and reads
which instances have reserved slots. It does not ask Placement unless
``auth_type`` is set. The user needs the role ``service`` or ``admin``, in any
project.
""",
)

placement_opts = [
    cfg.FloatOpt(
        "sync_interval_s",
        default=60,
        min=1,
        max=86400,
        help="""
Seconds between two comparisons of Placement with the pool. Changes of the pool
are written within two seconds in any case; the comparison finds changes that
others make, and new compute nodes.
""",
    ),
    cfg.FloatOpt(
        "allocation_interval_s",
        default=5,
        min=0.5,
        max=3600,
        help="""
Seconds between two questions about reserved slots, if there are slots that
can be reserved.
""",
    ),
    cfg.FloatOpt(
        "request_timeout_s",
        default=30,
        min=0.1,
        max=600,
        help="""
Seconds that the conductor waits for an answer of Placement.
""",
    ),
    cfg.StrOpt(
        "pool_name",
        default="default",
        regex=POOL_NAME,
        help="""
Distinguishes the pools of one cloud: a pool changes only resource providers
that have the trait ``CUSTOM_FPGAPOOL_POOL_<POOL_NAME>``, and removes those
that are not devices of it. Two pools in one cloud need different names. Small
letters, digits and underscores. Before you change it, run ``fpgapool-manage
placement clean`` to remove the providers of the old name.
""",
    ),
]

OPTIONS = groups.Options(_group, placement_opts, _DEFAULTS)
