# SPDX-License-Identifier: Apache-2.0

"""Options of the group [vendordata]."""

from oslo_config import cfg

from fpgapool.conf import groups

_group = cfg.OptGroup(
    "vendordata",
    title="Vendordata",
    help="""
Vendordata that Nova requests from the API for the metadata of instances, and
rate limits for requests with the instances' tokens.
""",
)

vendordata_opts = [
    cfg.MultiStrOpt(
        "token_keys",
        default=[],
        secret=True,
        sample_default=["<at least 32 random characters>"],
        help="""
Secrets from which the tokens of instances are derived. All machines that run
the API need the same keys. Without a key, no instance gets a token.

The tokens of new instances are derived from the first key. Keep older keys
below it, one per line: existing instances then keep their tokens when Nova
asks again. If the key of an instance's token has been removed, the instance
gets a new token when Nova next asks, and the one on its config drive becomes
invalid. The database stores only hashes.
""",
    ),
    cfg.URIOpt(
        "api_url",
        schemes=["http", "https"],
        help="""
URL at which instances reach this API, without ``/v1``. The default is the URL
that Nova used, which instances often cannot reach.
""",
    ),
    cfg.StrOpt(
        "ca_file",
        help="""
PEM file with the CA certificates that instances use to verify the API's
certificate. Set it if their images do not trust the CA that signed it.
""",
    ),
    cfg.BoolOpt(
        "all_instances",
        default=False,
        help="""
Whether all instances get a token. By default an instance gets one only if its
flavor has ``fpgapool:accelerators``, or a ``fpgapool:affinity`` other than
``avoid``, or ``fpgapool:sla=high``.
""",
    ),
    cfg.FloatOpt(
        "lookup_timeout_s",
        default=4.0,
        min=0.05,
        max=4.5,
        help="""
Maximum time in seconds that the API spends looking up an instance. After
that, Nova gets the instance's existing token, or nothing. Nova waits 5 s for
the answer (``vendordata_dynamic_read_timeout`` in the section ``[api]`` of
``nova.conf``), and the instance does not boot meanwhile; lower this option if
Nova waits less. Each lookup occupies a thread of the web server. An API
process does not make Nova wait for an instance that it has looked up before.
""",
    ),
    cfg.IntOpt(
        "max_lookups",
        default=8,
        min=1,
        max=1000,
        help="""
Maximum number of instances that each API process looks up in Nova at the same
time. Further instances immediately get the token that the database has for
them, or nothing.
""",
    ),
    cfg.FloatOpt(
        "requests_per_s",
        default=10,
        min=0,
        max=100000,
        help="""
Average number of requests per second that each API process accepts from one
instance. Further requests are refused with ``RATE_LIMITED`` and
``Retry-After``. 0 means no limit.
""",
    ),
    cfg.IntOpt(
        "burst",
        default=50,
        min=1,
        max=100000,
        help="""
Maximum number of requests that an instance may send in a burst.
""",
    ),
]

OPTIONS = groups.Options(_group, vendordata_opts)
