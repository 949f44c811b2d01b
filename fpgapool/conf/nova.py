# SPDX-License-Identifier: Apache-2.0

"""Options of the group [nova]."""

from __future__ import annotations

from oslo_config import cfg

from fpgapool.conf import groups

GROUP = "nova"

_group = cfg.OptGroup(
    GROUP,
    title="Nova",
    help="""
Access to Nova: the API reads the flavors of instances (see ``[vendordata]``),
and the conductor polls instances and compute nodes. Neither contacts Nova
unless ``auth_type`` is set. The user needs the role ``admin`` in any project.
""",
)

nova_opts = [
    cfg.FloatOpt(
        "poll_interval_s",
        default=10,
        min=0.1,
        max=3600,
        help="""
Interval in seconds at which the conductor polls Nova for changed instances.
Sessions of a deleted instance end within that time.
""",
    ),
    cfg.FloatOpt(
        "compute_interval_s",
        default=60,
        min=0.1,
        max=86400,
        help="""
Interval in seconds at which the conductor polls Nova for compute nodes.
""",
    ),
    cfg.FloatOpt(
        "request_timeout_s",
        default=30,
        min=0.1,
        max=600,
        help="""
Seconds that the conductor waits for a response from Nova.
""",
    ),
    cfg.IntOpt(
        "page_length",
        default=1000,
        min=1,
        max=10000,
        help="""
Maximum number of instances in one response from Nova. Nova returns fewer if
its ``[api] max_limit`` is lower.
""",
    ),
    cfg.BoolOpt(
        "instances_are_local",
        default=False,
        help="""
Whether data between an instance and a board on the same host stays on that
host.

Enable this only if instances reach workers over a network that does not leave
the host, such as a host-only bridge. Sessions that an instance opens with its
own token are then local to its host, and the scheduler prefers the host's
slots for them. Otherwise they are remote.
""",
    ),
]

OPTIONS = groups.Options(_group, nova_opts, groups.internal("compute"))
