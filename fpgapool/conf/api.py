# SPDX-License-Identifier: Apache-2.0

"""Options of the group [api]."""

from oslo_config import cfg

from fpgapool.conf import groups

api_group = cfg.OptGroup(
    "api",
    title="REST API",
    help="The front door for instances, commands and other services.",
)

api_opts = [
    cfg.StrOpt(
        "auth_strategy",
        default="keystone",
        choices=[
            ("keystone", "tokens of Keystone, see [keystone_authtoken]"),
            ("noauth", "no proof of identity, from this machine only"),
        ],
        help="""
How callers are identified.

With ``noauth`` everybody may act for every project, so that only requests
are answered that come from the loopback device, and whose ``Host`` is
``localhost`` or a loopback address. It is for tests and for
``fpgapool-allinone``.
""",
    ),
    cfg.IntOpt(
        "max_body_bytes",
        default=65536,
        min=1024,
        max=16 * 1024 * 1024,
        help="""
Largest body of a request. Larger ones are refused with ``BODY_TOO_LARGE``.
""",
    ),
    cfg.IntOpt(
        "max_page_length",
        default=1000,
        min=1,
        max=10000,
        help="""
Most members of one page of a list, whatever ``limit`` says.
""",
    ),
    cfg.IntOpt(
        "max_waiters",
        default=16,
        min=0,
        max=1000,
        help="""
Most requests that wait for a session to change at the same time, in each
process. Further ones are answered at once, with ``Retry-After``. Where there
is no room, one of the project that has most of them makes it.

Each takes one of the server's threads, so it is at most two thirds of them
where their number is known; see ``server_threads``. 0 means that none waits.
They all together ask the conductor one question every ``wait_interval_s``.
""",
    ),
    cfg.IntOpt(
        "max_project_requests",
        default=36,
        min=1,
        max=10000,
        help="""
Most requests of one project that are under way at the same time, in each
process. Further ones are refused with ``RATE_LIMITED`` and ``Retry-After``.

Each takes one of the server's threads, also while the conductor does not
answer. So that one project cannot keep all others waiting, it is at most three
quarters of them where their number is known. Those that wait for a session are
among them.

Related options:

* ``server_threads``, where the web server does not say how many it has.
* ``max_waiters`` should be much less, so that a project whose programs wait
  for many sessions can do something else meanwhile.
""",
    ),
    cfg.IntOpt(
        "server_threads",
        min=1,
        max=10000,
        help="""
How many threads each process of the web server has, which is how many requests
it answers at the same time.

uWSGI says it itself; for others, such as gunicorn, set what they are started
with. Where it is not known, ``max_project_requests`` and ``max_waiters`` are
used as they are, and protect nobody if there are fewer threads. With a single
thread there is no protection.
""",
    ),
    cfg.FloatOpt(
        "max_wait_s",
        default=30,
        min=0,
        max=600,
        help="""
Most seconds that a request waits for a session to change, whatever its
``wait_s`` says. It must be less than the time limits of proxies.
""",
    ),
    cfg.FloatOpt(
        "wait_interval_s",
        default=0.25,
        min=0.01,
        max=60,
        help="""
Seconds between questions to the conductor on behalf of waiting requests. The
first ones after a request has begun to wait come sooner.
""",
    ),
    cfg.FloatOpt(
        "conductor_timeout_s",
        default=10,
        min=0.5,
        max=300,
        help="""
Seconds that a request waits for the conductor, before it is answered with
``CONDUCTOR_UNAVAILABLE``.
""",
    ),
    cfg.FloatOpt(
        "read_timeout_s",
        default=2,
        min=0.1,
        max=300,
        help="""
Seconds that a request which changes nothing waits for the conductor, before it
is answered from the database, with the header ``OpenStack-fpgapool-Source:
database``. It is no longer than ``conductor_timeout_s``. nova-scheduler has to
wait longer: ``[fpgapool] snapshot_timeout_s`` in nova.conf.

Until the lease in the database shows that a conductor leads, those that follow
do not wait at all.
""",
    ),
    cfg.IntOpt(
        "retry_after_s",
        default=2,
        min=1,
        max=3600,
        help="""
Seconds after which clients are told to ask again, by ``Retry-After``.
""",
    ),
    cfg.FloatOpt(
        "inventory_cache_s",
        default=1,
        min=0,
        max=60,
        help="""
Seconds for which each process remembers hosts, devices and slots, and the
pool's snapshot. So many requests cost one question to the database or to the
conductor, and their answers are that old at most.

A change by a request is seen at once by those that follow to the same
process. 0 means that each request asks.
""",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    groups.register(conf, api_group, api_opts)


def list_opts() -> dict[cfg.OptGroup, list[cfg.Opt]]:
    """Return the options of this group for the sample configuration."""
    return {api_group: api_opts}
