# SPDX-License-Identifier: Apache-2.0

"""Several configurations in one process."""

from __future__ import annotations

from oslo_config import cfg

from fpgapool import conf as configuration


def test_what_is_set_in_one_configuration_is_not_set_in_another():
    first, second = cfg.ConfigOpts(), cfg.ConfigOpts()
    for conf in (first, second):
        configuration.register_opts(conf)
        configuration.register_opts(conf)
        conf([], default_config_files=[])
    for module in configuration.GROUPS:
        name = module.OPTIONS.name
        if name == "DEFAULT":
            continue
        for option in module.OPTIONS.own:
            before = second[name][option.name]
            first.set_override(option.name, None, group=name)
            assert second[name][option.name] == before
