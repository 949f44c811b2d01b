# SPDX-License-Identifier: Apache-2.0

"""Options of the group [vendordata]."""

from oslo_config import cfg

from fpgapool.conf import groups

_group = cfg.OptGroup(
    "vendordata",
    title="Vendordata",
    help="""
Data about the pool in the metadata of instances, which Nova requests from the
API, and limits of the instances' tokens.
""",
)

vendordata_opts = [
    cfg.MultiStrOpt(
        "token_keys",
        default=[],
        secret=True,
        sample_default=["<at least 32 random characters>"],
        help="""
Secrets from which the tokens of instances are derived. Use the same on all
machines with the API. Without one, no instance gets a token.

The first key derives the tokens of new instances. Older keys, one per line,
let existing instances keep their tokens when Nova asks again. An instance
whose key is gone gets another token then, and the one on its config drive
becomes invalid. The database holds hashes only.
""",
    ),
    cfg.URIOpt(
        "api_url",
        schemes=["http", "https"],
        help="""
URL by which instances reach this API, without ``/v1``. The default is the URL
that Nova used, which instances often cannot reach.
""",
    ),
    cfg.StrOpt(
        "ca_file",
        help="""
PEM file with the CA certificates by which instances verify the API. Set it if
their images do not trust the CA that signed the API's certificate.
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
        default=1.0,
        min=0.05,
        max=4.5,
        help="""
Seconds that the API takes at most to look up an instance. After that Nova
gets the instance's existing token, or nothing. Nova waits for 5 s by default,
and the instance does not boot meanwhile.
""",
    ),
    cfg.IntOpt(
        "max_lookups",
        default=8,
        min=1,
        max=1000,
        help="""
Maximum number of instances that each process looks up in Nova at the same
time. Further instances immediately get what the database holds, or nothing.
""",
    ),
    cfg.FloatOpt(
        "requests_per_s",
        default=10,
        min=0,
        max=100000,
        help="""
Requests per second that each process of the API answers to one instance, on
average. Further requests are refused with ``RATE_LIMITED`` and
``Retry-After``. 0 means no limit.
""",
    ),
    cfg.IntOpt(
        "burst",
        default=50,
        min=1,
        max=100000,
        help="""
Number of requests that an instance may send in a burst.
""",
    ),
]

OPTIONS = groups.Options(_group, vendordata_opts)
