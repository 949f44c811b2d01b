# SPDX-License-Identifier: Apache-2.0

"""Options of the group [upgrade_levels]."""

from oslo_config import cfg

from fpgapool.conf import groups

_group = cfg.OptGroup(
    "upgrade_levels",
    title="Upgrade levels",
    help="""
Message versions to use while some services run an earlier release. See the
upgrade guide. Remove these options when all services have been upgraded.
""",
)

_VERSION = r"^[0-9]{1,4}\.[0-9]{1,4}$"

upgrade_levels_opts = [
    cfg.StrOpt(
        "conductor",
        regex=_VERSION,
        help="""
Highest version of the conductor's RPC API, such as ``1.1``, that agents and
the API use. The default is the newest version that they support.

Calls that an older conductor does not support fail as if no conductor had
answered.
""",
    ),
    cfg.StrOpt(
        "agent",
        regex=_VERSION,
        help="""
Highest version of the agents' RPC API, such as ``1.1``, that the conductor
uses. The default is the newest version that it supports.
""",
    ),
]

OPTIONS = groups.Options(_group, upgrade_levels_opts)
