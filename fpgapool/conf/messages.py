# SPDX-License-Identifier: Apache-2.0

from oslo_config import cfg

from fpgapool.conf import groups

messages_group = cfg.OptGroup(
    "messages",
    title="Messages between services",
    help="""
Keys by which services know whom a message is from, whatever the broker lets
through: see the security model. Controllers have ``pool_key_file``, hosts with
an agent ``host_key_file``; the default is that all is believed.
""",
)

messages_opts = [
    cfg.StrOpt(
        "pool_key_file",
        sample_default="/etc/fpgapool/pool.key",
        help="""
File with the key of the whole pool, from which all others are made; read by
conductors, the API and ``fpgapool-manage`` when they start. It has one key of
64 hexadecimal digits or more in each line, of which the first signs and each
is accepted. The default is none: all messages are believed.

With it, the conductor takes only messages that are signed: those of a host
count for that host, and all others must be signed with the pool's key. Keep
it from hosts with boards, which have a ``host_key_file``.
""",
    ),
    cfg.StrOpt(
        "host_key_file",
        sample_default="/etc/fpgapool/host.key",
        help="""
File with the key of this host, read by the agent when it starts: what
``fpgapool-manage host key`` prints for the ``host_uuid`` of this host. The
default is none: nothing that the agent says is signed, and all that it is
told is believed.
""",
    ),
    cfg.BoolOpt(
        "accept_unsigned",
        default=False,
        help="""
Whether the conductor takes messages without a signature, too, although it has
a ``pool_key_file``. It is for the time until all services have their keys;
until then, nothing is safer than without.
""",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    groups.register(conf, messages_group, messages_opts)


def list_opts() -> dict[cfg.OptGroup, list[cfg.Opt]]:
    """Return the options of this group for the sample configuration."""
    return {messages_group: messages_opts}
