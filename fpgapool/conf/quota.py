# SPDX-License-Identifier: Apache-2.0

"""Options of the group [quota]."""

from oslo_config import cfg

from fpgapool.conf import groups

LOCAL = "local"
UNIFIED = "unified"

_group = cfg.OptGroup(
    "quota",
    title="Quotas",
    help="""
How much of the pool a project may use at a time. The conductor enforces these
options and the API shows them, so that both need the same ones. -1 means
unlimited, and 0 none at all.
""",
)

quota_opts = [
    cfg.StrOpt(
        "driver",
        default=LOCAL,
        choices=[
            (LOCAL, "The options below, and limits set through the API."),
            (
                UNIFIED,
                "Keystone's unified limits. They need the package oslo.limit"
                " and the group [oslo_limit].",
            ),
        ],
        help="""
Where the limits of projects come from.

With ``unified``, the options below apply to resources without a registered
limit in Keystone, and until Keystone has answered for the first time.
""",
    ),
    cfg.IntOpt(
        "sessions",
        default=64,
        min=-1,
        max=2**63 - 1,
        help="""
Largest number of slots that a project has at a time. Its further sessions
wait, with ``PROJECT_SESSION_LIMIT`` as the reason, until it releases a slot;
sessions of other projects pass them.

The default keeps a project from having all slots of all but small pools. A
good value is about half of the slots of the pool. The limit never refuses a
request, and lowering it takes no slot away.
""",
    ),
    cfg.IntOpt(
        "queued",
        default=20000,
        min=-1,
        max=2**63 - 1,
        help="""
Largest number of requests of a project that wait at a time. Further ones are
refused with ``QUOTA_EXCEEDED``.

A good value is far above the needs of a project in a busy hour and far below
``[conductor] max_queued_sessions``, so that no project can fill the queue
alone. The default is a tenth of that option's default.
""",
    ),
    cfg.IntOpt(
        "queued_bytes",
        default=2**50,
        min=-1,
        max=2**63 - 1,
        help="""
Largest number of bytes that the waiting requests of a project claim together.
Further requests, and any that claims more by itself, are refused with
``QUOTA_EXCEEDED``.

The default, 1 PiB, is that of ``[conductor] max_claimed_bytes``: the largest
request can wait, but only one of them.
""",
    ),
    cfg.IntOpt(
        "bitstream_bytes",
        default=10 * 2**30,
        min=-1,
        max=2**63 - 1,
        help="""
Largest total size of a project's own bitstreams in bytes. Further ones are
refused with ``QUOTA_EXCEEDED``. The default, 10 GiB, is enough for some
hundreds.
""",
    ),
    cfg.IntOpt(
        "groups",
        default=16,
        min=-1,
        max=2**31 - 1,
        help="""
Largest number of groups of a project. Further ones are refused with
``QUOTA_EXCEEDED``.
""",
    ),
    cfg.IntOpt(
        "group_slots",
        default=64,
        min=-1,
        max=2**31 - 1,
        help="""
Largest number of slots that the groups of a project may grow to together: the
``max_size`` of elastic groups, and the ``size`` of others. Requests for more
are refused with ``QUOTA_EXCEEDED``. The default is that of ``sessions``.
""",
    ),
    cfg.IntOpt(
        "group_clients",
        default=1000,
        min=-1,
        max=2**31 - 1,
        help="""
Largest number of clients that a project has attached to groups, its own ones
and those that other projects share with it. Further ones are refused with
``QUOTA_EXCEEDED``.
""",
    ),
    cfg.IntOpt(
        "max_priority",
        default=0,
        min=-1,
        max=2**31 - 1,
        help="""
Highest priority of a project's sessions that counts against other projects,
whose slots they may take with ``[scheduler] preempt``. Higher ones count as
this one there. Within the project all priorities count.
""",
    ),
    cfg.FloatOpt(
        "refresh_interval_s",
        default=60,
        min=1,
        max=86400,
        help="""
Seconds between two questions to Keystone for all limits; only for the driver
``unified``. A change in Keystone takes effect within that time.
""",
    ),
]

OPTIONS = groups.Options(_group, quota_opts)
