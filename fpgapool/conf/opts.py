# SPDX-License-Identifier: Apache-2.0

"""The options of fpgapool, for oslo-config-generator."""

import copy

from oslo_config import cfg
from oslo_config import types

from fpgapool.conf import GROUPS
from fpgapool.conf import bitstream_cache
from fpgapool.conf import bitstreams
from fpgapool.conf import cors
from fpgapool.conf import keystone
from fpgapool.conf import nova
from fpgapool.conf import placement

#: Group of the privileged process; oslo.privsep registers its options there
#: when it is needed.
PRIVSEP_GROUP = "fpgapool_privsep"
#: Entry points of the drivers; each has a group of its name.
DRIVERS = "fpgapool.drivers"


def list_own_opts() -> list[tuple[str | cfg.OptGroup, list[cfg.Opt]]]:
    """Return the options that fpgapool defines, by group."""
    return [(one.OPTIONS.group, one.OPTIONS.own) for one in GROUPS]


def list_driver_opts() -> list[tuple[str | cfg.OptGroup, list[cfg.Opt]]]:
    """Return the options of all drivers that are installed here."""
    import stevedore

    drivers = stevedore.ExtensionManager(DRIVERS, invoke_on_load=False)
    options = {one.name: list(one.plugin.options()) for one in drivers}
    return [
        (cfg.OptGroup(name, help=f"Options of the driver {name}."), options)
        for name, options in sorted(options.items())
        if options
    ]


def list_opts_of_driver(name: str) -> list[cfg.Opt]:
    """Return a driver's options; none if it cannot be loaded here."""
    import stevedore

    drivers = stevedore.NamedExtensionManager(DRIVERS, [name])
    return [option for one in drivers for option in one.plugin.options()]


def list_privsep_opts() -> list[cfg.Opt]:
    """Return the options of the privileged process."""
    # A slow import that few need.
    from oslo_privsep import priv_context

    privsep_opts = [copy.copy(option) for option in priv_context.OPTS]
    for option in privsep_opts:
        if option.dest == "capabilities":
            # The default that fpgapool sets for this process.
            option.default = ["CAP_NET_ADMIN"]
            # OpenStack 2026.1's generator cannot format the option's own type.
            option.type = types.List()
    return privsep_opts


def list_opts() -> list[tuple[str | cfg.OptGroup, list[cfg.Opt]]]:
    """Return the options of all groups, including those of libraries."""
    return [
        *list_own_opts(),
        *list_driver_opts(),
        (cors.GROUP, cors.list_opts()),
        (PRIVSEP_GROUP, list_privsep_opts()),
    ]


def list_client_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return keystoneauth's options for the groups that access a service."""
    return [
        (options.name, options.list_auth())
        for options in (
            keystone.OPTIONS,
            nova.OPTIONS,
            placement.OPTIONS,
            bitstream_cache.OPTIONS,
            bitstreams.GLANCE_OPTIONS,
        )
    ]
