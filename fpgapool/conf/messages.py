# SPDX-License-Identifier: Apache-2.0

from oslo_config import cfg

from fpgapool.conf import groups

_group = cfg.OptGroup(
    "messages",
    title="Messages between services",
    help="""
Keys that authenticate the senders of messages, independently of the broker;
see the security model. Set ``pool_key_file`` on controllers and
``host_key_file`` on hosts with an agent. By default, services accept every
message.
""",
)

messages_opts = [
    cfg.StrOpt(
        "pool_key_file",
        sample_default="/etc/fpgapool/pool.key",
        help="""
File with the key of the whole pool, from which all other keys are derived.
Conductors, the API and ``fpgapool-manage`` read it when they start. Each line
is one key of at least 64 hexadecimal digits. Messages are signed with the
first key, and signatures by any of the keys are accepted. By default there is
no key, and every message is accepted.

With a key, the conductor accepts only signed messages: a host signs its own
with its host key, and all other senders must sign with the pool's key. Keep
this file away from hosts with boards, which have a ``host_key_file``.
""",
    ),
    cfg.StrOpt(
        "host_key_file",
        sample_default="/etc/fpgapool/host.key",
        help="""
File with the key of this host: the output of ``fpgapool-manage host key`` for
its ``host_uuid``. The agent reads it when it starts. Without it, the agent
does not sign its messages, and accepts every order.
""",
    ),
    cfg.BoolOpt(
        "accept_unsigned",
        default=False,
        help="""
Whether the conductor accepts unsigned messages even though it has a
``pool_key_file``. Enable this only while keys are being distributed to the
services: as long as it is enabled, the keys protect nothing.
""",
    ),
]

OPTIONS = groups.Options(_group, messages_opts)
