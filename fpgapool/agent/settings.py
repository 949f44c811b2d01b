# SPDX-License-Identifier: Apache-2.0

"""The settings of an agent, read from the configuration."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping

from oslo_config import cfg

from fpgapool.agent.bitstreams import sources
from fpgapool.agent.child import settings as child_settings
from fpgapool.agent.host import shaping
from fpgapool.agent.slots import table
from fpgapool.bitstreams import signatures
from fpgapool.common import config
from fpgapool.common import exception
from fpgapool.common.messaging import signing
from fpgapool.drivers import loader
from fpgapool.vocabulary import rules


@dataclasses.dataclass(frozen=True, kw_only=True)
class AgentSettings:
    """All settings of an agent; see the options with the same names.

    :param driver_settings: settings of the driver except ``state_dir``.
    :param log_dir: directory for workers' and desks' logs; None for standard
        error.
    :param trusted_keys: keys that verify bitstreams' signatures, or None if
        this host trusts no keys.
    """

    host_uuid: str
    host_name: str
    state_path: str
    driver_name: str
    driver_path: str
    driver_settings: Mapping[str, object] = dataclasses.field(
        default_factory=dict
    )
    front_door_sockets: Mapping[str, str] = dataclasses.field(
        default_factory=dict
    )
    front_door_mode: int = 0o660
    max_front_door_connections: int = 1000
    max_front_door_project_connections: int = 0
    max_front_door_project_sessions: int = 20000
    data_address: str | None = None
    data_network: str = "data"
    data_ports: str = "0"
    tls: bool = True
    report_interval_s: float = 5.0
    open_timeout_s: float = 10.0
    session_poll_interval_s: float = 5.0
    workers_outlive_agent: bool = True
    nic_device: str | None = None
    nic_bytes_per_s: float = 0.0
    data_share_percent: float = 0.0
    data_rate_bytes_per_s: float = 0.0
    data_share_remove_at_stop: bool = False
    chunk_bytes: int = 4 * 1024 * 1024
    window_chunks: int = 8
    block_cache_bytes: int = 256 * 1024 * 1024
    max_group_project_connections: int = 64
    hello_timeout_s: float = 5.0
    isolation: str = child_settings.ISOLATION_PREFERRED
    worker_orphan_s: float = 600.0
    worker_timeout_s: float = 10.0
    worker_memory_bytes: int = 0
    worker_pids_max: int = 2048
    worker_cpu_weight: int = 100
    desk_memory_bytes: int = 0
    log_dir: str | None = None
    log_level: str = "INFO"
    bitstream_source: sources.Source = dataclasses.field(
        default_factory=sources.NoSource
    )
    bitstream_cache_bytes: int = 8 * 2**30
    bitstream_fetch_timeout_s: float = 40.0
    trusted_keys: signatures.TrustedKeys | None = None
    signature_required: bool = False
    keys: signing.Keys | None = None

    @classmethod
    def from_conf(
        cls, conf: cfg.ConfigOpts, **replaced: typing.Any
    ) -> AgentSettings:
        """Read the settings from the configuration.

        :param replaced: values that override those from the configuration.
        :raises: drivers.DriverError if the driver does not exist, or
            ConfigurationError if options are invalid or contradict each other.
        """
        if not rules.HOST_NAME.fullmatch(conf.host_name):
            raise exception.ConfigurationError(
                reason=f"[DEFAULT] host_name {conf.host_name!r:.100}:"
                f" {rules.HOST_NAME_WORDS}"
            )
        group = conf.agent
        driver_path = loader.driver_path(group.driver)
        values: dict[str, typing.Any] = {
            "host_uuid": conf.host_uuid,
            "host_name": conf.host_name,
            "state_path": conf.state_path,
            "driver_name": group.driver,
            "driver_path": driver_path,
            "driver_settings": options_of_driver(
                conf, group.driver, driver_path
            ),
            "log_dir": conf.log_dir,
            "log_level": "DEBUG" if conf.debug else "INFO",
            "bitstream_source": sources.from_conf(conf),
            "bitstream_cache_bytes": conf.bitstream_cache.max_bytes,
            "bitstream_fetch_timeout_s": conf.bitstream_cache.fetch_timeout_s,
            "trusted_keys": signatures.TrustedKeys(
                conf.bitstreams.trusted_keys_dir
            ),
            "signature_required": conf.bitstreams.signature_required,
        }
        for field in dataclasses.fields(cls):
            if field.name not in values and field.name in group:
                values[field.name] = group[field.name]
        settings = cls(**{**values, **replaced})
        data_share(settings)
        return settings


def options_of_driver(
    conf: cfg.ConfigOpts, name: str, path: str
) -> dict[str, object]:
    """Return the options in the group that has the driver's name.

    :raises: drivers.DriverError if the driver does not exist, or
        ConfigurationError if an option's value is invalid.
    """
    options = loader.load_driver_class(path).options()
    conf.register_opts(options, group=name)
    try:
        return config.check_group(conf, name, options)
    except cfg.Error as error:
        raise exception.ConfigurationError(reason=str(error)) from error


def driver_settings(settings: AgentSettings) -> dict[str, object]:
    """Return the driver's settings; agent and workers add ``state_dir``."""
    keys = settings.trusted_keys
    return {
        **settings.driver_settings,
        "host_uuid": settings.host_uuid,
        "signature_required": settings.signature_required,
        "trusted_keys_dir": None if keys is None else str(keys.directory),
    }


def host_facts(settings: AgentSettings) -> table.HostFacts:
    """Return the facts about the host that the slot table needs."""
    return table.HostFacts(
        settings.host_uuid, settings.data_network, settings.data_address
    )


def data_share(settings: AgentSettings) -> shaping.Share | None:
    """Return the data plane's share of the link, or None for no limit."""
    return shaping.share(
        percent=settings.data_share_percent,
        bytes_per_s=settings.data_rate_bytes_per_s,
        data_address=settings.data_address,
        data_ports=settings.data_ports,
    )
