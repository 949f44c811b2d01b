# SPDX-License-Identifier: Apache-2.0

"""Options of the group [notifications]."""

from oslo_config import cfg

from fpgapool.conf import groups

_group = cfg.OptGroup(
    "notifications",
    title="Notifications",
    help="""
Notifications of events in the pool. They are sent only if ``driver`` in the
group ``[oslo_messaging_notifications]`` is set, usually to ``messagingv2``.
The topics are also set there.
""",
)

notifications_opts = [
    cfg.IntOpt(
        "max_queued",
        default=10000,
        min=1,
        max=10_000_000,
        help="""
Maximum number of notifications that wait to be sent while the message bus is
unavailable or slow. The conductor never waits for the bus: it drops further
notifications, and counts them.
""",
    ),
]

OPTIONS = groups.Options(_group, notifications_opts)
