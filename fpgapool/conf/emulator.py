# SPDX-License-Identifier: Apache-2.0

"""Options of the group [emulator]."""

from oslo_config import cfg

from fpgapool.conf import groups

emulator_group = cfg.OptGroup(
    "emulator",
    title="Emulator",
    help="The driver that emulates boards in software.",
)

emulator_opts = [
    cfg.StrOpt(
        "boards_file",
        help="""
YAML file that describes the emulated boards of this host: their rates, shapes
and slots. Needed if ``[agent] driver`` is ``emulator``; there is no default.
""",
    ),
    cfg.StrOpt(
        "cluster_dir",
        help="""
Directory that all agents with emulated boards on this machine share, so that
their emulated hosts form one cluster: remote sessions share the modelled NICs
of both hosts that they cross. All of them need the same ``rate_scale`` in
their boards files, and each a ``[DEFAULT] host_uuid`` of its own. It is made
if it is missing. By default a host emulates itself alone: remote sessions
share its own NIC, and that of the other host counts as unlimited.
""",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    groups.register(conf, emulator_group, emulator_opts)


def list_opts() -> dict[cfg.OptGroup, list[cfg.Opt]]:
    """Return the options of this group for the sample configuration."""
    return {emulator_group: emulator_opts}
