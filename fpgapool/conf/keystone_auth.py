# SPDX-License-Identifier: Apache-2.0

"""keystoneauth's options, by which a group configures another service."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from oslo_config import cfg


def register(
    conf: cfg.ConfigOpts, group: str, defaults: Mapping[str, Any]
) -> None:
    """Register keystoneauth's options.

    :param conf: the configuration; the group is registered.
    :param group: its name.
    :param defaults: by option name; other defaults than keystoneauth's.
    """
    # A slow import that most processes do not need.
    from keystoneauth1 import loading

    loading.register_auth_conf_options(conf, group)
    loading.register_session_conf_options(conf, group)
    # An option cannot set both interface and valid_interfaces, which has a
    # default.
    loading.register_adapter_conf_options(
        conf, group, include_deprecated=False
    )
    for name, value in defaults.items():
        conf.set_default(name, value, group=group)


def listed(defaults: Mapping[str, Any]) -> list[cfg.Opt]:
    """Return keystoneauth's options, for the sample configuration.

    :param defaults: as for :func:`register`.
    """
    from keystoneauth1 import loading

    found = [
        *loading.get_auth_common_conf_options(),
        *loading.get_session_conf_options(),
        *loading.get_adapter_conf_options(include_deprecated=False),
        *loading.get_auth_plugin_conf_options("v3password"),
    ]
    options = {option.dest: copy.copy(option) for option in found}
    for name, value in defaults.items():
        options[name].default = value
    return list(options.values())
