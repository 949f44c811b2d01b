# SPDX-License-Identifier: Apache-2.0

"""Permissions of a host's user of the broker, in RabbitMQ's terms.

Names are those that oslo.messaging gives to queues and exchanges. A host with
such a user reads only its own messages, and writes only to conductors. The
broker does not identify the sender of a message: keys do
(:mod:`fpgapool.common.messaging.signing`).
"""

from __future__ import annotations

import shlex

from fpgapool.common.messaging import rpc
from fpgapool.rpcapi import agent
from fpgapool.rpcapi import conductor


def commands(host_uuid: str, user: str, vhost: str) -> list[str]:
    """Return the commands that give a user of the broker these permissions.

    :param host_uuid: of the user's host, as in its configuration.
    """
    own = rf"{agent.TOPIC}(\.{host_uuid})?"
    queues = rf"{own}|{agent.TOPIC}_fanout_[0-9a-f]+|reply_[0-9a-f]+"
    both = f"^({rpc.EXCHANGE}|{agent.TOPIC}_fanout|{queues})$"
    topics = rf"^({conductor.TOPIC}(\.leader-[0-9]+)?|{rpc.NOBODY})$"
    wanted = {
        # To configure, to write, and to read.
        "set_permissions": (both, f"^({rpc.EXCHANGE}|{queues})$", both),
        # To write and to read, by routing keys.
        "set_topic_permissions": (rpc.EXCHANGE, topics, f"^{own}$"),
    }
    return [
        shlex.join(("rabbitmqctl", command, "-p", vhost, user, *values))
        for command, values in wanted.items()
    ]
