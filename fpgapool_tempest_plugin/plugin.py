# SPDX-License-Identifier: Apache-2.0

"""What Tempest loads."""

from __future__ import annotations

import pathlib
import typing

from oslo_config import cfg
from tempest import config as tempest_config
from tempest.test_discover import plugins

from fpgapool_tempest_plugin import config

_HERE = pathlib.Path(__file__).parent


class FpgapoolTempestPlugin(plugins.TempestPlugin):
    """Tells Tempest of the tests, the options and the client."""

    def load_tests(self) -> tuple[str, str]:
        return str(_HERE / "tests"), str(_HERE.parent)

    def register_opts(self, conf: cfg.ConfigOpts) -> None:
        conf.register_opt(config.service_available, group="service_available")
        for group, options in self._groups():
            tempest_config.register_opt_group(conf, group, options)

    def get_opt_lists(self) -> list[tuple[str, list[cfg.Opt]]]:
        return [
            ("service_available", [config.service_available]),
            *((group.name, options) for group, options in self._groups()),
        ]

    def get_service_clients(self) -> list[dict[str, typing.Any]]:
        return [
            {
                **tempest_config.service_client_config("fpgapool"),
                "name": "fpgapool",
                "service_version": "fpgapool.v1",
                "module_path": "fpgapool_tempest_plugin.client",
                "client_names": ["PoolClient"],
            }
        ]

    @staticmethod
    def _groups() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
        return [
            (config.group, config.options),
            (config.features_group, config.features),
        ]
