# SPDX-License-Identifier: Apache-2.0

"""Options of the group [database].

They are oslo.db's, with other defaults; oslo.db's own entry point shows them
in the sample configuration.
"""

from oslo_config import cfg
from oslo_db import options

DEFAULT_CONNECTION = "sqlite:///$state_path/fpgapool.sqlite"


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    options.set_defaults(conf, connection=DEFAULT_CONNECTION)


def list_opts() -> dict[str, list[cfg.Opt]]:
    """Return nothing: oslo.db lists these options."""
    return {}
