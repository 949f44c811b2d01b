# SPDX-License-Identifier: Apache-2.0

"""Register groups of options."""

from __future__ import annotations

from collections.abc import Sequence

from oslo_config import cfg


def register(
    conf: cfg.ConfigOpts, group: cfg.OptGroup, options: Sequence[cfg.Opt]
) -> None:
    """Register a group and its options; repeating it changes nothing.

    oslo.config keeps what is set in the group itself, so that configurations
    with one group in common would set options for each other. Each gets one of
    its own.

    :param conf: the configuration.
    :param group: with name, title and help.
    :param options: those of the group.
    """
    own = cfg.OptGroup(group.name, title=group.title, help=group.help)
    conf.register_group(own)
    conf.register_opts(options, group=group.name)
