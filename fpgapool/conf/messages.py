# SPDX-License-Identifier: Apache-2.0

from oslo_config import cfg

from fpgapool.conf import groups

_group = cfg.OptGroup(
    "messages",
    title="Messages between services",
    help="""
Keys that prove the sender of a message, whatever the broker lets through: see
the security model. Controllers have ``pool_key_file``, hosts with an agent
``host_key_file``; by default services accept every message.
""",
)

messages_opts = [
    cfg.StrOpt(
        "pool_key_file",
        sample_default="/etc/fpgapool/pool.key",
        help="""
File with the key of the whole pool, from which all others are derived;
conductors, the API and ``fpgapool-manage`` read it when they start. Each line
has one key of at least 64 hexadecimal digits. The first key signs, and all
are accepted. The default is none: every message is accepted.

With it, the conductor accepts only signed messages: those of a host count for
that host, and all others must be signed with the pool's key. Keep it away
from hosts with boards, which have a ``host_key_file``.
""",
    ),
    cfg.StrOpt(
        "host_key_file",
        sample_default="/etc/fpgapool/host.key",
        help="""
File with the key of this host, which the agent reads when it starts: the
output of ``fpgapool-manage host key`` for the ``host_uuid`` of this host. The
default is none: the agent signs nothing, and accepts every order.
""",
    ),
    cfg.BoolOpt(
        "accept_unsigned",
        default=False,
        help="""
Whether the conductor also accepts messages without a signature, although it
has a ``pool_key_file``. Use it until all services have their keys; until
then, the keys protect nothing.
""",
    ),
]

OPTIONS = groups.Options(_group, messages_opts)
