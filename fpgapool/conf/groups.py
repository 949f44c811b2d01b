# SPDX-License-Identifier: Apache-2.0

"""Groups of options: fpgapool's own options and those of keystoneauth."""

from __future__ import annotations

import copy
import dataclasses
import importlib.metadata
from collections.abc import Mapping
from typing import Any

from oslo_config import cfg

_AUTH_TYPE = "v3password"


def internal(service_type: str) -> dict[str, Any]:
    """Return keystoneauth's defaults for a service's internal endpoint."""
    return {
        "service_type": service_type,
        "valid_interfaces": ["internal", "public"],
    }


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of a group.

    :ivar group: the group, or only its name if a library defines the group.
    :ivar auth_defaults: defaults that replace those of keystoneauth's
        options; None if the group does not configure access to a service.
    """

    group: cfg.OptGroup | str
    own: list[cfg.Opt]
    auth_defaults: Mapping[str, Any] | None = None

    @property
    def name(self) -> str:
        return str(getattr(self.group, "name", self.group))

    def register(self, conf: cfg.ConfigOpts) -> None:
        """Register the group and its own options; repeating it does nothing.

        oslo.config stores values in the group object. If two configurations
        shared one, each would see values that were set in the other, so each
        gets its own.
        """
        if isinstance(self.group, cfg.OptGroup):
            conf.register_group(
                cfg.OptGroup(
                    self.name, title=self.group.title, help=self.group.help
                )
            )
        group = None if self.name == "DEFAULT" else self.name
        conf.register_opts(self.own, group=group)

    def register_auth(self, conf: cfg.ConfigOpts) -> None:
        """Register keystoneauth's options, which only a client needs."""
        # A slow import that most processes do not need.
        from keystoneauth1 import loading

        loading.register_auth_conf_options(conf, self.name)
        loading.register_session_conf_options(conf, self.name)
        # An option cannot set both interface and valid_interfaces, which has
        # a default.
        loading.register_adapter_conf_options(
            conf, self.name, include_deprecated=False
        )
        for name, value in (self.auth_defaults or {}).items():
            conf.set_default(name, value, group=self.name)

    def list_auth(self, auth_type: str | None = None) -> list[cfg.Opt]:
        """Return keystoneauth's options.

        :param auth_type: the plug-in whose options are wanted; None, or one
            that is not installed: those that the sample configuration has.
        """
        from keystoneauth1 import loading

        # Looking for one that is not installed would log a warning.
        installed = importlib.metadata.entry_points(
            group=loading.PLUGIN_NAMESPACE, name=auth_type or _AUTH_TYPE
        )
        plugin = loading.get_auth_plugin_conf_options(
            auth_type if auth_type and installed else _AUTH_TYPE
        )
        found = [
            *loading.get_auth_common_conf_options(),
            *loading.get_session_conf_options(),
            *loading.get_adapter_conf_options(include_deprecated=False),
            *plugin,
        ]
        options = {option.dest: copy.copy(option) for option in found}
        for name, value in (self.auth_defaults or {}).items():
            options[name].default = value
        return list(options.values())
