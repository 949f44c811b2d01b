# SPDX-License-Identifier: Apache-2.0

"""Register groups of options."""

from __future__ import annotations

from collections.abc import Sequence

from oslo_config import cfg


def register(
    conf: cfg.ConfigOpts, group: cfg.OptGroup, options: Sequence[cfg.Opt]
) -> None:
    """Register a group and its options; repeating it changes nothing.

    oslo.config keeps set values in the group object, so that configurations
    with a common group object would set options for each other. Each gets a
    group object of its own.

    :param conf: the configuration.
    :param group: with name, title and help.
    :param options: the group's options.
    """
    own = cfg.OptGroup(group.name, title=group.title, help=group.help)
    conf.register_group(own)
    conf.register_opts(options, group=group.name)
