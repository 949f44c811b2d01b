# SPDX-License-Identifier: Apache-2.0

"""All configuration options of fpgapool, one module per group.

There is no global configuration here: processes that use RPC pass
``oslo_config.cfg.CONF``, and all others pass their own ``ConfigOpts``.
"""

from oslo_config import cfg

from fpgapool.conf import agent
from fpgapool.conf import api
from fpgapool.conf import bitstream_cache
from fpgapool.conf import bitstreams
from fpgapool.conf import budget
from fpgapool.conf import conductor
from fpgapool.conf import database
from fpgapool.conf import default
from fpgapool.conf import keystone
from fpgapool.conf import messages
from fpgapool.conf import metrics
from fpgapool.conf import notifications
from fpgapool.conf import nova
from fpgapool.conf import placement
from fpgapool.conf import quota
from fpgapool.conf import scheduler
from fpgapool.conf import tracing
from fpgapool.conf import upgrade_levels
from fpgapool.conf import vendordata

GROUPS = (
    default,
    conductor,
    quota,
    budget,
    scheduler,
    agent,
    api,
    bitstreams,
    bitstream_cache,
    messages,
    metrics,
    tracing,
    notifications,
    keystone,
    nova,
    placement,
    vendordata,
    database,
    upgrade_levels,
)


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the options of all groups; repeating it changes nothing."""
    database.set_defaults(conf)
    for group in GROUPS:
        group.OPTIONS.register(conf)
