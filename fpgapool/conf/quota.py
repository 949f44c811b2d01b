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
How much of the pool a project may use at the same time. The conductor
enforces these options and the API shows them, so both need the same values.
-1 means unlimited, and 0 means none at all.
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
                "Keystone's unified limits; requires the package oslo.limit"
                " and the group [oslo_limit].",
            ),
        ],
        help="""
Where the limits of projects are kept.

With ``unified``, the options below apply to resources that have no registered
limit in Keystone, and to all resources until Keystone first answers.
""",
    ),
    cfg.IntOpt(
        "sessions",
        default=64,
        min=-1,
        max=2**63 - 1,
        help="""
Maximum number of slots that a project may hold at the same time. Its further
sessions wait, with the reason ``PROJECT_SESSION_LIMIT``, until it releases a
slot; sessions of other projects overtake them.

The default stops one project from taking every slot, except in small pools. A
good value is about half of the pool's slots. The limit never causes a request
to be refused, and lowering it does not take slots away.
""",
    ),
    cfg.IntOpt(
        "queued",
        default=20000,
        min=-1,
        max=2**63 - 1,
        help="""
Maximum number of waiting requests of a project. Further requests are refused
with ``QUOTA_EXCEEDED``.

A good value is far above what a project needs in a busy hour, and far below
``[conductor] max_queued_sessions``, so that a single project cannot fill the
queue. The default is a tenth of that option's default.
""",
    ),
    cfg.IntOpt(
        "queued_bytes",
        default=2**50,
        min=-1,
        max=2**63 - 1,
        help="""
Maximum total number of bytes that the waiting requests of a project claim. A
request that would exceed it is refused with ``QUOTA_EXCEEDED``, even if no
other request is waiting.

The default, 1 PiB, equals that of ``[conductor] max_claimed_bytes``: one
request of the largest size can wait, but not two.
""",
    ),
    cfg.IntOpt(
        "live_per_user",
        default=-1,
        min=-1,
        max=2**63 - 1,
        help="""
Maximum number of sessions that one user of a project may have at the same
time, waiting or with a slot. The user's further requests are refused with
``QUOTA_EXCEEDED``; other users of the project may still use its limits.

Groups do not count. Programs that use the pool through the agent on a host
are one user for each user ID there, and each instance is a user.
""",
    ),
    cfg.IntOpt(
        "sessions_per_user",
        default=-1,
        min=-1,
        max=2**31 - 1,
        help="""
Maximum number of slots that one user of a project may hold at the same time.
The user's further sessions wait, with the reason ``USER_SESSION_LIMIT``, until
one of its slots is released; sessions of other users overtake them. No request
is refused, and lowering the limit does not take slots away.

Groups do not count. Users are those of ``live_per_user``.
""",
    ),
    cfg.IntOpt(
        "user_turns",
        default=0,
        min=-1,
        max=1,
        help="""
Whether the users of a project take turns: 1 if they do, 0 or -1 if the
strategy's order decides between their sessions.

With turns, the users of a project who wait get about the same number of bytes,
however many sessions each of them opens. Sessions with a higher priority still
come first, and so do urgent ones (``[conductor] max_wait_s``).
""",
    ),
    cfg.IntOpt(
        "bitstream_bytes",
        default=10 * 2**30,
        min=-1,
        max=2**63 - 1,
        help="""
Maximum total size of a project's own bitstreams, in bytes. Further bitstreams
are refused with ``QUOTA_EXCEEDED``. The default, 10 GiB, is enough for a few
hundred bitstreams.
""",
    ),
    cfg.IntOpt(
        "groups",
        default=16,
        min=-1,
        max=2**31 - 1,
        help="""
Maximum number of groups of a project. Further groups are refused with
``QUOTA_EXCEEDED``.
""",
    ),
    cfg.IntOpt(
        "group_slots",
        default=64,
        min=-1,
        max=2**31 - 1,
        help="""
Maximum total number of slots to which the groups of a project may grow: the
``max_size`` of elastic groups plus the ``size`` of all others. Requests for
more are refused with ``QUOTA_EXCEEDED``. The default equals that of
``sessions``.
""",
    ),
    cfg.IntOpt(
        "group_clients",
        default=1000,
        min=-1,
        max=2**31 - 1,
        help="""
Maximum number of clients that a project may attach to groups, both its own
and those that other projects share with it. Further clients are refused with
``QUOTA_EXCEEDED``.
""",
    ),
    cfg.IntOpt(
        "max_priority",
        default=0,
        min=-1,
        max=2**31 - 1,
        help="""
Highest priority with which a project's sessions compete for the slots of
other projects, under ``[scheduler] preempt``. Higher priorities count as this
value there; within the project, they apply in full.
""",
    ),
    cfg.IntOpt(
        "reservation_slots",
        default=0,
        min=-1,
        max=2**31 - 1,
        help="""
Maximum total number of slots of a project's reservations by calendar that have
not ended. Requests for more are refused with ``QUOTA_EXCEEDED``; those of
administrators are not. By default only administrators can reserve slots, for
any project: reserved slots are taken from all others, whoever waits.
""",
    ),
    cfg.IntOpt(
        "reservation_times",
        default=1000,
        min=-1,
        max=2**31 - 1,
        help="""
Maximum total number of times of a project's reservations by calendar that have
not ended: one that recurs counts each of its times. Requests for more are
refused with ``QUOTA_EXCEEDED``; those of administrators are not.

The default is a tenth of the 10,000 times that the pool keeps together, so
that a single project cannot use them up.
""",
    ),
    cfg.FloatOpt(
        "refresh_interval_s",
        default=60,
        min=1,
        max=86400,
        help="""
Interval in seconds at which the conductor reads all limits from Keystone, if
``driver`` is ``unified``. A change in Keystone takes effect within that time.
""",
    ),
]

OPTIONS = groups.Options(_group, quota_opts)
