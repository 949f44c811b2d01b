# SPDX-License-Identifier: Apache-2.0

"""Options of the group [api]."""

from oslo_config import cfg

from fpgapool.conf import groups

_group = cfg.OptGroup(
    "api",
    title="REST API",
    help="The REST API, which instances, commands and other services use.",
)

api_opts = [
    cfg.StrOpt(
        "auth_strategy",
        default="keystone",
        choices=[
            ("keystone", "with Keystone tokens, see [keystone_authtoken]"),
            ("noauth", "not at all; only this machine can send requests"),
        ],
        help="""
How callers are authenticated.

With ``noauth`` every caller may act for every project. Therefore the API then
answers only requests that come through the loopback device and whose ``Host``
header is ``localhost`` or a loopback address. Use it only for tests and for
``fpgapool-allinone``.
""",
    ),
    cfg.IntOpt(
        "max_body_bytes",
        default=65536,
        min=1024,
        max=16 * 1024 * 1024,
        help="""
Maximum size of a request's body, in bytes. Larger bodies are refused with
``BODY_TOO_LARGE``.
""",
    ),
    cfg.IntOpt(
        "max_page_length",
        default=200,
        min=1,
        max=10000,
        help="""
Maximum number of entries on one page of a list, even if the request's
``limit`` is higher. A page also ends before it exceeds 64 KiB.
""",
    ),
    cfg.IntOpt(
        "max_waiters",
        min=0,
        max=10000,
        help="""
Maximum number of requests in each process that can wait at the same time for
a session to change. When another request would exceed this limit, the API
immediately answers one request of the project with the most such requests,
with a ``Retry-After`` header. 0 means that no request waits.

Each waiting request occupies a thread of the server, so these requests get at
most two thirds of the threads if their number is known; see
``server_threads``. This is the default; if the number is unknown, it is 16.
A waiting thread needs memory, and no processor time until its session
changes.
""",
    ),
    cfg.IntOpt(
        "max_project_requests",
        min=1,
        max=10000,
        help="""
Maximum number of concurrent requests of one project, in each process,
including those that wait for a session. Further requests are refused with
``RATE_LIMITED`` and ``Retry-After``.

Each request occupies a thread of the server, even while the conductor does
not answer. If the number of threads is known, a project gets at most three
quarters of them, so that it cannot block all other projects. This is the
default; if the number is unknown, it is 36.

Related options:

* Set ``server_threads`` if the web server does not report how many it has.
* ``max_waiters`` should be lower, so that a project whose programs wait for
  many sessions can still send other requests.
""",
    ),
    cfg.IntOpt(
        "server_threads",
        min=1,
        max=10000,
        help="""
Number of threads in each process of the web server, which is the number of
requests that the process can answer at the same time.

uWSGI reports this number. For other servers, such as gunicorn, set it to the
number of threads with which they are started. Otherwise
``max_project_requests`` and ``max_waiters`` do not depend on it; if the server
has fewer threads than they allow, they do not protect projects from each
other. With a single thread there is no protection.
""",
    ),
    cfg.FloatOpt(
        "max_wait_s",
        default=30,
        min=0,
        max=600,
        help="""
Maximum time in seconds that a request waits for a session to change, even if
its ``wait_s`` is longer. It must be less than the timeouts of proxies.
""",
    ),
    cfg.FloatOpt(
        "wait_interval_s",
        default=0.25,
        min=0.01,
        max=60,
        help="""
Seconds between database queries for waiting requests; one query is for all
requests of a process. Usually the conductor's news of the change wakes a
request at once. The queries find changes whose news was lost, and changes of
sessions that were opened at a host's front door, of which there is no news.
""",
    ),
    cfg.FloatOpt(
        "conductor_timeout_s",
        default=10,
        min=0.5,
        max=300,
        help="""
Seconds that a request waits for the conductor. After that, the API answers
``CONDUCTOR_UNAVAILABLE``.
""",
    ),
    cfg.FloatOpt(
        "read_timeout_s",
        default=2,
        min=0.1,
        max=300,
        help="""
Seconds that a read-only request waits for the conductor. After that, the API
answers from the database alone, with the header
``OpenStack-fpgapool-Source: database``. Values above ``conductor_timeout_s``
are treated as ``conductor_timeout_s``. nova-scheduler must wait longer than
this: see ``[fpgapool] snapshot_timeout_s`` in nova.conf.

After a request has timed out, read-only requests are answered from the
database at once, until the lease there shows that a conductor leads the pool
again.
""",
    ),
    cfg.IntOpt(
        "retry_after_s",
        default=2,
        min=1,
        max=3600,
        help="""
Value of the header ``Retry-After``: seconds after which clients should repeat
a request.
""",
    ),
    cfg.FloatOpt(
        "inventory_cache_s",
        default=1,
        min=0,
        max=60,
        help="""
Seconds for which each process caches hosts, devices and slots, accelerators,
the pool's snapshot, and sessions that have ended. Many requests then share
one query of the database or the conductor, and their answers are at most this
old. 0 disables the cache.

Changes that are made through a process appear immediately in its answers.
""",
    ),
]

OPTIONS = groups.Options(_group, api_opts)
