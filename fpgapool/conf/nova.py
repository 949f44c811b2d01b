# SPDX-License-Identifier: Apache-2.0

"""Options of the group [nova]."""

from __future__ import annotations

from oslo_config import cfg

from fpgapool.conf import groups

GROUP = "nova"

# Defaults of keystoneauth's options.
_DEFAULTS = {
    "service_type": "compute",
    "valid_interfaces": ["internal", "public"],
}

_group = cfg.OptGroup(
    GROUP,
    title="Nova",
    help="""
Access to Nova: the API reads the flavors of instances, see ``[vendordata]``,
and the conductor follows instances and compute nodes. Neither asks Nova
unless ``auth_type`` is set. The user needs the role ``admin``, in any
project.
""",
)

nova_opts = [
    cfg.FloatOpt(
        "poll_interval_s",
        default=10,
        min=0.1,
        max=3600,
        help="""
Seconds between two questions of the conductor about changed instances.
Sessions of a deleted instance end within that time.
""",
    ),
    cfg.FloatOpt(
        "compute_interval_s",
        default=60,
        min=0.1,
        max=86400,
        help="""
Seconds between two questions of the conductor about compute nodes.
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
Number of instances in one request. Nova's ``[api] max_limit`` limits it, too.
""",
    ),
    cfg.BoolOpt(
        "instances_are_local",
        default=False,
        help="""
Whether data stay on the host on their way from an instance to a board of the
same host.

Turn it on only if workers are reached by a network with both ends on that
host, such as a bridge that does not leave it. Then a session that an instance
opens by its own token counts as one from its host, which the scheduler
prefers for it. Otherwise it counts as one from outside.
""",
    ),
]

OPTIONS = groups.Options(_group, nova_opts, _DEFAULTS)
