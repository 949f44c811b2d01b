# SPDX-License-Identifier: Apache-2.0

"""Options of the group [api]."""

from oslo_config import cfg

from fpgapool.conf import groups

_group = cfg.OptGroup(
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

With ``noauth`` every caller may act for every project. Therefore the API
answers only requests from the loopback device whose ``Host`` is ``localhost``
or a loopback address. It is for tests and for ``fpgapool-allinone``.
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
Largest number of members on one page of a list, whatever ``limit`` says.
""",
    ),
    cfg.IntOpt(
        "max_waiters",
        default=16,
        min=0,
        max=1000,
        help="""
Largest number of requests that wait for a session to change at the same time,
in each process. Further ones are answered at once, with ``Retry-After``. If
there is no room, the API answers a waiting request of the project that has
most of them.

Each takes one of the server's threads, so they get at most two thirds of the
threads if their number is known; see ``server_threads``. 0 means that none
waits. All of them together cost one query of the database every
``wait_interval_s``.
""",
    ),
    cfg.IntOpt(
        "max_project_requests",
        default=36,
        min=1,
        max=10000,
        help="""
Largest number of requests of one project that are under way at the same time,
in each process. Further ones are refused with ``RATE_LIMITED`` and
``Retry-After``.

Each takes one of the server's threads, also while the conductor does not
answer. So that one project cannot delay all others, a project gets at most
three quarters of the threads if their number is known. Requests that wait for
a session count, too.

Related options:

* ``server_threads``, if the web server does not say how many it has.
* ``max_waiters`` should be much less, so that a project whose programs wait
  for many sessions can send other requests meanwhile.
""",
    ),
    cfg.IntOpt(
        "server_threads",
        min=1,
        max=10000,
        help="""
Number of threads in each process of the web server: how many requests it
answers at the same time.

uWSGI reports it; for other servers, such as gunicorn, set the number that
they are started with. If it is unknown, ``max_project_requests`` and
``max_waiters`` apply as they are, and protect no project if there are fewer
threads. With a single thread there is no protection.
""",
    ),
    cfg.FloatOpt(
        "max_wait_s",
        default=30,
        min=0,
        max=600,
        help="""
Longest time in seconds that a request waits for a session to change, whatever
its ``wait_s`` says. It must be less than the time limits of proxies.
""",
    ),
    cfg.FloatOpt(
        "wait_interval_s",
        default=0.25,
        min=0.01,
        max=60,
        help="""
Seconds between queries of the database for waiting requests. The first
queries after a request has begun to wait come sooner.
""",
    ),
    cfg.FloatOpt(
        "conductor_timeout_s",
        default=10,
        min=0.5,
        max=300,
        help="""
Seconds that a request waits for the conductor, before the API answers
``CONDUCTOR_UNAVAILABLE``.
""",
    ),
    cfg.FloatOpt(
        "read_timeout_s",
        default=2,
        min=0.1,
        max=300,
        help="""
Seconds that a request which changes nothing waits for the conductor, before
the API answers it from the database alone, with the header
``OpenStack-fpgapool-Source: database``. It is no longer than
``conductor_timeout_s``. nova-scheduler has to wait longer: ``[fpgapool]
snapshot_timeout_s`` in nova.conf.

Until the lease in the database shows that a conductor leads, later requests
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
Seconds for which each process caches hosts, devices and slots, the pool's
snapshot, and sessions that are over. Many requests then cost one query of the
database or one question to the conductor, and their answers are at most that
old.

Later requests to the same process see the change of a request at once. 0
switches the cache off.
""",
    ),
]

OPTIONS = groups.Options(_group, api_opts)
