# SPDX-License-Identifier: Apache-2.0

"""Options of the group [vendordata]."""

from oslo_config import cfg

from fpgapool.conf import groups

vendordata_group = cfg.OptGroup(
    "vendordata",
    title="Vendordata",
    help="""
What instances find about the pool in their metadata, when Nova asks the API
for it, and what they may do by the tokens that are among it.
""",
)

vendordata_opts = [
    cfg.MultiStrOpt(
        "token_keys",
        default=[],
        secret=True,
        sample_default=["<at least 32 random characters>"],
        help="""
Secrets from which the tokens of instances are made. The same on all machines
with the API. Without one, no instance gets a token.

The first one makes the tokens of new instances. Further ones, one a line,
are for instances from before a change: theirs are made again for them when
Nova asks again. An instance whose key is gone gets another token then, and
the one on its config drive is worthless. The database holds hashes only.
""",
    ),
    cfg.URIOpt(
        "api_url",
        schemes=["http", "https"],
        help="""
Where instances reach this API, without ``/v1``. The default is the address
by which Nova has reached it, which instances mostly cannot.
""",
    ),
    cfg.StrOpt(
        "ca_file",
        help="""
Certificates by which instances can verify that of the API, a PEM file. Needed
where it is signed by nobody whom their images know.
""",
    ),
    cfg.BoolOpt(
        "all_instances",
        default=False,
        help="""
Whether instances get a token whose flavors say nothing of accelerators.
Otherwise only those get one whose flavors have ``fpgapool:accelerators``, or
a ``fpgapool:affinity`` other than ``avoid``.
""",
    ),
    cfg.FloatOpt(
        "lookup_timeout_s",
        default=1.0,
        min=0.05,
        max=4.5,
        help="""
Seconds after which Nova is answered that there is nothing for an instance, if
it is not clear by then what it gets; one that has a token gets that. Nova
waits for 5 s by default, and the instance does not boot meanwhile.
""",
    ),
    cfg.IntOpt(
        "max_lookups",
        default=8,
        min=1,
        max=1000,
        help="""
Most instances for which Nova is asked at the same time, in each process.
Further ones get at once what the database holds of them, or nothing.
""",
    ),
    cfg.FloatOpt(
        "requests_per_s",
        default=10,
        min=0,
        max=100000,
        help="""
Requests of one instance per second that each process of the API answers in
the long run. Further ones are refused with ``RATE_LIMITED``, and
``Retry-After`` says for how long. 0 is no limit.
""",
    ),
    cfg.IntOpt(
        "burst",
        default=50,
        min=1,
        max=100000,
        help="""
Requests of one instance that are answered without a pause.
""",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    groups.register(conf, vendordata_group, vendordata_opts)


def list_opts() -> dict[cfg.OptGroup, list[cfg.Opt]]:
    """Return the options of this group for the sample configuration."""
    return {vendordata_group: vendordata_opts}
