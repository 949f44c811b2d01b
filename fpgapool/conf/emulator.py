#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Options of the group [emulator]."""

from oslo_config import cfg

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
    conf.register_group(emulator_group)
    conf.register_opts(emulator_opts, group=emulator_group)


def list_opts() -> dict[cfg.OptGroup, list[cfg.Opt]]:
    """Return the options of this group for the sample configuration."""
    return {emulator_group: emulator_opts}
