# SPDX-License-Identifier: Apache-2.0

from oslo_config import cfg

from fpgapool.conf import groups

_group = cfg.OptGroup(
    "messages",
    title="Messages between services",
    help="""
Keys that authenticate the senders of messages, independently of the broker;
see the security model. Controllers have a ``pool_key_file``, hosts with an
agent a ``host_key_file``. By default services accept every message.
""",
)

messages_opts = [
    cfg.StrOpt(
        "pool_key_file",
        sample_default="/etc/fpgapool/pool.key",
        help="""
File with the key of the whole pool, from which all other keys are derived.
Conductors, the API and ``fpgapool-manage`` read it when they start. Each line
has one key of at least 64 hexadecimal digits: the first key signs, all are
accepted. The default is none: every message is accepted.

With it, the conductor accepts only signed messages: a host signs for itself,
and all other senders must sign with the pool's key. Keep it away from hosts
with boards, which have a ``host_key_file``.
""",
    ),
    cfg.StrOpt(
        "host_key_file",
        sample_default="/etc/fpgapool/host.key",
        help="""
File with the key of this host, the output of ``fpgapool-manage host key`` for
its ``host_uuid``. The agent reads it when it starts. The default is none: the
agent does not sign, and accepts every order.
""",
    ),
    cfg.BoolOpt(
        "accept_unsigned",
        default=False,
        help="""
Whether the conductor also accepts unsigned messages although it has a
``pool_key_file``. Turn it on only while the services get their keys: as long
as it is on, the keys protect nothing.
""",
    ),
]

OPTIONS = groups.Options(_group, messages_opts)
