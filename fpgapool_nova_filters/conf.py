# SPDX-License-Identifier: Apache-2.0

"""Options in nova.conf: the section [fpgapool], and the weigher's multiplier.

It imports nothing of Nova, so that a sample can be generated anywhere.
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
Access of nova-scheduler to fpgapool's API, from which it reads the
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
Seconds for which the scheduler uses the last response of fpgapool before it
fetches another one. 0 means that it fetches one for each request.
""",
    ),
    cfg.FloatOpt(
        "snapshot_max_age_s",
        default=60.0,
        min=0,
        max=86400,
        help="""
Seconds for which the last response of fpgapool stays valid after the first
failed attempt to fetch another one. After that, no host is valid for instances
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
Timeout in seconds of a request to fpgapool's API. One request to the
scheduler waits for it; requests that arrive meanwhile use the last response.

It must be longer than the API waits for its conductor before it answers from
the database: ``[api] read_timeout_s`` of fpgapool (2 s), plus a second for the
rest.
""",
    ),
]

weigher_opts = [
    cfg.FloatOpt(
        "fpga_affinity_weight_multiplier",
        default=10.0,
        help="""
Multiplier of FpgaAffinityWeigher.

Hosts whose boards have the accelerators of the flavor weigh more than others:
by at least half of the multiplier, and by nearly all of it if all slots are
free. For flavors without accelerators, hosts with boards weigh less by half of
it. 0 turns the weigher off.

The default exceeds the sum of Nova's weighers of memory, disk, processors and
running operations, which then decide only between hosts with equal boards.
Aggregate metadata of the same name takes precedence for the aggregate's hosts.

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
    """Register the options; idempotent.

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
