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

The first one makes the tokens of new instances. Further ones, one a line, are
for instances from before a change: they keep their tokens when Nova asks
again. If the key of an instance is gone, the instance then gets another
token, and the one on its config drive becomes invalid. The database holds
hashes only.
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
Certificates by which instances can verify that of the API, a PEM file. Needed
if their images do not trust the authority that has signed it.
""",
    ),
    cfg.BoolOpt(
        "all_instances",
        default=False,
        help="""
Whether all instances get a token, also those whose flavors do not ask for
accelerators. Otherwise an instance gets one only if its flavor has
``fpgapool:accelerators``, or a ``fpgapool:affinity`` other than ``avoid``, or
``fpgapool:sla=high``.
""",
    ),
    cfg.FloatOpt(
        "lookup_timeout_s",
        default=1.0,
        min=0.05,
        max=4.5,
        help="""
Seconds after which the API answers Nova that it has nothing for an instance,
if it has not found out by then; an instance that has a token gets that. Nova
waits for 5 s by default, and the instance does not boot meanwhile.
""",
    ),
    cfg.IntOpt(
        "max_lookups",
        default=8,
        min=1,
        max=1000,
        help="""
Largest number of instances that each process looks up in Nova at the same
time. Further ones get the data that the database holds at once, or nothing.
""",
    ),
    cfg.FloatOpt(
        "requests_per_s",
        default=10,
        min=0,
        max=100000,
        help="""
Number of requests of one instance per second that each process of the API
answers in the long run. Further ones are refused with ``RATE_LIMITED`` and
``Retry-After``. 0 means no limit.
""",
    ),
    cfg.IntOpt(
        "burst",
        default=50,
        min=1,
        max=100000,
        help="""
Number of requests of one instance that are answered without a pause.
""",
    ),
]

OPTIONS = groups.Options(_group, vendordata_opts)
