# SPDX-License-Identifier: Apache-2.0

"""Options of the group [database].

oslo.db defines most of them, and its own entry point adds those to the sample
configuration.
"""

from oslo_config import cfg
from oslo_db import options

from fpgapool.conf import groups

GROUP = "database"

DEFAULT_CONNECTION = "sqlite:///$state_path/fpgapool.sqlite"

database_opts = [
    cfg.IntOpt(
        "retention_days",
        default=0,
        min=0,
        max=36500,
        help="""
Days after which the leader deletes the rows of ended sessions and of
instances deleted in Nova. It deletes them in small batches. 0, the default,
means never: run ``fpgapool-manage db purge`` instead.

Usage records are kept. A client that repeats a request after its row was
deleted opens a new session.
""",
    ),
]

OPTIONS = groups.Options(GROUP, database_opts)


def set_defaults(conf: cfg.ConfigOpts) -> None:
    """Register the options of oslo.db, with fpgapool's default connection."""
    options.set_defaults(conf, connection=DEFAULT_CONNECTION)
