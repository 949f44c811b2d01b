# SPDX-License-Identifier: Apache-2.0

"""Options of the group [placement]."""

from __future__ import annotations

from oslo_config import cfg

from fpgapool.conf import groups
from fpgapool.conf import keystone_auth

GROUP = "placement"

# Of keystoneauth's options.
_DEFAULTS = {
    "service_type": "placement",
    "valid_interfaces": ["internal", "public"],
}

#: What pools are called, so that a trait can be made of it.
POOL_NAME = r"^[a-z0-9_]{1,64}$"

placement_group = cfg.OptGroup(
    GROUP,
    title="Placement",
    help="""
How the conductor that leads tells Placement of devices, and learns which
instances have slots reserved. Nobody asks anything unless ``auth_type`` is
set. The user needs the role ``service`` or ``admin``, in any project.
""",
)

placement_opts = [
    cfg.FloatOpt(
        "sync_interval_s",
        default=60,
        min=1,
        max=86400,
        help="""
Seconds between two comparisons of what Placement has with what the pool has.
What changes in the pool is written within two seconds in any case; this is
for what others change, and for compute nodes that are new.
""",
    ),
    cfg.FloatOpt(
        "allocation_interval_s",
        default=5,
        min=0.5,
        max=3600,
        help="""
Seconds between two questions which instances have reserved slots, where there
are slots that can be reserved.
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
Tells the pools of one cloud apart: a pool changes only resource providers
that have the trait ``CUSTOM_FPGAPOOL_POOL_<POOL_NAME>``, and removes those
that are no devices of it. Two pools in one cloud need different names. Small
letters, digits and underscores. Before it is changed, ``fpgapool-manage
placement clean`` removes what has the old name.
""",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group, but for those of keystoneauth.

    Most processes never ask Placement;
    :mod:`fpgapool.clients.placement` registers the rest.
    """
    groups.register(conf, placement_group, placement_opts)


def register_auth_opts(conf: cfg.ConfigOpts) -> None:
    """Register keystoneauth's options, so that Placement can be asked."""
    keystone_auth.register(conf, GROUP, _DEFAULTS)


def list_opts() -> dict[cfg.OptGroup, list[cfg.Opt]]:
    """Return fpgapool's own options of this group."""
    return {placement_group: placement_opts}


def list_auth_opts() -> list[cfg.Opt]:
    """Return keystoneauth's options, for the sample configuration."""
    return keystone_auth.listed(_DEFAULTS)
