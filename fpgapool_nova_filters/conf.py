# SPDX-License-Identifier: Apache-2.0

"""Options in nova.conf: the section [fpgapool] and the weigher's multiplier.

This module does not import Nova, so that a sample configuration can be
generated anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from keystoneauth1 import loading
from oslo_config import cfg

#: The section with the access to fpgapool.
GROUP = "fpgapool"
#: Nova's own section, with the multipliers of all weighers.
WEIGHER_GROUP = "filter_scheduler"

SERVICE_TYPE = "fpgapool"

fpgapool_group = cfg.OptGroup(
    GROUP,
    title="fpgapool",
    help="""
How nova-scheduler accesses fpgapool's API, from which it reads the
accelerators of each host.

The user needs the role ``service``: use Nova's own user, with the same
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
Seconds for which the scheduler uses the last response from fpgapool before it
fetches a new one. With 0, it fetches one for each request.
""",
    ),
    cfg.FloatOpt(
        "snapshot_max_age_s",
        default=60.0,
        min=0,
        max=86400,
        help="""
Seconds for which the last response from fpgapool stays valid after the first
failed attempt to fetch a new one. After that, no host is valid for instances
that *require* accelerators nearby, and all others are placed as if there were
no boards.

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
Timeout in seconds of a request to fpgapool's API. One scheduling request waits
for the response; others that arrive meanwhile use the last response.

The timeout must be longer than the API waits for its conductor before it
answers from the database. That is ``[api] read_timeout_s`` in fpgapool's
configuration (2 s by default); add a second for everything else.
""",
    ),
]

weigher_opts = [
    cfg.FloatOpt(
        "fpga_affinity_weight_multiplier",
        default=10.0,
        help="""
Multiplier of FpgaAffinityWeigher.

Hosts whose boards have the flavor's accelerators weigh more than others: by
at least half of the multiplier, and by nearly all of it if all slots are free.
For flavors without accelerators, hosts with boards weigh less, by half of the
multiplier. 0 disables the weigher.

The default exceeds the sum of Nova's weighers for memory, disk, processors and
running operations, which then decide only between hosts with equal boards.
For the hosts of an aggregate, aggregate metadata of the same name takes
precedence.

Related options:

* ``weight_classes`` must contain
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
    """Register the options; repeating it changes nothing.

    :param conf: Nova's configuration.
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
