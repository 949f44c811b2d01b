# SPDX-License-Identifier: Apache-2.0

"""Configurations of the clients of other services."""

import pathlib

from oslo_config import cfg

from fpgapool import conf as fpgapool_conf


def configured(
    directory: pathlib.Path, group: str, **options: str
) -> cfg.ConfigOpts:
    """Read a file with the options of one group."""
    path = directory / "fpgapool.conf"
    lines = [f"[{group}]", *(f"{n} = {v}" for n, v in options.items())]
    path.write_text("\n".join(lines))
    conf = cfg.ConfigOpts()
    fpgapool_conf.register_opts(conf)
    conf([], default_config_files=[str(path)], default_config_dirs=[])
    return conf
