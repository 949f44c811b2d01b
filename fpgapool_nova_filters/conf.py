# SPDX-License-Identifier: Apache-2.0

"""Options in nova.conf: the section [fpgapool], and the weigher's multiplier.

Nothing of Nova is imported here, so that a sample can be made anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from keystoneauth1 import loading
from oslo_config import cfg

#: The section that says how to reach fpgapool.
GROUP = "fpgapool"
#: Nova's own, where the multipliers of all weighers are.
WEIGHER_GROUP = "filter_scheduler"

SERVICE_TYPE = "fpgapool"

fpgapool_group = cfg.OptGroup(
    GROUP,
    title="fpgapool",
    help="""
How nova-scheduler asks fpgapool's API which hosts have which accelerators.

It needs a user with the role ``service``: Nova's own will do, with the same
authentication options as in ``[placement]``.
""",
)

snapshot_opts = [
    cfg.FloatOpt(
        "snapshot_ttl_s",
        default=5.0,
        min=0,
        max=3600,
        help="""
Seconds for which the scheduler goes by what fpgapool has told it before it
asks again. 0 means that it asks for each request.
""",
    ),
    cfg.FloatOpt(
        "snapshot_max_age_s",
        default=60.0,
        min=0,
        max=86400,
        help="""
Seconds for which what fpgapool has told last counts after the first failure to
ask it again. From then on no host is good for instances that *require*
accelerators nearby, while all others are placed as if there were no boards.

Related options:

* ``snapshot_ttl_s`` should be several times shorter.
""",
    ),
    cfg.FloatOpt(
        "snapshot_timeout_s",
        default=4.0,
        min=0.1,
        max=60,
        help="""
Seconds that a request to fpgapool's API may take. One request to the scheduler
waits for it; those that come meanwhile go by what was told before.

It has to be longer than the API itself waits for its conductor before it
answers from the database: ``[api] read_timeout_s`` of fpgapool (2 s), and a
second for the rest.
""",
    ),
]

weigher_opts = [
    cfg.FloatOpt(
        "fpga_affinity_weight_multiplier",
        default=10.0,
        help="""
Multiplier of FpgaAffinityWeigher.

Hosts whose boards have the accelerators that a flavor asks for weigh at least
half of it more than others, and nearly the whole of it if all is free. For
flavors that do not ask, hosts with boards weigh half of it less. The default
is more than what Nova's weighers of memory, disk, processors and running
operations have together, so that they decide between hosts that are alike in
this. 0 switches it off.

An aggregate's metadata of the same name take precedence for its hosts.

Related options:

* ``weight_classes`` has to name
  ``fpgapool_nova_filters.weights.FpgaAffinityWeigher``.
""",
    ),
]


def _adapter_opts() -> list[cfg.Opt]:
    opts: list[cfg.Opt] = loading.get_adapter_conf_options(
        include_deprecated=False
    )
    cfg.set_defaults(
        opts,
        service_type=SERVICE_TYPE,
        valid_interfaces=["internal", "public"],
    )
    return opts


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the options; again is harmless.

    :param conf: Nova's.
    """
    conf.register_group(fpgapool_group)
    loading.register_session_conf_options(conf, GROUP)
    loading.register_auth_conf_options(conf, GROUP)
    conf.register_opts(_adapter_opts(), group=GROUP)
    conf.register_opts(snapshot_opts, group=GROUP)
    conf.register_opts(weigher_opts, group=WEIGHER_GROUP)


def list_opts() -> list[tuple[object, Sequence[cfg.Opt]]]:
    """Return the options for a sample configuration."""
    return [
        (
            fpgapool_group,
            [
                *snapshot_opts,
                *loading.get_auth_common_conf_options(),
                *loading.get_auth_plugin_conf_options("password"),
                *loading.get_session_conf_options(),
                *_adapter_opts(),
            ],
        ),
        (WEIGHER_GROUP, weigher_opts),
    ]
