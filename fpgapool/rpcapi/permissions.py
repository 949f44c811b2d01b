# SPDX-License-Identifier: Apache-2.0

"""RabbitMQ permissions of a host's broker user.

The names of queues and exchanges are oslo.messaging's. With such a user, a
host can read only its own messages and write only to conductors. The broker
does not authenticate the sender of a message; signatures do
(:mod:`fpgapool.common.messaging.signing`).
"""

from __future__ import annotations

import shlex

from fpgapool.common.messaging import rpc
from fpgapool.rpcapi import agent
from fpgapool.rpcapi import conductor


def commands(host_uuid: str, user: str, vhost: str) -> list[str]:
    """Return the commands that grant these permissions to a broker user.

    :param host_uuid: the host's UUID, as in its configuration.
    """
    own = rf"{agent.TOPIC}(\.{host_uuid})?"
    queues = rf"{own}|{agent.TOPIC}_fanout_[0-9a-f]+|reply_[0-9a-f]+"
    both = f"^({rpc.EXCHANGE}|{agent.TOPIC}_fanout|{queues})$"
    topics = rf"^({conductor.TOPIC}(\.leader-[0-9]+)?|{rpc.NOBODY})$"
    wanted = {
        # The queues and exchanges to configure, to write to, and to read from.
        "set_permissions": (both, f"^({rpc.EXCHANGE}|{queues})$", both),
        # The exchange, then the routing keys to write to and to read from.
        "set_topic_permissions": (rpc.EXCHANGE, topics, f"^{own}$"),
    }
    return [
        shlex.join(("rabbitmqctl", command, "-p", vhost, user, *values))
        for command, values in wanted.items()
    ]
