# SPDX-License-Identifier: Apache-2.0

"""Options of the group [database].

Most are oslo.db's, with other defaults; oslo.db's own entry point shows them
in the sample configuration.
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
Days after which the leader deletes a session that has ended, and an instance
that Nova has deleted, in small batches. 0, the default, means never: run
``fpgapool-manage db purge`` instead.

Usage records are kept. A client that repeats a request after that time opens
another session.
""",
    ),
]

OPTIONS = groups.Options(GROUP, database_opts)


def set_defaults(conf: cfg.ConfigOpts) -> None:
    """Register the options of oslo.db, with other defaults."""
    options.set_defaults(conf, connection=DEFAULT_CONNECTION)
