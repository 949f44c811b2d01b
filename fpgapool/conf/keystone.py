# SPDX-License-Identifier: Apache-2.0

"""Options of the group [keystone]."""

from __future__ import annotations

from oslo_config import cfg

from fpgapool.conf import groups

GROUP = "keystone"

_group = cfg.OptGroup(
    GROUP,
    title="Keystone",
    help="""
Access to Keystone for ``[conductor] share_tree``, which requires
``auth_type``. The user must be allowed to list all projects: give it the role
``reader`` on the system, and set ``system_scope = all`` instead of a project.
""",
)

keystone_opts = [
    cfg.FloatOpt(
        "refresh_interval_s",
        default=60,
        min=1,
        max=86400,
        help="""
Interval in seconds at which the conductor reads all projects from Keystone. A
change in Keystone takes effect within that time.
""",
    ),
    cfg.FloatOpt(
        "request_timeout_s",
        default=30,
        min=0.1,
        max=600,
        help="""
Seconds that the conductor waits for a response from Keystone.
""",
    ),
]

OPTIONS = groups.Options(_group, keystone_opts, groups.internal("identity"))
