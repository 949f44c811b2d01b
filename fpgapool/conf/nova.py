# SPDX-License-Identifier: Apache-2.0

"""Options of the group [nova]."""

from __future__ import annotations

from oslo_config import cfg

from fpgapool.conf import groups
from fpgapool.conf import keystone_auth

GROUP = "nova"

# Of keystoneauth's options.
_DEFAULTS = {
    "service_type": "compute",
    "valid_interfaces": ["internal", "public"],
}

nova_group = cfg.OptGroup(
    GROUP,
    title="Nova",
    help="""
How Nova is asked about instances: by the API for their flavors, see
``[vendordata]``, and by the conductor for what becomes of them. Nobody asks
anything unless ``auth_type`` is set. The user needs the role ``admin``, in
any project.
""",
)

nova_opts = [
    cfg.FloatOpt(
        "poll_interval_s",
        default=10,
        min=0.1,
        max=3600,
        help="""
Seconds between two questions of the conductor what has become of instances.
Sessions of a deleted one end within that time.
""",
    ),
    cfg.FloatOpt(
        "compute_interval_s",
        default=60,
        min=0.1,
        max=86400,
        help="""
Seconds between two questions of the conductor which compute nodes there are.
""",
    ),
    cfg.FloatOpt(
        "request_timeout_s",
        default=30,
        min=0.1,
        max=600,
        help="""
Seconds that the conductor waits for an answer of Nova.
""",
    ),
    cfg.IntOpt(
        "page_length",
        default=1000,
        min=1,
        max=10000,
        help="""
How many instances are asked for at a time. Nova's ``[api] max_limit`` limits
it, too.
""",
    ),
    cfg.BoolOpt(
        "instances_are_local",
        default=False,
        help="""
Whether data stay on the host on their way from an instance to a board of the
same host.

Say so only if workers are reached by a network of which both ends are on
that host, such as a bridge that does not leave it. Then a session that an
instance opens by its own token counts as one from its host, which the
scheduler prefers for it. Otherwise it counts as one that comes from outside.
""",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group, but for those of keystoneauth.

    Most processes never ask Nova; :mod:`fpgapool.clients.nova` registers
    the rest.
    """
    groups.register(conf, nova_group, nova_opts)


def register_auth_opts(conf: cfg.ConfigOpts) -> None:
    """Register keystoneauth's options, so that Nova can be asked."""
    keystone_auth.register(conf, GROUP, _DEFAULTS)


def list_opts() -> dict[cfg.OptGroup, list[cfg.Opt]]:
    """Return fpgapool's own options of this group."""
    return {nova_group: nova_opts}


def list_auth_opts() -> list[cfg.Opt]:
    """Return keystoneauth's options, for the sample configuration."""
    return keystone_auth.listed(_DEFAULTS)
