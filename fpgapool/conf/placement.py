# SPDX-License-Identifier: Apache-2.0

"""Options of the group [placement]."""

from __future__ import annotations

from oslo_config import cfg

from fpgapool.conf import groups

GROUP = "placement"

#: Allowed names of pools; the name is part of a trait.
POOL_NAME = r"^[a-z0-9_]{1,64}$"

_group = cfg.OptGroup(
    GROUP,
    title="Placement",
    help="""
Access to Placement: the leader registers the pool's devices there, and reads
which instances have reserved slots. It does not contact Placement unless
``auth_type`` is set. The user needs the role ``service`` or ``admin`` in any
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
Interval in seconds at which the conductor compares Placement with the pool.
It writes its own changes within two seconds; the comparison finds new compute
nodes and changes that others made.
""",
    ),
    cfg.FloatOpt(
        "allocation_interval_s",
        default=5,
        min=0.5,
        max=3600,
        help="""
Interval in seconds at which the conductor polls Placement for reservations,
if any slot can be reserved.
""",
    ),
    cfg.FloatOpt(
        "request_timeout_s",
        default=30,
        min=0.1,
        max=600,
        help="""
Seconds that the conductor waits for a response from Placement.
""",
    ),
    cfg.StrOpt(
        "pool_name",
        default="default",
        regex=POOL_NAME,
        help="""
Name of this pool in Placement: lower-case letters, digits and underscores.
Pools in one cloud need different names: a pool removes every resource provider
that has the trait ``CUSTOM_FPGAPOOL_POOL_<POOL_NAME>`` with its name but is
not one of its devices. It does not change any others.

Before you change the name, run ``fpgapool-manage placement clean`` to remove
the resource providers with the old name.
""",
    ),
]

OPTIONS = groups.Options(_group, placement_opts, groups.internal("placement"))
